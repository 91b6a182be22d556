"""The three kinds of problems that spanning trees solve, and where the trees have their roots."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from acclc.ir.problem import Problem, Rank, Shard


class Family(StrEnum):
    """From one rank to all, back, or both: a reduction that all need."""

    SPREAD = "spread"
    COLLECT = "collect"
    BOTH = "both"


def family(problem: Problem) -> Family | None:
    """Return which kind a problem is; None where its shards are no trees over all ranks, or of several kinds."""
    ranks = frozenset(problem.topology.ranks)
    kinds = {_kind(shard, ranks) for shard in problem.shards}
    return kinds.pop() if len(kinds) == 1 else None


def _kind(shard: Shard, ranks: frozenset[Rank]) -> Family | None:
    sources, targets = frozenset(shard.sources), frozenset(shard.targets)
    if len(targets) < len(shard.targets) or len(sources) < len(shard.sources):
        return None
    if len(sources) == 1 and targets | sources == ranks:
        return Family.SPREAD
    if not shard.reduced:
        return None
    if len(targets) == 1 and sources | targets == ranks:
        return Family.COLLECT
    return Family.BOTH if sources == targets == ranks else None


def root_of(shard: Shard, kind: Family) -> Rank:
    """Return the root of a shard's trees (not for ``BOTH``, where every rank is one)."""
    return shard.sources[0] if kind is Family.SPREAD else shard.targets[0]


def root_counts(problem: Problem, kind: Family) -> tuple[int, ...]:
    """Return how many shards have their root at each rank; for ``BOTH`` one part each of every shard."""
    if kind is Family.BOTH:
        return tuple(1 for _ in problem.topology.ranks)
    roots = Counter(root_of(shard, kind) for shard in problem.shards)
    return tuple(roots[r] for r in problem.topology.ranks)
