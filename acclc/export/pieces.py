"""Chunks of a schedule as runs of equal cells: formats of other engines know one length of chunk only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm

from acclc.ir.problem import Collective, Problem, Rank
from acclc.ir.schedule import ChunkId, Schedule

NAMES = {
    Collective.ALL_GATHER: "allgather",
    Collective.REDUCE_SCATTER: "reducescatter",
    Collective.ALL_REDUCE: "allreduce",
    Collective.BROADCAST: "broadcast",
    Collective.REDUCE: "reduce",
    Collective.GATHER: "gather",
    Collective.SCATTER: "scatter",
    Collective.ALL_TO_ALL: "alltoall",
}
"""Collectives as MSCCL and MSCCL++ call them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` cells of a chunk, from cell ``begin`` of its shard on."""

    id: int
    chunk: ChunkId
    begin: int
    count: int


@dataclass(frozen=True)
class Grid:
    """Each shard is ``cells`` equal cells: the fewest that every chunk is whole ones of.

    A chunk of more than ``longest`` cells is several pieces, which move one after another.
    """

    problem: Problem
    schedule: Schedule
    longest: int

    @cached_property
    def cells(self) -> int:
        """Cells of a shard."""
        ends = [e for c in self.schedule.chunks for e in (c.begin, c.end)]
        return lcm(1, *(Fraction(e).denominator for e in ends))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, in order of chunks."""
        found: list[Piece] = []
        for chunk in self.schedule.chunks:
            begin, end = int(chunk.begin * self.cells), int(chunk.end * self.cells)
            parts = -(-(end - begin) // self.longest)
            cuts = [begin + (end - begin) * k // parts for k in range(parts + 1)] if parts else [begin]
            for one, other in pairwise(cuts):
                found.append(Piece(len(found), chunk.id, one, other - one))
        return tuple(found)

    @cached_property
    def of_chunk(self) -> dict[ChunkId, tuple[Piece, ...]]:
        """The pieces of each chunk."""
        found: dict[ChunkId, list[Piece]] = {c.id: [] for c in self.schedule.chunks}
        for piece in self.pieces:
            found[piece.chunk].append(piece)
        return {chunk: tuple(pieces) for chunk, pieces in found.items()}

    def input_cell(self, rank: Rank, piece: Piece) -> int | None:
        """Where a piece begins in a rank's input; None where the rank has none of it."""
        shard = self.problem.shards[self.schedule.chunks[piece.chunk].shard]
        units = [p.unit for p in shard.inputs if p.rank == rank]
        return units[0] * self.cells + piece.begin if units else None

    def output_cell(self, rank: Rank, piece: Piece) -> int | None:
        """Where a piece begins in a rank's output; None where the rank needs none of it."""
        shard = self.problem.shards[self.schedule.chunks[piece.chunk].shard]
        units = [p.unit for p in shard.outputs if p.rank == rank]
        return units[0] * self.cells + piece.begin if units else None


def positions(group: Sequence[Rank]) -> dict[Rank, int]:
    """Global rank -> rank in the group: how other engines number ranks."""
    return {rank: position for position, rank in enumerate(group)}
