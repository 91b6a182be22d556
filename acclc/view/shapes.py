"""Shapes of graphs of GPUs that are linked directly: grid, ring, line, star, hypercube, cliques, circle.

The first shape that fits is taken, the most specific first. networkx answers what graph it is; it is off the
hot path here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from math import ceil, cos, hypot, pi, sin, sqrt

import networkx as nx

from acclc.ir.problem import NodeId

Point = tuple[float, float]
Points = dict[NodeId, Point]
Direct = Mapping[NodeId, Mapping[NodeId, int]]

CIRCLE_LIMIT = 24
"""More nodes than this without a shape of their own are drawn by a spring model."""
HYPERCUBE_LIMIT = 4
"""Hypercubes of more dimensions are no clearer than a circle."""


def graph_shape(gpus: list[NodeId], direct: Direct, positions: Mapping[NodeId, tuple[int, ...]]) -> Points:
    """Place GPUs by the shape of their graph, or on their grid where the topology gives one."""
    grid = _grid(gpus, positions)
    if grid is not None:
        return grid
    graph = nx.Graph()
    graph.add_nodes_from(gpus)
    graph.add_weighted_edges_from((a, b, w) for a in gpus for b, w in sorted(direct[a].items()) if a < b)
    shapes: tuple[Callable[[nx.Graph], Points | None], ...] = (
        _ring_or_line,
        _star,
        _hypercube,
        _cliques,
        _round,
    )
    for shape in shapes:
        points = shape(graph)
        if points is not None:
            return points
    found = nx.spring_layout(graph, seed=1, k=1.0, iterations=200, scale=sqrt(len(gpus)))
    return {n: (float(found[n][0]), float(found[n][1])) for n in gpus}


def circle(count: int) -> list[Point]:
    """Points on a circle, neighbours 1.1 apart, clockwise from the top (an even number: from the top left)."""
    if count == 1:
        return [(0.0, 0.0)]
    radius = max(0.9, 1.1 / (2 * sin(pi / count)))
    turn = -pi / 2 if count % 2 else -pi / 2 - pi / count
    return [(radius * cos(turn + 2 * pi * i / count), radius * sin(turn + 2 * pi * i / count)) for i in range(count)]


def row(count: int) -> list[Point]:
    """Points in a row, 1.1 apart."""
    return [(1.1 * i, 0.0) for i in range(count)]


def normalised(points: Points) -> Points:
    """Move the top left corner to (0, 0)."""
    left = min(x for x, _ in points.values())
    top = min(y for _, y in points.values())
    return {n: (x - left, y - top) for n, (x, y) in points.items()}


def _grid(gpus: list[NodeId], positions: Mapping[NodeId, tuple[int, ...]]) -> Points | None:
    """Two dimensions as rows and columns; of three, the first goes back, up and to the right."""
    dimensions = {len(positions[g]) for g in gpus}
    if len({positions[g] for g in gpus}) != len(gpus) or dimensions not in ({2}, {3}):
        return None
    if dimensions == {2}:
        return {g: (1.2 * positions[g][1], 1.2 * positions[g][0]) for g in gpus}
    pitch = 0.62 * max(positions[g][0] for g in gpus) + 1.0
    return {
        g: (pitch * positions[g][2] + 0.62 * positions[g][0], pitch * positions[g][1] - 0.5 * positions[g][0])
        for g in gpus
    }


def _ring_or_line(graph: nx.Graph) -> Points | None:
    if not nx.is_connected(graph) or max(d for _, d in graph.degree) > 2:
        return None
    ends = sorted(n for n, d in graph.degree if d < 2)
    start = ends[0] if ends else min(graph)
    order = [start]
    seen = {start}
    while len(order) < len(graph):
        following = sorted(n for n in graph[order[-1]] if n not in seen)
        order.append(following[0])
        seen.add(following[0])
    shape = row(len(order)) if ends and len(order) <= 10 else circle(len(order))
    return dict(zip(order, shape, strict=True))


def _star(graph: nx.Graph) -> Points | None:
    hubs = [n for n, d in graph.degree if d == len(graph) - 1]
    if len(graph) < 4 or len(hubs) != 1 or graph.number_of_edges() != len(graph) - 1:
        return None
    leaves = sorted(n for n in graph if n != hubs[0])
    return {hubs[0]: (0.0, 0.0), **dict(zip(leaves, circle(len(leaves)), strict=True))}


def _hypercube(graph: nx.Graph) -> Points | None:
    """A cube in a slanted view; four dimensions as two cubes, one within reach of the other."""
    dimensions = len(graph).bit_length() - 1
    if not 3 <= dimensions <= HYPERCUBE_LIMIT or len(graph) != 1 << dimensions:
        return None
    if any(d != dimensions for _, d in graph.degree):
        return None
    cube = nx.Graph((i, i ^ (1 << b)) for i in range(len(graph)) for b in range(dimensions))
    by_bits = all(graph.has_edge(min(graph) + a, min(graph) + b) for a, b in cube.edges)
    if by_bits:
        corner = {n: n - min(graph) for n in graph}
    else:
        matcher = nx.isomorphism.GraphMatcher(graph, cube)
        if not matcher.is_isomorphic():
            return None
        corner = dict(matcher.mapping)
    step = ((2.0, 0.0), (0.0, 2.0), (0.85, -0.8), (4.1, 0.45))
    return {
        n: (
            sum(step[b][0] for b in range(dimensions) if corner[n] >> b & 1),
            sum(step[b][1] for b in range(dimensions) if corner[n] >> b & 1),
        )
        for n in sorted(graph)
    }


def _cliques(graph: nx.Graph) -> Points | None:
    """Several groups of GPUs, all linked within the group, fewer links between: a DGX-1 is two squares.

    The groups are cliques of equal size that tile the graph, found greedily from the lowest rank, with fewer
    links between them than within. Each is drawn as a polygon, turned so that the links between are short.
    """
    for size in range(min(8, len(graph) // 2), 2, -1):
        if len(graph) % size:
            continue
        tiles = _tile(graph, size)
        if tiles is None:
            continue
        within = len(tiles) * size * (size - 1) // 2
        if graph.number_of_edges() < 2 * within:
            return _place_tiles(graph, tiles)
    return None


def _tile(graph: nx.Graph, size: int) -> list[tuple[NodeId, ...]] | None:
    left = sorted(graph)
    tiles: list[tuple[NodeId, ...]] = []
    while left:
        remaining = graph.subgraph(left)
        candidates = sorted(
            (-sum(remaining[a][b]["weight"] for a in part for b in part if remaining.has_edge(a, b)), part)
            for clique in nx.find_cliques(remaining, [left[0]])
            if len(clique) >= size
            for part in [(left[0], *sorted(n for n in clique if n != left[0])[: size - 1])]
        )
        if not candidates:
            return None
        tiles.append(candidates[0][1])
        left = [n for n in left if n not in candidates[0][1]]
    return tiles


def _place_tiles(graph: nx.Graph, tiles: list[tuple[NodeId, ...]]) -> Points:
    columns = ceil(sqrt(len(tiles)))
    corner = circle(len(tiles[0]))
    if len(tiles[0]) == 4:
        corner = [(0.0, 0.0), (1.7, 0.0), (1.7, 1.7), (0.0, 1.7)]
    span = max(x for x, _ in corner) - min(x for x, _ in corner)
    pitch = span + 1.6
    points: Points = {}
    # Two are staggered, as the near and the far side of a cube: links between equal corners do not cross a third.
    corners = [((i % columns) * pitch, (i // columns) * pitch + (i % columns) * 0.9) for i in range(len(tiles))]
    for tile, (x0, y0) in zip(tiles, corners, strict=True):
        choices = _orders(tile)
        best = min(choices, key=lambda order: _cost(graph, points, _at(order, corner, x0, y0), inside=not points))
        points |= _at(best, corner, x0, y0)
    # The first tile was placed before there was anything to be near to: one more round for all.
    for tile, (x0, y0) in zip(tiles, corners, strict=True):
        rest = {n: p for n, p in points.items() if n not in tile}
        best = min(_orders(tile), key=lambda order: _cost(graph, rest, _at(order, corner, x0, y0), inside=False))
        points |= _at(best, corner, x0, y0)
    return points


def _orders(tile: tuple[NodeId, ...]) -> list[tuple[NodeId, ...]]:
    """All orders of a small tile; of a large one the turns and reflections only."""
    if len(tile) <= 4:
        return list(permutations(tile))
    turns = [tile[i:] + tile[:i] for i in range(len(tile))]
    return turns + [tuple(reversed(t)) for t in turns]


def _at(order: tuple[NodeId, ...], corner: list[Point], x0: float, y0: float) -> Points:
    return {n: (x0 + x, y0 + y) for n, (x, y) in zip(order, corner, strict=True)}


def _cost(graph: nx.Graph, placed: Points, tile: Points, *, inside: bool) -> float:
    """Length of the links from a tile to what is placed; rounded, so that the first of equals wins."""
    total = 0.0
    for a, (x, y) in tile.items():
        for b in graph[a]:
            other = tile.get(b) if inside else placed.get(b)
            if other is not None:
                total += hypot(x - other[0], y - other[1]) * (graph[a][b]["weight"] if inside else 1)
    return round(total, 6)


def _round(graph: nx.Graph) -> Points | None:
    """A circle, in an order in which strong links are short: exchanges of two places while they help."""
    if len(graph) > CIRCLE_LIMIT:
        return None
    order = sorted(graph)
    places = circle(len(order))

    def length(current: list[NodeId]) -> float:
        at = dict(zip(current, places, strict=True))
        return sum((w * hypot(at[a][0] - at[b][0], at[a][1] - at[b][1]) for a, b, w in graph.edges(data="weight")), 0.0)

    shortest = length(order)
    improved = True
    while improved:
        improved = False
        for i in range(len(order)):
            for j in range(i + 1, len(order)):
                order[i], order[j] = order[j], order[i]
                now = length(order)
                if now < shortest - 1e-9:
                    shortest, improved = now, True
                else:
                    order[i], order[j] = order[j], order[i]
    return dict(zip(order, places, strict=True))
