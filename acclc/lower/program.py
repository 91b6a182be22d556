"""Pass 2: who does it. One block for each outgoing link, one for each incoming edge, one for local work.

Of a pipelined schedule each path and level has a block and an edge (``Schedule.lane``): slices of different levels
are then in flight at the same time, each block being at a slice of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from acclc.ir.problem import InPlace, Problem, Rank
from acclc.ir.program import Extent, Operation, OperationKind, Program, ProgramBlock, RankProgram
from acclc.ir.schedule import OWN, ChunkId, Lane, Output, Schedule, Transfer, TransferId
from acclc.lower.placement import Placement


def lower_program(problem: Problem, schedule: Schedule, all_in_slots: bool = False) -> Program:
    """Return the two-sided Program of a verified schedule.

    Takes the chunks' placement from :class:`Placement`; ``all_in_slots``: no transfer lands in its final place. Sends
    of one block are in order of (step, id), and so is the FIFO of every edge. Does not cut slices and knows no
    counters.
    """
    placement = Placement(problem, schedule, all_in_slots)
    channels = _edge_channels(schedule)
    group = problem.group
    builders = {rank: _RankBuilder(problem, schedule, placement, channels, rank) for rank in group}
    return Program(
        name=problem.name,
        in_place=in_place_of(problem).value,
        positions=positions_of(problem),
        contributors=contributors_of(problem),
        ranks=tuple(builders[rank].build() for rank in group),
    )


def positions_of(problem: Problem) -> tuple[int, ...]:
    """Each rank's position in its demand's group, in the order of the problem's group."""
    return tuple(d.group.index(r) for r in problem.group for d in problem.demands if r in d.group)


def contributors_of(problem: Problem) -> int:
    """By how many contributions avg divides; 0, which makes the runtime refuse avg, where sets differ in size."""
    counts = {len(s.inputs) for s in problem.shards if s.reduced} or {1}
    return counts.pop() if len(counts) == 1 else 0


def in_place_of(problem: Problem) -> InPlace:
    """How the whole problem may run in place: only if all its demands do it in the same way."""
    ways = {d.in_place for d in problem.demands}
    return ways.pop() if len(ways) == 1 else InPlace.NONE


def completes(problem: Problem, schedule: Schedule, chunk: ChunkId, operands: tuple[TransferId, ...]) -> bool:
    """Whether reducing these operands yields the whole reduction of a shard (where avg divides)."""
    shard = problem.shards[schedule.chunks[chunk].shard]
    if not shard.reduced or len(operands) < 2:
        return False
    own = sum(_count_own(schedule, operand) for operand in operands)
    return own == len(shard.inputs)


def _count_own(schedule: Schedule, operand: TransferId) -> int:
    if operand == OWN:
        return 1
    return sum(_count_own(schedule, o) for o in schedule.transfers[operand].operands)


def _edge_channels(schedule: Schedule) -> dict[tuple[Rank, Rank, Lane], int]:
    """Number the lanes (first links) over which one rank sends to another: (src, dst, lane) -> channel."""
    channels: dict[tuple[Rank, Rank, Lane], int] = {}
    per_pair: dict[tuple[Rank, Rank], int] = {}
    for t in sorted(schedule.transfers, key=lambda t: (t.src, t.dst, schedule.lane(t))):
        key = (t.src, t.dst, schedule.lane(t))
        if key not in channels:
            channels[key] = per_pair.get((t.src, t.dst), 0)
            per_pair[(t.src, t.dst)] = channels[key] + 1
    return channels


@dataclass
class _RankBuilder:
    """Collects the operations of one rank, then numbers them and fills in what each waits for."""

    problem: Problem
    schedule: Schedule
    placement: Placement
    channels: dict[tuple[Rank, Rank, Lane], int]
    rank: Rank
    ids: dict[tuple[str, int], int] = field(default_factory=dict)
    """("send" | "receive", transfer) and ("compute", chunk) -> operation id."""

    def build(self) -> RankProgram:
        sends: dict[Lane, list[Transfer]] = {}
        receives: dict[tuple[Rank, int], list[Transfer]] = {}
        order = sorted(self.schedule.transfers, key=lambda t: (t.step, t.id))
        for t in order:
            if t.src == self.rank:
                sends.setdefault(self.schedule.lane(t), []).append(t)
            if t.dst == self.rank:
                receives.setdefault((t.src, self._channel(t)), []).append(t)
        computes = [o for o in self.schedule.outputs if o.rank == self.rank and self.placement.is_computed(o)]
        computes.sort(key=lambda o: (self._compute_step(o), o.chunk))
        self._number(computes, sends, receives)
        blocks = [ProgramBlock(-1, tuple(self._compute(o) for o in computes))] if computes else []
        blocks += [self._send_block(sends[lane]) for lane in sorted(sends)]
        blocks += [self._receive_block(receives[edge]) for edge in sorted(receives)]
        slots = [self.placement.slots[t.id] + 1 for t in order if t.dst == self.rank and t.id in self.placement.slots]
        return RankProgram(
            rank=self.rank,
            input_units=self.problem.input_units(self.rank),
            output_units=self.problem.output_units(self.rank),
            slots=max(slots, default=0),
            blocks=tuple(blocks),
        )

    def _number(
        self,
        computes: list[Output],
        sends: dict[Lane, list[Transfer]],
        receives: dict[tuple[Rank, int], list[Transfer]],
    ) -> None:
        keys: list[tuple[str, int]] = [("compute", o.chunk) for o in computes]
        keys += [("send", t.id) for lane in sorted(sends) for t in sends[lane]]
        keys += [("receive", t.id) for edge in sorted(receives) for t in receives[edge]]
        self.ids = {key: number for number, key in enumerate(keys)}

    def _channel(self, t: Transfer) -> int:
        return self.channels[(t.src, t.dst, self.schedule.lane(t))]

    def _compute_step(self, output: Output) -> int:
        """The last step of what a local operation waits for."""
        arrivals = [self.schedule.transfers[o].step for o in output.operands if o != OWN]
        reads = [t.step for t in self._overwritten_reads(output)]
        return max(arrivals + reads, default=0)

    def _overwritten_reads(self, output: Output) -> list[Transfer]:
        """The sends that must have read the rank's input before this output may overwrite it, in place."""
        pending = self.placement.pending_reads(output.rank, output.chunk, output.operands)
        return [t for t in pending if not self.placement.reuses_output(t)]

    def _arrivals(self, operands: tuple[TransferId, ...]) -> list[int]:
        return [self.ids[("receive", o)] for o in operands if o != OWN]

    def _compute(self, output: Output) -> Operation:
        waits = self._arrivals(output.operands)
        waits += [self.ids[("send", t.id)] for t in self._overwritten_reads(output)]
        return Operation(
            id=self.ids[("compute", output.chunk)],
            kind=OperationKind.COMPUTE,
            step=self._compute_step(output),
            sources=self.placement.sources(self.rank, output.chunk, output.operands),
            target=self.placement.output_of(self.rank, output.chunk),
            final=completes(self.problem, self.schedule, output.chunk, output.operands),
            after=tuple(sorted(waits)),
        )

    def _send_block(self, transfers: list[Transfer]) -> ProgramBlock:
        operations: list[Operation] = []
        fifo: dict[Rank, int] = {}
        for t in transfers:
            number = fifo.get(t.dst, 0)
            fifo[t.dst] = number + 1
            if self.placement.reuses_output(t):
                sources: tuple[Extent, ...] = (self.placement.output_of(self.rank, t.chunk),)
                waits = [self.ids[("compute", t.chunk)]]
                final = False
            else:
                sources = self.placement.sources(self.rank, t.chunk, t.operands)
                waits = self._arrivals(t.operands)
                final = completes(self.problem, self.schedule, t.chunk, t.operands)
            operations.append(
                Operation(
                    id=self.ids[("send", t.id)],
                    kind=OperationKind.SEND,
                    step=t.step,
                    sources=sources,
                    transfer=t.id,
                    peer=t.dst,
                    channel=self._channel(t),
                    fifo=number,
                    final=final,
                    after=tuple(sorted(waits)),
                )
            )
        return ProgramBlock(int(transfers[0].path[0]), tuple(operations))

    def _receive_block(self, transfers: list[Transfer]) -> ProgramBlock:
        return ProgramBlock(
            -1,
            tuple(
                Operation(
                    id=self.ids[("receive", t.id)],
                    kind=OperationKind.RECEIVE,
                    step=t.step,
                    target=self.placement.landing(t),
                    transfer=t.id,
                    peer=t.src,
                    channel=self._channel(t),
                    fifo=number,
                )
                for number, t in enumerate(transfers)
            ),
        )
