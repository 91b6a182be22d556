"""Sizes, the closed form, and ranges of sizes."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hand_built import custom, dgx1, problem_of, shard, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.ir.problem import Collective, Demand, LinkId, Problem, Rank
from acclc.ir.schedule import OWN, Chunk, ChunkId, Schedule, Transfer, TransferId, equal_chunks
from acclc.simulate import line_ranges, shard_bytes, size_bytes, size_factor, step_time
from acclc.simulate.baselines import schedules

C = Collective
US = Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        (C.ALL_GATHER, 8),
        (C.REDUCE_SCATTER, 8),
        (C.GATHER, 8),
        (C.SCATTER, 8),
        (C.ALL_TO_ALL, 8),
        (C.ALL_REDUCE, 1),
        (C.BROADCAST, 1),
        (C.REDUCE, 1),
    ],
)
def test_size_as_defined(collective: Collective, factor: int) -> None:
    problem = problem_of(dgx1(), collective)
    assert size_factor(problem) == factor
    assert size_bytes(problem, 100) == 100 * factor
    assert shard_bytes(problem, 100 * factor) == 100
    assert shard_bytes(problem, 100 * factor - factor // 2) == 100


def test_size_of_varying_and_custom_collectives() -> None:
    """all_to_all_v counts its largest row; a custom one its longest buffer."""
    machine = topology(3, [])
    shards = [shard(0, [0], [1], unit=(0, 0)), shard(1, [0], [2], unit=(1, 0)), shard(2, [1], [2], unit=(0, 4))]
    varying = replace(
        custom(machine, shards),
        collective=C.ALL_TO_ALL_V,
        demands=(Demand(C.ALL_TO_ALL_V, machine.ranks),),
    )
    assert size_factor(varying) == 2
    assert size_factor(custom(machine, shards)) == 5


def test_together_counts_the_largest() -> None:
    machine = topology(3, [])
    demands = (Demand(C.ALL_REDUCE, machine.ranks), Demand(C.ALL_GATHER, (Rank(0), Rank(1))))
    problem = Problem("p", machine, C.TOGETHER, demands, (shard(0, [0], [1]),))
    assert size_factor(problem) == 2


def test_step_time_of_a_ring() -> None:
    """Seven steps of 1 us, each a sixth of a shard on every lane of 25 GB/s."""
    problem = problem_of(dgx1(latency_us=1), C.ALL_GATHER)
    ring = next(s for s in schedules(problem, 1) if s.strategy == "ring")
    assert (ring.chunks_per_shard, ring.steps, ring.total_rounds) == (6, 7, 7)
    assert step_time(problem, ring) == (7 * US, Fraction(7, 6) / (25 * 10**9))


def test_step_time_counts_budgets_and_unequal_chunks() -> None:
    machine = topology(2, [(0, 1, 1, 10), (0, 1, 1, 10)], budgets=[((0, 1), 5)], latency_us=2)
    problem = custom(machine, [shard(0, [0], [1])])
    chunks = (
        Chunk(ChunkId(0), problem.shards[0].id, 0, Fraction(0), Fraction(1, 3)),
        Chunk(ChunkId(1), problem.shards[0].id, 1, Fraction(1, 3), Fraction(1)),
    )
    moves = tuple(Transfer(TransferId(i), ChunkId(i), Rank(0), Rank(1), (LinkId(i),), 0, (OWN,)) for i in range(2))
    assert step_time(problem, Schedule(chunks, moves, (), (1,), "test")) == (2 * US, Fraction(1, 5 * 10**9))
    free = replace(problem, topology=replace(machine, budgets=()))
    assert step_time(free, Schedule(chunks, moves, (), (1,), "test")) == (2 * US, Fraction(2, 30 * 10**9))


def chain(steps: int, share: Fraction) -> tuple[Problem, Schedule]:
    """A schedule of ``steps`` steps of 1 us in which 1/share of a shard moves in each."""
    machine = topology(2, [(0, 1, 1, 1)], latency_us=1)
    problem = custom(machine, [shard(0, [0], [1])])
    moves = tuple(Transfer(TransferId(i), ChunkId(0), Rank(0), Rank(1), (LinkId(0),), i, (OWN,)) for i in range(steps))
    chunks = (Chunk(ChunkId(0), problem.shards[0].id, 0, Fraction(0), share),)
    return problem, Schedule(chunks, moves, (), (1,) * steps, f"{steps}")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), min_size=1, max_size=6))
def test_ranges_tile_all_sizes_and_choose_the_fastest(kinds: list[tuple[int, int]]) -> None:
    made = [chain(steps, Fraction(1, parts)) for steps, parts in kinds]
    problem = made[0][0]
    plans = [s for _, s in made]
    ranges = line_ranges(problem, plans)
    held = sorted((r for r in ranges if r is not None), key=lambda r: r[0])
    assert held[0][0] == 0
    assert held[-1][1] is None
    assert all(a[1] == b[0] for a, b in pairwise(held))
    times = [step_time(problem, s) for s in plans]
    marks = {0, 1, 10**9} | {x + d for r in held for x in r if x is not None for d in (-1, 0, 1) if x + d >= 0}
    for size in marks:
        (chosen,) = [
            i for i, r in enumerate(ranges) if r is not None and r[0] <= size and (r[1] is None or size < r[1])
        ]
        assert times[chosen][0] + size * times[chosen][1] == min(f + size * g for f, g in times)


def test_a_dominated_schedule_has_no_range() -> None:
    made = [chain(1, Fraction(1)), chain(2, Fraction(1, 8)), chain(3, Fraction(1, 2))]
    ranges = line_ranges(made[0][0], [s for _, s in made])
    assert ranges[2] is None
    # 1 us + b/1e9 against 2 us + b/4e9: equal at 4000/3 bytes
    assert ranges[:2] == ((0, 1334), (1334, None))


def test_of_equal_schedules_the_first_is_chosen() -> None:
    problem, plan = chain(2, Fraction(1))
    assert line_ranges(problem, [plan, plan]) == ((0, None), None)


def test_ranges_are_in_bytes_of_s() -> None:
    """all_gather on 8 ranks: S is eight shards."""
    problem = problem_of(dgx1(latency_us=1), C.ALL_GATHER)
    shards = tuple(s.id for s in problem.shards)
    one = Schedule(equal_chunks(shards, 1), (_move(0, 0),), (), (1,), "a")
    two = Schedule(equal_chunks(shards, 4), (_move(0, 0), _move(1, 1)), (), (1, 1), "b")
    # link 0 has two lanes: 1 us + b/50e9 and 2 us + 2 (b/4)/50e9 are equal at b = 100000, S = 800000
    assert line_ranges(problem, [one, two]) == ((0, 800001), (800001, None))


def _move(number: int, step: int) -> Transfer:
    return Transfer(TransferId(number), ChunkId(0), Rank(0), Rank(1), (LinkId(0),), step, (OWN,))
