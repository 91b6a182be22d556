"""A machine as one still picture (SVG): its nodes where the page has them, links by class, counts beside them.

A topology shows itself so in notebooks, with its figures: this module, which may know both, gives it that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from html import escape

from acclc.ir.problem import Node, NodeKind, Topology
from acclc.view.layout import Layout, lay_out

MOST_NODES = 80
"""In a notebook larger machines are only counted: a still picture of them tells nothing."""
UNIT = 96
"""Pixels between neighbours."""
MARGIN, LINE = 60, 20
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f98")
"""Okabe and Ito's, one a class; more classes share the last one."""
_PLURAL = {NodeKind.GPU: "GPUs", NodeKind.SWITCH: "switches", NodeKind.HOST: "hosts", NodeKind.NIC: "NICs"}
_FILL = {NodeKind.GPU: "#dfe9f5", NodeKind.SWITCH: "#fdf0d5", NodeKind.HOST: "#e6e8eb", NodeKind.NIC: "#e2f3ea"}


def topology_svg(topology: Topology) -> str:
    """Return the picture. Pure: it depends on the topology alone."""
    layout = lay_out(topology)
    xs, ys = [x for x, _ in layout.points], [y for _, y in layout.points]
    width = int((max(xs, default=0) - min(xs, default=0)) * UNIT) + 2 * MARGIN
    legend = int((max(ys, default=0) - min(ys, default=0)) * UNIT) + 2 * MARGIN
    height = legend + LINE * len(topology.classes)
    width = max(width, 420)
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11" text-anchor="middle">',
        f"<title>{escape(topology.name)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_links(topology, layout),
        *(line for node in topology.nodes for line in _node(node, *_place(layout, node.id))),
        *_legend(topology, legend),
        "</svg>",
    ]
    return "\n".join(body) + "\n"


def _place(layout: Layout, node: int) -> tuple[float, float]:
    left, top = min(x for x, _ in layout.points), min(y for _, y in layout.points)
    x, y = layout.points[node]
    return (x - left) * UNIT + MARGIN, (y - top) * UNIT + MARGIN


def _colour(topology: Topology, name: str) -> str:
    names = [c.name for c in topology.classes]
    return COLOURS[min(names.index(name), len(COLOURS) - 1)]


def _links(topology: Topology, layout: Layout) -> Iterator[str]:
    """One curve for each linked pair and class: as wide as its capacity, with the count where it is not 1."""
    counts: dict[tuple[int, int, str], int] = {}
    capacity: dict[tuple[int, int, str], Fraction] = {}
    for e in topology.links:
        key = (min(e.src, e.dst), max(e.src, e.dst), e.cls.name)
        counts[key] = max(counts.get(key, 0), e.count)
        capacity[key] = max(capacity.get(key, Fraction(0)), e.capacity)
    most = max(capacity.values(), default=Fraction(1))
    seen: dict[tuple[int, int], int] = {}
    bends = {(int(a), int(b)): bend for (a, b), bend in layout.bends.items()}
    for (a, b, name), count in counts.items():
        again = seen.get((a, b), 0)
        seen[a, b] = again + 1
        (x1, y1), (x2, y2) = _place(layout, a), _place(layout, b)
        bend = bends.get((a, b), 0.0) + 0.12 * again
        mx, my = (x1 + x2) / 2 - (y2 - y1) * bend, (y1 + y2) / 2 + (x2 - x1) * bend
        width = 1 + 4 * float(capacity[a, b, name] / most)
        colour = _colour(topology, name)
        yield (
            f'<path d="M{x1:.1f} {y1:.1f}Q{2 * mx - (x1 + x2) / 2:.1f} {2 * my - (y1 + y2) / 2:.1f} {x2:.1f} {y2:.1f}" '
            f'fill="none" stroke="{colour}" stroke-opacity="0.75" stroke-width="{width:.1f}"/>'
        )
        if count != 1:
            halo = 'paint-order="stroke" stroke="#ffffff" stroke-width="3"'
            yield f'<text x="{mx:.1f}" y="{my + 4:.1f}" fill="{colour}" {halo}>{count}</text>'


def _node(node: Node, x: float, y: float) -> Iterator[str]:
    style = f'fill="{_FILL[node.kind]}" stroke="#3a4149"'
    if node.kind is NodeKind.GPU:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="22" {style}/>'
    else:
        yield f'<rect x="{x - 28:.1f}" y="{y - 14:.1f}" width="56" height="28" rx="4" {style}/>'
    yield f'<text x="{x:.1f}" y="{y + 4:.1f}" fill="#111418">{escape(node.name.rpartition(".")[2])}</text>'


def _legend(topology: Topology, top: int) -> Iterator[str]:
    for i, cls in enumerate(topology.classes):
        y = top + LINE * i
        rate = f"{float(cls.bandwidth) / 1e9:g} GB/s, {float(cls.latency) * 1e6:g} us"
        yield f'<path d="M20 {y}h30" stroke="{_colour(topology, cls.name)}" stroke-width="4"/>'
        yield f'<text x="60" y="{y + 4}" text-anchor="start" fill="#111418">{escape(cls.name)}: {rate}</text>'


def topology_html(topology: Topology) -> str:
    """The picture, with the machine's figures below; still, and complete in itself."""
    kinds = [(kind, sum(n.kind is kind for n in topology.nodes)) for kind in NodeKind]
    counted = ", ".join(f"{count} {_PLURAL[kind] if count > 1 else kind.value}" for kind, count in kinds if count)
    drawn = topology_svg(topology) if len(topology.nodes) <= MOST_NODES else ""
    words = f"<b>{escape(topology.name)}</b>: {counted}, {len(topology.links)} link directions"
    rows = [
        (
            c.name,
            f"{float(c.bandwidth) / 1e9:g}",
            f"{float(c.latency) * 1e6:g}",
            str(sum(x.count for x in topology.links if x.cls == c)),
        )
        for c in topology.classes
    ]
    return f"<div>{drawn}<p>{words}</p>{html_table(('links', 'GB/s', 'us', 'lanes, both directions'), rows)}</div>"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, which are escaped."""
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


Topology._repr_html_ = topology_html  # type: ignore[attr-defined]
