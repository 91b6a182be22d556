"""Options and small helpers that several commands share."""

from __future__ import annotations

import errno
import functools
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from acclc.cli.failures import describe

if TYPE_CHECKING:
    from acclc.artefact import Artefact, CompiledCollective, Variant
    from acclc.driver import Options

F = TypeVar("F", bound=Callable[..., Any])

only_option = click.option(
    "--only", metavar="NAME[/VARIANT]", help="One collective of the artefact, or one variant of it."
)
artefact_argument = click.argument("artefact", type=click.Path(path_type=Path))
topology_option = click.option(
    "--topology",
    metavar="NAME_OR_FILE",
    help="Where ARTEFACT is an algorithm of MSCCL: the machine, built in (dgx1), an .accl file or an import.",
)
file_argument = click.argument("file", type=click.Path(path_type=Path))


def json_option(command: F) -> F:
    """Add ``--json``: exactly one JSON object on standard output, after a failure too."""

    @functools.wraps(command)
    def answering(*arguments: Any, as_json: bool, **options: Any) -> Any:
        try:
            return command(*arguments, as_json=as_json, **options)
        except BrokenPipeError:
            raise
        except Exception as error:
            if as_json:
                print_json(describe(error))
            raise

    return click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON object.")(cast(F, answering))


def damage_options(command: F) -> F:
    """Add ``--without`` and ``--degrade``: links that are gone or slower."""
    slower = click.option(
        "--degrade", multiple=True, metavar="LINK=RATE", help='Make links slower: "g[0] <-> g[1] = 10 GB/s".'
    )
    gone = click.option("--without", multiple=True, metavar="LINK", help='Take links away: "g[0] <-> g[1]".')
    return gone(slower(command))


def machine_options(command: F) -> F:
    """Add the options that say of which machine a file is meant: ``--set``, ``--without``, ``--degrade``."""
    setting = click.option("--set", "settings", multiple=True, metavar="N=V", help="Set a parameter of a topology.")
    return setting(damage_options(command))


def search_options(command: F) -> F:
    """Add the options that say how hard to try."""
    for option in reversed(
        [
            click.option(
                "--time-limit",
                type=click.FloatRange(min=0, min_open=True),
                metavar="S",
                help="Seconds for each collective; at the end the best so far is kept.",
            ),
            click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True),
            click.option(
                "--workers",
                type=click.IntRange(1, 256),
                default=1,
                show_default=True,
                help="Solver threads; with more than one the result is not reproducible.",
            ),
        ]
    ):
        command = option(command)
    return command


def parse_settings(settings: Iterable[str]) -> dict[str, int]:
    """Read ``--set N=V`` options."""
    values: dict[str, int] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        try:
            if not equals or not name.strip().isidentifier():
                raise ValueError
            values[name.strip()] = int(value, 0)
        except ValueError:
            raise click.BadParameter(f"{text!r} is not of the form NAME=NUMBER", param_hint="--set") from None
    return values


def make_options(
    settings: Iterable[str],
    without: Iterable[str],
    degrade: Iterable[str],
    time_limit: float | None,
    seed: int,
    workers: int,
) -> Options:
    """Gather the options of :func:`machine_options` and :func:`search_options`."""
    from acclc.driver import Options

    return Options(parse_settings(settings), tuple(without), tuple(degrade), time_limit, seed, workers)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output; strict JSON (no NaN)."""
    json.dump(_strict(value), sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def select(artefact: Artefact, only: str | None) -> list[tuple[CompiledCollective, tuple[Variant, ...]]]:
    """The collectives and variants that ``--only NAME[/VARIANT]`` names; without a variant each schedule once."""
    if only is None:
        return [(c, c.schedules) for c in artefact.collectives]
    name, _, variant = only.partition("/")
    for collective in artefact.collectives:
        if collective.name == name:
            chosen = tuple(v for v in collective.variants if v.id == variant) if variant else collective.schedules
            if not chosen:
                have = ", ".join(v.id for v in collective.variants)
                raise click.BadParameter(f"{name} has no variant {variant!r}; it has {have}", param_hint="--only")
            return [(collective, chosen)]
    have = ", ".join(c.name for c in artefact.collectives)
    raise click.BadParameter(f"no collective {name!r} in the artefact; it has {have}", param_hint="--only")


def load_any(path: Path, topology: str | None, needs_topology: bool = False) -> Artefact:
    """Load an artefact, or bring an algorithm of MSCCL (a file) onto a topology."""
    from acclc.artefact import load_artefact
    from acclc.foreign import artefact_of, is_foreign, read_imported

    if not is_foreign(path):
        if topology is not None:
            raise click.UsageError("--topology is for an algorithm of MSCCL; an artefact has its own")
        return load_artefact(path)
    if topology is None:
        read_imported(path)  # a file that is no algorithm is at fault, not the options
        if needs_topology:
            raise click.UsageError(f"{path} does not say what the machine is; name it: --topology dgx1")
        return artefact_of(path, None)
    from acclc import topologies

    found = topologies.load(topology)
    if len(found) != 1:
        raise click.BadParameter(f"{topology} has {len(found)} topologies; one is needed", param_hint="--topology")
    return artefact_of(path, found[0])


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; ``-`` is standard output."""
    if str(path) == "-":
        sys.stdout.write(text)
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
