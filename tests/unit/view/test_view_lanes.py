"""Lanes: slices of one never overlap, and there are no more than needed."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.view.lanes import assign_lanes

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=20)


@given(INTERVALS)
@settings(max_examples=150, deadline=None)
def test_slices_of_a_lane_do_not_overlap_and_lanes_are_as_few_as_the_worst_moment_needs(
    intervals: list[tuple[int, int]],
) -> None:
    lanes = assign_lanes(intervals)
    assert len(lanes) == len(intervals)
    for lane in set(lanes):
        mine = sorted(x for x, at in zip(intervals, lanes, strict=True) if at == lane)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(mine))
    worst = max((sum(a <= t < max(b, a + 1) for a, b in intervals) for t in range(45)), default=0)
    assert len(set(lanes)) <= worst
    if all(a < b for a, b in intervals):
        assert len(set(lanes)) == worst


def test_touching_intervals_share_a_lane_and_the_lowest_free_lane_is_taken() -> None:
    assert assign_lanes([(0, 5), (5, 9)]) == (0, 0)
    assert assign_lanes([(0, 9), (0, 3), (3, 6), (4, 8)]) == (1, 0, 0, 2)
