"""Ranges of sizes: tiles, in order, and close to what simulating every size would choose."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hand_built import dgx1, problem_of, ring, switched
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.ir.problem import Collective, Problem, Topology
from acclc.ir.schedule import Schedule
from acclc.simulate import line_ranges, shard_bytes, simulate, simulated, size_ranges
from acclc.simulate import ranges as module
from acclc.simulate.baselines import schedules
from acclc.simulate.ranges import Curve, Range, _cheapest, _marks, _tiles
from acclc.solve.packing import packed_schedule
from acclc.solve.portfolio import Portfolio
from acclc.solve.protocol import Budget, silent

C = Collective


def chosen(ranges: tuple[Range | None, ...], size: int) -> int:
    (one,) = [i for i, r in enumerate(ranges) if r and r[0] <= size and (r[1] is None or size < r[1])]
    return one


def delayed(machine: Topology, latency: Fraction = Fraction(1, 10**6)) -> Topology:
    """The machine with a latency on each link."""
    links = tuple(replace(e, cls=replace(e.cls, latency=latency)) for e in machine.links)
    return replace(machine, links=links)


def plans(problem: Problem) -> list[Schedule]:
    """What a compilation has: a frontier with a packing at its end."""
    return [s.schedule for s in Portfolio().solve(problem, Budget(work=0.2), silent).solutions]


def losses(problem: Problem, made: list[Schedule], ranges: tuple[Range | None, ...], sizes: list[int]) -> float:
    worst = 0.0
    for size in sizes:
        times = [simulate(problem, s, shard_bytes(problem, size)).seconds for s in made]
        worst = max(worst, float(times[chosen(ranges, size)] / min(times) - 1))
    return worst


@pytest.mark.parametrize(
    ("machine", "collective"),
    [
        (ring(8), C.BROADCAST),
        (ring(8), C.ALL_REDUCE),
        (dgx1(), C.BROADCAST),
        (switched(2, 300, per_box=4), C.ALL_GATHER),
        (switched(2, 300, per_box=4), C.BROADCAST),
    ],
    ids=["ring broadcast", "ring all_reduce", "dgx1 broadcast", "boxes all_gather", "boxes broadcast"],
)
def test_no_size_is_much_slower_than_it_could_be(machine: Topology, collective: Collective) -> None:
    problem = problem_of(delayed(machine), collective)
    made = plans(problem)
    assert len(made) > 1
    assert simulated(problem, made)
    ranges = size_ranges(problem, made)
    ends = [x for r in ranges if r for x in r if x]
    sizes = sorted({int(x * f) for x in ends for f in (0.3, 0.95, 1.05, 3)} | {1, 3000, 50_000, 700_000})
    assert losses(problem, made, ranges, sizes) < 0.1


def test_the_closed_form_alone_can_be_far_off() -> None:
    """Eight GPUs a box that all send over one network port each: the queue is not in the closed form."""
    problem = problem_of(delayed(switched(2, 300, per_box=4)), C.ALL_GATHER)
    made = plans(problem)
    assert losses(problem, made, line_ranges(problem, made), [30_000, 100_000]) > 0.5
    assert losses(problem, made, size_ranges(problem, made), [30_000, 100_000]) < 0.1


def test_too_much_work_leaves_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(delayed(ring(8)), C.BROADCAST)
    made = plans(problem)
    monkeypatch.setattr(module, "WORK", 100)
    assert not simulated(problem, made)
    assert size_ranges(problem, made) == line_ranges(problem, made)


def test_a_single_schedule_and_none() -> None:
    problem = problem_of(ring(4), C.ALL_GATHER)
    made = list(schedules(problem, 1))[:1]
    assert size_ranges(problem, made) == ((0, None),)
    assert size_ranges(problem, []) == ()
    packed = packed_schedule(problem).schedule
    assert packed is not None
    assert size_ranges(problem, [packed, packed]) == ((0, None), None)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_way_of_least_regret(data: st.DataObject) -> None:
    """Against all ways that never go back."""
    width, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    costs = data.draw(
        st.lists(st.lists(st.integers(0, 5), min_size=width, max_size=width), min_size=length, max_size=length)
    )

    def ways(count: int, least: int) -> list[list[int]]:
        if count == 0:
            return [[]]
        return [[c, *rest] for c in range(least, width) for rest in ways(count - 1, c)]

    def total(way: list[int]) -> int:
        return sum(row[c] for row, c in zip(costs, way, strict=True))

    path = _cheapest(costs)
    assert path == sorted(path)
    assert total(path) == min(map(total, ways(length, 0)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), min_size=1, max_size=5), st.sampled_from([1, 8]))
def test_ranges_tile_all_sizes_and_lines_are_met_exactly(kinds: list[tuple[int, int]], factor: int) -> None:
    """Of straight lines the fastest is chosen at every size but between marks, where a narrow range may be lost."""
    marks = _marks(module.SIZES)
    curves = [Curve(((1, Fraction(a, 10**6)),), Fraction(1, b * 10**9)) for a, b in kinds]
    ranges = _tiles(curves, marks, factor)
    held = sorted((r for r in ranges if r is not None), key=lambda r: r[0])
    assert held[0][0] == 0
    assert held[-1][1] is None
    assert all(a[1] == b[0] for a, b in pairwise(held))
    for size in marks:
        times = [c.at(Fraction(size, factor)) for c in curves]
        assert times[chosen(ranges, size)] <= min(times) * Fraction(1001, 1000)
