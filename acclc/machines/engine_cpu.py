"""Probing between processes of this machine: each is pinned to a core and writes into memory that is shared."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from types import TracebackType
from typing import Any

import numpy as np

from acclc.machines.probe import Edge, ProbeError

LIMIT_S = 30.0
"""A wait for another process ends after this."""
LINE = 64
"""Bytes between flags."""
MOST_MEMORY = 2**31
"""Bytes of shared memory at most: every edge has a landing place of its own."""


class CpuEngine:
    """One process a core; a context manager. ``most`` bytes are the largest message.

    An edge is what the CPU backend does: a core writes into memory of another rank and raises a flag, which the other
    core sees. Each rank is one core, so all edges out of a rank share what it can write.
    """

    name = "processes in shared memory"
    kind = "shm"

    def __init__(self, cores: Sequence[int], most: int, labels: Sequence[str] = ()) -> None:
        if len(cores) < 2:
            raise ProbeError(
                "there is only one core to probe; an edge needs two: --ranks 2 runs two processes on it, much slower"
            )
        if _bytes(len(cores), most) > MOST_MEMORY:
            raise ProbeError(
                f"{len(cores)} ranks with messages of {most} bytes need {_bytes(len(cores), most)} bytes of shared"
                " memory; take fewer ranks (--ranks) or smaller messages (--size)"
            )
        self.labels = tuple(labels) or tuple(f"CPU {c}" for c in cores)
        self.notes: tuple[str, ...] = (
            "latencies are of processes in Python that watch a flag: the machine's are less",
        )
        if len(set(cores)) < len(cores):
            self.notes += (f"{len(cores)} ranks share {len(set(cores))} cores, so figures hold waits for each other",)
        self._count = len(cores)
        self._memory = SharedMemory(create=True, size=_bytes(self._count, most))
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for rank, core in enumerate(cores):
            ours, theirs = context.Pipe()
            arguments = (theirs, self._memory.name, rank, self._count, core, most)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        try:
            self._answers(range(self._count))  # each is on its core
        except ProbeError:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> CpuEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            try:
                pipe.send(None)
            except OSError:
                continue
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
        self._memory.close()
        self._memory.unlink()

    def alone(self, edge: Edge, nbytes: int, repeats: int) -> Sequence[float]:
        """Half of the time there and back, of single messages."""
        self._tell({edge[0]: ("ping", edge[1], nbytes, repeats), edge[1]: ("pong", edge[0], nbytes, repeats)})
        found = self._answers((edge[0], edge[1]))[edge[0]]
        return [t / 2 for t in found]

    def together(self, edges: Sequence[Edge], nbytes: int, repeats: int) -> Sequence[float]:
        """Each rank writes to its targets in turn; all ranks at the same time."""
        targets: dict[int, list[int]] = {}
        for src, dst in edges:
            targets.setdefault(src, []).append(dst)
        self._tell({src: ("write", tuple(dsts), nbytes, repeats, len(targets)) for src, dsts in targets.items()})
        found = self._answers(tuple(targets))
        return [found[src][0] for src, _ in edges]

    def _tell(self, commands: dict[int, tuple[Any, ...]]) -> None:
        np.ndarray((self._count * LINE,), np.uint8, self._memory.buf)[:] = 0
        for rank, command in commands.items():
            self._pipes[rank].send(command)

    def _answers(self, ranks: Sequence[int]) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        for rank in ranks:
            if not self._pipes[rank].poll(2 * LIMIT_S):
                raise ProbeError(f"the process of rank {rank} does not answer")
            try:
                answer = self._pipes[rank].recv()
            except EOFError:
                raise ProbeError(f"the process of rank {rank} ended") from None
            if isinstance(answer, str):
                raise ProbeError(answer)
            found[rank] = answer
        return found


def _bytes(count: int, most: int) -> int:
    return count * LINE + count * count * most


def _serve(pipe: Connection, name: str, rank: int, count: int, core: int, most: int) -> None:
    """Obey commands until None or the end of the pipe. Runs in a process of its own."""
    memory = SharedMemory(name=name)
    try:
        try:
            os.sched_setaffinity(0, {core})
        except OSError as error:
            pipe.send(f"core {core} cannot be used: {error.strerror}")
            return
        pipe.send([])
        flags = np.ndarray((count, LINE // 8), np.int64, memory.buf)
        landing = np.ndarray((count, count, most), np.uint8, memory.buf, count * LINE)
        own = np.full(most, rank + 1, np.uint8)
        while (command := pipe.recv()) is not None:
            try:
                pipe.send(_obey(command, rank, flags, landing, own))
            except TimeoutError as error:
                pipe.send(str(error))
        del flags, landing
    except (EOFError, OSError, KeyboardInterrupt):
        pass
    finally:
        memory.close()


def _obey(
    command: tuple[Any, ...],
    rank: int,
    flags: np.ndarray[Any, Any],
    landing: np.ndarray[Any, Any],
    own: np.ndarray[Any, Any],
) -> list[float]:
    if command[0] == "write":
        _, targets, nbytes, repeats, starters = command
        flags[rank, 1] = 1
        _wait(lambda: int(flags[:, 1].sum()) >= starters, f"rank {rank} waits for all to start")
        started = time.perf_counter()
        for _ in range(repeats):
            for dst in targets:
                landing[dst, rank, :nbytes] = own[:nbytes]
        return [(time.perf_counter() - started) / repeats]
    what, other, nbytes, repeats = command
    times = []
    for turn in range(1, repeats + 2):  # the first one warms up
        started = time.perf_counter()
        if what == "pong":
            _wait(lambda turn=turn: flags[other, 0] >= turn, f"rank {rank} waits for rank {other}")
        landing[other, rank, :nbytes] = own[:nbytes]
        flags[rank, 0] = turn
        if what == "ping":
            _wait(lambda turn=turn: flags[other, 0] >= turn, f"rank {rank} waits for rank {other}")
        times.append(time.perf_counter() - started)
    return times[1:]


def _wait(ready: Any, what: str) -> None:
    end = time.perf_counter() + LIMIT_S
    spins = 0
    while not ready():
        spins += 1
        if spins % 1000 == 0:
            if time.perf_counter() > end:
                raise TimeoutError(f"{what} for more than {LIMIT_S:g} s")
            os.sched_yield()
