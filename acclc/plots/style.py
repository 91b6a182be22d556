"""How figures look: for a column of a paper, in colours that all can tell apart, the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acclc.plots.samples import BOUND, OURS, PlotError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
PANEL = (2.4, 1.9)
"""Inches: three panels are as wide as a page of two columns."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""Okabe and Ito's."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "font.family": ["DejaVu Sans"],
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # text stays text: journals refuse outlines of type 3
    "svg.fonttype": "path",
    "svg.hashsalt": "acclc",
}


@contextmanager
def paper() -> Iterator[None]:
    """Within it figures are made and saved with our settings, whatever the user's are.

    Raises:
        PlotError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise PlotError("plots need matplotlib: pip install 'acclc[plot]'") from None
    with matplotlib.rc_context():
        matplotlib.rcParams.update(matplotlib.rcParamsDefault)
        matplotlib.rcParams.update(_SETTINGS)
        yield


def new_figure(panels: int, panel: tuple[float, float] = PANEL) -> tuple[Figure, list[Any]]:
    """Return an empty figure and its panels, row by row."""
    from matplotlib.figure import Figure

    columns = 2 if panels == 4 else min(panels, 3)
    rows = -(-panels // columns)
    figure = Figure(figsize=(panel[0] * columns, panel[1] * rows + 0.35), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.set_axis_off()
    return figure, axes[:panels]


def look(series: str, order: list[str]) -> dict[str, Any]:
    """Colour, marker and line of a series: the bound is a dashed line, ours comes first."""
    if series == BOUND:
        return {"color": "#333333", "linestyle": "--", "marker": ""}
    peers = [name for name in order if name not in (BOUND, OURS)]
    return numbered(0 if series == OURS else peers.index(series) + (OURS in order))


def numbered(number: int) -> dict[str, Any]:
    """Colour and marker of the series of that number; 49 differ."""
    turn, place = divmod(number, len(COLOURS))
    return {"color": COLOURS[place], "marker": MARKERS[(place + turn) % len(MARKERS)]}


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's name; no date in it.

    Raises:
        PlotError: another format.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise PlotError(f"{path}: name a file that ends in {', '.join('.' + f for f in FORMATS)}")
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    try:
        figure.savefig(beside, format=kind, metadata=metadata)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
