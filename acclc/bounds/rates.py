"""How fast: the rates at which collecting and spreading may use every link, by a linear program.

Where links share budgets, where a switch lets in more than out, or where a reduction that all need is not best made
of two halves one after the other, the capacities themselves have to be chosen before trees can be packed. With beta_e
and gamma_e the rates of link e for collecting and for spreading, and x_r the rate of what has its root at rank r,
maximise sum_r x_r subject to
  gamma(links leaving S) >= x(S) and beta(links entering S) >= x(S) for every node set S that misses some rank,
  beta_e + gamma_e <= c_e, budgets likewise, and beta and gamma each balanced at nodes that only pass on.
Spreading alone has no beta and its x_r are given up to a common factor; collecting alone is the same on the reversed
machine. By Edmonds (and by edge splitting at the balanced nodes: Bang-Jensen, Frank and Jackson, 1995) trees then
exist, so this is the optimum among schedules that send every piece up one tree and down another. Sets S are added as
max-flow finds them violated: that makes a program of hundreds of rows where flows for every rank would take millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from acclc.bounds.families import Family, root_counts
from acclc.ir.problem import NodeKind, Problem, Topology

Amounts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]

ROUNDS = 400
"""Times that violated sets are added at most."""
TOLERANCE = 1e-7
RATE_KEPT = 1e-10
USE = 1e-3
"""What a link's use counts beside a root's width, both as parts of the greatest."""
FLOW_UNITS = 2**50
"""Float rates become integers that sum to at most this."""
Spend = Callable[[int], None]
"""Takes note of counted work (arcs in flows, and the like); may raise to end it."""


def free_of_charge(_work: int) -> None:
    """Let any work be done."""


class Machine:
    """What the program looks at: links by their ends as each side sees them, whole rates, what passes on."""

    def __init__(self, problem: Problem, kind: Family) -> None:
        topology: Topology = problem.topology
        assert topology.unit is not None, "a machine without links has nothing to allocate"
        self.unit = topology.unit
        self.kind = kind
        self.nodes = len(topology.nodes)
        self.ranks = topology.ranks
        self.links = topology.links
        self.lanes = [int(e.capacity / self.unit) for e in topology.links]
        self.budgets = [(b.links, int(b.capacity / self.unit)) for b in topology.budgets]
        self.passing = tuple(n.id for n in topology.nodes if n.kind is not NodeKind.GPU)
        self.roots = root_counts(problem, kind)
        """Shards with their root at each rank; for ``BOTH`` it is free, and there are so many equal shards."""
        self.free = kind is Family.BOTH
        self.repeats = len(problem.shards) if self.free else 1
        self.shards = 1 if self.free else len(problem.shards)
        """How many shards the program lays out: of equal ones that all need only one, so many times over."""
        forward, backward = [(e.src, e.dst) for e in topology.links], [(e.dst, e.src) for e in topology.links]
        self.sides = {
            Family.SPREAD: [forward],
            Family.COLLECT: [backward],
            Family.BOTH: [backward, forward],
        }[kind]

    @property
    def size(self) -> int:
        """Links times ranks times sides: what a round of separation costs grows with it."""
        return len(self.sides) * len(self.links) * len(self.ranks)

    def leaving(self, side: int, nodes: frozenset[int]) -> list[int]:
        """Return the links that leave a set, as a side sees them."""
        return [e for e, (u, v) in enumerate(self.sides[side]) if u in nodes and v not in nodes]


class Separator:
    """For one side: which set of nodes is left by too little for what has its roots inside?"""

    def __init__(self, machine: Machine, side: int, spend: Spend) -> None:
        from ortools.graph.python import max_flow

        self._ranks, self._nodes, self._spend = machine.ranks, machine.nodes, spend
        ends = [*machine.sides[side], *((machine.nodes, r) for r in machine.ranks)]
        pairs = np.array(ends, dtype=np.int32)
        self._flow: Any = max_flow.SimpleMaxFlow()
        self._arcs = self._flow.add_arcs_with_capacity(
            pairs[:, 0].copy(), pairs[:, 1].copy(), np.zeros(len(ends), dtype=np.int64)
        )

    def violated(self, amounts: Amounts, supplies: Amounts) -> Iterator[frozenset[int]]:
        """Yield node sets, at most one a rank."""
        self._flow.set_arcs_capacity(self._arcs, np.concatenate([amounts, supplies]))
        total = int(supplies.sum())
        for rank in self._ranks:
            self._spend(len(self._arcs))
            status = self._flow.solve(self._nodes, rank)
            if status != self._flow.OPTIMAL:
                raise OverflowError(f"max-flow ended with {status}")
            if self._flow.optimal_flow() < total:
                yield frozenset(v for v in self._flow.get_source_side_min_cut() if v < self._nodes)


class RateProgram:
    """The linear program, in units of the machine's rate; keeps its sets for the search of whole units."""

    def __init__(self, machine: Machine, spend: Spend = free_of_charge) -> None:
        from ortools.linear_solver import pywraplp

        self.machine, self._spend = machine, spend
        self.separators = [Separator(machine, side, spend) for side in range(len(machine.sides))]
        self.sets: dict[tuple[int, frozenset[int]], None] = {}
        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._optimal = pywraplp.Solver.OPTIMAL
        infinite = self._solver.infinity()
        self._rate = self._solver.NumVar(0, infinite, "")
        self._amounts = [[self._solver.NumVar(0, c, "") for c in machine.lanes] for _ in machine.sides]
        self._roots = self._root_variables()
        self._limits()
        self._rows: list[tuple[frozenset[int], Any]] = []
        for side in range(len(machine.sides)):
            everything = frozenset(range(machine.nodes))
            for rank in machine.ranks:
                self._add(side, frozenset((rank,)))
                self._add(side, everything - {rank})
        self._solver.Objective().SetCoefficient(self._rate, 1)
        self._solver.Objective().SetMaximization()

    def _root_variables(self) -> list[Any] | None:
        """For a reduction that all need, the rate of each root; else None: it is given."""
        if not self.machine.free:
            return None
        roots = [self._solver.NumVar(0, self._solver.infinity(), "") for _ in self.machine.ranks]
        row = self._solver.Constraint(0, 0)
        row.SetCoefficient(self._rate, -1)
        for x in roots:
            row.SetCoefficient(x, 1)
        return roots

    def _limits(self) -> None:
        machine, infinite = self.machine, self._solver.infinity()
        both = [((e,), c) for e, c in enumerate(machine.lanes)] if len(machine.sides) > 1 else []
        for links, capacity in [*both, *machine.budgets]:
            row = self._solver.Constraint(-infinite, capacity)
            for e in links:
                for amounts in self._amounts:
                    row.SetCoefficient(amounts[e], 1)
        for amounts, ends in zip(self._amounts, machine.sides, strict=True):
            for node in machine.passing:
                row = self._solver.Constraint(0, 0)
                for e, (u, v) in enumerate(ends):
                    if u != v and node in (u, v):
                        row.SetCoefficient(amounts[e], 1 if v == node else -1)

    def _add(self, side: int, nodes: frozenset[int]) -> bool:
        """Demand that a set is left by what has its roots inside; False where that is known."""
        if (side, nodes) in self.sets:
            return False
        self.sets[side, nodes] = None
        row = self._solver.Constraint(0, self._solver.infinity())
        self._rows.append((nodes, row))
        for e in self.machine.leaving(side, nodes):
            row.SetCoefficient(self._amounts[side][e], 1)
        if self._roots is None:
            row.SetCoefficient(self._rate, -sum(self.machine.roots[r] for r in self.machine.ranks if r in nodes))
        else:
            for r in self.machine.ranks:
                if r in nodes:
                    row.SetCoefficient(self._roots[r], -1)
        return True

    def solve(self) -> float:
        """Return the greatest rate (0: the solver gave up). Raises what ``spend`` raises."""
        for _ in range(ROUNDS):
            self._spend(self._solver.NumVariables() * self._solver.NumConstraints() // 64)
            if self._solver.Solve() != self._optimal:
                return 0.0
            found = list(self._violated())
            if not sum(self._add(side, nodes) for side, nodes in found):
                break
        return float(self._rate.solution_value())

    def settle(self, rate: float) -> None:
        """Of all solutions of a rate take one with its roots at the widest ranks and little use of links.

        It makes shallow trees. Where the roots are given nothing changes. Raises what ``spend`` raises.
        """
        if self._roots is None:
            return
        machine, objective = self.machine, self._solver.Objective()
        self._rate.SetLb(rate * (1 - RATE_KEPT))
        objective.SetCoefficient(self._rate, 0)
        width = [0] * machine.nodes
        for (u, v), c in zip(machine.sides[0], machine.lanes, strict=True):
            width[u] += c
            width[v] += c
        most = max(width)
        for rank, x in zip(machine.ranks, self._roots, strict=True):
            objective.SetCoefficient(x, width[rank] / most)
        for amounts in self._amounts:
            for a in amounts:
                objective.SetCoefficient(a, -USE)
        self.solve()

    def binding(self) -> Iterator[frozenset[int]]:
        """Yield the sets that limit the rate: those with a price in the program's dual."""
        for nodes, row in self._rows:
            if abs(row.dual_value()) > TOLERANCE:
                yield nodes

    def values(self) -> tuple[list[Rates], Rates]:
        """Return each side's amounts and the roots' rates."""
        amounts = [np.array([max(0.0, a.solution_value()) for a in side]) for side in self._amounts]
        if self._roots is None:
            return amounts, np.array(self.machine.roots, dtype=np.float64) * self._rate.solution_value()
        return amounts, np.array([max(0.0, x.solution_value()) for x in self._roots])

    def _violated(self) -> Iterator[tuple[int, frozenset[int]]]:
        values, roots = self.values()
        total = max(float(roots.sum()), *(float(a.sum()) for a in values), 1e-12)
        # what rounding takes from the links is given to them, so that no set seems violated by it alone
        supplies = np.floor(roots * (FLOW_UNITS / total)).astype(np.int64)
        for side, amounts in enumerate(values):
            scaled = np.ceil(amounts * (FLOW_UNITS / total)).astype(np.int64)
            for nodes in self.separators[side].violated(scaled, supplies):
                room = float(amounts[self.machine.leaving(side, nodes)].sum())
                if room < float(roots[[r for r in self.machine.ranks if r in nodes]].sum()) * (1 - TOLERANCE):
                    yield side, nodes


def rate(problem: Problem, kind: Family) -> float:
    """Return the program's optimum, in bytes of shard a second (a float: for reports)."""
    machine = Machine(problem, kind)
    return RateProgram(machine).solve() * float(machine.unit) / machine.repeats
