"""A communicator's call in a loop of C, without Python between the calls: what a plan in C++ is compared with."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SOURCE = """
typedef int (*Run)(void* comm, void* plan, const void* input, void* output, int wait);
int repeat(void* run, void* comm, void* plan, const void* input, void* output, int turns) {
    for (int i = 0; i < turns; ++i) {
        const int status = ((Run)run)(comm, plan, input, output, 1);
        if (status != 0) return status;
    }
    return 0;
}
"""


def build(into: Path) -> Path:
    """Compile the loop; return the library."""
    library = into / "plan_loop.so"
    command = ["gcc", "-O2", "-shared", "-fPIC", "-xc", "-", "-o", str(library)]
    subprocess.run(command, input=SOURCE.encode(), check=True)
    return library


def seconds(library: Path, comm: Any, call: Callable[..., Any], x: Array, y: Array, turns: int) -> float:
    """Return the seconds of a call that this communicator has not made before, by its plan.

    Plans and the native communicator are not public: nobody but a benchmark calls without the method before them.
    """
    plans = comm._plans._plans
    before = len(plans)
    call(x, out=y)
    if len(plans) != before + 1:
        raise RuntimeError("the call has made no plan of its own")
    plan = next(reversed(plans.values())).address
    native = comm._native
    run = ctypes.cast(native._library.accl_comm_run, ctypes.c_void_p)
    words = [ctypes.c_void_p(word) for word in (native._comm, plan, x.ctypes.data, y.ctypes.data)]
    repeat = ctypes.CDLL(str(library)).repeat
    for times in (max(2, turns // 10), turns):
        begin = time.perf_counter()
        if repeat(run, *words, times) != 0:
            raise RuntimeError("the call failed")
        taken = (time.perf_counter() - begin) / times
    return taken
