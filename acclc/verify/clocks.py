"""Happens-before by vector clocks, and the race check over it.

A thread of control is a *block*. Its clock counts the barriers it has passed; an access is stamped with the
block's number and that count. Another block's access happened before iff the own vector covers its stamp
(Fidge and Mattern; the stamps are the epochs of FastTrack, Flanagan and Freund, PLDI 2009).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int32]


@dataclass(slots=True)
class Access:
    """A stamped access, one object for all that an operation touches. ``label`` is what a message needs to name it."""

    block: int
    time: int
    label: object


@dataclass(slots=True)
class _State:
    write: Access | None = None
    reads: list[Access] = field(default_factory=list)


@dataclass(slots=True)
class AccessHistory:
    """The last write of each cell and the reads since; finds an earlier access that is not ordered before a new one.

    ``strict``: accesses of one block are ordered only by a barrier between them, since its threads run side by
    side. Otherwise a block is sequential.
    """

    strict: bool
    cells: dict[object, _State] = field(default_factory=dict)

    def _ordered(self, earlier: Access, now: Access, vector: Vector) -> bool:
        if earlier is now:
            return True
        if earlier.block == now.block:
            return not self.strict or earlier.time < now.time
        return earlier.time <= int(vector[earlier.block])

    def read(self, cell: object, now: Access, vector: Vector) -> Access | None:
        """Note a read; return a write that it races with, if there is one."""
        state = self.cells.get(cell)
        if state is None:
            state = self.cells[cell] = _State()
        state.reads.append(now)
        if state.write is not None and not self._ordered(state.write, now, vector):
            return state.write
        return None

    def write(self, cell: object, now: Access, vector: Vector) -> Access | None:
        """Note a write; return an access that it races with, if there is one."""
        state = self.cells.get(cell)
        if state is None:
            state = self.cells[cell] = _State()
        racing = None
        if state.write is not None and not self._ordered(state.write, now, vector):
            racing = state.write
        for earlier in state.reads:
            if not self._ordered(earlier, now, vector):
                racing = earlier
        state.write, state.reads = now, []
        return racing
