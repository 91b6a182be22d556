"""What the portfolio asks for: one pipelined schedule of a problem, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from acclc.ir.problem import Problem
from acclc.ir.schedule import Schedule
from acclc.solve import mirror
from acclc.solve.packing.assemble import schedule_of
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.packing.solver import Packing, pack
from acclc.solve.packing.task import Family, Task, family, packable, tasks
from acclc.solve.packing.trees import Tree
from acclc.solve.protocol import Deadline

MAX_TREES = 64
"""Most chunks a shard (for a reduction that all need: a rank's part of the shard) where the user sets no limit."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A schedule, or why there is none; of the packings the k, depth, and the loss where k had to be small."""

    schedule: Schedule | None
    reason: str = ""
    gather: Packing | None = None
    spread: Packing | None = None
    cut: bool = False
    """Whether the clock or the work ended it: another machine may find one."""

    @property
    def packings(self) -> tuple[Packing, ...]:
        """Those that were made."""
        return tuple(p for p in (self.gather, self.spread) if p is not None)

    @property
    def loss(self) -> Fraction:
        """How much more time than the packings' optima together."""
        best = sum((p.optimum for p in self.packings), Fraction(0))
        return sum((p.achieved for p in self.packings), Fraction(0)) / best - 1 if best else Fraction(0)


def packed_schedule(problem: Problem, deadline: Deadline | None = None, max_trees: int = MAX_TREES) -> Packed:
    """Return the pipelined schedule of a problem by packing trees, at most so many a shard. Never raises for time."""
    kind = family(problem)
    if kind is None:
        return Packed(None, "not all shards go to, or come from, all ranks")
    reason = packable(problem.topology) or _hindrance(problem)
    if reason:
        return Packed(None, reason)
    most = problem.goal.chunks if problem.goal.chunks is not None else max_trees
    if kind is Family.BOTH and problem.goal.chunks is not None:
        most //= len(problem.topology.ranks)
    most = min(most, max_trees)
    if most < 1:
        return Packed(None, "fewer chunks are allowed than there are roots")
    try:
        gather, spread = _packings(problem, kind, most, Effort(deadline or Deadline()))
    except TimeUp:
        return Packed(None, "the deadline passed, or the work was used up", cut=True)
    if gather is spread is None:
        return Packed(None, f"it would take more than {most} chunks a shard")
    schedule = schedule_of(problem, kind, gather, spread)
    if problem.goal.chunks is not None and schedule.chunks_per_shard > problem.goal.chunks:
        return Packed(None, f"it would take {schedule.chunks_per_shard} chunks a shard", gather, spread)
    return Packed(schedule, "", gather, spread)


def _hindrance(problem: Problem) -> str:
    goal = problem.goal
    if len(problem.topology.ranks) < 2 or not problem.topology.links:
        return "nothing moves"
    if goal.hints.relays is not None and set(goal.hints.relays) != set(problem.topology.ranks):
        return "not every rank may pass on data"
    if goal.steps is not None or goal.rounds is not None:
        return "steps or rounds are limited, which a pipeline does not have"
    return ""


def _packings(problem: Problem, kind: Family, most: int, effort: Effort) -> tuple[Packing | None, Packing | None]:
    """Pack for collecting and for spreading; both or none where both are needed."""
    up, down = tasks(problem, kind)
    spread = None if down is None else pack(down, effort, most)
    if up is None:
        return None, spread
    if down is None:
        return pack(up, effort, most), None
    if spread is None:
        return None, None
    gather = _mirrored(spread, up) or pack(up, effort, most)
    return (gather, spread) if gather is not None else (None, None)


def _mirrored(spread: Packing, task: Task) -> Packing | None:
    """Return the same trees for the reversed machine, where every link has a twin the other way."""
    twin = mirror.twins(spread.task.topology)
    if twin is None:
        return None
    trees = tuple(
        Tree(t.root, t.weight, tuple(replace(h, path=tuple(twin[e] for e in h.path)) for h in t.hops))
        for t in spread.trees
    )
    return replace(spread, task=task, trees=trees)
