"""A Schedule as an algorithm of MSCCL, within the limits of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from acclc.export.errors import ExportError
from acclc.export.msccl.actions import Action, Place, actions_of
from acclc.export.msccl.blocks import Block, End, Ends, Step, make_blocks
from acclc.export.msccl.progress import stuck
from acclc.export.msccl.waits import add_all_waits, drop_implied_waits
from acclc.export.pieces import NAMES, Grid, positions
from acclc.ir.msccl import MscclAlgorithm, MscclBlock, MscclGpu, MscclStep, Reference, StepKind
from acclc.ir.problem import Collective, InPlace, Problem, Rank
from acclc.ir.schedule import Schedule

MULTIPLIED = {Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL}
"""Of these the engine cuts ranks x count into chunks, of the others count."""
LONGEST = 71
"""Cells of a step, at most."""
MAX_OFFSET = 2**15 - 1
MAX_ELEMENTS = 4095
MAX_AWAITED = 127
MAX_PEERS = 32


@dataclass(frozen=True, slots=True)
class Engine:
    """Limits: steps a block, blocks a rank, channels."""

    name: str
    steps: int
    blocks: int
    channels: int


ENGINES = {
    "executor": Engine("msccl-executor-nccl", 64, 1024, 32),
    "rccl": Engine("RCCL", 64, 64, 128),
    "msccl": Engine("the older MSCCL", 256, 216, 32),
}


@dataclass(frozen=True, slots=True)
class MscclOptions:
    """What the file says beside the schedule. Bytes are those of the engine (``max_bytes`` included; 0: no limit)."""

    target: str = "executor"
    protocol: str = "Simple"
    min_bytes: int = 0
    max_bytes: int = 0
    name: str = "acclc"


def export_msccl(problem: Problem, schedule: Schedule, options: MscclOptions) -> MscclAlgorithm:
    """Return the algorithm of a verified schedule, with the fewest channels from the links' number on that fit.

    Raises:
        ExportError: no MSCCL has the collective, or a limit of the engine is exceeded with any number of channels.
    """
    if problem.collective not in NAMES:
        raise ExportError("collective", f"MSCCL has no collective for {problem.collective.value}")
    grid = Grid(problem, schedule, LONGEST)
    actions = actions_of(grid, problem.demands[0].in_place is not InPlace.NONE)
    engine = ENGINES[options.target]
    least = max((link.count for link in problem.topology.links), default=1)
    first: ExportError | None = None
    for channels in _channel_counts(least, min(engine.channels, max(1, len(schedule.chunks)))):
        blocks = _blocks(actions, schedule, channels)
        try:
            _check_fit(blocks, engine, len(problem.group))
            return _algorithm(grid, blocks, channels, options)
        except ExportError as error:
            first = first or error
    assert first is not None
    raise first


def _channel_counts(least: int, most: int) -> Iterator[int]:
    """The number of a link's lanes first, then others: more where blocks are too long, fewer where too many."""
    start = min(max(1, least), most)
    yield start
    yield from range(start - 1, 0, -1)
    count = start
    while count < most:
        count = min(count + max(1, count // 2), most)
        yield count


def _blocks(actions: list[Action], schedule: Schedule, channels: int) -> list[Block]:
    """Make blocks; where they would wait in a circle, take those apart that both receive and send."""
    ends = Ends({}, {})
    for action in actions:
        channel = action.piece.chunk % channels
        if action.receives is not None:
            ends.receive[action] = (schedule.transfers[action.receives[0]].src, channel)
        if action.sends is not None:
            ends.send[action] = (schedule.transfers[action.sends[0]].dst, channel)
    apart: set[tuple[Rank, End]] = set()
    while True:
        blocks = make_blocks(actions, ends, apart)
        add_all_waits(blocks)
        waiting = stuck(blocks)
        if not waiting:
            break
        both = {(b.rank, (b.receive, b.channel)) for b in waiting if b.receive is not None and b.send is not None}
        assert both, "blocks with one end each cannot wait in a circle: all keep to one order"
        apart |= both
    drop_implied_waits(blocks)
    return blocks


def _check_fit(blocks: list[Block], engine: Engine, ranks: int) -> None:
    by_rank: dict[Rank, list[Block]] = {}
    for block in blocks:
        by_rank.setdefault(block.rank, []).append(block)
    for rank, own in sorted(by_rank.items()):
        where = f"rank {rank} needs"
        lengths = [sum(1 + max(0, len(s.waits) - 1) for s in b.steps) for b in own]
        if len(own) > engine.blocks:
            raise ExportError("blocks", f"{where} {len(own)} blocks; {engine.name} has {engine.blocks} a rank")
        if max(lengths) > engine.steps:
            raise ExportError("steps", f"{where} {max(lengths)} steps in a block; {engine.name} has {engine.steps}")
        elements = 1 + ranks + len(own) + sum(lengths)
        if elements > MAX_ELEMENTS:
            raise ExportError("elements", f"{where} {elements} elements of XML; the parser holds {MAX_ELEMENTS}")
        for direction in ("send", "receive"):
            used = [b.channel for b in own if getattr(b, direction) is not None]
            most = max((used.count(c) for c in set(used)), default=0)
            if most > MAX_PEERS:
                raise ExportError("peers", f"{where} {most} peers on a channel; {MAX_PEERS} may be")


def _algorithm(grid: Grid, blocks: list[Block], channels: int, options: MscclOptions) -> MscclAlgorithm:
    problem, group = grid.problem, grid.problem.group
    number = positions(group)
    loop = grid.cells * (len(group) if problem.collective in MULTIPLIED else 1)
    gpus = tuple(_gpu(grid, rank, [b for b in blocks if b.rank == rank], number) for rank in group)
    return MscclAlgorithm(
        name=options.name,
        protocol=options.protocol,
        channels=channels,
        chunks_per_loop=loop,
        ranks=len(group),
        collective=NAMES[problem.collective],
        in_place=problem.demands[0].in_place is not InPlace.NONE,
        out_of_place=True,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        gpus=gpus,
    )


def _gpu(grid: Grid, rank: Rank, blocks: list[Block], number: dict[Rank, int]) -> MscclGpu:
    awaited = {w for b in blocks for s in b.steps for w in s.waits}
    blocks = sorted(blocks, key=lambda b: not any(s in awaited for s in b.steps))
    if sum(any(s in awaited for s in b.steps) for b in blocks) > MAX_AWAITED + 1:
        raise ExportError("awaited", f"rank {rank} has more than {MAX_AWAITED + 1} blocks that others wait for")
    ids = {block: i for i, block in enumerate(blocks)}
    indices: dict[Step, int] = {}
    for block in blocks:
        index = 0
        for step in block.steps:
            index += max(0, len(step.waits) - 1)
            indices[step] = index
            index += 1
    scratch = _Scratch()
    made = tuple(
        MscclBlock(
            id=ids[block],
            send=None if block.send is None else number[block.send],
            receive=None if block.receive is None else number[block.receive],
            channel=block.channel,
            steps=tuple(x for step in block.steps for x in _steps(step, ids, indices, awaited, scratch)),
        )
        for block in blocks
    )
    inputs = grid.problem.input_units(rank) * grid.cells
    outputs = grid.problem.output_units(rank) * grid.cells
    if max(inputs, outputs, scratch.size) > MAX_OFFSET + 1:
        words = f"rank {rank} has buffers of {max(inputs, outputs, scratch.size)} chunks; offsets end at {MAX_OFFSET}"
        raise ExportError("offset", words)
    return MscclGpu(number[rank], inputs, outputs, scratch.size, made)


class _Scratch:
    """Lays out the places in scratch that are really used."""

    def __init__(self) -> None:
        self.size = 0
        self.offsets: dict[int, int] = {}

    def reference(self, place: Place, count: int) -> Reference:
        if place.buffer != "s":
            return Reference(place.buffer, place.offset)
        if place.offset not in self.offsets:
            self.offsets[place.offset] = self.size
            self.size += count
        return Reference("s", self.offsets[place.offset])


def _steps(
    step: Step, ids: dict[Block, int], indices: dict[Step, int], awaited: set[Step], scratch: _Scratch
) -> Iterator[MscclStep]:
    """The step, after a ``nop`` for each wait but the last."""
    waits = [(ids[w.block], indices[w]) for w in step.waits if w.block is not None]
    nowhere = Reference("i", -1)
    for i, wait in enumerate(waits[:-1]):
        number = indices[step] - len(waits) + 1 + i
        yield MscclStep(number, StepKind.NOP, nowhere, nowhere, 0, wait, False)
    action, count = step.first, step.first.piece.count
    kind = _kind(step)
    source = target = None
    if kind.writes:
        assert action.target is not None
        target = scratch.reference(action.target, count)
    if kind.reads:
        assert action.source is not None
        source = scratch.reference(action.source, count)
    used = source or target
    assert used is not None
    last = waits[-1] if waits else None
    yield MscclStep(indices[step], kind, source or used, target or used, count, last, step in awaited)


def _kind(step: Step) -> StepKind:
    action = step.first
    if action.receives is None:
        if action.sends is not None:
            return StepKind.SEND
        return StepKind.REDUCE if action.accumulates else StepKind.COPY
    if step.passed is None:
        return StepKind.RECEIVE if action.source is None else StepKind.RECEIVE_REDUCE_COPY
    if action.source is None:
        return StepKind.RECEIVE_COPY_SEND
    return StepKind.RECEIVE_REDUCE_COPY_SEND if step.stores else StepKind.RECEIVE_REDUCE_SEND
