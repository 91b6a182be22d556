"""Collectives through an MPI, one process a rank: a program for mpiexec; needs mpi4py and NumPy, nothing of acclc.

    mpiexec -n N python mpi_program.py CELLS

CELLS is a JSON list of [operation, S in bytes, calls to time, NumPy type, operator]. Arrays are out of place, aligned
on 64 bytes. Prints [version, [seconds a call, or null for what MPI does not have, ...]] from rank 0.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

WARM_UP = 3
OPERATORS = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}


def aligned(length: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return zeros that begin on 64 bytes."""
    raw = np.zeros(length * dtype.itemsize + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + length * dtype.itemsize].view(dtype)


def timed(comm: Any, name: str, size: int, turns: int, type_name: str = "f4", op: str | None = "sum") -> float | None:
    """Return the seconds a call of one collective; None for what MPI does not have."""
    n, dtype = comm.Get_size(), np.dtype(type_name)
    operator: Any = OPERATORS.get(op or "sum")
    if operator is None:
        return None
    divided = name in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
    whole = max(n, size // dtype.itemsize) // n * n if divided else max(1, size // dtype.itemsize)
    x = aligned(whole // n if name in ("all_gather", "gather") else whole, dtype)
    y = aligned(whole // n if name in ("reduce_scatter", "scatter") else whole, dtype)
    x[:] = 1
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: comm.Allreduce(x, y, operator),
        "all_gather": lambda: comm.Allgather(x, y),
        "reduce_scatter": lambda: comm.Reduce_scatter_block(x, y, operator),
        "all_to_all": lambda: comm.Alltoall(x, y),
        "broadcast": lambda: comm.Bcast(x),
        "reduce": lambda: comm.Reduce(x, y, operator),
        "gather": lambda: comm.Gather(x, y),
        "scatter": lambda: comm.Scatter(x, y),
    }
    if name not in calls:
        return None
    call = calls[name]
    for _ in range(max(WARM_UP, turns // 10)):
        call()
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(turns):
        call()
    return (time.perf_counter() - begin) / turns


def main() -> None:
    """Time the cells of the command line."""
    comm: Any = MPI.COMM_WORLD
    seconds = [timed(comm, *cell) for cell in json.loads(sys.argv[1])]
    if comm.Get_rank() == 0:
        print(json.dumps([MPI.Get_library_version().split("\n")[0].strip(), seconds]))


if __name__ == "__main__":
    main()
