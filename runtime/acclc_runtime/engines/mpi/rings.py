"""Messages between the ranks of one host: rings of slots in a shared window, with counters that only grow.

Each rank's segment holds what comes to it: for each other rank of the host a ring of ``depth`` slots. The sender writes
a slot, then the count of slots written, in the receiver's segment; the receiver gives slots back by a count in the
sender's segment. Every counter has one writer. A slot is read where it is, until it is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_LINE = 64
HEAD_WORDS = 3


@dataclass(frozen=True, slots=True)
class Head:
    """What a message says of itself: the call (a number of its group), which message of it, and its length in bytes."""

    call: int
    message: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Of all rings of a host: ``ranks`` on it, ``depth`` slots a ring, of ``slot_bytes``."""

    ranks: int
    depth: int
    slot_bytes: int

    @property
    def counter_bytes(self) -> int:
        """Bytes of one array of counters, one for each rank of the host."""
        return -(-self.ranks * 8 // _LINE) * _LINE

    @property
    def stride(self) -> int:
        """Bytes from slot to slot: a head, then the data."""
        return _LINE + -(-self.slot_bytes // _LINE) * _LINE

    @property
    def segment_bytes(self) -> int:
        """Bytes of a rank's segment."""
        return 2 * self.counter_bytes + self.ranks * self.depth * self.stride


class Rings:
    """This rank's ends of all rings of its host. Ranks are numbered within the host.

    ``segments`` are all ranks' parts of the window, as bytes, zero at first; ``fence`` orders what this process wrote
    before it against what it writes after, and the same for reads.
    """

    def __init__(self, me: int, segments: Sequence[Bytes], shape: Shape, fence: Callable[[], None]) -> None:
        self._me = me
        self._shape = shape
        self._fence = fence
        self._segments = segments
        part = shape.counter_bytes
        self._written = [s[:part].view(np.uint64) for s in segments]
        self._freed = [s[part : 2 * part].view(np.uint64) for s in segments]
        self._sent = [0] * shape.ranks
        self._taken = [0] * shape.ranks
        self._given_back: list[set[int]] = [set() for _ in range(shape.ranks)]
        self._tail = [0] * shape.ranks

    def has_room(self, to: int) -> bool:
        """Whether a message can be written for a rank now."""
        return self._sent[to] - int(self._freed[self._me][to]) < self._shape.depth

    def fits(self, nbytes: int) -> bool:
        """Whether a message of so many bytes can go by a ring at all."""
        return nbytes <= self._shape.slot_bytes

    def room(self, to: int, nbytes: int) -> Bytes:
        """Return where to write the next message for a rank that :meth:`has_room`."""
        return self._slot(to, self._me, self._sent[to])[_LINE : _LINE + nbytes]

    def post(self, to: int, head: Head) -> None:
        """Tell the rank of the message that was written to :meth:`room`."""
        slot = self._slot(to, self._me, self._sent[to])
        slot[: HEAD_WORDS * 8].view(np.int64)[:] = (head.call, head.message, head.nbytes)
        self._sent[to] += 1
        self._fence()
        self._written[to][self._me] = self._sent[to]

    def waiting(self) -> list[int]:
        """Return the ranks of which messages are there that were not taken."""
        written = self._written[self._me].tolist()
        return [n for n, taken in enumerate(self._taken) if written[n] > taken]

    def peek(self, source: int) -> Head:
        """Return the head of the next message of a rank that is :meth:`waiting`."""
        self._fence()
        slot = self._slot(self._me, source, self._taken[source])
        return Head(*slot[: HEAD_WORDS * 8].view(np.int64).tolist())

    def take(self, source: int, head: Head) -> tuple[int, Bytes]:
        """Take the next message: its number in the ring, for :meth:`give_back`, and its data where it lies."""
        number = self._taken[source]
        self._taken[source] += 1
        return number, self._slot(self._me, source, number)[_LINE : _LINE + head.nbytes]

    def give_back(self, source: int, number: int) -> None:
        """Let the sender write the slot of a message again."""
        back = self._given_back[source]
        back.add(number)
        tail = self._tail[source]
        while tail in back:
            back.remove(tail)
            tail += 1
        if tail != self._tail[source]:
            self._tail[source] = tail
            self._fence()
            self._freed[source][self._me] = tail

    def is_full(self, source: int) -> bool:
        """Whether a rank's ring to this one has no slot left that it could write."""
        return self._taken[source] - self._tail[source] >= self._shape.depth

    def _slot(self, home: int, source: int, number: int) -> Bytes:
        shape = self._shape
        first = 2 * shape.counter_bytes + (source * shape.depth + number % shape.depth) * shape.stride
        return self._segments[home][first : first + shape.stride]
