"""What the engines demand of an algorithm before they run it: its form, and the limits of each.

From ``src/misc/msccl/msccl_parser.cc`` and ``src/include/msccl/msccl_struct.h`` of msccl-executor-nccl and of RCCL,
and the same of the older MSCCL.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from acclc.ir.msccl import COLLECTIVES, PROTOCOLS, MscclAlgorithm, MscclBlock, MscclGpu, MscclStep, StepKind
from acclc.verify.findings import Collector, Report
from acclc.verify.msccl.graph import step_name

NODES, CHILDREN = 4096, 1024
"""Elements of a file that count (the algorithm, its gpus, the own rank's blocks and steps), and of one element."""
COUNT = 72
"""A step moves fewer chunks than this."""
OFFSET = 2**15 - 1
AWAITED_BLOCK = 127
"""The largest id of a block that others wait for."""
FUSED = 16
"""Reductions in a row into one place that the engine runs as one; more would overrun its table."""
MAX_EVENTS = 2_000_000
PEERS = 32
"""Blocks of a rank that send (or that receive) on one channel."""


@dataclass(frozen=True, slots=True)
class Target:
    """An engine. ``steps`` a block, ``blocks`` a rank, ``channels``."""

    name: str
    steps: int
    blocks: int
    channels: int


TARGETS = {
    "executor": Target("msccl-executor-nccl", 64, 1024, 32),
    "rccl": Target("RCCL", 64, 64, 128),
    "msccl": Target("MSCCL before the executor", 256, 216, 32),
}


def check_limits(algorithm: MscclAlgorithm, target: Target) -> Report[None]:
    """Check that an engine loads an algorithm, and uses it; its form is checked elsewhere."""
    found = Collector()
    for name, value in (
        ("inplace", algorithm.in_place),
        ("outofplace", algorithm.out_of_place),
        ("minBytes", algorithm.min_bytes),
        ("maxBytes", algorithm.max_bytes),
    ):
        if value is None and (target.name != TARGETS["msccl"].name):
            found.error("msccl.unused", "algo", f"has no {name}: {target.name} does not use the file, and says nothing")
    if algorithm.channels > target.channels:
        found.error("msccl.channels", "algo", f"{algorithm.channels} channels; {target.name} has {target.channels}")
    for gpu in algorithm.gpus:
        _check_gpu(algorithm, gpu, target, found)
    return found.report()


def _check_gpu(algorithm: MscclAlgorithm, gpu: MscclGpu, target: Target, found: Collector) -> None:
    where = f"rank {gpu.id}"
    if len(gpu.blocks) > target.blocks:
        found.error("msccl.blocks", where, f"{len(gpu.blocks)} blocks; {target.name} has {target.blocks} a rank")
    nodes = 1 + len(algorithm.gpus) + sum(1 + len(b.steps) for b in gpu.blocks)
    if nodes >= NODES:
        found.error("msccl.nodes", where, f"{nodes} elements to read; the parser holds fewer than {NODES}")
    if len(gpu.blocks) > CHILDREN:
        found.error("msccl.nodes", where, f"{len(gpu.blocks)} blocks; an element holds {CHILDREN}")
    for direction in ("send", "receive"):
        used = Counter(b.channel for b in gpu.blocks if getattr(b, direction) is not None)
        for channel, count in sorted(used.items()):
            if count > PEERS:
                words = f"{count} blocks {direction} on channel {channel}; {PEERS} may"
                found.error("msccl.peers", where, words)
    awaited = {s.wait[0] for b in gpu.blocks for s in b.steps if s.wait is not None}
    for block in sorted(b for b in awaited if b > AWAITED_BLOCK):
        words = f"others wait for it, and the engine keeps the id in 8 bits: {AWAITED_BLOCK} at most"
        found.error("msccl.awaited", f"{where}, block {block}", words)
    for b in gpu.blocks:
        _check_block_limits(gpu, b, target, found)


def _check_block_limits(gpu: MscclGpu, block: MscclBlock, target: Target, found: Collector) -> None:
    where = f"rank {gpu.id}, block {block.id}"
    if len(block.steps) > target.steps:
        words = f"{len(block.steps)} steps; {target.name} has {target.steps} a block"
        found.error("msccl.steps", where, words)
    for step in block.steps:
        name = step_name(gpu.id, block.id, step)
        if step.count >= COUNT:
            found.error("msccl.count", name, f"moves {step.count} chunks; a step moves fewer than {COUNT}")
        if max(step.source.offset, step.target.offset) > OFFSET:
            found.error("msccl.offset", name, f"offsets are kept in 16 bits: {OFFSET} at most")
    chain = _longest_chain(block)
    if chain > FUSED:
        found.error("msccl.fused", where, f"{chain} reductions in a row into one place are fused; {FUSED} may be")


def _longest_chain(block: MscclBlock) -> int:
    """Return how many ``re`` the parser fuses at most: same target, same source buffer, no wait, none awaited."""
    longest, length, previous = 0, 0, None
    for step in block.steps:
        if step.kind is StepKind.NOP:
            continue
        if step.kind is not StepKind.REDUCE:
            length, previous = 0, None
            continue
        key = (step.target, step.source.buffer)
        length = length + 1 if previous == key and step.wait is None else 1
        previous = None if step.awaited else key
        longest = max(longest, length)
    return longest


def check_form(algorithm: MscclAlgorithm, found: Collector) -> None:
    """Note whatever no engine takes: attributes out of range, blocks that share a connection, steps out of order."""
    if algorithm.protocol not in PROTOCOLS:
        found.error("msccl.protocol", "algo", f"{algorithm.protocol!r} is none of {', '.join(PROTOCOLS)}")
    if algorithm.collective not in COLLECTIVES:
        found.error("msccl.collective", "algo", f"{algorithm.collective!r} is none of {', '.join(COLLECTIVES)}")
    ids = [g.id for g in algorithm.gpus]
    if sorted(ids) != list(range(algorithm.ranks)):
        found.error("msccl.ranks", "algo", f"has the gpus {ids}; ngpus {algorithm.ranks} needs each rank once")
    events = sum(max(1, s.count) for g in algorithm.gpus for b in g.blocks for s in b.steps)
    if events > MAX_EVENTS:
        found.error("msccl.size", "algo", f"moves {events} chunks in all: more than {MAX_EVENTS} are not looked at")
        return
    for gpu in algorithm.gpus:
        _check_blocks(algorithm, gpu, found)


def _check_blocks(algorithm: MscclAlgorithm, gpu: MscclGpu, found: Collector) -> None:
    ids = [b.id for b in gpu.blocks]
    if sorted(ids) != list(range(len(ids))):
        found.error("msccl.block", f"rank {gpu.id}", f"has blocks {ids}; they are numbered from 0 without a gap")
    owners: dict[tuple[str, int, int], int] = {}
    for block in gpu.blocks:
        where = f"rank {gpu.id}, block {block.id}"
        if not 0 <= block.channel < algorithm.channels:
            found.error("msccl.channels", where, f"channel {block.channel}; nchannels is {algorithm.channels}")
        for direction, peer in (("sends to", block.send), ("receives from", block.receive)):
            if peer is None:
                continue
            if peer == gpu.id or peer >= algorithm.ranks:
                found.error("msccl.block", where, f"{direction} rank {peer}, of {algorithm.ranks} ranks")
            other = owners.setdefault((direction, peer, block.channel), block.id)
            if other != block.id:
                words = f"{direction} rank {peer} on channel {block.channel}, as block {other} does: one block may"
                found.error("msccl.shared", where, words)
        waiting = False
        for position, step in enumerate(block.steps):
            _check_step(gpu, block, position, step, found)
            if waiting and step.wait is None and step.kind is not StepKind.NOP:
                words = "follows a nop, so it has to wait for something itself"
                found.error("msccl.nop", step_name(gpu.id, block.id, step), words)
            waiting = step.kind is StepKind.NOP
        if waiting:
            found.error("msccl.nop", where, "ends with a nop, whose wait no step takes over")


def _check_step(gpu: MscclGpu, block: MscclBlock, position: int, step: MscclStep, found: Collector) -> None:
    where = step_name(gpu.id, block.id, step)
    if step.number != position:
        found.error("msccl.step", where, f"is step {position} as engines count: a step is missing or out of order")
    if step.kind is StepKind.NOP:
        if step.wait is None:
            found.error("msccl.nop", where, "waits for nothing: engines would miscount the steps after it")
        return
    if step.kind.sends and block.send is None:
        found.error("msccl.block", where, "sends, but the block has no peer to send to")
    if step.kind.receives and block.receive is None:
        found.error("msccl.block", where, "receives, but the block has no peer to receive from")
    if step.count < 1:
        found.error("msccl.count", where, "moves no chunk")
    sizes = {"i": gpu.input_chunks, "o": gpu.output_chunks, "s": gpu.scratch_chunks}
    for used, place in ((step.kind.reads, step.source), (step.kind.writes, step.target)):
        if used and not 0 <= place.offset <= sizes[place.buffer] - step.count:
            words = f"chunks {place.offset} to {place.offset + step.count - 1} of {place.buffer!r}"
            found.error("msccl.bounds", where, f"{words}, which has {sizes[place.buffer]}")
    apart = step.source.offset - step.target.offset
    overlap = step.source.buffer == step.target.buffer and 0 < abs(apart) < step.count
    if step.kind.reads and step.kind.writes and overlap:
        found.error("msccl.overlap", where, "its source and target overlap without being the same")
