"""Schedule: *when and where*. Transfers of chunks over links, in steps.

Values are in single-assignment form: a transfer says exactly what moves, as an ordered reduction of the
sender's own contribution (``OWN``) and of transfers that reached the sender earlier. So a reduction is an
expression tree, and "reduced exactly once" is a property of the text, not of an execution.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NewType

from acclc.ir.problem import LinkId, Rank, ShardId

ChunkId = NewType("ChunkId", int)
"""Index into ``Schedule.chunks``."""
TransferId = NewType("TransferId", int)
"""Index into ``Schedule.transfers``."""

Lane = tuple[tuple[LinkId, ...], int]
"""Transfers that wait for each other because one block sends them all."""

OWN = TransferId(-1)
"""The operand that stands for the rank's own input of the shard."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part [begin, end) of a shard, as fractions of its count. The chunks of a shard tile [0, 1)."""

    id: ChunkId
    shard: ShardId
    index: int
    begin: Fraction
    end: Fraction

    @property
    def weight(self) -> Fraction:
        """The chunk's share of its shard."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Transfer:
    """One chunk moves from ``src`` to ``dst`` over ``path`` within one step.

    ``path`` is a chain of links from src to dst whose inner nodes are no GPUs; each of its links is used.
    ``operands`` are reduced left to right at ``src``; a plain copy has exactly one. An operand that is a
    transfer must have arrived at ``src`` (``dst`` of it) in an earlier step.
    """

    id: TransferId
    chunk: ChunkId
    src: Rank
    dst: Rank
    path: tuple[LinkId, ...]
    step: int
    operands: tuple[TransferId, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """What ``rank`` ends up with for ``chunk``: the operands reduced left to right. One for each that needs it."""

    rank: Rank
    chunk: ChunkId
    operands: tuple[TransferId, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stepped schedule. In step s a link of capacity c units carries at most ``c * rounds[s]`` chunks.

    Without ``rounds`` it is *pipelined*: no step ends for all at once. A transfer's step is then only a level
    (operands come from lower ones), chunks may differ in weight and shards in their number of chunks, and the
    time is that of the link or budget with the most load in all. What has nothing to move has neither.

    Transfers are in order of step; within a step, of their order on each link. ``strategy`` says who made it
    (``exact``, ``greedy``, ``composed`` ...); ``optimal`` lists what was proven of it (``steps``, ``rounds``,
    ``throughput``), for reports only: the verifier recomputes what can be recomputed.
    """

    chunks: tuple[Chunk, ...]
    transfers: tuple[Transfer, ...]
    outputs: tuple[Output, ...]
    rounds: tuple[int, ...]
    strategy: str
    optimal: tuple[str, ...] = ()

    @property
    def pipelined(self) -> bool:
        """Whether there are levels in place of steps, and no rounds."""
        return not self.rounds and bool(self.transfers)

    def lane(self, transfer: Transfer) -> Lane:
        """Return what sends a transfer, one of its lane after another: its first link.

        If pipelined, its path and level: a slice of one level must not wait for the slice before it on another.
        """
        return (transfer.path, transfer.step) if self.pipelined else (transfer.path[:1], 0)

    @property
    def steps(self) -> int:
        """S: the number of steps, or of levels."""
        if self.pipelined:
            return self.transfers[-1].step + 1
        return len(self.rounds)

    @property
    def total_rounds(self) -> int:
        """R: the sum of the steps' rounds; nought, and without a meaning, if pipelined."""
        return sum(self.rounds)

    @property
    def chunks_per_shard(self) -> int:
        """C: chunks a shard (all shards have as many, unless pipelined: then of the shard that has most)."""
        return max((c.index + 1 for c in self.chunks), default=0)

    @property
    def id(self) -> str:
        """A short name from (C, S, R): ``c6s3r7``; if pipelined from its trees and their depth: ``p24d4``."""
        if self.pipelined:
            return f"p{len(self.chunks)}d{self.steps}"
        return f"c{self.chunks_per_shard}s{self.steps}r{self.total_rounds}"


def equal_chunks(shards: tuple[ShardId, ...], per_shard: int) -> tuple[Chunk, ...]:
    """Cut each shard into ``per_shard`` chunks of equal weight; chunk ids run shard by shard."""
    return tuple(
        Chunk(ChunkId(n * per_shard + i), shard, i, Fraction(i, per_shard), Fraction(i + 1, per_shard))
        for n, shard in enumerate(shards)
        for i in range(per_shard)
    )
