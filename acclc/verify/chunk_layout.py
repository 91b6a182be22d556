"""Where the chunks of a collective lie, and what must be in them at the end; names are those of MSCCL and MSCCL++."""

from __future__ import annotations

from dataclasses import dataclass

from acclc.ir.msccl import MscclAlgorithm

Cell = tuple[int, str, int]
"""(rank, buffer, chunk). In place, a chunk with two names has one of them here."""

MULTIPLIED = {"allgather", "reducescatter", "alltoall"}
BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
KNOWN = {"allreduce", *MULTIPLIED, *ROOTED}
"""Collectives whose definition can be checked."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Buffers of a collective in chunks. ``shard`` chunks are one count; ``root`` is a rank, or -1."""

    collective: str
    ranks: int
    shard: int
    root: int

    @staticmethod
    def of(algorithm: MscclAlgorithm, root: int) -> Layout | None:
        """Return the layout of an algorithm; None where the ranks do not divide the chunks."""
        multiplied = algorithm.collective in MULTIPLIED
        if multiplied and algorithm.chunks_per_loop % algorithm.ranks:
            return None
        shard = algorithm.chunks_per_loop // algorithm.ranks if multiplied else algorithm.chunks_per_loop
        return Layout(algorithm.collective, algorithm.ranks, shard, root)

    def input_chunks(self, rank: int) -> int:
        """Chunks that a rank has at the start."""
        if self.collective in ("broadcast", "scatter") and rank != self.root:
            return 0
        return self.shard * (self.ranks if self.collective in ("reducescatter", "alltoall", "scatter") else 1)

    def output_chunks(self, rank: int) -> int:
        """Chunks that a rank has at the end."""
        if self.collective in ("reduce", "gather") and rank != self.root:
            return 0
        return self.shard * (self.ranks if self.collective in ("allgather", "alltoall", "gather") else 1)

    def cell(self, rank: int, buffer: str, offset: int, in_place: bool) -> Cell:
        """Name a chunk of memory, the same for both of its names where the call is in place."""
        if not in_place or buffer == "s":
            return rank, buffer, offset
        match self.collective:
            case "allgather" | "gather":
                inside = self.collective == "allgather" or rank == self.root
                return (rank, "o", rank * self.shard + offset) if buffer == "i" and inside else (rank, buffer, offset)
            case "reducescatter" | "scatter":
                inside = self.collective == "reducescatter" or rank == self.root
                return (rank, "i", rank * self.shard + offset) if buffer == "o" and inside else (rank, buffer, offset)
            case _:
                return rank, "i", offset

    def origins(self, rank: int, offset: int) -> list[tuple[int, int]]:
        """Return the (rank, input chunk) that are reduced in chunk ``offset`` of a rank's output."""
        unit, chunk = divmod(offset, self.shard)
        match self.collective:
            case "allreduce" | "reduce":
                return [(r, offset) for r in range(self.ranks)]
            case "reducescatter":
                return [(r, rank * self.shard + offset) for r in range(self.ranks)]
            case "allgather" | "gather":
                return [(unit, chunk)]
            case "alltoall":
                return [(unit, rank * self.shard + chunk)]
            case "scatter":
                return [(self.root, rank * self.shard + offset)]
            case _:
                return [(self.root, offset)]


def cell_name(cell: Cell) -> str:
    """Return e.g. ``chunk 3 of the scratch of rank 1``."""
    rank, buffer, chunk = cell
    return f"chunk {chunk} of the {BUFFERS[buffer]} of rank {rank}"
