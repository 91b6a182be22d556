"""What a recorded call says of a schedule: each time stamp is brought back to the transfers that it is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from acclc.artefact import CompiledCollective, Variant
from acclc.ir.kernel_program import Instruction, InstructionKind, KernelBlock
from acclc.ir.schedule import OWN, Schedule, TransferId
from acclc.view.model import MeasuredPut, ViewInput, ViewTimes
from acclc_runtime.backends.cpu import Event
from acclc_runtime.dtypes import named
from acclc_runtime.partition import extent, piece
from acclc_runtime.recording import Recording


class RecordingError(Exception):
    """A recording that is not of this kernel."""


def measured_puts(variant: Variant, recording: Recording) -> tuple[MeasuredPut, ...]:
    """Return the events of a recording with the transfers that they made, in the order in which they began.

    A block runs its puts in order, slice by slice, and leaves out those of an empty piece, which partition tells
    exactly; so the events of a (block, channel, slice) are those of its other puts, one to one.

    Raises:
        RecordingError: the recording is of another kernel.
    """
    kernel = variant.kernel
    wanted = {
        (block.rank, block.index, channel, number): _puts(block, recording, number, channel, kernel.channels)
        for block in kernel.blocks
        for channel in range(kernel.channels)
        for number in range(recording.slices)
    }
    found = []
    for e in recording.events:
        expected = next(wanted.get((e.rank, e.block, e.channel, e.slice), iter(())), None)
        if expected is None or (expected[0].step, expected[0].transfer, expected[1]) != (e.step, e.transfer, e.bytes):
            raise RecordingError(f"{variant.id}: the recording does not fit the kernel: {e}")
        found.append(_put(e, expected[0]))
    left = [key for key, puts in wanted.items() if next(puts, None) is not None]
    if left:
        raise RecordingError(f"{variant.id}: the recording lacks puts of (rank, block, channel, slice) {left[0]}")
    return tuple(found)


def _puts(
    block: KernelBlock, recording: Recording, number: int, channel: int, channels: int
) -> Iterator[tuple[Instruction, int]]:
    """The puts of one slice that move anything, with their bytes."""
    item = named(recording.dtype).item_bytes
    for put in (i for i in block.body if i.kind is InstructionKind.PUT):
        part = put.sources[0]
        first, last = extent(recording.count, part.begin, part.end)
        begin, end = piece(first, last, number * channels + channel, recording.slices * channels)
        if end > begin:
            yield put, (end - begin) * item


def _put(event: Event, put: Instruction) -> MeasuredPut:
    places = (*put.reads(event.rank), *put.writes(event.rank))
    transfers = tuple(dict.fromkeys(TransferId(p.transfer) for p in places if p.transfer >= 0))
    return MeasuredPut(
        event.rank, event.block, event.channel, event.slice, event.step, transfers, event.bytes,
        event.begin_ns, event.end_ns,
    )  # fmt: skip


def measured_times(schedule: Schedule, recording: Recording, puts: Sequence[MeasuredPut]) -> ViewTimes:
    """Return when each transfer happened: from its first piece on until its last.

    What moved no byte (of a small call) happened when the last of its operands had arrived.
    """
    begin: dict[TransferId, int] = {}
    end: dict[TransferId, int] = {}
    for put in puts:
        for t in put.transfers:
            begin[t] = min(begin.get(t, put.begin_ns), put.begin_ns)
            end[t] = max(end.get(t, put.end_ns), put.end_ns)
    for transfer in schedule.transfers:
        if transfer.id not in begin:
            ready = max((end[o] for o in transfer.operands if o != OWN), default=0)
            begin[transfer.id] = end[transfer.id] = ready
    starts = tuple(begin[t.id] / 1e9 for t in schedule.transfers)
    ends = tuple(end[t.id] / 1e9 for t in schedule.transfers)
    shard_bytes = recording.count * named(recording.dtype).item_bytes
    return ViewTimes(shard_bytes, starts, ends, ends, measured=True)


def with_measured(view: ViewInput, measured: Sequence[tuple[CompiledCollective, Variant, Recording]]) -> ViewInput:
    """Return what the page shows with measured times beside the simulated ones."""
    more = {
        (c.name, variant.schedule.id): measured_times(variant.schedule, r, measured_puts(variant, r))
        for c, variant, r in measured
    }
    collectives = []
    for collective in view.collectives:
        variants = []
        for v in collective.variants:
            times = more.get((collective.problem.name, v.name))
            variants.append(v if times is None else replace(v, times=(*v.times, times)))
        collectives.append(replace(collective, variants=tuple(variants)))
    return replace(view, collectives=tuple(collectives))
