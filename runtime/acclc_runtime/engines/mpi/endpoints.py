"""What a rank has of MPI: communicators of its groups, the window of its host, and a way to tell all of a failure."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from acclc_runtime.engines.mpi.execution import OddMessageError
from acclc_runtime.engines.mpi.rings import Bytes, Rings, Shape
from acclc_runtime.errors import JoinError

_WORDS_BYTES = 2048
_TAG = 1
LEFT: list[Any] = []
"""Requests that were given up: they hold the memory that MPI may still read or write."""


class GroupMessages:
    """Messages of one group's calls, by MPI; see :class:`acclc_runtime.engines.mpi.execution.Messages`."""

    def __init__(self, mpi: Any, comm: Any, ranks: tuple[int, ...]) -> None:
        self._mpi = mpi
        self._comm = comm
        self._index = {rank: n for n, rank in enumerate(ranks)}

    def send(self, to: int, tag: int, data: Bytes) -> Any:
        """Begin to send."""
        return self._comm.Isend(data, dest=self._index[to], tag=tag)

    def receive(self, source: int, tag: int, into: Bytes) -> Any:
        """Begin to receive."""
        return self._comm.Irecv(into, source=self._index[source], tag=tag)

    def ended(self, requests: list[Any]) -> list[int]:
        """Return which requests have ended."""
        try:
            return list(self._mpi.Request.Testsome(requests) or ())
        except self._mpi.Exception as error:
            raise OddMessageError(f"MPI: {error}") from None

    def give_up(self, request: Any, receives: bool) -> None:
        """Leave a request behind."""
        give_up(request, receives)


def give_up(request: Any, receives: bool) -> None:
    """Leave a request behind; a receive is cancelled."""
    if not request:  # it has ended
        return
    if receives:
        request.Cancel()
    LEFT.append(request)


class Alarm:
    """Tells the other ranks why this one gave up; a receive for what they tell is always posted."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        self._comm = comm
        self._heard = np.zeros(_WORDS_BYTES, np.uint8)
        self._request: Any = comm.Irecv(self._heard, source=mpi.ANY_SOURCE, tag=_TAG)
        self._hushed = False

    def hush(self) -> None:
        """Tell nobody, as all know."""
        self._hushed = True

    def ring(self, kind: str, words: str) -> None:
        """Tell all others; ``kind`` is of :data:`acclc_runtime.memory.failures` ("mismatch", "timeout", "failed")."""
        if self._hushed:
            return
        told = json.dumps([self._comm.Get_rank(), kind, words[: _WORDS_BYTES // 4]]).encode()
        data = np.zeros(_WORDS_BYTES, np.uint8)
        data[: len(told)] = np.frombuffer(told, np.uint8)
        for other in range(self._comm.Get_size()):
            if other != self._comm.Get_rank():
                LEFT.append(self._comm.Isend(data, dest=other, tag=_TAG))

    def heard(self) -> tuple[int, str, str] | None:
        """Return who gave up, as what kind of error, and why; None while all is well."""
        if self._request is None or not self._request.Test():
            return None
        self._request = None
        self.hush()
        rank, kind, words = json.loads(self._heard.tobytes().rstrip(b"\0"))
        return int(rank), str(kind), str(words)

    def close(self) -> None:
        """Take the receive back."""
        if self._request is not None:
            give_up(self._request, receives=True)
            self._request = None


class HostWindow:
    """The window that the ranks of one host share, and this rank's ends of the rings in it. Collective on ``comm``."""

    def __init__(self, mpi: Any, comm: Any, shape: Shape) -> None:
        self._window: Any = None
        if comm.Get_size() == 1 or shape.slots == 0:
            self.rings = Rings(0, [np.zeros(shape.segment_bytes, np.uint8)], shape, lambda: None)
            return
        try:
            window = mpi.Win.Allocate_shared(shape.segment_bytes, 1, comm=comm)
        except mpi.Exception as error:
            raise JoinError(
                f"MPI gives no window of {shape.segment_bytes} bytes a rank ({error}); is /dev/shm large enough?"
            ) from None
        segments = [np.frombuffer(window.Shared_query(n)[0], np.uint8) for n in range(comm.Get_size())]
        window.Lock_all()
        segments[comm.Get_rank()][: shape.head_bytes] = 0
        window.Sync()
        comm.Barrier()
        self._window = window
        self.rings = Rings(comm.Get_rank(), segments, shape, window.Sync)

    def close(self) -> None:
        """Free the window; all ranks of the host have to come."""
        if self._window is not None:
            del self.rings
            self._window.Unlock_all()
            self._window.Free()
            self._window = None
