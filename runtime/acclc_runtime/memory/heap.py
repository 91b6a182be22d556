"""This rank's segment: memory that others can reach, handed out in parts."""

from __future__ import annotations

import bisect
import ctypes
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from acclc_runtime.errors import AcclcRuntimeError
from acclc_runtime.memory.native import NativeComm
from acclc_runtime.memory.tables import PAGE

_LEAST_GROWTH = 1 << 20
_ALIGNMENT = 64


class Heap:
    """Hands out parts of the segment ``file``, which grows as needed. Offsets count from the segment's begin.

    A part lies within one growth, because others map a growth in one piece. When an array dies only a note is taken, by
    C code; its part is free from the next allocation on. Python drops what a signal's handler raises while a finalizer
    runs: with one of Python here, a Ctrl-C would now and then have no effect.
    """

    def __init__(self, native: NativeComm, rank: int, file: int, nbytes: int) -> None:
        self._native = native
        self._rank = rank
        self._file = file
        self._end = nbytes
        self._pieces: list[tuple[int, int, int]] = []
        """(offset, length, address) of each growth."""
        self._free: list[tuple[int, int]] = []
        """(offset, length), in order; never joined across growths."""
        self._lent: dict[int, weakref.ref[Any]] = {}
        """What holds the part of each array, by offset."""
        self._dead: deque[_Lent] = deque()
        self._lock = threading.RLock()  # a signal's handler may run within an allocation

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """Return (offset, address) of at least ``nbytes`` bytes that begin on a cache line.

        Raises:
            AcclcRuntimeError: there is not so much memory.
        """
        size = _rounded(nbytes)
        self._take_back()
        with self._lock:
            for n, (offset, length) in enumerate(self._free):
                if length >= size:
                    if length == size:
                        del self._free[n]
                    else:
                        self._free[n] = (offset + size, length - size)
                    return offset, self._address(offset)
            self._grow(size)
            return self.allocate(nbytes)

    def release(self, offset: int, nbytes: int) -> None:
        """Take back what ``allocate`` gave."""
        size = _rounded(nbytes)
        with self._lock:
            n = bisect.bisect(self._free, (offset, size))
            begins = {piece[0] for piece in self._pieces}
            if n < len(self._free) and self._free[n][0] == offset + size and offset + size not in begins:
                size += self._free.pop(n)[1]
            if n > 0 and sum(self._free[n - 1]) == offset and offset not in begins:
                offset, before = self._free[n - 1]
                self._free[n - 1] = (offset, before + size)
            else:
                self._free.insert(n, (offset, size))

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array in the segment. Its part can be used again when no view of it is left."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        offset, address = self.allocate(max(1, nbytes))
        memory: Any = (ctypes.c_uint8 * max(1, nbytes)).from_address(address)
        memory.owner = self._native  # keeps the mapping
        self._lent[offset] = _Lent.of(memory, self._dead.append, offset, max(1, nbytes))
        made: np.ndarray[Any, Any] = np.frombuffer(memory, np.uint8)[:nbytes].view(dtype).reshape(shape)
        return made

    def _take_back(self) -> None:
        while self._dead:
            try:
                gone = self._dead.popleft()
            except IndexError:  # another thread was faster
                return
            del self._lent[gone.offset]
            self.release(gone.offset, gone.nbytes)

    def _grow(self, size: int) -> None:
        length = -(-max(size, _LEAST_GROWTH) // PAGE) * PAGE
        offset = self._end
        try:
            os.posix_fallocate(self._file, offset, length)
        except OSError as error:
            raise AcclcRuntimeError(
                f"rank {self._rank} gets no {length} bytes of shared memory: {error.strerror}; use smaller arrays"
            ) from None
        address = self._native.map(self._rank, self._file, -1, offset, length)
        self._end += length
        self._pieces.append((offset, length, address))
        self._free.append((offset, length))

    def _address(self, offset: int) -> int:
        for begin, length, address in self._pieces:
            if begin <= offset < begin + length:
                return address + offset - begin
        raise AssertionError("a part of no growth")


class _Lent(weakref.ref[Any]):
    """The memory of an array; put into the queue of dead ones, by ``append`` alone, when it is gone."""

    __slots__ = ("nbytes", "offset")
    offset: int
    nbytes: int

    @staticmethod
    def of(memory: Any, append: Callable[[Any], None], offset: int, nbytes: int) -> _Lent:
        made = _Lent(memory, append)
        made.offset, made.nbytes = offset, nbytes
        return made


def _rounded(nbytes: int) -> int:
    unit = PAGE if nbytes >= PAGE else _ALIGNMENT
    return -(-nbytes // unit) * unit
