"""The shards of each collective: what every rank holds and needs, and where in its buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acclc.ir.problem import Collective, Demand, InPlace, Place, Rank, Shard, ShardId

ROOTED = frozenset({Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER})
REDUCING = frozenset({Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE})

IN_PLACE: dict[Collective, InPlace] = {
    Collective.ALL_GATHER: InPlace.INPUT_IN_OUTPUT,
    Collective.GATHER: InPlace.INPUT_IN_OUTPUT,
    Collective.REDUCE_SCATTER: InPlace.OUTPUT_IN_INPUT,
    Collective.SCATTER: InPlace.OUTPUT_IN_INPUT,
    Collective.ALL_REDUCE: InPlace.SAME,
    Collective.BROADCAST: InPlace.SAME,
    Collective.REDUCE: InPlace.SAME,
}
"""Where input and output may be one buffer; the others offer none."""


@dataclass(frozen=True, slots=True)
class ShardSketch:
    """A shard without its number and demand."""

    name: str
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    reduced: bool = False


def places_needed(demand: Demand) -> int:
    """Return how many inputs and outputs the shards of a named collective have together."""
    n = len(demand.group)
    match demand.collective:
        case Collective.ALL_GATHER | Collective.REDUCE_SCATTER:
            return demand.weight * n * (n + 1)
        case Collective.ALL_TO_ALL | Collective.ALL_TO_ALL_V:
            return demand.weight * 2 * n * n
        case Collective.SEND_RECV:
            return demand.weight * 2 * len(demand.pairs)
        case _:
            return demand.weight * 2 * n


def sketch(demand: Demand, names: Callable[[Rank], str]) -> list[ShardSketch]:
    """Return the shards of a named collective; of a weight above 1, each shard so often, one behind the other."""
    once, weight = _sketch(demand, names), demand.weight
    if weight == 1:
        return once

    def places(of: tuple[Place, ...], part: int) -> tuple[Place, ...]:
        return tuple(Place(p.rank, p.unit * weight + part) for p in of)

    return [
        ShardSketch(f"{s.name} part {part}", places(s.inputs, part), places(s.outputs, part), s.reduced)
        for s in once
        for part in range(weight)
    ]


def _sketch(demand: Demand, names: Callable[[Rank], str]) -> list[ShardSketch]:
    """Return the shards of a named collective, by the definitions of the project.

    The *unit* of a place counts in lengths of a shard: in an all_gather, rank r's one shard is unit 0 of its
    input and unit (position of r in the group) of everyone's output.
    """
    group, root = demand.group, demand.root
    positions = list(enumerate(group))
    everyone = _places(group, 0)
    match demand.collective:
        case Collective.ALL_GATHER:
            return [ShardSketch(names(r), (Place(r, 0),), _places(group, i)) for i, r in positions]
        case Collective.REDUCE_SCATTER:
            return [ShardSketch(names(r), _places(group, i), (Place(r, 0),), True) for i, r in positions]
        case Collective.ALL_REDUCE:
            return [ShardSketch("all", everyone, everyone, True)]
        case Collective.ALL_TO_ALL | Collective.ALL_TO_ALL_V:
            return [
                ShardSketch(f"{names(a)} -> {names(b)}", (Place(a, j),), (Place(b, i),))
                for i, a in positions
                for j, b in positions
            ]
        case Collective.SEND_RECV:
            return _pairs(demand.pairs, names)
        case _:
            assert root is not None
            at_root = (Place(root, 0),)
    match demand.collective:
        case Collective.BROADCAST:
            return [ShardSketch(names(root), at_root, everyone)]
        case Collective.REDUCE:
            return [ShardSketch("all", everyone, at_root, True)]
        case Collective.GATHER:
            return [ShardSketch(names(r), (Place(r, 0),), (Place(root, i),)) for i, r in positions]
        case Collective.SCATTER:
            return [ShardSketch(names(r), (Place(root, i),), (Place(r, 0),)) for i, r in positions]
    raise ValueError(f"{demand.collective} has no shards of its own")


def number_shards(sketches: Sequence[tuple[int, ShardSketch]]) -> tuple[Shard, ...]:
    """Number the shards of (demand index, sketch)."""
    return tuple(
        Shard(ShardId(number), s.name, demand, s.inputs, s.outputs, s.reduced)
        for number, (demand, s) in enumerate(sketches)
    )


def _places(group: Sequence[Rank], unit: int) -> tuple[Place, ...]:
    return tuple(Place(rank, unit) for rank in group)


def _pairs(pairs: Sequence[tuple[Rank, Rank]], names: Callable[[Rank], str]) -> list[ShardSketch]:
    """Return a shard for each pair; units count the pairs of one source, or of one destination, in order."""
    sent: dict[Rank, int] = {}
    received: dict[Rank, int] = {}
    sketches: list[ShardSketch] = []
    for src, dst in pairs:
        inputs = (Place(src, sent.get(src, 0)),)
        outputs = (Place(dst, received.get(dst, 0)),)
        sent[src] = sent.get(src, 0) + 1
        received[dst] = received.get(dst, 0) + 1
        sketches.append(ShardSketch(f"{names(src)} -> {names(dst)}", inputs, outputs))
    return sketches
