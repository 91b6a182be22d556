"""In which group of sends and receives each transfer of a Program happens, the same on all ranks.

NCCL's messages of one group run at the same time, groups one after the other, and a send ends with its receive. So a
message is one event on two ranks, and all ranks take groups in one order: that of the messages' levels. A level is the
longest chain of data that an operation stands on: what it reads was written before, what it writes was read before.
Levels come from the Program alone, with every call taken as one in place, so ranks agree without a word.

Within a level local operations (copies, reductions) come first, then the group. A send of several sources has its value
reduced into a place of its own first. So has a send whose source would have to be free again before its own message
could be there (two ranks that swap in place): a chain of such would never end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm
from typing import TypeVar

from acclc_runtime.errors import DamagedFileError
from acclc_runtime.program import Buffer, Extent, Operation, OperationKind, Program, RankProgram

T = TypeVar("T")
Key = tuple[int, int]
"""An operation: its global rank and its id there."""
Node = tuple[str, int, int]
"""An event: ``local`` work of an operation, or the ``message`` of a send (by the send's key)."""


@dataclass(frozen=True, slots=True)
class Levels:
    """When everything happens. Of a send, ``local`` is there only if it is in ``staged``."""

    local: dict[Key, tuple[int, int]]
    """The level of each computation, and of putting together what a staged send sends, and its place."""
    message: dict[Key, tuple[int, int]]
    """The level of each send and each receive, and its place among the messages: the same at both ends."""
    staged: frozenset[Key]


def levels_of(program: Program, name: str) -> Levels:
    """Return the levels of a Program; ``name`` says which file it is from.

    Raises:
        DamagedFileError: operations wait for each other, or a message has no other end.
    """
    whole = _Whole(program, name)
    staged = {key for key, o in whole.operations.items() if _is_put_together(o, program.contributors)}
    while True:
        after = _orders(whole, staged)
        order, left = _sorted(after)
        if not left:
            break
        swapped = {(rank, number) for kind, rank, number in left if kind == "message"} - staged
        if not swapped:
            raise DamagedFileError(f"{name}: operations wait for each other")
        staged |= swapped
    level = dict.fromkeys(order, 0)
    for node in order:
        for later in after[node]:
            step = 1 if node[0] == "message" else 0
            level[later] = max(level[later], level[node] + step)
    local = {(r, n): (level[kind, r, n], whole.place[r, n]) for kind, r, n in order if kind == "local"}
    message: dict[Key, tuple[int, int]] = {}
    for received, send in whole.sender.items():
        message[send] = message[received] = level["message", *send], whole.place[received]
    return Levels(local, message, frozenset(staged))


def _is_put_together(operation: Operation, contributors: int) -> bool:
    """Whether what a send sends lies nowhere yet: it is reduced, or (for avg) divided."""
    if operation.kind is not OperationKind.SEND:
        return False
    return len(operation.sources) > 1 or (operation.final and contributors > 1)


class _Whole:
    """All ranks' operations, in one order in which each comes after what it waits for."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.operations: dict[Key, Operation] = {}
        self.rank: dict[int, tuple[RankProgram, int]] = {}
        """Each global rank's part of the program, and its position in the group."""
        after: dict[Key, list[Key]] = {}
        ends: dict[tuple[int, int, int, int], dict[OperationKind, Key]] = {}
        for rank, position in zip(program.ranks, program.positions, strict=True):
            self.rank[rank.rank] = rank, position
            for block in rank.blocks:
                for o in block.operations:
                    key = rank.rank, o.id
                    self.operations[key] = o
                    after.setdefault(key, [])
                    for earlier in o.after:
                        after.setdefault((rank.rank, earlier), []).append(key)
                    if o.kind is not OperationKind.COMPUTE:
                        edge = (rank.rank, o.peer) if o.kind is OperationKind.SEND else (o.peer, rank.rank)
                        ends.setdefault((*edge, o.channel, o.fifo), {})[o.kind] = key
                for one, other in pairwise(block.operations):
                    after[rank.rank, one.id].append((rank.rank, other.id))
        self.sender: dict[Key, Key] = {}
        """Of each receive, its send."""
        for (source, target, channel, number), found in ends.items():
            if len(found) != 2:
                raise DamagedFileError(
                    f"{name}: message {number} of {source} -> {target}, channel {channel}, has one end only"
                )
            send, receive = found[OperationKind.SEND], found[OperationKind.RECEIVE]
            self.sender[receive] = send
            after[send].append(receive)
        self.order, left = _sorted(after)
        if left:
            raise DamagedFileError(f"{name}: operations wait for each other")
        self.place = {key: n for n, key in enumerate(self.order)}


@dataclass(slots=True)
class _Touched:
    """What was done to one part of a rank's memory so far: [begin, end), whether it was written, by which event."""

    accesses: list[tuple[int, int, bool, Node]] = field(default_factory=list)

    def touch(self, begin: int, end: int, writes: bool, node: Node) -> list[Node]:
        """Add an access; return the events that it has to come after."""
        met = [n for b, e, w, n in self.accesses if (w or writes) and b < end and begin < e]
        if writes:  # what this covers is behind it for all that comes
            self.accesses = [a for a in self.accesses if not (begin <= a[0] and a[1] <= end)]
        self.accesses.append((begin, end, writes, node))
        return met


def _orders(whole: _Whole, staged: set[Key]) -> dict[Node, list[Node]]:
    """Return for each event those that come after it: by what they read and write, in the Program's own order."""
    scale = lcm(*(f.denominator for o in whole.operations.values() for p in _places(o) for f in (p.begin, p.end)))
    memory: dict[tuple[int, str, int], _Touched] = {}
    after: dict[Node, list[Node]] = {}
    for key in whole.order:
        o = whole.operations[key]
        if o.kind is OperationKind.SEND:
            message: Node = ("message", *key)
            after.setdefault(message, [])
            if key in staged:
                after.setdefault(("local", *key), []).append(message)
        node: Node = ("local", *key) if o.kind is OperationKind.COMPUTE or key in staged else (
            "message", *whole.sender.get(key, key))  # fmt: skip
        after.setdefault(node, [])
        for place, writes in [*((s, False) for s in o.sources), *([(o.target, True)] if o.target else [])]:
            if place.begin == place.end:
                continue
            part, begin, end = _part(whole, key[0], place, scale)
            for earlier in memory.setdefault((key[0], *part), _Touched()).touch(begin, end, writes, node):
                if earlier != node:
                    after[earlier].append(node)
    return after


def _part(whole: _Whole, rank: int, place: Extent, scale: int) -> tuple[tuple[str, int], int, int]:
    """Return which part of the rank's memory a place lies in, and where: as if every call were in place."""
    if place.buffer is Buffer.SCRATCH:
        return ("scratch", place.unit), 0, 1
    position = whole.rank[rank][1]
    shift = {"input_in_output": (position, 0), "output_in_input": (0, position), "same": (0, 0)}
    by = shift.get(whole.program.in_place)
    begin, end = int(place.begin * scale), int(place.end * scale)
    if by is None:
        return (str(place.buffer), place.unit), begin, end
    return ("shared", place.unit + by[place.buffer is Buffer.OUTPUT]), begin, end


def _places(operation: Operation) -> Iterator[Extent]:
    yield from operation.sources
    if operation.target is not None:
        yield operation.target


def _sorted(after: dict[T, list[T]]) -> tuple[list[T], list[T]]:
    """Return everything in an order of its own, each before all that come after it, and what is left of circles."""
    waits = dict.fromkeys(after, 0)
    for later in after.values():
        for each in later:
            waits[each] += 1
    order = [each for each, n in waits.items() if n == 0]
    for each in order:
        for later_one in after[each]:
            waits[later_one] -= 1
            if waits[later_one] == 0:
                order.append(later_one)
    return order, [each for each, n in waits.items() if n > 0]
