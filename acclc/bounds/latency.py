"""Latency bounds: no schedule undercuts the hops, or the link latencies, on the way to the farthest target.

A step passes data from GPU to GPU; switches, hosts and NICs on the way belong to the same step.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from acclc.bounds.classes import shard_classes
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
    classes = [c for c in shard_classes(problem.shards) if c.sources and c.targets]
    starts = list(dict.fromkeys(s for c in classes for s in c.sources))
    row = {s: i for i, s in enumerate(starts)}
    table, unreached = _distances(problem.topology, lengths, starts)
    as_arrays: dict[int, Any] = {}
    longest = -1
    ends: tuple[NodeId, NodeId] | None = None
    for c in classes:
        sources, targets = sorted(c.sources), as_arrays.get(c.needed)
        if targets is None:
            targets = as_arrays[c.needed] = np.array(c.targets, dtype=np.int64)
        if not c.reduced and c.held & c.needed:
            targets = targets[(targets[:, None] != sources).all(axis=1)]
        if not len(targets):
            continue
        ways = table[[row[s] for s in sources]][:, targets]
        # Of a copied shard the nearest holder sends; of a reduced one the farthest contribution has to arrive.
        travelled = ways.max(axis=0) if c.reduced else ways.min(axis=0)
        lost = np.flatnonzero(travelled > unreached)
        if len(lost):
            missing = next(s for s in c.sources if table[row[s], targets[lost[0]]] > unreached)
            raise UnreachableError(_no_path(problem.topology, missing, int(targets[lost[0]])))
        for column in np.flatnonzero(travelled > longest).tolist():
            d, target = int(travelled[column]), NodeId(int(targets[column]))
            if d > longest:
                # a contribution of the target itself goes nowhere, however long the others take
                away = (s for s, way in zip(sources, ways[:, column].tolist(), strict=True) if way == d and s != target)
                source = next(away, None)
                if source is not None:
                    longest, ends = d, (source, target)
    if ends is None:
        return 0, None
    last = _shortest_tree(problem.topology, lengths, ends[0])
    return longest, LongestPath(Rank(ends[0]), Rank(ends[1]), _path(problem.topology, last, ends[1]))


def _no_path(topology: Topology, source: int, target: int) -> str:
    return f"no path of links leads from {topology.nodes[source].name} to {topology.nodes[target].name}"


def _distances(topology: Topology, lengths: Sequence[int], starts: Sequence[NodeId]) -> tuple[Any, int]:
    """Return the distance from each start (row) to each node, and the number above which there is no path.

    Links are relaxed for all starts at once until none improves anything (Bellman and Ford): there are few
    rounds where few links lead from anywhere to anywhere.
    """
    unreached = sum(lengths)
    # narrow numbers are fast; whole numbers of any size where sums might not fit 64 bits
    kind = np.int32 if unreached < 2**29 else np.int64 if unreached < 2**61 else object
    distance = np.full((len(topology.nodes), len(starts)), unreached + 1, dtype=kind)
    distance[starts, range(len(starts))] = 0
    into: dict[int, list[tuple[int, int]]] = {}
    for e in topology.links:
        into.setdefault(e.dst, []).append((e.src, lengths[e.id]))
    ways = [
        (head, np.array([u for u, _ in near]), np.array([n for _, n in near], dtype=kind)[:, None])
        for head, near in into.items()
    ]
    changed = True
    while changed:
        changed = False
        for head, tails, along in ways:
            best = (distance[tails] + along).min(axis=0)
            here = distance[head]
            if (best < here).any():
                np.minimum(best, here, out=here)
                changed = True
    return distance.T, unreached


def _shortest_tree(topology: Topology, lengths: Sequence[int], source: NodeId) -> list[LinkId | None]:
    """Return for each node the last link of a shortest path to it: fewest links, then the lowest id among equals."""
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
    return last


def _path(topology: Topology, last: Sequence[LinkId | None], target: NodeId) -> tuple[LinkId, ...]:
    path: list[LinkId] = []
    link = last[target]
    while link is not None:
        path.append(link)
        link = last[topology.links[link].src]
    return tuple(reversed(path))
