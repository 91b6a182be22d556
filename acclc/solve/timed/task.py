"""What a timed search can do: copies, and reductions to one rank each, which are copies seen backward."""

from __future__ import annotations

from dataclasses import dataclass

from acclc.ir.problem import Problem
from acclc.solve.items import needs_meeting
from acclc.solve.timed.routes import Item


@dataclass(frozen=True, slots=True)
class TimedTask:
    """The items of a problem without reductions that several ranks need; ``reverse``: they are read backward."""

    reverse: bool
    items: tuple[Item, ...]


def hindrance(problem: Problem) -> str:
    """Say why a problem is not for the timed search as it is; empty if it is."""
    if not problem.topology.links:
        return "nothing moves"
    kinds = {s.reduced and len(set(s.sources)) > 1 for s in problem.shards}
    if len(kinds) > 1:
        return "some shards are copied and some reduced"
    if any(map(needs_meeting, problem.shards)):
        return "several ranks need a reduction"
    return ""


def task_of(problem: Problem, chunks: int) -> TimedTask:
    """Return the items of a problem (without :func:`hindrance`) with so many chunks a shard."""
    reverse = any(s.reduced and len(set(s.sources)) > 1 for s in problem.shards)
    items: list[Item] = []
    for index in range(chunks):
        for shard in problem.shards:
            sources, targets = tuple(sorted(set(shard.sources))), tuple(sorted(set(shard.targets)))
            starts, ends = (targets, sources) if reverse else (sources, targets)
            items.append(Item(shard.id, index, starts, ends))
    return TimedTask(reverse, tuple(items))
