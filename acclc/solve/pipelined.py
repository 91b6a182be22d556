"""Where steps do not reach the throughput bound, a pipelined packing of trees is put beside them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Bound, Result, Solution, Status
from acclc.ir.schedule import Schedule
from acclc.solve.frontier import rounds_per_chunk
from acclc.solve.protocol import Budget, Deadline, Progress, Report

if TYPE_CHECKING:
    from acclc.solve.packing.variant import Packed

WANTED = (GoalKind.BANDWIDTH, GoalKind.PARETO, GoalKind.SIZES)
"""Goals that a better throughput serves."""

SHARE = 0.5
"""The part of a deadline's time that packing may take."""


def packing_of(problem: Problem, bound: Bound, known: list[Schedule], budget: Budget, report: Report) -> Packed | None:
    """Return a packing where one may serve the goal: not where a known schedule is at the bound already.

    It is looked for before the exact search, which would take all the time there is: packing takes little of it.
    """
    unit, least = problem.topology.unit, bound.throughput.time_per_byte
    if problem.goal.kind not in WANTED or not least or unit is None:
        return None
    if any(rounds_per_chunk(s) == bound.rounds_per_chunk for s in known):
        return None
    from acclc.solve.packing import packed_schedule

    left = budget.deadline.remaining()
    packed = packed_schedule(problem, Deadline.after(None if left is None else left * SHARE))
    if packed.schedule is not None:
        time = _seconds_per_byte(problem, packed.schedule)
        report(Progress(f"packing: {packed.schedule.id}", time * unit, bound.rounds_per_chunk))
    return packed


def with_packing(problem: Problem, result: Result, packed: Packed | None) -> Result:
    """Add a pipelined schedule as the last of a result where it is strictly better in throughput.

    For the goal ``bandwidth`` it takes the place of the others. The stepped ones keep their proofs.
    """
    unit = problem.topology.unit
    if packed is None or unit is None or result.status is Status.INFEASIBLE:
        return result
    bound = result.bound.throughput.time_per_byte
    best = min((rounds_per_chunk(s.schedule) / unit for s in result.solutions), default=None)
    if best == bound:
        return result
    if packed.schedule is None:
        notes = (*result.notes, f"no packing of trees: {packed.reason}")
        return replace(result, notes=notes, reproducible=result.reproducible and not packed.cut)
    time = _seconds_per_byte(problem, packed.schedule)
    if best is not None and time >= best:
        return result
    notes = result.notes
    if packed.loss:
        notes = (*notes, f"packing: chunks are limited, which costs {float(100 * packed.loss):.3g} %")
    optimal = ("throughput",) if time == bound else ()
    added = Solution(replace(packed.schedule, optimal=optimal))
    if problem.goal.kind is GoalKind.BANDWIDTH:
        status = Status.OPTIMAL if optimal else Status.FEASIBLE
        return replace(
            result, status=status, solutions=(added,), complete=bool(optimal) or result.complete, notes=notes
        )
    status = Status.FEASIBLE if result.status in (Status.UNKNOWN, Status.FALLBACK) else result.status
    return replace(result, status=status, solutions=(*result.solutions, added), notes=notes)


def _seconds_per_byte(problem: Problem, schedule: Schedule) -> Fraction:
    """What the fullest link takes, from the transfers themselves; packings know no budgets."""
    load = [Fraction(0)] * len(problem.topology.links)
    for t in schedule.transfers:
        for link in t.path:
            load[link] += schedule.chunks[t.chunk].weight
    return max(n / e.capacity for n, e in zip(load, problem.topology.links, strict=True))
