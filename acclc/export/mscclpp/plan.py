"""A Schedule as an execution plan of MSCCL++: memory channels, steps in step with the neighbours.

All thread blocks of a rank do the same, each with its part of every chunk (``tbg_info``) and with channels of its own,
so they never wait for each other. A step is: local work, puts, a signal to everyone that was written to, a wait for
everyone that wrote. At the start a rank tells those that will write to it that it has entered the call. Nothing but
``nop`` orders the threads of a block, so it stands between whatever touches the same memory, before a signal and after
a wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from acclc.export.errors import ExportError
from acclc.export.mscclpp.values import MAX_SOURCES, Moves, Put, Run, Work
from acclc.export.pieces import NAMES, Grid, positions
from acclc.ir.mscclpp import (
    MAX_SIZE,
    BlockBuffers,
    BlockChannels,
    BlockGroup,
    Plan,
    PlanBlock,
    PlanBuffer,
    PlanChannel,
    PlanGpu,
    PlanOp,
    RemoteBuffer,
)
from acclc.ir.problem import InPlace, Problem, Rank
from acclc.ir.schedule import Schedule

T = TypeVar("T")
MAX_CHANNELS = 16
"""Channels of a thread block, and remote buffers."""
MAX_CHANNELS_OF_OP = 8
MAX_OPS = 64
BLOCKS = 8
"""Thread blocks a rank, where the user does not say."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a plan says beside the schedule. Bytes as MSCCL++ counts them: of the input, of allgather the output."""

    name: str = "acclc"
    in_place: bool = False
    blocks: int = BLOCKS
    min_bytes: int = 0
    max_bytes: int = MAX_SIZE


def export_plan(problem: Problem, schedule: Schedule, options: PlanOptions) -> Plan:
    """Return the plan of a verified schedule.

    Raises:
        ExportError: the collective has no name there, is not offered in place, or a limit is exceeded.
    """
    if problem.collective not in NAMES:
        raise ExportError("collective", f"MSCCL++ has no collective for {problem.collective.value}")
    if options.in_place and problem.demands[0].in_place is InPlace.NONE:
        raise ExportError("in place", f"{problem.collective.value} does not run in place")
    grid = Grid(problem, schedule, longest=2**30)
    moves = Moves(grid, options.in_place)
    number = positions(problem.group)
    gpus = tuple(_Rank(moves, rank, number, options.blocks).gpu() for rank in problem.group)
    return Plan(
        name=options.name,
        collective=NAMES[problem.collective],
        protocol="Simple",
        inplace=options.in_place,
        gpus=gpus,
        min_message_size=options.min_bytes,
        max_message_size=options.max_bytes,
    )


@dataclass
class _Rank:
    """One rank's part."""

    moves: Moves
    rank: Rank
    number: dict[Rank, int]
    blocks: int
    peers: list[Rank] = field(default_factory=list)
    remote: list[tuple[Rank, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = self.moves.grid.schedule.steps
        transfers = self.moves.grid.schedule.transfers
        ends = {t.dst for t in transfers if t.src == self.rank} | {t.src for t in transfers if t.dst == self.rank}
        self.peers = sorted(ends, key=lambda r: self.number[r])
        written = {(p.dst, p.target.buffer) for s in range(self.steps) for p in self._puts(s)}
        self.remote = sorted(written, key=lambda pair: (self.number[pair[0]], pair[1]))
        self._limit("channels", len(self.peers), MAX_CHANNELS, "peers; a thread block has {} channels")
        self._limit("remote buffers", len(self.remote), MAX_CHANNELS, "remote buffers; a thread block has {}")

    def _limit(self, limit: str, have: int, most: int, words: str) -> None:
        if have > most:
            raise ExportError(limit, f"rank {self.rank} needs {have} {words.format(most)}")

    def _puts(self, step: int) -> list[Put]:
        return self.moves.puts.get((self.rank, step), [])

    def gpu(self) -> PlanGpu:
        """Return the rank's part of the plan."""
        problem, cells = self.moves.grid.problem, self.moves.grid.cells
        inputs, outputs = problem.input_units(self.rank) * cells, problem.output_units(self.rank) * cells
        ops = tuple(self._ops())
        self._limit("operations", len(ops), MAX_OPS, "operations; a thread block has {}")
        blocks = tuple(self._block(b, ops) for b in range(self.blocks))
        channel = PlanChannel("memory", tuple(self.number[p] for _ in range(self.blocks) for p in self.peers))
        return PlanGpu(
            id=self.number[self.rank],
            input_chunks=inputs or outputs,  # the engine divides by both, also where a rank has no such buffer
            output_chunks=outputs or inputs,
            scratch_chunks=self.moves.scratch.get(self.rank, 0),
            threadblocks=blocks,
            channels=(channel,) if self.peers else (),
            remote_buffers=tuple(RemoteBuffer(self.number[r], kind, ("memory",)) for r, kind in self.remote),
        )

    def _block(self, index: int, ops: tuple[PlanOp, ...]) -> PlanBlock:
        first = index * len(self.peers)
        channels = BlockChannels("memory", tuple(range(first, first + len(self.peers))))
        buffers = BlockBuffers("memory", tuple(range(len(self.remote))))
        return PlanBlock(
            id=index,
            ops=tuple(_with_group(op, BlockGroup(index, self.blocks)) for op in ops),
            channels=(channels,) if self.peers else (),
            remote_buffer_refs=(buffers,) if self.remote else (),
        )

    def _ops(self) -> Iterator[PlanOp]:
        transfers = self.moves.grid.schedule.transfers
        sends = [{t.dst for t in transfers if t.src == self.rank and t.step == s} for s in range(self.steps)]
        takes = [{t.src for t in transfers if t.dst == self.rank and t.step == s} for s in range(self.steps)]
        writers, readers = set().union(*takes), set().union(*sends)
        yield from self._sync("rlxsignal", writers)
        yield from self._sync("rlxwait", readers)
        if readers:
            yield PlanOp("nop")
        for step in range(self.steps + 1):
            for level in self.moves.levels(self.rank, step):
                for work in level:
                    yield from _work_ops(work)
                yield PlanOp("nop")
            if step < self.steps:
                yield from self._put_ops(self._puts(step))
                if sends[step]:
                    yield PlanOp("nop")
                yield from self._sync("signal", sends[step])
                yield from self._sync("wait", takes[step])
                if takes[step]:
                    yield PlanOp("nop")

    def _sync(self, name: str, peers: set[Rank]) -> Iterator[PlanOp]:
        ids = [i for i, p in enumerate(self.peers) if p in peers]
        for part in _parts(ids, MAX_CHANNELS_OF_OP):
            yield PlanOp(name, part, "memory")

    def _put_ops(self, puts: Sequence[Put]) -> Iterator[PlanOp]:
        """Puts of one kind of source go together: the engine takes the kind of the first for all."""
        for kind in ("i", "o", "s"):
            for part in _parts([p for p in puts if p.source.buffer == kind], MAX_CHANNELS_OF_OP):
                yield PlanOp(
                    "put",
                    channel_type="memory",
                    src_buff=tuple(_own(p.source) for p in part),
                    dst_buff=tuple(self._remote(p) for p in part),
                )

    def _remote(self, put: Put) -> PlanBuffer:
        buffer = self.remote.index((put.dst, put.target.buffer))
        return PlanBuffer(put.target.index, put.target.count, buffer_id=buffer)


def _parts(items: Sequence[T], length: int) -> Iterator[tuple[T, ...]]:
    for begin in range(0, len(items), length):
        yield tuple(items[begin : begin + length])


def _own(run: Run) -> PlanBuffer:
    return PlanBuffer(run.index, run.count, type=run.buffer)


def _work_ops(work: Work) -> Iterator[PlanOp]:
    """A copy or a reduction; one of many sources in parts, each added to the sum of those before."""
    target = (_own(work.target),)
    if len(work.sources) == 1:
        yield PlanOp("copy", src_buff=(_own(work.sources[0]),), dst_buff=target)
        return
    sources = list(work.sources)
    while sources:
        part, sources = sources[:MAX_SOURCES], sources[MAX_SOURCES:]
        yield PlanOp("re", src_buff=tuple(_own(s) for s in part), dst_buff=target, reduce_op="sum")
        if sources:
            yield PlanOp("nop")
            sources = [work.target, *sources]


def _with_group(op: PlanOp, group: BlockGroup) -> PlanOp:
    if not op.src_buff or group.tbg_size == 1:
        return op
    return PlanOp(op.name, op.channel_ids, op.channel_type, op.src_buff, op.dst_buff, group, reduce_op=op.reduce_op)
