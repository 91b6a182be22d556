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


def packings_of(problem: Problem, bound: Bound, known: list[Schedule], budget: Budget, report: Report) -> list[Packed]:
    """Return packings that may serve the goal, the best last; none where a known schedule is at the bound already.

    They are looked for before the exact search, which would take all the time there is: packing takes little of it.
    Beside the best one there is one with a single tree a shard, where it is shallower: it is sooner filled.
    """
    unit, least = problem.topology.unit, bound.throughput.time_per_byte
    if problem.goal.kind not in WANTED or not least or unit is None:
        return []
    if any(rounds_per_chunk(s) == bound.rounds_per_chunk for s in known):
        return []
    from acclc.solve.packing import packed_schedule

    left = budget.deadline.remaining()
    deadline = Deadline.after(None if left is None else left * SHARE)
    best = packed_schedule(problem, deadline, bound=least)
    if best.schedule is None:
        return [best]
    report(Progress(f"packing: {best.schedule.id}", best.time * unit, bound.rounds_per_chunk))
    if problem.goal.kind is GoalKind.BANDWIDTH:
        return [best]
    simple = packed_schedule(problem, deadline, max_trees=1, bound=least)
    shallower = simple.schedule is not None and simple.schedule.steps < best.schedule.steps
    return [simple, best] if shallower else [best]


def with_packings(problem: Problem, result: Result, packings: list[Packed]) -> Result:
    """Add pipelined schedules to the end of a result where they are strictly better in throughput.

    For the goal ``bandwidth`` one takes the place of the others. The stepped ones keep their proofs.
    """
    unit = problem.topology.unit
    if not packings or unit is None or result.status is Status.INFEASIBLE:
        return result
    best = min((rounds_per_chunk(s.schedule) / unit for s in result.solutions), default=None)
    if best == result.bound.throughput.time_per_byte:
        return result
    for packed in packings:
        if packed.schedule is None:
            notes = (*result.notes, f"no packing of trees: {packed.reason}")
            return replace(result, notes=notes, reproducible=result.reproducible and not packed.cut)
        if best is None or packed.time < best:
            result, best = _added(problem, result, packed.schedule, packed.time), packed.time
        result = replace(result, reproducible=result.reproducible and not packed.cut)
    if packings[-1].loss:
        result = replace(result, notes=(*result.notes, _loss_words(packings[-1])))
    elif packings[-1].of_all_trees and packings[-1].time > result.bound.throughput.time_per_byte:
        words = "packing: no schedule that sends every piece along trees is faster, by a linear program over cuts"
        result = replace(result, notes=(*result.notes, words))
    return result


def _loss_words(packed: Packed) -> str:
    """What k the optimum would have needed, and what it costs that another was taken."""
    most = max(packed.packings, key=lambda p: p.loss)
    exact = f"k = {most.exact_k} units a shard" if most.exact_k else "more units a shard than were looked at"
    return (
        f"packing: the optimum takes {exact}; so that no shard has too many chunks, "
        f"k = {most.k} was taken, which costs {float(100 * packed.loss):.3g} %"
    )


def _added(problem: Problem, result: Result, schedule: Schedule, time: Fraction) -> Result:
    """Put a schedule that is better than all others at the end of a result."""
    met = time == result.bound.throughput.time_per_byte
    added = Solution(replace(schedule, optimal=("throughput",) if met else ()))
    if problem.goal.kind is GoalKind.BANDWIDTH:
        status = Status.OPTIMAL if met else Status.FEASIBLE
        notes = () if met else result.notes  # why a search ended says nothing where there is no better
        return replace(result, status=status, solutions=(added,), complete=met or result.complete, notes=notes)
    status = Status.FEASIBLE if result.status in (Status.UNKNOWN, Status.FALLBACK) else result.status
    return replace(result, status=status, solutions=(*result.solutions, added))
