"""An execution plan of MSCCL++ (version 0.9), field by field as its JSON names them.

All sizes and indices of buffers are in chunks. Within ``ops``, channel and buffer ids are local to the thread block:
positions in its ``channels`` and ``remote_buffer_refs``.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_SIZE = 2**64 - 1


@dataclass(frozen=True, slots=True)
class PlanBuffer:
    """``size`` chunks from ``index`` on, of an own buffer (``type``), a remote one, or through a switch."""

    index: int
    size: int
    type: str | None = None
    buffer_id: int | None = None
    switch_channel_id: int | None = None


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """The op is shared by ``tbg_size`` thread blocks: this one does part ``tb_id`` of its chunks."""

    tb_id: int
    tbg_size: int


@dataclass(frozen=True, slots=True)
class PlanOp:
    """One operation of a thread block."""

    name: str
    channel_ids: tuple[int, ...] = ()
    channel_type: str | None = None
    src_buff: tuple[PlanBuffer, ...] = ()
    dst_buff: tuple[PlanBuffer, ...] = ()
    tbg_info: BlockGroup | None = None
    barrier_id: int | None = None
    num_threadblocks: int | None = None
    semaphore_ids: tuple[int, ...] = ()
    reduce_op: str | None = None
    iter_context: dict[str, int] | None = None
    ops: tuple[PlanOp, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockChannels:
    """Channels that a thread block uses, by their positions among those of their type."""

    channel_type: str
    channel_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockBuffers:
    """Remote buffers that a thread block uses, by their positions in the rank's list."""

    access_channel_type: str
    remote_buffer_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanBlock:
    """A thread block."""

    id: int
    ops: tuple[PlanOp, ...]
    channels: tuple[BlockChannels, ...] = ()
    remote_buffer_refs: tuple[BlockBuffers, ...] = ()


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that a switch channel joins, and its size in chunks."""

    size: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanChannel:
    """Channels of a type: one to each rank of ``connected_to``; or through a switch."""

    channel_type: str
    connected_to: tuple[int, ...] = ()
    buffer_type: str | None = None
    rank_groups: tuple[RankGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteBuffer:
    """Another rank's buffer."""

    rank: int
    type: str
    access_channel_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A semaphore between thread blocks of a rank."""

    init_value: int


@dataclass(frozen=True, slots=True)
class PlanGpu:
    """One rank's part."""

    id: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    threadblocks: tuple[PlanBlock, ...]
    channels: tuple[PlanChannel, ...] = ()
    remote_buffers: tuple[RemoteBuffer, ...] = ()
    semaphores: tuple[Semaphore, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan."""

    name: str
    collective: str
    protocol: str
    inplace: bool
    gpus: tuple[PlanGpu, ...]
    reuse_resources: bool = False
    num_threads_per_block: int = 1024
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = 16
    min_message_size: int = 0
    max_message_size: int = MAX_SIZE
