"""Where the nodes of a topology are drawn, so that a person recognises the machine.

Coordinates have no unit; neighbours are about 1 apart, y grows downwards. Everything is deterministic: it
depends on the topology alone. The parts: boxes (nodes whose names share a prefix, ``box[1].g[0]``) are laid out
one by one and set on a grid; in a box, GPUs that are linked directly take the shape of their graph
(:mod:`acclc.view.shapes`), and switches, hosts and NICs stand in the middle, or in layers above.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, hypot, log

from acclc.ir.problem import NodeId, NodeKind, Topology
from acclc.view.shapes import Point, circle, graph_shape, normalised, row

BEND_NODE_LIMIT = 160
"""Links are not bent around nodes on larger machines, where single links are not followed by eye."""
NEAR, TOUCHING = 0.34, 0.1
"""How near a link between GPUs, and one to a switch (of which there are many), may come to another node."""


@dataclass(frozen=True, slots=True)
class Box:
    """Nodes that belong together, drawn with an outline and a name."""

    name: str
    nodes: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A point for each node; the boxes; and for each linked pair (low, high) how far its curve bends.

    A bend is a fraction of the pair's distance, to the right of the way from low to high.
    """

    points: tuple[Point, ...]
    boxes: tuple[Box, ...]
    bends: dict[tuple[NodeId, NodeId], float]


Neighbours = dict[NodeId, dict[NodeId, int]]


def lay_out(topology: Topology) -> Layout:
    """Place all nodes of a topology."""
    neighbours = _neighbours(topology)
    boxes = _boxes(topology)
    if len(boxes) > 1:
        points = _place_boxes(topology, neighbours, boxes)
    else:
        boxes = ()
        points = _place_flat(topology, neighbours, [n.id for n in topology.nodes])
    ordered = tuple((round(points[n.id][0], 4) + 0.0, round(points[n.id][1], 4) + 0.0) for n in topology.nodes)
    return Layout(ordered, boxes, _bends(topology, ordered))


def _neighbours(topology: Topology) -> Neighbours:
    """Who is linked to whom (either direction), with the number of links side by side."""
    neighbours: Neighbours = {n.id: {} for n in topology.nodes}
    for link in topology.links:
        if link.src == link.dst:
            continue
        for a, b in ((link.src, link.dst), (link.dst, link.src)):
            neighbours[a][b] = max(neighbours[a].get(b, 0), link.count)
    return neighbours


def _boxes(topology: Topology) -> tuple[Box, ...]:
    members: dict[str, list[NodeId]] = {}
    for node in topology.nodes:
        prefix, dot, _ = node.name.partition(".")
        if dot:
            members.setdefault(prefix, []).append(node.id)
    return tuple(Box(name, tuple(nodes)) for name, nodes in members.items())


def _place_boxes(topology: Topology, neighbours: Neighbours, boxes: tuple[Box, ...]) -> dict[NodeId, Point]:
    """Boxes on a grid (two side by side); nodes outside any box in a row between the grid's rows, or above."""
    local = [_place_flat(topology, neighbours, list(box.nodes)) for box in boxes]
    width = max(max(x for x, _ in p.values()) for p in local) + 1.8
    height = max(max(y for _, y in p.values()) for p in local) + 1.8
    inside = {n for box in boxes for n in box.nodes}
    loose = [n.id for n in topology.nodes if n.id not in inside]
    columns = min(range(1, len(boxes) + 1), key=lambda c: (_grid_cost(len(boxes), c, width, height), c))
    rows = ceil(len(boxes) / columns)
    total = columns * width
    per_row = max(1, int(total / 1.1))
    loose_rows = ceil(len(loose) / per_row)
    gap_after = (rows - 1) // 2 if rows > 1 else -1
    points: dict[NodeId, Point] = {}
    top = 0.0
    if gap_after < 0:
        top = _place_loose(points, loose, per_row, total, 0.0)
    for r in range(rows):
        in_row = range(r * columns, min((r + 1) * columns, len(boxes)))
        shift = (columns - len(in_row)) * width / 2
        for c, b in enumerate(in_row):
            box_width = max(x for x, _ in local[b].values()) + 1.8
            for node, (x, y) in local[b].items():
                points[node] = (x + shift + c * width + (width - box_width) / 2, y + top)
        top += height
        if r == gap_after and loose_rows:
            top = _place_loose(points, loose, per_row, total, top)
    return points


def _grid_cost(count: int, columns: int, width: float, height: float) -> float:
    """How far a grid of boxes is from the shape of a screen, and how much of it stays empty."""
    rows = ceil(count / columns)
    return abs(log(columns * width / (rows * height * 1.6))) + 1.5 * (columns * rows - count) / count


def _place_loose(points: dict[NodeId, Point], loose: list[NodeId], per_row: int, width: float, top: float) -> float:
    for begin in range(0, len(loose), per_row):
        part = loose[begin : begin + per_row]
        step = (width - 1.8) / len(part)
        for i, node in enumerate(part):
            points[node] = ((i + 0.5) * step, top - 0.1)
        top += 1.5
    return top


def _place_flat(topology: Topology, neighbours: Neighbours, nodes: list[NodeId]) -> dict[NodeId, Point]:
    """Place the nodes of one box (or of a machine without boxes); the top left corner is (0, 0)."""
    chosen = set(nodes)
    gpus = [n for n in nodes if topology.nodes[n].kind is NodeKind.GPU]
    others = [n for n in nodes if topology.nodes[n].kind is not NodeKind.GPU]
    inner = {n: {m: w for m, w in neighbours[n].items() if m in chosen} for n in nodes}
    direct = {n: {m: w for m, w in inner[n].items() if topology.nodes[m].kind is NodeKind.GPU} for n in gpus}
    positions = {n: topology.nodes[n].position for n in gpus}
    if not gpus:
        return normalised(dict(zip(others, row(len(others)), strict=True)))
    if not others:
        return normalised(graph_shape(gpus, direct, positions))
    if not any(direct.values()):
        return normalised(_place_switched(gpus, others, inner))
    points = normalised(graph_shape(gpus, direct, positions))
    if len(others) == 1 and len(inner[others[0]]) == len(gpus) and _is_round(points):
        points[others[0]] = _middle(points)
        return points
    return normalised(_layers_above(points, others, inner))


def _is_round(points: dict[NodeId, Point]) -> bool:
    """Whether the middle is free: every point is about as far from it."""
    x0, y0 = _middle(points)
    radii = [hypot(x - x0, y - y0) for x, y in points.values()]
    return min(radii) > 0.8 * max(radii) > 0.5


def _middle(points: Mapping[NodeId, Point] | Mapping[int, Point]) -> Point:
    return (
        sum(x for x, _ in points.values()) / len(points),
        sum(y for _, y in points.values()) / len(points),
    )


def _place_switched(gpus: list[NodeId], others: list[NodeId], inner: Neighbours) -> dict[NodeId, Point]:
    """GPUs that meet only in switches: one switch in the middle of a circle; several in a row between two."""
    if len(others) == 1:
        points = dict(zip(gpus, circle(len(gpus)), strict=True))
        points[others[0]] = (0.0, 0.0)
        return points
    everyone = set(gpus)
    if all(everyone <= inner[o].keys() for o in others):
        half = (len(gpus) + 1) // 2
        width = max(half - 1, (len(others) - 1) * 1.15, 1.0)
        points = _spread(gpus[:half], width, 0.0)
        points |= _spread(others, width * len(others) / (len(others) + 1), 1.7, width)
        points |= _spread(gpus[half:], width, 3.4)
        return points
    return _layers_above(_spread(_by_switch(gpus, inner), float(max(len(gpus) - 1, 1)), 0.0), others, inner)


def _by_switch(gpus: list[NodeId], inner: Neighbours) -> list[NodeId]:
    """Order GPUs so that those of one switch stand together, switches in order of first use."""
    first: dict[tuple[NodeId, ...], int] = {}
    for gpu in gpus:
        first.setdefault(tuple(sorted(inner[gpu])), len(first))
    return sorted(gpus, key=lambda g: (first[tuple(sorted(inner[g]))], g))


def _spread(nodes: list[NodeId], width: float, y: float, total: float | None = None) -> dict[NodeId, Point]:
    """A centred row of nodes, ``width`` from the first to the last."""
    centre = (width if total is None else total) / 2
    if len(nodes) == 1:
        return {nodes[0]: (centre, y)}
    step = width / max(len(nodes) - 1, 1)
    return {n: (centre - width / 2 + i * step, y) for i, n in enumerate(nodes)}


def _layers_above(base: dict[NodeId, Point], others: list[NodeId], inner: Neighbours) -> dict[NodeId, Point]:
    """Put each other node in the row of its distance to the nearest GPU, over the middle of what hangs below."""
    points = dict(base)
    top = min(y for _, y in base.values())
    width = max(x for x, _ in base.values()) - min(x for x, _ in base.values())
    depth = _depths(list(base), others, inner)
    for level in range(1, max(depth.values(), default=0) + 1):
        wish = {
            n: _mean([points[m][0] for m in inner[n] if depth[m] < level and m in points], width / 2)
            for n in others
            if depth[n] == level
        }
        placed = sorted(wish, key=lambda n: (wish[n], n))
        x = None
        xs = []
        for node in placed:
            x = wish[node] if x is None else max(wish[node], x + 1.1)
            xs.append(x)
        drift = _mean([a - wish[n] for a, n in zip(xs, placed, strict=True)], 0.0)
        for node, at in zip(placed, xs, strict=True):
            points[node] = (at - drift, top - 1.4 * level)
    return points


def _depths(gpus: list[NodeId], others: list[NodeId], inner: Neighbours) -> dict[NodeId, int]:
    """Links to the nearest GPU; a switch that reaches all GPUs of another one and more stands above it."""
    depth = dict.fromkeys(gpus, 0)
    below = {o: frozenset(g for g in inner[o] if g in depth) for o in others}
    for other in sorted((o for o in others if below[o]), key=lambda o: (len(below[o]), o)):
        depth[other] = 1 + max((depth[o] for o in others if o in depth and below[o] < below[other]), default=0)
    queue = deque(sorted(depth, key=lambda n: depth[n]))
    while queue:
        node = queue.popleft()
        for neighbour in sorted(inner[node]):
            if neighbour not in depth:
                depth[neighbour] = depth[node] + 1
                queue.append(neighbour)
    unreached = max(depth.values(), default=0) + 1
    for other in others:
        depth.setdefault(other, unreached)
    return depth


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _bends(topology: Topology, points: tuple[Point, ...]) -> dict[tuple[NodeId, NodeId], float]:
    """Bend each link that would pass over a node that it does not touch: least bend first, outwards first."""
    pairs = sorted({(min(x.src, x.dst), max(x.src, x.dst)) for x in topology.links if x.src != x.dst})
    if len(points) > BEND_NODE_LIMIT:
        return dict.fromkeys(pairs, 0.0)
    middle = _middle(dict(enumerate(points)))
    gpus = len(topology.ranks)
    return {pair: _bend(pair, points, middle, NEAR if pair[1] < gpus else TOUCHING) for pair in pairs}


def _bend(pair: tuple[NodeId, NodeId], points: tuple[Point, ...], middle: Point, least: float) -> float:
    """``least``: how near a link may come to a node that it does not touch."""
    obstacles = [p for n, p in enumerate(points) if n not in pair]
    a, b = points[pair[0]], points[pair[1]]
    half = ((a[0] + b[0]) / 2 - middle[0], (a[1] + b[1]) / 2 - middle[1])
    outwards = (b[0] - a[0]) * half[1] - (b[1] - a[1]) * half[0]
    sign = -1.0 if outwards < -1e-6 else 1.0
    best, best_clearance = 0.0, -1.0
    for bend in (0.0, *(way * sign * size for size in (0.12, 0.2, 0.3, 0.42) for way in (1, -1))):
        clearance = _clearance(a, b, bend, obstacles)
        if clearance >= least:
            return bend
        if clearance > best_clearance + 0.05:
            best, best_clearance = bend, clearance
    return best


def _clearance(a: Point, b: Point, bend: float, obstacles: list[Point]) -> float:
    """The least distance of the curve a-b (quadratic, its middle off by ``bend`` x length) to any obstacle."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    control = ((a[0] + b[0]) / 2 - dy * bend * 2, (a[1] + b[1]) / 2 + dx * bend * 2)
    least = float("inf")
    for i in range(1, 16):
        t = i / 16
        x = (1 - t) ** 2 * a[0] + 2 * t * (1 - t) * control[0] + t * t * b[0]
        y = (1 - t) ** 2 * a[1] + 2 * t * (1 - t) * control[1] + t * t * b[1]
        for ox, oy in obstacles:
            least = min(least, hypot(x - ox, y - oy))
    return least
