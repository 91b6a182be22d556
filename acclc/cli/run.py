"""``acclc run``."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from acclc.cli.common import artefact_argument, json_option, only_option, print_json
from acclc.cli.engines import engine_option, mpi_job
from acclc.cli.failures import FAULT, OK
from acclc.cli.sizes import SIZE

if TYPE_CHECKING:
    from acclc_runtime.manifest import Manifest
    from acclc_runtime.run import RunRow


@click.command("run")
@artefact_argument
@click.option("--backend", type=click.Choice(["cpu", "numpy", "cuda"]), default="cpu", show_default=True)
@click.option("--mode", type=click.Choice(["threads", "fibres"]), help="cpu: threads, or one deterministic thread.")
@click.option(
    "--size",
    "sizes",
    type=SIZE,
    multiple=True,
    default=("1KiB", "1MiB"),
    show_default=True,
    help="S in bytes; may be given several times.",
)
@click.option("--dtype", "dtypes", multiple=True, help="Type; may be repeated. [f32, or the first that was emitted]")
@click.option("--op", "ops", multiple=True, help="Operator; may be repeated. [those that the collectives are for]")
@click.option("--iters", type=click.IntRange(1, 10**6), default=1, show_default=True)
@click.option("--check/--no-check", default=True, show_default=True, help="Compare with the collective's definition.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="cpu: record a call at the largest size, step by step, and write it as a trace, beside the simulated times.",
)
@engine_option
@only_option
@json_option
def command(
    artefact: Path,
    backend: str,
    mode: str | None,
    sizes: tuple[int, ...],
    dtypes: tuple[str, ...],
    ops: tuple[str, ...],
    iters: int,
    check: bool,
    seed: int,
    trace: Path | None,
    engine: str | None,
    only: str | None,
    as_json: bool,
) -> int:
    """Run every variant of ARTEFACT on random data, in and out of place, and compare with the definition.

    ARTEFACT may be an algorithm of MSCCL (XML): it goes through the ordinary backends. On a cluster: see docs/mpi.md.
    """
    if engine is not None and mode is not None:
        raise click.UsageError("--mode is for the cpu backend; leave it out with --engine")
    if trace is not None and (engine is not None or backend != "cpu" or str(trace) == "-"):
        raise click.UsageError("--trace records the cpu backend, and writes to a file or folder")
    asked = _Asked(sizes, dtypes, ops, iters, check, seed, only)
    with ExitStack() as stack:
        world = stack.enter_context(mpi_job()) if engine is not None else None
        folder = artefact
        if artefact.is_file():
            from acclc.cli.common import load_any

            beside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="acclc-")))
            folder = load_any(artefact, None).save(beside / "imported")
        rows = _run_here(folder, backend, mode, asked) if world is None else _run_on_ranks(folder, world, asked)
        if trace is not None:
            _record(folder, trace, mode or "threads", asked)
        ok = all(row.ok for row in rows)
        if as_json:
            where = {"backend": backend} if engine is None else {"engine": engine}
            print_json({"artefact": str(artefact), **where, "ok": ok, "rows": [row.to_dict() for row in rows]})
            return OK if ok else FAULT
        from acclc.cli.tables import print_runs

        if world is None or world.Get_rank() == 0:
            print_runs(rows)
        if trace is not None:
            from acclc.cli.trace import OPEN_IT

            click.echo(f"{trace}: {OPEN_IT}")
        click.echo(f"{len(rows)} runs, " + ("all right" if ok else f"{sum(not r.ok for r in rows)} WRONG"))
    return OK if ok else FAULT


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the options say of the calls; no types or operators: the artefact's own."""

    sizes: tuple[int, ...]
    dtypes: tuple[str, ...]
    ops: tuple[str, ...]
    iterations: int
    check: bool
    seed: int
    only: str | None


def _run_here(folder: Path, backend: str, mode: str | None, asked: _Asked) -> list[RunRow]:
    from acclc_runtime.manifest import read_manifest
    from acclc_runtime.run import run_checks
    from acclc_runtime.selection import default_type

    manifest = read_manifest(folder)
    return run_checks(
        folder,
        backend=backend,
        sizes=asked.sizes,
        dtypes=asked.dtypes or (default_type(manifest),),
        ops=asked.ops or default_operators(manifest),
        iterations=asked.iterations,
        check=asked.check,
        seed=asked.seed,
        only=asked.only,
        options={"mode": mode} if mode is not None else {},
    )


def _run_on_ranks(folder: Path, world: Any, asked: _Asked) -> list[RunRow]:
    from acclc_runtime.loader import load
    from acclc_runtime.run_ranks import run_checks_on_ranks
    from acclc_runtime.selection import default_type

    loaded = load(folder)
    with loaded.join("mpi", "mpi") as comm:
        return run_checks_on_ranks(
            comm,
            world.gather,
            asked.sizes,
            asked.dtypes or (default_type(loaded.manifest),),
            asked.ops or default_operators(loaded.manifest),
            engine="mpi",
            seed=asked.seed,
            iterations=asked.iterations,
            only=asked.only,
            check=asked.check,
        )


def _record(folder: Path, trace: Path, mode: str, asked: _Asked) -> None:
    """Write a traced call at the largest size."""
    from acclc.artefact import load_artefact
    from acclc.cli.trace import write_traces

    first = asked.dtypes[0] if asked.dtypes else None
    write_traces(load_artefact(folder), asked.only, trace, max(asked.sizes), recorded=folder, mode=mode, dtype=first)


def default_operators(manifest: Manifest) -> tuple[str, ...]:
    """Return the operators that the collectives were written with, as far as they are emitted."""
    written = tuple(dict.fromkeys(c.op for c in manifest.collectives if c.op is not None))
    return tuple(op for op in written if not manifest.ops or op in manifest.ops) or manifest.ops[:1] or ("sum",)
