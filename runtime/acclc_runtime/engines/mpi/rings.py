"""Messages between the ranks of one host: data in slots of a shared window, told of by rings of short heads.

Each rank's segment holds slots, which it alone writes, and for each other rank of the host a ring of heads, which that
one writes: where in its own slots a message lies. One slot may be told to several ranks. The receiver reads a slot
where it is, and gives it back by a count in the sender's segment. All counts only grow, and each has one writer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_LINE = 64
HEADS = 64
"""Heads a ring."""


@dataclass(frozen=True, slots=True)
class Head:
    """What tells of a message: the call (a number of its group), which message of it, its length in bytes, its slot."""

    call: int
    message: int
    nbytes: int
    slot: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Of all segments of a host: ``ranks`` on it, ``slots`` a rank, of ``slot_bytes``."""

    ranks: int
    slots: int
    slot_bytes: int

    @property
    def counter_bytes(self) -> int:
        """Bytes of one array of counters, one for each rank of the host."""
        return -(-self.ranks * 8 // _LINE) * _LINE

    @property
    def head_bytes(self) -> int:
        """Bytes before the slots: what was written, what was given back, and the heads."""
        return 2 * self.counter_bytes + self.ranks * HEADS * _LINE

    @property
    def stride(self) -> int:
        """Bytes from slot to slot."""
        return -(-self.slot_bytes // _LINE) * _LINE

    @property
    def segment_bytes(self) -> int:
        """Bytes of a rank's segment."""
        return self.head_bytes + self.slots * self.stride


class Rings:
    """This rank's ends of all rings of its host. Ranks are numbered within the host.

    ``segments`` are all ranks' parts of the window, as bytes, their heads zero at first; ``fence`` orders what this
    process wrote before it against what it writes after, and the same for reads.
    """

    def __init__(self, me: int, segments: Sequence[Bytes], shape: Shape, fence: Callable[[], None]) -> None:
        self._me = me
        self._shape = shape
        self._fence = fence
        part = shape.counter_bytes
        self._written = [s[:part].view(np.uint64) for s in segments]
        self._freed = [s[part : 2 * part].view(np.uint64) for s in segments]
        heads = [s[2 * part : shape.head_bytes].view(np.int64).reshape(shape.ranks, HEADS, -1) for s in segments]
        self._out = [h[me] for h in heads]
        self._in = heads[me]
        self._slots = [s[shape.head_bytes :].reshape(shape.slots, shape.stride) for s in segments]
        self._sent = [0] * shape.ranks
        self._taken = [0] * shape.ranks
        self._given_back: list[set[int]] = [set() for _ in range(shape.ranks)]
        self._tail = [0] * shape.ranks
        self._free = list(range(shape.slots))
        self._told: dict[int, list[tuple[int, int]]] = {}
        """By slot: to whom, as which message."""
        self._kept: dict[int, list[tuple[int, int]]] = {}
        """The same of slots that more ranks will be told of."""

    def fits(self, nbytes: int) -> bool:
        """Whether a message of so many bytes can go by a slot at all."""
        return nbytes <= self._shape.slot_bytes

    def can_tell(self, to: int) -> bool:
        """Whether there is room for a head to a rank."""
        return self._sent[to] - int(self._freed[self._me][to]) < HEADS

    def free_slots(self) -> int:
        """Return how many slots are free for :meth:`take_slot`."""
        if not self._free and self._told:
            freed = self._freed[self._me].tolist()
            for slot, told in list(self._told.items()):
                if all(freed[to] > number for to, number in told):
                    del self._told[slot]
                    self._free.append(slot)
        return len(self._free)

    def take_slot(self, nbytes: int) -> tuple[int, Bytes]:
        """Take a free slot to write a message to: its number, and where it lies. It is free again when all
        that were told of it have given it back."""
        slot = self._free.pop()
        return slot, self._slots[self._me][slot, :nbytes]

    def tell(self, to: int, head: Head, last: bool) -> None:
        """Tell a rank of the message in ``head.slot``. Not the ``last`` to be told: the slot stays taken."""
        number = self._sent[to]
        self._out[to][number % HEADS, :4] = (head.call, head.message, head.nbytes, head.slot)
        self._sent[to] = number + 1
        self._fence()
        self._written[to][self._me] = number + 1
        if last:
            self._told[head.slot] = [*self._kept.pop(head.slot, ()), (to, number)]
        else:
            self._kept.setdefault(head.slot, []).append((to, number))

    def look(self, call: int) -> list[tuple[int, int, Head, Bytes]]:
        """Take what has come of a call: (source, number, head, data) of each message. Others stay where they are."""
        written = self._written[self._me][: self._shape.ranks].tolist()
        if written == self._taken:
            return []
        self._fence()
        found = []
        for source, there in enumerate(written):
            for number in range(self._taken[source], there):
                head = Head(*self._in[source, number % HEADS, :4].tolist())
                if head.call != call:
                    break
                self._taken[source] = number + 1
                found.append((source, number, head, self._slots[source][head.slot, : head.nbytes]))
        return found

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
