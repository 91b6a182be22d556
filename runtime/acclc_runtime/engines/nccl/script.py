"""What one rank does in one call, round by round: local work, then one group of messages.

A call may be cut into slices, which follow each other as in a pipeline: slice s of what is on level l happens in round
l + s. Slices never meet: a scratch slot has room for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from acclc_runtime.engines.nccl.levels import Levels
from acclc_runtime.engines.tasks import Place, RankTasks, Task
from acclc_runtime.program import Buffer, OperationKind

T = TypeVar("T")
_ROOM = 64
"""Elements: places in scratch begin on a multiple."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where elements begin, counted from the start of the rank's input, output or scratch."""

    memory: Buffer
    start: int


@dataclass(frozen=True, slots=True)
class Combine:
    """Reduce ``length`` elements of the sources into the target; a copy, where there is one. ``final``: see avg."""

    target: Spot
    sources: tuple[Spot, ...]
    length: int
    final: bool


@dataclass(frozen=True, slots=True)
class Message:
    """``length`` elements to (``sends``) or from global rank ``peer``."""

    sends: bool
    spot: Spot
    length: int
    peer: int


@dataclass(frozen=True, slots=True)
class Round:
    """Local work in order, then messages at the same time, in the order in which both ends count them."""

    local: tuple[Combine, ...]
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """The rounds of one rank, and how many elements of scratch they use."""

    rounds: tuple[Round, ...]
    scratch: int


def script_of(tasks: RankTasks, levels: Levels) -> Script:
    """Return what the rank of ``tasks`` does; empty pieces and empty rounds are left out."""
    scratch = _Scratch(tasks, levels)
    local: list[tuple[int, int, int, Combine]] = []
    messages: list[tuple[int, int, int, Message]] = []
    pieces = tasks.pieces()
    for task in tasks.tasks:
        key = tasks.rank, task.operation
        for s, (first, last) in enumerate(pieces[task.length]):
            if first == last:
                continue
            sources = tuple(scratch.spot(place, s, first) for place in task.sources)
            if task.kind is OperationKind.COMPUTE or key in levels.staged:
                level, place = levels.local[key]
                target = scratch.staging(task, s) if task.target is None else scratch.spot(task.target, s, first)
                local.append((level + s, place, s, Combine(target, sources, last - first, task.final)))
                sources = (target,)
            if task.kind is not OperationKind.COMPUTE:
                level, place = levels.message[key]
                sends = task.kind is OperationKind.SEND
                spot = sources[0] if task.target is None else scratch.spot(task.target, s, first)
                messages.append((level + s, place, s, Message(sends, spot, last - first, task.peer)))
    return Script(tuple(_rounds(local, messages)), scratch.elements)


def _rounds(
    local: list[tuple[int, int, int, Combine]], messages: list[tuple[int, int, int, Message]]
) -> Iterator[Round]:
    at_round = {n: tuple(c for *_, c in found) for n, found in _by_round(local)}
    groups = {n: tuple(m for *_, m in found) for n, found in _by_round(messages)}
    for n in sorted({*at_round, *groups}):
        yield Round(at_round.get(n, ()), groups.get(n, ()))


def _by_round(items: list[tuple[int, int, int, T]]) -> Iterator[tuple[int, list[tuple[int, int, int, T]]]]:
    for n, found in groupby(sorted(items, key=lambda item: item[:3]), key=lambda item: item[0]):
        yield n, list(found)


class _Scratch:
    """Where scratch slots, and what staged sends put together, lie: a place for each slice."""

    def __init__(self, tasks: RankTasks, levels: Levels) -> None:
        longest = {length: max(b - a for a, b in found) for length, found in tasks.pieces().items()}
        need: dict[tuple[str, int], int] = {}
        for task in tasks.tasks:
            keys = [("slot", place.unit) for place in _places(task) if place.buffer is Buffer.SCRATCH]
            if task.kind is OperationKind.SEND and (tasks.rank, task.operation) in levels.staged:
                keys.append(("staged", task.operation))
            for key in keys:
                need[key] = max(need.get(key, 0), longest[task.length])
        self.elements = 0
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        for key, elements in need.items():
            room = -(-elements // _ROOM) * _ROOM
            self._places[key] = self.elements, room
            self.elements += room * tasks.slices

    def spot(self, place: Place, piece: int, first: int) -> Spot:
        """Return where a piece of a place lies; ``first``: where it begins in the place."""
        if place.buffer is Buffer.SCRATCH:
            return self._at(("slot", place.unit), piece)
        return Spot(place.buffer, place.start + first)

    def staging(self, task: Task, piece: int) -> Spot:
        """Return where a piece of what a staged send sends lies."""
        return self._at(("staged", task.operation), piece)

    def _at(self, key: tuple[str, int], piece: int) -> Spot:
        begin, room = self._places[key]
        return Spot(Buffer.SCRATCH, begin + piece * room)


def _places(task: Task) -> tuple[Place, ...]:
    return task.sources if task.target is None else (*task.sources, task.target)
