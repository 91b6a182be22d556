"""Intervals that overlap are put into lanes, so that the slices of one lane never do."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush


def assign_lanes(intervals: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Give each half-open interval [begin, end) the lowest lane that is free at its begin.

    Greedy interval partitioning: as many lanes as intervals overlap at the worst moment, no more. The times
    are integers, so that "the next begins where the last ended" is exact.
    """
    lanes = [0] * len(intervals)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for position in sorted(range(len(intervals)), key=lambda i: (*intervals[i], i)):
        begin, end = intervals[position]
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, used = used, used + 1
        lanes[position] = lane
        heappush(busy, (end, lane))
    return tuple(lanes)
