"""A stand-in for cupy: devices with host memory, launches that run on the processor, and a log of every call.

A launch is only noted. When a stream is synchronised, all that were noted run together, as on real devices, from
the very arguments they were given: the same kernel.cu, compiled by g++.
"""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np

from acclc_runtime.backends import cpu


class CUDARuntimeError(RuntimeError):
    pass


class CUDADriverError(RuntimeError):
    pass


class CompileException(Exception):  # noqa: N818 (cupy's name)
    pass


@dataclass
class Launch:
    device: int
    grid: int
    threads: int
    cooperative: bool
    library: ctypes.CDLL
    arguments: tuple[Any, ...]


@dataclass
class FakeCupy:
    """Give it as ``sys.modules["cupy"]``."""

    devices: int = 4
    peers: bool = True
    broken_copies: bool = False
    blocks_a_multiprocessor: int = 4
    no_driver: bool = False
    refused_launch: int = -1
    """The device on which launches fail."""
    launch_seconds: float = 0.0
    """How long a launch takes: other threads run meanwhile."""
    most_bytes: int = 1 << 40
    """Of one allocation on a device."""
    log: list[str] = field(default_factory=list)
    current: int = 0
    memory: dict[int, tuple[int, np.ndarray]] = field(default_factory=dict)
    """Base address -> (device, bytes); -1 is the host."""
    pending: list[Launch] = field(default_factory=list)
    launched: list[Launch] = field(default_factory=list)
    joined: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        fake = self
        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            hostAllocPortable=1,
            hostAllocMapped=2,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            getDeviceCount=self._count,
            getDeviceProperties=lambda device: {"name": b"Fake GPU"},
            malloc=lambda size: self._allocate(size, self.current, "malloc"),
            free=lambda base: self._free(base, "free"),
            hostAlloc=lambda size, flags: self._allocate(size, -1, f"hostAlloc {flags}"),
            freeHost=lambda base: self._free(base, "freeHost"),
            memset=self._memset,
            memcpy=lambda target, source, size, kind: self._copy(target, source, size, "memcpy"),
            memcpyAsync=lambda target, source, size, kind, stream: self._copy(target, source, size, "memcpyAsync"),
            memcpyPeer=self._copy_peer,
            deviceSynchronize=lambda: self.log.append("deviceSynchronize"),
            deviceCanAccessPeer=lambda device, peer: self.peers,
            deviceEnablePeerAccess=self._join,
        )

        class Device:
            def __init__(self, id: int) -> None:
                self.id = id
                self.compute_capability = "90"
                self.attributes = {"MultiProcessorCount": 8}

            def use(self) -> None:
                fake.current = self.id

            def __enter__(self) -> Device:
                self.before = fake.current
                fake.current = self.id
                return self

            def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
                fake.current = self.before

        stream = SimpleNamespace(ptr=0, synchronize=self._synchronize)
        driver = SimpleNamespace(
            CUDADriverError=CUDADriverError,
            occupancyMaxActiveBlocksPerMultiprocessor=lambda kernel, threads, shared: self.blocks_a_multiprocessor,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            Device=Device,
            driver=driver,
            get_current_stream=lambda: stream,
            compiler=SimpleNamespace(CompileException=CompileException),
        )

    def RawModule(self, *, code: str, options: tuple[str, ...], enable_cooperative_groups: bool) -> SimpleNamespace:  # noqa: N802
        def get_function(name: str) -> Any:
            assert name == "accl_kernel"
            self.log.append(f"load on {self.current}")
            if "does not compile" in code:
                raise CompileException("kernel.cu(7): error: does not compile")
            flags = tuple(option for option in options if option.startswith("-D"))
            library = cpu.load_library(Path("kernel.cu"), code.encode(), (*cpu.KERNEL_FLAGS, *flags))
            return self._kernel(library, self.current, enable_cooperative_groups)

        return SimpleNamespace(get_function=get_function)

    def _kernel(self, library: ctypes.CDLL, device: int, cooperative: bool) -> Any:
        fake = self

        class Kernel:
            kernel = SimpleNamespace(ptr=1)

            def __call__(self, grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...]) -> None:
                assert fake.current == device
                if fake.refused_launch == device:
                    raise CUDADriverError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
                assert [type(a) for a in arguments] == [np.uint64] * 8 + [np.uint32]
                time.sleep(fake.launch_seconds)
                fake.log.append(f"launch on {device}")
                launch = Launch(device, grid[0], block[0], cooperative, library, arguments)
                fake.pending.append(launch)
                fake.launched.append(launch)

        return Kernel()

    def array(self, content: np.ndarray, device: int) -> SimpleNamespace:
        """What the backend sees of a cupy array of bytes."""
        data = SimpleNamespace(ptr=content.ctypes.data)
        return SimpleNamespace(data=data, device=SimpleNamespace(id=device), nbytes=content.nbytes)

    def _count(self) -> int:
        if self.no_driver:
            raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return self.devices

    def _allocate(self, size: int, device: int, what: str) -> int:
        self.log.append(what)
        if size > self.most_bytes:
            raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        raw = np.full(size + 256, 0xCD, np.uint8)
        base = raw.ctypes.data + -raw.ctypes.data % 256
        self.memory[base] = (device, raw)
        return base

    def _free(self, base: int, what: str) -> None:
        self.log.append(what)
        del self.memory[base]

    def _memset(self, base: int, value: int, size: int) -> None:
        self.log.append("memset")
        assert self.memory[base][0] == self.current
        ctypes.memset(base, value, size)

    def _copy(self, target: int, source: int, size: int, what: str) -> None:
        self.log.append(what)
        ctypes.memmove(target, source, size)

    def _copy_peer(self, target: int, to: int, source: int, device: int, size: int) -> None:
        assert (device, to) in self.joined
        self._copy(target, source, size, "memcpyPeer")
        if self.broken_copies:
            ctypes.memset(target, 0xFF, 1)

    def _join(self, peer: int) -> None:
        if (self.current, peer) in self.joined:
            raise CUDARuntimeError("cudaErrorPeerAccessAlreadyEnabled: peer access is already enabled")
        self.joined.add((self.current, peer))
        self.log.append(f"join {self.current} {peer}")

    def _synchronize(self) -> None:
        """Run what was launched: all of it at once, or nothing could end."""
        self.log.append("synchronize")
        if not self.pending:
            return
        launches, self.pending = self.pending, []
        tables = {self._table(launch) for launch in launches}
        assert len(tables) == 1, "the devices were told different memory"
        assert len({launch.arguments[1:7] for launch in launches}) == 1, "the devices were called differently"
        firsts = [int(launch.arguments[8]) for launch in launches]
        assert firsts == sorted(firsts)
        members, reports, abort, count, slices, slot_bytes, timeout_ns, lengths = map(int, launches[0].arguments[:8])
        call = cpu._Launch(members, reports, abort, count, slices, slot_bytes, timeout_ns, 0, lengths or None)
        total = sum(launch.grid for launch in launches)
        options = cpu._Options(0, total, 1, 0, 0, 0, 0, 0)
        native = cpu._load_native()
        pool = native.accl_pool_create()
        entry = ctypes.cast(launches[0].library.accl_thread, ctypes.c_void_p)
        native.accl_pool_run(pool, ctypes.byref(options), entry, ctypes.byref(call))
        native.accl_pool_destroy(pool)

    def _table(self, launch: Launch) -> bytes:
        base = int(launch.arguments[0])
        device, raw = self.memory[base]
        assert device == launch.device, "a device reads another's table"
        return ctypes.string_at(base, raw.nbytes - 256)
