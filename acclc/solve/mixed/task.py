"""What travels: shards gathered by who has them, who needs them, and whether they are reduced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from acclc.ir.problem import Problem, Rank, Shard, ShardId


@dataclass(frozen=True, slots=True)
class Bundle:
    """Shards that travel alike. ``origins`` hold them, or contribute to them (``reduced``); ``ends`` need them."""

    origins: tuple[Rank, ...]
    ends: tuple[Rank, ...]
    reduced: bool
    shards: tuple[ShardId, ...]


def bundles(problem: Problem) -> tuple[Bundle, ...]:
    """Return the shards that have to go anywhere, alike ones together."""
    found: dict[tuple[tuple[Rank, ...], tuple[Rank, ...], bool], list[ShardId]] = {}
    for shard in problem.shards:
        origins, ends = _ordered(shard.sources), _ordered(shard.targets)
        reduced = shard.reduced and len(origins) > 1
        if reduced or set(ends) - set(origins):
            found.setdefault((origins, ends, reduced), []).append(shard.id)
    return tuple(Bundle(*key, tuple(shards)) for key, shards in found.items())


def hindrance(problem: Problem) -> str:
    """Say why a problem cannot be pipelined along trees; empty if it can."""
    if not problem.topology.links or not any(map(_moves, problem.shards)):
        return "nothing moves"
    if problem.goal.steps is not None or problem.goal.rounds is not None:
        return "steps or rounds are limited, which a pipeline does not have"
    if any(not s.targets or not s.sources for s in problem.shards):
        return "a shard has nobody to hold it, or nobody to need it"
    return ""


def relays_of(problem: Problem) -> frozenset[Rank]:
    """Return the ranks that may pass on what is not theirs."""
    hinted = problem.goal.hints.relays
    return frozenset(problem.group if hinted is None else hinted) & frozenset(problem.group)


def _moves(shard: Shard) -> bool:
    return bool(set(shard.targets) - set(shard.sources)) or (shard.reduced and len(set(shard.sources)) > 1)


def _ordered(ranks: Iterable[Rank]) -> tuple[Rank, ...]:
    return tuple(sorted(set(ranks)))
