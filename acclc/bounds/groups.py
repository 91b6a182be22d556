"""Cuts and partitions where several groups share a machine: sets of nodes that take from every group.

Max-flows find the sets in which one rank lacks most. Where groups run at the same time, or shards go to a few ranks
each, what limits them all is often a set with a member of each: one rank's links alone would do, but its neighbours
want the same links. Such sets are grown rank by rank, each time by the node that raises what has to enter (or leave)
by the most beside what can; what is left over is grown again, which makes a partition. A search, not a proof: only what
the certificate says counts (:mod:`acclc.bounds.loads`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from acclc.bounds.classes import shard_classes
from acclc.bounds.families import family
from acclc.ir.problem import NodeId, Problem
from acclc.ir.result import Certificate, Cut, Partition

NODE_LIMIT = 64
SEEDS = 16
"""Ranks that growth starts from."""


def group_candidates(problem: Problem) -> Iterator[Certificate]:
    """Yield cuts and partitions of grown sets; none where all ranks take part alike, or of larger machines."""
    nodes = len(problem.topology.nodes)
    if family(problem) is not None or nodes > NODE_LIMIT:
        return
    growth = _Growth(problem)
    everything = (1 << nodes) - 1
    seeds = problem.topology.ranks
    for inward in (True, False):
        grown = dict.fromkeys(growth.grown(1 << r, everything, inward) for r in seeds[:: -(-len(seeds) // SEEDS)])
        best = max(grown, key=lambda inside: growth.rate(inside, inward), default=0)
        if best:
            outside = everything & ~best if inward else best
            yield Cut(_nodes(outside), Fraction(growth.load(outside)))
        if any(s.reduced and len(set(s.targets)) > 1 for s in problem.shards):
            yield Partition(tuple(map(_nodes, growth.parts(everything, inward))))


class _Growth:
    """Node sets as bits; loads in shards, capacities in units of the machine."""

    def __init__(self, problem: Problem) -> None:
        topology = problem.topology
        unit = topology.unit
        self._ranks = topology.ranks
        self._classes = shard_classes(problem.shards)
        self._nodes = len(topology.nodes)
        self._links = [
            (1 << e.src, 1 << e.dst, int(e.capacity / unit)) for e in topology.links if unit is not None and e.capacity
        ]

    def load(self, inside: int) -> int:
        """Shards that must leave a set."""
        return sum(c.count for c in self._classes if c.leaves(inside))

    def rate(self, grown: int, inward: bool) -> Fraction:
        """What must enter a grown set (or leave it) beside what can; nought where nothing can."""
        everything = (1 << self._nodes) - 1
        inside = everything & ~grown if inward else grown
        room = sum(c for u, v, c in self._links if u & inside and not v & inside)
        return Fraction(self.load(inside), room) if room else Fraction(0)

    def grown(self, start: int, within: int, inward: bool) -> int:
        """Add the best node again and again, as long as that is no worse; return the best set on the way."""
        best = current = start
        best_rate = rate = self.rate(start, inward)
        while True:
            free = [1 << v for v in range(self._nodes) if within >> v & 1 and not current >> v & 1]
            options = [(self.rate(current | bit, inward), -bit) for bit in free]
            if not options or max(options)[0] < rate:
                return best
            rate, bit = max(options)
            current |= -bit
            if rate > best_rate:
                best, best_rate = current, rate

    def parts(self, everything: int, inward: bool) -> Iterator[int]:
        """Grow a set, then another of what is left, until every rank is in one."""
        left = everything
        for rank in self._ranks:
            if left >> rank & 1:
                part = self.grown(1 << rank, left, inward)
                left &= ~part
                yield part


def _nodes(inside: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(v) for v in range(inside.bit_length()) if inside >> v & 1)
