"""``acclc show``."""

from __future__ import annotations

from pathlib import Path

import click

from acclc.cli.common import load_any, only_option, select, topology_option, write_text
from acclc.cli.failures import OK
from acclc.cli.sizes import PAGE_SIZES, SIZE


@click.command("show")
@click.argument("artefacts", metavar="ARTEFACT [ARTEFACT]", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="The page [ARTEFACT.html]; - for standard output.",
)
@click.option(
    "--size",
    "sizes",
    type=SIZE,
    multiple=True,
    default=PAGE_SIZES,
    show_default="64KiB, 64MiB",
    help="S in bytes for which times are drawn; may be given several times.",
)
@only_option
@topology_option
def command(
    artefacts: tuple[Path, ...], output: Path | None, sizes: tuple[int, ...], only: str | None, topology: str | None
) -> int:
    """Write the schedules of ARTEFACT as one interactive page that opens offline; of two, side by side."""
    from acclc.forecast import side_by_side
    from acclc.view.page import render_page

    if len(artefacts) > 2:
        raise click.UsageError("a page shows one artefact, or two side by side")
    loaded = [load_any(artefact, topology) for artefact in artefacts]
    names = [artefact.name for artefact in loaded]
    if len(set(names)) < len(names):
        names = [str(artefact) for artefact in artefacts]
    page = render_page(side_by_side([(n, select(a, only)) for n, a in zip(names, loaded, strict=True)], sizes))
    target = output if output is not None else artefacts[0].with_name(f"{artefacts[0].name}.html")
    write_text(target, page)
    if str(target) != "-":
        click.echo(f"{target}: open it in a browser")
    return OK
