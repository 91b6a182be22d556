"""Probing between the ranks of MPI. Every rank runs the same command: rank 0 leads, the others serve."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from acclc.machines.probe import Edge, ProbeError

COMMAND, ANSWER = 1, 2
"""Tags; the messages that are measured have tag 0."""
NAP = 0.5e-3
"""Seconds between two looks of a rank that has nothing to do: MPI's own waiting takes a core from those at work."""


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
        places = comm.gather(_place(), root=0)
        hosts = [host for host, _ in places]
        same = len(set(hosts)) == 1
        self.labels = tuple(f"rank {n}" + ("" if same else f" on {host}") for n, host in enumerate(hosts))
        self.kind = "shm" if same else "net"
        self.name = "MPI"
        self.notes = ("figures are of MPI's messages, so they hold its protocols and copies", *_crowded(places))

    def __enter__(self) -> MpiEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for rank in range(1, self._comm.Get_size()):
            self._comm.send(None, dest=rank, tag=COMMAND)

    def alone(self, edge: Edge, nbytes: int, repeats: int) -> Sequence[float]:
        """Half of the time there and back, of single messages."""
        found = self._obeyed(("alone", edge, nbytes, repeats))
        return [t / 2 for t in found[edge[0]]]

    def together(self, edges: Sequence[Edge], nbytes: int, repeats: int) -> Sequence[float]:
        """All messages of a turn are posted at once; an edge takes as long as the slower of its ends."""
        found = self._obeyed(("together", tuple(edges), nbytes, repeats))
        return [max(found[a][0], found[b][0]) for a, b in edges]

    def _obeyed(self, command: tuple[Any, ...]) -> list[list[float]]:
        others = range(1, self._comm.Get_size())
        for rank in others:
            self._comm.send(command, dest=rank, tag=COMMAND)
        mine = _obey(self._comm, command)
        return [mine, *(_received(self._comm, rank, ANSWER) for rank in others)]


def serve(comm: Any) -> None:
    """What every rank but 0 does until rank 0 ends."""
    comm.gather(_place(), root=0)
    while (command := _received(comm, 0, COMMAND)) is not None:
        comm.send(_obey(comm, command), dest=0, tag=ANSWER)


def _received(comm: Any, source: int, tag: int) -> Any:
    while not comm.iprobe(source=source, tag=tag):
        time.sleep(NAP)
    return comm.recv(source=source, tag=tag)


def _place() -> tuple[str, tuple[int, ...]]:
    """Return this rank's host and the cores that it may use."""
    return socket.gethostname(), tuple(sorted(os.sched_getaffinity(0)))


def _crowded(places: Sequence[tuple[str, tuple[int, ...]]]) -> list[str]:
    """Say of each host whether its ranks outnumber the cores that they may use."""
    notes = []
    for host in dict.fromkeys(host for host, _ in places):
        mine = [cores for other, cores in places if other == host]
        cores = set().union(*mine)
        if len(mine) > len(cores):
            notes.append(
                f"{len(mine)} ranks share {len(cores)} cores of {host}, so figures hold waits for each other, the more"
                " the more ranks move at a time"
            )
    return notes


def _obey(comm: Any, command: tuple[Any, ...]) -> list[float]:
    what, edges, nbytes, repeats = command
    if what == "alone":
        return _ping(comm, edges, nbytes, repeats)
    comm.Barrier()
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
