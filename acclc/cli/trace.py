"""``acclc trace``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from acclc.cli.common import artefact_argument, only_option, select, write_text
from acclc.cli.failures import OK
from acclc.cli.sizes import SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from acclc.artefact import Artefact
    from acclc_runtime.recording import Recording

OPEN_IT = "open it in https://ui.perfetto.dev or chrome://tracing"
MODE = click.Choice(["threads", "fibres"])


@click.command("trace")
@artefact_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The trace, - for standard output; or a folder: where there are several variants, or it exists.",
)
@click.option(
    "--size", type=SIZE, help="S in bytes for which times are simulated, and measured. [64MiB; measured 1MiB]"
)
@click.option("--measured", is_flag=True, help="Run it on the CPU, too, and put what happened beside.")
@click.option("--mode", type=MODE, default="threads", show_default=True, help="How it is run where it is measured.")
@only_option
def command(artefact: Path, output: Path, size: int | None, measured: bool, mode: str, only: str | None) -> int:
    """Write the simulated schedules of ARTEFACT as traces that Perfetto and Chrome open, one file a variant."""
    from acclc.artefact import load_artefact

    loaded = load_artefact(artefact)
    chosen = size if size is not None else 1 << 20 if measured else 64 << 20
    write_traces(loaded, only, output, chosen, recorded=artefact if measured else None, mode=mode)
    if str(output) != "-":
        click.echo(f"{output}: {OPEN_IT}")
    return OK


def write_traces(
    loaded: Artefact,
    only: str | None,
    output: Path,
    size: int,
    *,
    recorded: Path | None,
    mode: str,
    dtype: str | None = None,
) -> None:
    """Write the traces of the variants that ``only`` names; with ``recorded``, the artefact's folder, measured too."""
    from acclc.forecast import view_input
    from acclc.measured import measured_puts
    from acclc.view.trace import chrome_trace
    from acclc.view.trace_measured import add_measured
    from acclc_runtime.recording import record

    chosen = select(loaded, only)
    view = view_input(loaded.name, chosen, (size,))
    pairs = [(c, v) for c, variants in chosen for v in variants]
    if len(pairs) > 1 and str(output) == "-":
        raise click.UsageError("several variants do not fit one stream; choose one with --only NAME/VARIANT")
    recordings: Iterator[Recording] = iter(())
    if recorded is not None:
        recordings = record(recorded, [(c.name, v.id) for c, v in pairs], size, dtype=dtype, mode=mode)
    for collective, variant in pairs:
        trace = chrome_trace(view, only=f"{collective.name}/{variant.schedule.id}")
        recording = next(recordings, None)
        if recording is not None:
            how = f"{recording.mode} on the CPU, {recording.size} bytes of {recording.dtype}"
            puts = measured_puts(variant, recording)
            trace = add_measured(trace, collective.problem, variant.schedule, puts, how)
        several = len(pairs) > 1 or output.is_dir()
        target = output / f"{collective.name}-{variant.id}.json" if several else output
        write_text(target, json.dumps(trace, allow_nan=False) + "\n")
