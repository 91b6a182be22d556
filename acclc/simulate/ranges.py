"""Which schedule is the best for which sizes: by event simulation at a few sizes, where that is affordable.

A schedule's time is nearly a chain of straight lines in its size, so it is simulated at sizes a constant factor apart
and taken to be straight in between. The closed form alone can be far off: it knows no queues in front of a link (too
optimistic), and lets no step overlap with the next (too pessimistic). Only simulated transfers are counted, never
time, so that the same schedules get the same ranges everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from acclc.ir.problem import Problem
from acclc.ir.schedule import Schedule
from acclc.simulate.sizes import line_ranges, shard_bytes, size_factor, step_time
from acclc.simulate.slices import sliced_times
from acclc_runtime.slicing import SLICE_BYTES

WORK = 40_000
"""Transfers that are simulated for one problem at most: a few seconds. Beyond, there is only the closed form."""
AFFORDABLE = 20_000
"""And for one schedule at one size, where it is looked for in a goal's range."""
ABOUT = Fraction(1, 100)
"""Schedules whose times differ by so little are about as good."""
SIZES = tuple(4**k for k in range(5, 13))
"""S in bytes, 1 KiB to 16 MiB; every other one where all would be too much work."""
SLICES = 2
"""A pipelined schedule is simulated up to so many slices of its longest chunk; from there on its time is a line."""
SHARED = 900
"""Transfers of a pipeline up to which it is simulated in a goal's range: all of one level go at the same time."""
LARGEST = 2**40

Range = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds by bytes of a shard: straight between ``points``, then on with ``slope``."""

    points: tuple[tuple[int, Fraction], ...]
    slope: Fraction

    def at(self, shard: Fraction) -> Fraction:
        """The time for shards of so many bytes."""
        after = sum(size <= shard for size, _ in self.points)
        if after == 0:
            return self.points[0][1]
        size, seconds = self.points[after - 1]
        if after == len(self.points):
            return seconds + self.slope * (shard - size)
        further, later = self.points[after]
        return seconds + (later - seconds) * (shard - size) / (further - size)


def sizes_between(low: int, high: int) -> tuple[int, ...]:
    """Return both ends of a range of sizes, the size in its middle as factors go, and those in the middle of halves."""
    low = max(1, low)
    middle = isqrt(low * high)
    return tuple(sorted({low, isqrt(low * middle), middle, isqrt(middle * high), high}))


def best_within(problem: Problem, schedules: Sequence[Schedule]) -> tuple[bool, ...]:
    """Say of each schedule whether it is the best at some size of the goal's range; of all, where it has none.

    Of schedules that are about as good the one with the fewest transfers is taken: its kernel is the shortest.
    """
    low, high = problem.goal.min_bytes, problem.goal.max_bytes
    if low is None or high is None or len(schedules) < 2:
        return (True,) * len(schedules)
    chosen: set[int] = set()
    for size in sizes_between(low, high):
        times = [_seconds(problem, s, shard_bytes(problem, size)) for s in schedules]
        near = [i for i, t in enumerate(times) if t <= min(times) * (1 + ABOUT)]
        chosen.add(min(near, key=lambda i: (len(schedules[i].transfers), times[i], i)))
    return tuple(i in chosen for i in range(len(schedules)))


def _seconds(problem: Problem, schedule: Schedule, shard: int) -> Fraction:
    """The time for shards of so many bytes: simulated, or by the closed form where that would take long."""
    if _slices(schedule, min(shard, SLICE_BYTES)) * len(schedule.transfers) > AFFORDABLE or _slow(schedule):
        fixed, slope = step_time(problem, schedule)
        return fixed + slope * shard
    return max((t.arrived for t in sliced_times(problem, schedule, shard)), default=Fraction(0))


def _slow(schedule: Schedule) -> bool:
    """Whether so many transfers share links at the same time that every one takes long to simulate."""
    return schedule.pipelined and len(schedule.transfers) > SHARED


def size_ranges(problem: Problem, schedules: Sequence[Schedule]) -> tuple[Range | None, ...]:
    """Return for each schedule the sizes S in [min_bytes, max_bytes) that it is chosen for.

    max_bytes is None for the last range: no limit. The ranges tile all sizes from 0. Each schedule has one range or
    none (None): of a schedule that would be the best in several, the choice that costs least over all sizes is made.
    """
    if len(schedules) < 2 or not simulated(problem, schedules):
        return line_ranges(problem, schedules)
    sizes = _samples(problem, schedules)
    curves = [_curve(problem, s, sizes) for s in schedules]
    return _tiles(curves, _marks(sizes), size_factor(problem))


def simulated(problem: Problem, schedules: Sequence[Schedule]) -> bool:
    """Whether ``size_ranges`` simulates these schedules; else it goes by the closed form."""
    return bool(_samples(problem, schedules))


def _samples(problem: Problem, schedules: Sequence[Schedule]) -> tuple[int, ...]:
    """The sizes S to simulate, of a goal with sizes those of its range: all, every other, or none, as work allows."""
    low, high = problem.goal.min_bytes, problem.goal.max_bytes
    choices = (SIZES, SIZES[1::2])
    if low is not None and high is not None:
        between = sizes_between(low, high)
        choices = (between, between[::2])
    for sizes in choices:
        if sum(_work(problem, s, sizes) for s in schedules) <= WORK:
            return sizes
    return ()


def _work(problem: Problem, schedule: Schedule, sizes: Sequence[int]) -> int:
    return sum(_slices(schedule, b) * len(schedule.transfers) for b in _shards(problem, schedule, sizes))


def _slices(schedule: Schedule, shard: int) -> int:
    if not schedule.pipelined:
        return 1
    return max(1, -int(-max(c.weight for c in schedule.chunks) * shard // SLICE_BYTES))


def _shards(problem: Problem, schedule: Schedule, sizes: Sequence[int]) -> tuple[int, ...]:
    """The bytes of shard at which a schedule is simulated, from one on; pipelined, also where slices become more."""
    shards = {1, *(shard_bytes(problem, s) for s in sizes)}
    if schedule.pipelined:
        slice_shard = int(SLICE_BYTES / max(c.weight for c in schedule.chunks))
        shards |= {g * slice_shard + extra for g in range(1, SLICES + 1) for extra in (0, 1)}
    return tuple(b for b in sorted(shards) if _slices(schedule, b) <= SLICES)


def _curve(problem: Problem, schedule: Schedule, sizes: Sequence[int]) -> Curve:
    points = tuple(
        (b, max((t.arrived for t in sliced_times(problem, schedule, b)), default=Fraction(0)))
        for b in _shards(problem, schedule, sizes)
    )
    if schedule.pipelined or len(points) < 2:
        return Curve(points, step_time(problem, schedule)[1])
    (first, soon), (second, late) = points[-2:]
    return Curve(points, (late - soon) / (second - first))


def _marks(sizes: Sequence[int]) -> list[int]:
    """The sizes S at which schedules are compared: a constant factor apart, the simulated ones among them."""
    marks = {0, 64, 256, *sizes}
    size = sizes[0]
    while size < LARGEST:
        marks |= {size, size * 181 // 128}
        size *= 2
    return sorted(marks)


def _tiles(curves: Sequence[Curve], marks: Sequence[int], factor: int) -> tuple[Range | None, ...]:
    """The best way to go from one schedule to the next as sizes grow, in order of their time for the largest."""
    times = [[c.at(Fraction(s, factor)) for s in marks] for c in curves]
    order = sorted(range(len(curves)), key=lambda i: (-times[i][-1], i))
    chosen = _cheapest(_regrets(times, order))
    ranges: list[Range | None] = [None] * len(curves)
    start = 0
    for mark in range(1, len(marks)):
        now, following = order[chosen[mark - 1]], order[chosen[mark]]
        if now != following:
            end = _meeting(times[now], times[following], marks, mark)
            if end > start:
                ranges[now] = (start, end)
            start = end
    ranges[order[chosen[-1]]] = (start, None)
    return tuple(ranges)


def _regrets(times: list[list[Fraction]], order: list[int]) -> list[list[int]]:
    """For each mark and schedule: by how many millionths it is slower than the fastest."""
    regrets = []
    for column in zip(*times, strict=True):
        best = min(column)
        regrets.append([int((column[i] / best - 1) * 10**6) if best else int(column[i] > 0) for i in order])
    return regrets


def _cheapest(costs: list[list[int]]) -> list[int]:
    """For each mark a column, never going back, so that the costs' sum is least; of equal ones the first."""
    best: list[list[tuple[int, int]]] = []
    for row in costs:
        cells: list[tuple[int, int]] = []
        cheapest = (0, 0)
        for column, cost in enumerate(row):
            if best:
                before = (best[-1][column][0], column)
                cheapest = before if column == 0 else min(cheapest, before)
            cells.append((cheapest[0] + cost, cheapest[1]))
        best.append(cells)
    column = min(range(len(costs[0])), key=lambda c: (best[-1][c][0], c))
    path = [column]
    for cells in reversed(best[1:]):
        column = cells[column][1]
        path.append(column)
    return path[::-1]


def _meeting(now: list[Fraction], following: list[Fraction], marks: Sequence[int], mark: int) -> int:
    """The first whole size between two marks at which the following one is faster."""
    lead, lag = following[mark - 1] - now[mark - 1], now[mark] - following[mark]
    low, high = marks[mark - 1], marks[mark]
    if lag <= 0:
        return high
    if lead <= 0:
        return low + 1
    return min(high, int(low + (high - low) * lead / (lead + lag)) + 1)
