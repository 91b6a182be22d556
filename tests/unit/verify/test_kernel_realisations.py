"""Eager and direct kernel programs: what verifies, and that every fault seeded into one is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from helpers import cases

from acclc.ir.kernel_program import (
    CounterKind,
    Instruction,
    InstructionKind,
    KernelBlock,
    KernelProgram,
    Origin,
    Protocol,
    Realisation,
)
from acclc.ir.problem import Problem
from acclc.ir.program import Buffer
from acclc.ir.schedule import Schedule
from acclc.lower import can_be_eager, lower_direct, lower_eager, lower_program, owned_schedule
from acclc.verify import check_kernel

AWAIT, POST, PUT = InstructionKind.AWAIT, InstructionKind.POST, InstructionKind.PUT
Case = tuple[Problem, Schedule, KernelProgram]
Change = Callable[[Instruction], Instruction | None]


def eager(name: str) -> Case:
    problem, schedule = cases()[name]
    return problem, schedule, lower_eager(problem, lower_program(problem, schedule, all_in_slots=True))


def direct(name: str) -> Case:
    problem, schedule = cases()[name]
    schedule = owned_schedule(problem, schedule) or schedule
    kernel = lower_direct(problem, schedule)
    assert kernel is not None
    return problem, schedule, kernel


def one_step() -> list[str]:
    return [name for name, (_, schedule) in cases().items() if can_be_eager(schedule)]


def codes(case: Case, kernel: KernelProgram | None = None) -> set[str]:
    return {f.code for f in check_kernel(case[0], case[1], kernel or case[2]).errors}


def changed(kernel: KernelProgram, change: Change, block: int = 0, part: str = "body") -> KernelProgram:
    """One block with every instruction changed, or left out where ``change`` gives None."""
    found: KernelBlock = kernel.blocks[block]
    made = tuple(new for o in getattr(found, part) if (new := change(o)) is not None)
    blocks = (*kernel.blocks[:block], replace(found, **{part: made}), *kernel.blocks[block + 1 :])
    return replace(kernel, blocks=blocks)


def without(kernel: KernelProgram, kind: InstructionKind, counter: CounterKind, block: int = 0) -> KernelProgram:
    part = "entry" if counter is CounterKind.ENTRY else "body"

    def drop(o: Instruction) -> Instruction | None:
        return None if o.kind is kind and kernel.counters[o.counter].kind is counter else o

    return changed(kernel, drop, block, part)


@pytest.mark.parametrize("name", one_step())
def test_eager_verifies(name: str) -> None:
    case = eager(name)
    report = check_kernel(*case)
    assert report.ok, str(report)
    assert report.facts is not None
    calls = [slices for slices, _ in report.facts.calls]
    depth = case[2].slot_depth
    assert max(calls) >= 2 * depth + 1
    assert calls[: depth + 2] == [1] * (depth + 2), "many calls of one slice, as users make them"
    assert all(not b.entry and len(case[2].blocks) == len(case[2].ranks) for b in case[2].blocks)


@pytest.mark.parametrize("name", ["all_reduce_full3", "all_gather_full3", "all_gather_star3", "reduce_scatter_ring2"])
def test_direct_verifies(name: str) -> None:
    case = direct(name)
    report = check_kernel(*case)
    assert report.ok, str(report)
    assert {r.slots for r in case[2].ranks} == {0}
    waits = [o for b in case[2].blocks for o in (*b.entry, *b.body) if o.kind is AWAIT]
    assert {case[2].counters[o.counter].kind for o in waits} == {CounterKind.ENTRY, CounterKind.DONE}


def test_chains_have_neither() -> None:
    problem, schedule = cases()["all_reduce_ring3"]
    assert not can_be_eager(schedule)
    assert lower_direct(problem, schedule) is None
    gathered = cases()["all_reduce_full3"]
    assert lower_direct(*gathered) is None, "in place, a rank would write where others still read"


def test_eager_without_waiting_for_an_arrival() -> None:
    case = eager("all_reduce_full3")
    assert codes(case, without(case[2], AWAIT, CounterKind.ARRIVAL)) & {"kernel.race", "kernel.stale", "kernel.value"}


def test_eager_slots_are_not_reused_too_early() -> None:
    """Nobody sends back in a broadcast: without the credit, or with one of too long ago, the root runs ahead."""
    case = eager("broadcast_ring2")
    assert any(c.kind is CounterKind.CREDIT for c in case[2].counters)
    assert codes(case, without(case[2], AWAIT, CounterKind.CREDIT)) & {"kernel.race", "kernel.stale"}

    def later(o: Instruction) -> Instruction:
        return replace(o, lag=o.lag + 1) if o.lag else o

    assert codes(case, changed(case[2], later)) & {"kernel.race", "kernel.stale"}


def test_eager_needs_two_slices_a_slot() -> None:
    """With one, the receiver may still read when the next call's data come: only calls in a row show it."""
    case = eager("all_reduce_full3")
    assert codes(case, replace(case[2], slot_depth=1)) & {"kernel.race", "kernel.stale"}
    assert codes(case, replace(case[2], slot_depth=3)) == set()


def test_eager_as_puts_is_refused() -> None:
    """The same instructions, if slots were not its own: nothing says that the receiver has entered; puts own links."""
    case = eager("all_reduce_full3")
    assert "kernel.link" in codes(case, replace(case[2], realisation=Realisation.PUT))
    assert "kernel.entry" in codes(case, replace(case[2], realisation=Realisation.DIRECT))


def test_eager_touches_no_user_memory_of_others() -> None:
    case = eager("all_gather_full3")

    def into_output(o: Instruction) -> Instruction:
        far = o.kind is PUT and o.target is not None and o.target.buffer is Buffer.SCRATCH
        return replace(o, target=replace(o.target, buffer=Buffer.OUTPUT, unit=0)) if far and o.target else o

    assert "kernel.reach" in codes(case, changed(case[2], into_output))


@pytest.mark.parametrize("name", ["all_reduce_full3", "all_gather_full3", "reduce_scatter_ring2"])
def test_direct_waits_for_entries_and_ends(name: str) -> None:
    case = direct(name)
    for block in range(len(case[2].blocks)):
        assert "kernel.entry" in codes(case, without(case[2], AWAIT, CounterKind.ENTRY, block))
        assert "kernel.return" in codes(case, without(case[2], AWAIT, CounterKind.DONE, block))
        assert "kernel.posts" in codes(case, without(case[2], POST, CounterKind.DONE, block))


def test_direct_says_it_is_done_only_then() -> None:
    case = direct("all_reduce_full3")
    block = case[2].blocks[0]
    early = sorted(block.body, key=lambda o: o.kind is not POST)
    kernel = replace(case[2], blocks=(replace(block, body=tuple(early)), *case[2].blocks[1:]))
    assert codes(case, kernel) == {"kernel.return"}


def test_direct_makes_each_transfer_once_and_as_scheduled() -> None:
    case = direct("all_reduce_full3")

    def first(change: Callable[[Instruction], Instruction]) -> Change:
        return lambda o: change(o) if o.kind is PUT else o

    assert "kernel.transfers" in codes(case, changed(case[2], first(lambda o: replace(o, copies=o.copies[1:]))))
    assert "kernel.transfers" in codes(
        case, changed(case[2], first(lambda o: replace(o, copies=tuple(replace(c, transfer=-1) for c in o.copies))))
    )
    assert "kernel.form" in codes(case, changed(case[2], first(lambda o: replace(o, origins=o.origins[1:]))))
    assert "kernel.form" in codes(case, changed(case[2], first(lambda o: replace(o, copies=(*o.copies, o.copies[0])))))
    swapped = changed(case[2], first(lambda o: replace(o, origins=(o.origins[1], o.origins[0], *o.origins[2:]))))
    assert codes(case, swapped) & {"kernel.transfers", "kernel.tree", "kernel.reduction"}
    own = changed(case[2], first(lambda o: replace(o, origins=tuple(Origin(o.origins[0].rank) for _ in o.origins))))
    assert codes(case, own) & {"kernel.transfers", "kernel.reduction"}


def test_direct_reads_no_output_of_another() -> None:
    case = direct("reduce_scatter_ring2")

    def from_output(o: Instruction) -> Instruction:
        sources = tuple(replace(s, buffer=Buffer.OUTPUT, unit=0) for s in o.sources)
        return replace(o, sources=sources) if o.kind is PUT else o

    assert "kernel.reach" in codes(case, changed(case[2], from_output))
    assert "kernel.reach" in codes(case, replace(case[2], realisation=Realisation.PUT))


def test_in_place_races_of_a_direct_program_are_found() -> None:
    """What the lowering refuses to make: a rank stores into its own output, in place, what others still read."""
    problem, schedule = cases()["all_reduce_full3"]
    apart = replace(problem, demands=tuple(replace(d, in_place=type(d.in_place)("none")) for d in problem.demands))
    kernel = lower_direct(apart, schedule)
    assert kernel is not None
    assert check_kernel(apart, schedule, kernel).ok
    report = check_kernel(problem, schedule, replace(kernel, in_place=problem.demands[0].in_place.value))
    assert "kernel.race" in {f.code for f in report.errors}


def by_lines(name: str) -> Case:
    problem, schedule = cases()[name]
    return problem, schedule, lower_eager(problem, lower_program(problem, schedule, all_in_slots=True), Protocol.LL)


def one_to_all() -> Case:
    """A broadcast in one step: nobody sends back, so that slots are free by credits."""
    problem, schedule = cases()["broadcast_ring2"]
    return problem, schedule, lower_eager(problem, lower_program(problem, schedule, all_in_slots=True), Protocol.LL)


@pytest.mark.parametrize("name", one_step())
def test_lines_verify(name: str) -> None:
    """Nobody awaits or posts an arrival; where a call may be in place, a barrier lies after what is sent."""
    case = by_lines(name)
    report = check_kernel(*case)
    assert report.ok, str(report)
    signals = [o for b in case[2].blocks for o in b.body if o.kind in (AWAIT, POST)]
    assert signals == []
    assert {c.kind for c in case[2].counters} == {CounterKind.ARRIVAL}


def test_lines_with_credits() -> None:
    case = one_to_all()
    assert codes(case) == set()
    assert codes(case, without(case[2], AWAIT, CounterKind.CREDIT)) & {"kernel.race", "kernel.stale"}


def test_lines_are_reused_only_after_a_line_of_a_later_slice() -> None:
    """One slice a slot: a line of this slice does not prove that its sender has read that of this slice."""
    case = by_lines("all_reduce_full3")
    assert codes(case, replace(case[2], slot_depth=1)) & {"kernel.race", "kernel.stale", "kernel.deadlock"}
    assert codes(case, replace(case[2], slot_depth=3)) == set()


def test_a_line_proves_nothing_of_the_same_interval() -> None:
    """In place, what a block sends and what it then writes are of different threads, but for a barrier."""
    case = by_lines("all_reduce_full3")
    for block in range(3):
        kernel = changed(case[2], lambda o: None if o.kind is InstructionKind.BARRIER else o, block)
        assert codes(case, kernel) == {"kernel.race"}


def test_lines_that_nobody_writes_or_reads() -> None:
    case = by_lines("all_gather_full3")
    sends = [o for o in case[2].blocks[0].body if o.kind is PUT and o.target_rank != 0]
    lost = changed(case[2], lambda o: None if o is sends[0] else o)
    assert "kernel.transfers" in codes(case, lost)
    unread = changed(case[2], lambda o: None if o.kind is PUT and o.sources[0].buffer is Buffer.SCRATCH else o)
    assert codes(case, unread) - {"kernel.transfers"}


def test_arrivals_are_not_posted_beside_lines() -> None:
    case = by_lines("all_gather_full3")
    counter = next(c for c in case[2].counters if c.writer == 0)
    for kind, block in ((POST, 0), (AWAIT, counter.home)):
        found = case[2].blocks[block]
        signal = Instruction(kind, counter=counter.id, index=1)
        body = replace(found, body=(*found.body, signal))
        blocks = tuple(body if b is found else b for b in case[2].blocks)
        assert "kernel.lines" in codes(case, replace(case[2], blocks=blocks))


def test_lines_are_for_eager_programs() -> None:
    case = by_lines("all_gather_full3")
    assert "kernel.form" in codes(case, replace(case[2], realisation=Realisation.PUT))
    assert "kernel.form" in codes(case, replace(case[2], protocol=Protocol.SIMPLE)), "a barrier is of LL alone"
