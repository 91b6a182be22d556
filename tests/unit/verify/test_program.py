from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from helpers import Builder, all_reduce_ring, cases, problem, ring, topology
from plain_lowering import plain_program

from acclc.ir.problem import Collective, Problem
from acclc.ir.program import Buffer, Extent, Operation, OperationKind, Program, ProgramBlock
from acclc.ir.schedule import OWN, Schedule
from acclc.verify import check_program


def codes(what: Problem, schedule: Schedule, program: Program) -> set[str]:
    return {f.code for f in check_program(what, schedule, program).errors}


def change(program: Program, rank: int, which: Callable[[Operation], bool], **changes: object) -> Program:
    """Change the first operation of a rank for which ``which`` holds."""
    done = False
    blocks = []
    for block in program.ranks[rank].blocks:
        operations = []
        for o in block.operations:
            if not done and which(o):
                o, done = replace(o, **changes), True
            operations.append(o)
        blocks.append(replace(block, operations=tuple(operations)))
    assert done
    return with_blocks(program, rank, blocks)


def with_blocks(program: Program, rank: int, blocks: list[ProgramBlock]) -> Program:
    ranks = list(program.ranks)
    ranks[rank] = replace(ranks[rank], blocks=tuple(blocks))
    return replace(program, ranks=tuple(ranks))


def is_kind(kind: OperationKind) -> Callable[[Operation], bool]:
    return lambda o: o.kind is kind


SEND, RECEIVE, COMPUTE = (is_kind(k) for k in (OperationKind.SEND, OperationKind.RECEIVE, OperationKind.COMPUTE))


@pytest.mark.parametrize("name", list(cases()))
def test_plain_programs_verify(name: str) -> None:
    what, schedule = cases()[name]
    program = plain_program(what, schedule)
    report = check_program(what, schedule, program)
    assert report.ok, str(report)
    assert report.facts is not None
    assert report.facts.messages == len(schedule.transfers)
    assert report.facts.operations == 2 * len(schedule.transfers) + len(schedule.outputs)


@pytest.fixture
def ring3() -> tuple[Problem, Schedule, Program]:
    what, schedule = cases()["all_reduce_ring3"]
    return what, schedule, plain_program(what, schedule)


Case = tuple[Problem, Schedule, Program]


def test_in_place_needs_the_sends_before_the_overwriting(ring3: Case) -> None:
    """Without the wait for the rank's own sends only the in-place run is wrong."""
    what, schedule, program = ring3
    receives = {o.id for b in program.ranks[0].blocks for o in b.operations if o.kind is OperationKind.RECEIVE}
    first = next(
        o
        for b in program.ranks[0].blocks
        for o in b.operations
        if o.kind is OperationKind.COMPUTE and set(o.after) - receives
    )
    kept = tuple(a for a in first.after if a in receives)
    changed = change(program, 0, lambda o: o.id == first.id, after=kept)
    report = check_program(what, schedule, changed)
    hazards = [f for f in report.errors if f.code == "program.hazard"]
    assert hazards
    assert all("in place" in f.where for f in hazards)


def test_missing_dependency_is_a_hazard(ring3: Case) -> None:
    what, schedule, program = ring3
    changed = change(program, 1, lambda o: SEND(o) and bool(o.after), after=())
    assert "program.hazard" in codes(what, schedule, changed)


def test_messages_pair(ring3: Case) -> None:
    what, schedule, program = ring3
    assert "program.fifo" in codes(what, schedule, change(program, 0, SEND, fifo=7))
    assert "program.match" in codes(what, schedule, change(program, 0, SEND, peer=2))
    assert "program.match" in codes(what, schedule, change(program, 0, RECEIVE, channel=1))
    assert "program.match" in codes(what, schedule, change(program, 0, RECEIVE, transfer=99))
    block = next(b for b in program.ranks[0].blocks if b.link >= 0)
    fewer = [replace(b, operations=b.operations[:-1]) if b is block else b for b in program.ranks[0].blocks]
    assert codes(what, schedule, with_blocks(program, 0, fewer)) & {"program.match", "program.ids"}


def test_sends_out_of_fifo_order(ring3: Case) -> None:
    what, schedule, program = ring3
    block = next(b for b in program.ranks[0].blocks if b.link >= 0)
    turned = replace(block, operations=(block.operations[1], block.operations[0], *block.operations[2:]))
    blocks = [turned if b is block else b for b in program.ranks[0].blocks]
    assert codes(what, schedule, with_blocks(program, 0, blocks)) & {"program.fifo", "program.deadlock"}


def test_deadlock_is_named(ring3: Case) -> None:
    """Every first send waits for a later receive of its own rank."""
    what, schedule, program = ring3
    for rank in range(3):
        last = [o.id for b in program.ranks[rank].blocks for o in b.operations if RECEIVE(o)][-1]
        program = change(program, rank, SEND, after=(last,))
    report = check_program(what, schedule, program)
    assert {f.code for f in report.errors} == {"program.deadlock"}
    assert "waits for rank" in report.errors[0].message


def test_a_rendezvous_would_need_buffering() -> None:
    """Both ranks send before they receive, in one block each: fine with a buffer, a deadlock without."""
    what = problem(ring(2), Collective.ALL_GATHER)
    b = Builder(what, 1, 1)
    for rank in (0, 1):
        b.end(rank, rank)
        b.end(1 - rank, rank, (b.move(rank, rank, 1 - rank, 0),))
    schedule = b.schedule()
    program = plain_program(what, schedule)
    report = check_program(what, schedule, program)
    assert report.facts is not None
    assert not report.facts.needs_buffering
    for rank in (0, 1):
        send = next(o.id for b in program.ranks[rank].blocks for o in b.operations if SEND(o))
        program = change(program, rank, RECEIVE, after=(send,))
    report = check_program(what, schedule, program)
    assert report.ok
    assert report.facts is not None
    assert report.facts.needs_buffering


def test_values_and_trees(ring3: Case) -> None:
    what, schedule, program = ring3
    two = next(o for b in program.ranks[1].blocks for o in b.operations if SEND(o) and len(o.sources) == 2)
    turned = change(program, 1, lambda o: o.id == two.id, sources=two.sources[::-1])
    assert "program.value" in codes(what, schedule, turned)
    once = change(program, 1, lambda o: o.id == two.id, sources=two.sources[:1])
    assert "program.value" in codes(what, schedule, once)
    doubled = change(program, 1, lambda o: o.id == two.id, sources=(*two.sources, two.sources[0]))
    assert "program.reduction" in codes(what, schedule, doubled)
    sums = next(o for b in program.ranks[1].blocks for o in b.operations if COMPUTE(o) and len(o.sources) == 2)
    turned = change(program, 1, lambda o: o.id == sums.id, sources=sums.sources[::-1])
    assert codes(what, schedule, turned) == {"program.tree"}


def test_final_stands_where_the_reduction_completes(ring3: Case) -> None:
    what, schedule, program = ring3
    assert "program.reduction" in codes(what, schedule, change(program, 0, lambda o: o.final, final=False))
    partial = change(program, 0, lambda o: SEND(o) and not o.final, final=True)
    assert "program.reduction" in codes(what, schedule, partial)
    gather, plain = cases()["all_gather_ring3"]
    marked = change(plain_program(gather, plain), 0, COMPUTE, final=True)
    assert "program.reduction" in codes(gather, plain, marked)


def test_places(ring3: Case) -> None:
    what, schedule, program = ring3
    target = next(o.target for b in program.ranks[0].blocks for o in b.operations if COMPUTE(o))
    assert target is not None
    for changed, code in (
        (replace(target, unit=1), "program.bounds"),
        (replace(target, buffer=Buffer.INPUT), "program.input"),
        (replace(target, begin=target.begin + Fraction(1, 9)), "program.extents"),
        (replace(target, end=Fraction(2)), "program.bounds"),
    ):
        assert code in codes(what, schedule, change(program, 0, COMPUTE, target=changed))
    scratch = replace(program.ranks[0], slots=1)
    assert "program.bounds" in codes(what, schedule, replace(program, ranks=(scratch, *program.ranks[1:])))


def test_slots_are_not_shared_too_early(ring3: Case) -> None:
    what, schedule, program = ring3
    other = Extent(Buffer.SCRATCH, 1, Fraction(0), Fraction(1, 3))
    landing = next(o for b in program.ranks[0].blocks for o in b.operations if RECEIVE(o))
    assert landing.target is not None
    moved = replace(landing.target, unit=other.unit)
    report = codes(what, schedule, change(program, 0, lambda o: o.id == landing.id, target=moved))
    assert report & {"program.hazard", "program.value", "program.extents"}


def test_only_what_is_needed_is_written() -> None:
    """A rank that needs nothing writes into an output that nobody asked for: it has no such unit."""
    what = problem(ring(3), Collective.REDUCE)
    b = Builder(what, 1, 2)
    first = b.move(0, 2, 1, 0)
    b.end(0, 0, (b.move(0, 1, 0, 1, (OWN, first)), OWN))
    schedule = b.schedule()
    program = plain_program(what, schedule)
    assert codes(what, schedule, program) == set()
    copy = Operation(
        90,
        OperationKind.COMPUTE,
        0,
        (Extent(Buffer.INPUT, 0, Fraction(0), Fraction(1)),),
        Extent(Buffer.OUTPUT, 0, Fraction(0), Fraction(1)),
    )
    blocks = [*program.ranks[1].blocks, ProgramBlock(-1, (copy,))]
    assert codes(what, schedule, with_blocks(program, 1, blocks)) == {"program.bounds"}


def test_overlapping_parts_are_refused() -> None:
    """A whole-unit copy beside chunk-wise ones: slices would not line up."""
    what, schedule = cases()["broadcast_ring2"]
    program = plain_program(what, schedule)
    whole = Extent(Buffer.OUTPUT, 0, Fraction(0), Fraction(1))
    copy = Operation(90, OperationKind.COMPUTE, 0, (replace(whole, buffer=Buffer.INPUT),), whole)
    assert "program.overlap" in codes(
        what, schedule, with_blocks(program, 0, [*program.ranks[0].blocks, ProgramBlock(-1, (copy,))])
    )


def test_header(ring3: Case) -> None:
    what, schedule, program = ring3
    assert codes(what, schedule, replace(program, in_place="none")) == {"program.in_place"}
    assert codes(what, schedule, replace(program, contributors=2)) == {"program.contributors"}
    assert codes(what, schedule, replace(program, positions=(1, 0, 2))) == {"program.positions"}
    assert "program.ranks" in codes(what, schedule, replace(program, ranks=program.ranks[:2], positions=(0, 1)))
    # the manifest's order is the group's: in another one, ranks would be given each other's memory
    turned = replace(program, ranks=program.ranks[::-1], positions=program.positions[::-1])
    assert codes(what, schedule, turned) == {"program.ranks"}


def test_block_and_step_and_link(ring3: Case) -> None:
    what, schedule, program = ring3
    assert "program.transfers" in codes(what, schedule, change(program, 0, SEND, step=3))
    blocks = [replace(b, link=5) if b.link >= 0 else b for b in program.ranks[0].blocks]
    assert codes(what, schedule, with_blocks(program, 0, blocks)) == {"program.link"}
    blocks = [replace(b, link=-2) if b.link < 0 else b for b in program.ranks[0].blocks]
    assert codes(what, schedule, with_blocks(program, 0, blocks)) == {"program.block"}


def test_a_program_of_another_schedule_is_refused() -> None:
    what = problem(topology("both", 3, [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)]), Collective.ALL_REDUCE)
    schedule = all_reduce_ring(what)
    swapped = replace(schedule, outputs=tuple(replace(o, operands=o.operands[::-1]) for o in schedule.outputs))
    assert codes(what, swapped, plain_program(what, schedule)) == {"program.tree"}
