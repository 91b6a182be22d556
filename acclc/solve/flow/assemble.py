"""Ways become a pipelined schedule: one chunk a way, a transfer from each GPU on it to the next, a level for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, NodeKind, Problem, Rank, ShardId, Topology
from acclc.ir.schedule import OWN, Chunk, ChunkId, Output, Schedule, Transfer, TransferId
from acclc.solve.flow.machine import FlowMachine, image_of
from acclc.solve.flow.paths import Path
from acclc.solve.flow.units import Units

STRATEGY = "flow"


@dataclass(frozen=True, slots=True)
class _Draft:
    """A transfer before it has its number; it passes on what the draft before it brought, or the sender's own."""

    step: int
    chunk: ChunkId
    hop: Path
    before: int


def schedule_of(problem: Problem, machine: FlowMachine, units: Units) -> Schedule:
    """Return the schedule in which every part of a shard takes its way. Nothing waits for a step to end."""
    parts = _parts_of_shards(machine, units)
    chunks: list[Chunk] = []
    drafts: list[_Draft] = []
    ends: list[tuple[Rank, ChunkId, int]] = []
    for shard in problem.shards:
        begin = 0
        for index, (taken, path) in enumerate(parts.get(shard.id, [(units.k, ())])):
            chunk = ChunkId(len(chunks))
            chunks.append(Chunk(chunk, shard.id, index, Fraction(begin, units.k), Fraction(begin + taken, units.k)))
            begin += taken
            last = int(OWN)
            for step, hop in enumerate(_hops(problem.topology, path)):
                drafts.append(_Draft(step, chunk, hop, last))
                last = len(drafts) - 1
            ends += [(r, chunk, int(OWN) if r in shard.sources else last) for r in shard.targets]
    return _numbered(problem, chunks, drafts, ends)


def _parts_of_shards(machine: FlowMachine, units: Units) -> dict[ShardId, list[tuple[int, Path]]]:
    """Deal the ways of every commodity, images included, out to its shards: k units to each."""
    shards = {(c.origins, end): ids for c in machine.task.commodities for end, ids in c.shards}
    found: dict[ShardId, list[tuple[int, Path]]] = {}
    for commodity, of in zip(machine.representatives, units.ways, strict=True):
        for end, _ in commodity.shards:
            own = [(w.units, w.path) for w in of if w.end == end]
            for image in machine.group:
                ids = shards[image_of(commodity, image.nodes), Rank(image.nodes[end])]
                moved = [(n, tuple(LinkId(image.links[e]) for e in path)) for n, path in own]
                if machine.task.reverse:
                    moved = [(n, path[::-1]) for n, path in moved]
                found.update(zip(ids, _in_turn(moved, units.k), strict=True))
    return found


def _in_turn(ways: Sequence[tuple[int, Path]], k: int) -> Iterator[list[tuple[int, Path]]]:
    """Cut ways so that every k units are a shard's."""
    part: list[tuple[int, Path]] = []
    room = k
    for units, path in ways:
        left = units
        while left:
            taken = min(left, room)
            part.append((taken, path))
            left, room = left - taken, room - taken
            if not room:
                yield part
                part, room = [], k


def _hops(topology: Topology, path: Path) -> Iterator[Path]:
    """Cut a path at the GPUs on it."""
    first = 0
    for n, link in enumerate(path, start=1):
        if topology.nodes[topology.links[link].dst].kind is NodeKind.GPU:
            yield path[first:n]
            first = n


def _numbered(
    problem: Problem, chunks: Sequence[Chunk], drafts: Sequence[_Draft], ends: Sequence[tuple[Rank, ChunkId, int]]
) -> Schedule:
    """Number the transfers by level, then chunk."""
    order = sorted(range(len(drafts)), key=lambda n: (drafts[n].step, drafts[n].chunk, n))
    ids = {number: TransferId(position) for position, number in enumerate(order)}
    ids[int(OWN)] = OWN
    links = problem.topology.links
    transfers = tuple(
        Transfer(
            ids[n], d.chunk, Rank(links[d.hop[0]].src), Rank(links[d.hop[-1]].dst), d.hop, d.step, (ids[d.before],)
        )
        for n in order
        for d in (drafts[n],)
    )
    outputs = tuple(Output(rank, chunk, (ids[last],)) for rank, chunk, last in ends)
    return Schedule(tuple(chunks), transfers, outputs, (), STRATEGY)
