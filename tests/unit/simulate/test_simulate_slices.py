"""Pipelined schedules: slices pass each other, the closed form, and the steady state of many slices."""

from dataclasses import replace
from fractions import Fraction

from hand_built import custom, shard, topology

from acclc.ir.problem import LinkId, Problem, Rank
from acclc.ir.schedule import OWN, ChunkId, Schedule, Transfer, TransferId, equal_chunks
from acclc.simulate import simulate, step_time
from acclc.simulate.slices import sliced_times
from acclc_runtime.slicing import SLICE_BYTES

US = Fraction(1, 10**6)
RATE = 10 * 10**9


def chain(hops: int) -> tuple[Problem, Schedule]:
    """One chunk goes down a line of links of 10 GB/s and 1 us each."""
    machine = topology(hops + 1, [(n, n + 1, 1, 10) for n in range(hops)], latency_us=1)
    problem = custom(machine, [shard(0, [0], [hops])])
    transfers = tuple(
        Transfer(TransferId(n), ChunkId(0), Rank(n), Rank(n + 1), (LinkId(n),), n, (TransferId(n - 1 if n else OWN),))
        for n in range(hops)
    )
    return problem, Schedule(equal_chunks((problem.shards[0].id,), 1), transfers, (), (), "by hand")


def test_one_slice_is_stored_and_forwarded() -> None:
    problem, schedule = chain(3)
    assert simulate(problem, schedule, 1000).seconds == 3 * (US + Fraction(1000, RATE))


def test_smaller_slices_fill_a_chain_sooner() -> None:
    problem, schedule = chain(4)
    for slice_bytes in (1, 1000, SLICE_BYTES):
        expected = 4 * US + (4 + 2000 - 1) * Fraction(slice_bytes, RATE)
        assert simulate(problem, schedule, 2000 * slice_bytes, slice_bytes=slice_bytes).seconds == expected


def test_many_slices_fill_the_chain_once() -> None:
    """The chain's latency, a slice on each hop, and then one slice after another: exactly d + slices - 1 of them."""
    problem, schedule = chain(4)
    slice_time = Fraction(SLICE_BYTES, RATE)
    for slices in (2, 7, 100, 1000, 100_000):
        size = slices * SLICE_BYTES
        expected = 4 * US + (4 + slices - 1) * slice_time
        assert simulate(problem, schedule, size).seconds == expected
        fixed, slope = step_time(problem, schedule)
        assert fixed + slope * size == expected + slice_time


def test_steps_would_wait_for_each_other() -> None:
    problem, schedule = chain(4)
    size = 1000 * SLICE_BYTES
    stepped = replace(schedule, rounds=(1,) * 4)
    assert simulate(problem, stepped, size).seconds > Fraction(7, 2) * simulate(problem, schedule, size).seconds


def test_times_begin_with_the_first_slice_and_end_with_the_last() -> None:
    problem, schedule = chain(2)
    first, second = sliced_times(problem, schedule, 3 * SLICE_BYTES)
    slice_time = Fraction(SLICE_BYTES, RATE)
    assert (first.start, first.sent) == (0, 3 * slice_time)
    assert second.start == slice_time + US
    assert second.arrived == second.sent + US == 4 * slice_time + 2 * US


def test_two_levels_of_one_link_share_it() -> None:
    """A chunk that is sent and one that is passed on over the same link: neither waits for the other's slices."""
    machine = topology(3, [(0, 1, 1, 10), (1, 2, 1, 10)], latency_us=0)
    problem = custom(machine, [shard(0, [0], [2]), shard(1, [1], [2])])
    moves = [(0, 0, 0, OWN), (1, 1, 0, OWN), (0, 1, 1, 0)]
    transfers = tuple(
        Transfer(TransferId(n), ChunkId(c), Rank(e), Rank(e + 1), (LinkId(e),), level, (TransferId(o),))
        for n, (c, e, level, o) in enumerate(moves)
    )
    schedule = Schedule(equal_chunks(tuple(s.id for s in problem.shards), 1), transfers, (), (), "by hand")
    size = 64 * SLICE_BYTES
    timeline = simulate(problem, schedule, size)
    least = Fraction(2 * size, RATE)
    assert least <= timeline.seconds < least * Fraction(11, 10)
    assert "bandwidth" in timeline.limiting
    assert timeline.critical == ()
