"""A schedule under construction: transfers are added with the step in which they may run, and numbered at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, Problem, Rank, ShardId
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks
from acclc.simulate.routes import Hop, Route


@dataclass(frozen=True, slots=True)
class Arrival:
    """A transfer of the draft (by the order of adding; -1: the rank's own input), usable from ``step`` on."""

    number: int
    step: int


OWN_ARRIVAL = Arrival(-1, 0)


class Draft:
    """Collects transfers and outputs of equal chunks; ``finish`` orders, numbers and counts rounds."""

    def __init__(self, problem: Problem, chunks_per_shard: int) -> None:
        self.problem = problem
        self.chunks = equal_chunks(tuple(s.id for s in problem.shards), chunks_per_shard)
        self._per_shard = chunks_per_shard
        self._position = {s.id: i for i, s in enumerate(problem.shards)}
        self._transfers: list[tuple[int, ChunkId, Hop, tuple[int, ...]]] = []
        self._outputs: list[tuple[Rank, ChunkId, tuple[int, ...]]] = []

    def chunk(self, shard: ShardId, index: int) -> ChunkId:
        """Return the id of a shard's chunk."""
        return ChunkId(self._position[shard] * self._per_shard + index)

    def send(self, chunk: ChunkId, route: Route, operands: Sequence[Arrival], step: int = 0) -> Arrival:
        """Send the operands' reduction along a route, from ``step`` or when they are there; a hop takes a step."""
        step = max([step, *(a.step for a in operands)])
        numbers = tuple(a.number for a in operands)
        for hop in route:
            self._transfers.append((step, chunk, hop, numbers))
            numbers = (len(self._transfers) - 1,)
            step += 1
        return Arrival(numbers[0], step)

    def output(self, rank: Rank, chunk: ChunkId, operands: Sequence[Arrival]) -> None:
        """Say what a rank ends up with."""
        self._outputs.append((rank, chunk, tuple(a.number for a in operands)))

    def finish(self, strategy: str) -> Schedule:
        """Order the transfers by step (empty steps vanish), number them, and count each step's rounds."""
        steps = {s: i for i, s in enumerate(sorted({t[0] for t in self._transfers}))}
        order = sorted(range(len(self._transfers)), key=lambda i: (self._transfers[i][0], i))
        ids = {number: TransferId(i) for i, number in enumerate(order)}
        ids[-1] = OWN
        transfers = []
        for i, number in enumerate(order):
            step, chunk, hop, operands = self._transfers[number]
            named = tuple(ids[o] for o in operands)
            transfers.append(Transfer(TransferId(i), chunk, hop.src, hop.dst, hop.path, steps[step], named))
        outputs = tuple(Output(rank, chunk, tuple(ids[o] for o in operands)) for rank, chunk, operands in self._outputs)
        rounds = _rounds(self.problem, transfers, len(steps))
        return Schedule(self.chunks, tuple(transfers), outputs, rounds, strategy)


def _rounds(problem: Problem, transfers: Sequence[Transfer], steps: int) -> tuple[int, ...]:
    """The least whole rounds in which every link and budget carries its chunks, step by step."""
    topology = problem.topology
    unit = topology.unit
    if unit is None:
        return ()
    loads: list[dict[LinkId, int]] = [{} for _ in range(steps)]
    for t in transfers:
        for e in t.path:
            loads[t.step][e] = loads[t.step].get(e, 0) + 1
    rounds = []
    for load in loads:
        needs = [n * unit / topology.links[e].capacity for e, n in load.items()]
        needs += [sum(load.get(e, 0) for e in b.links) * unit / b.capacity for b in topology.budgets]
        most = max(needs, default=Fraction(0))
        rounds.append(max(1, -(-most.numerator // most.denominator)))
    return tuple(rounds)
