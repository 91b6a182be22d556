"""Spanning trees for the tree baseline: binary over boxes and within full meshes, else shortest routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acclc.ir.problem import Rank
from acclc.simulate.routes import Route, Routes, boxes

BOX_RATIO = 6
"""Within a box hops are at least a sixth as wide as the widest; the network between boxes is narrower."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Children of each rank, with the routes from (``up``) and to (``down``) each child."""

    root: Rank
    children: dict[Rank, tuple[Rank, ...]]
    up: dict[Rank, Route]
    down: dict[Rank, Route]


def spanning_trees(routes: Routes, group: Sequence[Rank], root: Rank | None, inward: bool) -> tuple[Tree, ...]:
    """Return one tree at ``root``, or (None) two trees of different roots; empty where some rank is out of reach.

    ``inward`` asks for the routes to the root; with two trees both directions are needed.
    """
    orders = [_boxes(routes, group, root)] if root is not None else _two_orders(routes, group)
    trees = []
    for grouped in orders:
        parents = _parents(routes, grouped)
        if parents is None:
            return ()
        tree = _with_routes(routes, grouped[0][0], parents, up=inward, down=root is None or not inward)
        if tree is None:
            return ()
        trees.append(tree)
    return tuple(trees)


def _boxes(routes: Routes, group: Sequence[Rank], root: Rank | None) -> list[list[Rank]]:
    """The group by boxes (what no network link and no narrow hop lies between), the root first in the first one."""
    links = routes.topology.links
    widest = max((h.capacity for r in group for h in routes.hops[r].values()), default=0)

    def close(a: Rank, b: Rank) -> bool:
        hop = routes.hop(a, b)
        local = hop is not None and all(links[e].cls.kind != "net" for e in hop.path)
        return hop is not None and local and hop.capacity * BOX_RATIO >= widest

    found = boxes(group, close)
    if root is not None:
        found = [box[box.index(root) :] + box[: box.index(root)] if root in box else box for box in found]
        found.sort(key=lambda box: root not in box)
    return found


def _two_orders(routes: Routes, group: Sequence[Rank]) -> list[list[list[Rank]]]:
    """Two orders of boxes and of ranks in them, so that inner ranks of one tree tend to be leaves of the other."""
    first = _boxes(routes, group, None)
    second = [list(reversed(box)) for box in reversed(first)]
    return [first, second]


def _parents(routes: Routes, grouped: list[list[Rank]]) -> dict[Rank, Rank] | None:
    """Each rank's parent: the boxes' first ranks in a binary tree, below each its own box."""
    parents: dict[Rank, Rank] = {}
    leaders = [box[0] for box in grouped]
    for i, leader in enumerate(leaders[1:], start=1):
        parents[leader] = leaders[(i - 1) // 2]
    for box in grouped:
        if all(routes.hop(a, b) is not None for a in box for b in box if a != b):
            parents.update({rank: box[(i - 1) // 2] for i, rank in enumerate(box) if i > 0})
            continue
        tree = routes.tree(box[0])
        for rank in box[1:]:
            if rank not in tree:
                return None
            above = tree[rank].src
            while above not in box:
                above = tree[above].src
            parents[rank] = above
    return parents


def _with_routes(routes: Routes, root: Rank, parents: dict[Rank, Rank], up: bool, down: bool) -> Tree | None:
    children: dict[Rank, tuple[Rank, ...]] = {}
    ways_up: dict[Rank, Route] = {}
    ways_down: dict[Rank, Route] = {}
    for child, parent in parents.items():
        children[parent] = (*children.get(parent, ()), child)
        for wanted, ends, ways in ((up, (child, parent), ways_up), (down, (parent, child), ways_down)):
            route = routes.route(*ends) if wanted else None
            if wanted and route is None:
                return None
            if route is not None:
                ways[child] = route
    return Tree(root, children, ways_up, ways_down)
