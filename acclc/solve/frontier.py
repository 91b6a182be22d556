"""Points (C, S, R), which of them dominate which, and the errors that solvers share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from acclc.ir.problem import Problem, Rank, ShardId
from acclc.ir.result import Bound
from acclc.ir.schedule import Schedule


class Unreachable(Exception):  # noqa: N818 (it states a fact about the machine)
    """Some ranks cannot be reached: the problem has no schedule."""

    def __init__(self, shard: ShardId, start: tuple[Rank, ...], missing: tuple[Rank, ...], backward: bool) -> None:
        there = ", ".join(map(str, missing))
        here = ", ".join(map(str, start))
        what = f"no path from ranks {there} to {here}" if backward else f"no path from ranks {here} to {there}"
        super().__init__(f"shard {shard}: {what}")
        self.shard = shard
        self.missing = missing


def rounds_per_chunk(schedule: Schedule) -> Fraction:
    """R/C of a schedule; nought for one with nothing to move."""
    return Fraction(schedule.total_rounds, max(1, schedule.chunks_per_shard))


def non_dominated(schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return the schedules that no other one beats in both steps and R/C, in order of steps.

    Of equals the one with fewest chunks is kept, then the first.
    """
    kept: list[Schedule] = []
    for s in sorted(schedules, key=lambda s: (s.steps, rounds_per_chunk(s), s.chunks_per_shard)):
        if not kept or rounds_per_chunk(s) < rounds_per_chunk(kept[-1]):
            kept.append(s)
    return kept


def bound_of(problem: Problem) -> Bound:
    """Return the lower bounds of a problem."""
    from acclc.bounds import bound

    return bound(problem)


def mark_optimal(schedule: Schedule, bound: Bound) -> Schedule:
    """Return the schedule with what the bounds prove of it added to its ``optimal``."""
    proven = list(schedule.optimal)
    if schedule.steps == bound.latency.steps and "steps" not in proven:
        proven.append("steps")
    if rounds_per_chunk(schedule) == bound.rounds_per_chunk and "throughput" not in proven:
        proven.append("throughput")
    return replace(schedule, optimal=tuple(proven))
