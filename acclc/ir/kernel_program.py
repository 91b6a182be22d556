"""KernelProgram: *how*. A one-sided realisation of a Program in mapped memory (CPU shared memory, CUDA P2P).

Execution. Every block runs ``entry`` once a call, then ``body`` once for each slice, slices outermost: slice g
of every chunk is handled before slice g + 1 of any. Dependencies only ever point to an earlier (slice, step),
so progress needs one slot a landing; ``slot_depth`` K lets K slices be in flight. Blocks share nothing but
counters; there is no barrier between blocks.

Counters are 64-bit, only grow, are never reset, and have one writing block each. A block keeps two numbers
in device memory, ``calls`` and ``slices``, the calls and slices it has run before this call; with them

    post  (c, index)       in slice g stores   events(c) * (slices + g) + index
    await (c, index, lag)  in slice g waits for  >= events(c) * (slices + g - lag) + index,  nothing if g < lag
    post and await in ``entry`` use  calls + 1

so nothing depends on how many slices earlier calls had. Posts release, awaits acquire, at system scope, around
a barrier of the block's threads: everything the block wrote before a post is visible after the await.

    entry    receiver -> sender, once a call: my buffers may be written (my earlier call has ended)
    arrival  sender -> receiver, after each put: the data is there. Lies in the receiver's memory
    credit   consumer block -> sender, once a slice: I have read the slots of this edge. Lies in the sender's memory
    local    block -> block of the same rank: a read is done, the place may be overwritten
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from acclc.ir.program import Buffer, Extent

KERNEL_PROGRAM_VERSION = 1


class CounterKind(StrEnum):
    """What a counter tells; see the module's text."""

    ENTRY = "entry"
    ARRIVAL = "arrival"
    CREDIT = "credit"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter in the memory of rank ``home``, written only by block ``writer_block`` of rank ``writer``."""

    id: int
    kind: CounterKind
    home: int
    writer: int
    writer_block: int
    events: int
    """Posts a slice (ENTRY: a call)."""
    src: int
    dst: int
    """The edge it belongs to (LOCAL: both are the rank)."""


class InstructionKind(StrEnum):
    """await and post act on a counter; put reduces local sources into a place of any rank's memory."""

    AWAIT = "await"
    POST = "post"
    PUT = "put"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. ``step`` and ``transfer`` (-1: none) are for messages, traces and pictures."""

    kind: InstructionKind
    step: int = -1
    transfer: int = -1
    counter: int = -1
    index: int = 0
    lag: int = 0
    sources: tuple[Extent, ...] = ()
    """In the memory of the block's own rank."""
    target: Extent | None = None
    target_rank: int = -1
    final: bool = False


@dataclass(frozen=True, slots=True)
class KernelBlock:
    """A block of a rank. ``link``: the link direction it owns; -1: the rank's local block (always its block 0)."""

    rank: int
    index: int
    link: int
    entry: tuple[Instruction, ...]
    body: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class KernelRank:
    """Memory of one rank: units of its input and output, and its scratch slots (each ``slot_depth`` slices)."""

    rank: int
    input_units: int
    output_units: int
    slots: int


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """All ranks' blocks and counters. ``channels``: so many copies of every block, each moving its share of a slice.

    Piece number ``slice * channels + channel`` of ``slices * channels`` of each chunk (see
    ``acclc_runtime.partition.piece``). Counters and slots exist once a channel. ``protocol`` names the kind of
    copy: ``simple`` is ordinary stores ordered by release and acquire.
    """

    name: str
    in_place: str
    positions: tuple[int, ...]
    contributors: int
    slot_depth: int
    channels: int
    ranks: tuple[KernelRank, ...]
    blocks: tuple[KernelBlock, ...]
    """In order of (rank, index)."""
    counters: tuple[Counter, ...]
    protocol: str = "simple"

    @property
    def written(self) -> tuple[int, ...]:
        """The ranks whose outputs other ranks write, in order of ``ranks``."""
        targets = {
            i.target_rank
            for b in self.blocks
            for i in b.body
            if i.kind is InstructionKind.PUT and i.target is not None
            if i.target.buffer is Buffer.OUTPUT and i.target_rank != b.rank
        }
        return tuple(r.rank for r in self.ranks if r.rank in targets)
