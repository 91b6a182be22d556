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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from acclc.bounds.classes import Nodes, bits, shard_classes
from acclc.bounds.loads import UnreachableError, cut_load, leaving
from acclc.ir.problem import NodeId, Problem

Lanes = npt.NDArray[np.int64]
FLOW_LIMIT = 2**62
"""Sums of capacities stay below it: the max-flow counts in 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """Do the shards of ``groups`` (``shards[i]`` of group ``groups[i]``) reach ``sink``? Asked on the reversed graph,
    the sink is who has them.
    """

    reverse: bool
    sink: NodeId
    groups: Lanes
    """Positions in the holders of the direction; one may come several times."""
    shards: Lanes


class _Direction:
    """The queries of one direction, and the sets of nodes that hold their shards (reversed: that need them)."""

    def __init__(self, reverse: bool) -> None:
        self.reverse = reverse
        self.queries: list[Query] = []
        self._groups: dict[Nodes, int] = {}

    @property
    def holders(self) -> tuple[Nodes, ...]:
        """The groups by position."""
        return tuple(self._groups)

    def group(self, holders: Nodes) -> int:
        return self._groups.setdefault(holders, len(self._groups))

    def ask_all(self, wanted: Iterable[tuple[Nodes, Nodes, int]]) -> None:
        """Ask for every seeker of (holders, seekers, shards), for all shards at once that it does not hold."""
        of_seekers: dict[Nodes, list[tuple[int, int]]] = {}
        for holders, seekers, shards in wanted:
            of_seekers.setdefault(seekers, []).append((self.group(holders), shards))
        sought: dict[NodeId, list[Lanes]] = {}
        for seekers, pairs in of_seekers.items():
            table = np.array(pairs, dtype=np.int64)
            for v in seekers:
                sought.setdefault(v, []).append(table)
        own: dict[NodeId, list[int]] = {}
        for holders, position in self._groups.items():
            for v in holders:
                own.setdefault(v, []).append(position)
        for v, tables in sorted(sought.items()):
            table = np.concatenate(tables)
            foreign = np.ones(len(self._groups), dtype=bool)
            foreign[own.get(v, [])] = False
            table = table[foreign[table[:, 0]]]
            if len(table):
                self.queries.append(Query(self.reverse, v, table[:, 0].copy(), table[:, 1].copy()))

    def ask(self, holder: NodeId, seeker: NodeId) -> None:
        """Ask for one shard from one node to another."""
        one = np.array([self.group((holder,))], dtype=np.int64)
        self.queries.append(Query(self.reverse, seeker, one, np.ones(1, dtype=np.int64)))


def directions(problem: Problem) -> tuple[_Direction, _Direction]:
    """Return the questions whose cuts decide a problem, forward and reversed."""
    forward, backward = _Direction(False), _Direction(True)
    spread: list[tuple[Nodes, Nodes, int]] = []
    collect: list[tuple[Nodes, Nodes, int]] = []
    pairs: dict[tuple[NodeId, NodeId], None] = {}
    for c in shard_classes(problem.shards):
        if not c.sources or not c.targets:
            continue
        if not c.reduced or len(c.sources) == 1:
            spread.append((c.sources, c.targets, c.count))
        if len(c.targets) == 1 and (c.reduced or len(c.sources) == 1):
            collect.append((c.targets, c.sources, c.count))
        if c.reduced and len(c.targets) > 1 and len(c.sources) > 1:
            pairs.update(dict.fromkeys(_separations(c.sources, c.targets)))
    forward.ask_all(spread)
    backward.ask_all(collect)
    for source, target in sorted(pairs):
        forward.ask(source, target)
    return forward, backward


def _separations(sources: Nodes, targets: Nodes) -> list[tuple[NodeId, NodeId]]:
    """Return pairs of which every cut with a source inside and a target outside separates one."""
    if set(sources) == set(targets):
        root = min(sources)
        return [p for v in sources if v != root for p in ((root, v), (v, root))]
    return [(s, t) for s in sources for t in targets if s != t]


class CutFinder:
    """Min cuts of one problem's queries, for any link capacities; a flow graph for each direction, built once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        asked = directions(problem)
        self.queries = tuple(q for d in asked for q in d.queries)
        self._graphs = {d.reverse: _FlowGraph(problem, d.holders, d.reverse) for d in asked if d.queries}

    def cut(self, query: Query, capacities: Lanes, per_shard: int) -> tuple[NodeId, ...] | None:
        """Return a node set whose links cannot carry ``per_shard`` for each of the query's shards, or None."""
        return self._graphs[query.reverse].cut(query, capacities, per_shard)


class _FlowGraph:
    def __init__(self, problem: Problem, holders: Sequence[Nodes], reverse: bool) -> None:
        from ortools.graph.python import max_flow

        topology = problem.topology
        self._nodes = len(topology.nodes)
        self._reverse = reverse
        self._source = self._nodes
        arcs: list[tuple[int, int]] = [(e.dst, e.src) if reverse else (e.src, e.dst) for e in topology.links]
        self._links = len(arcs)
        self._groups = len(holders)
        unlimited: list[tuple[int, int]] = []
        for number, group in enumerate(holders):
            if len(group) == 1:
                arcs.append((self._source, group[0]))
            else:
                middle = self._source + 1 + number
                arcs.append((self._source, middle))
                unlimited += [(middle, h) for h in group]
        ends = np.array([*arcs, *unlimited], dtype=np.int32).reshape(-1, 2)
        self._flow: Any = max_flow.SimpleMaxFlow()
        self._arcs = self._flow.add_arcs_with_capacity(
            ends[:, 0].copy(), ends[:, 1].copy(), np.zeros(len(ends), dtype=np.int64)
        )
        self._capacity = np.zeros(len(ends), dtype=np.int64)

    def cut(self, query: Query, capacities: Lanes, per_shard: int) -> tuple[NodeId, ...] | None:
        total = int(query.shards.sum()) * per_shard
        supply = np.zeros(self._groups, dtype=np.int64)
        np.add.at(supply, query.groups, query.shards * per_shard)
        self._capacity[: self._links] = capacities
        self._capacity[self._links : self._links + self._groups] = supply
        self._capacity[self._links + self._groups :] = total
        self._flow.set_arcs_capacity(self._arcs, self._capacity)
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
    of_kind: dict[tuple[int, int], int] = {}  # links of one class are many: each rate is divided once
    for e in problem.topology.links:
        if (e.count, id(e.cls)) not in of_kind:
            of_kind[e.count, id(e.cls)] = int(e.capacity / unit)
    exact = [of_kind[e.count, id(e.cls)] for e in problem.topology.links]
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

    # Newton may start anywhere above zero
    next((nodes for nodes in _narrow_first(problem, capacity) if improve(nodes)), None)
    if ratio == 0:
        return None
    for query in finder.queries:
        while True:
            found = finder.cut(query, capacity * ratio.numerator, ratio.denominator)
            if found is None or not improve(found):
                break
    return best


def single_nodes(problem: Problem) -> list[Nodes]:
    """Return the cuts around one rank with data: it alone, and all others. If any cut has a load, one of them has."""
    return [nodes for rank in _with_data(problem) for nodes in ((rank,), _others(problem, rank))]


def _with_data(problem: Problem) -> list[NodeId]:
    every = 0
    for c in shard_classes(problem.shards):
        every |= c.held | c.needed
    return [n.id for n in problem.topology.nodes if every >> n.id & 1]


def _others(problem: Problem, rank: NodeId) -> Nodes:
    return tuple(n.id for n in problem.topology.nodes if n.id != rank)


def _narrow_first(problem: Problem, capacity: Lanes) -> Iterator[Nodes]:
    """Yield the ``single_nodes``, those that least may leave first."""
    links = problem.topology.links
    out, into = [0] * len(problem.topology.nodes), [0] * len(problem.topology.nodes)
    for e, rate in zip(links, capacity.tolist(), strict=True):
        if e.src != e.dst:
            out[e.src] += rate
            into[e.dst] += rate
    both = [(rate, rank, alone) for rank in _with_data(problem) for rate, alone in ((out[rank], 0), (into[rank], 1))]
    for _, rank, others in sorted(both):
        yield _others(problem, rank) if others else (rank,)


def _stuck(problem: Problem, nodes: tuple[NodeId, ...]) -> str:
    inside, names = bits(nodes), problem.topology.nodes
    stuck = next((c for c in shard_classes(problem.shards) if c.leaves(inside)), None)
    if stuck is None:
        return "no path of links leads to a rank that needs data"
    source = next(s for s in stuck.sources if inside >> s & 1)
    target = next(t for t in stuck.targets if not inside >> t & 1)
    return f"no path of links leads from {names[source].name} to {names[target].name}"
