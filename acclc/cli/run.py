"""``acclc run``."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from acclc.cli.common import artefact_argument, json_option, only_option, print_json
from acclc.cli.failures import FAULT, OK
from acclc.cli.sizes import SIZE

if TYPE_CHECKING:
    from acclc_runtime.manifest import Manifest


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
    only: str | None,
    as_json: bool,
) -> int:
    """Run every variant of ARTEFACT on random data, in and out of place, and compare with the definition.

    ARTEFACT may be an algorithm of MSCCL (XML): it goes through the ordinary backends.
    """
    from acclc_runtime.manifest import read_manifest
    from acclc_runtime.run import run_checks

    if trace is not None and (backend != "cpu" or str(trace) == "-"):
        raise click.UsageError("--trace records the cpu backend, and writes to a file or folder")
    with ExitStack() as stack:
        folder = artefact
        if artefact.is_file():
            from acclc.cli.common import load_any

            beside = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="acclc-")))
            folder = load_any(artefact, None).save(beside / "imported")
        manifest = read_manifest(folder)
        rows = run_checks(
            folder,
            backend=backend,
            sizes=sizes,
            dtypes=dtypes or default_types(manifest),
            ops=ops or default_operators(manifest),
            iterations=iters,
            check=check,
            seed=seed,
            only=only,
            options={"mode": mode} if mode is not None else {},
        )
        if trace is not None:
            from acclc.artefact import load_artefact
            from acclc.cli.trace import write_traces

            first = dtypes[0] if dtypes else None
            loaded, how = load_artefact(folder), mode or "threads"
            write_traces(loaded, only, trace, max(sizes), recorded=folder, mode=how, dtype=first)
    ok = all(row.ok for row in rows)
    if as_json:
        print_json({"artefact": str(artefact), "backend": backend, "ok": ok, "rows": [row.to_dict() for row in rows]})
        return OK if ok else FAULT
    from acclc.cli.tables import print_runs

    print_runs(rows)
    if trace is not None:
        from acclc.cli.trace import OPEN_IT

        click.echo(f"{trace}: {OPEN_IT}")
    click.echo(f"{len(rows)} runs, " + ("all right" if ok else f"{sum(not r.ok for r in rows)} WRONG"))
    return OK if ok else FAULT


def default_types(manifest: Manifest) -> tuple[str, ...]:
    """Return f32, or the first type of an artefact that does not have it."""
    return ("f32",) if not manifest.types or "f32" in manifest.types else manifest.types[:1]


def default_operators(manifest: Manifest) -> tuple[str, ...]:
    """Return the operators that the collectives were written with, as far as they are emitted."""
    written = tuple(dict.fromkeys(c.op for c in manifest.collectives if c.op is not None))
    return tuple(op for op in written if not manifest.ops or op in manifest.ops) or manifest.ops[:1] or ("sum",)
