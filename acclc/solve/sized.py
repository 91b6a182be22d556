"""Schedules for the sizes of a goal: timed at a few sizes of the range, put beside what is good at any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Bound, Result, Solution, Status
from acclc.ir.schedule import Schedule
from acclc.simulate.ranges import sizes_between
from acclc.simulate.sizes import shard_bytes, size_words
from acclc.solve import limits
from acclc.solve.frontier import rounds_per_chunk
from acclc.solve.protocol import Budget, Deadline, Progress, Report

SHARE = 0.5
"""The part of the work and of the deadline that they may take."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Schedules for sizes, and whether the clock cut the search for them."""

    schedules: tuple[Schedule, ...] = ()
    clock_cut: bool = False


def schedules_for_sizes(
    problem: Problem, bound: Bound, pipelines: Sequence[Schedule], budget: Budget, report: Report
) -> Sized:
    """Return schedules for a few sizes of the goal's range, at most one a size; none without such a goal.

    ``pipelines`` that are known already give their trees.
    """
    goal = problem.goal
    if goal.kind is not GoalKind.SIZES or goal.min_bytes is None or goal.max_bytes is None:
        return Sized()
    from acclc.solve.timed import Spending, timed_schedules
    from acclc.solve.timed.variant import WORK_PER_UNIT

    sizes = sizes_between(goal.min_bytes, goal.max_bytes)[::2]
    left = budget.deadline.remaining()
    spending = Spending(0, Deadline.after(None if left is None else left * SHARE))
    found: dict[str, Schedule] = {}
    for size in sizes:
        spending.left = budget.granted * SHARE * WORK_PER_UNIT / len(sizes)
        shard = max(1, shard_bytes(problem, size))
        timed = timed_schedules(problem, shard, bound.throughput.time_per_byte, spending, pipelines)
        admitted = {s.id: s for s in limits.admitted(problem, [t.schedule for t in timed])}
        if admitted:
            best = list(admitted.values())[-1]
            found.setdefault(best.id, best)
            report(Progress(f"timed for {size_words(size)}: {best.id}", rounds_per_chunk(best), bound.rounds_per_chunk))
    return Sized(tuple(found.values()), spending.clock_cut)


def with_sizes(problem: Problem, result: Result, sized: Sized) -> Result:
    """Put schedules for sizes among those of a result, in order of steps. Which is best at which size is simulated."""
    if not sized.schedules or result.status is Status.INFEASIBLE:
        return replace(result, reproducible=result.reproducible and not sized.clock_cut)
    kept = [s for s in result.solutions if s.schedule.strategy != "greedy" or not _has(sized.schedules, s.schedule)]
    taken = {s.schedule.id for s in kept}
    added = [Solution(s) for s in sized.schedules if s.id not in taken]
    solutions = sorted([*kept, *added], key=lambda s: (s.schedule.steps, -rounds_per_chunk(s.schedule)))
    return replace(
        result,
        status=Status.FEASIBLE if added else result.status,
        complete=result.complete and not added,
        solutions=tuple(solutions),
        reproducible=result.reproducible and not sized.clock_cut,
    )


def _has(schedules: Sequence[Schedule], one: Schedule) -> bool:
    return any(s.id == one.id for s in schedules)
