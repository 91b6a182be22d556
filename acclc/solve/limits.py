"""The user's limits on (C, S, R): which schedules keep them, and which no schedule can."""

from __future__ import annotations

from collections.abc import Iterable

from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Bound, Excluded
from acclc.ir.schedule import Schedule

CHUNKS = 8
"""The cap on chunks where the user gives none."""


def chunk_cap(problem: Problem) -> int:
    """Most chunks a shard that the search looks at."""
    return problem.goal.chunks if problem.goal.chunks is not None else CHUNKS


def chunks_at_most(problem: Problem, most: int) -> int:
    """Most chunks a shard of a solver that makes ``most`` by itself: the user's limit, if that is less."""
    return most if problem.goal.chunks is None else min(most, problem.goal.chunks)


def hard(problem: Problem) -> bool:
    """Whether the user set limits that a schedule may miss."""
    goal = problem.goal
    return goal.kind is GoalKind.POINT or not (goal.chunks is goal.steps is goal.rounds is None)


def admitted(problem: Problem, schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return the schedules that keep the limits; for a point, those that are it in every figure given."""
    goal = problem.goal
    exactly = goal.kind is GoalKind.POINT

    def fits(value: int, limit: int | None) -> bool:
        return limit is None or value == limit or (value < limit and not exactly)

    return [
        s
        for s in schedules
        if fits(s.chunks_per_shard, goal.chunks) and fits(s.steps, goal.steps) and fits(s.total_rounds, goal.rounds)
    ]


def refused_by_bound(problem: Problem, bound: Bound) -> tuple[Excluded, ...] | None:
    """Return what excludes every schedule within the limits, if a bound does."""
    goal = problem.goal
    point = goal.kind is GoalKind.POINT
    chunks = goal.chunks if point and goal.chunks is not None else 1  # more chunks never need fewer rounds
    steps = goal.steps
    if steps is not None and steps < bound.latency.steps:
        detail = f"{steps} step{'s' if steps != 1 else ''} asked for; {bound.latency.words}"
        return (Excluded(chunks, steps, goal.rounds or 0, "bound", detail),)
    if goal.rounds is None:
        return None
    least = steps if steps is not None and point else bound.latency.steps
    if goal.rounds < least:
        detail = f"{goal.rounds} rounds cannot fill {least} steps: each takes at least one"
        return (Excluded(chunks, least, goal.rounds, "bound", detail),)
    rate = bound.rounds_per_chunk
    if rate is not None and goal.rounds < rate * chunks:
        detail = f"{goal.rounds} rounds for {chunks} chunks asked for; {bound.throughput.words}"
        return (Excluded(chunks, least, goal.rounds, "bound", detail),)
    return None
