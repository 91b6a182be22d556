"""The cheapest out-tree from a root to all nodes (Chu and Liu, 1965; Edmonds, 1967), for small dense graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arc:
    """``origin``: the arc of the graph before some circle was contracted; None for one that was given."""

    src: int
    dst: int
    cost: float
    origin: Arc | None = None


def arborescence(nodes: Sequence[int], arcs: Iterable[Arc], root: int) -> list[Arc] | None:
    """Return the arcs of the cheapest out-tree, in no order; None where some node cannot be reached."""
    best: dict[int, Arc] = {}
    arcs = [a for a in arcs if a.dst != root and a.src != a.dst]
    for arc in arcs:
        if arc.dst not in best or arc.cost < best[arc.dst].cost:
            best[arc.dst] = arc
    if any(v != root and v not in best for v in nodes):
        return None
    circle = _circle(nodes, best, root)
    if not circle:
        return [best[v] for v in nodes if v != root]
    inside = set(circle)
    whole = max(nodes) + 1
    contracted: list[Arc] = []
    for a in arcs:
        if a.src in inside and a.dst in inside:
            continue
        if a.dst in inside:
            contracted.append(Arc(a.src, whole, a.cost - best[a.dst].cost, a))
        else:
            contracted.append(Arc(whole if a.src in inside else a.src, a.dst, a.cost, a))
    chosen = arborescence([*(v for v in nodes if v not in inside), whole], contracted, root)
    if chosen is None:
        return None
    found = [a.origin for a in chosen if a.origin is not None]
    entered = next(a.dst for a in found if a.dst in inside and a.src not in inside)
    return [*found, *(best[v] for v in circle if v != entered)]


def _circle(nodes: Sequence[int], best: dict[int, Arc], root: int) -> list[int]:
    """Return the nodes of a circle among the best arcs; none if there is none."""
    done: set[int] = {root}
    for start in nodes:
        path: list[int] = []
        v = start
        while v not in done and v not in path:
            path.append(v)
            v = best[v].src
        if v in path:
            return path[path.index(v) :]
        done.update(path)
    return []
