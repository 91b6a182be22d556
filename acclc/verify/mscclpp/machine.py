"""Runs a plan on symbols: thread blocks, signals and waits, barriers and semaphores, with happens-before.

Threads of a block run side by side: what one operation wrote is seen by the next only after a ``nop`` (or a barrier).
A signal publishes what the block did before its last ``nop``; a wait takes effect at the next. Relaxed ones publish
nothing but that the rank has entered the call, and so has ended the one before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from acclc.ir.mscclpp import Plan, PlanBlock, PlanBuffer, PlanGpu, PlanOp
from acclc.verify.chunk_layout import Cell, Layout, cell_name
from acclc.verify.clocks import Access, AccessHistory, Vector
from acclc.verify.findings import Collector
from acclc.verify.sums import Contributions, Sums, Value

DATA = {"put", "get", "copy", "re", "res", "rre", "rres"}
EXECUTED = DATA | {"nop", "signal", "wait", "rlxsignal", "rlxwait", "barrier", "sem_acquire", "sem_release"}
Place = tuple[int, str, int]
"""(rank, buffer, part)."""


@dataclass(eq=False, slots=True)
class _Block:
    """A thread block while it runs. ``clock[number]`` is the number of its current stretch between two ``nop``."""

    gpu: PlanGpu
    plan: PlanBlock
    number: int
    clock: Vector
    pending: list[Vector] = field(default_factory=list)
    position: int = 0
    arrived: bool = False

    @property
    def name(self) -> str:
        return f"rank {self.gpu.id}, block {self.plan.id}, op {self.position} ({self.op.name})"

    @property
    def op(self) -> PlanOp:
        return self.plan.ops[self.position]

    @property
    def ended(self) -> bool:
        return self.position == len(self.plan.ops)

    def publishes(self) -> Vector:
        """What a signal tells of: all that was before the last ``nop``."""
        clock = self.clock.copy()
        clock[self.number] -= 1
        return clock

    def synchronise(self) -> None:
        """All threads meet: what was waited for is seen, and a new stretch begins."""
        for other in self.pending:
            np.maximum(self.clock, other, out=self.clock)
        self.pending.clear()
        self.clock[self.number] += 1


class Machine:
    """Runs calls of a plan; what is wrong goes to ``found``."""

    def __init__(self, plan: Plan, layout: Layout, parts: int, found: Collector) -> None:
        self.plan, self.layout, self.parts, self.found = plan, layout, parts, found
        self.sums, self.contributions = Sums(), Contributions()
        self.held: dict[Place, Value] = {}
        self.history = AccessHistory(strict=True)
        self.channels = _joined(plan)
        self.signals: dict[tuple[int, int], deque[Vector]] = {}
        self.tokens: dict[tuple[int, int], deque[Vector | None]] = {}
        width = len(plan.gpus) + sum(len(g.threadblocks) for g in plan.gpus)
        self.entered = [np.zeros(width, dtype=np.int32) for _ in plan.gpus]
        """Of each rank: what it knew when it entered the call it is in."""
        self.blocks: list[list[_Block]] = []
        number = len(plan.gpus)
        for gpu in plan.gpus:
            own = [_Block(gpu, b, number + i, np.zeros(width, dtype=np.int32)) for i, b in enumerate(gpu.threadblocks)]
            number += len(own)
            self.blocks.append(own)

    def run(self, calls: int) -> None:
        """Run calls in a row; each rank goes into the next as soon as it has ended the one before."""
        call = [0] * len(self.plan.gpus)
        for rank in range(len(call)):
            self._enter(rank)
        moving = True
        while moving:
            moving = False
            for rank, own in enumerate(self.blocks):
                for block in own:
                    while not block.ended and self._step(block):
                        moving = True
                if call[rank] < calls and all(b.ended for b in own):
                    self._leave(rank)
                    call[rank] += 1
                    moving = True
                    if call[rank] < calls:
                        self._enter(rank)
        for rank, done in enumerate(call):
            if done < calls:
                waiting = next(b for b in self.blocks[rank] if not b.ended)
                self.found.error("mscclpp.deadlock", f"{waiting.name}, call {done}", "waits for ever")
        for key, left in self.signals.items():
            if left:
                self.found.error("mscclpp.signals", f"rank {key[0]}", f"{len(left)} signals that nobody waits for")

    def _enter(self, rank: int) -> None:
        """The caller has written the inputs and reads the outputs no more."""
        clock = self.entered[rank]
        clock[rank] += 1
        now = Access(rank, int(clock[rank]), f"the caller of rank {rank}, before a call")
        for key in [k for k in self.held if k[0] == rank]:
            self._note(self.history.write(key, now, clock), now, key)
            del self.held[key]
        for chunk in range(self.layout.input_chunks(rank)):
            value = self.sums.own(self.contributions.bit((rank, chunk)))
            for place in self._places(self.layout.cell(rank, "i", chunk, self.plan.inplace)):
                self.held[place] = value
                self._note(self.history.write(place, now, clock), now, place)
        for i, semaphore in enumerate(self.plan.gpus[rank].semaphores):
            self.tokens[(rank, i)] = deque([None] * max(0, min(semaphore.init_value, 4096)))
        for block in self.blocks[rank]:
            block.position = 0
            mine = block.clock[block.number]
            np.maximum(block.clock, clock, out=block.clock)
            block.clock[block.number] = mine + 1

    def _leave(self, rank: int) -> None:
        """All blocks have ended, what they waited for included; the caller reads the outputs."""
        clock = self.entered[rank]
        for block in self.blocks[rank]:
            block.synchronise()
            np.maximum(clock, block.clock, out=clock)
        clock[rank] += 1
        now = Access(rank, int(clock[rank]), f"the caller of rank {rank}, after a call")
        for chunk in range(self.layout.output_chunks(rank)):
            origins = self.layout.origins(rank, chunk)
            for place in self._places(self.layout.cell(rank, "o", chunk, self.plan.inplace)):
                self._note(self.history.read(place, now, clock), now, place)
                value = self.held.get(place, -1)
                objection = self.contributions.objection(self.sums, value, origins)
                if objection:
                    self.found.error("mscclpp.result", f"chunk {chunk} of the output of rank {rank}", objection)
                    break

    def _places(self, cell: Cell) -> Iterator[Place]:
        rank, buffer, chunk = cell
        return ((rank, buffer, chunk * self.parts + part) for part in range(self.parts))

    def _step(self, block: _Block) -> bool:
        """Run the next op of a block; False where it has to wait."""
        op = block.op
        match op.name:
            case "nop":
                block.synchronise()
            case "signal" | "rlxsignal":
                for i in op.channel_ids:
                    told = block.publishes() if op.name == "signal" else self.entered[block.gpu.id].copy()
                    self.signals.setdefault(self._peer_end(block, i), deque()).append(told)
            case "wait" | "rlxwait":
                ends = [(block.gpu.id, self._channel(block, i)) for i in op.channel_ids]
                if any(not self.signals.get(end) for end in ends):
                    return False
                block.pending += [self.signals[end].popleft() for end in ends]
            case "barrier":
                return self._barrier(block)
            case "sem_acquire":
                keys = [(block.gpu.id, i) for i in op.semaphore_ids]
                if any(not self.tokens[key] for key in keys):
                    return False
                block.pending += [t for key in keys if (t := self.tokens[key].popleft()) is not None]
            case "sem_release":
                for i in op.semaphore_ids:
                    self.tokens[(block.gpu.id, i)].append(block.publishes())
            case _:
                self._data(block, op)
        block.position += 1
        return True

    def _barrier(self, block: _Block) -> bool:
        """Meet the other blocks at the same barrier; the last to come lets all go on."""
        block.arrived = True
        others = [b for b in self.blocks[block.gpu.id] if b.arrived and b.op.barrier_id == block.op.barrier_id]
        if len(others) < (block.op.num_threadblocks or 1):
            return False
        told = [b.clock.copy() for b in others]
        for other in others:
            other.pending += told
            other.synchronise()
            other.arrived = False
            other.position += 1
        return True

    def _channel(self, block: _Block, local: int) -> int:
        return [i for c in block.plan.channels if c.channel_type == "memory" for i in c.channel_ids][local]

    def _peer_end(self, block: _Block, local: int) -> tuple[int, int]:
        end = (block.gpu.id, self._channel(block, local))
        return self.channels.get(end, (-1, -1))

    def _data(self, block: _Block, op: PlanOp) -> None:
        now = Access(block.number, int(block.clock[block.number]), block.name)
        sources = [self._run(block, op, b) for b in op.src_buff]
        targets = [self._run(block, op, b) for b in op.dst_buff]
        if op.name in ("put", "get"):
            for source, target in zip(sources, targets, strict=True):
                self._move(block, [source], [target], now)
        else:
            self._move(block, sources, targets, now)

    def _run(self, block: _Block, op: PlanOp, buffer: PlanBuffer) -> list[Place]:
        """The parts of memory that a block touches of a buffer of an op."""
        rank, kind = block.gpu.id, buffer.type
        if buffer.buffer_id is not None:
            ids = [i for r in block.plan.remote_buffer_refs for i in r.remote_buffer_ids]
            remote = block.gpu.remote_buffers[ids[buffer.buffer_id]]
            rank, kind = remote.rank, remote.type
        assert kind is not None
        length = buffer.size * self.parts
        group = op.tbg_info
        first, last = (
            (0, length)
            if group is None
            else (
                length * group.tb_id // group.tbg_size,
                length * (group.tb_id + 1) // group.tbg_size,
            )
        )
        places: list[Place] = []
        for part in range(first, last):
            chunk, rest = divmod(part, self.parts)
            cell = self.layout.cell(rank, kind, buffer.index + chunk, self.plan.inplace)
            places.append((cell[0], cell[1], cell[2] * self.parts + rest))
        return places

    def _move(self, block: _Block, sources: list[list[Place]], targets: list[list[Place]], now: Access) -> None:
        """Reduce the sources in order, part by part, into every target."""
        if len({len(run) for run in (*sources, *targets)}) > 1:
            self.found.error("mscclpp.sizes", str(now.label), "its sources and targets are of different lengths")
            return
        for i in range(len(sources[0]) if sources else 0):
            value = -1
            for n, run in enumerate(sources):
                held = self._read(block, run[i], now)
                value = held if n == 0 else (self.sums.add(value, held) if min(value, held) >= 0 else -1)
            for run in targets:
                self._write(block, run[i], value, now)

    def _read(self, block: _Block, place: Place, now: Access) -> Value:
        self._note(self.history.read(place, now, block.clock), now, place)
        value = self.held.get(place, -1)
        if value < 0:
            self.found.error("mscclpp.value", str(now.label), f"reads {self._words(place)}: no value is there")
        return value

    def _write(self, block: _Block, place: Place, value: Value, now: Access) -> None:
        self._note(self.history.write(place, now, block.clock), now, place)
        rank, kind, part = place
        sizes = {"i": self.layout.input_chunks(rank), "o": self.layout.output_chunks(rank)}
        inside = max(sizes.values()) if self.plan.inplace else sizes.get(kind, 0)
        room = self.plan.gpus[rank].scratch_chunks if kind == "s" else inside
        if part >= room * self.parts:
            self.found.error("mscclpp.bounds", str(now.label), f"writes {self._words(place)}, which is not there")
        elif kind == "i" and not self.plan.inplace:
            self.found.warning("mscclpp.input", str(now.label), "overwrites the caller's input")
        self.held[place] = value

    def _note(self, earlier: Access | None, now: Access, place: Place) -> None:
        if earlier is not None:
            words = f"nothing orders it and {earlier.label}; both: {self._words(place)}"
            self.found.error("mscclpp.race", str(now.label), words)

    def _words(self, place: Place) -> str:
        rank, buffer, part = place
        return cell_name((rank, buffer, part // self.parts))


def _joined(plan: Plan) -> dict[tuple[int, int], tuple[int, int]]:
    """(rank, memory channel) -> its other end: the k-th channel to a rank meets the k-th of that rank back."""
    ends: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for gpu in plan.gpus:
        peers = [p for c in gpu.channels if c.channel_type == "memory" for p in c.connected_to]
        for i, peer in enumerate(peers):
            ends.setdefault((gpu.id, peer), []).append((gpu.id, i))
    joined: dict[tuple[int, int], tuple[int, int]] = {}
    for (rank, peer), own in ends.items():
        for one, other in zip(own, ends.get((peer, rank), []), strict=False):
            joined[one] = other
    return joined
