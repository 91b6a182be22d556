"""A communicator whose ranks are GPUs, one a process, on one machine or many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclc_runtime.arguments import CheckedCall
from acclc_runtime.backends.kernel_file import Instance
from acclc_runtime.backends.program_checks import check_program
from acclc_runtime.counts import Matrix, lengths_of
from acclc_runtime.dtypes import named
from acclc_runtime.engines.nccl.gpu import Gpu
from acclc_runtime.engines.nccl.levels import Levels, levels_of
from acclc_runtime.engines.nccl.script import Combine, Script, Spot, script_of
from acclc_runtime.engines.tasks import rank_tasks
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError, CommunicatorClosedError
from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant, read_program
from acclc_runtime.memory.named_calls import NamedCalls
from acclc_runtime.memory.plans import of_one_rank
from acclc_runtime.program import Buffer, Program
from acclc_runtime.selection import size_bytes
from acclc_runtime.slicing import plan_slices
from acclc_runtime.tuning import Choices
from acclc_runtime.varying import check_varying_call

SLICE_BYTES = 1 << 20
"""What a message moves of a chunk, at most: a guess, not measured."""
MOST_SLICES = 64
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True)
class StreamHandle:
    """A call that was begun with ``async_op=True``: it is on its stream."""

    event: Any
    cuda: Any
    result: Any

    def wait(self) -> Any:
        """Make the current stream wait for the call, not the host; return its output."""
        self.cuda.get_current_stream().wait_event(self.event)
        return self.result

    def done(self) -> bool:
        """Whether the call has ended."""
        return bool(self.event.done)


class NcclCommunicator(NamedCalls):
    """One rank; made by ``Artefact.join(transport="nccl")``; a context manager.

    The methods are those of :class:`acclc_runtime.Communicator`, with arrays on this rank's device. A call is queued
    on ``stream`` (default: cupy's current one) and returns at once; nothing on the host waits. As with NCCL itself, all
    ranks of a group make the same calls in the same order, and nothing checks that.

    Raises:
        ArgumentError: a call does not fit; nothing was queued.
        AcclcRuntimeError: NCCL refused; the communicator is closed then.
        CommunicatorClosedError: this communicator is closed.
    """

    def __init__(self, artefact: Path, manifest: Manifest, rank: int, world: int, gpu: Gpu, nccl: Any, comm: Any):
        self._artefact, self._manifest = artefact, manifest
        self._rank, self._world = rank, world
        self._gpu, self._nccl, self._comm = gpu, nccl, comm
        self._choices = Choices.of(artefact, manifest, "nccl")
        self._own = {c.name: of_one_rank(c, rank) for c in manifest.collectives if rank in c.ranks}
        self._programs: dict[str, tuple[Program, Levels]] = {}
        self._scripts: dict[tuple[Any, ...], Script] = {}

    @property
    def rank(self) -> int:
        """This rank."""
        return self._rank

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self._world

    @property
    def device(self) -> int:
        """The CUDA device of this rank."""
        return self._gpu.device

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def close(self) -> None:
        """End the communicator."""
        comm, self._comm = self._comm, None
        if comm is not None:
            comm.destroy()

    def abort(self) -> None:
        """End it, and the calls that are queued."""
        comm, self._comm = self._comm, None
        if comm is not None:
            comm.abort()

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "f32") -> Any:
        """Return an array of cupy on this rank's device, uninitialised. ``dtype`` is NumPy's, or a name of acclc."""
        with self._gpu.cupy.cuda.Device(self.device):
            return self._gpu.cupy.empty(shape, named(dtype).storage if isinstance(dtype, str) else dtype)

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
        if self._comm is None:
            raise CommunicatorClosedError("this communicator is closed; make another by join")
        self._check_member(collective)
        stream = self._gpu.stream(way)
        counts = self._told(collective, told)
        if counts is not None and counts.matrix is None:
            raise ArgumentError(
                f"{collective.name} on NCCL needs counts=, the whole matrix, on every rank: to exchange rows would "
                "make the host wait"
            )
        matrix = None if counts is None else counts.matrix
        with self._gpu.cupy.cuda.Device(self.device):
            checked = self._checked_here(collective, x, out, op, dtype, matrix)
            if checked.count:
                self._queue(collective, checked, variant, matrix, stream)
            if not async_op:
                return checked.results[0]
            event = self._gpu.cupy.cuda.Event()
            event.record(stream)
        return StreamHandle(event, self._gpu.cupy.cuda, checked.results[0])

    def _checked_here(
        self, collective: ManifestCollective, x: Any, out: Any, op: str | None, dtype: str | None, matrix: Matrix | None
    ) -> CheckedCall:
        """Check a call, and that its arrays lie on this rank's device."""
        if matrix is None:
            checked = self._checked(collective, x, out, op, dtype, True, [self.device])
        else:
            own, outs, lengths = (
                self._own[collective.name],
                None if out is None else [out],
                self._lengths(collective, matrix),
            )
            checked = check_varying_call(self._manifest, own, [x], outs, lengths, op, dtype, True, [self.device])
        for what, buffer in (("input", checked.inputs[0]), ("output", checked.outputs[0])):
            if buffer is not None and buffer.device != f"cuda {self.device}":
                raise ArgumentError(
                    f"{collective.name}: rank {self.rank}'s {what} lies on {buffer.device}; the rank runs on device "
                    f"{self.device}"
                )
        return checked

    def _queue(
        self, collective: ManifestCollective, checked: CheckedCall, name: str | None, matrix: Matrix | None, stream: Any
    ) -> None:
        kind, item = checked.dtype, checked.dtype.item_bytes
        elements = checked.count if matrix is None else lengths_of(collective, matrix).size
        size = elements * item if matrix is not None else size_bytes(collective, elements, item)
        variant, _ = self._choices.take(collective, name, size)
        script = self._script(collective, variant, checked, matrix)
        instance = Instance.for_type(collective.name, kind.name, checked.op)
        divisor = collective.contributors if checked.op == "avg" else 1
        bases = {
            Buffer.INPUT: 0 if checked.inputs[0] is None else checked.inputs[0].address,
            Buffer.OUTPUT: 0 if checked.outputs[0] is None else checked.outputs[0].address,
            Buffer.SCRATCH: self._gpu.scratch(script.scratch * item, stream),
        }

        def at(spot: Spot) -> int:
            return bases[spot.memory] + spot.start * item

        def combine(work: Combine) -> None:
            target, sources = at(work.target), [at(s) for s in work.sources]
            by = divisor if work.final else 1
            if len(sources) > 1 or by != 1:
                kernel = self._gpu.reduction(collective, variant, instance, len(sources))
                self._gpu.launch(kernel, [target, *sources], work.length, by, stream)
            elif target != sources[0]:
                self._gpu.copy(target, sources[0], work.length * item, stream)

        nccl, comm = self._nccl, self._comm
        try:
            for turn in script.rounds:
                for work in turn.local:
                    combine(work)
                if turn.messages:
                    nccl.groupStart()
                    for m in turn.messages:
                        act = comm.send if m.sends else comm.recv
                        act(at(m.spot), m.length * item, nccl.NCCL_UINT8, m.peer, stream.ptr)
                    nccl.groupEnd()
        except nccl.NcclError as error:
            self.abort()
            raise AcclcRuntimeError(f"rank {self.rank} in {collective.name}: {error}; it is closed") from None

    def _script(
        self, collective: ManifestCollective, variant: ManifestVariant, checked: CheckedCall, matrix: Matrix | None
    ) -> Script:
        item = checked.dtype.item_bytes
        key = (variant.folder, checked.count, item, checked.in_place, matrix)
        found = self._scripts.get(key)
        if found is not None:
            return found
        name = f"{variant.folder}/program.json"
        if variant.folder not in self._programs:
            program = read_program(self._artefact, variant)
            check_program(program, collective, name)
            self._programs[variant.folder] = program, levels_of(program, name)
        program, levels = self._programs[variant.folder]
        slices = min(MOST_SLICES, plan_slices(checked.count, item, variant.longest_chunk, 1, SLICE_BYTES).slices)
        lengths = None if matrix is None else lengths_of(collective, matrix)
        tasks = rank_tasks(program, self.rank, checked.count, lengths, slices, checked.in_place, name)
        if len(self._scripts) >= _MOST_KEPT:
            self._scripts.clear()
        found = self._scripts[key] = script_of(tasks, levels)
        return found
