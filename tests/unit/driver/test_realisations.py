"""Which realisations a schedule gets, and for which sizes; every one verifies, on every kind of small machine."""

from __future__ import annotations

from fractions import Fraction

import pytest

from acclc.ir.kernel_program import CounterKind, InstructionKind, KernelProgram, Protocol, Realisation
from acclc.ir.problem import Problem
from acclc.lower import can_be_eager, lower_direct, lower_eager, lower_program, owned_schedule
from acclc.realisations import WAIT_BYTES, Realised, accesses, eager_below, realise, sizes_of
from acclc.sema import analyse_text
from acclc.simulate.sizes import step_time
from acclc.solve import greedy
from acclc.verify import check_kernel, check_program, check_schedule

PUT, EAGER, DIRECT = Realisation.PUT, Realisation.EAGER, Realisation.DIRECT
COLLECTIVES = (
    "all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "gather", "scatter", "all_to_all", "send_recv",
)  # fmt: skip


def problem(text: str) -> Problem:
    (only,) = analyse_text(text).problems
    return only


def realised(text: str) -> tuple[Problem, tuple[Realised, ...]]:
    p = problem(text)
    return p, realise(p, greedy.schedules_of(p))


def of(found: tuple[Realised, ...], realisation: Realisation) -> list[Realised]:
    """By protocol simple."""
    return [r for r in found if r.kernel.realisation is realisation and r.kernel.protocol is Protocol.SIMPLE]


def waits(kernel: KernelProgram, block: int = 0) -> int:
    found = kernel.blocks[block]
    return sum(i.kind is InstructionKind.AWAIT for i in (*found.entry, *found.body))


@pytest.mark.parametrize("topology", ["ring(2)", "full(3)", "star(4)", "line(3)", "mesh(2, 2)", "full(5)"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_realisation_verifies(collective: str, topology: str) -> None:
    p, found = realised(f"{collective} on {topology}")
    assert {r.schedule for r in of(found, PUT)} == set(greedy.schedules_of(p))
    for r in found:
        assert check_schedule(p, r.schedule).ok, check_schedule(p, r.schedule)
        assert check_program(p, r.schedule, r.program).ok, check_program(p, r.schedule, r.program)
        report = check_kernel(p, r.schedule, r.kernel)
        assert report.ok, f"{r.kernel.realisation}: {report}"


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_sizes_are_shared_out_without_gap_or_overlap(collective: str) -> None:
    for topology in ("full(4)", "ring(4)", "full(2)"):
        p, found = realised(f"{collective} on {topology}")
        ranges = sorted((r.sizes for r in found if r.sizes is not None), key=lambda sizes: sizes[0])
        assert ranges[0][0] == 0
        assert ranges[-1][1] is None
        assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))  # noqa: RUF007
        assert sizes_of(p, [(r.schedule, r.kernel) for r in found]) == [r.sizes for r in found]


def test_full_machines_have_all_three_and_rings_puts_alone() -> None:
    _, found = realised("all_gather on full(4)")
    assert [len(of(found, r)) for r in (EAGER, DIRECT)] == [1, 1]
    _, ring = realised("all_reduce on ring(5)")
    assert of(ring, DIRECT) == []
    assert all(can_be_eager(r.schedule) for r in of(ring, EAGER))


def test_eager_waits_for_data_only_and_direct_twice_for_each_rank() -> None:
    _, found = realised("all_gather on full(4)")
    ((eager,), (direct,)) = of(found, EAGER), of(found, DIRECT)
    assert waits(eager.kernel) == 3
    assert {c.kind for c in eager.kernel.counters} == {CounterKind.ARRIVAL}
    assert waits(direct.kernel) == 6
    assert {c.kind for c in direct.kernel.counters} == {CounterKind.ENTRY, CounterKind.DONE}
    assert len(direct.kernel.blocks) == len(eager.kernel.blocks) == 4


def test_lines_where_eager_is_the_best_without_sizes_of_their_own() -> None:
    for text in ("all_gather on full(4)", "all_reduce on full(4)", "broadcast on full(4)"):
        _, found = realised(text)
        lines = [r for r in found if r.kernel.protocol is Protocol.LL]
        assert [r.schedule for r in lines] == [r.schedule for r in of(found, EAGER)]
        assert lines
        assert all(r.sizes is None for r in lines)
        kinds = [lines[0].kernel.counters[i.counter].kind for i in lines[0].kernel.blocks[0].body if i.counter >= 0]
        assert set(kinds) <= {CounterKind.CREDIT}
    _, ring = realised("all_reduce on ring(5)")
    assert not [r for r in ring if r.kernel.protocol is Protocol.LL]


def test_eager_gives_credits_where_nothing_comes_back() -> None:
    _, found = realised("broadcast on full(3) { root g[1] }")
    (eager,) = of(found, EAGER)
    credits = [c for c in eager.kernel.counters if c.kind is CounterKind.CREDIT]
    assert {(c.src, c.dst) for c in credits} == {(1, 0), (1, 2)}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_an_owned_schedule_reads_each_element_once(ranks: int) -> None:
    p = problem(f"all_reduce on full({ranks})")
    one_step = [s for s in greedy.schedules_of(p) if s.steps == 1]
    for schedule in one_step:
        owned = owned_schedule(p, schedule)
        assert owned is not None
        assert check_schedule(p, owned).ok, check_schedule(p, owned)
        assert step_time(p, owned)[1] <= step_time(p, schedule)[1]
        kernel = lower_direct(p, owned)
        assert kernel is not None
        assert accesses(kernel) == 2 * ranks, "each input read once, each output written once"


def test_owned_is_for_what_all_need_of_all_in_one_step() -> None:
    for text in ("all_gather on full(3)", "reduce on full(3)", "all_reduce on ring(5)"):
        p = problem(text)
        assert all(owned_schedule(p, s) is None for s in greedy.schedules_of(p))


def test_where_eager_ends() -> None:
    """Where the memory that it touches beyond another realisation costs as much as a wait, or its slots are full."""
    p = problem("all_gather on full(4)")
    schedule = next(s for s in greedy.schedules_of(p) if s.steps == 1)
    eager = lower_eager(p, lower_program(p, schedule, all_in_slots=True))
    direct = lower_direct(p, schedule)
    assert direct is not None
    more = (accesses(eager) - accesses(direct)) / 4
    assert more == Fraction(9), "14 shards read or written a rank, against 5"
    assert eager_below(p, eager, direct) == int(WAIT_BYTES / more * 4)
    assert eager_below(p, eager, eager) == 4 * 16 * 1024
