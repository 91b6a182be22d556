"""Pass 1: where each value lies.

A transfer lands straight in its final place if it is exactly what the rank ends up with, and if nothing there
can still be needed; else in a scratch slot of its own. A sum that a rank both keeps and sends on is computed
once, into its final place, and sent from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from acclc.ir.problem import Problem, Rank, ShardId
from acclc.ir.program import Buffer, Extent
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId


@dataclass(frozen=True)
class Placement:
    """Answers where values lie. Built once from a problem and a schedule; pure."""

    problem: Problem
    schedule: Schedule
    all_in_slots: bool = False
    """Every transfer lands in a slot, also where its final place would be safe."""

    @cached_property
    def outputs(self) -> dict[tuple[Rank, ChunkId], Output]:
        """The output of each (rank, chunk) that needs one."""
        return {(o.rank, o.chunk): o for o in self.schedule.outputs}

    @cached_property
    def own_reads(self) -> dict[tuple[Rank, ChunkId], tuple[Transfer, ...]]:
        """The transfers that read the rank's own input of a chunk."""
        reads: dict[tuple[Rank, ChunkId], list[Transfer]] = {}
        for transfer in self.schedule.transfers:
            if OWN in transfer.operands:
                reads.setdefault((transfer.src, transfer.chunk), []).append(transfer)
        return {key: tuple(value) for key, value in reads.items()}

    @cached_property
    def slots(self) -> dict[TransferId, int]:
        """The scratch slot (numbered per receiving rank) of each transfer that needs one."""
        used: dict[Rank, int] = {}
        slots: dict[TransferId, int] = {}
        for transfer in self.schedule.transfers:
            if not self._lands_in_output(transfer):
                slots[transfer.id] = used.get(transfer.dst, 0)
                used[transfer.dst] = slots[transfer.id] + 1
        return slots

    def ancestors(self, operands: tuple[TransferId, ...]) -> frozenset[TransferId]:
        """All transfers whose data flowed into the operands."""
        found: set[TransferId] = set()
        stack = [o for o in operands if o != OWN]
        while stack:
            current = stack.pop()
            if current not in found:
                found.add(current)
                stack += [o for o in self.schedule.transfers[current].operands if o != OWN]
        return frozenset(found)

    def pending_reads(self, rank: Rank, chunk: ChunkId, operands: tuple[TransferId, ...]) -> tuple[Transfer, ...]:
        """Transfers that read the rank's own input and are not known to have done so once ``operands`` are there.

        Whatever is written over the input, in place, must wait for them.
        """
        reads = self.own_reads.get((rank, chunk), ())
        if not reads:
            return ()
        before = self.ancestors(operands)
        return tuple(t for t in reads if t.id not in before)

    def input_of(self, rank: Rank, chunk: ChunkId) -> Extent:
        """The rank's own input of a chunk."""
        return self._extent(Buffer.INPUT, rank, chunk)

    def output_of(self, rank: Rank, chunk: ChunkId) -> Extent:
        """The place where the rank needs a chunk."""
        return self._extent(Buffer.OUTPUT, rank, chunk)

    def landing(self, transfer: Transfer) -> Extent:
        """Where a transfer lands at its receiver."""
        slot = self.slots.get(transfer.id)
        if slot is None:
            return self.output_of(transfer.dst, transfer.chunk)
        chunk = self.schedule.chunks[transfer.chunk]
        return Extent(Buffer.SCRATCH, slot, chunk.begin, chunk.end, self._counted_by(chunk.shard))

    def sources(self, rank: Rank, chunk: ChunkId, operands: tuple[TransferId, ...]) -> tuple[Extent, ...]:
        """Where the operands lie at ``rank``."""
        return tuple(
            self.input_of(rank, chunk) if o == OWN else self.landing(self.schedule.transfers[o]) for o in operands
        )

    def is_computed(self, output: Output) -> bool:
        """Whether the rank has to copy or reduce to get an output (else a transfer lands there)."""
        return len(output.operands) != 1 or output.operands[0] == OWN or output.operands[0] in self.slots

    def reuses_output(self, transfer: Transfer) -> bool:
        """Whether a transfer sends a sum that its sender computes for itself, from where it was stored."""
        output = self.outputs.get((transfer.src, transfer.chunk))
        if output is None or len(transfer.operands) == 1 or output.operands != transfer.operands:
            return False
        late = self.pending_reads(transfer.src, transfer.chunk, transfer.operands)
        return all(t.step < transfer.step for t in late if t.operands != transfer.operands)

    def _lands_in_output(self, transfer: Transfer) -> bool:
        output = self.outputs.get((transfer.dst, transfer.chunk))
        if self.all_in_slots or output is None or output.operands != (transfer.id,):
            return False
        return not self.pending_reads(transfer.dst, transfer.chunk, output.operands)

    def _extent(self, buffer: Buffer, rank: Rank, chunk_id: ChunkId) -> Extent:
        chunk = self.schedule.chunks[chunk_id]
        shard = self.problem.shards[chunk.shard]
        places = shard.inputs if buffer is Buffer.INPUT else shard.outputs
        unit = next(p.unit for p in places if p.rank == rank)
        return Extent(buffer, unit, chunk.begin, chunk.end, self._counted_by(chunk.shard))

    def _counted_by(self, shard: ShardId) -> int:
        """Whose count an extent's fractions are of."""
        return int(shard) if self.problem.varying else -1
