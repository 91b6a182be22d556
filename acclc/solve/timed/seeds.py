"""Trees of a pipeline, to be timed: what balances load perfectly may be a good start for a size, too."""

from __future__ import annotations

from collections.abc import Sequence

from acclc.ir.problem import ShardId
from acclc.ir.schedule import OWN, ChunkId, Schedule, TransferId
from acclc.solve.timed.machine import TimedMachine
from acclc.solve.timed.routes import Hop, Item, Tree


def trees_of(schedule: Schedule, machine: TimedMachine, items: Sequence[Item], chunks: int) -> list[Tree] | None:
    """Return a tree for every item from a pipeline of copies; None where its weights are no whole chunks."""
    if machine.reverse:
        return None
    way_of = {way.edge.path: way for way in machine.ways}
    trees: dict[ChunkId, list[Hop]] = {c.id: [] for c in schedule.chunks}
    place: dict[TransferId, int] = {OWN: -1}
    for t in schedule.transfers:
        way = way_of.get(t.path)
        if way is None or len(t.operands) != 1:
            return None
        place[t.id] = len(trees[t.chunk])
        trees[t.chunk].append(Hop(way, place[t.operands[0]]))
    dealt: dict[tuple[ShardId, int], Tree] = {}
    for chunk in schedule.chunks:
        first, last = chunk.begin * chunks, chunk.end * chunks
        if first.denominator > 1 or last.denominator > 1:
            return None
        for index in range(int(first), int(last)):
            dealt[chunk.shard, index] = tuple(trees[chunk.id])
    return [dealt[item.shard, item.index] for item in items]
