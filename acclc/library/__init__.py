"""The built-in topologies, written in the language itself: one file each, named as the topology in it."""

from __future__ import annotations

from functools import cache
from importlib import resources

from acclc.source import Source

_SUFFIX = ".accl"


@cache
def names() -> tuple[str, ...]:
    """Return the names of all built-in topologies, sorted."""
    files = (file.name for file in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX)))


def source(name: str) -> Source:
    """Return the text of a built-in topology.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in names():
        raise KeyError(name)
    text = resources.files(__name__).joinpath(name + _SUFFIX).read_text(encoding="utf-8")
    return Source(f"<library>/{name}{_SUFFIX}", text)
