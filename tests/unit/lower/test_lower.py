"""Lowering: what it decides, seen in small cases; that it is right is checked by the verifiers on many."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written import COLLECTIVES, problem

from acclc.ir.kernel_program import CounterKind, InstructionKind, KernelProgram
from acclc.ir.problem import Problem, Rank
from acclc.ir.program import Buffer, OperationKind, Program
from acclc.ir.schedule import OWN, Output, Schedule, Transfer, TransferId, equal_chunks
from acclc.lower import lower_kernel, lower_program
from acclc.solve import greedy
from acclc.verify import check_kernel, check_program, check_schedule


def lowered(p: Problem, s: Schedule) -> tuple[Program, KernelProgram]:
    """Lower and verify every level."""
    assert check_schedule(p, s).ok, check_schedule(p, s)
    program = lower_program(p, s)
    assert check_program(p, s, program).ok, check_program(p, s, program)
    kernel = lower_kernel(p, program)
    assert check_kernel(p, s, kernel).ok, check_kernel(p, s, kernel)
    return program, kernel


@pytest.mark.parametrize("topology", ["ring(3)", "ring(4)", "full(3)", "star(4)", "line(3)", "mesh(2, 3)", "ring(2)"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_lowers_and_verifies(collective: str, topology: str) -> None:
    p = problem(f"{collective} on {topology}")
    schedules = greedy.schedules_of(p)
    assert schedules
    for schedule in schedules:
        lowered(p, schedule)


@st.composite
def machines(draw: st.DrawFn) -> str:
    """A random strongly connected machine of 2 to 5 ranks, with links of one or two lanes."""
    n = draw(st.integers(2, 5))
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    extra = draw(st.lists(st.sampled_from(pairs), max_size=6, unique=True))
    ring = [(i, (i + 1) % n) for i in range(n)]
    lanes = draw(st.lists(st.integers(1, 2), min_size=n + len(extra), max_size=n + len(extra)))
    links = [f"g[{a}] -> g[{b}] : {c} l" for (a, b), c in zip(ring + extra, lanes, strict=True)]
    return "\n".join(["topology t {", "link l { 10 GB/s, 1 us }", f"gpu g[{n}]", *links, "}"])


@given(machines(), st.sampled_from(COLLECTIVES), st.sampled_from(["", "channels 2", "blocks up to 2"]))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_machines(machine: str, collective: str, option: str) -> None:
    p = problem(f"{machine}\n{collective} on t {{ {option} }}")
    for schedule in greedy.schedules_of(p)[:2]:
        _, kernel = lowered(p, schedule)
        assert kernel.channels == (2 if option == "channels 2" else 1)
        if option.startswith("blocks"):
            assert max(b.index for b in kernel.blocks) <= 1


def test_a_gather_lands_in_place_and_needs_no_scratch() -> None:
    p = problem("all_gather on ring(4)")
    program, kernel = lowered(p, greedy.schedules_of(p)[0])
    assert all(r.slots == 0 for r in program.ranks)
    targets = [o.target for r in program.ranks for b in r.blocks for o in b.operations if o.target]
    assert {t.buffer for t in targets} == {Buffer.OUTPUT}
    assert not [c for c in kernel.counters if c.kind is CounterKind.CREDIT]


def test_a_partial_sum_lands_in_a_slot_that_is_given_back() -> None:
    p = problem("reduce on line(3) { root g[0] }")
    program, kernel = lowered(p, greedy.schedules_of(p)[0])
    middle = program.ranks[1]
    assert middle.slots >= 1
    credits = [c for c in kernel.counters if c.kind is CounterKind.CREDIT]
    assert {(c.src, c.dst) for c in credits} == {(2, 1), (1, 0)}
    waits = [i for b in kernel.blocks for i in b.body if i.kind is InstructionKind.AWAIT and i.lag]
    assert {i.lag for i in waits} == {kernel.slot_depth}


def test_avg_divides_once_where_the_sum_is_complete() -> None:
    p = problem("all_reduce on ring(3) { op avg }")
    for schedule in greedy.schedules_of(p):
        program, _ = lowered(p, schedule)
        finals = [o for r in program.ranks for b in r.blocks for o in b.operations if o.final]
        assert finals
        assert all(o.kind is not OperationKind.RECEIVE and len(o.sources) > 1 for o in finals)
    assert program.contributors == 3


def test_sums_over_sets_of_different_sizes_have_no_one_divisor() -> None:
    text = """
    together as tp {
        all_reduce on full(5) among g[0..1]
        all_reduce on full(5) among g[2..4]
    }
    """
    p = problem(text)
    program, _ = lowered(p, greedy.schedules_of(p)[0])
    assert program.contributors == 0


def test_chunks_tile_what_the_extents_say() -> None:
    p = problem("all_gather on ring(3) { chunks up to 3 }")
    for schedule in greedy.schedules_of(p):
        program, _ = lowered(p, schedule)
        for rank in program.ranks:
            targets = [o.target for b in rank.blocks for o in b.operations if o.target is not None]
            for unit in range(rank.output_units):
                pieces = sorted((t.begin, t.end) for t in targets if t.unit == unit)
                assert pieces[0][0] == 0
                assert pieces[-1][1] == 1
                assert all(a[1] == b[0] for a, b in pairwise(pieces))
                assert all(isinstance(x, Fraction) for piece in pieces for x in piece)


def test_a_slot_that_nobody_reads_needs_no_credit() -> None:
    """A transfer that reaches no output is odd, not wrong: a schedule with one still lowers."""
    p = problem("reduce on full(3) { root g[0] }")
    own = (OWN,)
    (chunk,) = equal_chunks((p.shards[0].id,), 1)
    path = {(x.src, x.dst): (x.id,) for x in p.topology.links}

    def move(number: int, src: int, dst: int) -> Transfer:
        return Transfer(TransferId(number), chunk.id, Rank(src), Rank(dst), path[(src, dst)], 0, own)

    moves = (move(0, 1, 0), move(1, 2, 0), move(2, 1, 2))
    end = Output(Rank(0), chunk.id, (OWN, TransferId(0), TransferId(1)))
    schedule = Schedule((chunk,), moves, (end,), (1,), "hand")
    assert {f.code for f in check_schedule(p, schedule).findings} == {"schedule.unused"}
    _, kernel = lowered(p, schedule)
    assert kernel.ranks[2].slots == 1
    assert {(c.src, c.dst) for c in kernel.counters if c.kind is CounterKind.CREDIT} == {(1, 0), (2, 0)}
