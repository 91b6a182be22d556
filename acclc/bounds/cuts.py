"""The best cut by max-flow: one pass of discrete Newton over the sinks, on integers.

A *query* asks, for one sink, whether the shards that it misses can all reach it at a rate x each: a super
source feeds every group of shards with rate x per shard, a group feeds its holders without limit. It is so
exactly where the max-flow is full; else the min cut is a node set S that all holders of too many shards lie
in and the sink does not. Newton then sets x to what S allows. Raising the time 1/x never breaks a sink that
passed, so a single pass is exact (N flows and few updates). Reduced shards and shards of one target are asked on the
reversed graph, from the contributor's side. The method for all-gather is that of ForestColl's optimality
(Zhao et al., 2024), with Newton in place of its binary search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from acclc.bounds.loads import UnreachableError, cut_load, leaving
from acclc.ir.problem import NodeId, Problem

Lanes = npt.NDArray[np.int64]
FLOW_LIMIT = 2**62
"""Sums of capacities stay below it: the max-flow counts in 64 bits."""


@dataclass(frozen=True, slots=True)
class Query:
    """Do the shards of ``groups`` (who holds them, how many) reach ``sink``? ``reverse``: on the reversed graph."""

    reverse: bool
    sink: NodeId
    groups: tuple[tuple[tuple[NodeId, ...], int], ...]


def queries(problem: Problem) -> tuple[Query, ...]:
    """Return the questions whose cuts decide a problem; each (sink, direction) once."""
    forward: dict[NodeId, Counter[tuple[NodeId, ...]]] = {}
    backward: dict[NodeId, Counter[tuple[NodeId, ...]]] = {}
    pairs: dict[tuple[NodeId, NodeId], None] = {}
    for shard in problem.shards:
        sources = tuple(dict.fromkeys(NodeId(r) for r in shard.sources))
        targets = tuple(dict.fromkeys(NodeId(r) for r in shard.targets))
        if not shard.reduced or len(sources) == 1:
            for t in targets:
                if t not in sources:
                    forward.setdefault(t, Counter())[sources] += 1
        if len(targets) == 1 and (shard.reduced or len(sources) == 1):
            for s in sources:
                if s not in targets:
                    backward.setdefault(s, Counter())[targets] += 1
        if shard.reduced and len(targets) > 1 and len(sources) > 1:
            pairs.update(dict.fromkeys(_separations(sources, targets)))
    found = [Query(False, t, tuple(sorted(groups.items()))) for t, groups in sorted(forward.items())]
    found += [Query(True, s, tuple(sorted(groups.items()))) for s, groups in sorted(backward.items())]
    found += [Query(False, t, (((s,), 1),)) for s, t in sorted(pairs)]
    return tuple(found)


def _separations(sources: Sequence[NodeId], targets: Sequence[NodeId]) -> list[tuple[NodeId, NodeId]]:
    """Return pairs of which every cut with a source inside and a target outside separates one."""
    if set(sources) == set(targets):
        root = min(sources)
        return [p for v in sources if v != root for p in ((root, v), (v, root))]
    return [(s, t) for s in sources for t in targets if s != t]


class CutFinder:
    """Min cuts of one problem's queries, for any link capacities; a flow graph for each direction, built once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.queries = queries(problem)
        self._graphs = {
            reverse: _FlowGraph(problem, [q for q in self.queries if q.reverse is reverse], reverse)
            for reverse in (False, True)
            if any(q.reverse is reverse for q in self.queries)
        }

    def cut(self, query: Query, capacities: Lanes, per_shard: int) -> tuple[NodeId, ...] | None:
        """Return a node set whose links cannot carry ``per_shard`` for each of the query's shards, or None."""
        return self._graphs[query.reverse].cut(query, capacities, per_shard)


class _FlowGraph:
    def __init__(self, problem: Problem, asked: Sequence[Query], reverse: bool) -> None:
        from ortools.graph.python import max_flow

        topology = problem.topology
        self._nodes = len(topology.nodes)
        self._reverse = reverse
        self._source = self._nodes
        holders = tuple(dict.fromkeys(h for q in asked for h, _ in q.groups))
        tails, heads = [e.src for e in topology.links], [e.dst for e in topology.links]
        if reverse:
            tails, heads = heads, tails
        arcs = list(zip(tails, heads, strict=True))
        self._links = len(arcs)
        self._group_arc: dict[tuple[NodeId, ...], int] = {}
        unlimited: list[tuple[int, int]] = []
        for number, group in enumerate(holders):
            self._group_arc[group] = len(arcs)
            if len(group) == 1:
                arcs.append((NodeId(self._source), group[0]))
            else:
                middle = NodeId(self._source + 1 + number)
                arcs.append((NodeId(self._source), middle))
                unlimited += [(middle, h) for h in group]
        self._supplies = len(arcs) - self._links
        ends = np.array([*arcs, *unlimited], dtype=np.int32).reshape(-1, 2)
        self._flow: Any = max_flow.SimpleMaxFlow()
        self._arcs = self._flow.add_arcs_with_capacity(
            ends[:, 0].copy(), ends[:, 1].copy(), np.zeros(len(ends), dtype=np.int64)
        )
        self._unlimited = len(unlimited)

    def cut(self, query: Query, capacities: Lanes, per_shard: int) -> tuple[NodeId, ...] | None:
        supply = np.zeros(self._supplies, dtype=np.int64)
        total = 0
        for group, shards in query.groups:
            supply[self._group_arc[group] - self._links] = shards * per_shard
            total += shards * per_shard
        free = np.full(self._unlimited, total, dtype=np.int64)
        self._flow.set_arcs_capacity(self._arcs, np.concatenate([capacities, supply, free]))
        status = self._flow.solve(self._source, query.sink)
        if status != self._flow.OPTIMAL:
            raise OverflowError(f"max-flow ended with {status}")
        if self._flow.optimal_flow() >= total:
            return None
        side = [NodeId(v) for v in self._flow.get_source_side_min_cut() if v < self._nodes]
        if self._reverse:
            reached = set(side)
            return tuple(NodeId(v) for v in range(self._nodes) if v not in reached)
        return tuple(sorted(side))


def lanes(problem: Problem) -> Lanes:
    """Return the links' capacities in units of the topology: exact integers, or coarser where 64 bits forbid.

    Coarser ones are rounded up. A cut found with them is a cut all the same: only its optimality is lost.
    """
    unit = problem.topology.unit
    assert unit is not None, "a topology without links has no cuts to search"
    exact = [int(e.capacity / unit) for e in problem.topology.links]
    shards = max(1, len(problem.shards))
    divisor = 1 + 4 * shards * sum(exact) // FLOW_LIMIT
    if divisor > 1:
        exact = [-(-c // divisor) for c in exact]
    return np.array(exact, dtype=np.int64)


def best_cut(problem: Problem, finder: CutFinder) -> tuple[NodeId, ...] | None:
    """Return a node set with the most load for its leaving capacity among all cuts of the queries (None: no load).

    Raises UnreachableError where shards must leave a set that no link leaves.
    """
    capacity = lanes(problem)
    best: tuple[NodeId, ...] | None = None
    ratio = Fraction(0)

    def improve(nodes: tuple[NodeId, ...]) -> bool:
        nonlocal best, ratio
        load = cut_load(problem.shards, nodes)
        if load == 0:
            return False
        room = int(capacity[list(leaving(problem.topology, nodes))].sum())
        if room == 0:
            raise UnreachableError(_stuck(problem, nodes))
        if Fraction(load, room) <= ratio:
            return False
        best, ratio = nodes, Fraction(load, room)
        return True

    start = sorted(single_nodes(problem), key=lambda nodes: int(capacity[list(leaving(problem.topology, nodes))].sum()))
    next((nodes for nodes in start if improve(nodes)), None)  # Newton may start anywhere above zero
    if ratio == 0:
        return None
    for query in finder.queries:
        while True:
            found = finder.cut(query, capacity * ratio.numerator, ratio.denominator)
            if found is None or not improve(found):
                break
    return best


def single_nodes(problem: Problem) -> list[tuple[NodeId, ...]]:
    """Return the cuts around one rank with data: it alone, and all others. If any cut has a load, one of them has."""
    every = [n.id for n in problem.topology.nodes]
    found: list[tuple[NodeId, ...]] = []
    for rank in sorted({NodeId(r) for s in problem.shards for r in (*s.sources, *s.targets)}):
        found.append((rank,))
        found.append(tuple(v for v in every if v != rank))
    return found


def _stuck(problem: Problem, nodes: tuple[NodeId, ...]) -> str:
    inside: set[int] = set(nodes)
    for shard in problem.shards:
        if cut_load((shard,), nodes):
            source = next(s for s in shard.sources if s in inside)
            target = next(t for t in shard.targets if t not in inside)
            names = problem.topology.nodes
            return f"no path of links leads from {names[source].name} to {names[target].name}"
    return "no path of links leads to a rank that needs data"
