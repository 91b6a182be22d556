"""Point-to-point traffic: the concurrent multi-commodity flow, as its dual (lengths of links).

max sum over shards of dist_y(source, target), subject to sum_e c_e y_e + sum_b cap_b beta_b = 1, y, beta >= 0: by
linear programming duality that is the least time per byte, if every shard goes from one place to one place.
Shards of one source share their distance variables. The solver's lengths are rounded to fractions; any lengths
prove the bound that :func:`acclc.bounds.loads.value` computes from them (Shahrokhi and Matula, 1990). Where
scarce links form a cut that proves as much, the cut is shown instead.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from acclc.bounds.classes import shard_classes
from acclc.bounds.loads import cut_load, distances, leaving, value
from acclc.bounds.rationalize import best_rounding
from acclc.ir.problem import LinkId, NodeId, Problem
from acclc.ir.result import Cut, FlowDual

ROW_LIMIT = 60_000
"""Larger programs are not tried; cuts then bound the problem alone."""

Traffic = dict[tuple[int, ...], Counter[int]]
"""How many shards each set of holders must send to each rank."""


def traffic(problem: Problem) -> Traffic:
    """Return the shards that one rank lacks: copied ones from any holder, reduced ones of one contribution."""
    found: Traffic = {}
    for c in shard_classes(problem.shards):
        lacking = c.needed & ~c.held
        if lacking.bit_count() == 1 and c.sources and (len(c.sources) == 1 or not c.reduced):
            found.setdefault(tuple(sorted(c.sources)), Counter())[lacking.bit_length() - 1] += c.count
    return found


def simple(problem: Problem, flows: Traffic) -> bool:
    """Whether plain max-flow is the truth: no budgets, and all comes from one place or goes to one."""
    if problem.topology.budgets:
        return False
    return len(flows) <= 1 or len({t for ts in flows.values() for t in ts}) <= 1


def best_flow_dual(problem: Problem) -> FlowDual | None:
    """Return link lengths and budget prices that prove the most (None: too large, or no such shards)."""
    from ortools.linear_solver import pywraplp

    topology = problem.topology
    flows = traffic(problem)
    unit = topology.unit
    if unit is None or not flows or len(flows) * len(topology.links) > ROW_LIMIT:
        return None
    solver = pywraplp.Solver.CreateSolver("GLOP")
    lengths, prices = _dual_program(solver, problem, flows, unit)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    values = [v.solution_value() for v in (*lengths, *prices)]

    def build(v: tuple[Fraction, ...]) -> FlowDual:
        y = tuple((LinkId(e), max(Fraction(0), x)) for e, x in enumerate(v[: len(lengths)]) if x > 0)
        return FlowDual(y, tuple(max(Fraction(0), x) for x in v[len(lengths) :]))

    target = solver.Objective().Value() / float(unit)
    found = best_rounding(values, build, lambda dual: value(problem, dual), target)
    return None if found is None else found[1]


def as_cut(problem: Problem, dual: FlowDual) -> Cut | None:
    """Return a cut that proves no less than link lengths do: what lies within some length of some source."""
    topology = problem.topology
    goal = value(problem, dual)
    own = dict(dual.lengths)
    lengths = [own.get(e.id, Fraction(0)) for e in topology.links]
    tried: set[tuple[NodeId, ...]] = set()
    for source in sorted({s for sources in traffic(problem) for s in sources}):
        near = distances(topology, lengths, source)
        for limit in sorted({d for d in near if d is not None})[:-1]:
            nodes = tuple(NodeId(v) for v, d in enumerate(near) if d is not None and d <= limit)
            if nodes not in tried and leaving(topology, nodes):
                tried.add(nodes)
                cut = Cut(nodes, Fraction(cut_load(problem.shards, nodes)))
                if value(problem, cut) >= goal:
                    return cut
    return None


def _dual_program(solver: Any, problem: Problem, flows: Traffic, unit: Fraction) -> tuple[list[Any], list[Any]]:
    """Write the dual down; return the variables of the lengths and of the budgets' prices."""
    topology = problem.topology
    infinite = solver.infinity()
    lengths = [solver.NumVar(0, infinite, "") for _ in topology.links]
    prices = [solver.NumVar(0, infinite, "") for _ in topology.budgets]
    scale = solver.Constraint(1, 1)
    for e in topology.links:
        scale.SetCoefficient(lengths[e.id], int(e.capacity / unit))
    on_link: dict[int, list[Any]] = {}
    for budget, price in zip(topology.budgets, prices, strict=True):
        scale.SetCoefficient(price, int(budget.capacity / unit))
        for link in budget.links:
            on_link.setdefault(link, []).append(price)
    solver.Objective().SetMaximization()
    for sources, demand in flows.items():
        distance = [solver.NumVar(0, 0 if v in sources else infinite, "") for v in range(len(topology.nodes))]
        for e in topology.links:
            if e.dst in sources:
                continue
            row = solver.Constraint(-infinite, 0)
            row.SetCoefficient(distance[e.dst], 1)
            row.SetCoefficient(distance[e.src], -1)
            row.SetCoefficient(lengths[e.id], -1)
            for price in on_link.get(e.id, ()):
                row.SetCoefficient(price, -1)
        for target, shards in demand.items():
            solver.Objective().SetCoefficient(distance[target], shards)
    return lengths, prices
