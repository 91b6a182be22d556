"""One rank's part of a Program, prepared for one call: what engines that pass messages execute (MPI, NCCL).

Extents become elements, operations become tasks with what must end before each, and the messages between two ranks are
numbered alike at both ends. A call may be cut into slices: the same tasks on a piece each of their ranges. The ranges
of user memory are either the same or apart (else there is one slice), so tasks of different slices never meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from acclc_runtime.counts import Lengths
from acclc_runtime.errors import DamagedFileError
from acclc_runtime.partition import extent, piece
from acclc_runtime.program import Buffer, Extent, Operation, OperationKind, Program, RankProgram

Edge = tuple[int, int]
"""Sender and receiver, global ranks."""


@dataclass(frozen=True, slots=True)
class Place:
    """Elements from ``start`` on of the input or the output; of scratch the whole slot ``unit``."""

    buffer: Buffer
    unit: int
    start: int


@dataclass(frozen=True, slots=True)
class Task:
    """An operation of this rank. ``peer`` is a global rank; ``message`` counts those of its (sender, receiver).

    ``before`` is how many tasks must have ended, ``followers`` are those that wait for this one. ``readers`` is how
    many tasks read what a receive leaves in its scratch slot; 0 where that is not known, as the slot is used again.
    ``stable``: nothing writes what a send reads after it.
    """

    operation: int
    kind: OperationKind
    step: int
    sources: tuple[Place, ...]
    target: Place | None
    length: int
    final: bool
    peer: int
    message: int
    transfer: int
    before: int
    followers: tuple[int, ...]
    readers: int
    stable: bool


@dataclass(frozen=True, slots=True)
class RankTasks:
    """The tasks of one rank, by number; ``slices`` pieces of each; ``messages`` at most between any two ranks."""

    rank: int
    tasks: tuple[Task, ...]
    slices: int
    messages: int
    divisor: int

    def pieces(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return for each length of a task its pieces: [first, last) from where the task's range begins."""
        return {
            length: tuple(piece(0, length, s, self.slices) for s in range(self.slices))
            for length in {t.length for t in self.tasks}
        }


def rank_tasks(
    program: Program, rank: int, count: int, lengths: Lengths | None, slices: int, in_place: bool, name: str
) -> RankTasks:
    """Return what global rank ``rank`` does in a call on ``count`` elements; ``lengths`` where counts vary.

    ``slices`` is taken as one where ranges of user memory of any rank overlap without being the same, so that all
    ranks do alike. ``name`` says which file the program is from.

    Raises:
        DamagedFileError: a message has no other end or ends of different lengths, or operations wait for each other.
    """
    measure = _Measure(program, count, lengths)
    numbers = _message_numbers(program, measure, name)
    if slices > 1 and not all(_apart(program, n, r, measure) for n, r in enumerate(program.ranks)):
        slices = 1
    index = next(n for n, r in enumerate(program.ranks) if r.rank == rank)
    tasks = _tasks(program.ranks[index], index, measure, numbers, in_place, name)
    most = max((len(found) for found in numbers.values()), default=0)
    return RankTasks(rank, tasks, slices, most, program.contributors)


class _Measure:
    """Extents as elements of one call."""

    def __init__(self, program: Program, count: int, lengths: Lengths | None) -> None:
        self.program = program
        self.count = count
        self.lengths = lengths

    def length(self, place: Extent) -> int:
        first, last = self._range(place)
        return last - first

    def start(self, index: int, place: Extent) -> int:
        """Return where a place in user memory begins, in elements of the buffer."""
        first, _ = self._range(place)
        if self.lengths is None:
            return place.unit * self.count + first
        begins = self.lengths.inputs if place.buffer is Buffer.INPUT else self.lengths.outputs
        return begins[index][place.unit] + first

    def place(self, index: int, place: Extent) -> Place:
        return Place(place.buffer, place.unit, 0 if place.buffer is Buffer.SCRATCH else self.start(index, place))

    def _range(self, place: Extent) -> tuple[int, int]:
        count = self.count if self.lengths is None else self.lengths.shards[place.shard]
        return extent(count, place.begin, place.end)


def _operations(rank: RankProgram) -> Iterator[Operation]:
    for block in rank.blocks:
        yield from block.operations


def _places(operation: Operation) -> tuple[Extent, ...]:
    return operation.sources if operation.target is None else (*operation.sources, operation.target)


def _message_numbers(program: Program, measure: _Measure, name: str) -> dict[Edge, dict[tuple[int, int], int]]:
    """Return for each edge the number of each message, by (channel, place in the channel's order)."""
    sent: dict[Edge, dict[tuple[int, int], tuple[int, int]]] = {}
    received: dict[Edge, dict[tuple[int, int], tuple[int, int]]] = {}
    for rank in program.ranks:
        for o in _operations(rank):
            if o.kind is OperationKind.COMPUTE:
                continue
            sends = o.kind is OperationKind.SEND
            edge = (rank.rank, o.peer) if sends else (o.peer, rank.rank)
            told = (o.transfer, measure.length(_places(o)[0]))
            ends = (sent if sends else received).setdefault(edge, {})
            if (o.channel, o.fifo) in ends:
                raise DamagedFileError(f"{name}: two messages {o.fifo} of {edge[0]} -> {edge[1]}, channel {o.channel}")
            ends[o.channel, o.fifo] = told
    for edge in sorted({*sent, *received}):
        if sent.get(edge) != received.get(edge):
            raise DamagedFileError(f"{name}: what rank {edge[0]} sends is not what rank {edge[1]} receives of it")
    return {edge: {key: n for n, key in enumerate(sorted(found))} for edge, found in sent.items()}


def _apart(program: Program, index: int, rank: RankProgram, measure: _Measure) -> bool:
    """Whether any two ranges of user memory of a rank are the same or apart, out of place and in place."""
    shift = {
        "same": (0, 0),
        "input_in_output": (program.positions[index] * measure.count, 0),
        "output_in_input": (0, program.positions[index] * measure.count),
    }.get(program.in_place)
    ranges: dict[Buffer, set[tuple[int, int]]] = {Buffer.INPUT: set(), Buffer.OUTPUT: set()}
    for operation in _operations(rank):
        for place in _places(operation):
            if place.buffer is not Buffer.SCRATCH and measure.length(place):
                start = measure.start(index, place)
                ranges[place.buffer].add((start, start + measure.length(place)))
    spaces = [ranges[Buffer.INPUT], ranges[Buffer.OUTPUT]]
    if shift is not None and measure.lengths is None:
        moved = [{(a + by, b + by) for a, b in space} for space, by in zip(spaces, shift, strict=True)]
        spaces.append(moved[0] | moved[1])
    return all(a[1] <= b[0] for space in spaces for a, b in pairwise(sorted(space)))


def _tasks(
    rank: RankProgram,
    index: int,
    measure: _Measure,
    numbers: dict[Edge, dict[tuple[int, int], int]],
    in_place: bool,
    name: str,
) -> tuple[Task, ...]:
    operations = list(_operations(rank))
    at = {o.id: n for n, o in enumerate(operations)}
    before: list[set[int]] = [{at[i] for i in o.after} for o in operations]
    for block in rank.blocks:
        for earlier, later in pairwise(block.operations):
            before[at[later.id]].add(at[earlier.id])
    followers: list[list[int]] = [[] for _ in operations]
    for n, needed in enumerate(before):
        for earlier_task in needed:
            followers[earlier_task].append(n)
    order = _in_order(before, followers)
    if len(order) < len(operations):
        raise DamagedFileError(f"{name}: rank {rank.rank}: operations wait for each other")
    readers = _readers(operations)
    unsettled = _unsettled(operations, before, order, in_place)
    made = []
    for n, o in enumerate(operations):
        measured = {measure.length(place) for place in _places(o)}
        if len(measured) != 1:
            raise DamagedFileError(f"{name}: rank {rank.rank}, operation {o.id}: its places have different lengths")
        edge = (rank.rank, o.peer) if o.kind is OperationKind.SEND else (o.peer, rank.rank)
        task = Task(
            operation=o.id,
            kind=o.kind,
            step=o.step,
            sources=tuple(measure.place(index, s) for s in o.sources),
            target=None if o.target is None else measure.place(index, o.target),
            length=measured.pop(),
            final=o.final,
            peer=o.peer,
            message=-1 if o.kind is OperationKind.COMPUTE else numbers[edge][o.channel, o.fifo],
            transfer=o.transfer,
            before=len(before[n]),
            followers=tuple(followers[n]),
            readers=readers.get(n, 0),
            stable=n not in unsettled,
        )
        made.append(task)
    return tuple(made)


def _readers(operations: list[Operation]) -> dict[int, int]:
    """Return for receives into slots that are written once how many operations read the slot."""
    writers: dict[int, list[int]] = {}
    reads: dict[int, int] = {}
    for n, o in enumerate(operations):
        if o.target is not None and o.target.buffer is Buffer.SCRATCH:
            writers.setdefault(o.target.unit, []).append(n)
        for unit in [s.unit for s in o.sources if s.buffer is Buffer.SCRATCH]:
            reads[unit] = reads.get(unit, 0) + 1
    return {
        found[0]: reads.get(unit, 0)
        for unit, found in writers.items()
        if len(found) == 1 and operations[found[0]].kind is OperationKind.RECEIVE
    }


def _in_order(before: list[set[int]], followers: list[list[int]]) -> list[int]:
    """Return the operations so that each comes after all that it waits for; fewer where some wait for each other."""
    waits = [len(needed) for needed in before]
    order = [n for n, w in enumerate(waits) if w == 0]
    for n in order:
        for later in followers[n]:
            waits[later] -= 1
            if waits[later] == 0:
                order.append(later)
    return order


def _unsettled(operations: list[Operation], before: list[set[int]], order: list[int], in_place: bool) -> set[int]:
    """Return the sends whose source may be written after them; of scratch, those of slots that are written again."""
    written = Counter(o.target.unit for o in operations if o.target is not None and o.target.buffer is Buffer.SCRATCH)
    writes = [n for n, o in enumerate(operations) if o.target is not None and o.target.buffer is Buffer.OUTPUT]
    ancestors = [0] * len(operations)
    found = set()
    for n in order:
        for earlier in before[n]:
            ancestors[n] |= ancestors[earlier] | 1 << earlier
        o = operations[n]
        source = o.sources[0] if len(o.sources) == 1 else None
        if o.kind is not OperationKind.SEND or source is None:
            continue
        if source.buffer is Buffer.SCRATCH:
            if written[source.unit] > 1:
                found.add(n)
            continue
        if source.buffer is Buffer.INPUT and not in_place:
            continue
        if any(not ancestors[n] >> m & 1 and _may_meet(source, operations[m].target) for m in writes):
            found.add(n)
    return found


def _may_meet(source: Extent, target: Extent | None) -> bool:
    """Whether a write may touch what is read; of an input that may lie in the output nothing is known."""
    if target is None or source.buffer is Buffer.INPUT:
        return True
    return source.unit == target.unit and source.begin < target.end and target.begin < source.end
