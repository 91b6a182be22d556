"""KernelProgram against Problem and Schedule: race-free, slots reused safely, in bounds, progress, right values."""

from __future__ import annotations

from dataclasses import dataclass

from acclc.ir.kernel_program import InstructionKind, KernelProgram, Realisation
from acclc.ir.problem import InPlace, Problem
from acclc.ir.schedule import Schedule
from acclc.verify.expressions import ExpressionTable
from acclc.verify.findings import Collector, Report
from acclc.verify.intent import intent_of
from acclc.verify.kernel_form import check_form
from acclc.verify.kernel_parts import Call
from acclc.verify.kernel_unroll import Unrolled


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Recomputed from the kernel program."""

    blocks: dict[int, int]
    """Residency: blocks of each rank that must run at the same time (all channels)."""
    puts: int
    """Puts a slice, of all ranks."""
    counters: int
    slots: dict[int, int]
    """Scratch slots of each rank; each is slot_depth slices deep and exists once a channel."""
    calls: tuple[tuple[int, bool], ...]
    """What was unrolled: (slices, in place) of each call."""


def check_kernel(problem: Problem, schedule: Schedule, kernel: KernelProgram) -> Report[KernelFacts]:
    """Check a kernel program against the schedule (itself checked) that it realises.

    Unrolls calls of few and of more than twice ``slot_depth`` slices, out of place and in place. One channel
    is looked at: channels share neither counters nor slots nor elements.
    """
    found = Collector()
    table = ExpressionTable(problem)
    intent = intent_of(problem, schedule, table)
    if intent is None:
        found.error("kernel.schedule", "schedule", "the schedule has no sound values: check it first")
        return found.report()
    check_form(problem, intent, kernel, found)
    if found.failed:
        return found.report()
    calls = call_sequence(kernel)
    unrolled = Unrolled(problem, kernel, table, intent, calls, found)
    if not found.failed:
        unrolled.run()
    counts = {r.rank: sum(b.rank == r.rank for b in kernel.blocks) for r in kernel.ranks}
    return found.report(
        KernelFacts(
            blocks={rank: count * kernel.channels for rank, count in counts.items()},
            puts=sum(o.kind is InstructionKind.PUT for b in kernel.blocks for o in b.body),
            counters=len(kernel.counters),
            slots={r.rank: r.slots for r in kernel.ranks},
            calls=tuple((c.slices, c.aliased) for c in calls),
        )
    )


def call_sequence(kernel: KernelProgram) -> tuple[Call, ...]:
    """Return the calls to unroll: each aliasing with 2K + 1 slices, short calls before, between and after.

    An eager program's slots go on from call to call: so many short calls, one after the other, use each again.
    """
    long = 2 * kernel.slot_depth + 1
    if kernel.realisation is Realisation.EAGER:
        aliased = kernel.in_place != InPlace.NONE.value
        short = tuple(Call(1, aliased and n % 2 == 1) for n in range(long))
        return (*short, Call(long, aliased), Call(2, False), Call(long, False), Call(1, aliased), Call(1, False))
    if kernel.in_place == InPlace.NONE.value:
        return Call(1, False), Call(long, False), Call(2, False)
    return Call(1, False), Call(long, True), Call(2, False), Call(long, False), Call(1, True)
