"""A hand-written direct plan in C++ (one file, core.cpp), one process a rank on one shared mapping: seconds a call.

Each rank reduces its part over all inputs and stores it to all outputs, between two barriers: what generated kernels
are measured against. The loop over calls is in C++, so the figures hold no Python call.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

DIRECT, HUGE_PAGE = 1, 2 << 20
CODES = {"all_reduce": 0, "all_gather": 1, "reduce_scatter": 2, "all_to_all": 3}
Cell = tuple[str, int, int]


def build(folder: Path, into: Path) -> Path:
    """Compile ``folder``/core.cpp; return the library."""
    library = into / "hand_written.so"
    flags = ["-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-pthread", "-w"]
    subprocess.run(["g++", *flags, str(folder / "core.cpp"), "-o", str(library)], check=True)
    return library


def seconds(library: Path, ranks: int, cells: list[Cell]) -> list[float]:
    """Return the seconds a call of rank 0, of each cell."""
    core = ctypes.CDLL(str(library))
    core.accl_hdr_bytes.restype = ctypes.c_size_t
    core.accl_open.restype = ctypes.c_void_p
    part = -(-max(size for _, size, _ in cells) // HUGE_PAGE) * HUGE_PAGE
    head = -(-core.accl_hdr_bytes() // HUGE_PAGE) * HUGE_PAGE
    segment = os.memfd_create("hand_written")
    os.ftruncate(segment, head + 2 * part * ranks)
    memory = mmap.mmap(segment, head + 2 * part * ranks)
    base = np.frombuffer(memory, np.uint8).ctypes.data
    core.accl_init(ctypes.c_void_p(base), ranks)
    children = []
    for rank in range(1, ranks):
        child = os.fork()
        if child == 0:
            try:
                _run(core, base, rank, ranks, head, part, cells)
            finally:
                os._exit(0)
        children.append(child)
    result = _run(core, base, 0, ranks, head, part, cells)
    for child in children:
        os.waitpid(child, 0)
    os.close(segment)
    return result


def _run(core: ctypes.CDLL, base: int, rank: int, ranks: int, head: int, part: int, cells: list[Cell]) -> list[float]:
    context = ctypes.c_void_p(core.accl_open(ctypes.c_void_p(base), ranks, rank))
    spins = 2000 if ranks <= (os.cpu_count() or 1) else 0
    # stores go past the caches from 16 MiB in all; parts of 64 KiB; blocked through the first cache for N targets
    core.accl_set(context, spins, 200, ctypes.c_size_t(16 << 20), ctypes.c_size_t(64 << 10), 1, 2)
    first = base + head + 2 * part * rank
    source, target = ctypes.c_void_p(first), ctypes.c_void_p(first + part)
    # the numbers of the other benchmarks: this processor writes zeros to memory nearly twice as fast as anything else
    np.frombuffer((ctypes.c_uint8 * (2 * part)).from_address(first), np.float32)[:] = rank + 1
    found = []
    for name, size, turns in cells:
        length = ctypes.c_size_t(max(1, size // 4) if name == "all_reduce" else max(ranks, size // 4) // ranks * ranks)
        for warm_up, times in ((True, max(2, turns // 10)), (False, turns)):
            core.accl_barrier(context)
            begin = time.perf_counter()
            if core.accl_loop(context, CODES[name], DIRECT, source, target, length, times) != 0:
                raise RuntimeError("the hand-written plan failed")
            if not warm_up:
                found.append((time.perf_counter() - begin) / turns)
    core.accl_barrier(context)
    core.accl_close(context)
    return found


if __name__ == "__main__":
    import json

    print(json.dumps(seconds(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))))
