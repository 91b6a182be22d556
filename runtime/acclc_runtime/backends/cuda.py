"""The cuda backend: kernel.cu compiled by NVRTC through cupy. One process drives all ranks.

Two layouts. ``devices``: one device a rank; kernels of different devices wait for each other, so every function is
loaded, and all memory allocated, before the first launch, and nothing that could wait lies between launches.
``one``: all ranks on one GPU in one cooperative launch, which either has all its blocks resident or is refused.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from acclc_runtime.backends.base import Call
from acclc_runtime.backends.cuda_kernels import check_resident, compile_kernel
from acclc_runtime.backends.cuda_memory import check_devices
from acclc_runtime.backends.cuda_options import CudaOptions
from acclc_runtime.backends.kernel_file import (
    COUNTER_STRIDE,
    Instance,
    Report,
    counters_at,
    failure,
    kernel_path,
    kernel_text,
)
from acclc_runtime.counts import table_words
from acclc_runtime.dtypes import named
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError, BackendUnavailableError
from acclc_runtime.manifest import ManifestCollective, ManifestVariant
from acclc_runtime.slicing import plan_slices, slice_bytes_of, slot_bytes_of

_ALIGN = 256
"""Bytes; of every region in a device's slab."""
_MEMBER = np.dtype([(name, "<u8") for name in ("input", "output", "scratch", "counters", "state")])
REPORT = np.dtype(
    [("reason", "<u4"), ("step", "<i4"), ("transfer", "<i4"), ("home", "<u4"), ("slot", "<u4"), ("unused", "<u4")]
    + [(name, "<u8") for name in ("wanted", "present", "slice")]
)
_ONE_AT_A_TIME = threading.Lock()
"""Of all groups of the process: two calls that each got half of the devices would wait for each other."""
_PROBE = bytes(range(1, 65))


def import_cupy() -> Any:
    """Return cupy, with a device that it can use.

    Raises:
        BackendUnavailableError: there is none; says what is missing.
    """
    try:
        import cupy
    except ImportError as error:
        raise BackendUnavailableError(
            f"the cuda backend needs cupy ({error}); install acclc[cuda13] or acclc[cuda12], whichever fits the driver"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BackendUnavailableError(f"the cuda backend needs an NVIDIA GPU and its driver: {error}") from None
    if count == 0:
        raise BackendUnavailableError("the cuda backend needs an NVIDIA GPU; this machine has none")
    return cupy


class _Slab:
    """One allocation of one device, cut into regions. Base pointers of cudaMalloc: pools would not do for peers."""

    def __init__(self, cupy: Any, device: int, sizes: list[int]) -> None:
        self._runtime = cupy.cuda.runtime
        self._device = cupy.cuda.Device(device)
        offsets = np.cumsum([0, *(-(-size // _ALIGN) * _ALIGN for size in sizes)])
        self.nbytes = max(int(offsets[-1]), _ALIGN)
        with self._device:
            self.base = self._runtime.malloc(self.nbytes)
        self.clear()
        self.regions = [self.base + int(offset) for offset in offsets[:-1]]

    def clear(self) -> None:
        with self._device:
            self._runtime.memset(self.base, 0, self.nbytes)
            self._runtime.deviceSynchronize()

    def free(self) -> None:
        with self._device:
            self._runtime.free(self.base)


class _Memory:
    """What one variant needs on its devices: scratch, counters and state a rank, and the reports in host memory."""

    def __init__(self, cupy: Any, collective: ManifestCollective, variant: ManifestVariant, devices: list[int]) -> None:
        self._cupy = cupy
        self.variant, self.devices = variant, devices
        self.numbers = len(variant.blocks) * variant.channels
        self.blocks = [sum(b.rank == rank for b in variant.blocks) for rank in collective.ranks]
        self._line = COUNTER_STRIDE * 8 * variant.channels
        self._counters = [len(c) * self._line for c in counters_at(collective, variant)]
        self.slot_bytes = 0
        self.words = [self._words(n) for n in range(len(devices))]
        self.scratch: list[_Slab] = []
        table = _MEMBER.itemsize * len(devices)
        lengths = 8 * table_words(collective)
        self.tables = {device: _Slab(cupy, device, [table, lengths]) for device in dict.fromkeys(devices)}
        # Pinned and mapped: kernels on all devices can write it, the host reads it without a copy.
        reports = REPORT.itemsize * self.numbers
        flags = cupy.cuda.runtime.hostAllocPortable | cupy.cuda.runtime.hostAllocMapped
        nbytes = reports + table + lengths + _ALIGN
        self.host = cupy.cuda.runtime.hostAlloc(nbytes, flags)
        whole = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(self.host))
        whole[:] = 0
        self.reports = whole[:reports].view(REPORT)
        self.members = whole[reports : reports + table].view(_MEMBER)
        self.lengths = whole[reports + table : reports + table + lengths].view("<u8")
        self.abort = whole[reports + table + lengths : reports + table + lengths + 4].view("<u4")

    def _words(self, n: int) -> _Slab:
        return _Slab(self._cupy, self.devices[n], [self._counters[n], self.blocks[n] * self._line])

    def reserve(self, slot_bytes: int) -> None:
        """Make scratch slots at least so long."""
        if slot_bytes <= self.slot_bytes and self.scratch:
            return
        while self.scratch:
            self.scratch.pop().free()
        self.slot_bytes = 0
        slots = self.variant.channels * self.variant.slot_depth * slot_bytes
        made: list[_Slab] = []
        try:
            for device, n in zip(self.devices, self.variant.slots, strict=True):
                made.append(_Slab(self._cupy, device, [n * slots]))
        except self._cupy.cuda.runtime.CUDARuntimeError:
            for slab in made:
                slab.free()
            raise
        self.scratch, self.slot_bytes = made, slot_bytes

    def fill_members(self, call: Call) -> None:
        for n, (source, target) in enumerate(zip(call.inputs, call.outputs, strict=True)):
            counters, state = self.words[n].regions
            self.members[n] = (_pointer(source), _pointer(target), self.scratch[n].base, counters, state)
        if call.lengths is not None:
            self.lengths[:] = call.lengths.words()

    def addresses(self, device: int) -> tuple[np.uint64, ...]:
        """Return where a device's copies are: of the members, and of the lengths (if counts vary)."""
        return tuple(map(np.uint64, self.tables[device].regions))

    def take_reports(self) -> list[Report]:
        """Return what failed, and make everything as new."""
        found = [
            Report(n, *(int(r[name]) for name in Report.__slots__[1:]))
            for n, r in enumerate(self.reports)
            if r["reason"]
        ]
        lines = self.scratch if self.variant.protocol == "ll" else ()  # slices count from 0 again: no flag may be there
        for slab in (*self.words, *lines):
            slab.clear()
        self.reports[...] = np.zeros((), REPORT)
        self.abort[0] = 0
        return found

    def free(self) -> None:
        for slab in (*self.words, *self.scratch, *self.tables.values()):
            slab.free()
        self._cupy.cuda.runtime.freeHost(self.host)


def _pointer(buffer: Any) -> int:
    return int(buffer.data.ptr)


class CudaBackend:
    """Runs kernels on NVIDIA GPUs. See :class:`CudaOptions` for the options.

    A call starts after what is queued on the caller's current stream of each device, and has ended on return.

    Raises:
        BackendUnavailableError: cupy or a GPU is missing, or kernels of several devices could not run together.
        ArgumentError: an option that is not known or does not fit.
    """

    name = "cuda"

    def __init__(self, artefact: Path, **options: object) -> None:
        if isinstance(devices := options.get("devices"), list):
            options = {**options, "devices": tuple(devices)}
        try:
            self.options = CudaOptions(**options)  # type: ignore[arg-type]
        except TypeError as error:
            raise ArgumentError(f"cuda backend: {str(error).removeprefix('CudaOptions.__init__() ')}") from None
        self._artefact = artefact
        self._cupy = import_cupy()
        self._lock = threading.Lock()
        self._memories: dict[str, _Memory] = {}
        self._kernels: dict[tuple[str, Instance, bool, int], Any] = {}
        self._joined: set[tuple[int, int]] = set()

    def describe(self) -> str:
        """Say what runs the kernels."""
        properties = self._cupy.cuda.runtime.getDeviceProperties(self.options.devices[0] if self.options.devices else 0)
        count = self._cupy.cuda.runtime.getDeviceCount()
        name = properties["name"].decode()
        return f"cuda: {count} device(s), {name}, {self.options.threads} threads a block, layout {self.options.layout}"

    def run(self, call: Call) -> None:
        """Run a call to the end. See :class:`acclc_runtime.backends.base.Backend`.

        Raises:
            AcclcRuntimeError: the driver refused something (no memory, say); nothing of the call runs any more.
        """
        cuda = self._cupy.cuda
        with self._lock, _ONE_AT_A_TIME:
            devices = self._devices(call.collective)
            check_devices(call, devices)
            try:
                self._run(call, devices)
            except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
                raise AcclcRuntimeError(f"{call.collective.name}/{call.variant.id}: {error}") from None

    def _run(self, call: Call, devices: list[int]) -> None:
        together = len(set(devices)) == 1
        kernels = self._load(call, devices, together)
        call = replace(call, variant=replace(call.variant, channels=self._channels(call.variant)))
        memory = self._memory(call, devices)
        if not together:
            self._join_peers(call, devices)
        arguments = self._arguments(call, memory)
        try:
            self._upload(memory)
            if together:
                self._launch_all(memory, kernels[devices[0]], arguments)
            else:
                self._launch_each(memory, kernels, arguments)
            self._synchronize(devices)
        except BaseException:
            self._stop(memory, devices)
            raise
        if memory.abort[0] != 0:
            raise failure(call.collective, call.variant, memory.take_reports(), call.timeout_s)

    def _synchronize(self, devices: list[int]) -> None:
        for device in dict.fromkeys(devices):
            with self._cupy.cuda.Device(device):
                self._cupy.cuda.get_current_stream().synchronize()

    def _stop(self, memory: _Memory, devices: list[int]) -> None:
        """End a call of which some kernels may run, waiting for others that were never launched."""
        memory.abort[0] = 1
        with suppress(self._cupy.cuda.runtime.CUDARuntimeError):  # a lost device: the first error says why
            self._synchronize(devices)
            memory.take_reports()

    def close(self) -> None:
        """Free everything on the devices."""
        with self._lock:
            for memory in self._memories.values():
                memory.free()
            self._memories.clear()
            self._kernels.clear()

    def _devices(self, collective: ManifestCollective) -> list[int]:
        """Return the device of each rank of the group."""
        ranks, present = len(collective.ranks), self._cupy.cuda.runtime.getDeviceCount()
        chosen = self.options.devices
        if not chosen and self.options.rank_devices:
            chosen = tuple(self.options.rank_devices[rank] for rank in collective.ranks)
        layout = self.options.layout
        if layout == "auto":
            enough = len(chosen) >= ranks if chosen else present >= ranks
            layout = "devices" if enough and ranks > 1 else "one"
        wanted = list(chosen[:1] or (0,)) * ranks if layout == "one" else list(chosen or range(ranks))[:ranks]
        if len(wanted) < ranks or max(wanted) >= present or min(wanted) < 0:
            raise ArgumentError(
                f"{collective.name} needs {ranks} devices, one a rank; chosen are {wanted}, present are {present} "
                "(layout='one' runs all ranks on one)"
            )
        if layout == "devices" and len(set(wanted)) < ranks:
            raise ArgumentError(f"devices={wanted} names a device twice; layout='one' runs all ranks on one")
        if layout == "devices" and os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
            raise BackendUnavailableError(
                "CUDA_LAUNCH_BLOCKING=1 makes each launch wait for its end, but the kernels of the ranks wait for each "
                "other: unset it"
            )
        return wanted

    def _load(self, call: Call, devices: list[int], together: bool) -> dict[int, Any]:
        """Return the loaded function of each device: loading later could wait for a kernel that spins."""
        instance = Instance.of(call)
        path = kernel_path(self._artefact, call.variant)
        found: dict[int, Any] = {}
        for device in dict.fromkeys(devices):
            key = (call.variant.folder, instance, together, device)
            if key not in self._kernels:
                text = kernel_text(path, call.collective, call.variant).decode(errors="replace")
                flags = (*instance.flags, f"-DACCL_CHANNELS={self._channels(call.variant)}")
                self._kernels[key] = compile_kernel(self._cupy, path, text, flags, device, together)
            found[device] = self._kernels[key]
        return found

    def _channels(self, variant: ManifestVariant) -> int:
        return variant.channels * (self.options.direct_channels if variant.realisation == "direct" else 1)

    def _memory(self, call: Call, devices: list[int]) -> _Memory:
        memory = self._memories.get(call.variant.folder)
        if memory is None:
            memory = _Memory(self._cupy, call.collective, call.variant, devices)
            self._memories[call.variant.folder] = memory
        return memory

    def _arguments(self, call: Call, memory: _Memory) -> tuple[Any, ...]:
        item = named(call.dtype).item_bytes
        slicing = plan_slices(
            call.count,
            item,
            call.variant.longest_chunk,
            call.variant.channels,
            slice_bytes_of(call.variant, self.options.slice_bytes),
        )
        memory.reserve(slot_bytes_of(call.variant, slicing.piece_elements * item))
        memory.fill_members(call)
        numbers = (call.count, slicing.slices, memory.slot_bytes, min(int(call.timeout_s * 1e9), 2**62))
        pointers = (memory.reports.ctypes.data, memory.abort.ctypes.data)
        return tuple(np.uint64(n) for n in (*pointers, *numbers))

    def _upload(self, memory: _Memory) -> None:
        """Bring the table of all ranks' memory, and of varying lengths, to every device, in its stream's order."""
        runtime = self._cupy.cuda.runtime
        for device, slab in memory.tables.items():
            with self._cupy.cuda.Device(device):
                stream = self._cupy.cuda.get_current_stream()
                for target, table in zip(slab.regions, (memory.members, memory.lengths), strict=True):
                    where = (target, table.ctypes.data, table.nbytes)
                    if table.nbytes:
                        runtime.memcpyAsync(*where, runtime.memcpyHostToDevice, stream.ptr)

    def _launch_all(self, memory: _Memory, kernel: Any, arguments: tuple[Any, ...]) -> None:
        device = memory.devices[0]
        check_resident(self._cupy, kernel, memory.numbers, self.options.threads, device)
        table, lengths = memory.addresses(device)
        with self._cupy.cuda.Device(device):
            kernel((memory.numbers,), (self.options.threads,), (table, *arguments, lengths, np.uint32(0)))

    def _launch_each(self, memory: _Memory, kernels: dict[int, Any], arguments: tuple[Any, ...]) -> None:
        grids = [blocks * memory.variant.channels for blocks in memory.blocks]
        for device, grid in zip(memory.devices, grids, strict=True):
            check_resident(self._cupy, kernels[device], grid, self.options.threads, device)
        first = 0
        for device, grid, blocks in zip(memory.devices, grids, memory.blocks, strict=True):
            table, lengths = memory.addresses(device)
            with self._cupy.cuda.Device(device):
                kernels[device]((grid,), (self.options.threads,), (table, *arguments, lengths, np.uint32(first)))
            first += blocks

    def _join_peers(self, call: Call, devices: list[int]) -> None:
        """Enable peer access along the edges that are used, in both directions, and see that it moves data."""
        at = dict(zip(call.collective.ranks, devices, strict=True))
        pairs = {(at[c.src], at[c.dst]) for c in call.variant.counters if c.src != c.dst}
        for a, b in sorted(pairs | {(b, a) for a, b in pairs}):
            if (a, b) not in self._joined:
                self._join(a, b)
                self._joined.add((a, b))

    def _join(self, device: int, peer: int) -> None:
        cupy, runtime = self._cupy, self._cupy.cuda.runtime
        if not runtime.deviceCanAccessPeer(device, peer):
            raise BackendUnavailableError(
                f"device {device} cannot reach the memory of device {peer}, but the schedule uses that edge; "
                "layout='one' runs all ranks on one device"
            )
        with cupy.cuda.Device(device):
            try:
                runtime.deviceEnablePeerAccess(peer)
            except runtime.CUDARuntimeError as error:
                if "AlreadyEnabled" not in str(error):
                    raise BackendUnavailableError(f"device {device} cannot map device {peer}: {error}") from None
        if not self._copies(device, peer):
            raise BackendUnavailableError(
                f"device {device} maps device {peer}, but a copy arrives changed (an IOMMU or ACS setting, as a rule)"
            )

    def _copies(self, device: int, peer: int) -> bool:
        runtime = self._cupy.cuda.runtime
        here, there = _Slab(self._cupy, device, [len(_PROBE)]), _Slab(self._cupy, peer, [len(_PROBE)])
        sent, back = np.frombuffer(_PROBE, np.uint8).copy(), np.zeros(len(_PROBE), np.uint8)
        try:
            with self._cupy.cuda.Device(device):
                runtime.memcpy(here.base, sent.ctypes.data, len(_PROBE), runtime.memcpyHostToDevice)
                runtime.memcpyPeer(there.base, peer, here.base, device, len(_PROBE))
                runtime.deviceSynchronize()
            with self._cupy.cuda.Device(peer):
                runtime.memcpy(back.ctypes.data, there.base, len(_PROBE), runtime.memcpyDeviceToHost)
        finally:
            here.free()
            there.free()
        return bool((sent == back).all())
