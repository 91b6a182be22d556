"""The cpu backend: kernel.cu compiled by a C++ compiler, every block of every rank a thread or a fibre.

Reads manifest data and kernel.cu only. Scratch, counters and block state of a variant live as long as the backend:
counters are never reset between calls, except after a call that failed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acclc_runtime.backends.base import Call
from acclc_runtime.backends.build import build_library, find_compiler
from acclc_runtime.backends.kernel_file import (
    COUNTER_STRIDE,
    Instance,
    Report,
    counters_at,
    failure,
    kernel_path,
    kernel_text,
)
from acclc_runtime.dtypes import named
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError, BuildError
from acclc_runtime.locks import ProcessLock
from acclc_runtime.manifest import ManifestCollective, ManifestVariant
from acclc_runtime.slicing import SLICE_BYTES, plan_slices, slice_bytes_of, slot_bytes_of

NATIVE_ABI = 4
_NATIVE_SOURCE = Path(__file__).resolve().parent.parent / "native" / "accl_native.cpp"
_NATIVE_FLAGS = ("-std=c++20",)
KERNEL_FLAGS = ("-std=c++17",)
_TRACE_FLAG = "-DACCL_TRACE"
_CACHE_LINE = 64
_MODES = {"threads": 0, "fibres": 1}


class _Member(ctypes.Structure):
    _fields_ = (
        ("input", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
    )


class _Report(ctypes.Structure):
    _fields_ = (
        ("reason", ctypes.c_uint32),
        ("step", ctypes.c_int32),
        ("transfer", ctypes.c_int32),
        ("home", ctypes.c_uint32),
        ("slot", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("wanted", ctypes.c_uint64),
        ("present", ctypes.c_uint64),
        ("slice", ctypes.c_uint64),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        ("members", ctypes.c_void_p),
        ("reports", ctypes.c_void_p),
        ("abort", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("slices", ctypes.c_uint64),
        ("slot_bytes", ctypes.c_uint64),
        ("timeout_ns", ctypes.c_uint64),
        ("streaming", ctypes.c_uint64),
        ("lengths", ctypes.c_void_p),
        ("tag", ctypes.c_uint64),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("mode", ctypes.c_uint32),
        ("blocks", ctypes.c_uint32),
        ("block_threads", ctypes.c_uint32),
        ("trace", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("delay_ns", ctypes.c_uint64),
        ("delayed", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint32),
        ("step", ctypes.c_int32),
        ("transfer", ctypes.c_int32),
        ("spare", ctypes.c_uint32),
        ("slice", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("begin_ns", ctypes.c_uint64),
        ("end_ns", ctypes.c_uint64),
        ("begin_order", ctypes.c_uint64),
        ("end_order", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Event:
    """One put of one slice in a traced call. Times are ns since the call began; orders count the call's events.

    ``transfer`` is -1 for local work.
    """

    rank: int
    block: int
    channel: int
    step: int
    transfer: int
    slice: int
    bytes: int
    begin_ns: int
    end_ns: int
    begin_order: int
    end_order: int


@dataclass(frozen=True, slots=True)
class Delay:
    """Makes one block late in every call, to see what depends on it: by ``seconds`` with threads.

    With fibres it runs only when nothing else can, whatever the seconds.
    """

    rank: int
    block: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CpuOptions:
    """How kernels run.

    ``mode``: ``threads`` (OS threads) or ``fibres`` (one thread, one order; ``seed`` 0 takes turns, another seed
    shuffles them; a deadlock is found at once). ``block_threads``: threads a block. ``slice_bytes``: see
    :mod:`acclc_runtime.slicing`. ``trace`` keeps the events of the last call.
    """

    mode: str = "threads"
    block_threads: int = 1
    seed: int = 0
    slice_bytes: int = SLICE_BYTES
    trace: bool = False
    delay: Delay | None = None

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ArgumentError(f"mode={self.mode!r} is not known; it can be {' or '.join(_MODES)}")
        for name, least, most in (("block_threads", 1, 1024), ("seed", 0, 2**64 - 1), ("slice_bytes", 64, 2**40)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ArgumentError(f"{name}={value!r} is no whole number from {least} to {most}")


def _aligned(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return zeroed bytes that start on a cache line."""
    raw = np.zeros(nbytes + _CACHE_LINE, np.uint8)
    first = -raw.ctypes.data % _CACHE_LINE
    return raw[first : first + nbytes]


class _Memory:
    """Scratch, counters, block state and reports of one variant."""

    def __init__(self, collective: ManifestCollective, variant: ManifestVariant) -> None:
        self.variant = variant
        self.numbers = len(variant.blocks) * variant.channels
        line = COUNTER_STRIDE * 8 * variant.channels
        self.counters = [_aligned(len(c) * line) for c in counters_at(collective, variant)]
        blocks = [sum(b.rank == rank for b in variant.blocks) for rank in collective.ranks]
        self.state = [_aligned(n * line) for n in blocks]
        self.scratch = [_aligned(0) for _ in collective.ranks]
        self.slot_bytes = 0
        self.reports = (_Report * self.numbers)()
        self.abort = ctypes.c_uint32(0)
        self.members = (_Member * len(collective.ranks))()
        self.in_use = False
        """A call has begun and nobody saw its end (Ctrl-C between its return and the look at it, or a fork)."""
        self._point()

    def reserve(self, slot_bytes: int) -> None:
        """Make scratch slots at least so long; they keep nothing between calls."""
        if slot_bytes <= self.slot_bytes:
            return
        slots = self.variant.channels * self.variant.slot_depth * slot_bytes
        self.scratch = [_aligned(n * slots) for n in self.variant.slots]
        self.slot_bytes = slot_bytes
        self._point()

    def _point(self) -> None:
        for n, member in enumerate(self.members):
            member.scratch = self.scratch[n].ctypes.data
            member.counters = self.counters[n].ctypes.data
            member.state = self.state[n].ctypes.data

    def take_reports(self) -> list[Report]:
        """Return what failed, and make everything as new."""
        found = [
            Report(n, r.reason, r.step, r.transfer, r.home, r.slot, r.wanted, r.present, r.slice)
            for n, r in enumerate(self.reports)
            if r.reason
        ]
        lines = self.scratch if self.variant.protocol == "ll" else ()  # slices count from 0 again: no flag may be there
        for words in (*self.counters, *self.state, *lines):
            words.fill(0)
        ctypes.memset(self.reports, 0, ctypes.sizeof(self.reports))
        self.abort.value = 0
        self.in_use = False
        return found


class CpuBackend:
    """Runs kernels on the processor. See :class:`CpuOptions` for the options; calls from several threads take turns.

    Raises:
        BackendUnavailableError: no C++ compiler, or no folder to keep compiled kernels.
        ArgumentError: an option that is not known or does not fit.
    """

    name = "cpu"

    def __init__(self, artefact: Path, **options: object) -> None:
        try:
            self.options = CpuOptions(**options)  # type: ignore[arg-type]
        except TypeError as error:
            raise ArgumentError(f"cpu backend: {str(error).removeprefix('CpuOptions.__init__() ')}") from None
        self._artefact = artefact
        self._compiler = find_compiler()
        self._native = _load_native()
        self._pool: int | None = None
        self._owner = os.getpid()
        self._lock = ProcessLock()
        self._kernels: dict[tuple[str, Instance], tuple[ctypes.CDLL, int]] = {}
        self._memories: dict[str, _Memory] = {}
        self._last: tuple[ManifestVariant, int] | None = None

    def describe(self) -> str:
        """Say what runs the kernels."""
        cores = len(os.sched_getaffinity(0))
        each = f", {self.options.block_threads} threads a block" if self.options.block_threads > 1 else ""
        how = "fibres on one thread" if self.options.mode == "fibres" else f"threads on {cores} cores"
        return f"cpu: {how}{each}, compiled by {self._compiler.version}"

    def run(self, call: Call) -> None:
        """Run a call to the end; buffers of any alignment. See :class:`acclc_runtime.backends.base.Backend`."""
        with self._lock:
            kernel = self._kernel(call)
            memory = self._memory(call)
            if memory.in_use:
                memory.take_reports()
            slicing = plan_slices(
                call.count,
                named(call.dtype).item_bytes,
                call.variant.longest_chunk,
                call.variant.channels,
                slice_bytes_of(call.variant, self.options.slice_bytes),
            )
            piece = slicing.piece_elements * named(call.dtype).item_bytes
            memory.reserve(slot_bytes_of(call.variant, piece))
            _place_buffers(memory, call.inputs, call.outputs)
            lengths = None if call.lengths is None else call.lengths.words()
            launch = _Launch(
                ctypes.addressof(memory.members),
                ctypes.addressof(memory.reports),
                ctypes.addressof(memory.abort),
                call.count,
                slicing.slices,
                memory.slot_bytes,
                min(int(call.timeout_s * 1e9), 2**62),
                0,
                None if lengths is None else lengths.ctypes.data,
            )
            self._last = (call.variant, memory.numbers)
            memory.in_use = True
            status = self._native.accl_pool_run(
                self._open_pool(), ctypes.byref(self._native_options(call.variant)), kernel, ctypes.byref(launch)
            )
            if status == 2:
                raise AcclcRuntimeError(
                    f"{call.collective.name}/{call.variant.id}: no {memory.numbers * self.options.block_threads} "
                    f"{self.options.mode} to be had (ulimit -u, memory); use mode='fibres' or fewer block_threads"
                )
            if status != 0:
                raise failure(call.collective, call.variant, memory.take_reports(), call.timeout_s)
            memory.in_use = False

    def events(self) -> tuple[Event, ...]:
        """Return the events of the last call of a traced backend, in the order in which they began."""
        if self._pool is None or self._last is None:
            return ()
        variant = self._last[0]
        number = self._native.accl_pool_events(self._pool, None, 0)
        raw = (_Event * number)()
        self._native.accl_pool_events(self._pool, raw, number)
        found = []
        for e in raw:
            block = variant.blocks[e.number // variant.channels]
            found.append(
                Event(
                    block.rank, block.index, e.number % variant.channels, e.step, e.transfer, e.slice, e.bytes,
                    e.begin_ns, e.end_ns, e.begin_order, e.end_order,
                )
            )  # fmt: skip
        return tuple(sorted(found, key=lambda event: event.begin_order))

    def delay_end(self) -> tuple[int, int]:
        """Return when the delay of the last call ended: its order among the events, and ns since the call began."""
        order, time = ctypes.c_uint64(0), ctypes.c_uint64(0)
        if self._pool is not None:
            self._native.accl_pool_delay_end(self._pool, ctypes.byref(order), ctypes.byref(time))
        return order.value, time.value

    def close(self) -> None:
        """End the threads and free everything."""
        with self._lock:
            if self._pool is not None and self._owner == os.getpid():
                self._native.accl_pool_destroy(self._pool)
            self._pool = None
            self._memories.clear()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.close()

    def _open_pool(self) -> int:
        if self._owner != os.getpid():  # a fork has the memory but not the threads
            self._pool, self._owner = None, os.getpid()
        if self._pool is None:
            self._pool = self._native.accl_pool_create()
            if not self._pool:
                raise MemoryError("no memory for the threads of a group")
        return self._pool

    def _native_options(self, variant: ManifestVariant) -> _Options:
        options, delay = self.options, self.options.delay
        delayed, delay_ns = 0, 0
        if delay is not None:
            numbers = [n for n, b in enumerate(variant.blocks) if (b.rank, b.index) == (delay.rank, delay.block)]
            if numbers:
                delayed, delay_ns = numbers[0] * variant.channels, max(1, int(delay.seconds * 1e9))
        return _Options(
            _MODES[options.mode],
            len(variant.blocks) * variant.channels,
            options.block_threads,
            int(options.trace),
            options.seed,
            delay_ns,
            delayed,
            0,
        )

    def _memory(self, call: Call) -> _Memory:
        memory = self._memories.get(call.variant.folder)
        if memory is None:
            memory = self._memories[call.variant.folder] = _Memory(call.collective, call.variant)
        return memory

    def _kernel(self, call: Call) -> int:
        """Return the address of the kernel's entry, built for the call's type and operator if it is new."""
        instance = Instance.of(call)
        known = self._kernels.get((call.variant.folder, instance))
        if known is None:
            path = kernel_path(self._artefact, call.variant)
            text = kernel_text(path, call.collective, call.variant)
            traced = (_TRACE_FLAG,) if self.options.trace else ()
            library = load_library(path, text, (*KERNEL_FLAGS, *instance.flags, *traced))
            address = ctypes.cast(library.accl_thread, ctypes.c_void_p).value
            if address is None:
                raise BuildError(f"{path}: the compiled kernel has no entry")
            known = self._kernels[(call.variant.folder, instance)] = (library, address)
        return known[1]


def _place_buffers(memory: _Memory, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    for member, source, target in zip(memory.members, inputs, outputs, strict=True):
        member.input = source.ctypes.data
        member.output = target.ctypes.data


def load_library(source: Path, text: bytes, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Build and load; a kept library that cannot be loaded (from another system, say) is built again once."""
    try:
        return ctypes.CDLL(str(build_library(source, text, flags)))
    except OSError:
        pass
    try:
        return ctypes.CDLL(str(build_library(source, text, flags, fresh=True)))
    except OSError as error:
        raise BuildError(f"{source}: the compiled library cannot be loaded: {error}") from None


def _load_native() -> ctypes.CDLL:
    header = _NATIVE_SOURCE.with_suffix(".h").read_bytes().replace(b"#pragma once\n", b"", 1)
    text = _NATIVE_SOURCE.read_bytes().replace(b'#include "accl_native.h"\n', header, 1)
    library = load_library(_NATIVE_SOURCE, text, _NATIVE_FLAGS)
    library.accl_native_abi.restype = ctypes.c_uint32
    if library.accl_native_abi() != NATIVE_ABI:
        raise BuildError(f"{_NATIVE_SOURCE} is of another version than {Path(__file__).name}: install acclc again")
    pointer = ctypes.c_void_p
    library.accl_pool_create.restype = pointer
    library.accl_pool_create.argtypes = ()
    library.accl_pool_destroy.restype = None
    library.accl_pool_destroy.argtypes = (pointer,)
    library.accl_pool_run.restype = ctypes.c_int
    library.accl_pool_run.argtypes = (pointer, pointer, pointer, pointer)
    library.accl_pool_events.restype = ctypes.c_uint64
    library.accl_pool_events.argtypes = (pointer, pointer, ctypes.c_uint64)
    library.accl_pool_delay_end.restype = None
    library.accl_pool_delay_end.argtypes = (pointer, pointer, pointer)
    return library
