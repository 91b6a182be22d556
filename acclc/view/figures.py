"""Figures of a schedule that the page and its words share: seconds and loads of the model, exactly.

They are reports: the verifier recomputes what is claimed. Seconds are per byte of one shard throughout.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

from acclc.ir.problem import LinkId, Problem
from acclc.ir.schedule import Schedule
from acclc.view.model import ViewTimes


def step_loads(problem: Problem, schedule: Schedule) -> tuple[dict[LinkId, Fraction], ...]:
    """For each step (or level), the shards (sum of weights of chunks) that each used link carries."""
    weights = [c.weight for c in schedule.chunks]
    denominator = lcm(*(w.denominator for w in weights))  # sums of whole numbers: fractions take ten times as long
    whole = [int(w * denominator) for w in weights]
    loads: tuple[dict[LinkId, int], ...] = tuple({} for _ in range(schedule.steps))
    for transfer in schedule.transfers:
        load = loads[transfer.step]
        for link in transfer.path:
            load[link] = load.get(link, 0) + whole[transfer.chunk]
    return tuple({link: Fraction(load, denominator) for link, load in step.items()} for step in loads)


def step_seconds(problem: Problem, schedule: Schedule) -> tuple[Fraction, ...]:
    """Length of each step: what its fullest link or budget takes. Of levels it says how they compare, no more."""
    return tuple(_longest(problem, load) for load in step_loads(problem, schedule))


def _longest(problem: Problem, load: dict[LinkId, Fraction]) -> Fraction:
    longest = max((w / problem.topology.links[x].capacity for x, w in load.items()), default=Fraction(0))
    for budget in problem.topology.budgets:
        shared = sum((load.get(x, Fraction(0)) for x in budget.links), Fraction(0))
        longest = max(longest, shared / budget.capacity)
    return longest


def time_per_byte(problem: Problem, schedule: Schedule) -> Fraction:
    """Seconds for each byte of a shard, latency apart: what the bound is compared with."""
    if schedule.pipelined:
        return _longest(problem, _total_load(problem, schedule))
    return sum(step_seconds(problem, schedule), Fraction(0))


def _total_load(problem: Problem, schedule: Schedule) -> dict[LinkId, Fraction]:
    used: dict[LinkId, Fraction] = {}
    for load in step_loads(problem, schedule):
        for link, weight in load.items():
            used[link] = used.get(link, Fraction(0)) + weight
    return used


def link_utilisation(problem: Problem, schedule: Schedule) -> tuple[Fraction, ...]:
    """For each link of the topology, the part of the schedule's time in which it is busy (latency apart)."""
    total = time_per_byte(problem, schedule)
    used = _total_load(problem, schedule)
    return tuple(
        used.get(link.id, Fraction(0)) / link.capacity / total if total else Fraction(0)
        for link in problem.topology.links
    )


def nanoseconds(seconds: Fraction | float) -> int:
    """Whole nanoseconds, rounded down: intervals that touch still touch, and none that did not overlap do."""
    exact = Fraction(seconds)
    return exact.numerator * 10**9 // exact.denominator


def times_in_nanoseconds(times: ViewTimes) -> tuple[tuple[int, int, int], ...]:
    """(start, sent, arrived) of each transfer."""
    return tuple(
        (nanoseconds(a), nanoseconds(b), nanoseconds(c))
        for a, b, c in zip(times.starts, times.sent, times.arrived, strict=True)
    )
