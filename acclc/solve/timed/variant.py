"""What the portfolio asks for: schedules that are good at given sizes, latency weighed against load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from acclc.ir.problem import Problem, Rank, ShardId
from acclc.ir.schedule import Schedule
from acclc.solve import network as networks
from acclc.solve.items import meeting_ranks, needs_meeting
from acclc.solve.network import Network
from acclc.solve.shared import PIECES, compose, piece_problems
from acclc.solve.timed.assemble import schedule_of
from acclc.solve.timed.clock import Clock, Move, moves_of
from acclc.solve.timed.machine import TICKS, TimedMachine
from acclc.solve.timed.routes import Loads, Router, Tariff, Tree
from acclc.solve.timed.seeds import trees_of
from acclc.solve.timed.spending import Spending
from acclc.solve.timed.task import TimedTask, hindrance, task_of

CHUNKS = (1, 2, 4, 8, 16)
STEEPNESS = (4.0, 64.0)
SWEEPS = 3
MOVE_COST = 40
"""Ways looked at that take as long as timing a move."""
WORK_PER_UNIT = 1_000_000
"""Ways that may be looked at for each unit of the search's work."""
SHARE_OF_HALF = 0.25
"""What one half of a reduction that several ranks need may take of the work that is left."""
WORTH = Fraction(1, 200)
"""More chunks must gain so much, or they are not tried further."""
MOST_MOVES = 40_000
"""Larger schedules are not timed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A schedule for shards of ``shard_bytes``; ``seconds``: its time, to be judged by the simulator."""

    shard_bytes: int
    seconds: Fraction
    schedule: Schedule


def timed_schedules(
    problem: Problem, shard_bytes: int, least: Fraction, spending: Spending, pipelines: Sequence[Schedule] = ()
) -> list[Timed]:
    """Return schedules for shards of one size, the best last; none where the problem is of another sort.

    ``least``: seconds a byte of shard that no schedule undercuts: the load that is aimed at. ``pipelines``: others'
    schedules, whose trees are timed as well.
    """
    if problem.reduces and any(map(needs_meeting, problem.shards)):
        return _composed(problem, shard_bytes, least, spending)
    if hindrance(problem) or not _sensible(problem):
        return []
    size = _Size(problem, networks.of_problem(problem), shard_bytes, least, tuple(pipelines))
    return list(_better(size, spending))


def _sensible(problem: Problem) -> bool:
    """Whether there is somebody to send to, and no more to send than can be timed."""
    if len(problem.topology.ranks) < 2 or problem.topology.unit is None:
        return False
    return sum(max(len(s.sources), len(s.targets)) for s in problem.shards) <= MOST_MOVES


@dataclass(frozen=True, slots=True)
class _Size:
    """What is timed: a problem on its network, for shards of one size."""

    problem: Problem
    network: Network
    shard_bytes: int
    least: Fraction
    pipelines: tuple[Schedule, ...] = ()


def _better(size: _Size, spending: Spending) -> Iterator[Timed]:
    """Yield schedules with ever more chunks, each better than those before it."""
    most = size.problem.goal.chunks
    best: Timed | None = None
    for chunks in CHUNKS:
        if most is not None and chunks > most:
            return
        found = _best_of(size, task_of(size.problem, chunks), chunks, spending)
        if found is None or (best is not None and found.seconds >= best.seconds * (1 - WORTH)):
            if found is not None and best is not None and found.seconds < best.seconds:
                yield found
            return
        best = found
        yield best


def _best_of(size: _Size, task: TimedTask, chunks: int, spending: Spending) -> Timed | None:
    """Time the trees that are laid at a few tariffs, those of every sweep; make the schedule of the best."""
    chunk_bytes = max(Fraction(1, chunks), Fraction(size.shard_bytes, chunks))
    machine = TimedMachine(size.network, chunk_bytes, task.reverse)
    best: tuple[float, list[Move], Sequence[Tree]] | None = None
    for trees in _trees(size, machine, task, chunks, spending):
        moves = moves_of(trees)
        end = Clock(machine, moves).run()
        if best is None or end < best[0]:
            best = (end, moves, trees)
    if best is None:
        return None
    end, moves, chosen = best
    schedule = schedule_of(size.problem, machine, chunks, task.items, chosen, moves)
    return Timed(size.shard_bytes, Fraction(end) / TICKS, schedule)


def _trees(
    size: _Size, machine: TimedMachine, task: TimedTask, chunks: int, spending: Spending
) -> Iterator[Sequence[Tree]]:
    for pipeline in size.pipelines:
        seeded = trees_of(pipeline, machine, task.items, chunks)
        if seeded is not None and spending.affords(_cost(machine, task, 0)):
            yield seeded
    for steepness in STEEPNESS:
        if not spending.affords(_cost(machine, task, SWEEPS)):
            return
        tariff = Tariff(max(1, int(size.least * size.shard_bytes * TICKS)), steepness)
        router = Router(machine, task.items, Loads(len(machine.capacity), tariff))
        for _ in range(SWEEPS):
            if not router.sweep():
                return
            yield list(router.trees)


def _cost(machine: TimedMachine, task: TimedTask, sweeps: int) -> float:
    """About how many ways so many sweeps look at (nought: trees are only timed); endless of too many moves."""
    moves = sum(len(set(item.ends) - set(item.starts)) for item in task.items)
    if moves > MOST_MOVES:
        return float("inf")
    return sweeps * len(task.items) * len(machine.ways) + max(1, sweeps) * MOVE_COST * moves


# -- reductions that several ranks need -------------------------------------------------------------------------------


def _composed(problem: Problem, shard_bytes: int, least: Fraction, spending: Spending) -> list[Timed]:
    """Reduce pieces each to one rank, then copy them: both timed for the size of the pieces, one after the other."""
    if not all(map(needs_meeting, problem.shards)) or not _sensible(problem):
        return []
    network = networks.of_problem(problem)
    roots = {s.id: meeting_ranks(network, s.sources, s.targets) for s in problem.shards}
    if not all(roots.values()):
        return []
    found: list[Timed] = []
    for pieces in _piece_counts(problem, roots):
        scatter, gather = piece_problems(problem, pieces, roots)
        piece = max(1, -(-shard_bytes // pieces))
        up, down = (_one(part, piece, pieces, least, spending) for part in (scatter, gather))
        if up is None or down is None:
            continue
        made = compose(problem, pieces, up.schedule, down.schedule)
        if problem.goal.chunks is None or made.chunks_per_shard <= problem.goal.chunks:
            schedule = replace(made, strategy=up.schedule.strategy)
            found.append(Timed(shard_bytes, up.seconds + down.seconds, schedule))
    return sorted(found, key=lambda t: -t.seconds)


def _piece_counts(problem: Problem, roots: Mapping[ShardId, tuple[Rank, ...]]) -> list[int]:
    """One root for all, and a piece for each root."""
    pieces = lcm(*(len(r) for r in roots.values()))
    counts = [1, pieces] if pieces <= PIECES else [1]
    most = problem.goal.chunks
    return [c for c in dict.fromkeys(counts) if most is None or c <= most]


def _one(part: Problem, piece_bytes: int, pieces: int, least: Fraction, spending: Spending) -> Timed | None:
    """The best schedule of a half, which should take half of the time of the whole, for a part of the work."""
    free = replace(part, goal=replace(part.goal, chunks=None))
    if hindrance(free):
        return None
    size = _Size(free, networks.of_problem(free), piece_bytes, least * pieces / 2)
    own = Spending(spending.left * SHARE_OF_HALF, spending.deadline)
    granted = own.left
    found = list(_better(size, own))
    spending.left -= granted - own.left
    spending.clock_cut |= own.clock_cut
    return found[-1] if found else None
