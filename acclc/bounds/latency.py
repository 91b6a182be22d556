"""Latency bounds: no schedule undercuts the hops, or the link latencies, on the way to the farthest target.

A step passes data from GPU to GPU; switches, hosts and NICs on the way belong to the same step.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from acclc.bounds.loads import UnreachableError
from acclc.bounds.words import seconds_text
from acclc.ir.problem import LinkId, NodeId, NodeKind, Problem, Rank, Topology
from acclc.ir.result import LatencyBound, LongestPath


def latency_bound(problem: Problem) -> LatencyBound:
    """Return the least steps and the least seconds of link latency of any schedule.

    Raises UnreachableError where a target has no path from the data it needs.
    """
    topology = problem.topology
    gpu = [n.kind is NodeKind.GPU for n in topology.nodes]
    hops = [int(gpu[e.dst]) for e in topology.links]
    scale = lcm(*(e.cls.latency.denominator for e in topology.links)) if topology.links else 1
    delays = [int(e.cls.latency * scale) for e in topology.links]
    steps, farthest = _longest(problem, hops)
    ticks, slowest = _longest(problem, delays)
    seconds = Fraction(ticks, scale)
    if farthest is None or slowest is None:
        return LatencyBound(0, None, Fraction(0), None, "no data has to move")
    words = f"{_ends(topology, farthest)}: {steps} step{'s' if steps != 1 else ''}"
    if seconds > 0:
        same = (farthest.src, farthest.dst) == (slowest.src, slowest.dst)
        words += " and " if same else f"; {_ends(topology, slowest)}: "
        words += f"{seconds_text(seconds)} of link latency"
    return LatencyBound(steps, farthest, seconds, slowest, words)


def _ends(topology: Topology, path: LongestPath) -> str:
    return f"from {topology.nodes[path.src].name} to {topology.nodes[path.dst].name}"


def _longest(problem: Problem, lengths: Sequence[int]) -> tuple[int, LongestPath | None]:
    """Return the largest distance any shard must travel, with the source, target and path of it."""
    trees: dict[Rank, tuple[list[int | None], list[LinkId | None]]] = {}
    longest = -1
    ends: tuple[Rank, Rank] | None = None
    seen: set[tuple[tuple[Rank, ...], Rank, bool]] = set()
    for shard in problem.shards:
        for source in shard.sources:
            if source not in trees:
                trees[source] = _shortest_tree(problem.topology, lengths, source)
        for target in shard.targets:
            key = (shard.sources, target, shard.reduced)
            if key in seen or not shard.sources or (target in shard.sources and not shard.reduced):
                continue
            seen.add(key)
            found = [(trees[s][0][target], s) for s in shard.sources]
            reached = [(d, s) for d, s in found if d is not None]
            if not reached or (shard.reduced and len(reached) < len(found)):
                names = problem.topology.nodes
                missing = next(s for d, s in found if d is None)
                raise UnreachableError(f"no path of links leads from {names[missing].name} to {names[target].name}")
            d, s = max(reached, key=lambda x: (x[0], -x[1])) if shard.reduced else min(reached)
            if s != target and d > longest:
                longest, ends = d, (s, target)
    if ends is None:
        return 0, None
    return longest, LongestPath(ends[0], ends[1], _path(problem.topology, trees[ends[0]][1], ends[1]))


def _shortest_tree(
    topology: Topology, lengths: Sequence[int], source: Rank
) -> tuple[list[int | None], list[LinkId | None]]:
    """Return distances and, for each node, the last link of a shortest path to it (lowest id among equals)."""
    out: list[list[LinkId]] = [[] for _ in topology.nodes]
    for e in topology.links:
        out[e.src].append(e.id)
    dist: list[int | None] = [None] * len(topology.nodes)
    last: list[LinkId | None] = [None] * len(topology.nodes)
    heap: list[tuple[int, int, int, int]] = [(0, 0, -1, source)]
    while heap:
        d, links, via, v = heapq.heappop(heap)
        if dist[v] is not None:
            continue
        dist[v] = d
        last[v] = LinkId(via) if via >= 0 else None
        for link in out[v]:
            w = topology.links[link].dst
            if dist[w] is None:
                heapq.heappush(heap, (d + lengths[link], links + 1, link, w))
    return dist, last


def _path(topology: Topology, last: Sequence[LinkId | None], target: NodeId | Rank) -> tuple[LinkId, ...]:
    path: list[LinkId] = []
    link = last[target]
    while link is not None:
        path.append(link)
        link = last[topology.links[link].src]
    return tuple(reversed(path))
