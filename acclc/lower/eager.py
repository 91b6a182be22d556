"""Eager, for small messages: one round through slots that nobody has to open, so that no rank waits twice.

Each rank writes its pieces into the receivers' slots, then takes what arrived in its own: one wait, and one scheduling
where ranks share cores. What tells a sender that a slot is free again comes from earlier slices, of earlier calls as a
rule: the receiver's own arrival, where it sends back over a slot as deep; else a credit.

By the protocol LL, an arrival is told by the data themselves, in lines with flags, instead of a counter after them. The
argument for free slots carries over: every transfer has a line to wait for, whatever its length, and a receiver's block
has a barrier between its reads of slice g - 1 and its lines of slice g.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from acclc.ir.kernel_program import (
    Counter,
    CounterKind,
    Instruction,
    InstructionKind,
    KernelBlock,
    KernelProgram,
    Protocol,
    Realisation,
)
from acclc.ir.problem import InPlace, Problem
from acclc.ir.program import Buffer, Operation, OperationKind, Program
from acclc.ir.schedule import Schedule
from acclc.lower.kernel import kernel_of

EAGER_DEPTH = 2
"""Slices a slot holds. Two let a rank begin a call while the slowest still reads what arrived in the one before."""

Edge = tuple[int, int]
"""(src, dst)."""


def can_be_eager(schedule: Schedule) -> bool:
    """Whether everything moves in one round."""
    return schedule.steps == 1


def can_use_lines(program: Program) -> bool:
    """Whether slots hold only what arrives, and all of that is read: by LL nothing else tells that it is there."""
    for n in range(len(program.ranks)):
        sends, computes = (_operations(program, n, k) for k in (OperationKind.SEND, OperationKind.COMPUTE))
        arriving = {o.target for o in _operations(program, n, OperationKind.RECEIVE)}
        taken = {e for o in computes for e in o.sources if e.buffer is Buffer.SCRATCH}
        kept = [e for o in sends for e in o.sources] + [o.target for o in computes if o.target is not None]
        if taken != arriving or any(e.buffer is Buffer.SCRATCH for e in kept):
            return False
    return True


def lower_eager(problem: Problem, program: Program, protocol: Protocol = Protocol.SIMPLE) -> KernelProgram:
    """Return the eager realisation of a Program of one step whose transfers all land in slots.

    ``Protocol.LL`` is for programs that :func:`can_use_lines` admits.

    A receiver that sends back needs no credit: its post of slice g comes after its reads of slice g - 1, in the order
    of its one block, and the sender awaits it before its own slice g + 1, which with two slices a slot is the first to
    write there again.
    """
    counters = _Counters.of(program)
    blocks = tuple(_Block(program, n, counters, protocol is Protocol.LL).build() for n in range(len(program.ranks)))
    kernel = kernel_of(problem, program, EAGER_DEPTH, blocks, counters.table, Realisation.EAGER)
    return replace(kernel, protocol=protocol)


def _operations(program: Program, n: int, kind: OperationKind) -> list[Operation]:
    return [o for b in program.ranks[n].blocks for o in b.operations if o.kind is kind]


@dataclass
class _Counters:
    table: list[Counter] = field(default_factory=list)
    arrival: dict[Edge, int] = field(default_factory=dict)
    credit: dict[Edge, int] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> _Counters:
        made = _Counters()
        edges = dict.fromkeys(
            (r.rank, o.peer) for n, r in enumerate(program.ranks) for o in _operations(program, n, OperationKind.SEND)
        )
        for src, dst in edges:
            made.arrival[(src, dst)] = made._add(CounterKind.ARRIVAL, dst, src, src, dst)
            if (dst, src) not in edges:
                made.credit[(src, dst)] = made._add(CounterKind.CREDIT, src, dst, src, dst)
        return made

    def _add(self, kind: CounterKind, home: int, writer: int, src: int, dst: int) -> int:
        self.table.append(Counter(len(self.table), kind, home, writer, 0, 1, src, dst))
        return len(self.table) - 1


class _Block:
    """Builds the one block of a rank: all its puts, then what it waits for."""

    def __init__(self, program: Program, n: int, counters: _Counters, lines: bool) -> None:
        self.program, self.n, self.counters, self.lines = program, n, counters, lines
        self.rank = program.ranks[n].rank
        self.position = {r.rank: p for p, r in enumerate(program.ranks)}
        self.landing = {
            (r.rank, o.transfer): o.target
            for p, r in enumerate(program.ranks)
            for o in _operations(program, p, OperationKind.RECEIVE)
        }
        self.receives = {o.id: o for o in _operations(program, n, OperationKind.RECEIVE)}
        self.awaited: set[int] = set()
        self.body: list[Instruction] = []

    def build(self) -> KernelBlock:
        sends = _operations(self.program, self.n, OperationKind.SEND)
        for peer in self._in_turn({o.peer for o in sends}):
            self._send(peer, [o for o in sends if o.peer == peer])
        computes = _operations(self.program, self.n, OperationKind.COMPUTE)
        computes.sort(key=lambda o: bool(self._arrivals(o)))  # own data first: the others' are on their way
        readers = {r.peer: n for n, o in enumerate(computes) for r in self._arrivals(o)}
        written: set[int] = set()
        if self.lines and sends and computes and self.program.in_place != InPlace.NONE.value:
            self.body.append(Instruction(InstructionKind.BARRIER))  # what is written next may be what was sent
        for number, operation in enumerate(computes):
            if self.lines and written & set(operation.after):
                self.body.append(Instruction(InstructionKind.BARRIER))
                written.clear()
            written.add(operation.id)
            for receive in self._arrivals(operation):
                self._await_arrival(receive)
            self._put(operation, self.rank)
            for peer in [p for p, last in readers.items() if last == number]:
                self._post(self.counters.credit.get((peer, self.rank)), operation)
        for receive in self.receives.values():
            self._await_arrival(receive)
        return KernelBlock(self.rank, 0, -1, (), tuple(self.body))

    def _in_turn(self, peers: Iterable[int]) -> list[int]:
        """Each rank begins with another peer."""
        size, own = len(self.position), self.position[self.rank]
        return sorted(peers, key=lambda peer: (self.position[peer] - own) % size)

    def _arrivals(self, operation: Operation) -> list[Operation]:
        return [self.receives[a] for a in operation.after if a in self.receives]

    def _send(self, peer: int, sends: list[Operation]) -> None:
        credit = self.counters.credit.get((self.rank, peer))
        if credit is not None:
            self._await(credit, sends[0], lag=EAGER_DEPTH)
        for operation in sends:
            self._put(operation, peer)
        if not self.lines:
            self._post(self.counters.arrival[(self.rank, peer)], sends[-1])

    def _await_arrival(self, receive: Operation) -> None:
        if not self.lines:
            self._await(self.counters.arrival[(receive.peer, self.rank)], receive)

    def _await(self, counter: int, why: Operation, lag: int = 0) -> None:
        if counter not in self.awaited:
            self.awaited.add(counter)
            self.body.append(Instruction(InstructionKind.AWAIT, why.step, why.transfer, counter, 1, lag))

    def _put(self, o: Operation, target_rank: int) -> None:
        target = o.target if target_rank == self.rank else self.landing[(target_rank, o.transfer)]
        self.body.append(
            Instruction(
                InstructionKind.PUT,
                o.step,
                o.transfer,
                sources=o.sources,
                target=target,
                target_rank=target_rank,
                final=o.final,
            )
        )

    def _post(self, counter: int | None, why: Operation) -> None:
        if counter is not None:
            self.body.append(Instruction(InstructionKind.POST, why.step, why.transfer, counter, 1))
