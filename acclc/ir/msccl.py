"""An algorithm of MSCCL: what its XML says, read or to be written. Executed by msccl-executor-nccl and by RCCL.

A *block* runs its steps in order; it sends to one peer and receives from one. Messages of a (sender, receiver,
channel) match in order. Buffers are cut into equal chunks, and every offset and count is in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StepKind(StrEnum):
    """What a step does; the letters are those of the XML."""

    SEND = "s"
    RECEIVE = "r"
    RECEIVE_COPY_SEND = "rcs"
    """Receive, store, send on."""
    RECEIVE_REDUCE_SEND = "rrs"
    """Receive, reduce with the source, send on; nothing is stored."""
    RECEIVE_REDUCE_COPY = "rrc"
    """Receive, reduce with the source, store."""
    RECEIVE_REDUCE_COPY_SEND = "rrcs"
    COPY = "cpy"
    REDUCE = "re"
    """The target becomes target + source."""
    NOP = "nop"
    """Only waits."""

    @property
    def receives(self) -> bool:
        """Whether it takes a message."""
        return self in _RECEIVES

    @property
    def sends(self) -> bool:
        """Whether it gives one."""
        return self in _SENDS

    @property
    def reads(self) -> bool:
        """Whether it reads its source."""
        return self in _READS

    @property
    def writes(self) -> bool:
        """Whether it writes its target."""
        return self in _WRITES

    @property
    def reduces(self) -> bool:
        """Whether it needs an operator."""
        return self in _REDUCES


_K = StepKind
_RECEIVES = {_K.RECEIVE, _K.RECEIVE_COPY_SEND, _K.RECEIVE_REDUCE_SEND, _K.RECEIVE_REDUCE_COPY}
_RECEIVES |= {_K.RECEIVE_REDUCE_COPY_SEND}
_SENDS = {_K.SEND, _K.RECEIVE_COPY_SEND, _K.RECEIVE_REDUCE_SEND, _K.RECEIVE_REDUCE_COPY_SEND}
_REDUCES = {_K.RECEIVE_REDUCE_SEND, _K.RECEIVE_REDUCE_COPY, _K.RECEIVE_REDUCE_COPY_SEND, _K.REDUCE}
_READS = _REDUCES | {_K.SEND, _K.COPY}
_WRITES = {_K.RECEIVE, _K.RECEIVE_COPY_SEND, _K.RECEIVE_REDUCE_COPY, _K.RECEIVE_REDUCE_COPY_SEND, _K.COPY, _K.REDUCE}


@dataclass(frozen=True, slots=True)
class Reference:
    """A place: ``buffer`` is i (input), o (output) or s (scratch), ``offset`` its chunk."""

    buffer: str
    offset: int


@dataclass(frozen=True, slots=True)
class MscclStep:
    """One step. ``number`` is its ``s``; ``wait``: (block, step) of the same rank that must have passed, or None."""

    number: int
    kind: StepKind
    source: Reference
    target: Reference
    count: int
    wait: tuple[int, int] | None
    awaited: bool
    """Whether it tells others when it has passed (``hasdep``)."""


@dataclass(frozen=True, slots=True)
class MscclBlock:
    """One thread block. A peer is None where the XML has -1."""

    id: int
    send: int | None
    receive: int | None
    channel: int
    steps: tuple[MscclStep, ...]


@dataclass(frozen=True, slots=True)
class MscclGpu:
    """One rank's part: its buffers in chunks, and its blocks."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    blocks: tuple[MscclBlock, ...]


@dataclass(frozen=True, slots=True)
class MscclAlgorithm:
    """A whole file. What old files leave out (in place, out of place, sizes in bytes) is None."""

    name: str
    protocol: str
    channels: int
    chunks_per_loop: int
    """Chunks into which count, or ranks x count, is cut (``nchunksperloop``)."""
    ranks: int
    collective: str
    in_place: bool | None
    out_of_place: bool | None
    min_bytes: int | None
    max_bytes: int | None
    """0: no limit."""
    gpus: tuple[MscclGpu, ...]


PROTOCOLS = ("Simple", "LL", "LL128")
COLLECTIVES = (
    "reduce",
    "broadcast",
    "allreduce",
    "reducescatter",
    "allgather",
    "send",
    "recv",
    "gather",
    "scatter",
    "alltoall",
    "alltoallv",
)
"""What ``coll`` may say."""
