"""Machines of boxes: every shard goes to one rank of every box first, and from there to all of its box.

Where that meets the optimum of the whole machine, two kinds of small packings replace one large one: over each *rail*
(one rank of every box) with the links between boxes, and in each box, whose ranks then have as many shards as there are
boxes. Both run at once, each on links of its own. A part may be made of such parts again. The boxes are not declared:
slow links, or those of one class, are left out, and what still hangs together is a box. It is a guess, and exact
arithmetic says whether it is good: the packings are made only where the optima of all parts fit the whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Protocol

from acclc.bounds import UnreachableError
from acclc.ir.problem import Link, LinkClass, LinkId, Node, NodeId, Rank, Topology
from acclc.solve.packing.alike import Part, alike
from acclc.solve.packing.splitting import Scaled
from acclc.solve.packing.task import Task, optimum, packable
from acclc.solve.packing.trees import Hop, Tree

CANDIDATES = 8
"""Ways to divide a machine that are looked at."""


@dataclass(frozen=True, slots=True)
class Level:
    """Boxes, and rails with one rank of every box each; no link belongs to both kinds."""

    boxes: tuple[Part, ...]
    rails: tuple[Part, ...]


class Packed(Protocol):
    """What is asked of the packing of a part."""

    @property
    def k(self) -> int:
        """Units of a shard."""

    @property
    def trees(self) -> Trees:
        """With k units for each shard of a root."""


Trees = tuple[Tree, ...]
Packer = Callable[[Task], Packed | None]


def composed_trees(task: Task, best: Fraction, pack_part: Packer) -> tuple[Scaled, Trees] | None:
    """Return trees over rails and boxes that take no longer than ``best`` (seconds a byte of shard), or None.

    ``pack_part`` packs a part at its optimum. The trees are not checked here. Raises what packing a part raises.
    """
    weight = task.weights[0]
    if not weight or len(set(task.weights)) > 1:
        return None
    for level in levels(task.topology):
        limits = {part.machine: best for part in level.rails}
        for part in level.boxes:
            limits[part.machine] = best / len(level.boxes)
        small = {machine: Task(machine, tuple(weight for _ in machine.ranks)) for machine in limits}
        if not all(_fits(small[machine], limit) for machine, limit in limits.items()):
            continue
        packed = {machine: pack_part(small[machine]) for machine in limits}
        found = {machine: packing for machine, packing in packed.items() if packing is not None}
        if len(found) == len(packed):
            return _composed(task, best, level, found)
    return None


def _fits(task: Task, limit: Fraction) -> bool:
    if packable(task.topology):
        return False
    try:
        return optimum(task) <= limit
    except UnreachableError:
        return False


Row = list[tuple[int, tuple[Hop, ...]]]
"""The trees of a root one after the other: units, and hops of the whole machine."""


def _composed(task: Task, best: Fraction, level: Level, packed: Mapping[Topology, Packed]) -> tuple[Scaled, Trees]:
    """Lay the cuts of a shard over each other: a rail's tree goes on as trees of its ranks in their boxes."""
    k = lcm(*(p.k for p in packed.values()))
    inside: dict[Rank, Row] = {}
    for part in level.boxes:
        inside.update(_rows(part, packed[part.machine], k))
    trees: list[Tree] = []
    for part in level.rails:
        for root, row in sorted(_rows(part, packed[part.machine], k).items()):
            rows = [row, *(inside[rank] for rank in part.ranks)]
            trees += [Tree(root, units, hops) for units, hops in _overlaid(rows)]
    capacity = tuple(int(k * best * link.capacity) for link in task.topology.links)
    return Scaled(task, k, capacity), tuple(sorted(trees, key=lambda tree: tree.root))


def _rows(part: Part, packing: Packed, k: int) -> dict[Rank, Row]:
    """Return each rank's trees in the numbers of the whole machine, in units of 1/k of a shard."""
    rows: dict[Rank, Row] = {rank: [] for rank in part.ranks}
    for tree in packing.trees:
        hops = tuple(
            Hop(part.ranks[hop.parent], part.ranks[hop.child], tuple(part.links[e] for e in hop.path))
            for hop in tree.hops
        )
        rows[part.ranks[tree.root]].append((tree.weight * k // packing.k, hops))
    return rows


def _overlaid(rows: Sequence[Row]) -> Iterator[tuple[int, tuple[Hop, ...]]]:
    """Yield the common parts of several ways to cut the same units, with the hops of all of them, parents first."""
    queues = [row[::-1] for row in rows]
    while queues[0]:
        share = min(queue[-1][0] for queue in queues)
        joined: list[Hop] = []
        for queue in queues:
            units, hops = queue.pop()
            joined += hops
            if units > share:
                queue.append((units - share, hops))
        yield share, tuple(joined)


def levels(topology: Topology) -> Iterator[Level]:
    """Yield ways to divide a machine: links up to some rate, or of one class, join the boxes."""
    rates = sorted({link.capacity for link in topology.links})
    outer = [tuple(e.id for e in topology.links if e.capacity <= rate) for rate in rates[:-1]]
    outer += [tuple(e.id for e in topology.links if e.cls == cls) for cls in topology.classes]
    for links in list(dict.fromkeys(outer))[:CANDIDATES]:
        level = _divided(topology, links)
        if level is not None:
            yield level


def _divided(topology: Topology, outer: tuple[LinkId, ...]) -> Level | None:
    """Return the boxes that the other links make, and rails: one rank of every box, joined by outer links."""
    between = set(outer)
    inner = tuple(e.id for e in topology.links if e.id not in between)
    boxes = _joined(topology, inner)
    size = len(boxes[0].ranks) if boxes else 0
    if len(boxes) < 2 or size < 2 or any(len(box.ranks) != size for box in boxes):
        return None
    box_of = {rank: number for number, box in enumerate(boxes) for rank in box.ranks}
    rails: list[_Group] = []
    for group in _joined(topology, outer):
        members: list[list[Rank]] = [[] for _ in boxes]
        for rank in group.ranks:
            members[box_of[rank]].append(rank)
        if len({len(of_box) for of_box in members}) != 1:
            return None
        rails += [replace(group, ranks=ranks, rails=len(members[0])) for ranks in zip(*members, strict=True)]
    if len(rails) != size:
        return None
    parts = [_part(topology, group, inner) for group in boxes], [_part(topology, group, outer) for group in rails]
    if not all(part.links for of_kind in parts for part in of_kind):
        return None
    return Level(alike(parts[0]), alike(parts[1]))


@dataclass(frozen=True, slots=True)
class _Group:
    """Ranks that some links join, with the switches that they pass; one of ``rails`` that share those."""

    ranks: tuple[Rank, ...]
    passed: tuple[NodeId, ...]
    rails: int = 1


def _joined(topology: Topology, links: Iterable[LinkId]) -> list[_Group]:
    """Return what hangs together by some links, as far as ranks belong to it."""
    label = list(range(len(topology.nodes)))

    def top(node: int) -> int:
        while label[node] != node:
            label[node] = label[label[node]]
            node = label[node]
        return node

    for e in links:
        a, b = top(topology.links[e].src), top(topology.links[e].dst)
        label[max(a, b)] = min(a, b)
    members: dict[int, list[NodeId]] = {}
    for node in topology.nodes:
        members.setdefault(top(node.id), []).append(node.id)
    count = len(topology.ranks)
    return [
        _Group(tuple(Rank(v) for v in nodes if v < count), tuple(v for v in nodes if v >= count))
        for nodes in members.values()
        if nodes[0] < count
    ]


def _part(topology: Topology, group: _Group, links: Iterable[LinkId]) -> Part:
    """Cut a group out. Links between its switches are divided evenly among the rails that share them."""
    numbers: dict[int, NodeId] = {v: NodeId(n) for n, v in enumerate((*group.ranks, *group.passed))}
    nodes = tuple(
        Node(n, "", topology.nodes[v].kind, topology.nodes[v].can_multicast, topology.nodes[v].can_reduce)
        for v, n in numbers.items()
    )
    kept: list[Link] = []
    original: list[LinkId] = []
    for e in links:
        link = topology.links[e]
        if link.src not in numbers or link.dst not in numbers:
            continue
        cls = LinkClass("", link.cls.bandwidth, link.cls.latency)
        if group.rails > 1 and min(link.src, link.dst) >= len(topology.ranks):
            cls = replace(cls, bandwidth=cls.bandwidth / group.rails)
        kept.append(Link(LinkId(len(kept)), numbers[link.src], numbers[link.dst], link.count, cls))
        original.append(e)
    return Part(Topology("", nodes, tuple(kept)), group.ranks, tuple(original))
