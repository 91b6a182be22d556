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
    done     src -> dst, once a slice: I have read and written of your memory what I had to. Lies in the memory of dst

A barrier orders a block's own accesses; so does every await and post, and the end of a slice of an LL program.

*Protocols* of an eager program. ``simple``: puts are ordinary stores, ordered by an arrival counter. ``ll``: slots hold
*lines* of 8 bytes of data in 16, each 4 bytes beside a flag that tells the slice; both are stored as one. A put into
another rank's slot writes lines (at least one, also of an empty piece, so that every transfer is waited for), and a put
that reads a slot waits for each line that it reads. So nobody posts an arrival counter, nor awaits one: it only names
the edge for messages. What a line proves to have happened before it: what its writer's block did before its last
barrier. What it proves to a block: from the block's next barrier on.

A schedule has several *realisations*, each a KernelProgram of its own with its own counters and slots:

    put      senders write into the receiver's final place or a slot, after its entry; a block for each link
    eager    all lands in slots, and nobody waits for an entry. The slots belong to this program alone, and which one
             a slice takes is counted over calls: slice g of a call uses slot (slices + g) mod K, and an await with
             a lag looks back into earlier calls (nothing if slices + g < lag). One block a rank
    direct   no slots: a put reads inputs and writes outputs of any rank, each after an entry of that rank, and a rank
             returns when all are done with its memory. ``src`` of an entry is who waits for it. One block a rank
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from acclc.ir.program import Buffer, Extent

KERNEL_PROGRAM_VERSION = 2


class Realisation(StrEnum):
    """How a schedule is brought into memory; see the module's text."""

    PUT = "put"
    EAGER = "eager"
    DIRECT = "direct"


class CounterKind(StrEnum):
    """What a counter tells; see the module's text."""

    ENTRY = "entry"
    ARRIVAL = "arrival"
    CREDIT = "credit"
    LOCAL = "local"
    DONE = "done"


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


@dataclass(frozen=True, slots=True)
class Place:
    """Memory of a rank that a put reads or writes; ``transfer``: which one it thereby makes (-1: none)."""

    rank: int
    extent: Extent
    transfer: int = -1


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose memory a source lies in, and the transfer that reading it makes (-1: none)."""

    rank: int
    transfer: int = -1


class Protocol(StrEnum):
    """How data come to a slot; see the module's text."""

    SIMPLE = "simple"
    LL = "ll"


class InstructionKind(StrEnum):
    """await and post act on a counter; put reduces local sources into a place of any rank's memory.

    barrier is for LL alone.
    """

    AWAIT = "await"
    POST = "post"
    PUT = "put"
    BARRIER = "barrier"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. ``step`` and ``transfer`` (-1: none) are for messages, traces and pictures.

    Of a put ``transfer`` is the one that writing the target makes; the first of several, where it makes more.
    """

    kind: InstructionKind
    step: int = -1
    transfer: int = -1
    counter: int = -1
    index: int = 0
    lag: int = 0
    sources: tuple[Extent, ...] = ()
    target: Extent | None = None
    target_rank: int = -1
    final: bool = False
    origins: tuple[Origin, ...] = ()
    """Of each source; none: all lie in the memory of the block's own rank."""
    copies: tuple[Place, ...] = ()
    """Where the result is written, too."""

    def reads(self, rank: int) -> tuple[Place, ...]:
        """The sources of a put of a block of ``rank``, in order."""
        origins = self.origins or (Origin(rank),) * len(self.sources)
        return tuple(Place(o.rank, e, o.transfer) for o, e in zip(origins, self.sources, strict=True))

    def writes(self, rank: int) -> tuple[Place, ...]:
        """The places that a put of a block of ``rank`` writes."""
        if self.target is None:
            return ()
        first = Place(self.target_rank, self.target, self.transfer if self.target_rank != rank else -1)
        return (first, *self.copies)


@dataclass(frozen=True, slots=True)
class KernelBlock:
    """A block of a rank. ``link``: the link direction it owns; -1: the rank's local block (always its block 0).

    Where a rank has one block only (eager, direct), that one sends, too, over all links.
    """

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
    ``acclc_runtime.partition.piece``). Counters and slots exist once a channel.
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
    protocol: Protocol = Protocol.SIMPLE
    realisation: Realisation = Realisation.PUT

    @property
    def written(self) -> tuple[int, ...]:
        """The ranks whose outputs other ranks write, in order of ``ranks``."""
        places = [(p, b.rank) for b in self.blocks for i in b.body for p in i.writes(b.rank)]
        targets = {p.rank for p, rank in places if p.rank != rank and p.extent.buffer is Buffer.OUTPUT}
        return tuple(r.rank for r in self.ranks if r.rank in targets)

    @property
    def read(self) -> tuple[int, ...]:
        """The ranks whose inputs other ranks read, in order of ``ranks``."""
        places = [(p, b.rank) for b in self.blocks for i in b.body for p in i.reads(b.rank)]
        origins = {p.rank for p, rank in places if p.rank != rank}
        return tuple(r.rank for r in self.ranks if r.rank in origins)
