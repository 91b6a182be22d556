"""The native side alone: waits, barriers, time-outs. The kernel is a Python function."""

from __future__ import annotations

import ctypes
import shutil
import time
from collections.abc import Callable

import numpy as np
import pytest

from acclc_runtime.backends import cpu

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

ARRIVED, TIMED_OUT, ABORTED = 0, 1, 2

Wait = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
Vote = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)


class Host(ctypes.Structure):
    _fields_ = (("wait", Wait), ("vote", Vote), ("trace", ctypes.c_void_p))


Entry = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.POINTER(Host),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.c_uint32,
    ctypes.c_uint32,
    ctypes.c_uint32,
)

Body = Callable[[Host, int, ctypes.Array[ctypes.c_uint64], int, int], None]


def run(body: Body, blocks: int, threads: int = 1, timeout_s: float = 60.0) -> None:
    """Run ``body(host, runner, progress, block, thread)`` as threads; fibres are no place for Python."""
    native = cpu._load_native()
    abort = ctypes.c_uint32(0)
    launch = cpu._Launch(0, 0, ctypes.addressof(abort), 0, 0, 0, int(timeout_s * 1e9))
    options = cpu._Options(cpu._MODES["threads"], blocks, threads, 0, 0, 0, 0, 0)

    def entry(
        _: int, host: Host, runner: int, progress: ctypes.Array[ctypes.c_uint64], n: int, t: int, __: int
    ) -> None:
        body(host.contents, runner, progress, n, t)  # type: ignore[attr-defined]

    kernel = Entry(entry)
    pool = native.accl_pool_create()
    native.accl_pool_run(pool, ctypes.byref(options), kernel, ctypes.byref(launch))
    native.accl_pool_destroy(pool)


def test_progress_of_others_resets_the_time_out() -> None:
    counter = np.zeros(1, np.uint64)
    reasons = []

    def body(host: Host, runner: int, progress: ctypes.Array[ctypes.c_uint64], block: int, _: int) -> None:
        if block == 0:
            reasons.append(host.wait(runner, counter.ctypes.data, 1))
            return
        for _turn in range(100):
            progress[0] += 1
            time.sleep(0.02)
        counter[0] = 1

    run(body, 2, timeout_s=1.0)
    assert reasons == [ARRIVED]


def test_without_progress_a_wait_ends_with_a_time_out() -> None:
    counter = np.zeros(1, np.uint64)
    reasons = []

    def body(host: Host, runner: int, progress: ctypes.Array[ctypes.c_uint64], block: int, _: int) -> None:
        if block == 0:
            reasons.append(host.wait(runner, counter.ctypes.data, 1))

    run(body, 2, timeout_s=0.05)
    assert reasons == [TIMED_OUT]


def test_a_vote_gives_everybody_the_largest() -> None:
    found: list[tuple[int, int]] = []

    def body(host: Host, runner: int, progress: ctypes.Array[ctypes.c_uint64], block: int, thread: int) -> None:
        for turn in range(20):
            mine = 3 if thread == turn % 3 and turn % 2 == block else 0
            found.append((turn % 2 == block, host.vote(runner, mine)))

    run(body, 2, 3)
    assert len(found) == 2 * 3 * 20
    assert all(largest == (3 if voted else 0) for voted, largest in found)


def test_a_thread_sees_that_another_gave_up() -> None:
    counter = np.zeros(1, np.uint64)
    native = cpu._load_native()
    assert native.accl_native_abi() == cpu.NATIVE_ABI
    abort = ctypes.c_uint32(1)
    reasons = []

    def entry(_: int, host: Host, runner: int, *__: object) -> None:
        reasons.append(host.contents.wait(runner, counter.ctypes.data, 1))  # type: ignore[attr-defined]

    kernel = Entry(entry)
    launch = cpu._Launch(0, 0, ctypes.addressof(abort), 0, 0, 0, 10**12)
    options = cpu._Options(0, 1, 1, 0, 0, 0, 0, 0)
    pool = native.accl_pool_create()
    assert native.accl_pool_run(pool, ctypes.byref(options), kernel, ctypes.byref(launch)) == 1
    native.accl_pool_destroy(pool)
    assert reasons == [ABORTED]
