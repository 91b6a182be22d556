"""The same collectives through an MPI, one process a rank: run by mpiexec, prints JSON.

    mpiexec -n N python mpi_peer.py CELLS

CELLS is a JSON list of [operation, S in bytes, calls to time]. Arrays are float32, out of place, aligned on 64 bytes.
Prints [version, [seconds a call, ...]] from rank 0.
"""

import json
import sys
import time

import numpy as np
from mpi4py import MPI

WARM_UP = 3


def aligned(length):
    raw = np.zeros(length * 4 + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + length * 4].view(np.float32)


def timed(comm, name, size, turns):
    n = comm.Get_size()
    whole = max(1, size // 4) if name == "all_reduce" else max(n, size // 4) // n * n
    x = aligned(whole // n if name == "all_gather" else whole)
    y = aligned(whole // n if name == "reduce_scatter" else whole)
    x[:] = 1
    method = {
        "all_reduce": comm.Allreduce,
        "all_gather": comm.Allgather,
        "reduce_scatter": comm.Reduce_scatter_block,
        "all_to_all": comm.Alltoall,
    }[name]
    for _ in range(max(WARM_UP, turns // 10)):
        method(x, y)
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(turns):
        method(x, y)
    return (time.perf_counter() - begin) / turns


def main():
    comm = MPI.COMM_WORLD
    seconds = [timed(comm, *cell) for cell in json.loads(sys.argv[1])]
    if comm.Get_rank() == 0:
        print(json.dumps([MPI.Get_library_version().split("\n")[0].strip(), seconds]))


main()
