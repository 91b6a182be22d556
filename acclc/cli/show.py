"""``acclc show``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from acclc.cli.common import load_any, only_option, select, topology_option, write_text
from acclc.cli.failures import OK
from acclc.cli.sizes import PAGE_SIZES, SIZE

if TYPE_CHECKING:
    from acclc.artefact import CompiledCollective, Variant
    from acclc.view.model import ViewInput


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
@click.option("--measured", is_flag=True, help="Run it on the CPU at these sizes, and draw what happened, too.")
@click.option("--text", is_flag=True, help="Print the steps as a table instead, or write it to -o.")
@only_option
@topology_option
def command(
    artefacts: tuple[Path, ...],
    output: Path | None,
    sizes: tuple[int, ...],
    measured: bool,
    text: bool,
    only: str | None,
    topology: str | None,
) -> int:
    """Write the schedules of ARTEFACT as one interactive page that opens offline; of two, side by side.

    With --text, as a table of steps.
    """
    if text:
        return _show_text(artefacts, output or Path("-"), only, topology)
    from acclc.forecast import side_by_side
    from acclc.view.page import render_page

    if len(artefacts) > 2:
        raise click.UsageError("a page shows one artefact, or two side by side")
    views = [_view(artefact, sizes, measured, only, topology) for artefact in artefacts]
    if len({view.name for view in views}) < len(views):
        views = [replace(view, name=str(artefact)) for view, artefact in zip(views, artefacts, strict=True)]
    page = render_page(side_by_side(views))
    target = output if output is not None else artefacts[0].with_name(f"{artefacts[0].name}.html")
    write_text(target, page)
    if str(target) != "-":
        click.echo(f"{target}: open it in a browser")
    return OK


def _view(artefact: Path, sizes: tuple[int, ...], measured: bool, only: str | None, topology: str | None) -> ViewInput:
    from acclc.forecast import view_input

    loaded = load_any(artefact, topology)
    chosen = select(loaded, only)
    view = view_input(loaded.name, chosen, sizes, headroom=True)
    return _with_measured(view, artefact, chosen, sizes) if measured else view


def _with_measured(
    view: ViewInput, folder: Path, chosen: list[tuple[CompiledCollective, tuple[Variant, ...]]], sizes: tuple[int, ...]
) -> ViewInput:
    from acclc.measured import with_measured
    from acclc_runtime.recording import record

    if not folder.is_dir():
        raise click.UsageError("--measured runs an artefact; an algorithm of MSCCL is none")
    pairs = [(c, v) for c, variants in chosen for v in variants]
    names = [(c.name, v.id) for c, v in pairs]
    for size in dict.fromkeys(sizes):
        found = record(folder, names, size)
        view = with_measured(view, [(c, v, r) for (c, v), r in zip(pairs, found, strict=True)])
    return view


def _show_text(artefacts: tuple[Path, ...], output: Path, only: str | None, topology: str | None) -> int:
    import shutil

    from acclc.cli.tables import schedule_title
    from acclc.view.steps import step_table

    width = shutil.get_terminal_size().columns
    lines: list[str] = []
    for collective, variants in (c for a in artefacts for c in select(load_any(a, topology), only)):
        for variant in variants:
            lines += [
                schedule_title(collective, variant),
                "",
                *step_table(collective.problem, variant.schedule, width=width),
                "",
            ]
    write_text(output, "\n".join(lines))
    return OK
