"""What the portfolio asks for: schedules that are good at given sizes, latency weighed against load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from acclc.ir.problem import Problem, Rank, ShardId
from acclc.ir.schedule import Schedule
from acclc.solve import network as networks
from acclc.solve.items import meeting_ranks, needs_meeting
from acclc.solve.network import Network
from acclc.solve.protocol import Deadline
from acclc.solve.shared import PIECES, compose, piece_problems
from acclc.solve.timed.assemble import schedule_of
from acclc.solve.timed.clock import Clock, Move, moves_of
from acclc.solve.timed.machine import TICKS, TimedMachine
from acclc.solve.timed.routes import Router, Tariff, Tree
from acclc.solve.timed.task import TimedTask, hindrance, task_of

CHUNKS = (1, 2, 4, 8, 16)
STEEPNESS = (4.0, 64.0)
SWEEPS = 3
MOVE_COST = 40
"""Ways looked at that take as long as timing a move."""
WORK_PER_UNIT = 1_000_000
"""Ways that may be looked at for each unit of the search's work."""
WORTH = Fraction(1, 200)
"""More chunks must gain so much, or they are not tried further."""
MOST_MOVES = 40_000


@dataclass(slots=True)
class Spending:
    """What the search may still cost, in ways looked at; and the moment at which it must end."""

    left: float
    deadline: Deadline
    clock_cut: bool = False

    def affords(self, cost: float) -> bool:
        """Whether a run of so much may begin; if so, it is paid."""
        self.clock_cut |= self.deadline.expired
        if self.clock_cut or cost > self.left:
            return False
        self.left -= cost
        return True


@dataclass(frozen=True, slots=True)
class Timed:
    """A schedule for shards of ``shard_bytes``; ``seconds``: its time, to be judged by the simulator."""

    shard_bytes: int
    seconds: Fraction
    schedule: Schedule


def timed_schedules(problem: Problem, shard_bytes: int, least: Fraction, spending: Spending) -> list[Timed]:
    """Return schedules for shards of one size, the best last; none where the problem is of another sort.

    ``least``: seconds a byte of shard that no schedule undercuts: the load that is aimed at.
    """
    if problem.reduces and any(map(needs_meeting, problem.shards)):
        return _composed(problem, shard_bytes, least, spending)
    if hindrance(problem) or not _sensible(problem):
        return []
    return list(_better(problem, networks.of_problem(problem), shard_bytes, least, spending))


def _sensible(problem: Problem) -> bool:
    """Whether there is somebody to send to."""
    return len(problem.topology.ranks) > 1 and problem.topology.unit is not None


def _better(
    problem: Problem, network: Network, shard_bytes: int, least: Fraction, spending: Spending
) -> Iterator[Timed]:
    """Yield schedules with ever more chunks, each better than those before it."""
    most = problem.goal.chunks
    best: Timed | None = None
    for chunks in CHUNKS:
        if most is not None and chunks > most:
            return
        task = task_of(problem, chunks)
        found = _best_of(problem, network, task, chunks, shard_bytes, least, spending)
        if found is None or (best is not None and found.seconds >= best.seconds * (1 - WORTH)):
            if found is not None and best is not None and found.seconds < best.seconds:
                yield found
            return
        best = found
        yield best


def _best_of(
    problem: Problem,
    network: Network,
    task: TimedTask,
    chunks: int,
    shard_bytes: int,
    least: Fraction,
    spending: Spending,
) -> Timed | None:
    """Lay trees at a few tariffs, time those of every sweep, and make the schedule of the best."""
    machine = TimedMachine(network, max(Fraction(1, chunks), Fraction(shard_bytes, chunks)), task.reverse)
    best: tuple[float, list[Move], list[Tree]] | None = None
    for steepness in STEEPNESS:
        if not spending.affords(_cost(machine, task)):
            break
        tariff = Tariff(max(1, int(least * shard_bytes * TICKS)), steepness, SWEEPS)
        for trees in Router(machine, task.items, tariff).routed():
            moves = moves_of(trees)
            end = Clock(machine, moves).run()
            if best is None or end < best[0]:
                best = (end, moves, trees)
    if best is None:
        return None
    end, moves, trees = best
    return Timed(shard_bytes, Fraction(end) / TICKS, schedule_of(problem, machine, chunks, task.items, trees, moves))


def _cost(machine: TimedMachine, task: TimedTask) -> float:
    """About how many ways a run looks at; endless where it has too many moves."""
    moves = sum(len(set(item.ends) - set(item.starts)) for item in task.items)
    if moves > MOST_MOVES:
        return float("inf")
    return SWEEPS * (len(task.items) * len(machine.ways) + MOVE_COST * moves)


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
        half = Spending(spending.left / 4, spending.deadline)
        piece = max(1, -(-shard_bytes // pieces))
        parts = [_one(part, piece, pieces, least, half) for part in (scatter, gather)]
        spending.left -= spending.left / 4 - half.left
        spending.clock_cut |= half.clock_cut
        up, down = parts
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
    """The best schedule of a half, which should take half of the time of the whole."""
    free = replace(part, goal=replace(part.goal, chunks=None))
    if hindrance(free):
        return None
    found = list(_better(free, networks.of_problem(free), piece_bytes, least * pieces / 2, spending))
    return found[-1] if found else None
