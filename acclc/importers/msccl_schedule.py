"""An algorithm of MSCCL as a Schedule: what each of its messages carries, whatever blocks and steps it went through.

Every chunk of a message becomes a transfer. Its operands are found by running the algorithm on symbols; where it adds
sums to sums, the operands are those of both in a row: the same data, but floats may be rounded otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from acclc.diagnostics import Diagnostic, DiagnosticError
from acclc.ir.msccl import MscclAlgorithm, MscclBlock, Reference, StepKind
from acclc.ir.problem import InPlace, LinkId, Problem, Rank
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks

Cell = tuple[int, str, int]
Paths = Mapping[tuple[Rank, Rank], tuple[LinkId, ...]]
"""The links from a rank to another, for every pair that an algorithm uses."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A chunk of a shard, as operands of one rank."""

    chunk: ChunkId
    operands: tuple[TransferId, ...]


@dataclass(slots=True)
class _Move:
    chunk: ChunkId
    src: int
    dst: int
    step: int
    operands: tuple[TransferId, ...]


def connections(algorithm: MscclAlgorithm) -> dict[tuple[int, int], int]:
    """Return each (sender, receiver) that the blocks name, with the number of their channels."""
    used: dict[tuple[int, int], set[int]] = {}
    for gpu in algorithm.gpus:
        for block in gpu.blocks:
            if block.send is not None:
                used.setdefault((gpu.id, block.send), set()).add(block.channel)
    return {pair: len(channels) for pair, channels in sorted(used.items())}


def schedule_of(algorithm: MscclAlgorithm, problem: Problem, paths: Paths) -> Schedule:
    """Return the schedule of an algorithm that is known to be right. Its ranks are the problem's group, in order.

    Raises:
        DiagnosticError: it does not run to its end, or adds what belongs to different chunks.
    """
    run = _Run(algorithm, problem)
    run.run()
    order = sorted(range(len(run.moves)), key=lambda m: (run.moves[m].step, m))
    number = {TransferId(old): TransferId(new) for new, old in enumerate(order)} | {OWN: OWN}
    transfers = tuple(
        Transfer(
            id=TransferId(new),
            chunk=run.moves[old].chunk,
            src=Rank(run.moves[old].src),
            dst=Rank(run.moves[old].dst),
            path=paths[(Rank(run.moves[old].src), Rank(run.moves[old].dst))],
            step=run.moves[old].step,
            operands=tuple(number[o] for o in run.moves[old].operands),
        )
        for new, old in enumerate(order)
    )
    outputs = tuple(Output(rank, chunk, tuple(number[o] for o in ops)) for rank, chunk, ops in run.outputs())
    return Schedule(run.chunks, transfers, outputs, _rounds(problem, transfers), "imported")


def _rounds(problem: Problem, transfers: tuple[Transfer, ...]) -> tuple[int, ...]:
    """The least rounds of each step within the capacities of links and budgets."""
    topology = problem.topology
    steps = max((t.step + 1 for t in transfers), default=0)
    load: list[dict[LinkId, int]] = [{} for _ in range(steps)]
    for t in transfers:
        for link in t.path:
            load[t.step][link] = load[t.step].get(link, 0) + 1
    rounds: list[int] = []
    for used in load:
        unit = topology.unit
        assert unit is not None
        needed = [-(-count // topology.lanes(topology.links[link])) for link, count in used.items()]
        for budget in topology.budgets:
            needed.append(-(-sum(used.get(e, 0) for e in budget.links) * unit // budget.capacity))
        rounds.append(int(max(needed, default=1)))
    return tuple(rounds)


@dataclass(slots=True)
class _State:
    """Where a block of a rank is: its step, and which chunk of it comes next."""

    rank: int
    block: MscclBlock
    step: int = 0
    unit: int = 0


@dataclass
class _Run:
    """Runs the blocks on symbols, chunk by chunk."""

    algorithm: MscclAlgorithm
    problem: Problem
    held: dict[Cell, _Value] = field(default_factory=dict)
    moves: list[_Move] = field(default_factory=list)
    queues: dict[tuple[int, int, int], deque[_Value]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shards = self.problem.shards
        units = max(len({p.unit for s in shards for p in (*s.inputs, *s.outputs)}), 1)
        multiplied = self.algorithm.collective in ("allgather", "reducescatter", "alltoall")
        self.per_shard = self.algorithm.chunks_per_loop // (units if multiplied else 1)
        self.chunks = equal_chunks(tuple(s.id for s in shards), self.per_shard)
        self.in_place = self.problem.demands[0].in_place if not self.algorithm.out_of_place else InPlace.NONE
        for shard in shards:
            for place in shard.inputs:
                for i in range(self.per_shard):
                    cell = self._cell(place.rank, Reference("i", place.unit * self.per_shard + i), 0)
                    self.held[cell] = _Value(ChunkId(shard.id * self.per_shard + i), (OWN,))

    def _cell(self, rank: int, place: Reference, unit: int) -> Cell:
        """Name a chunk of memory; in place, an input by its place in the output, or reversed."""
        offset, own = place.offset + unit, rank * self.per_shard
        match self.in_place, place.buffer:
            case (InPlace.SAME, "o"):
                return rank, "i", offset
            case (InPlace.INPUT_IN_OUTPUT, "i"):
                return rank, "o", own + offset
            case (InPlace.OUTPUT_IN_INPUT, "o"):
                return rank, "i", own + offset
            case _:
                return rank, place.buffer, offset

    def run(self) -> None:
        """Run all blocks to their end."""
        states = {(g.id, b.id): _State(g.id, b) for g in self.algorithm.gpus for b in g.blocks}
        moving = True
        while moving:
            moving = False
            for state in states.values():
                while self._advance(state, states):
                    moving = True
        if any(state.step < len(state.block.steps) for state in states.values()):
            raise DiagnosticError(Diagnostic("import-contradiction", "the algorithm does not run to its end"))

    def _advance(self, state: _State, states: dict[tuple[int, int], _State]) -> bool:
        """Do one chunk of a block's step; False where it waits, or has ended."""
        block, rank, unit = state.block, state.rank, state.unit
        if state.step == len(block.steps):
            return False
        step = block.steps[state.step]
        if unit == 0 and step.wait is not None and states[(rank, step.wait[0])].step <= step.wait[1]:
            return False
        value: _Value | None = None
        if step.kind.receives:
            queue = self.queues.get((block.receive or 0, rank, block.channel))
            if not queue:
                return False
            value = queue.popleft()
        if step.kind.reads:
            value = self._plus(value, self._read(rank, step.source, unit))
        if step.kind is StepKind.REDUCE:
            value = self._plus(self._read(rank, step.target, unit), value)
        if step.kind.writes and value is not None:
            self.held[self._cell(rank, step.target, unit)] = value
        if step.kind.sends and value is not None and block.send is not None:
            self._send(rank, block.send, block.channel, value)
        state.unit += 1
        if state.unit >= step.count:
            state.step, state.unit = state.step + 1, 0
        return True

    def _read(self, rank: int, place: Reference, unit: int) -> _Value:
        value = self.held.get(self._cell(rank, place, unit))
        if value is None:
            raise DiagnosticError(Diagnostic("import-contradiction", f"rank {rank} reads what nobody wrote"))
        return value

    def _plus(self, one: _Value | None, other: _Value | None) -> _Value:
        assert other is not None
        if one is None:
            return other
        if one.chunk != other.chunk:
            raise DiagnosticError(Diagnostic("import-contradiction", "the algorithm adds chunks of different data"))
        # the longer first: adding one operand to a sum then is what the schedule says too, to the last bit
        first, second = (one, other) if len(one.operands) >= len(other.operands) else (other, one)
        return _Value(one.chunk, first.operands + second.operands)

    def _send(self, src: int, dst: int, channel: int, value: _Value) -> None:
        steps = [self.moves[o].step + 1 for o in value.operands if o != OWN]
        self.moves.append(_Move(value.chunk, src, dst, max(steps, default=0), value.operands))
        arrived = _Value(value.chunk, (TransferId(len(self.moves) - 1),))
        self.queues.setdefault((src, dst, channel), deque()).append(arrived)

    def outputs(self) -> list[tuple[Rank, ChunkId, tuple[TransferId, ...]]]:
        """What lies in the outputs at the end."""
        found: list[tuple[Rank, ChunkId, tuple[TransferId, ...]]] = []
        for shard in self.problem.shards:
            for place in shard.outputs:
                for i in range(self.per_shard):
                    value = self._read(place.rank, Reference("o", place.unit * self.per_shard + i), 0)
                    found.append((place.rank, ChunkId(shard.id * self.per_shard + i), value.operands))
        return sorted(found)
