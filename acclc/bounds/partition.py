"""The partition bound by merging: between p parts an all_reduce passes 2(p - 1) messages an element.

From single nodes up, the two parts with the most capacity between them are merged (their links then no longer
count), or everything around a node that only passes on; each stage is a candidate, and the best one is kept.
The bound is that of one-way gossip (2n - 2 calls) over the parts; the search is greedy, the bound exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from acclc.bounds.classes import shard_classes
from acclc.bounds.cuts import Lanes, lanes
from acclc.bounds.loads import computes, passing_nodes
from acclc.ir.problem import NodeId, Problem

Parts = tuple[tuple[NodeId, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """A partition as the part of each node (-1: none)."""

    part_of: Lanes
    count: int

    def parts(self) -> Parts:
        found: list[list[NodeId]] = [[] for _ in range(self.count)]
        for v, part in enumerate(self.part_of.tolist()):
            if part >= 0:
                found[part].append(NodeId(v))
        return tuple(map(tuple, found))

    def merged(self, chosen: Lanes, extra: tuple[NodeId, ...]) -> _Stage:
        """Join the chosen parts, in the place of the first of them, and take some nodes in."""
        new = np.arange(self.count)
        new[chosen] = chosen.min()
        kept, number = np.unique(new, return_inverse=True)
        part_of = np.where(self.part_of >= 0, number[self.part_of], -1)
        part_of[list(extra)] = number[chosen[0]]
        return _Stage(part_of, len(kept))


def best_partition(problem: Problem) -> Parts | None:
    """Return the parts with the most messages for the capacity between them (None: no messages at all)."""
    search = _Merging(problem)
    best: _Stage | None = None
    best_ratio = Fraction(0)
    for stage in search.stages():
        ratio = search.ratio(stage)
        if ratio > best_ratio:
            best, best_ratio = stage, ratio
    return None if best is None else best.parts()


def merging(problem: Problem) -> Iterator[Parts]:
    """Yield the partitions of one greedy merging, from single nodes to two parts."""
    for stage in _Merging(problem).stages():
        yield stage.parts()


class _Merging:
    """The links and shards of a problem as arrays: a search looks at thousands of partitions."""

    def __init__(self, problem: Problem) -> None:
        topology = problem.topology
        self._problem = problem
        self._src = np.array([e.src for e in topology.links], dtype=np.int64)
        self._dst = np.array([e.dst for e in topology.links], dtype=np.int64)
        self._rates = lanes(problem)
        self._shards = [
            (np.array(c.sources, dtype=np.int64), np.array(c.targets, dtype=np.int64), c.reduced, c.count)
            for c in shard_classes(problem.shards)
            if c.sources and c.targets
        ]

    def stages(self) -> Iterator[_Stage]:
        nodes = [n.id for n in self._problem.topology.nodes if computes(self._problem, n.id)]
        hubs = list(passing_nodes(self._problem))
        part_of = np.full(len(self._problem.topology.nodes), -1, dtype=np.int64)
        part_of[nodes] = np.arange(len(nodes))
        stage = _Stage(part_of, len(nodes))
        yield stage
        while stage.count > 2:
            options = [*self._closest(stage), *self._around(stage, hubs)]
            if not options:
                return
            stage = max(options, key=self.ratio)
            hubs = [h for h in hubs if stage.part_of[h] < 0]
            yield stage

    def ratio(self, stage: _Stage) -> Fraction:
        """Messages for capacity (in units); nought without messages, or without links to carry them."""
        tails, heads = stage.part_of[self._src], stage.part_of[self._dst]
        capacity = int(self._rates[(tails >= 0) & (tails != heads)].sum())
        load = self._messages(stage)
        return Fraction(load, capacity) if load > 0 and capacity > 0 else Fraction(0)

    def _messages(self, stage: _Stage) -> int:
        """As ``partition_load``."""
        load = 0
        for sources, targets, reduced, count in self._shards:
            having, needing = np.zeros(stage.count, dtype=bool), np.zeros(stage.count, dtype=bool)
            having[stage.part_of[sources]] = True
            needing[stage.part_of[targets]] = True
            if reduced:
                common = 2 if (having & needing).any() else 1
                load += count * (int(having.sum()) + int(needing.sum()) - common)
            else:
                load += count * int((needing & ~having).sum())
        return load

    def _closest(self, stage: _Stage) -> Iterator[_Stage]:
        """Merge the two parts with the most capacity between them, direct links only; the first of equal pairs."""
        tails, heads = stage.part_of[self._src], stage.part_of[self._dst]
        direct = (tails >= 0) & (heads >= 0) & (tails != heads)
        if not direct.any():
            return
        a, b = np.minimum(tails, heads)[direct], np.maximum(tails, heads)[direct]
        pairs, number = np.unique(a * stage.count + b, return_inverse=True)
        joint = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(joint, number, self._rates[direct])
        yield stage.merged(np.array(divmod(int(pairs[joint.argmax()]), stage.count)), ())

    def _around(self, stage: _Stage, hubs: list[NodeId]) -> Iterator[_Stage]:
        """Merge everything linked to one passing node, with that node."""
        for hub in hubs:
            ends = np.concatenate([self._src[self._dst == hub], self._dst[self._src == hub]])
            near = np.unique(stage.part_of[ends])
            near = near[near >= 0]
            if len(near) and stage.count - len(near) + 1 >= 2:
                yield stage.merged(near, (hub,))
