"""What the portfolio asks for: one pipelined schedule of point-to-point traffic, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from acclc.bounds.compute import throughput_bound
from acclc.bounds.loads import value
from acclc.bounds.rationalize import best_rounding
from acclc.ir.problem import LinkId, Problem
from acclc.ir.result import FlowDual
from acclc.ir.schedule import Schedule
from acclc.solve.flow.assemble import schedule_of
from acclc.solve.flow.machine import FlowMachine
from acclc.solve.flow.program import VARIABLES, Solution, solve
from acclc.solve.flow.task import FlowTask, flow_task, hindrance
from acclc.solve.flow.units import CPSAT_VARIABLES, whole_units
from acclc.solve.limits import chunks_at_most
from acclc.solve.packing.check import seconds_per_byte
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.protocol import Deadline

MAX_WAYS = 64
"""Most chunks a shard where the user sets no limit."""
CLOSE = Fraction(1, 10**6)
"""What a float may be off."""


@dataclass(frozen=True, slots=True)
class Flowed:
    """A schedule, or why there is none. Times are in seconds a byte of shard.

    ``optimum``: the least that flows need where chunks are not limited; a proven one is exact, another is near.
    """

    schedule: Schedule | None
    reason: str = ""
    cut: bool = False
    """Whether the clock or the work ended it: another machine may find one."""
    k: int = 0
    """Units a shard."""
    exact_k: int = 0
    """The least k at which the optimum was reached; nought where none was found."""
    optimum: Fraction = Fraction(0)
    time: Fraction = Fraction(0)
    certificate: FlowDual | None = None
    """What proves the optimum, where it is above the bound that was known; its worth is for ``bounds`` to say."""

    @property
    def kind(self) -> str:
        """What it is, for reports."""
        return "flow"

    @property
    def of_all(self) -> str:
        """Of what no schedule is faster, in a sentence."""
        return "no flow over the ranks that may pass on data is faster, by a linear program"

    @property
    def chunks(self) -> int:
        """Most chunks a shard."""
        return 0 if self.schedule is None else self.schedule.chunks_per_shard

    @property
    def rank(self) -> tuple[Fraction, int, int]:
        """Less is better: the time, then all chunks, then units."""
        return self.time, 0 if self.schedule is None else len(self.schedule.chunks), self.k

    @property
    def loss(self) -> Fraction:
        """How much more time than the optimum, where chunks are limited."""
        return self.time / self.optimum - 1 if self.optimum else Fraction(0)


def flow_schedule(
    problem: Problem,
    deadline: Deadline | None = None,
    max_ways: int = MAX_WAYS,
    bound: Fraction | None = None,
    symmetry: bool = True,
) -> Flowed:
    """Return the pipelined schedule of point-to-point traffic, at most so many chunks a shard. Never raises for time.

    ``bound``: seconds a byte of shard, proven (None: it is computed here). A flow that reaches it is the end.
    ``symmetry``: whether symmetries of the machine may be used.
    """
    reason = hindrance(problem)
    if reason:
        return Flowed(None, reason)
    most = chunks_at_most(problem, max_ways)
    if most < 1:
        return Flowed(None, "no chunk is allowed")
    effort = Effort(deadline or Deadline())
    least = throughput_bound(problem).time_per_byte if bound is None else bound
    best: Flowed | None = None
    certificate: FlowDual | None = None
    try:
        for machine in _machines(flow_task(problem), symmetry and problem.goal.hints.symmetry):
            if machine.size > VARIABLES:
                return Flowed(None, f"its program would have {machine.size} variables, more than {VARIABLES}")
            solution = solve(machine, least, effort)
            if solution is None:
                return Flowed(None, "no way leads to some rank where only some ranks may pass on data")
            certificate = certificate or _certificate(problem, solution)
            for found in _found(problem, machine, least, solution, effort, most):
                if best is None or found.rank < best.rank:
                    best = found
                if not found.loss:
                    break
            if best is not None and not best.loss and best.chunks == 1:
                break
    except TimeUp:
        if best is None:
            return Flowed(None, "the deadline passed, or the work was used up", cut=True)
    if best is not None:
        return replace(best, cut=effort.clock_cut, certificate=certificate)
    return Flowed(None, f"it would take more than {most} chunks a shard")


def _machines(task: FlowTask, symmetry: bool) -> Iterator[FlowMachine]:
    """Yield the machine with the symmetries found, then, if it is not large, without: they may cost a cut more."""
    machine = FlowMachine(task, symmetry)
    yield machine
    if len(machine.group) > 1 and machine.size * len(machine.group) <= CPSAT_VARIABLES:
        yield FlowMachine(task, False)


def _certificate(problem: Problem, solution: Solution) -> FlowDual | None:
    """Return the dual's lengths as fractions; None where the bound was the optimum."""
    unit = problem.topology.unit
    if unit is None or not solution.lengths:
        return None

    def dual(lengths: tuple[Fraction, ...]) -> FlowDual:
        return FlowDual(tuple((LinkId(e), y) for e, y in enumerate(lengths) if y > 0))

    target = solution.time / float(unit)
    found = best_rounding(solution.lengths, dual, lambda lengths: value(problem, lengths), target)
    return None if found is None else found[1]


def _found(
    problem: Problem,
    machine: FlowMachine,
    bound: Fraction,
    solution: Solution,
    effort: Effort,
    most: int,
) -> Iterator[Flowed]:
    """Yield schedules within the limit on chunks. Raises TimeUp."""
    least, rates = solution.time, solution.rates
    proven = least <= bound * machine.unit
    optimum = bound if proven else Fraction(least) / machine.unit
    exact_k = 0
    for units in whole_units(machine, least, optimum, rates, effort, most):
        if units.time <= optimum * (1 + CLOSE):
            exact_k = exact_k or units.k
            optimum = optimum if proven else units.time
        schedule = schedule_of(problem, machine, units)
        if schedule.chunks_per_shard <= most:
            time = seconds_per_byte(problem, schedule)
            yield Flowed(schedule, "", False, units.k, exact_k, min(optimum, time), time)
