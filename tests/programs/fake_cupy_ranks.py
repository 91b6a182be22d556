"""The stand-in for cupy where ranks are processes: memory that others open by handles, streams, events and graphs.

Device memory is a file in memory, so that another process maps the same pages, elsewhere. What a stream is given runs
on a thread of its own, in order. While a stream is captured nothing runs, and what CUDA forbids then is an error.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from fake_cupy import CUDADriverError, CUDARuntimeError, FakeCupy

from acclc_runtime.backends import cpu

_HANDLE = 64


class FakeArray(np.ndarray):
    """What the runtime sees of cupy.ndarray."""

    number = 0

    def __array_finalize__(self, other: Any) -> None:
        self.number = getattr(other, "number", 0)

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self.number)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "strides": self.strides, "version": 3,
                "data": (self.ctypes.data, not self.flags.writeable)}  # fmt: skip


class FakeStream:
    def __init__(self, fake: FakeRanksCupy, ptr: int) -> None:
        self.fake, self.ptr = fake, ptr
        self.captured: list[Callable[[], None]] | None = None
        self.work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.work.get()()

    def add(self, step: Callable[[], None]) -> None:
        if self.captured is not None:
            self.captured.append(step)
        else:
            self.work.put(step)

    def synchronize(self) -> None:
        assert self.captured is None, "synchronised while captured"
        ended = threading.Event()
        self.work.put(ended.set)
        ended.wait()

    def wait_event(self, event: FakeEvent) -> None:
        assert self.captured is None
        waited = event.ended
        self.add(waited.wait)

    def begin_capture(self) -> None:
        self.captured = []

    def end_capture(self) -> Any:
        steps, self.captured = self.captured, None
        return SimpleNamespace(launch=lambda: [self.work.put(step) for step in steps or ()])

    def __enter__(self) -> FakeStream:
        self.before, self.fake.stream = self.fake.stream, self
        return self

    def __exit__(self, *_: Any) -> None:
        self.fake.stream = self.before


class FakeEvent:
    def __init__(self, disable_timing: bool) -> None:
        assert disable_timing
        self.ended = threading.Event()

    def record(self, stream: FakeStream) -> None:
        self.ended = threading.Event()
        stream.add(self.ended.set)

    def synchronize(self) -> None:
        self.ended.wait()

    @property
    def done(self) -> bool:
        return self.ended.is_set()


class FakeRanksCupy(FakeCupy):
    """Give it as ``sys.modules["cupy"]`` in each process."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.files: dict[int, tuple[int, mmap.mmap]] = {}
        self.opened: dict[int, mmap.mmap] = {}
        self.registered: set[int] = set()
        self.streams = {0: FakeStream(self, 0)}
        self.stream = self.streams[0]
        runtime = self.cuda.runtime
        runtime.memcpyDeviceToDevice = 3
        runtime.ipcGetMemHandle = self._handle
        runtime.ipcOpenMemHandle = self._open
        runtime.ipcCloseMemHandle = self.opened.__delitem__
        runtime.hostRegister = lambda at, size, flags: self.registered.add(at)
        runtime.hostUnregister = self.registered.remove
        runtime.pointerGetAttributes = lambda at: SimpleNamespace(devicePointer=at)
        runtime.deviceGetPCIBusId = lambda device: f"0000:{device + 1:02X}:00.0"
        runtime.streamIsCapturing = lambda at: self.streams[at].captured is not None
        runtime.memcpyAsync = self._copy_async
        self.cuda.get_current_stream = lambda: self.stream
        self.cuda.ExternalStream = lambda at, device: self.streams[at]
        self.cuda.Stream = lambda non_blocking: self.new_stream()
        self.cuda.Event = FakeEvent
        self.cuda.UnownedMemory = lambda at, nbytes, owner, device: SimpleNamespace(**locals_of(at, owner, device))
        self.cuda.MemoryPointer = lambda memory, offset: memory
        self.uint8 = np.uint8

    def new_stream(self) -> FakeStream:
        made = FakeStream(self, len(self.streams))
        self.streams[made.ptr] = made
        return made

    def ndarray(self, shape: tuple[int, ...], dtype: Any, memory: Any) -> FakeArray:
        raw: Any = (ctypes.c_uint8 * max(1, shape[0])).from_address(memory.at)
        raw.owner = memory.owner
        made = np.frombuffer(raw, np.uint8)[: shape[0]].view(FakeArray)
        made.number = memory.device
        return made

    def empty(self, shape: Any, dtype: Any) -> FakeArray:
        made = np.full(shape, 0x5A, dtype).view(FakeArray)
        made.number = self.current
        return made

    def _allocate(self, size: int, device: int, what: str) -> int:
        assert all(s.captured is None for s in self.streams.values()), "allocated while captured"
        self.log.append(what)
        if size > self.most_bytes:
            raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        file = os.memfd_create("fake")
        os.ftruncate(file, size)
        pages = mmap.mmap(file, size)
        raw = np.frombuffer(pages, np.uint8)
        self.files[raw.ctypes.data] = (file, pages)
        self.memory[raw.ctypes.data] = (device, raw)
        return int(raw.ctypes.data)

    def _free(self, base: int, what: str) -> None:
        super()._free(base, what)
        os.close(self.files.pop(base)[0])

    def _handle(self, base: int) -> bytes:
        if base not in self.files:
            raise CUDARuntimeError("cudaErrorInvalidValue: no base of an allocation")
        return f"{os.getpid()}/{self.files[base][0]}".encode().ljust(_HANDLE, b"\0")

    def _open(self, handle: bytes) -> int:
        pid, file = handle.rstrip(b"\0").decode().split("/")
        if int(pid) == os.getpid():
            raise CUDARuntimeError("cudaErrorDeviceUninitialized: the process's own handle")
        self.log.append(f"open {pid}")
        opened = os.open(f"/proc/{pid}/fd/{file}", os.O_RDWR)
        pages = mmap.mmap(opened, 0)
        os.close(opened)
        at = int(np.frombuffer(pages, np.uint8).ctypes.data)
        self.opened[at] = pages
        return at

    def _copy_async(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        self.log.append("memcpyAsync")
        self.streams[stream].add(lambda: ctypes.memmove(target, source, size) and None)

    def _kernel(self, library: ctypes.CDLL, device: int, cooperative: bool) -> Any:
        fake = self
        native = cpu.load_library(_DEVICE, _DEVICE.read_bytes(), ("-std=c++17", "-pthread"))
        entry = ctypes.cast(library.accl_thread, ctypes.c_void_p)

        class Kernel:
            kernel = SimpleNamespace(ptr=1)
            channels = fake.channels

            def __call__(self, grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...]) -> None:
                assert fake.current == device
                assert [type(a) for a in arguments] == [np.uint64] * 8 + [np.uint32]
                if fake.refused_launch == device:
                    raise CUDADriverError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
                fake.log.append(f"launch {grid[0]} from {arguments[8]}")
                members, reports, abort, count, slices, slot, timeout, lengths = map(int, arguments[:8])
                first = int(arguments[8]) * self.channels

                def run() -> None:
                    call = cpu._Launch(members, reports, abort, count, slices, slot, timeout, 0, lengths or None, 0)
                    native.fake_run(entry, ctypes.byref(call), first, grid[0])

                fake.stream.add(run)

        return Kernel()

    channels = 1

    def RawModule(self, *, code: str, options: tuple[str, ...], enable_cooperative_groups: bool) -> SimpleNamespace:  # noqa: N802
        assert all(s.captured is None for s in self.streams.values()), "loaded while captured"
        self.channels = next(int(o.partition("=")[2]) for o in options if o.startswith("-DACCL_CHANNELS="))
        return super().RawModule(code=code, options=options, enable_cooperative_groups=enable_cooperative_groups)


_DEVICE = Path(__file__).resolve().parent / "fake_device.cpp"


def locals_of(at: int, owner: Any, device: int) -> dict[str, Any]:
    return {"at": at, "owner": owner, "device": device}
