"""What a cut, a sum of cuts, a partition or a set of lengths proves: all arithmetic exact.

Searches propose certificates (from flows, linear programs, merging); only the functions here say what a
certificate is worth, so an inexact search can make a bound weak but never wrong. Legend: S a node set,
c_e capacity of link e (bytes/s), n_e how often the cuts count link e, pi potentials, beta budget prices.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from acclc.bounds.classes import ShardClass, bits, shard_classes
from acclc.ir.problem import LinkId, NodeId, NodeKind, Problem, Shard, Topology
from acclc.ir.result import Certificate, Cut, CutSum, FlowDual, Partition, TreeDual

ZERO = Fraction(0)


class UnreachableError(ValueError):
    """Data must reach a rank to which no path of links leads: no schedule exists, whatever its length."""


def computes(problem: Problem, node: NodeId) -> bool:
    """Whether a node may send what it did not receive as it is: GPUs copy and reduce, some switches do."""
    n = problem.topology.nodes[node]
    return n.kind is NodeKind.GPU or (n.can_reduce and problem.reduces) or (n.can_multicast and copies(problem))


def copies(problem: Problem) -> bool:
    """Whether any shard has several targets, so that copying it on the way helps."""
    return any(len(s.targets) > 1 for s in problem.shards)


def passing_nodes(problem: Problem) -> tuple[NodeId, ...]:
    """Return the nodes through which flow is conserved: what enters them leaves them, once."""
    return tuple(n.id for n in problem.topology.nodes if not computes(problem, n.id))


def cut_load(shards: Sequence[Shard], nodes: Iterable[int]) -> int:
    """Return how many shards must leave a node set (``ShardClass.leaves``)."""
    inside = bits(nodes)
    return sum(c.count for c in shard_classes(shards) if c.leaves(inside))


def partition_load(shards: Sequence[Shard], part_of: Mapping[int, int]) -> int:
    """Return how many messages an element of every shard must pass between parts, at least.

    Reduced, with contributions in a parts and targets in b parts: until some part first knows the whole sum,
    a - 1 messages (a, if that part contributes nothing); then one into every other part with a target. With
    a = b = p this is the 2(p - 1) of one-way gossip. Copied: one into every part with a target and no holder.
    """
    load = 0
    for c in shard_classes(shards):
        sources = {part_of[s] for s in c.sources}
        targets = {part_of[t] for t in c.targets}
        if not sources or not targets:
            continue
        if c.reduced:
            load += c.count * (len(sources) + len(targets) - (2 if sources & targets else 1))
        else:
            load += c.count * len(targets - sources)
    return load


def part_numbers(problem: Problem, parts: Sequence[Iterable[int]]) -> dict[int, int]:
    """Return each node's part. Uncovered nodes that compute are parts of their own; passing ones have none.

    Raises ValueError where parts overlap.
    """
    part_of: dict[int, int] = {}
    for number, part in enumerate(parts):
        for node in part:
            if node in part_of:
                raise ValueError(f"node {node} lies in two parts")
            part_of[node] = number
    for n in problem.topology.nodes:
        if n.id not in part_of and computes(problem, n.id):
            part_of[n.id] = len(parts) + n.id
    return part_of


def leaving(topology: Topology, nodes: Iterable[int]) -> tuple[LinkId, ...]:
    """Return the links from a node set to the rest."""
    inside: set[int] = set(nodes)
    return tuple(e.id for e in topology.links if e.src in inside and e.dst not in inside)


def between(topology: Topology, part_of: Mapping[int, int]) -> tuple[LinkId, ...]:
    """Return the links that leave a part."""
    return tuple(e.id for e in topology.links if e.src in part_of and part_of.get(e.dst) != part_of[e.src])


def priced_capacity(
    topology: Topology,
    counts: Mapping[LinkId, Fraction],
    potentials: Iterable[tuple[NodeId, Fraction]] = (),
    budget_prices: Sequence[Fraction] = (),
) -> Fraction:
    """Return what any allocation carries at most over links counted n_e times (bytes/s).

    sum_b beta_b cap_b + sum_e c_e max(0, n_e + pi_dst - pi_src - sum_{b on e} beta_b): weak duality over
    allocations 0 <= a <= c that keep the budgets and balance at the nodes with a potential.
    """
    pi = dict(potentials)
    price: dict[LinkId, Fraction] = {}
    total = ZERO
    for budget, beta in zip(topology.budgets, budget_prices, strict=False):
        total += beta * budget.capacity
        for link in budget.links:
            price[link] = price.get(link, ZERO) + beta
    for e in topology.links:
        worth = counts.get(e.id, ZERO) + pi.get(e.dst, ZERO) - pi.get(e.src, ZERO) - price.get(e.id, ZERO)
        if worth > 0:
            total += e.capacity * worth
    return total


def distances(
    topology: Topology, lengths: Sequence[Fraction] | Sequence[int], source: int
) -> list[Fraction | int | None]:
    """Return the shortest distance from ``source`` to every node under link lengths >= 0 (None: no path)."""
    out: list[list[tuple[int, Fraction | int]]] = [[] for _ in topology.nodes]
    for e in topology.links:
        out[e.src].append((e.dst, lengths[e.id]))
    dist: list[Fraction | int | None] = [None] * len(topology.nodes)
    heap: list[tuple[Fraction | int, int]] = [(0, source)]
    while heap:
        d, v = heapq.heappop(heap)
        if dist[v] is not None:
            continue
        dist[v] = d
        for w, length in out[v]:
            if dist[w] is None:
                heapq.heappush(heap, (d + length, w))
    return dist


def shard_distance(shard: ShardClass, dist: Mapping[int, Sequence[Fraction | int | None]]) -> Fraction | int | None:
    """Return how far a shard must travel at least: its farthest target, from the nearest holder.

    A reduced shard has no choice of holder: its farthest contribution counts. None: no path.
    """
    farthest: Fraction | int = 0
    for target in shard.targets:
        found = [dist[s][target] for s in shard.sources]
        reached = [d for d in found if d is not None]
        if not reached or (shard.reduced and len(reached) < len(found)):
            return None
        farthest = max(farthest, max(reached) if shard.reduced else min(reached))
    return farthest


def value(problem: Problem, certificate: Certificate) -> Fraction:
    """Return the seconds per byte of shard that a throughput certificate proves.

    Raises UnreachableError where load meets no capacity at all, ValueError for a certificate of another kind.
    """
    topology = problem.topology
    if isinstance(certificate, CutSum | Partition):
        wrong = [v for v, _ in certificate.potentials if computes(problem, v)]
        if wrong:
            raise ValueError(f"node {wrong[0]} computes, so it does not conserve flow: it has no potential")
    match certificate:
        case Cut(nodes):
            load, capacity = Fraction(cut_load(problem.shards, nodes)), _sum(topology, leaving(topology, nodes))
        case CutSum(cuts, potentials, prices):
            load, counts = ZERO, dict[LinkId, Fraction]()
            for weight, cut in cuts:
                load += weight * cut_load(problem.shards, cut.nodes)
                for link in leaving(topology, cut.nodes):
                    counts[link] = counts.get(link, ZERO) + weight
            capacity = priced_capacity(topology, counts, potentials, prices)
        case Partition(parts):
            part_of = part_numbers(problem, parts)
            load = Fraction(partition_load(problem.shards, part_of))
            ones = {link: Fraction(1) for link in between(topology, part_of)}
            capacity = priced_capacity(topology, ones, certificate.potentials, certificate.budget_prices)
        case FlowDual():
            load, capacity = flow_dual_value(problem, certificate)
        case TreeDual():
            load, capacity = tree_dual_value(problem, certificate)
        case _:
            raise ValueError(f"{type(certificate).__name__} proves no throughput")
    if load <= 0:
        return ZERO
    if capacity <= 0:
        raise UnreachableError("data must leave a part of the topology from which no link leads out")
    return load / capacity


def flow_dual_value(problem: Problem, dual: FlowDual) -> tuple[Fraction, Fraction]:
    """Return (sum of the shards' distances, sum of capacity times length) of link lengths and budget prices."""
    lengths, capacity = _with_budgets(problem.topology, dual)
    load = ZERO
    for c, d in _class_distances(problem, lengths):
        load += d * c.count
    return load, capacity


def tree_dual_value(problem: Problem, dual: TreeDual) -> tuple[Fraction, Fraction]:
    """Return (sum of what the shards need, sum of capacity times length): see :class:`TreeDual`.

    Transfers into different ranks are different ones, and nodes that only pass on copy nothing, so the costs of hops
    into several ranks (or out of several) add up; messages are counted as between parts of one rank each.
    """
    topology = problem.topology
    lengths, capacity = _with_budgets(topology, dual)
    hops = _hops(problem, lengths)
    into: dict[int, Fraction] = {}
    out: dict[int, Fraction] = {}
    for u, v, cost in hops:
        into[v] = min(cost, into.get(v, cost))
        out[u] = min(cost, out.get(u, cost))
    shortest = min((cost for _, _, cost in hops), default=ZERO)
    single = {int(r): int(r) for r in topology.ranks}
    load = ZERO
    for c, distance in _class_distances(problem, lengths):
        sources, targets = set(map(int, c.sources)), set(map(int, c.targets))
        several = c.reduced and len(sources) > 1
        entered = targets if several else targets - sources
        needs = [Fraction(distance), sum((into.get(t, ZERO) for t in entered), ZERO)]
        if several:
            needs.append(sum((out.get(s, ZERO) for s in sources if targets != {s}), ZERO))
        needs.append(partition_load((c.first,), single) * shortest)
        load += max(needs) * c.count
    return load, capacity


def _with_budgets(topology: Topology, dual: FlowDual | TreeDual) -> tuple[list[Fraction], Fraction]:
    """Return each link's length with its budgets' prices, and the sum of capacity times length."""
    own = dict(dual.lengths)
    lengths = [own.get(e.id, ZERO) for e in topology.links]
    capacity = sum((e.capacity * lengths[e.id] for e in topology.links), ZERO)
    for budget, beta in zip(topology.budgets, dual.budget_prices, strict=False):
        capacity += beta * budget.capacity
        for link in budget.links:
            lengths[link] += beta
    return lengths, capacity


def _class_distances(problem: Problem, lengths: Sequence[Fraction]) -> Iterable[tuple[ShardClass, Fraction | int]]:
    """Yield every class of shards that goes anywhere with how far one must travel."""
    classes = shard_classes(problem.shards)
    starts = sorted({s for c in classes for s in c.sources})
    dist: dict[int, Sequence[Fraction | int | None]] = {s: distances(problem.topology, lengths, s) for s in starts}
    for c in classes:
        if not c.sources or not c.targets:
            continue
        d = shard_distance(c, dist)
        if d is None:
            raise UnreachableError(f"shard {c.first.name} cannot reach a rank that needs it")
        yield c, d


def _hops(problem: Problem, lengths: Sequence[Fraction]) -> list[tuple[int, int, Fraction]]:
    """Return (u, v, cost) of the cheapest hop between any two nodes that compute, through others that do not."""
    topology = problem.topology
    computing = {n.id for n in topology.nodes if computes(problem, n.id)}
    out: list[list[tuple[int, Fraction]]] = [[] for _ in topology.nodes]
    for e in topology.links:
        out[e.src].append((e.dst, lengths[e.id]))
    found: list[tuple[int, int, Fraction]] = []
    for start in sorted(computing):
        heap: list[tuple[Fraction, int]] = [(ZERO, start)]
        done: set[int] = set()
        while heap:
            cost, v = heapq.heappop(heap)
            if v in done:
                continue
            done.add(v)
            if v != start and v in computing:
                found.append((start, v, cost))
                continue
            for w, length in out[v]:
                if w not in done:
                    heapq.heappush(heap, (cost + length, w))
    return found


def _sum(topology: Topology, links: Iterable[LinkId]) -> Fraction:
    return sum((topology.links[e].capacity for e in links), ZERO)
