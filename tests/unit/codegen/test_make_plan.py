"""KernelProgram -> KernelPlan: names, positions, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from codegen_tools import ONE, ZERO, await_, exchange, extent, post, put

from acclc.codegen import KernelProgramError, make_plan
from acclc.ir.kernel_program import Instruction, KernelProgram, Protocol
from acclc.ir.plan import PlanCounter, PlanPart, PlanPlace, PlanStatement
from acclc.ir.program import Buffer


def test_counters_lie_in_their_homes_memory_in_order_of_id() -> None:
    plan = make_plan(exchange((3, 7)))
    assert plan.ranks == (3, 7)
    assert plan.counters == (
        PlanCounter("entry_3_7", 0, 0, 1, "entry, 3 -> 7"),
        PlanCounter("arrival_3_7", 1, 0, 2, "arrival, 3 -> 7"),
        PlanCounter("credit_3_7", 0, 1, 1, "credit, 3 -> 7"),
        PlanCounter("entry_7_3", 1, 1, 1, "entry, 7 -> 3"),
        PlanCounter("arrival_7_3", 0, 2, 2, "arrival, 7 -> 3"),
        PlanCounter("credit_7_3", 1, 2, 1, "credit, 7 -> 3"),
    )


def test_equal_names_are_told_apart() -> None:
    kernel = exchange()
    again = replace(kernel.counters[1], id=6)
    names = [c.name for c in make_plan(replace(kernel, counters=(*kernel.counters, again))).counters]
    assert names[1] == "arrival_0_1"
    assert names[6] == "arrival_0_1_2"
    assert len(set(names)) == len(names)


def test_parts_are_named_in_order_of_where_they_lie() -> None:
    assert make_plan(exchange()).parts == (PlanPart("p0", 0, 1, 1, 2), PlanPart("p1", 1, 2, 1, 1))


def test_a_block_becomes_statements() -> None:
    plan = make_plan(exchange())
    local, send = plan.blocks[:2]
    assert (local.name, local.number, local.position, local.index) == ("rank0_block0", 0, 0, 0)
    assert (send.name, send.number, send.position, send.index) == ("rank0_block1", 1, 0, 1)
    assert plan.first_blocks == (0, 2)
    assert [s.kind for s in local.entry] == ["title", "post_entry"]
    assert [s.kind for s in local.body] == ["title", "await", "put_final", "title", "await", "put_final", "post"]
    assert local.body[2] == PlanStatement(
        "put_final",
        step=1,
        part="p0",
        places=(PlanPlace("in", 0, 0), PlanPlace("slot", 0, 0)),
        targets=(PlanPlace("out", 0, 0),),
    )
    assert send.body[1] == PlanStatement("await", counter="credit_0_1", index=1, lag=2, step=0, transfer=0)
    assert (send.body[2].targets, send.body[2].places) == ((PlanPlace("slot", 1, 0),), (PlanPlace("in", 0, 0),))


def test_outputs_that_a_rank_sends_on_are_kept() -> None:
    kernel = exchange()
    half = Fraction(1, 2)
    sends_on = put(extent(Buffer.SCRATCH, 0, ZERO, half), 1, extent(Buffer.OUTPUT, 0, ZERO, half), transfer=0)
    send = replace(kernel.blocks[1], body=(*kernel.blocks[1].body, sends_on))
    plan = make_plan(replace(kernel, blocks=(kernel.blocks[0], send, *kernel.blocks[2:])))
    targets = [s.targets[0] for s in plan.blocks[0].body if s.kind == "put_final"]
    assert targets == [PlanPlace("kept", 0, 0), PlanPlace("out", 0, 0)]
    others = [s.targets[0] for s in plan.blocks[2].body if s.kind == "put_final"]
    assert others == [PlanPlace("out", 1, 0), PlanPlace("out", 1, 0)]
    assert plan.blocks[1].body[-1].places[0] == PlanPlace("out", 0, 0)


def body(kernel: KernelProgram, *instructions: Instruction, entry: tuple[Instruction, ...] = ()) -> KernelProgram:
    """The kernel with another first block."""
    first = replace(kernel.blocks[0], body=instructions, entry=entry)
    return replace(kernel, blocks=(first, *kernel.blocks[1:]))


WHOLE = extent(Buffer.INPUT)
FINE = extent(Buffer.INPUT, 0, ZERO, Fraction(1, 2**31))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (replace(exchange(), protocol=Protocol.LL), "protocol ll has no generated code of put programs"),
        (replace(exchange(), channels=0), "at least 1"),
        (replace(exchange(), contributors=-1), "contributors at least 0"),
        (replace(exchange(), positions=(0,)), "1 positions for 2 ranks"),
        (body(exchange(), put(extent(Buffer.OUTPUT, 0, ZERO, Fraction(1, 2)), 0, WHOLE)), "joins different parts"),
        (body(exchange(), put(extent(Buffer.OUTPUT), 0)), "without a source or a target"),
        (body(exchange(), put(extent(Buffer.OUTPUT), 9, WHOLE)), "rank 9 has no memory"),
        (body(exchange(), put(extent(Buffer.OUTPUT, 1), 0, WHOLE)), "out 1 of rank 0: it has 1"),
        (body(exchange(), put(extent(Buffer.SCRATCH, 2), 0, WHOLE)), "scratch 2 of rank 0: it has 2"),
        (body(exchange(), put(FINE, 0, FINE)), "a denominator above 2147483647"),
        (body(exchange(), put(extent(Buffer.OUTPUT, 0, ONE, ZERO), 0, WHOLE)), r"does not lie in \[0, 1\)"),
        (body(exchange(), await_(6)), "no such counter"),
        (body(exchange(), await_(0)), "entry counters belong in the entry list"),
        (body(exchange(), entry=(await_(1),)), "entry counters belong in the entry list"),
        (body(exchange(), entry=(put(extent(Buffer.OUTPUT), 0, WHOLE),)), "a put in the entry list"),
        (body(exchange(), post(1)), "posted by another block than its writer"),
        (body(exchange(), await_(4, -1)), "negative index or lag"),
        (replace(exchange(), blocks=exchange().blocks[::-1]), "not in order of rank"),
        (replace(exchange(), blocks=exchange().blocks[1:]), "numbered from 0"),
        (replace(exchange(), counters=exchange().counters[:0:-1]), "wrong id, home or events"),
    ],
)
def test_what_has_no_realisation_is_refused(kernel: KernelProgram, words: str) -> None:
    with pytest.raises(KernelProgramError, match=words):
        make_plan(kernel)


def test_the_layout_says_everything_that_memory_depends_on() -> None:
    """Each of these would make a kernel run on memory laid out for another."""
    kernel = exchange()
    first = kernel.ranks[0]
    others = [
        replace(kernel, channels=kernel.channels + 1),
        replace(kernel, slot_depth=kernel.slot_depth + 1),
        replace(kernel, contributors=0),
        replace(kernel, in_place="none" if kernel.in_place != "none" else "same"),
        replace(kernel, positions=kernel.positions[::-1]),
        replace(kernel, ranks=(replace(first, slots=first.slots + 1), *kernel.ranks[1:])),
        replace(kernel, ranks=(replace(first, input_units=first.input_units + 1), *kernel.ranks[1:])),
        replace(kernel, ranks=(replace(first, output_units=first.output_units + 1), *kernel.ranks[1:])),
        replace(kernel, counters=(*kernel.counters, replace(kernel.counters[-1], id=len(kernel.counters)))),
        body(kernel, put(extent(Buffer.OUTPUT), 0, WHOLE)),
    ]
    layouts = [make_plan(k).layout for k in (kernel, *others)]
    assert len(set(layouts)) == len(layouts)
    assert make_plan(replace(kernel, name="other")).layout == layouts[0]
