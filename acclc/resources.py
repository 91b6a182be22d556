"""Where the grammar and the templates lie: inside the installed package, or in the checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Return the folder ``grammar`` or ``templates``: the wheel's copy if it exists, else the checkout's.

    Raises:
        FileNotFoundError: the installation is damaged.
    """
    for candidate in (_PACKAGE / "_shipped" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"acclc is installed without its folder {name!r}; install it again")
