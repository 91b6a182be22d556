"""What a flow has to carry: shards that go from where they are to one rank each, gathered into commodities.

Shards with the same holders share a commodity: where a shard is to go does not matter until the flow is taken apart.
The same holds of shards with the same target on the reversed machine; of both ways the one with fewer commodities is
taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from acclc.ir.problem import NodeKind, Problem, Rank, Shard, ShardId, Topology
from acclc.solve.packing.task import reversed_topology


@dataclass(frozen=True, slots=True)
class Commodity:
    """Shards that start at any of ``origins``; those of each end, by end."""

    origins: tuple[Rank, ...]
    shards: tuple[tuple[Rank, tuple[ShardId, ...]], ...]

    @property
    def demand(self) -> dict[Rank, int]:
        """How many shards each end takes."""
        return {end: len(shards) for end, shards in self.shards}


@dataclass(frozen=True, slots=True)
class FlowTask:
    """Commodities on a machine; ``reverse``: all its links are turned round, and flows go from targets to holders."""

    topology: Topology
    reverse: bool
    commodities: tuple[Commodity, ...]
    relays: frozenset[Rank]
    """Ranks that may pass on what is not theirs."""


def destination(shard: Shard) -> Rank | None:
    """Return the one rank that a shard must be brought to; None where there is none, or several.

    Meant are copied shards from any holder, and reduced ones of one contribution.
    """
    away = set(shard.targets) - set(shard.sources)
    if len(away) != 1 or not shard.sources or (shard.reduced and len(set(shard.sources)) > 1):
        return None
    return min(away)


def point_to_point(problem: Problem) -> bool:
    """Whether all that moves goes to one rank each."""
    return all(destination(s) is not None for s in problem.shards if _moves(s))


def hindrance(problem: Problem) -> str:
    """Say why a problem is no point-to-point traffic that can be pipelined; empty if it is."""
    goal = problem.goal
    if not point_to_point(problem):
        return "some shards go to several ranks, or are reduced"
    if not any(map(_moves, problem.shards)) or not problem.topology.links:
        return "nothing moves"
    if goal.steps is not None or goal.rounds is not None:
        return "steps or rounds are limited, which a pipeline does not have"
    return ""


def flow_task(problem: Problem) -> FlowTask:
    """Gather the shards of a problem (without :func:`hindrance`) into commodities."""
    moved = [(s, end) for s in problem.shards if (end := destination(s)) is not None]
    relays = frozenset(problem.group if problem.goal.hints.relays is None else problem.goal.hints.relays)
    relays &= frozenset(problem.group)
    forward = _gathered((tuple(sorted(set(s.sources))), end, s.id) for s, end in moved)
    if all(len(set(s.sources)) == 1 for s, _ in moved):
        backward = _gathered(((end,), s.sources[0], s.id) for s, end in moved)
        if len(backward) < len(forward):
            return FlowTask(reversed_topology(problem.topology), True, backward, relays)
    return FlowTask(problem.topology, False, forward, relays)


def _moves(shard: Shard) -> bool:
    """Whether a shard has to go anywhere."""
    return bool(set(shard.targets) - set(shard.sources)) or (shard.reduced and len(set(shard.sources)) > 1)


def _gathered(parts: Iterable[tuple[tuple[Rank, ...], Rank, ShardId]]) -> tuple[Commodity, ...]:
    """Gather (origins, end, shard) by origins, then by end."""
    found: dict[tuple[Rank, ...], dict[Rank, list[ShardId]]] = {}
    for origins, end, shard in parts:
        found.setdefault(origins, {}).setdefault(end, []).append(shard)
    return tuple(
        Commodity(origins, tuple((end, tuple(ids)) for end, ids in sorted(ends.items())))
        for origins, ends in sorted(found.items())
    )


def may_pass(task: FlowTask, node: int) -> bool:
    """Whether a flow may go on from a node where it did not start."""
    return task.topology.nodes[node].kind is not NodeKind.GPU or Rank(node) in task.relays
