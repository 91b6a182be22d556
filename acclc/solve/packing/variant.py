"""What the portfolio asks for: one pipelined schedule of a problem, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from acclc.bounds.compute import throughput_bound
from acclc.bounds.families import Family, family
from acclc.ir.problem import Problem
from acclc.ir.schedule import Schedule
from acclc.solve import mirror
from acclc.solve.packing.allocation import allocations
from acclc.solve.packing.assemble import schedule_of
from acclc.solve.packing.check import seconds_per_byte
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.packing.solver import Packing, pack, pack_allocated
from acclc.solve.packing.task import Task, packable, tasks
from acclc.solve.packing.trees import Tree
from acclc.solve.protocol import Deadline

MAX_TREES = 64
"""Most chunks a shard (for a reduction that all need: a rank's part of the shard) where the user sets no limit."""

Pair = tuple[Packing | None, Packing | None]


@dataclass(frozen=True, slots=True)
class Packed:
    """A schedule, or why there is none, and the packings in it. Times are in seconds a byte of shard.

    ``optimum``: the least that such packings need where chunks are not limited.
    """

    schedule: Schedule | None
    reason: str = ""
    gather: Packing | None = None
    spread: Packing | None = None
    cut: bool = False
    """Whether the clock (or, without a schedule, the work) ended it: another machine may find another one."""
    optimum: Fraction = Fraction(0)
    time: Fraction = Fraction(0)
    of_all_trees: bool = False
    """Whether no schedule that sends every piece up one tree and down another is faster (by the linear program)."""

    @property
    def certificate(self) -> None:
        """What proves the optimum, where it is above the bound that was known: cuts are known."""
        return None

    @property
    def kind(self) -> str:
        """What it is, for reports."""
        return "packing of trees"

    @property
    def of_all(self) -> str:
        """Of what no schedule is faster, in a sentence; empty where that is not known."""
        words = "no schedule that sends every piece along trees is faster, by a linear program over cuts"
        return words if self.of_all_trees else ""

    @property
    def k(self) -> int:
        """Units a shard, of the packing that loses the most."""
        return max(self.packings, key=lambda p: p.loss).k

    @property
    def exact_k(self) -> int:
        """The least k at which that packing's optimum was reached; nought where none was found."""
        return max(self.packings, key=lambda p: p.loss).exact_k

    @property
    def packings(self) -> tuple[Packing, ...]:
        """Those that were made."""
        return tuple(p for p in (self.gather, self.spread) if p is not None)

    @property
    def loss(self) -> Fraction:
        """How much more time than the optimum, where chunks are limited."""
        return self.time / self.optimum - 1 if self.optimum else Fraction(0)


def packed_schedule(
    problem: Problem,
    deadline: Deadline | None = None,
    max_trees: int = MAX_TREES,
    bound: Fraction | None = None,
) -> Packed:
    """Return the pipelined schedule of a problem by packing trees, at most so many a shard. Never raises for time.

    ``bound``: seconds a byte of shard, proven (None: it is computed here). A packing that reaches it is the end.
    """
    kind = family(problem)
    if kind is None:
        return Packed(None, "not all shards go to, or come from, all ranks")
    reason = _hindrance(problem)
    if reason:
        return Packed(None, reason)
    limit = _Limit.of(problem, kind, max_trees)
    effort = Effort(deadline or Deadline())
    least = throughput_bound(problem).time_per_byte if bound is None else bound
    found, cut = _best(problem, kind, least, limit, effort)
    if found is not None:
        return replace(found, cut=effort.clock_cut)
    if cut:
        return Packed(None, "the deadline passed, or the work was used up", cut=True)
    return Packed(None, f"it would take more than {limit.chunks} chunks a shard")


@dataclass(frozen=True, slots=True)
class _Limit:
    """Most trees a root (for a shard of its), and most chunks a shard."""

    trees: int
    chunks: int

    @classmethod
    def of(cls, problem: Problem, kind: Family, max_trees: int) -> _Limit:
        roots = len(problem.topology.ranks) if kind is Family.BOTH else 1
        chunks = problem.goal.chunks
        if chunks is None:
            return cls(max_trees, max_trees * roots)
        return cls(min(max_trees, chunks // roots), min(max_trees * roots, chunks))


def _hindrance(problem: Problem) -> str:
    goal = problem.goal
    if len(problem.topology.ranks) < 2 or not problem.topology.links:
        return "nothing moves"
    if goal.hints.relays is not None and set(goal.hints.relays) != set(problem.topology.ranks):
        return "not every rank may pass on data"
    if goal.steps is not None or goal.rounds is not None:
        return "steps or rounds are limited, which a pipeline does not have"
    return ""


def _best(problem: Problem, kind: Family, least: Fraction, limit: _Limit, effort: Effort) -> tuple[Packed | None, bool]:
    """Return the best packing, and whether time or work ended the search for a better one.

    Trees in the links as they are come first; shares of the links are allocated where that does not do: where links
    share budgets or switches are uneven, and where collecting and spreading at the same time is better than in turn.
    """
    best: Packed | None = None
    try:
        if not packable(problem.topology):
            best = _packed(problem, kind, _in_turn(problem, kind, limit.trees, effort), limit)
            if kind is not Family.BOTH or (best is not None and best.time <= least):
                return best, False
        for allocation in allocations(problem, kind, least, effort, min(limit.chunks, MAX_TREES)):
            most = min(limit.chunks if kind is Family.BOTH else limit.trees, MAX_TREES)
            pair = pack_allocated(problem, kind, allocation, most, effort)
            overlapped = _packed(problem, kind, pair, limit, allocation.optimum)
            if overlapped is not None:
                chosen = overlapped if best is None or overlapped.time < best.time else best
                return replace(chosen, of_all_trees=chosen.time == allocation.optimum), False
    except TimeUp:
        return best, True
    return best, False


def _packed(
    problem: Problem, kind: Family, pair: Pair, limit: _Limit, optimum: Fraction | None = None
) -> Packed | None:
    """Return the schedule of packings, if there are any and it keeps to the limit."""
    gather, spread = pair
    if gather is spread is None:
        return None
    schedule = schedule_of(problem, kind, gather, spread)
    if schedule.chunks_per_shard > limit.chunks:
        return None
    if optimum is None:
        optimum = sum((p.optimum for p in pair if p is not None), Fraction(0))
        if kind is Family.BOTH:
            optimum *= Fraction(len(problem.shards), len(problem.topology.ranks))
    time = seconds_per_byte(problem, schedule)
    return Packed(schedule, "", gather, spread, False, min(optimum, time), time)


def _in_turn(problem: Problem, kind: Family, most: int, effort: Effort) -> Pair:
    """Pack for collecting and for spreading; both or none where both are needed."""
    if most < 1:
        return None, None
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
