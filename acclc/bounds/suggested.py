"""Partitions that the program of rates suggests, where merging finds none that is as strong.

A partition's bound is the sum of the program's rows for all but one part at a time, so where some partition proves
the program's optimum its parts are what binding sets leave out.
"""

from __future__ import annotations

from collections.abc import Iterator

from acclc.bounds.families import Family, family
from acclc.bounds.loads import passing_nodes
from acclc.bounds.partition import Parts
from acclc.bounds.rates import Machine, RateProgram
from acclc.ir.problem import NodeId, NodeKind, Problem

SIZE_LIMIT = 60_000
"""The program's size (links times ranks, twice) up to which it is asked: DGX A100 x8 has half of it."""


def suggested(problem: Problem) -> Iterator[Parts]:
    """Yield partitions; none for larger programs, other kinds of problems, and switches that compute."""
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
