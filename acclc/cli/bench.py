"""``acclc bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from acclc.cli.common import json_option, only_option, print_json, write_text
from acclc.cli.engines import engine_option, mpi_job
from acclc.cli.failures import FAULT, OK
from acclc.cli.sizes import SIZE

if TYPE_CHECKING:
    from acclc_runtime.bench import BenchRow, Case
    from acclc_runtime.manifest import Manifest


@click.command("bench")
@click.argument("artefact", type=click.Path(path_type=Path), required=False)
@click.option("-b", "begin", type=SIZE, default="8", show_default=True, help="Smallest S in bytes.")
@click.option("-e", "end", type=SIZE, default="64M", show_default=True, help="Largest S in bytes.")
@click.option("-f", "factor", type=click.IntRange(2, 1 << 20), help="S grows by this factor. [2]")
@click.option("-i", "step", type=SIZE, help="S grows by so many bytes instead.")
@click.option("-n", "iterations", type=click.IntRange(1, 10**6), default=20, show_default=True, help="Timed calls.")
@click.option("-w", "warm_up", type=click.IntRange(0, 10**6), default=1, show_default=True, help="Calls before them.")
@click.option("-c", "check", type=click.IntRange(0, 1), default=1, show_default=True, help="1: results are checked.")
@click.option("-o", "op", type=click.Choice(["sum", "prod", "min", "max", "avg"]), help="Operator. [as compiled]")
@click.option("-d", "dtype", default="float", show_default=True, help="Type: float, half, bfloat16, int32, ...")
@click.option("-r", "root", type=click.IntRange(0), help="Only collectives of this root, and those that have none.")
@click.option("-J", "json_file", type=click.Path(path_type=Path), help="Write the rows there, too.")
@click.option(
    "--transport",
    type=click.Choice(["memory", "cpu", "cuda", "numpy"]),
    default="memory",
    show_default=True,
    help="memory: a process a rank; the others: all ranks in one process.",
)
@click.option("--vs", metavar="mpi[=PYTHON[:MPIEXEC]]", multiple=True, help="A peer's times beside ours.")
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="A B",
    help="Compare two logs: ours, -J files, or those of nccl-tests.",
)
@engine_option
@only_option
@json_option
def command(artefact: Path | None, compare: tuple[Path, Path] | None, **options: Any) -> int:
    """Time the collectives of ARTEFACT: the table of nccl-tests, results checked, with the bound's time beside."""
    if compare is not None:
        return _compare(*compare)
    if artefact is None:
        raise click.UsageError("name an artefact, or two logs with --compare")
    if options["engine"] is None:
        return _bench(artefact, **options)
    with mpi_job() as world:
        if world.Get_rank() > 0:  # only rank 0 leaves anything behind
            options |= {"vs": (), "json_file": None}
        return _bench(artefact, **options)


def _compare(a: Path, b: Path) -> int:
    from acclc.nccl_tests import compare, read_log
    from acclc_runtime.errors import ArgumentError

    click.echo(f"A: {a}\nB: {b}")
    try:
        rows = [read_log(path.read_text(encoding="utf-8", errors="replace"), str(path)) for path in (a, b)]
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    for line in compare(*rows):
        click.echo(line)
    return OK


def _bench(
    artefact: Path,
    begin: int,
    end: int,
    factor: int | None,
    step: int | None,
    iterations: int,
    warm_up: int,
    check: int,
    op: str | None,
    dtype: str,
    root: int | None,
    json_file: Path | None,
    transport: str,
    vs: tuple[str, ...],
    engine: str | None,
    only: str | None,
    as_json: bool,
) -> int:
    from acclc.artefact import load_artefact
    from acclc.forecast import bound_seconds
    from acclc.nccl_tests import footer, header, line
    from acclc_runtime.bench import Effort, bench, cases

    if factor is not None and step is not None:
        raise click.UsageError("-f and -i exclude each other")
    loaded = load_artefact(artefact)
    wanted = cases(loaded.manifest(), _sizes(begin, end, factor or 2, step), dtype, op, only, root)
    collectives = {c.name: c for c in loaded.collectives}
    transport = engine or transport
    peers = [_peer(text, wanted, loaded.manifest(), iterations) for text in vs]
    rows: list[BenchRow] = []
    bounds: list[float] = []
    previous = None
    for number, row in enumerate(bench(artefact, transport, wanted, Effort(iterations, warm_up, bool(check)))):
        rows.append(row)
        collective = collectives[row.case.collective]
        bounds.append(float(bound_seconds(collective.problem, collective.proof.bound, row.case.size)))
        if as_json:
            continue
        if row.case.collective != previous:
            for text in header(_title(row, transport), ["bound", *(name for name, _ in peers)]):
                click.echo(text)
            previous = row.case.collective
        click.echo(line(row, [bounds[-1], *(times[number] for _, times in peers)]))
    told = _to_dict(artefact, transport, rows, bounds, peers)
    if json_file is not None:
        import json

        write_text(json_file, json.dumps(told, indent=1) + "\n")
    if as_json:
        print_json(told)
    else:
        for text in footer(rows):
            click.echo(text)
    return FAULT if any(side and side.wrong for row in rows for side in (row.out_of_place, row.in_place)) else OK


def _sizes(begin: int, end: int, factor: int, step: int | None) -> list[int]:
    if end < begin or (step is not None and step <= 0):
        raise click.BadParameter(
            f"from {begin} to {end} bytes in steps of {step or factor}: no sizes", param_hint="-b -e"
        )
    sizes = []
    size = max(1, begin)
    while size <= end:
        sizes.append(size)
        size = size + step if step is not None else size * factor
    return sizes


def _title(row: BenchRow, transport: str) -> str:
    variant = f"/{row.case.variant}" if row.case.variant else ""
    return f"acclc bench: {row.case.collective}{variant} ({row.kind}), {row.ranks} ranks, {transport}"


def _peer(text: str, wanted: list[Case], manifest: Manifest, iterations: int) -> tuple[str, list[float | None]]:
    """Time a peer at the same sizes; None for what it does not have, as for ranks that are a part of the machine."""
    from acclc_runtime.dtypes import named
    from acclc_runtime.peers.mpi import Mpi

    name, _, where = text.partition("=")
    if name != "mpi":
        raise click.BadParameter(f"no peer {name!r}; there is: mpi", param_hint="--vs")
    kinds = {c.name: c for c in manifest.collectives}
    seconds: dict[int, float | None] = {}
    version = name
    for ranks in dict.fromkeys(len(kinds[case.collective].ranks) for case in wanted):
        mine = [n for n, case in enumerate(wanted) if len(kinds[case.collective].ranks) == ranks]
        cells: list[Any] = [
            (kinds[c.collective].collective, c.size, iterations, named(c.dtype).storage.str, c.op)
            for c in (wanted[n] for n in mine)
        ]
        version, found = Mpi.of(where).seconds(ranks, cells)
        seconds |= dict(zip(mine, found, strict=True))
    click.echo(f"# {name}: {version}", err=True)
    return name, [seconds[n] for n in range(len(wanted))]


def _to_dict(
    artefact: Path,
    transport: str,
    rows: list[BenchRow],
    bounds: list[float],
    peers: list[tuple[str, list[float | None]]],
) -> dict[str, Any]:
    return {
        "artefact": str(artefact),
        "transport": transport,
        "rows": [
            row.to_dict() | {"bound_seconds": bound, "peers": {name: times[n] for name, times in peers}}
            for n, (row, bound) in enumerate(zip(rows, bounds, strict=True))
        ],
    }
