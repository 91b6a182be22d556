"""``acclc trace``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from acclc.cli.common import artefact_argument, only_option, select, write_text
from acclc.cli.failures import OK
from acclc.cli.sizes import SIZE


@click.command("trace")
@artefact_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The trace, - for standard output; or a folder: where there are several variants, or it exists.",
)
@click.option("--size", type=SIZE, default="64MiB", show_default=True, help="S in bytes for which times are simulated.")
@only_option
def command(artefact: Path, output: Path, size: int, only: str | None) -> int:
    """Write the simulated schedules of ARTEFACT as traces that Perfetto and Chrome open, one file a variant."""
    from acclc.artefact import load_artefact
    from acclc.forecast import view_input
    from acclc.view.trace import chrome_trace

    loaded = load_artefact(artefact)
    chosen = select(loaded, only)
    view = view_input(loaded.name, chosen, (size,))
    names = [(c.name, v.schedule.id) for c, variants in chosen for v in variants]
    if len(names) > 1 and str(output) == "-":
        raise click.UsageError("several variants do not fit one stream; choose one with --only NAME/VARIANT")
    for name, variant in names:
        target = output / f"{name}-{variant}.json" if len(names) > 1 or output.is_dir() else output
        trace = chrome_trace(view, only=f"{name}/{variant}")
        write_text(target, json.dumps(trace, allow_nan=False) + "\n")
    if str(output) != "-":
        click.echo(f"{output}: open it in https://ui.perfetto.dev or chrome://tracing")
    return OK
