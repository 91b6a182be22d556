"""What MSCCL++'s parser and its fixed tables demand of a plan.

From ``src/core/executor/execution_plan.cc`` and ``src/core/include/execution_common.hpp``: the parser checks little
itself, what exceeds a table is written beyond its end.
"""

from __future__ import annotations

from collections import Counter

from acclc.ir.mscclpp import Plan, PlanBlock, PlanBuffer, PlanGpu, PlanOp
from acclc.verify.findings import Collector, Report

CHANNELS = 16
"""Of a type, a thread block; and remote buffers of a type."""
CHANNELS_OF_OP = 8
LOCAL_BUFFERS, REMOTE_BUFFERS = 2, 8
"""An op's table has room for both together, on each side."""
OPS = 64
CHUNKS = 2**20
"""No plan has more; beyond it a file is not looked at any further."""
SEMAPHORES = 16
BARRIERS = 16
_SYNCHRONISING = {"nop", "barrier", "signal", "wait", "rlxsignal", "rlxwait", "flush", "sem_acquire", "sem_release"}
_MOVING = {"put", "pws", "pwsf", "get", "copy", "re", "res", "rre", "rres", "pipeline"}
_PACKETS = {"ppkt", "rppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt"}
_SWITCH = {"glres", "gstore", "gstorepkt"}
NAMES = _SYNCHRONISING | _MOVING | _PACKETS | _SWITCH
TYPES = ("memory", "port", "switch")
BUFFERS = ("i", "o", "s")


def check_rules(plan: Plan) -> Report[None]:
    """Check a plan's form and limits; what it does is checked elsewhere."""
    found = Collector()
    if plan.protocol not in ("Simple", "LL"):
        found.error("mscclpp.protocol", "plan", f"protocol {plan.protocol!r} is neither Simple nor LL")
    if plan.buffer_alignment < 1 or plan.buffer_alignment % 16:
        found.error("mscclpp.alignment", "plan", f"alignment {plan.buffer_alignment}; kernels move 16 bytes at once")
    if not 1 <= plan.num_threads_per_block <= 1024:
        found.error("mscclpp.threads", "plan", f"{plan.num_threads_per_block} threads a block; 1 to 1024 may be")
    if plan.min_message_size > plan.max_message_size:
        found.error("mscclpp.sizes", "plan", "its least size is above its largest: no call uses it")
    if [g.id for g in plan.gpus] != list(range(len(plan.gpus))):
        found.error("mscclpp.ranks", "plan", f"gpus {[g.id for g in plan.gpus]} are not 0, 1, 2, ... in order")
        return found.report()
    for gpu in plan.gpus:
        _check_gpu(plan, gpu, found)
    _check_pairs(plan, found)
    return found.report()


def _check_gpu(plan: Plan, gpu: PlanGpu, found: Collector) -> None:
    where, ranks = f"rank {gpu.id}", len(plan.gpus)
    if max(gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks) > CHUNKS:
        found.error("mscclpp.chunks", where, f"a buffer of more than {CHUNKS} chunks")
    if gpu.input_chunks < 1 or gpu.output_chunks < 1 or gpu.scratch_chunks < 0:
        words = f"{gpu.input_chunks} input and {gpu.output_chunks} output chunks: the engine divides by both"
        found.error("mscclpp.chunks", where, words)
    for channel in gpu.channels:
        if channel.channel_type not in TYPES:
            found.error("mscclpp.channel", where, f"channel type {channel.channel_type!r}")
        peers = [*channel.connected_to, *(r for g in channel.rank_groups for r in g.ranks if r != gpu.id)]
        for peer in (p for p in peers if not 0 <= p < ranks or p == gpu.id):
            found.error("mscclpp.channel", where, f"a channel to rank {peer}, of {ranks} ranks")
        if channel.channel_type == "switch" and (channel.buffer_type not in BUFFERS or not channel.rank_groups):
            found.error("mscclpp.channel", where, "a switch channel names its buffer and its groups of ranks")
    for buffer in gpu.remote_buffers:
        if not 0 <= buffer.rank < ranks or buffer.rank == gpu.id or buffer.type not in BUFFERS:
            found.error("mscclpp.buffer", where, f"remote buffer {buffer.type!r} of rank {buffer.rank}")
        if not buffer.access_channel_types or any(t not in ("memory", "port") for t in buffer.access_channel_types):
            found.error("mscclpp.buffer", where, "a remote buffer is accessed by memory or port channels")
    if [b.id for b in gpu.threadblocks] != list(range(len(gpu.threadblocks))):
        found.error("mscclpp.block", where, "thread blocks are not numbered 0, 1, 2, ... in order")
    for block in gpu.threadblocks:
        _check_block(gpu, block, found)


def _check_block(gpu: PlanGpu, block: PlanBlock, found: Collector) -> None:
    where = f"rank {gpu.id}, block {block.id}"
    have = {t: sum(_length(c.channel_type, c) for c in gpu.channels if c.channel_type == t) for t in TYPES}
    for used in block.channels:
        total = have.get(used.channel_type, 0)
        if any(not 0 <= i < total for i in used.channel_ids):
            found.error("mscclpp.channel", where, f"uses {used.channel_type} channels beyond the rank's {total}")
    own = Counter(t.channel_type for t in block.channels for _ in t.channel_ids)
    for kind, count in own.items():
        if count > CHANNELS:
            found.error("mscclpp.channels", where, f"{count} {kind} channels; a thread block has {CHANNELS}")
    remote: Counter[str] = Counter()
    for refs in block.remote_buffer_refs:
        remote[refs.access_channel_type] += len(refs.remote_buffer_ids)
        for i in refs.remote_buffer_ids:
            known = 0 <= i < len(gpu.remote_buffers)
            if not known or refs.access_channel_type not in gpu.remote_buffers[i].access_channel_types:
                found.error("mscclpp.buffer", where, f"remote buffer {i} is not there for {refs.access_channel_type}")
    if any(count > CHANNELS for count in remote.values()):
        found.error("mscclpp.buffers", where, f"{max(remote.values())} remote buffers; a thread block has {CHANNELS}")
    ops = [o for op in block.ops for o in (op, *op.ops)]
    if len(ops) > OPS:
        found.error("mscclpp.ops", where, f"{len(ops)} operations; a thread block has {OPS}")
    for number, op in enumerate(ops):
        _check_op(gpu, op, f"{where}, op {number} ({op.name})", own, remote, found)


def _length(kind: str, channel: object) -> int:
    return len(channel.rank_groups if kind == "switch" else channel.connected_to)  # type: ignore[attr-defined]


def _check_op(gpu: PlanGpu, op: PlanOp, where: str, own: Counter[str], remote: Counter[str], found: Collector) -> None:
    if op.name not in NAMES:
        found.error("mscclpp.name", where, "is no operation that the parser knows")
    kind = op.channel_type or ""
    if op.channel_ids and any(not 0 <= i < own[kind] for i in op.channel_ids):
        found.error("mscclpp.channel", where, f"channels {list(op.channel_ids)}; the block has {own[kind]} of {kind!r}")
    if len(op.channel_ids) > CHANNELS_OF_OP:
        found.error("mscclpp.channels", where, f"{len(op.channel_ids)} channels; an operation has {CHANNELS_OF_OP}")
    for side in (op.src_buff, op.dst_buff):
        if len(side) > LOCAL_BUFFERS + REMOTE_BUFFERS:
            found.error(
                "mscclpp.buffers", where, f"{len(side)} buffers; its table holds {LOCAL_BUFFERS + REMOTE_BUFFERS}"
            )
        if sum(b.buffer_id is not None for b in side) > REMOTE_BUFFERS:
            found.error("mscclpp.buffers", where, f"more than {REMOTE_BUFFERS} remote buffers")
        for buffer in side:
            _check_buffer(gpu, buffer, where, kind, own, remote, found)
    group = op.tbg_info
    if group is not None and not 0 <= group.tb_id < group.tbg_size:
        found.error("mscclpp.group", where, f"part {group.tb_id} of {group.tbg_size}")
    if op.name == "put" and len(op.src_buff) != len(op.dst_buff):
        found.error("mscclpp.form", where, f"{len(op.src_buff)} sources and {len(op.dst_buff)} targets")
    if op.name == "put" and len({b.type for b in op.src_buff}) > 1:
        found.error("mscclpp.form", where, "its sources lie in different buffers: the engine takes the first's for all")
    if op.name == "barrier" and not (op.barrier_id is not None and 0 <= op.barrier_id < BARRIERS):
        found.error("mscclpp.barrier", where, f"barrier {op.barrier_id}; there are {BARRIERS}")
    if op.name.startswith("sem_"):
        known = min(len(gpu.semaphores), SEMAPHORES)
        if not op.semaphore_ids or any(not 0 <= i < known for i in op.semaphore_ids):
            found.error("mscclpp.semaphore", where, f"semaphores {list(op.semaphore_ids)}; the rank has {known}")
    if op.name == "pipeline" and op.iter_context is None:
        found.error("mscclpp.form", where, "a pipeline says its iterations (iter_context)")


def _check_buffer(
    gpu: PlanGpu,
    buffer: PlanBuffer,
    where: str,
    kind: str,
    own: Counter[str],
    remote: Counter[str],
    found: Collector,
) -> None:
    named = [n for n in (buffer.type, buffer.buffer_id, buffer.switch_channel_id) if n is not None]
    if len(named) != 1 or buffer.index < 0 or not 1 <= buffer.size <= CHUNKS:
        found.error("mscclpp.form", where, "a buffer has one of type, buffer_id, switch_channel_id; an index; a size")
    if buffer.buffer_id is not None and not 0 <= buffer.buffer_id < remote[kind]:
        found.error("mscclpp.buffer", where, f"remote buffer {buffer.buffer_id}; the block has {remote[kind]}")
    if buffer.switch_channel_id is not None and not 0 <= buffer.switch_channel_id < own["switch"]:
        found.error("mscclpp.channel", where, f"switch channel {buffer.switch_channel_id} of {own['switch']}")
    if buffer.type is not None:
        if buffer.type not in BUFFERS:
            found.error("mscclpp.buffer", where, f"buffer {buffer.type!r}")
            return
        sizes = {"i": gpu.input_chunks, "o": gpu.output_chunks, "s": gpu.scratch_chunks}
        if buffer.index + buffer.size > sizes[buffer.type]:
            last = buffer.index + buffer.size - 1
            words = f"chunks {buffer.index} to {last} of {buffer.type!r}, which has {sizes[buffer.type]}"
            found.error("mscclpp.bounds", where, words)


def _check_pairs(plan: Plan, found: Collector) -> None:
    """The k-th memory channel to a rank is joined with the k-th of that rank back."""
    counts = {
        (gpu.id, peer): count
        for gpu in plan.gpus
        for peer, count in Counter(
            p for c in gpu.channels if c.channel_type == "memory" for p in c.connected_to
        ).items()
    }
    for (rank, peer), count in counts.items():
        back = counts.get((peer, rank), 0)
        if back != count:
            words = f"{count} memory channels to rank {peer}, which has {back} back"
            found.warning("mscclpp.pairs", f"rank {rank}", words)
