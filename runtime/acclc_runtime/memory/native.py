"""The native side of a communicator: ctypes for what is done once, plain Python callables for calls."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from acclc_runtime.backends.cpu import _Report, load_library
from acclc_runtime.backends.kernel_file import Report
from acclc_runtime.errors import AcclcRuntimeError, BuildError

JOIN_ABI = 3
_FOLDER = Path(__file__).resolve().parent.parent / "native"
_FLAGS = ("-std=c++20",)

_PARTS = (
    "accl_native.h",
    "accl_join.h",
    "accl_fibre.h",
    "accl_rank.h",
    "accl_fibre.cpp",
    "accl_rank_calls.cpp",
    "accl_rank_memory.cpp",
    "accl_rank_waits.cpp",
    "accl_join.cpp",
    "accl_join_python.cpp",
)
"""The library's files, headers before what includes them: they are built as one text."""

DONE, FAILED, BROKEN, NO_STAGING, BUSY, NO_MEMORY, UNKNOWN = range(7)
"""Status of a call: see accl_join.h."""

TIMED_OUT, ABORTED = 1, 2
ENTRY_TIMED_OUT, MISMATCH, DIED, CLOSED, INTERRUPTED = range(4, 9)
"""Why a call failed."""

EITHER = 2
"""``in_place`` of a rank that has not both buffers."""

WORDS_BYTES = 2048
IN_PLACE_CODES = {"same": 1, "input_in_output": 2, "output_in_input": 3}


class NativeCall(ctypes.Structure):
    """What a rank is calling: accl_call."""

    _fields_ = (
        ("sequence", ctypes.c_uint64),
        ("group", ctypes.c_uint32),
        ("collective", ctypes.c_uint32),
        ("variant", ctypes.c_uint32),
        ("dtype", ctypes.c_uint32),
        ("op", ctypes.c_uint32),
        ("in_place", ctypes.c_uint32),
        ("count", ctypes.c_uint64),
        ("output", ctypes.c_uint64),
        ("input", ctypes.c_uint64),
    )


class Cause(ctypes.Structure):
    """Why a call failed: accl_cause."""

    _fields_ = (
        ("reason", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("mine", NativeCall),
        ("theirs", NativeCall),
        ("waited_ns", ctypes.c_uint64),
    )


class ScheduleOptions(ctypes.Structure):
    """accl_schedule_options."""

    _fields_ = (
        ("members", ctypes.c_uint32),
        ("position", ctypes.c_uint32),
        ("group", ctypes.c_uint32),
        ("first_number", ctypes.c_uint32),
        ("numbers", ctypes.c_uint32),
        ("all_numbers", ctypes.c_uint32),
        ("counters", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
        ("ranks", ctypes.c_void_p),
        ("counters_at", ctypes.c_void_p),
        ("scratch_at", ctypes.c_void_p),
        ("writers", ctypes.c_void_p),
    )


class PlanOptions(ctypes.Structure):
    """accl_plan_options."""

    _fields_ = (
        ("schedule", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("call", NativeCall),
        ("slices", ctypes.c_uint64),
        ("slot_bytes", ctypes.c_uint64),
        ("input_bytes", ctypes.c_uint64),
        ("output_bytes", ctypes.c_uint64),
        ("streaming", ctypes.c_uint32),
        ("shared_input", ctypes.c_uint32),
        ("shared_output", ctypes.c_uint32),
        ("holes", ctypes.c_uint32),
        ("tagged", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
        ("lengths", ctypes.c_void_p),
    )


class MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@lru_cache(maxsize=1)
def native_library() -> ctypes.CDLL:
    """Return the library, built if need be."""
    text = b"\n".join((_FOLDER / name).read_bytes() for name in _PARTS)
    text = re.sub(rb'#pragma once\n|#include "accl_\w+\.h"\n', b"", text)
    library = load_library(_FOLDER / "accl_join.cpp", text, _FLAGS)
    library.accl_join_abi.restype = ctypes.c_uint32
    if library.accl_join_abi() != JOIN_ABI:
        raise BuildError(f"{_FOLDER / 'accl_join.cpp'} is of another version than {Path(__file__).name}: install again")
    pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "accl_rows_kernel": (pointer, ()),
        "accl_comm_create": (pointer, (u32, u32, u32, u64, u64)),
        "accl_comm_map": (pointer, (pointer, u32, ctypes.c_int, ctypes.c_int, u64, u64)),
        "accl_comm_staging": (None, (pointer, u64, u64)),
        "accl_schedule_create": (pointer, (pointer, pointer)),
        "accl_plan_create": (pointer, (pointer, pointer)),
        "accl_comm_forget_plans": (u64, (pointer,)),
        "accl_comm_cause": (None, (pointer, pointer)),
        "accl_comm_reports": (u32, (pointer, pointer)),
        "accl_comm_abort": (None, (pointer,)),
        "accl_comm_say": (None, (pointer, ctypes.c_char_p)),
        "accl_comm_heard": (u32, (pointer, u32, ctypes.c_char_p)),
        "accl_comm_close": (None, (pointer,)),
        "accl_comm_destroy": (None, (pointer,)),
        "accl_calls_create": (pointer, (pointer,)),
        "accl_calls_close": (None, (pointer,)),
        "accl_calls_running": (u32, (pointer,)),
        "accl_calls_forget": (None, (pointer,)),
        "accl_calls_forget_ways": (None, (pointer,)),
        "accl_calls_way": (None, (pointer, ctypes.c_int, pointer, u32)),
        "accl_calls_family": (ctypes.c_int, (pointer, u32, u64, u64, u64)),
        "accl_method": (pointer, (ctypes.c_int, ctypes.py_object, ctypes.c_int, pointer, pointer)),
        "accl_arrays": (None, (pointer, pointer, ctypes.c_int, pointer, pointer, pointer)),
        "accl_calls_add": (None, (pointer, u32, u32, u64, u64, u32, pointer)),
    }
    holding = ctypes.PyDLL(library._name, handle=library._handle)  # what calls read holding the interpreter
    for name, (result, arguments) in signatures.items():
        function = getattr(holding if name.startswith(("accl_calls_", "accl_method", "accl_arrays")) else library, name)
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


def _callable(library: ctypes.CDLL, name: str, calls: int) -> Callable[..., int]:
    """Make a Python callable of a C function, with ``calls`` as its self."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    method = MethodDef.in_dll(library, name)
    made: Callable[..., int] = make(ctypes.addressof(method), calls, None)
    return made


class NativeComm:
    """Owns the native communicator and the mappings; gone when nobody holds it or an array in its memory."""

    def __init__(self, rank: int, world: int, cores: int, entry_timeout_s: float, timeout_s: float) -> None:
        self._library = native_library()
        self._owner = os.getpid()
        limits = [min(int(seconds * 1e9), 2**62) for seconds in (entry_timeout_s, timeout_s)]
        self._comm: int | None = self._library.accl_comm_create(rank, world, cores, *limits)
        self._calls: int | None = self._library.accl_calls_create(self._comm) if self._comm else None
        if not self._comm or not self._calls:
            raise MemoryError("no memory for a communicator")
        self._files: list[int] = []
        self.run = _callable(self._library, "accl_run_method", self._calls)
        """``run(plan, input address, output address)``: the status of a call."""

    def hold(self, file: int) -> None:
        """Close the file with everything else."""
        self._files.append(file)

    def map(self, rank: int, segment: int, process: int, offset: int, nbytes: int) -> int:
        """Map a part of a rank's segment and return where; ``process`` tells that it has died (-1: nothing does)."""
        at = self._library.accl_comm_map(self._comm, rank, segment, process, offset, nbytes)
        if not at:
            raise AcclcRuntimeError(f"rank {rank}'s memory ({nbytes} bytes) cannot be mapped: not enough memory")
        return int(at)

    def staging(self, offset: int, nbytes: int) -> None:
        """Set the part of the own segment where private outputs are received."""
        self._library.accl_comm_staging(self._comm, offset, nbytes)

    def schedule(self, options: ScheduleOptions) -> int:
        """Make a schedule."""
        return self._made(self._library.accl_schedule_create(self._comm, ctypes.byref(options)))

    def plan(self, options: PlanOptions) -> int:
        """Make a plan."""
        return self._made(self._library.accl_plan_create(self._comm, ctypes.byref(options)))

    def rows_kernel(self) -> int:
        """Return the kernel that gives every rank the rows of all."""
        return int(self._library.accl_rows_kernel())

    @property
    def calls(self) -> int:
        """What the short ways of a communicator know its calls by."""
        assert self._calls is not None
        return self._calls

    def family(self, in_place: str, position: int, input_units: int, output_units: int) -> int:
        """Number what a user calls: a collective with an operator and a type."""
        code = IN_PLACE_CODES.get(in_place, 0)
        return int(self._library.accl_calls_family(self._calls, code, position, input_units, output_units))

    def way(self, method: int, said: Sequence[Any], family: int) -> None:
        """Let the short ways know what a call says, by word: None where it says nothing."""
        words = (ctypes.py_object * len(said))(*said)
        self._library.accl_calls_way(self._calls, method, ctypes.addressof(words), family)

    def forget_ways(self) -> None:
        """Make every call take the long way again, until it says so."""
        self._library.accl_calls_forget_ways(self._calls)

    def prepare(self, family: int, format: str, sizes: tuple[int, int], in_place: bool, plan: int) -> None:
        """Let the short ways know a plan."""
        self._library.accl_calls_add(self._calls, family, ord(format), *sizes, int(in_place), plan)

    def forget(self) -> bool:
        """Forget all plans, unless a call is running."""
        if self._library.accl_calls_running(self._calls):
            return False
        self._library.accl_calls_forget(self._calls)
        self._library.accl_comm_forget_plans(self._comm)
        return True

    def cause(self) -> Cause:
        """Return why a call failed."""
        cause = Cause()
        self._library.accl_comm_cause(self._comm, ctypes.byref(cause))
        return cause

    def reports(self) -> list[Report]:
        """Return what the blocks said whose waits failed, of the last call."""
        at = ctypes.c_void_p()
        number = self._library.accl_comm_reports(self._comm, ctypes.byref(at))
        raw = (_Report * number).from_address(at.value or 0) if number else ()
        return [
            Report(n, r.reason, r.step, r.transfer, r.home, r.slot, r.wanted, r.present, r.slice)
            for n, r in enumerate(raw)
            if r.reason
        ]

    def abort(self) -> None:
        """Make the calls of all ranks end."""
        self._library.accl_comm_abort(self._comm)

    def say(self, words: str) -> None:
        """Tell the others why."""
        self._library.accl_comm_say(self._comm, words.encode(errors="replace")[:WORDS_BYTES])

    def heard(self, rank: int) -> str:
        """Return what a rank said; "" if nothing."""
        text = ctypes.create_string_buffer(WORDS_BYTES)
        length = self._library.accl_comm_heard(self._comm, rank, text)
        return text.raw[:length].decode(errors="replace")

    def disable(self) -> None:
        """Let no call of this process begin any more (a forked child's, say)."""
        self._library.accl_calls_close(self._calls)

    @property
    def running(self) -> int:
        """How many threads are in a call."""
        return int(self._library.accl_calls_running(self._calls))

    def close(self) -> None:
        """Tell the others that this rank is gone; waits for a running call."""
        self.disable()
        self._library.accl_comm_close(self._comm)

    def __del__(self) -> None:
        comm, self._comm = getattr(self, "_comm", None), None
        if comm:
            if self._owner == os.getpid():  # a forked child says nothing: its parent is the rank
                self._library.accl_comm_close(comm)
            self._library.accl_comm_destroy(comm)
        for file in getattr(self, "_files", ()):
            with contextlib.suppress(OSError):
                os.close(file)

    @staticmethod
    def _made(address: int | None) -> int:
        if not address:
            raise MemoryError("no memory for a schedule")
        return address
