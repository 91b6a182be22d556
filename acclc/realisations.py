"""How each schedule of a collective is realised, and for which sizes: see :mod:`acclc.ir.kernel_program`.

The sizes at which one *schedule* is the best come from the links (``simulate.size_ranges``). How it is brought into
memory is a matter of the processors: of waits, and of how often memory is touched. The limits here are from
measurements of CPU runs (benchmarks/runtime.py); sizes are S alone, so that all ranks choose alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from acclc.ir.kernel_program import InstructionKind, KernelProgram, Protocol, Realisation
from acclc.ir.problem import Problem
from acclc.ir.program import Program
from acclc.ir.schedule import Schedule
from acclc.lower import (
    can_be_eager,
    can_use_lines,
    lower_direct,
    lower_eager,
    lower_kernel,
    lower_program,
    owned_schedule,
)
from acclc.simulate import size_ranges
from acclc.simulate.sizes import size_factor, step_time

WAIT_BYTES = 24 * 1024
"""How many bytes more a rank may read and write to save one of two waits: about what a scheduling costs, where ranks
share cores (4 us on the machine of the benchmarks)."""
EAGER_PIECE = 16 * 1024
"""The longest piece, in bytes, that eager moves: a slot's (see ``acclc_runtime.slicing``)."""

Sizes = tuple[int, int | None]
"""[min_bytes, max_bytes) of S; None: no limit."""


@dataclass(frozen=True, slots=True)
class Realised:
    """A schedule with its lower levels, and the sizes for which it is taken; None: only if a call names it."""

    schedule: Schedule
    program: Program
    kernel: KernelProgram
    sizes: Sizes | None


def realise(problem: Problem, schedules: Sequence[Schedule]) -> tuple[Realised, ...]:
    """Lower each schedule in each way that it has, unverified: puts always, eager if it is one step and small.

    Eager ones come by the protocol LL, too. Those have no sizes of their own: where eager is the best and a backend
    gains by LL, that takes them instead (``acclc_runtime.selection.by_lines``).

    Direct is only the schedule that touches memory least, among those that the links make the fastest for large
    sizes; it need not be one of ``schedules`` (see :func:`acclc.lower.owned_schedule`).
    """
    schedules = tuple(dict.fromkeys(schedules))
    found = [by_puts(problem, s, None) for s in schedules]
    if not problem.varying:  # neither a tag nor one slice knows of counts that differ
        found += [r for s in schedules if can_be_eager(s) and s.transfers for r in _eager(problem, s)]
        found += _direct(problem, schedules)
    sizes = sizes_of(problem, [(r.schedule, r.kernel) for r in found])
    with_sizes = [replace(r, sizes=s) for r, s in zip(found, sizes, strict=True)]
    order = {s: n for n, s in enumerate(schedules)}
    best = {r.schedule for r in with_sizes if r.kernel.realisation is Realisation.EAGER and r.sizes is not None}
    kept = [
        r
        for r in with_sizes
        if r.sizes is not None
        or r.kernel.realisation is Realisation.PUT
        or (r.kernel.protocol is Protocol.LL and r.schedule in best)
    ]
    return tuple(sorted(kept, key=lambda r: order.get(r.schedule, len(order))))


def sizes_of(problem: Problem, variants: Sequence[tuple[Schedule, KernelProgram]]) -> list[Sizes | None]:
    """Return for which sizes each of a collective's variants is taken; those realised by puts are all its schedules.

    The sizes of a schedule are shared out: to eager from 0 to where a wait costs less than the memory accesses that it
    saves, then to direct, if the collective has it, whatever the schedule; else to puts.
    """
    puts = {s: k for s, k in variants if k.realisation is Realisation.PUT}
    ranges = dict(zip(puts, size_ranges(problem, list(puts)), strict=True))
    eager = {s: k for s, k in variants if k.realisation is Realisation.EAGER and k.protocol is Protocol.SIMPLE}
    direct = next((k for _, k in variants if k.realisation is Realisation.DIRECT), None)
    first = min((r[0] for r in ranges.values() if r is not None), default=0)
    ends: dict[Schedule, int] = {}
    for schedule, kernel in eager.items():
        whole = ranges.get(schedule)
        if whole is not None and whole[0] == first:
            limit = eager_below(problem, kernel, direct or puts[schedule])
            ends[schedule] = limit if whole[1] is None else min(limit, whole[1])
    begins = max(ends.values(), default=0)
    found: list[Sizes | None] = []
    for schedule, kernel in variants:
        if kernel.protocol is Protocol.LL:
            found.append(None)
        elif kernel.realisation is Realisation.DIRECT:
            found.append((begins, None))
        elif kernel.realisation is Realisation.EAGER:
            found.append((0, ends[schedule]) if ends.get(schedule, 0) > 0 else None)
        else:
            whole = ranges[schedule]
            low = 0 if whole is None else max(whole[0], ends.get(schedule, 0))
            used = direct is None and whole is not None and (whole[1] is None or low < whole[1])
            found.append((low, whole[1]) if used and whole is not None else None)
    return found


def eager_below(problem: Problem, eager: KernelProgram, other: KernelProgram) -> int:
    """Return the S from which on a rank accesses ``WAIT_BYTES`` more, on average, than in another realisation."""
    more = (accesses(eager) - accesses(other)) / max(1, len(eager.ranks))
    longest = max((e.end - e.begin for b in eager.blocks for i in b.body for e in i.sources), default=Fraction(1))
    limit = Fraction(EAGER_PIECE) / longest * eager.channels
    if more > 0:
        limit = min(limit, WAIT_BYTES / more)
    return int(limit * size_factor(problem))


def by_puts(problem: Problem, schedule: Schedule, sizes: Sizes | None) -> Realised:
    """Return the realisation that every schedule has."""
    program = lower_program(problem, schedule)
    return Realised(schedule, program, lower_kernel(problem, program), sizes)


def accesses(kernel: KernelProgram) -> Fraction:
    """Return how many shards a kernel program reads and writes, of all ranks."""
    puts = (i for b in kernel.blocks for i in b.body if i.kind is InstructionKind.PUT)
    return sum(
        ((len(i.sources) + 1 + len(i.copies)) * (e.end - e.begin) for i in puts for e in i.sources[:1]), Fraction(0)
    )


def _eager(problem: Problem, schedule: Schedule) -> Iterator[Realised]:
    program = lower_program(problem, schedule, all_in_slots=True)
    protocols = tuple(Protocol) if can_use_lines(program) else (Protocol.SIMPLE,)
    for protocol in protocols:
        yield Realised(schedule, program, lower_eager(problem, program, protocol), None)


def _direct(problem: Problem, schedules: Sequence[Schedule]) -> list[Realised]:
    """The best for large sizes by the links, then by accesses to memory; none if that cannot be direct.

    A pipeline is none: its levels are at work at the same time only because it is cut into slices, and direct has one.
    """
    slopes = [step_time(problem, s)[1] for s in schedules]
    owned = [s for s in (owned_schedule(problem, s) for s in schedules) if s is not None]
    fast = [
        s for s in (*schedules, *owned) if s.transfers and not s.pipelined and step_time(problem, s)[1] <= min(slopes)
    ]
    found = [(s, k) for s in fast if (k := lower_direct(problem, s)) is not None]
    best = sorted(found, key=lambda made: accesses(made[1]))[:1]
    return [Realised(s, lower_program(problem, s), k, None) for s, k in best]
