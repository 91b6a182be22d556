"""``acclc simulate``."""

from __future__ import annotations

from pathlib import Path

import click

from acclc.cli.common import (
    artefact_argument,
    json_option,
    load_any,
    only_option,
    print_json,
    select,
    topology_option,
)
from acclc.cli.failures import OK
from acclc.cli.sizes import SIZE


@click.command("simulate")
@artefact_argument
@click.option(
    "--size",
    "sizes",
    type=SIZE,
    multiple=True,
    default=("64KiB", "1MiB", "64MiB"),
    show_default=True,
    help="S in bytes (as nccl-tests counts it); may be given several times.",
)
@click.option(
    "--slice",
    "slice_bytes",
    type=SIZE,
    default="64KiB",
    show_default=True,
    help="What a pipelined schedule moves of a chunk at a time, at most (join takes it as slice_bytes).",
)
@only_option
@topology_option
@json_option
def command(
    artefact: Path, sizes: tuple[int, ...], slice_bytes: int, only: str | None, topology: str | None, as_json: bool
) -> int:
    """Print the alpha-beta time of each variant of ARTEFACT, what limits it, and ring and tree beside it."""
    from acclc.forecast import forecast

    if slice_bytes == 0:
        raise click.BadParameter("a slice holds at least one byte", param_hint="--slice")
    chosen = select(load_any(artefact, topology, needs_topology=True), only)
    rows = [row for collective, variants in chosen for row in forecast(collective, variants, sizes, slice_bytes)]
    if as_json:
        print_json({"artefact": str(artefact), "rows": [row.to_dict() for row in rows]})
        return OK
    from acclc.cli.tables import print_forecast

    print_forecast(rows)
    return OK
