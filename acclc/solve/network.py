"""The machine as solvers see it: logical edges between ranks, and the rows (links and budgets) they load.

A logical edge is a simple path from one rank to another whose inner nodes are no GPUs. Sending a chunk over it
loads every link of the path, and every budget as often as the path crosses it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from acclc.ir.problem import LinkId, NodeKind, Problem, Rank, Topology

PATHS_PER_PAIR = 16
EXPANSIONS_PER_RANK = 20_000


@dataclass(frozen=True, slots=True)
class Edge:
    """A logical edge. ``rows`` are (row, times the path crosses it)."""

    id: int
    src: Rank
    dst: Rank
    path: tuple[LinkId, ...]
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Network:
    """Edges and rows. Row k < len(links) is link k; the others are the budgets. Capacities are chunks a round."""

    topology: Topology
    ranks: tuple[Rank, ...]
    edges: tuple[Edge, ...]
    capacity: tuple[int, ...]
    truncated: bool
    """Some paths were left out: what is infeasible here may be feasible on the machine."""
    relays: frozenset[Rank]
    """Ranks that may pass on what is not their own."""

    @cached_property
    def outgoing(self) -> Mapping[Rank, tuple[Edge, ...]]:
        """Edges that leave each rank."""
        return {r: tuple(e for e in self.edges if e.src == r) for r in self.ranks}

    @cached_property
    def incoming(self) -> Mapping[Rank, tuple[Edge, ...]]:
        """Edges that enter each rank."""
        return {r: tuple(e for e in self.edges if e.dst == r) for r in self.ranks}

    @cached_property
    def by_path(self) -> Mapping[tuple[LinkId, ...], Edge]:
        """The edge of each path."""
        return {e.path: e for e in self.edges}

    def hops(self, sources: Iterable[Rank], *, backward: bool = False) -> dict[Rank, int]:
        """Return the least steps from any of ``sources`` to each rank it can reach, relays permitting.

        With ``backward`` edges are walked against their direction (how a reduction's tree grows from its root).
        """
        origin = set(sources)
        distance = dict.fromkeys(sorted(origin), 0)
        queue = deque(distance)
        table = self.incoming if backward else self.outgoing
        while queue:
            u = queue.popleft()
            if u not in origin and u not in self.relays:
                continue
            for e in table[u]:
                v = e.src if backward else e.dst
                if v not in distance:
                    distance[v] = distance[u] + 1
                    queue.append(v)
        return distance


def of_problem(problem: Problem) -> Network:
    """Return the network of a problem, its hints on relays applied."""
    relays = problem.goal.hints.relays
    return of_topology(problem.topology, None if relays is None else frozenset(relays))


def of_topology(topology: Topology, relays: frozenset[Rank] | None = None) -> Network:
    """Return the network of a topology. Without ``relays`` every rank may pass on data."""
    unit = topology.unit
    capacity = [int(link.capacity / unit) for link in topology.links if unit is not None]
    budgets_of: dict[LinkId, list[int]] = {}
    for row, budget in enumerate(topology.budgets, start=len(topology.links)):
        assert unit is not None
        capacity.append(int(budget.capacity / unit))
        for member in budget.links:
            budgets_of.setdefault(member, []).append(row)
    paths: list[tuple[LinkId, ...]] = []
    truncated = False
    for rank in topology.ranks:
        found, cut = _paths_from(topology, rank)
        paths += found
        truncated |= cut
    edges: list[Edge] = []
    for path in paths:
        rows: dict[int, int] = {}
        for step in path:
            for row in (int(step), *budgets_of.get(step, ())):
                rows[row] = rows.get(row, 0) + 1
        src, dst = topology.links[path[0]].src, topology.links[path[-1]].dst
        edges.append(Edge(len(edges), Rank(src), Rank(dst), path, tuple(sorted(rows.items()))))
    everyone = frozenset(topology.ranks)
    return Network(
        topology, topology.ranks, tuple(edges), tuple(capacity), truncated, everyone if relays is None else relays
    )


def _paths_from(topology: Topology, rank: Rank) -> tuple[list[tuple[LinkId, ...]], bool]:
    """All simple paths from a rank to others through nodes that are no GPUs, shortest first; whether some were cut."""
    leaving: dict[int, list[tuple[LinkId, int]]] = {}
    for link in topology.links:
        leaving.setdefault(link.src, []).append((link.id, link.dst))
    count: dict[int, int] = {}
    paths: list[tuple[LinkId, ...]] = []
    queue: deque[tuple[int, tuple[LinkId, ...], frozenset[int]]] = deque([(rank, (), frozenset((int(rank),)))])
    expansions = 0
    while queue:
        node, path, seen = queue.popleft()
        expansions += 1
        if expansions > EXPANSIONS_PER_RANK:
            return paths, True
        for out, dst in leaving.get(node, ()):
            if dst in seen:
                continue
            if topology.nodes[dst].kind is NodeKind.GPU:
                count[dst] = count.get(dst, 0) + 1
                if count[dst] <= PATHS_PER_PAIR:
                    paths.append((*path, out))
            else:
                queue.append((dst, (*path, out), seen | {dst}))
    return paths, any(n > PATHS_PER_PAIR for n in count.values())
