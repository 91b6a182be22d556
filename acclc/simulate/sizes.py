"""Sizes and the closed form of a schedule's time: which variant is best for which number of bytes.

S is the size of the project's definitions (as in nccl-tests): N counts for all_gather, reduce_scatter,
gather, scatter and all_to_all, one count for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from acclc.ir.problem import Collective, Demand, LinkId, Problem
from acclc.ir.schedule import Schedule
from acclc.simulate.slices import pipeline_time

WHOLE_GROUP = {
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.GATHER,
    Collective.SCATTER,
    Collective.ALL_TO_ALL,
}
ONE_COUNT = {Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE, Collective.SEND_RECV}


def size_factor(problem: Problem) -> int:
    """Return S in counts: the size S is this many times the bytes of one shard.

    Custom and varying collectives have the longest buffer of any rank (for all_to_all_v: the largest row, its
    input); of several at once the largest counts.
    """
    if problem.collective is Collective.TOGETHER:
        return max((_demand_factor(problem, d) for d in problem.demands), default=1)
    return _demand_factor(problem, problem.demands[0])


def _demand_factor(problem: Problem, demand: Demand) -> int:
    if demand.collective in WHOLE_GROUP:
        return demand.weight * len(demand.group)
    if demand.collective in ONE_COUNT:
        return demand.weight
    longest = max((problem.input_units(r) for r in demand.group), default=1)
    if demand.collective is not Collective.ALL_TO_ALL_V:
        longest = max(longest, max((problem.output_units(r) for r in demand.group), default=1))
    return max(1, longest)


def size_bytes(problem: Problem, shard_bytes: int) -> int:
    """Return the size S, in bytes, at which one shard has ``shard_bytes``."""
    return size_factor(problem) * shard_bytes


def shard_bytes(problem: Problem, size: int) -> int:
    """Return the bytes of one shard at size S (rounded up: the smallest shards that hold S bytes)."""
    return ceil(Fraction(size, size_factor(problem)))


def step_time(problem: Problem, schedule: Schedule) -> tuple[Fraction, Fraction]:
    """Return (seconds fixed, seconds per byte of shard) of a schedule run step by step; or pipelined, as it is.

    A step lasts as long as its slowest path's latency plus what its fullest link or budget takes: with rounds
    that are needed, rounds times a chunk at one unit of rate, as (C, S, R) says. Steps may overlap in a run.
    """
    if schedule.pipelined:
        return pipeline_time(problem, schedule)
    topology = problem.topology
    weights = {c.id: c.weight for c in schedule.chunks}
    delay = [Fraction(0)] * schedule.steps
    load: list[dict[LinkId, Fraction]] = [{} for _ in range(schedule.steps)]
    for t in schedule.transfers:
        delay[t.step] = max(delay[t.step], sum((topology.links[e].cls.latency for e in t.path), Fraction(0)))
        for e in t.path:
            load[t.step][e] = load[t.step].get(e, Fraction(0)) + weights[t.chunk]
    busy = Fraction(0)
    for used in load:
        shares = [w / topology.links[e].capacity for e, w in used.items()]
        shares += [sum((used.get(e, Fraction(0)) for e in b.links), Fraction(0)) / b.capacity for b in topology.budgets]
        busy += max(shares, default=Fraction(0))
    return sum(delay, Fraction(0)), busy


def line_ranges(problem: Problem, schedules: Sequence[Schedule]) -> tuple[tuple[int, int | None] | None, ...]:
    """Return for each schedule the sizes S in [min_bytes, max_bytes) at which it is the fastest by ``step_time``.

    max_bytes is None for the last range: no limit. The ranges tile all sizes from 0; a schedule that is
    nowhere the only best one has none (None). Among equals the earlier schedule wins.
    """
    factor = size_factor(problem)
    lines = [(*step_time(problem, s), i) for i, s in enumerate(schedules)]
    lines = [(fixed, slope / factor, i) for fixed, slope, i in lines]
    ranges: list[tuple[int, int | None] | None] = [None] * len(schedules)
    if not lines:
        return ()
    start = 0
    fixed, slope, current = min(lines)
    while True:
        following: tuple[int, Fraction, int] | None = None
        entry = (fixed, slope, current)
        for other in lines:
            if other[1] >= entry[1]:
                continue
            # The first whole number of bytes at which the flatter line is strictly below.
            meet = (other[0] - entry[0]) / (entry[1] - other[1])
            first = max(start, int(meet // 1) + 1)
            if following is None or (first, other[1], other[2]) < following:
                following, chosen = (first, other[1], other[2]), other
        if following is None:
            ranges[current] = (start, None)
            return tuple(ranges)
        if following[0] > start:
            ranges[current] = (start, following[0])
        start, (fixed, slope, current) = following[0], chosen


def size_words(size: int) -> str:
    """A size as people write it: ``512 B``, ``64 KiB``, ``1.5 MiB``."""
    amount, unit = Fraction(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{float(amount):.3g} {unit}"
