"""Executes the tasks of one rank in one call: what is ready is done, lower slices first; then messages are looked for.

A task is ready when those before it (of its slice) have ended and, of a receive, when its message is there. A send to
a rank of the same host reduces straight into a slot of that rank's ring; what arrives there is read where it lies, and
copied away only when the ring is full and nothing else can go on: so rings hold up nobody for ever. Messages to other
hosts are MPI's, nonblocking, so that the next slice is reduced while the last one travels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np

from acclc_runtime.backends.arithmetic import reduce_bytes, reduce_into
from acclc_runtime.dtypes import DType
from acclc_runtime.engines.mpi.rings import Bytes, Head, Rings
from acclc_runtime.engines.tasks import Place, RankTasks, Task
from acclc_runtime.errors import AcclcRuntimeError
from acclc_runtime.program import Buffer, OperationKind

WINDOW = 16
"""Slices that are begun at the same time: what bounds scratch, and the depth of a pipeline that runs at full rate."""


NEAR_WINDOW = 4
"""The same where all messages stay on the host: nothing has to be hidden, and slots do not run out."""
PATIENCE = 100
"""Rounds in which nothing goes on, after which what lies in others' slots is copied away."""


class OddMessageError(AcclcRuntimeError):
    """A message is not as long as what waits for it: the ranks do not run the same call."""


class Messages(Protocol):
    """Messages to ranks of other hosts, of one group. Ranks are global."""

    def send(self, to: int, tag: int, data: Bytes) -> Any:
        """Begin to send; return a request."""

    def receive(self, source: int, tag: int, into: Bytes) -> Any:
        """Begin to receive; return a request."""

    def ended(self, requests: list[Any]) -> list[int]:
        """Return which requests have ended. Raises OddMessageError."""

    def give_up(self, request: Any, receives: bool) -> None:
        """Leave a request behind, with the memory that it may still use."""


@dataclass(frozen=True, slots=True)
class Links:
    """How this rank reaches others: ``near`` gives the number within the host of ranks that a ring leads to."""

    near: dict[int, int]
    rings: Rings
    messages: Messages


@dataclass(frozen=True, slots=True)
class Plan:
    """What calls of the same size have alike, made once: the tasks, and what follows from them.

    ``pieces``: for each length of a task [first, last) of every slice, in bytes. ``first``: the tasks that wait for no
    other. ``window``: slices that are begun at the same time.
    """

    tasks: RankTasks
    pieces: dict[int, tuple[tuple[int, int], ...]]
    before: tuple[int, ...]
    first: tuple[int, ...]
    window: int
    shared: dict[tuple[Place, ...], int]
    """See :func:`_shared`."""

    @staticmethod
    def of(tasks: RankTasks, item_bytes: int, near: dict[int, int]) -> Plan:
        """Prepare calls on elements of ``item_bytes``; ``near`` as in :class:`Links`."""
        pieces = {length: tuple((a * item_bytes, b * item_bytes) for a, b in p) for length, p in tasks.pieces().items()}
        stays = all(t.peer in near for t in tasks.tasks if t.peer >= 0)
        return Plan(
            tasks=tasks,
            pieces=pieces,
            before=tuple(t.before for t in tasks.tasks),
            first=tuple(n for n, t in enumerate(tasks.tasks) if t.before == 0),
            window=NEAR_WINDOW if stays else WINDOW,
            shared=_shared(tasks.tasks, near),
        )


@dataclass(frozen=True, slots=True)
class Work:
    """A call: its plan, its number among those of its group, and this rank's buffers as bytes."""

    plan: Plan
    number: int
    dtype: DType
    op: str | None
    input: Bytes
    output: Bytes


@dataclass(slots=True)
class _Slice:
    remaining: list[int]
    left: int
    scratch: dict[int, Bytes] = field(default_factory=dict)
    held: dict[int, _Held] = field(default_factory=dict)


@dataclass(slots=True)
class _Held:
    """A scratch slot that lies in a ring still, until ``readers`` tasks have read it."""

    source: int
    number: int
    readers: int


def _shared(tasks: Sequence[Task], near: dict[int, int]) -> dict[tuple[Place, ...], int]:
    """Return the sources that several sends to ranks of this host have alike, and how many: they are written once."""
    found: dict[tuple[Place, ...], dict[int, int]] = {}
    for task in tasks:
        if task.kind is OperationKind.SEND and len(task.sources) == 1 and task.stable and task.peer in near:
            lengths = found.setdefault(task.sources, {})
            lengths[task.length] = lengths.get(task.length, 0) + 1
    return {
        sources: sum(lengths.values())
        for sources, lengths in found.items()
        if len(lengths) == 1 and sum(lengths.values()) > 1
    }


_Key = tuple[int, int]
"""A rank of the host, and the code of one of its messages."""


class Execution:
    """One call of one rank."""

    def __init__(self, work: Work, links: Links) -> None:
        self._work, self._links = work, links
        self._plan = plan = work.plan
        self._tasks, self._pieces = plan.tasks.tasks, plan.pieces
        self._divisor = plan.tasks.divisor if work.op == "avg" else 1
        self._next_slice = 0
        self._slices: dict[int, _Slice] = {}
        self._ready: list[tuple[int, int, int]] = []
        self._blocked: list[tuple[int, int, int]] = []
        self._written: dict[tuple[int, tuple[Place, ...]], tuple[int, int]] = {}
        self._expected: dict[_Key, tuple[int, int]] = {}
        self._arrived: dict[_Key, tuple[int, Bytes]] = {}
        self._requests: list[Any] = []
        self._ends: list[tuple[int, int, Bytes] | None] = []

    def run(self, idle: Callable[[bool], None]) -> None:
        """Run to the end. ``idle(moved)`` is called after each round, with whether anything went on in it.

        Raises:
            OddMessageError: the ranks do not run the same call.
            What ``idle`` raises.
        """
        still = 0
        self._admit()
        while self._slices or self._requests:
            moved = self._work_off()
            moved = self._look() or moved
            still = 0 if moved else still + 1
            if still == PATIENCE:
                self._evict()
            idle(moved)

    def give_up(self) -> None:
        """Leave behind what is under way, after an error."""
        for request, end in zip(self._requests, self._ends, strict=True):
            self._links.messages.give_up(request, end is not None)

    def waits(self) -> list[str]:
        """Say what this rank waits for."""
        lines = []
        for number, at in sorted(self._slices.items()):
            for n, task in enumerate(self._tasks):
                if at.remaining[n] == 0 and task.kind is not OperationKind.COMPUTE:
                    way = "to" if task.kind is OperationKind.SEND else "of"
                    lines.append(f"step {task.step}, slice {number}: transfer {task.transfer} {way} rank {task.peer}")
        return lines

    def _admit(self) -> None:
        while self._next_slice < self._plan.tasks.slices and len(self._slices) < self._plan.window and self._tasks:
            number = self._next_slice
            self._slices[number] = _Slice(list(self._plan.before), len(self._tasks))
            self._next_slice += 1
            for n in self._plan.first:
                heappush(self._ready, (number, self._tasks[n].step, n))

    def _work_off(self) -> bool:
        moved = False
        while self._ready:
            number, _, n = heappop(self._ready)
            task = self._tasks[n]
            first, last = self._pieces[task.length][number]
            moved = True
            if first == last:
                self._empty(number, task)
                self._end(number, n)
            elif task.kind is OperationKind.COMPUTE:
                self._compute(number, n, task, last - first)
            elif task.kind is OperationKind.SEND:
                self._send(number, n, task, last - first)
            else:
                self._receive(number, n, task, last - first)
        return moved

    def _code(self, number: int, task: Task) -> int:
        return task.message * self._plan.tasks.slices + number

    def _empty(self, number: int, task: Task) -> None:
        if task.target is not None and task.target.buffer is Buffer.SCRATCH:
            self._slices[number].scratch[task.target.unit] = np.empty(0, np.uint8)

    def _compute(self, number: int, n: int, task: Task, nbytes: int) -> None:
        assert task.target is not None
        operands = [self._at(number, place, task.length) for place in task.sources]
        target = self._target(number, task.target, task.length, nbytes)
        reduce_into(target, operands, self._work.dtype, self._work.op, self._divisor if task.final else 1)
        self._have_read(number, task)
        self._end(number, n)

    def _send(self, number: int, n: int, task: Task, nbytes: int) -> None:
        operands = [self._at(number, place, task.length) for place in task.sources]
        divisor = self._divisor if task.final else 1
        rings, to = self._links.rings, self._links.near.get(task.peer)
        if to is not None and rings.fits(nbytes):
            shared = self._plan.shared.get(task.sources) if task.stable and divisor == 1 else None
            found = None if shared is None else self._written.get((number, task.sources))
            if not rings.can_tell(to) or (found is None and rings.free_slots() == 0):
                heappush(self._blocked, (number, task.step, n))
                return
            if found is None:
                slot, room = rings.take_slot(nbytes)
                reduce_into(room, operands, self._work.dtype, self._work.op, divisor)
                found = slot, shared or 1
            slot, left = found
            rings.tell(to, Head(self._work.number, self._code(number, task), nbytes, slot), left == 1)
            if shared is not None:
                self._written[number, task.sources] = slot, left - 1
                if left == 1:
                    del self._written[number, task.sources]
        else:
            data = operands[0]
            if len(operands) > 1 or divisor != 1 or not task.stable or self._is_held(number, task.sources[0]):
                data = reduce_bytes(operands, self._work.dtype, self._work.op, divisor)
            self._requests.append(self._links.messages.send(task.peer, self._code(number, task), data))
            self._ends.append(None)
        self._have_read(number, task)
        self._end(number, n)

    def _receive(self, number: int, n: int, task: Task, nbytes: int) -> None:
        source = self._links.near.get(task.peer)
        if source is not None and self._links.rings.fits(nbytes):
            key = source, self._code(number, task)
            found = self._arrived.pop(key, None)
            if found is None:
                self._expected[key] = number, n
            else:
                self._deliver(source, number, n, *found)
            return
        assert task.target is not None
        into = self._target(number, task.target, task.length, nbytes)
        self._requests.append(self._links.messages.receive(task.peer, self._code(number, task), into))
        self._ends.append((number, n, into))

    def _deliver(self, source: int, number: int, n: int, position: int, data: Bytes) -> None:
        """Give a message of a ring (or one that was copied away: ``position`` -1) to the receive that waits for it."""
        task = self._tasks[n]
        first, last = self._pieces[task.length][number]
        if len(data) != last - first:
            raise OddMessageError(f"{len(data)} bytes came from rank {task.peer} where {last - first} should")
        assert task.target is not None
        if task.target.buffer is not Buffer.SCRATCH:
            self._target(number, task.target, task.length, len(data))[:] = data
        elif position < 0 or task.readers == 0:
            self._slices[number].scratch[task.target.unit] = data if position < 0 else data.copy()
        else:
            self._slices[number].scratch[task.target.unit] = data
            self._slices[number].held[task.target.unit] = _Held(source, position, task.readers)
            position = -1
        if position >= 0:
            self._links.rings.give_back(source, position)
        self._end(number, n)

    def _end(self, number: int, n: int) -> None:
        at = self._slices[number]
        at.remaining[n] = -1
        for later in self._tasks[n].followers:
            at.remaining[later] -= 1
            if at.remaining[later] == 0:
                heappush(self._ready, (number, self._tasks[later].step, later))
        at.left -= 1
        if at.left == 0:
            for held in at.held.values():
                self._links.rings.give_back(held.source, held.number)
            del self._slices[number]
            self._admit()

    def _look(self) -> bool:
        """Take what has arrived, and wake sends that have room again."""
        moved = False
        rings = self._links.rings
        for source, position, head, data in rings.look(self._work.number):
            moved = True
            key = source, head.message
            at = self._expected.pop(key, None)
            if at is None:
                self._arrived[key] = position, data
            else:
                self._deliver(source, *at, position, data)
        if self._blocked:
            self._wake(rings.free_slots())
        return (bool(self._requests) and self._look_beyond()) or moved

    def _wake(self, free: int) -> None:
        """Try sends again that found no slot: as many as there are slots now, and those whose data are in one."""
        blocked, self._blocked = self._blocked, []
        for entry in blocked:
            if (entry[0], self._tasks[entry[2]].sources) in self._written:
                heappush(self._ready, entry)
            elif free:
                free -= 1
                heappush(self._ready, entry)
            else:
                heappush(self._blocked, entry)

    def _look_beyond(self) -> bool:
        ended = set(self._links.messages.ended(self._requests))
        if not ended:
            return False
        ends = [self._ends[n] for n in sorted(ended)]
        self._requests = [r for n, r in enumerate(self._requests) if n not in ended]
        self._ends = [e for n, e in enumerate(self._ends) if n not in ended]
        for end in ends:
            if end is not None:
                self._end(end[0], end[1])
        return True

    def _evict(self) -> None:
        """Copy away all that lies in others' slots, as nothing has gone on for a while: they may need them."""
        rings = self._links.rings
        for at in self._slices.values():
            for unit, held in at.held.items():
                at.scratch[unit] = at.scratch[unit].copy()
                rings.give_back(held.source, held.number)
            at.held.clear()
        for (source, code), (position, data) in self._arrived.items():
            if position >= 0:
                self._arrived[source, code] = -1, data.copy()
                rings.give_back(source, position)

    def _at(self, number: int, place: Place, length: int) -> Bytes:
        """Return what a task reads."""
        if place.buffer is Buffer.SCRATCH:
            return self._slices[number].scratch[place.unit]
        return self._user(number, place, length)

    def _target(self, number: int, place: Place, length: int, nbytes: int) -> Bytes:
        if place.buffer is Buffer.SCRATCH:
            made = self._slices[number].scratch[place.unit] = np.empty(nbytes, np.uint8)
            return made
        return self._user(number, place, length)

    def _user(self, number: int, place: Place, length: int) -> Bytes:
        first, last = self._pieces[length][number]
        start = place.start * self._work.dtype.item_bytes
        whole = self._work.input if place.buffer is Buffer.INPUT else self._work.output
        return whole[start + first : start + last]

    def _is_held(self, number: int, place: Place) -> bool:
        return place.buffer is Buffer.SCRATCH and place.unit in self._slices[number].held

    def _have_read(self, number: int, task: Task) -> None:
        at = self._slices[number]
        for place in task.sources:
            held = at.held.get(place.unit) if place.buffer is Buffer.SCRATCH and at.held else None
            if held is not None:
                held.readers -= 1
                if held.readers == 0:
                    self._links.rings.give_back(held.source, held.number)
                    del at.held[place.unit]
                    del at.scratch[place.unit]
