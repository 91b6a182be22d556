"""A communicator whose ranks are processes with a GPU each: calls are launched on a stream, and return at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from acclc_runtime.arguments import CheckedCall
from acclc_runtime.backends.cuda_kernels import check_resident, compile_kernel
from acclc_runtime.backends.kernel_file import Instance, kernel_path, kernel_text
from acclc_runtime.cuda_ranks.board import WINDOW, Key
from acclc_runtime.cuda_ranks.calls import Call, Calls, CudaWorld
from acclc_runtime.cuda_ranks.slab import MEMBER_BYTES, TABLES
from acclc_runtime.dtypes import named
from acclc_runtime.errors import ArgumentError, CommunicatorClosedError
from acclc_runtime.manifest import ManifestCollective
from acclc_runtime.memory.named_calls import NamedCalls
from acclc_runtime.memory.plans import DTYPE_NAMES, OP_NAMES, of_one_rank
from acclc_runtime.memory.tables import slot_bytes_at_most
from acclc_runtime.selection import format_bytes, size_bytes
from acclc_runtime.slicing import plan_slices, slice_bytes_of, slot_bytes_of
from acclc_runtime.tuning import Choices

THREADS = 256
_LOOK_S = 0.05
_CLOSING_S = 10.0


class CudaCommunicator(NamedCalls):
    """One rank; made by ``Artefact.join(transport="cuda")``; a context manager.

    The methods are those of :class:`acclc_runtime.Communicator`; arrays lie on this rank's GPU. A call is queued on
    the caller's current stream of cupy (or ``stream``) and returns at once. What fails on the GPU is told by the next
    call, by ``synchronize`` or by the handle of ``async_op=True``; the communicator is closed then. Arrays of ``empty``
    are used where they are, at the same place on all ranks; all others are copied through this rank's slab.

    Raises:
        ArgumentError: a call does not fit; nothing was queued.
        MismatchError, CollectiveTimeoutError, RankFailedError, CommunicatorClosedError: as there.
    """

    def __init__(self, world: CudaWorld, choices: Choices) -> None:
        self._world: CudaWorld | None = world
        self._manifest, self._choices, self._rank = world.manifest, choices, world.rank
        self._own = {c.name: of_one_rank(c, world.rank) for c in self._manifest.collectives if world.rank in c.ranks}
        self._lock = threading.RLock()
        self._kernels: dict[tuple[str, Instance], Any] = {}
        self._members: dict[tuple[int, ...], int] = {}
        self._calls = Calls(world)
        self._last: tuple[Any, Any] | None = None
        """The stream of the last call, and an event after it."""
        self._why_closed = ""
        self._watch = threading.Thread(target=self._look_again, name=f"acclc rank {self.rank}", daemon=True)
        self._watch.start()

    @property
    def rank(self) -> int:
        """This rank."""
        return self._rank

    @property
    def device(self) -> int:
        """This rank's GPU, by the number that CUDA gives it in this process."""
        return self._opened().device

    @property
    def world(self) -> int:
        """The number of ranks."""
        return len(self._opened().slabs)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Any:
        """Return an array of cupy in memory that the other ranks reach, uninitialised. It is used without a copy.

        All ranks make the same arrays in the same order; what one makes is there until the communicator is closed.
        ``dtype`` is NumPy's, or a name of acclc (bf16 gives uint16).

        Raises:
            ArgumentError: the symmetric heap is full.
        """
        storage = named(dtype).storage if isinstance(dtype, str) else np.dtype(dtype)
        with self._lock:
            return self._opened().slab.array((shape,) if isinstance(shape, int) else tuple(shape), storage)

    def describe(self, nbytes: int | None = None) -> str:
        """Return in words what runs, and for a size S in bytes which variant of each collective, and why."""
        world = self._opened()
        near = sum(base != 0 for base in world.slabs) - 1
        lines = [
            f"{self._manifest.name} on GPUs, a process a rank: this is rank {world.rank} of {self.world}, on device "
            f"{world.device}; {near} other slabs are mapped by CUDA IPC",
            f"a wait without progress ends after {world.timeout_s:g} s, also one for a rank to begin a call",
        ]
        if len(world.on_device) > 1:
            told = ", ".join(map(str, world.on_device))
            lines.append(f"ranks {told} share this GPU, which runs their processes in turn: right, but slow")
        for collective in self._manifest.collectives if nbytes is not None else ():
            head = f"{collective.name}, {format_bytes(nbytes or 0)}"
            try:
                variant, reason = self._choices.choose(collective, nbytes or 0)
                words = f"variant {variant.id}, protocol {variant.protocol}: {reason}"
                lines.append(f"{head}: {words}; arrays that are not of empty() are staged")
            except ArgumentError as error:
                lines.append(f"{head}: {error}")
        return "\n".join(lines)

    def synchronize(self) -> None:
        """Wait until all calls have ended.

        Raises:
            AcclcRuntimeError: one failed; the communicator is closed.
        """
        world, last = self._opened(), self._last
        if last is not None:
            with world.cupy.cuda.Device(world.device):
                last[1].synchronize()
        with self._lock:
            self._check()

    def abort(self) -> None:
        """Make the calls of all ranks end with an error; the communicators cannot be used then."""
        with self._lock:
            self._opened()
            self._calls.give_up("failed", f"rank {self.rank} called abort()")

    def close(self) -> None:
        """End the communicator after its calls. The memory is freed when the neighbours have let go of it."""
        world = self._world
        if world is not None:
            self._drain(world)  # without the lock: meanwhile others are watched, whose death ends the calls
        with self._lock:
            self._close("this communicator is closed; make another by join")
        if threading.current_thread() is not self._watch:
            self._watch.join(_CLOSING_S)

    def _check_stream(self, stream: Any) -> None:
        """Any may be given."""

    def _begin(
        self,
        collective: ManifestCollective,
        x: Any,
        out: Any,
        op: str | None,
        async_op: bool,
        variant: str | None,
        dtype: str | None,
        told: Mapping[str, Any],
        way: Any,
    ) -> Any:
        """Queue a call; ``way`` is its stream."""
        with self._lock:
            world = self._opened()
            self._check_member(collective)
            if self._told(collective, told) is not None:
                raise ArgumentError(f"{collective.name}: counts that vary are not for transport='cuda' yet")
            self._check()
            with world.cupy.cuda.Device(world.device):
                checked = self._checked(collective, x, out, op, dtype, gpu=True)
                self._check_device(world, collective, checked)
                event = self._run(world, collective, checked, variant, way)
            result = checked.results[0]
            return CudaHandle(self, event, result) if async_op else result

    def _check_device(self, world: CudaWorld, collective: ManifestCollective, checked: CheckedCall) -> None:
        for buffer in (*checked.inputs, *checked.outputs):
            if buffer is not None and buffer.nbytes and buffer.device != f"cuda {world.device}":
                raise ArgumentError(
                    f"{collective.name}: an array of rank {self.rank} lies on device {buffer.device.split()[1]}; "
                    f"the rank runs on device {world.device}"
                )

    def _run(
        self, world: CudaWorld, collective: ManifestCollective, checked: CheckedCall, name: str | None, stream: Any
    ) -> Any:
        """Queue the copies and the kernel; return an event after them, None while a graph is captured."""
        count, item = checked.count, checked.dtype.item_bytes
        variant, _ = self._choices.take(collective, name, size_bytes(collective, count, item))
        variant = next(v for v in collective.variants if v.id == variant.id)
        key = (self._manifest.collectives.index(collective), collective.variants.index(variant))
        runtime = world.cupy.cuda.runtime
        given = world.cupy.cuda.get_current_stream() if stream is None else stream
        pointer = int(getattr(given, "ptr", getattr(given, "cuda_stream", given)))
        capturing = bool(runtime.streamIsCapturing(pointer))
        at = self._bindings(world, collective, checked)
        codes = (DTYPE_NAMES.index(checked.dtype.name), OP_NAMES.index(checked.op or ""))
        kernel = self._kernel(world, key, Instance.for_type(collective.name, checked.dtype.name, checked.op), capturing)
        members, addresses = self._table(world, key, count * item, at, capturing)
        self._tell(world, collective.ranks, (*key, *codes, count, *at))
        queue = world.cupy.cuda.ExternalStream(pointer, world.device)
        if not capturing and self._last is not None and self._last[0] != pointer:
            queue.wait_event(self._last[1])
        source, target = checked.inputs[0], checked.outputs[0]
        kind = runtime.memcpyDeviceToDevice
        if source is not None and source.nbytes and addresses[0] != source.address:
            runtime.memcpyAsync(addresses[0], source.address, source.nbytes, kind, pointer)
        slice_bytes = slice_bytes_of(variant, world.slice_bytes)
        slices = plan_slices(count, item, variant.longest_chunk, variant.channels, slice_bytes).slices
        slot_bytes = slot_bytes_of(variant, slot_bytes_at_most(slice_bytes))
        reports, timeout = world.board_address + world.board.reports_at(key), min(int(world.timeout_s * 1e9), 2**62)
        arguments = (members, reports, world.board_address, count, slices, slot_bytes, timeout, 0)
        first = sum(b.rank in collective.ranks[: collective.ranks.index(self.rank)] for b in variant.blocks)
        grid = sum(b.rank == self.rank for b in variant.blocks) * variant.channels
        with queue:
            if grid:
                kernel((grid,), (THREADS,), (*map(np.uint64, arguments), np.uint32(first)))
        if target is not None and target.nbytes and addresses[1] != target.address:
            # what nobody sends to stays as it is: only what the collective fills is copied back
            for unit in _filled(collective, self.rank):
                begin, length = unit * count * item, count * item
                runtime.memcpyAsync(target.address + begin, addresses[1] + begin, length, kind, pointer)
        if capturing:
            return None
        event = world.cupy.cuda.Event(disable_timing=True)
        event.record(queue)
        self._last = (pointer, event)
        return event

    def _bindings(self, world: CudaWorld, collective: ManifestCollective, checked: CheckedCall) -> tuple[int, int]:
        """Return where input and output lie in the slabs of all ranks; 0: staged. All ranks must find the same.

        Where some rank has no such buffer, it cannot tell where the others' lie: then they are staged.
        """
        found = []
        for buffer, units in zip(
            (checked.inputs[0], checked.outputs[0]), (collective.input_units, collective.output_units), strict=True
        ):
            common = buffer is not None and all(units) and not (checked.in_place and collective.in_place != "same")
            found.append(world.slab.offset(buffer.address, buffer.nbytes) if common and buffer is not None else 0)
        item = checked.count * checked.dtype.item_bytes
        inputs, outputs = (max(units, default=0) * item for units in (collective.input_units, collective.output_units))
        needed = -(-inputs // 256) * 256 + outputs
        if 0 in found and needed > world.slab.layout.staging_bytes:
            raise ArgumentError(
                f"{collective.name}: {needed} bytes are to be staged, and a rank has {world.slab.layout.staging_bytes} "
                "for that; use arrays of comm.empty(), or join with a larger staging_bytes"
            )
        return found[0], found[1]

    def _table(
        self, world: CudaWorld, key: Key, unit_bytes: int, at: tuple[int, int], capturing: bool
    ) -> tuple[int, tuple[int, int]]:
        """Return the table of all ranks' memory, as the GPU addresses it, and where this rank's input and output lie.

        Tables stay as they are: graphs go on using them.
        """
        collective, place, layout = self._manifest.collectives[key[0]], world.tables.places[key], world.slab.layout
        staged = -(-max(collective.input_units, default=0) * unit_bytes // 256) * 256
        offsets = at[0] or layout.staging, at[1] or layout.staging + staged
        mine = world.slab.base + offsets[0], world.slab.base + offsets[1]
        table = self._members.get((*key, *offsets))
        if table is None:
            if capturing:
                raise ArgumentError(f"{collective.name}: call it once with these arrays before a graph is captured")
            if len(self._members) == TABLES:
                raise ArgumentError(f"{collective.name}: more than {TABLES} places of arrays on one communicator")
            rows = np.zeros((len(collective.ranks), 5), np.uint64)
            for n, rank in enumerate(collective.ranks):
                if base := world.slabs[rank]:
                    state = base + layout.state[key]
                    rows[n] = (base + offsets[0], base + offsets[1], base + place.scratch[n], base + place.counters[n],
                               state)  # fmt: skip
            table = world.slab.base + layout.table + len(self._members) * MEMBER_BYTES * len(world.slabs)
            runtime = world.cupy.cuda.runtime
            runtime.memcpy(table, rows.ctypes.data, rows.nbytes, runtime.memcpyHostToDevice)
            self._members[(*key, *offsets)] = table
        return table, mine

    def _kernel(self, world: CudaWorld, key: Key, instance: Instance, capturing: bool) -> Any:
        collective = self._manifest.collectives[key[0]]
        variant = collective.variants[key[1]]
        known = self._kernels.get((variant.folder, instance))
        if known is None:
            if capturing:
                raise ArgumentError(f"{collective.name}: call it once before a graph is captured, to load its kernel")
            path = kernel_path(world.artefact, variant)
            compiled = world.compiled.collectives[key[0]]
            text = kernel_text(path, compiled, compiled.variants[key[1]]).decode(errors="replace")
            flags = (*instance.flags, f"-DACCL_CHANNELS={variant.channels}")
            known = compile_kernel(world.cupy, path, text, flags, world.device, False)
            grid = sum(b.rank == self.rank for b in variant.blocks) * variant.channels
            check_resident(world.cupy, known, grid, THREADS, world.device)
            self._kernels[variant.folder, instance] = known
        return known

    def _tell(self, world: CudaWorld, group: tuple[int, ...], call: Call) -> None:
        """Write what this rank calls, and compare it with what others wrote."""
        ends = time.monotonic() + world.timeout_s
        while self._calls.is_full(group):
            self._calls.compare()
            self._check()
            if time.monotonic() > ends:
                self._calls.give_up("failed", f"rank {self.rank} is {WINDOW} calls ahead of another rank")
                self._check()
            time.sleep(_LOOK_S / 50)
        self._calls.tell(group, call)
        self._check()

    def _check(self) -> None:
        """Raise what made the calls end, if anything did; the communicator is closed then."""
        world = self._opened()
        if not world.board.aborted:
            return
        self._drain(world)
        error = self._calls.why()
        self._close(f"this communicator is closed, because a call failed: {error.args[0].partition(';')[0]}")
        raise error

    def _drain(self, world: CudaWorld) -> None:
        if self._last is not None:
            with world.cupy.cuda.Device(world.device):
                self._last[1].synchronize()

    def _close(self, why: str) -> None:
        world = self._world
        if world is None:
            return
        self._drain(world)
        self._world, self._why_closed = None, why
        runtime = world.cupy.cuda.runtime
        with world.cupy.cuda.Device(world.device):
            for rank, base in enumerate(world.slabs):
                if base and rank != self.rank:
                    runtime.ipcCloseMemHandle(base)
        world.board.count(self.rank, 1, 1)

    def _opened(self) -> CudaWorld:
        if self._world is None:
            raise CommunicatorClosedError(self._why_closed)
        return self._world

    def _look_again(self) -> None:
        """See, beside the calls, whether ranks differ or have gone; at the end free what they have let go of."""
        world = self._world
        assert world is not None
        while self._world is not None:
            with self._lock:
                if self._world is not None and not world.board.aborted:
                    self._calls.look()
            time.sleep(_LOOK_S)
        ends = time.monotonic() + _CLOSING_S
        while not self._calls.let_go():
            if time.monotonic() > ends:
                world.slab.kept = True
                break
            time.sleep(_LOOK_S / 10)
        world.cupy.cuda.runtime.hostUnregister(world.board.address)
        for file in world.processes:
            if file >= 0:
                os.close(file)
        del self._calls  # with the slab, unless arrays lie in it


class CudaHandle:
    """A call that was begun with ``async_op=True``."""

    def __init__(self, comm: CudaCommunicator, event: Any, result: Any) -> None:
        self._comm, self._event, self._result = comm, event, result

    def wait(self) -> Any:
        """Wait for the call's end and return its output.

        Raises:
            AcclcRuntimeError: it failed.
        """
        if self._event is not None:
            self._event.synchronize()
        with self._comm._lock:
            self._comm._check()
        return self._result

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._event is None or bool(self._event.done)


def _filled(collective: ManifestCollective, rank: int) -> list[int]:
    """Return the units of a rank's output that the collective fills."""
    return sorted({unit for shard in collective.shards for where, unit in shard.outputs if where == rank})
