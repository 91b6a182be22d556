"""Direct, for memory that all ranks reach: a rank reduces straight from the others' inputs into the others' outputs.

Nothing is stored in between: a sum is made in registers, once, and written to all who need it. A rank waits for the
entry of those whose memory it touches, and returns when all are done with its own: two waits a call, whatever its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from acclc.ir.kernel_program import (
    Counter,
    CounterKind,
    Instruction,
    InstructionKind,
    KernelBlock,
    KernelProgram,
    KernelRank,
    Origin,
    Place,
    Realisation,
)
from acclc.ir.problem import InPlace, Problem, Rank
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId
from acclc.lower.placement import Placement
from acclc.lower.program import completes, contributors_of, in_place_of, positions_of

Work = tuple[Rank, ChunkId, tuple[TransferId, ...]]
"""A reduction (or copy) at a rank: of which operands."""


def lower_direct(problem: Problem, schedule: Schedule) -> KernelProgram | None:
    """Return the direct realisation of a verified schedule; None where it has none.

    A transfer is *pulled* if it moves the sender's own input and its receiver reduces it, in one place: the receiver
    reads it there. It is *pushed* if it is all that its receiver ends up with: whoever makes the value writes it
    there. A transfer of another kind would need a slot. In place, an output may be written only by the one who
    reads the input that lies there: nothing says when another would have.
    """
    placement = Placement(problem, schedule)
    plan = _Plan.of(problem, schedule, placement)
    if plan is None or not plan.may_overwrite():
        return None
    counters = _Counters()
    group = problem.group
    blocks = tuple(_block(plan, counters, rank) for rank in group)
    return KernelProgram(
        name=problem.name,
        in_place=in_place_of(problem).value,
        positions=positions_of(problem),
        contributors=contributors_of(problem),
        slot_depth=1,
        channels=problem.goal.channels,
        ranks=tuple(KernelRank(r, problem.input_units(r), problem.output_units(r), 0) for r in group),
        blocks=blocks,
        counters=tuple(counters.table),
        realisation=Realisation.DIRECT,
    )


@dataclass
class _Plan:
    """What each rank reduces or copies, and into which ranks' outputs."""

    problem: Problem
    schedule: Schedule
    placement: Placement
    targets: dict[Work, list[tuple[Rank, TransferId]]] = field(default_factory=dict)
    """(rank whose output is written, transfer that this makes; -1: its own)."""

    @staticmethod
    def of(problem: Problem, schedule: Schedule, placement: Placement) -> _Plan | None:
        plan = _Plan(problem, schedule, placement)
        users: dict[TransferId, list[Output | Transfer]] = {}
        every: tuple[Output | Transfer, ...] = (*schedule.outputs, *schedule.transfers)
        for user in every:
            for operand in user.operands:
                users.setdefault(operand, []).append(user)
        pulled: set[TransferId] = set()
        for t in schedule.transfers:
            output = placement.outputs.get((t.dst, t.chunk))
            if output is not None and output.operands == (t.id,) and len(users[t.id]) == 1:
                plan.targets.setdefault((t.src, t.chunk, t.operands), []).append((t.dst, t.id))
            elif t.operands == (OWN,) and len({u.operands for u in users.get(t.id, [])}) == 1:
                pulled.add(t.id)
            else:
                return None
        pushed = {t for made in plan.targets.values() for _, t in made}
        for output in schedule.outputs:
            if not (len(output.operands) == 1 and output.operands[0] in pushed):
                plan.targets.setdefault((output.rank, output.chunk, output.operands), []).insert(0, (output.rank, OWN))
        sound = all(o == OWN or o in pulled for work in plan.targets for o in work[2])
        return plan if sound else None

    def may_overwrite(self) -> bool:
        """Whether every output is written by the reader of the input that lies there, if a call is in place."""
        if in_place_of(self.problem) is InPlace.NONE:
            return True
        readers: dict[tuple[Rank, ChunkId], set[Work]] = {}
        for work in self.targets:
            for operand in work[2]:
                src = work[0] if operand == OWN else self.schedule.transfers[operand].src
                readers.setdefault((src, work[1]), set()).add(work)
        return all(
            readers.get((rank, work[1]), set()) <= {work} for work, made in self.targets.items() for rank, _ in made
        )

    def at(self, rank: Rank) -> list[Work]:
        """The rank's work; each rank begins with another target, so that not all write to one."""
        group = self.problem.group
        own, size = group.index(rank), len(group)

        def turn(work: Work) -> tuple[int, int]:
            return min((group.index(r) - own) % size for r, _ in self.targets[work]), work[1]

        return sorted((w for w in self.targets if w[0] == rank), key=turn)


@dataclass
class _Counters:
    """Made when first asked for: an entry and a done counter for each (who touches, whose memory)."""

    table: list[Counter] = field(default_factory=list)
    known: dict[tuple[CounterKind, int, int], int] = field(default_factory=dict)

    def get(self, kind: CounterKind, src: int, dst: int) -> int:
        key = (kind, src, dst)
        if key not in self.known:
            home, writer = (src, dst) if kind is CounterKind.ENTRY else (dst, src)
            self.known[key] = len(self.table)
            self.table.append(Counter(len(self.table), kind, home, writer, 0, 1, src, dst))
        return self.known[key]


def _block(plan: _Plan, counters: _Counters, rank: Rank) -> KernelBlock:
    """All that a rank does: say that it is there, wait for the others, work, say so, wait for the others."""
    puts = [_put(plan, work) for work in plan.at(rank)]
    touched = _touched(plan, rank)
    touching = [r for r in plan.problem.group if r != rank and rank in _touched(plan, r)]
    entry = [Instruction(InstructionKind.POST, counter=counters.get(CounterKind.ENTRY, r, rank)) for r in touching]
    entry += [Instruction(InstructionKind.AWAIT, counter=counters.get(CounterKind.ENTRY, rank, r)) for r in touched]
    last = max((p.step for p in puts), default=-1)
    signals = [(InstructionKind.POST, counters.get(CounterKind.DONE, rank, r)) for r in touched]
    signals += [(InstructionKind.AWAIT, counters.get(CounterKind.DONE, r, rank)) for r in touching]
    ends = [Instruction(kind, step=last, counter=counter, index=1) for kind, counter in signals]
    return KernelBlock(rank, 0, -1, tuple(entry), (*puts, *ends))


def _touched(plan: _Plan, rank: Rank) -> list[Rank]:
    """The other ranks whose memory a rank reads or writes, in order of the group."""
    found: set[int] = set()
    for work in plan.at(rank):
        found |= {plan.schedule.transfers[o].src for o in work[2] if o != OWN}
        found |= {target for target, _ in plan.targets[work]}
    return [r for r in plan.problem.group if r in found and r != rank]


def _put(plan: _Plan, work: Work) -> Instruction:
    rank, chunk, operands = work
    schedule, placement = plan.schedule, plan.placement
    origins = tuple(
        Origin(rank) if o == OWN else Origin(schedule.transfers[o].src, schedule.transfers[o].id) for o in operands
    )
    (first, transfer), *others = plan.targets[work]
    made = [*(o for o in operands if o != OWN), *(t for _, t in plan.targets[work] if t != OWN)]
    return Instruction(
        InstructionKind.PUT,
        step=max((schedule.transfers[t].step for t in made), default=0),
        transfer=transfer if transfer != OWN or not made else made[0],
        sources=tuple(placement.input_of(Rank(o.rank), chunk) for o in origins),
        target=placement.output_of(first, chunk),
        target_rank=first,
        final=completes(plan.problem, schedule, chunk, operands),
        origins=origins if any(o.rank != rank for o in origins) else (),
        copies=tuple(Place(r, placement.output_of(r, chunk), t) for r, t in others),
    )
