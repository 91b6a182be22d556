"""Probing between the ranks of MPI. Every rank runs the same command: rank 0 leads, the others serve."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from acclc.machines.probe import Edge, ProbeError


def world() -> Any:
    """Return MPI's communicator of all ranks.

    Raises:
        ProbeError: no mpi4py, or fewer than two ranks.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ProbeError(f"the engine mpi needs mpi4py ({error}): install acclc[mpi]") from None
    if MPI.COMM_WORLD.Get_size() < 2:
        raise ProbeError("there is one rank; start it by `mpiexec -n 8 acclc topo probe --engine mpi`")
    return MPI.COMM_WORLD


class MpiEngine:
    """Rank 0's end; a context manager. Messages are sends and receives of MPI, between buffers of NumPy."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        hosts = comm.gather(socket.gethostname(), root=0)
        same = len(set(hosts)) == 1
        self.labels = tuple(f"rank {n}" + ("" if same else f" on {host}") for n, host in enumerate(hosts))
        self.kind = "shm" if same else "net"
        self.name = "MPI"
        self.notes = ("figures are of MPI's messages, so they hold its protocols and copies",)

    def __enter__(self) -> MpiEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._comm.bcast(None, root=0)

    def alone(self, edge: Edge, nbytes: int, repeats: int) -> Sequence[float]:
        """Half of the time there and back, of single messages."""
        found = self._obeyed(("alone", edge, nbytes, repeats))
        return [t / 2 for t in found[edge[0]]]

    def together(self, edges: Sequence[Edge], nbytes: int, repeats: int) -> Sequence[float]:
        """All messages of a turn are posted at once; an edge takes as long as the slower of its ends."""
        found = self._obeyed(("together", tuple(edges), nbytes, repeats))
        return [max(found[a][0], found[b][0]) for a, b in edges]

    def _obeyed(self, command: tuple[Any, ...]) -> list[list[float]]:
        self._comm.bcast(command, root=0)
        answer: list[list[float]] = self._comm.gather(_obey(self._comm, command), root=0)
        return answer


def serve(comm: Any) -> None:
    """What every rank but 0 does until rank 0 ends."""
    comm.gather(socket.gethostname(), root=0)
    while (command := comm.bcast(None, root=0)) is not None:
        comm.gather(_obey(comm, command), root=0)


def _obey(comm: Any, command: tuple[Any, ...]) -> list[float]:
    what, edges, nbytes, repeats = command
    comm.Barrier()
    if what == "alone":
        return _ping(comm, edges, nbytes, repeats)
    rank = comm.Get_rank()
    out = [dst for src, dst in edges if src == rank]
    into = [src for src, dst in edges if dst == rank]
    sent = np.full(nbytes, rank, np.uint8)
    landing = [np.empty(nbytes, np.uint8) for _ in into]
    started = 0.0
    for turn in range(repeats + 1):  # the first one warms up
        if turn == 1:
            comm.Barrier()
            started = time.perf_counter()
        requests = [comm.Irecv(place, source=src) for place, src in zip(landing, into, strict=True)]
        requests += [comm.Isend(sent, dest=dst) for dst in out]
        for request in requests:
            request.Wait()
    return [(time.perf_counter() - started) / repeats]


def _ping(comm: Any, edge: Edge, nbytes: int, repeats: int) -> list[float]:
    rank = comm.Get_rank()
    if rank not in edge:
        return []
    sent, landing = np.full(nbytes, rank, np.uint8), np.empty(nbytes, np.uint8)
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        if rank == edge[0]:
            comm.Send(sent, dest=edge[1])
            comm.Recv(landing, source=edge[1])
        else:
            comm.Recv(landing, source=edge[0])
            comm.Send(sent, dest=edge[0])
        times.append(time.perf_counter() - started)
    return times[1:]
