"""The numpy backend: executes program.json in this process with NumPy only. Slow, needs no compiler, deterministic.

Blocks take turns in one fixed order. A block runs its operations in order; an operation waits until those of
its ``after`` have ended, a send until the earlier messages of its channel are sent, a receive until its message
is there. Sends never wait for their receiver. When no block can go on, the deadlock is named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from acclc_runtime.backends.arithmetic import Bytes, reduce_bytes
from acclc_runtime.backends.base import Call
from acclc_runtime.backends.program_checks import check_program
from acclc_runtime.dtypes import DType, named
from acclc_runtime.errors import ArgumentError, DamagedFileError, DeadlockError
from acclc_runtime.manifest import ManifestVariant, read_program
from acclc_runtime.partition import extent
from acclc_runtime.program import Buffer, Extent, Operation, OperationKind, Program

Channel = tuple[int, int, int]
"""Sender, receiver, channel: its messages match in the order of their numbers."""


class NumpyBackend:
    """Runs any artefact anywhere, in one thread. Takes no options."""

    name = "numpy"

    def __init__(self, artefact: Path, **options: object) -> None:
        if options:
            raise ArgumentError(f"the numpy backend takes no options; it was given {', '.join(sorted(options))}")
        self._artefact = artefact
        self._programs: dict[str, Program] = {}

    def run(self, call: Call) -> None:
        """Execute the call's program to its end.

        Raises:
            DamagedFileError: program.json is missing, or no program that can be run.
            DeadlockError: every block waits; names rank, block, step and peer of each.
        """
        program = self._programs.get(call.variant.folder)
        if program is None:
            program = self._read(call)
            self._programs[call.variant.folder] = program
        _Execution(program, call).run()

    def _read(self, call: Call) -> Program:
        variant: ManifestVariant = call.variant
        program = read_program(self._artefact, variant)
        check_program(program, call.collective, f"{variant.folder}/program.json")
        return program

    def describe(self) -> str:
        """One line for people."""
        return f"numpy: NumPy {np.__version__} executes program.json in one thread, for checking, not for speed"

    def close(self) -> None:
        """Forget the programs that were read."""
        self._programs.clear()


@dataclass(slots=True)
class _Block:
    rank: int
    index: int
    operations: tuple[Operation, ...]
    next: int = 0


@dataclass(slots=True)
class _RankMemory:
    input: Bytes
    output: Bytes
    slots: dict[int, Bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Event:
    """What an operation waits for: the end of operation ``number`` of a rank, or so many messages of a channel."""

    kind: str
    where: tuple[int, ...]
    number: int

    def __str__(self) -> str:
        if self.kind == "ended":
            return f"for operation {self.number} of its rank"
        sender, receiver, _ = self.where
        message = self.number - 1
        if self.kind == "sent":
            return f"until rank {sender} has sent message {message} to rank {receiver}"
        return f"until rank {receiver} has received message {message} of rank {sender}"


class _Execution:
    """One call: memory, messages in flight, and the blocks that can run or wait."""

    def __init__(self, program: Program, call: Call) -> None:
        self._name = f"{call.variant.folder}/program.json"
        self._count = call.count
        self._lengths = call.lengths
        self._index = {rank.rank: i for i, rank in enumerate(program.ranks)}
        self._dtype: DType = named(call.dtype)
        self._op = call.op
        self._divisor = program.contributors if call.op == "avg" else 1
        self._memory = {rank.rank: _RankMemory(call.inputs[i], call.outputs[i]) for i, rank in enumerate(program.ranks)}
        self._messages: dict[Channel, deque[tuple[int, Bytes]]] = {}
        self._sent: dict[Channel, int] = {}
        self._received: dict[Channel, int] = {}
        self._ended: set[tuple[int, int]] = set()
        self._blocks = [_Block(rank.rank, i, b.operations) for rank in program.ranks for i, b in enumerate(rank.blocks)]
        self._waiting: dict[_Event, list[_Block]] = {}

    def run(self) -> None:
        """Run all blocks, each as far as it can go, until all have ended."""
        ready = deque(self._blocks)
        while ready:
            block = ready.popleft()
            while block.next < len(block.operations):
                operation = block.operations[block.next]
                obstacle = self._obstacle(block.rank, operation)
                if obstacle is not None:
                    self._waiting.setdefault(obstacle, []).append(block)
                    break
                block.next += 1
                for event in self._execute(block.rank, operation):
                    ready.extend(self._waiting.pop(event, ()))
        stuck = [b for b in self._blocks if b.next < len(b.operations)]
        if stuck:
            raise DeadlockError(self._deadlock(stuck))

    def _obstacle(self, rank: int, operation: Operation) -> _Event | None:
        """Return the event that the operation waits for, or None if it can run."""
        for earlier in operation.after:
            if (rank, earlier) not in self._ended:
                return _Event("ended", (rank,), earlier)
        if operation.kind is OperationKind.SEND:
            channel = (rank, operation.peer, operation.channel)
            if self._sent.get(channel, 0) != operation.fifo:
                return _Event("sent", channel, operation.fifo)
        elif operation.kind is OperationKind.RECEIVE:
            channel = (operation.peer, rank, operation.channel)
            if self._received.get(channel, 0) != operation.fifo:
                return _Event("received", channel, operation.fifo)
            if self._sent.get(channel, 0) <= operation.fifo:
                return _Event("sent", channel, operation.fifo + 1)
        return None

    def _execute(self, rank: int, operation: Operation) -> Iterable[_Event]:
        """Do the operation; return the events that it makes happen."""
        events: list[_Event] = [_Event("ended", (rank,), operation.id)]
        if operation.kind is OperationKind.SEND:
            channel = (rank, operation.peer, operation.channel)
            payload = self._reduce(rank, operation)
            self._messages.setdefault(channel, deque()).append((operation.transfer, payload))
            self._sent[channel] = operation.fifo + 1
            events.append(_Event("sent", channel, operation.fifo + 1))
        elif operation.kind is OperationKind.RECEIVE:
            channel = (operation.peer, rank, operation.channel)
            transfer, payload = self._messages[channel].popleft()
            if transfer != operation.transfer:
                raise self._wrong(
                    rank, operation, f"message {operation.fifo} of rank {operation.peer} is transfer {transfer}"
                )
            self._write(rank, operation, payload)
            self._received[channel] = operation.fifo + 1
            events.append(_Event("received", channel, operation.fifo + 1))
        else:
            self._write(rank, operation, self._reduce(rank, operation))
        self._ended.add((rank, operation.id))
        return events

    def _reduce(self, rank: int, operation: Operation) -> Bytes:
        operands = [self._read(rank, operation, source) for source in operation.sources]
        if len({len(operand) for operand in operands}) != 1:
            raise self._wrong(rank, operation, "its sources have different lengths")
        return reduce_bytes(operands, self._dtype, self._op, self._divisor if operation.final else 1)

    def _read(self, rank: int, operation: Operation, place: Extent) -> Bytes:
        memory = self._memory[rank]
        if place.buffer is not Buffer.SCRATCH:
            return self._user_memory(rank, place)
        held = memory.slots.get(place.unit)
        if held is None or len(held) != self._length(place):
            raise self._wrong(rank, operation, f"slot {place.unit} does not hold what it reads")
        return held

    def _write(self, rank: int, operation: Operation, payload: Bytes) -> None:
        place = operation.target
        assert place is not None  # check_program has seen to it
        if len(payload) != self._length(place):
            raise self._wrong(rank, operation, "its target is not as long as what is written")
        memory = self._memory[rank]
        if place.buffer is Buffer.SCRATCH:
            memory.slots[place.unit] = payload
        else:
            self._user_memory(rank, place)[:] = payload

    def _user_memory(self, rank: int, place: Extent) -> Bytes:
        memory = self._memory[rank]
        first, last = self._elements(place)
        is_input = place.buffer is Buffer.INPUT
        start = place.unit * self._count
        if self._lengths is not None:
            begins = self._lengths.inputs if is_input else self._lengths.outputs
            start = begins[self._index[rank]][place.unit]
        whole = memory.input if is_input else memory.output
        return whole[(start + first) * self._dtype.item_bytes : (start + last) * self._dtype.item_bytes]

    def _elements(self, place: Extent) -> tuple[int, int]:
        count = self._count if self._lengths is None else self._lengths.shards[place.shard]
        return extent(count, place.begin, place.end)

    def _length(self, place: Extent) -> int:
        first, last = self._elements(place)
        return (last - first) * self._dtype.item_bytes

    def _wrong(self, rank: int, operation: Operation, what: str) -> DamagedFileError:
        return DamagedFileError(f"{self._name}: rank {rank}, {_words(operation)}: {what}")

    def _deadlock(self, stuck: list[_Block]) -> str:
        lines = [f"{self._name}: every block waits:"]
        for block in stuck:
            operation = block.operations[block.next]
            reason = self._obstacle(block.rank, operation)
            lines.append(f"  rank {block.rank}, block {block.index}, {_words(operation)} waits {reason}")
        return "\n".join(lines)


def _words(operation: Operation) -> str:
    """Return which operation it is, with its step and peer."""
    head = f"step {operation.step}: "
    if operation.kind is OperationKind.SEND:
        return f"{head}the send of transfer {operation.transfer} to rank {operation.peer} (channel {operation.channel})"
    if operation.kind is OperationKind.RECEIVE:
        return (
            f"{head}the receive of transfer {operation.transfer} from rank {operation.peer} "
            f"(channel {operation.channel})"
        )
    return f"{head}the local operation {operation.id}"
