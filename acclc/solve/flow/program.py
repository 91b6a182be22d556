"""The linear program: flows of all commodities within the least time, and of these the ones with the least way to go.

A flow x of each commodity, balanced at every node but where it starts and ends; sum of n_re x_e <= T c_r for every row
r. With T at a proven bound it is asked for directly; only where that is too little is T itself minimised first. The
solution is a vertex: beside one path for each shard it has no more paths than there are rows that bind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from acclc.ir.problem import LinkId, NodeKind, Rank
from acclc.solve.flow.machine import FlowMachine
from acclc.solve.packing.flows import Effort, TimeUp

VARIABLES = 40_000
"""Larger programs are not tried."""
WORK = 60.0
"""GLOP's deterministic seconds for one program."""
SLACK = 1e-9
"""How much more than its least the time may be while ways are made short."""
INTO_A_GPU = 2
INTO_A_SWITCH = 1
"""What a link costs: every GPU on the way is a transfer more."""

Rates = list[dict[LinkId, float]]
"""Shards on each link, by representative."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The least time (rounds a shard; at least the bound), and flows within it.

    ``lengths``: of every link, as the dual has them where the time is above the bound; they prove it if all may relay.
    """

    time: float
    rates: Rates
    lengths: tuple[float, ...] = ()


def solve(machine: FlowMachine, bound: Fraction, effort: Effort) -> Solution | None:
    """Return the optimum. ``bound``: proven, in seconds a byte of shard. None where no flow reaches all ends.

    Raises TimeUp.
    """
    least = float(bound * machine.unit)
    program = _Program(machine, effort)
    found = program.shortest(least)
    lengths: tuple[float, ...] = ()
    if found is None:
        time = program.fastest()
        if time is None:
            return None
        least, lengths = max(least, time), program.lengths()
        found = program.shortest(least * (1 + SLACK)) or program.shortest(least * (1 + 1000 * SLACK))
    return None if found is None else Solution(least, found, lengths)


class _Program:
    def __init__(self, machine: FlowMachine, effort: Effort) -> None:
        from ortools.linear_solver import pywraplp

        self._machine, self._effort = machine, effort
        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._status = pywraplp.Solver
        infinite = self._solver.infinity()
        self._time = self._solver.NumVar(0, infinite, "")
        self._flows = [{e: self._solver.NumVar(0, infinite, "") for e in arcs} for arcs in machine.arcs]
        self._balance()
        self._rows: list[Any] = []
        for row in machine.rows:
            limit = self._solver.Constraint(-infinite, 0)
            self._rows.append(limit)
            limit.SetCoefficient(self._time, -row.capacity)
            for flow in self._flows:
                for e, n in row.use:
                    if e in flow:
                        limit.SetCoefficient(flow[e], n)

    def _balance(self) -> None:
        machine = self._machine
        for number, flow in enumerate(self._flows):
            demand = machine.representatives[number].demand
            rows = {}
            for v in machine.nodes_of(number):
                rows[v] = self._solver.Constraint(demand.get(Rank(v), 0), demand.get(Rank(v), 0))
            for e, x in flow.items():
                link = machine.links[e]
                rows[link.dst].SetCoefficient(x, 1)
                if link.src in rows:
                    rows[link.src].SetCoefficient(x, -1)

    def fastest(self) -> float | None:
        """Return the least time; None where there is none."""
        self._time.SetBounds(0, self._solver.infinity())
        objective = self._solver.Objective()
        objective.Clear()
        objective.SetCoefficient(self._time, 1)
        return float(self._time.solution_value()) if self._run() else None

    def lengths(self) -> tuple[float, ...]:
        """Return what the rows' prices make of each link, after :meth:`fastest`; empty where links share budgets."""
        if self._machine.task.topology.budgets:
            return ()
        found = [0.0] * len(self._machine.links)
        for row, limit in zip(self._machine.rows, self._rows, strict=True):
            for link, n in row.use:
                found[link] += n * abs(float(limit.dual_value()))
        return tuple(found)

    def shortest(self, time: float) -> Rates | None:
        """Return flows within a time that use the least of links; None where there are none."""
        self._time.SetBounds(time, time)
        objective = self._solver.Objective()
        objective.Clear()
        for e, x in self._variables():
            objective.SetCoefficient(x, cost(self._machine, e))
        if not self._run():
            return None
        return [{e: v for e, x in flow.items() if (v := float(x.solution_value())) > SLACK} for flow in self._flows]

    def _variables(self) -> Iterator[tuple[LinkId, Any]]:
        for flow in self._flows:
            yield from flow.items()

    def _run(self) -> bool:
        """Minimise; whether there is a solution. Raises TimeUp."""
        solver, left = self._solver, self._effort.deadline.remaining()
        self._effort.spend(solver.NumVariables() + solver.NumConstraints())
        text = f"max_deterministic_time: {WORK}"
        if left is not None:
            text += f" max_time_in_seconds: {max(left, 0.01)}"
        solver.SetSolverSpecificParametersAsString(text)
        solver.Objective().SetMinimization()
        status = solver.Solve()
        if status == self._status.OPTIMAL:
            return True
        if status in (self._status.FEASIBLE, self._status.NOT_SOLVED):
            self._effort.clock_cut |= self._effort.deadline.expired
            raise TimeUp
        return False


def cost(machine: FlowMachine, link: LinkId) -> int:
    """What the use of a link counts where ways are made short."""
    into = machine.task.topology.nodes[machine.links[link].dst]
    return INTO_A_GPU if into.kind is NodeKind.GPU else INTO_A_SWITCH
