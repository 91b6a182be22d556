"""``acclc plot``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from acclc.cli.common import only_option
from acclc.cli.failures import OK
from acclc.cli.sizes import SIZE

KINDS = ("busbw", "time", "speedup", "links", "scaling", "synthesis")
SIZES = tuple(1 << n for n in range(10, 31, 2))


@click.command("plot")
@click.argument("inputs", nargs=-1, required=True, metavar="[NAME=]INPUT...")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="A .png, .svg or .pdf file.")
@click.option("--kind", type=click.Choice(KINDS), default="busbw", show_default=True)
@click.option(
    "--size",
    "sizes",
    type=SIZE,
    multiple=True,
    help="S in bytes: at which artefacts are simulated, and the only ones that are drawn. [1 KiB to 1 GiB]",
)
@click.option("--ranks", type=click.IntRange(1), multiple=True, help="Only calls of so many ranks; may be repeated.")
@click.option("--title", help="A line above the figure.")
@only_option
def command(
    inputs: tuple[str, ...],
    output: Path,
    kind: str,
    sizes: tuple[int, ...],
    ranks: tuple[int, ...],
    title: str | None,
    only: str | None,
) -> int:
    """Draw a figure of INPUTs: artefacts (simulated, with the bound, ring and tree), files of ``acclc bench -J`` or
    ``acclc compile --json``, the JSON of benchmarks, and logs of nccl-tests.

    Kinds: busbw, time against size; speedup over the other series; links: how busy each one is; scaling: busbw against
    ranks; synthesis: seconds of the search against ranks.
    """
    from acclc.plots import draw
    from acclc.plots.samples import read_inputs
    from acclc.plots.style import paper, save

    found = read_inputs(inputs, sizes or SIZES if kind not in ("links", "synthesis") else (), only)
    kept = [s for s in found.samples if (not ranks or s.ranks in ranks) and (not sizes or s.size in sizes)]
    found = replace(found, samples=tuple(kept))
    with paper():
        figure = draw.links(found, only) if kind == "links" else draw.KINDS[kind](found)
        if title:
            figure.suptitle(title, fontsize=9)
        save(figure, output)
    click.echo(str(output))
    return OK
