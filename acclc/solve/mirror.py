"""Where every link has a twin the other way, a copy schedule read backward is a reduction: half the work is spared."""

from __future__ import annotations

from collections import Counter

from acclc.ir.problem import LinkId, Problem, Topology
from acclc.ir.schedule import Schedule
from acclc.solve.items import Kind, Moves, assemble, formulate
from acclc.solve.network import Edge, Network


def twins(topology: Topology) -> tuple[LinkId, ...] | None:
    """Return for each link one of equal capacity the other way, no two the same; None where links or budgets differ."""
    between: dict[tuple[int, int], list[LinkId]] = {}
    for link in sorted(topology.links, key=lambda x: (x.capacity, x.id)):
        between.setdefault((link.src, link.dst), []).append(link.id)
    twin = [LinkId(-1)] * len(topology.links)
    for (u, v), ids in between.items():
        back = between.get((v, u), [])
        if [topology.links[x].capacity for x in ids] != [topology.links[x].capacity for x in back]:
            return None
        for a, b in zip(ids, back, strict=True):
            twin[a] = b
    budgets = Counter((frozenset(b.links), b.capacity) for b in topology.budgets)
    turned = Counter((frozenset(twin[x] for x in b.links), b.capacity) for b in topology.budgets)
    return tuple(twin) if budgets == turned else None


def reduction_of(copies: Schedule, problem: Problem, network: Network) -> Schedule | None:
    """Return the schedule of ``problem`` that reverses a schedule of copies: shard by shard, in reversed time.

    ``problem`` must be made of reductions to one rank each, shard k being reduced to the only source of the copied
    shard k, from no other ranks than its targets. None where the machine is not the same both ways.
    """
    twin = twins(network.topology)
    if twin is None:
        return None
    chunks, steps = copies.chunks_per_shard, copies.steps
    inward: list[list[tuple[Edge, int]]] = [[] for _ in copies.chunks]
    for t in copies.transfers:
        edge = network.by_path.get(tuple(twin[x] for x in reversed(t.path)))
        if edge is None:
            return None
        inward[t.chunk].append((edge, steps - 1 - t.step))
    items = formulate(problem, network, chunks)
    if any(i.kind is not Kind.REDUCE for i in items):
        return None
    moves = [Moves(tuple(inward[i.shard * chunks + i.chunk])) for i in items]
    return assemble(problem, chunks, items, moves, copies.rounds[::-1], copies.strategy)
