"""The memory roof: bytes a second that the cores move together when each copies arrays that no cache holds."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import numpy as np

BYTES = 64 << 20
TURNS = 6


def measure(rounds: int = 5) -> float:
    """Return bytes read and written a second by all cores together: the best of the rounds, all cores at once."""
    cores = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(cores)
    results: Any = context.SimpleQueue()
    processes = [context.Process(target=_copy, args=(barrier, results, rounds)) for _ in range(cores)]
    for process in processes:
        process.start()
    spans = [results.get() for _ in processes]
    for process in processes:
        process.join()
    slowest = [max(a[n] for a in spans) for n in range(rounds)]
    return 2 * BYTES * TURNS * cores / min(slowest)


def moved(operation: str, ranks: int, size: int) -> int:
    """Return the bytes that any way of doing it moves: every input read once, every output written once, by all ranks.

    ``size`` is S in bytes: the larger buffer of a rank.
    """
    part = size // ranks
    read = part if operation == "all_gather" else size
    written = part if operation == "reduce_scatter" else size
    return ranks * (read + written)


def _copy(barrier: Any, results: Any, rounds: int) -> None:
    source, target = (np.ones(BYTES // 8 + 8, np.float64)[: BYTES // 8] for _ in range(2))
    spans = []
    for _ in range(rounds):
        barrier.wait()
        begin = time.perf_counter()
        for _ in range(TURNS):
            np.copyto(target, source)
        spans.append(time.perf_counter() - begin)
    results.put(spans)
