"""What each named collective means, from its name alone: who has what where, who needs it where.

Written from the project's definitions, apart from the code that builds problems, so that the two are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from acclc.ir.problem import Collective, Demand, InPlace, Shard

Placed = tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...], bool]
"""(inputs, outputs, reduced) of a shard; a place is (rank, unit), in order."""

IN_PLACE = {
    Collective.ALL_GATHER: InPlace.INPUT_IN_OUTPUT,
    Collective.REDUCE_SCATTER: InPlace.OUTPUT_IN_INPUT,
    Collective.ALL_REDUCE: InPlace.SAME,
    Collective.BROADCAST: InPlace.SAME,
    Collective.REDUCE: InPlace.SAME,
    Collective.GATHER: InPlace.INPUT_IN_OUTPUT,
    Collective.SCATTER: InPlace.OUTPUT_IN_INPUT,
    Collective.ALL_TO_ALL: InPlace.NONE,
    Collective.ALL_TO_ALL_V: InPlace.NONE,
    Collective.SEND_RECV: InPlace.NONE,
}
ROOTED = (Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER)
REDUCING = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)


def _placed(inputs: Iterable[tuple[int, int]], outputs: Iterable[tuple[int, int]], reduced: bool = False) -> Placed:
    return tuple(sorted(inputs)), tuple(sorted(outputs)), reduced


def _all_gather(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(g, 0)], [(h, i) for h in group]) for i, g in enumerate(group)]


def _reduce_scatter(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(h, i) for h in group], [(g, 0)], True) for i, g in enumerate(group)]


def _all_reduce(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(g, 0) for g in group], [(g, 0) for g in group], True)]


def _broadcast(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(root, 0)], [(g, 0) for g in group])]


def _reduce(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(g, 0) for g in group], [(root, 0)], True)]


def _gather(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(g, 0)], [(root, i)]) for i, g in enumerate(group)]


def _scatter(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(root, i)], [(g, 0)]) for i, g in enumerate(group)]


def _all_to_all(group: tuple[int, ...], root: int) -> list[Placed]:
    return [_placed([(g, j)], [(h, i)]) for i, g in enumerate(group) for j, h in enumerate(group)]


_BY_NAME: dict[Collective, Callable[[tuple[int, ...], int], list[Placed]]] = {
    Collective.ALL_GATHER: _all_gather,
    Collective.REDUCE_SCATTER: _reduce_scatter,
    Collective.ALL_REDUCE: _all_reduce,
    Collective.BROADCAST: _broadcast,
    Collective.REDUCE: _reduce,
    Collective.GATHER: _gather,
    Collective.SCATTER: _scatter,
    Collective.ALL_TO_ALL: _all_to_all,
}


def placed(shard: Shard) -> Placed:
    """Return a shard's places without its name and number."""
    return _placed(((p.rank, p.unit) for p in shard.inputs), ((p.rank, p.unit) for p in shard.outputs), shard.reduced)


def expected_shards(demand: Demand, shards: list[Shard]) -> Counter[Placed] | None:
    """Return what the name means, or None for collectives that have no meaning by name.

    all_to_all_v: the count matrix is not in the demand; it is taken from how many of ``shards`` go from each
    rank to each other, and the places are recomputed from it.
    """
    if demand.collective in _BY_NAME:
        root = demand.root if demand.root is not None else -1
        return _as_long(Counter(_BY_NAME[demand.collective](demand.group, root)), demand.weight)
    if demand.collective is Collective.SEND_RECV:
        return _as_long(_send_recv(demand), demand.weight)
    if demand.collective is Collective.ALL_TO_ALL_V:
        return _all_to_all_v(demand, shards)
    return None


def _as_long(shards: Counter[Placed], weight: int) -> Counter[Placed]:
    """Return what shards are whose vectors are ``weight`` counts long: every unit is so many, one behind the other."""
    longer: Counter[Placed] = Counter()
    for (inputs, outputs, reduced), times in shards.items():
        for k in range(weight):
            ins, outs = (tuple((r, u * weight + k) for r, u in side) for side in (inputs, outputs))
            longer[ins, outs, reduced] += times
    return longer


def _send_recv(demand: Demand) -> Counter[Placed]:
    """A rank's pairs lie one after the other, in the order in which they are written."""
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    result: Counter[Placed] = Counter()
    for source, destination in demand.pairs:
        src, dst = int(source), int(destination)
        result[_placed([(src, sent[src])], [(dst, received[dst])])] += 1
        sent[src] += 1
        received[dst] += 1
    return result


def _all_to_all_v(demand: Demand, shards: list[Shard]) -> Counter[Placed]:
    """Inputs lie in order of destination, outputs in order of source, as in MPI_Alltoallv without gaps."""
    matrix: Counter[tuple[int, int]] = Counter()
    for shard in shards:
        if len(shard.inputs) == 1 and len(shard.outputs) == 1:
            matrix[(int(shard.inputs[0].rank), int(shard.outputs[0].rank))] += 1
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    starts: dict[tuple[int, int], tuple[int, int]] = {}
    group = [int(r) for r in demand.group]
    for src in group:
        for dst in group:
            # walking sources outermost fills each row by destination and each column by source
            starts[(src, dst)] = (sent[src], received[dst])
            sent[src] += matrix[(src, dst)]
            received[dst] += matrix[(src, dst)]
    result: Counter[Placed] = Counter()
    for (src, dst), (first, landing) in starts.items():
        for k in range(matrix[(src, dst)]):
            result[_placed([(src, first + k)], [(dst, landing + k)])] += 1
    return result
