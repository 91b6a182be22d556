"""Where one cut is too weak: budgets that links share, and switches whose ports differ in and out.

The optimum of copied (or, reversed, reduced) shards is then an allocation of the links' capacity,
max x subject to a(links leaving S) >= load(S) x for every cut S, 0 <= a <= c, budgets, and balance at nodes that only
pass on (there edges can be split off: Bang-Jensen, Frank and Jackson, 1995). Cuts are added as max-flow finds them
violated. The final dual, rounded, is the certificate; only its exact value counts, so stopping early or
rounding makes the bound weaker, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from acclc.bounds.cuts import CutFinder, single_nodes
from acclc.bounds.loads import between, cut_load, leaving, part_numbers, passing_nodes, value
from acclc.bounds.partition import Parts
from acclc.bounds.rationalize import best_rounding
from acclc.ir.problem import LinkId, NodeId, Problem
from acclc.ir.result import Cut, CutSum, Partition

ROUNDS = 200
"""Rounds of adding cuts at most; a round adds at most one cut for each query."""
TOLERANCE = 1e-7
FLOW_UNITS = 2**50
"""The float allocation becomes integers that sum to at most this."""


def needed(problem: Problem) -> bool:
    """Whether a plain cut may not be the truth: there are budgets, or uneven nodes that only pass on."""
    return bool(problem.topology.budgets) or bool(uneven(problem))


def uneven(problem: Problem) -> tuple[NodeId, ...]:
    """Return the passing nodes whose capacity in and out differ."""
    balance = [Fraction(0)] * len(problem.topology.nodes)
    for e in problem.topology.links:
        balance[e.dst] += e.capacity
        balance[e.src] -= e.capacity
    return tuple(v for v in passing_nodes(problem) if balance[v] != 0)


def best_cut_sum(problem: Problem, finder: CutFinder, first: tuple[NodeId, ...]) -> CutSum | None:
    """Return weighted cuts with prices, starting from a cut that is known; None where the solver gives none."""
    program = _Allocation(problem, first)
    return program.solve(finder)


class _Links:
    """Variables a[e] of the allocation, with rows for budgets and balance: shared by both programs here."""

    def __init__(self, problem: Problem) -> None:
        from ortools.linear_solver import pywraplp

        topology = problem.topology
        assert topology.unit is not None, "asked only where there are links"
        unit = topology.unit
        self.solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self.optimal = pywraplp.Solver.OPTIMAL
        self.unit = unit
        self.amounts = [self.solver.NumVar(0, int(e.capacity / unit), "") for e in topology.links]
        self.budgets = []
        for budget in topology.budgets:
            row = self.solver.Constraint(-self.solver.infinity(), int(budget.capacity / unit))
            for link in budget.links:
                row.SetCoefficient(self.amounts[link], 1)
            self.budgets.append(row)
        self.passing = passing_nodes(problem)
        self.balances = []
        for v in self.passing:
            row = self.solver.Constraint(0, 0)
            for e in topology.links:
                if v in (e.src, e.dst) and e.src != e.dst:
                    row.SetCoefficient(self.amounts[e.id], 1 if e.dst == v else -1)
            self.balances.append(row)

    def duals(self) -> list[float]:
        """Potentials of the passing nodes, then prices of the budgets, in the sense of ``CutSum``."""
        return [-row.dual_value() for row in self.balances] + [row.dual_value() for row in self.budgets]

    def priced(self, v: Sequence[Fraction]) -> tuple[tuple[tuple[NodeId, Fraction], ...], tuple[Fraction, ...]]:
        """The certificate's fields from rounded ``duals``."""
        count = len(self.passing)
        potentials = tuple((node, pi) for node, pi in zip(self.passing, v[:count], strict=True) if pi != 0)
        return potentials, tuple(max(Fraction(0), beta) for beta in v[count:])


class _Allocation:
    """max x over allocations, cut by cut."""

    def __init__(self, problem: Problem, first: tuple[NodeId, ...]) -> None:
        self.problem = problem
        self.links = _Links(problem)
        self.rate = self.links.solver.NumVar(0, self.links.solver.infinity(), "")
        self.links.solver.Objective().SetCoefficient(self.rate, 1)
        self.links.solver.Objective().SetMaximization()
        self.rows: list[Any] = []
        self.cuts: list[Cut] = []
        self.known: set[tuple[NodeId, ...]] = set()
        for nodes in (first, *single_nodes(problem)):
            self.add(nodes)

    def add(self, nodes: tuple[NodeId, ...]) -> bool:
        """Demand that the links leaving a set carry its load; False if it does so already."""
        load = cut_load(self.problem.shards, nodes)
        if nodes in self.known or load == 0:
            return False
        self.known.add(nodes)
        row = self.links.solver.Constraint(0, self.links.solver.infinity())
        for e in leaving(self.problem.topology, nodes):
            row.SetCoefficient(self.links.amounts[e], 1)
        row.SetCoefficient(self.rate, -load)
        self.rows.append(row)
        self.cuts.append(Cut(nodes, Fraction(load)))
        return True

    def solve(self, finder: CutFinder) -> CutSum | None:
        """Add violated cuts until there are none, and return the rounded dual."""
        for _ in range(ROUNDS):
            if self.links.solver.Solve() != self.links.optimal:
                return None
            added = [self.add(nodes) for nodes in self.violated(finder)]
            if not any(added):
                break
        if self.links.solver.Solve() != self.links.optimal or self.rate.solution_value() <= 0:
            return None
        values = [-row.dual_value() for row in self.rows] + self.links.duals()
        target = 1 / (self.rate.solution_value() * float(self.links.unit))
        found = best_rounding(values, self.certificate, lambda c: value(self.problem, c), target)
        return None if found is None else found[1]

    def certificate(self, v: Sequence[Fraction]) -> CutSum:
        """The dual as a sum of cuts."""
        potentials, prices = self.links.priced(v[len(self.rows) :])
        cuts = tuple((w, cut) for w, cut in zip(v, self.cuts, strict=False) if w > 0)
        return CutSum(cuts, potentials, prices)

    def violated(self, finder: CutFinder) -> list[tuple[NodeId, ...]]:
        """Cuts that the present allocation is too narrow for, at most one a query."""
        amounts = np.array([max(0.0, a.solution_value()) for a in self.links.amounts])
        rate = self.rate.solution_value()
        total = max(float(amounts.sum()), rate * len(self.problem.shards), 1e-12)
        scaled = np.floor(amounts * (FLOW_UNITS / total)).astype(np.int64)
        per_shard = int(rate * FLOW_UNITS / total)
        found: dict[tuple[NodeId, ...], None] = {}
        for query in finder.queries:
            nodes = finder.cut(query, scaled, per_shard)
            if nodes is None or nodes in found:
                continue
            room = sum(float(amounts[e]) for e in leaving(self.problem.topology, nodes))
            if room < cut_load(self.problem.shards, nodes) * rate * (1 - TOLERANCE):
                found[nodes] = None
        return list(found)


def priced_partition(problem: Problem, partitions: Iterable[Parts]) -> Partition | None:
    """Return the best of some partitions with the capacity between its parts limited by budgets and balance."""
    best: Partition | None = None
    most = Fraction(0)
    for parts in partitions:
        priced = _priced(problem, parts)
        if priced is not None and priced[0] > most:
            most, best = priced
    return best


def _priced(problem: Problem, parts: tuple[tuple[NodeId, ...], ...]) -> tuple[Fraction, Partition] | None:
    """Maximise what the links between the parts carry; its dual prices the certificate."""
    links = _Links(problem)
    counted: tuple[LinkId, ...] = between(problem.topology, part_numbers(problem, parts))
    for e in counted:
        links.solver.Objective().SetCoefficient(links.amounts[e], 1)
    links.solver.Objective().SetMaximization()
    if links.solver.Solve() != links.optimal:
        return None

    def build(v: tuple[Fraction, ...]) -> Partition:
        # The leading 1 is the count of a link: prices are relative to it.
        scale = v[0] if v[0] > 0 else Fraction(1)
        potentials, prices = links.priced([x / scale for x in v[1:]])
        return Partition(parts, potentials, prices)

    # A partition's value is only known through its certificate, so no target ends the rounding early.
    return best_rounding([1.0, *links.duals()], build, lambda c: value(problem, c), float("inf"))
