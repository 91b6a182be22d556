"""The partition bound by merging: between p parts an all_reduce passes 2(p - 1) messages an element.

From single nodes up, the two parts with the most capacity between them are merged (their links then no longer
count), or everything around a node that only passes on; each stage is a candidate, and the best one is kept.
The bound is that of one-way gossip (2n - 2 calls) over the parts; the search is greedy, the bound exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from acclc.bounds.families import Family, family
from acclc.bounds.loads import between, computes, part_numbers, partition_load, passing_nodes
from acclc.bounds.rates import Machine, RateProgram
from acclc.ir.problem import NodeId, NodeKind, Problem

Parts = tuple[tuple[NodeId, ...], ...]
SIZE_LIMIT = 60_000
"""The program's size (links times ranks, twice) up to which it is asked: DGX A100 x8 has half of it."""


def best_partition(problem: Problem) -> Parts | None:
    """Return the merged parts with the most messages for the capacity between them (None: no messages at all)."""
    best: Parts | None = None
    best_ratio = Fraction(0)
    for parts in merging(problem):
        ratio = _ratio(problem, parts)
        if ratio is not None and ratio > best_ratio:
            best, best_ratio = parts, ratio
    return best


def suggested(problem: Problem) -> Iterator[Parts]:
    """Yield partitions that the program of rates suggests: made of what its binding sets leave out.

    A partition's bound is the sum of the program's rows for all but one part at a time, so where some partition
    proves the program's optimum its parts are what binding sets leave out. None for larger programs, other kinds of
    problems, and switches that compute.
    """
    nodes = frozenset(n.id for n in problem.topology.nodes)
    passing = sum(n.kind is not NodeKind.GPU for n in problem.topology.nodes)
    if family(problem) is not Family.BOTH or len(passing_nodes(problem)) < passing:
        return
    machine = Machine(problem, Family.BOTH)
    if machine.size > SIZE_LIMIT:
        return
    program = RateProgram(machine)
    if program.solve() <= 0:
        return
    outside = sorted({tuple(sorted(nodes - inside)) for inside in program.binding()})
    for order in (sorted(outside, key=len), sorted(outside, key=len, reverse=True)):
        parts: list[tuple[NodeId, ...]] = []
        for part in order:
            if not any(set(part) & set(p) for p in parts):
                parts.append(part)
        if len(parts) > 1:
            yield tuple(parts)


def merging(problem: Problem) -> Iterator[Parts]:
    """Yield the partitions of one greedy merging, from single nodes to two parts."""
    topology = problem.topology
    parts: Parts = tuple((n.id,) for n in topology.nodes if computes(problem, n.id))
    hubs = list(passing_nodes(problem))
    yield parts
    while len(parts) > 2:
        closest = _closest(problem, parts)
        options = [*([] if closest is None else [closest]), *_around(problem, parts, hubs)]
        if not options:
            return
        parts = max(options, key=lambda p: _ratio(problem, p) or Fraction(0))
        covered = {v for part in parts for v in part}
        hubs = [h for h in hubs if h not in covered]
        yield parts


def _ratio(problem: Problem, parts: Parts) -> Fraction | None:
    """Messages for capacity; None without messages, or without links to carry them."""
    part_of = part_numbers(problem, parts)
    load = partition_load(problem.shards, part_of)
    capacity = sum((problem.topology.links[e].capacity for e in between(problem.topology, part_of)), Fraction(0))
    return load / capacity if load > 0 and capacity > 0 else None


def _closest(problem: Problem, parts: Parts) -> Parts | None:
    """Merge the two parts with the most capacity between them, direct links only."""
    part_of = {v: i for i, part in enumerate(parts) for v in part}
    joint: dict[tuple[int, int], Fraction] = {}
    for e in problem.topology.links:
        a, b = part_of.get(e.src), part_of.get(e.dst)
        if a is not None and b is not None and a != b:
            key = (min(a, b), max(a, b))
            joint[key] = joint.get(key, Fraction(0)) + e.capacity
    if not joint:
        return None
    a, b = max(joint, key=lambda k: (joint[k], -k[0], -k[1]))
    return _merge(parts, {a, b}, ())


def _around(problem: Problem, parts: Parts, hubs: list[NodeId]) -> Iterator[Parts]:
    """Merge everything linked to one passing node, with that node."""
    part_of = {v: i for i, part in enumerate(parts) for v in part}
    for hub in hubs:
        near = {part_of[e.src] for e in problem.topology.links if e.dst == hub and e.src in part_of}
        near |= {part_of[e.dst] for e in problem.topology.links if e.src == hub and e.dst in part_of}
        if near and len(parts) - len(near) + 1 >= 2:
            yield _merge(parts, near, (hub,))


def _merge(parts: Parts, chosen: set[int], extra: tuple[NodeId, ...]) -> Parts:
    """Join the chosen parts, in the place of the first of them."""
    joined = tuple(sorted({v for i in chosen for v in parts[i]} | set(extra)))
    first = min(chosen)
    return tuple(joined if i == first else part for i, part in enumerate(parts) if i == first or i not in chosen)
