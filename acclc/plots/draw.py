"""The figures: each takes what was read, and returns a figure of matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from acclc.artefact import CompiledCollective, Variant
from acclc.plots.samples import BOUND, Inputs, PlotError, Sample, series_of
from acclc.plots.style import COLOURS, look, new_figure, numbered
from acclc.view.figures import link_utilisation
from acclc.view.words import size_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panel = tuple[str, int]
"""(collective, ranks)."""
MOST_NODES = 40
"""Of a machine whose links are drawn one by one; of larger ones as a sorted curve."""


def busbw(inputs: Inputs) -> Figure:
    """Bus bandwidth against size, a panel a collective and number of ranks."""
    return _by_size(inputs, lambda s: s.busbw / 1e9, "busbw (GB/s)")


def time(inputs: Inputs) -> Figure:
    """Time against size."""
    return _by_size(inputs, lambda s: s.seconds * 1e6, "time (µs)")


def _by_size(inputs: Inputs, value: Callable[[Sample], float], label: str) -> Figure:
    panels = _panels(inputs.samples)
    order = series_of(inputs.samples)
    figure, axes = new_figure(len(panels))
    for ax, (key, samples) in zip(axes, panels.items(), strict=True):
        for series in order:
            points = sorted((s.size, value(s)) for s in samples if s.series == series)
            if points:
                ax.plot(*zip(*points, strict=True), label=series, **look(series, order))
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        _size_ticks(ax, sorted({s.size for s in samples}))
        ax.set_title(_title(key, samples))
        ax.set_ylabel(label)
        ax.set_xlabel("size S")
    _legend(figure, axes)
    return figure


def speedup(inputs: Inputs) -> Figure:
    """How many times as fast as each other series ours is, as bars a size."""
    panels = _panels(inputs.samples)
    order = series_of(inputs.samples)
    peers = [name for name in order if name not in (BOUND, order[0])]
    if not peers or order[0] == BOUND:
        raise PlotError("speed-ups need another series beside ours: bench with --vs, or give an artefact (ring, tree)")
    figure, axes = new_figure(len(panels))
    for ax, (key, samples) in zip(axes, panels.items(), strict=True):
        ours = {s.size: s.seconds for s in samples if s.series == order[0]}
        sizes = sorted(ours)
        for number, peer in enumerate(peers):
            theirs = {s.size: s.seconds for s in samples if s.series == peer}
            places = [n for n, size in enumerate(sizes) if size in theirs]
            width = 0.8 / len(peers)
            ax.bar(
                [n + (number - (len(peers) - 1) / 2) * width for n in places],
                [theirs[sizes[n]] / ours[sizes[n]] for n in places],
                width,
                label=f"over {peer}",
                color=look(peer, order)["color"],
            )
        ax.axhline(1, color="#333333", linewidth=0.8)
        ax.set_xticks(range(len(sizes)), [size_words(s) for s in sizes], rotation=60, ha="right")
        ax.set_title(_title(key, samples))
        ax.set_ylabel(f"speed-up of {order[0]}")
        ax.grid(False, axis="x")
    _legend(figure, axes)
    return figure


def scaling(inputs: Inputs) -> Figure:
    """Bus bandwidth against ranks at the largest size that all numbers of ranks have, a panel a kind."""
    kinds = list(dict.fromkeys(s.kind for s in inputs.samples))
    order = series_of(inputs.samples)
    if len({s.ranks for s in inputs.samples}) < 2:
        raise PlotError("a scaling curve needs inputs of several numbers of ranks")
    figure, axes = new_figure(len(kinds))
    for ax, kind in zip(axes, kinds, strict=True):
        samples = [s for s in inputs.samples if s.kind == kind]
        numbers = sorted({s.ranks for s in samples})
        shared = set.intersection(*({s.size for s in samples if s.ranks == n} for n in numbers))
        if not shared:
            raise PlotError(f"{kind}: no size that was measured with all of {', '.join(map(str, numbers))} ranks")
        size = max(shared)
        for series in order:
            points = sorted((s.ranks, s.busbw / 1e9) for s in samples if s.series == series and s.size == size)
            if points:
                ax.plot(*zip(*points, strict=True), label=series, **look(series, order))
        ax.set_xscale("log", base=2)
        ax.set_xticks(numbers, [str(n) for n in numbers])
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        ax.set_title(f"{kind}, {size_words(size)}")
        ax.set_xlabel("ranks")
        ax.set_ylabel("busbw (GB/s)")
    _legend(figure, axes)
    return figure


def synthesis(inputs: Inputs) -> Figure:
    """Seconds of the search against ranks: each one a dot, and the median of a kind as a line."""
    if not inputs.syntheses:
        raise PlotError(
            "no times of syntheses: give what `acclc compile --json` prints, or benchmarks/results/sweep.json"
        )
    figure, (ax,) = new_figure(1, (4.2, 2.4))
    for number, series in enumerate(dict.fromkeys(s.series for s in inputs.syntheses)):
        seconds: dict[int, list[float]] = {}
        for found in (s for s in inputs.syntheses if s.series == series and s.seconds > 0):
            seconds.setdefault(found.ranks, []).append(found.seconds)
        shown = numbered(number)
        for ranks, times in seconds.items():
            ax.scatter([ranks] * len(times), times, s=4, color=shown["color"], alpha=0.35, linewidths=0)
        typical = sorted((ranks, median(times)) for ranks, times in seconds.items())
        ax.plot(*zip(*typical, strict=True), label=series, **shown)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    numbers = sorted({s.ranks for s in inputs.syntheses})
    ticks = [n for n in numbers if n & (n - 1) == 0] or numbers
    ax.set_xticks(ticks, [str(n) for n in ticks])
    ax.minorticks_off()
    ax.set_xlabel("ranks")
    ax.set_ylabel("synthesis (s)")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper")
    return figure


def links(inputs: Inputs, only: str | None = None) -> Figure:
    """How busy each link direction is while a schedule runs, a panel a schedule; large messages."""
    name, _, wanted = (only or "").partition("/")
    chosen = [
        (c, v)
        for artefact in inputs.artefacts
        for c in artefact.collectives
        for v in c.schedules
        if name in ("", c.name) and wanted in ("", v.id)
    ]
    if not chosen:
        raise PlotError("the use of links is drawn of an artefact; give the folder that acclc compile wrote")
    figure, axes = new_figure(len(chosen), (2.6, 2.5))
    for ax, (collective, variant) in zip(axes, chosen, strict=True):
        if len(collective.problem.topology.nodes) <= MOST_NODES:
            image = _matrix(ax, collective, variant)
            figure.colorbar(image, ax=ax, shrink=0.8, label="busy (%)")
        else:
            _sorted_curve(ax, collective, variant)
        ax.set_title(f"{collective.name}/{variant.id}")
    machines = dict.fromkeys(c.problem.topology.name for c, _ in chosen)
    figure.suptitle(", ".join(machines), fontsize=8)
    return figure


def _matrix(ax: Any, collective: CompiledCollective, variant: Variant) -> Any:
    """Sources are rows, destinations columns; where there is no link there is nothing."""
    problem = collective.problem
    nodes, busy = problem.topology.nodes, link_utilisation(problem, variant.schedule)
    cells = [[float("nan")] * len(nodes) for _ in nodes]
    for link in problem.topology.links:  # links side by side: the busiest is shown
        value = 100 * float(busy[link.id])
        before = cells[link.src][link.dst]
        cells[link.src][link.dst] = value if before != before else max(before, value)
    image = ax.imshow(cells, cmap="cividis", vmin=0, vmax=100)
    names = [n.name.rpartition(".")[2] for n in nodes]
    if len(nodes) <= 20:
        ax.set_xticks(range(len(nodes)), names, rotation=90)
        ax.set_yticks(range(len(nodes)), names)
    ax.set_xlabel("to")
    ax.set_ylabel("from")
    ax.grid(False)
    return image


def _sorted_curve(ax: Any, collective: CompiledCollective, variant: Variant) -> None:
    busy = sorted((100 * float(b) for b in link_utilisation(collective.problem, variant.schedule)), reverse=True)
    ax.fill_between(range(1, len(busy) + 1), busy, step="mid", color=COLOURS[0], alpha=0.6)
    ax.set_ylim(0, 105)
    ax.set_xlabel("link directions, the busiest first")
    ax.set_ylabel("busy (%)")


def _panels(samples: Sequence[Sample]) -> dict[Panel, list[Sample]]:
    if not samples:
        raise PlotError("nothing that has a size and a time: give an artefact, or what `acclc bench -J` wrote")
    found: dict[Panel, list[Sample]] = {}
    for s in samples:
        found.setdefault((s.collective, s.ranks), []).append(s)
    return found


def _title(key: Panel, samples: Sequence[Sample]) -> str:
    ways = {s.measured for s in samples if s.series != BOUND}
    how = {frozenset({True}): "measured", frozenset({False}): "simulated"}.get(
        frozenset(ways), "measured and simulated"
    )
    return f"{key[0]}, {key[1]} ranks, {how}"


def _size_ticks(ax: Any, sizes: Sequence[int]) -> None:
    """A label at every power of 32 of bytes, so that they read in a narrow panel."""
    ticks = [2**n for n in range(0, 64, 5) if sizes[0] <= 2**n <= sizes[-1]] or list(sizes[:3])
    ax.set_xticks(ticks, [size_words(t) for t in ticks])
    ax.minorticks_off()


def _legend(figure: Figure, axes: Sequence[Any]) -> None:
    """One legend for all panels, above them."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    entries = {label: entries[label] for label in sorted(entries, key=lambda label: label == BOUND)}
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=min(len(entries), 3 * len(axes)))


KINDS: dict[str, Callable[[Inputs], Figure]] = {
    "busbw": busbw,
    "time": time,
    "speedup": speedup,
    "scaling": scaling,
    "synthesis": synthesis,
    "links": links,
}
"""What ``--kind`` names."""
