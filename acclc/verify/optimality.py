"""Is what a file calls optimal so? Schedules' recomputed figures against what the certificates prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Excluded, Status
from acclc.ir.schedule import Schedule
from acclc.verify.exclusions import Certain
from acclc.verify.findings import Collector, Report
from acclc.verify.schedule import ScheduleFacts

CLAIMS = ("steps", "rounds", "throughput")


@dataclass(frozen=True, slots=True)
class OptimalityFacts:
    """The least time of all schedules and the proven least, in seconds a byte of shard; the same of steps."""

    achieved: Fraction
    proven: Fraction
    steps: int
    least_steps: int

    @property
    def gap(self) -> Fraction | None:
        """How much longer than the bound: nought is optimal in throughput. None where nothing must move."""
        return None if self.proven == 0 else self.achieved / self.proven - 1


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a file says of all its schedules together."""

    status: Status
    complete: bool
    excluded: tuple[Excluded, ...]


Checked = Sequence[tuple[Schedule, ScheduleFacts]]
"""Schedules that verify, with the figures recomputed from their transfers."""


def check_optimality(
    problem: Problem, known: Certain, time_per_byte: Fraction, schedules: Checked, claimed: Claimed
) -> Report[OptimalityFacts]:
    """Compare claims with what is recomputed; ``time_per_byte`` is what the throughput certificate proves."""
    found = Collector()
    for schedule, facts in schedules:
        if facts.time_per_shard_byte < time_per_byte:
            message = f"takes {facts.time_per_shard_byte} s a byte, less than the {time_per_byte} that are proven"
            found.error("optimality.bound", schedule.id, message)
        _check_claims(known, time_per_byte, schedule, facts, claimed.excluded, found)
        for e in claimed.excluded:
            if not schedule.pipelined and _has(facts, e):
                words = f"chunks {e.chunks}, steps {e.steps}, rounds {e.rounds}"
                found.error("optimality.excluded", schedule.id, f"is as good as {words}, which is said not to exist")
    _check_status(problem, known, time_per_byte, schedules, claimed, found)
    achieved = min(facts.time_per_shard_byte for _, facts in schedules)
    steps = min(facts.steps for _, facts in schedules)
    return found.report(OptimalityFacts(achieved, time_per_byte, steps, known.steps))


def _check_claims(
    known: Certain,
    time_per_byte: Fraction,
    schedule: Schedule,
    facts: ScheduleFacts,
    excluded: tuple[Excluded, ...],
    found: Collector,
) -> None:
    """Each word of ``Schedule.optimal`` must follow from what is proven."""
    for word in schedule.optimal:
        where = f"{schedule.id}: {word}"
        if word not in CLAIMS:
            found.error("optimality.claim", where, f"is none of {', '.join(CLAIMS)}")
        elif word == "throughput" and facts.time_per_shard_byte != time_per_byte:
            message = f"takes {facts.time_per_shard_byte} s a byte of shard; the proven least is {time_per_byte}"
            found.error("optimality.claim", where, message)
        elif word == "steps" and facts.steps != known.steps:
            found.error("optimality.claim", where, f"takes {facts.steps}; the proven least is {known.steps}")
        elif word == "rounds" and not _fewest_rounds(known, schedule, facts, excluded):
            found.error("optimality.claim", where, f"nothing excludes {facts.rounds - 1} rounds")


def _fewest_rounds(known: Certain, schedule: Schedule, facts: ScheduleFacts, excluded: tuple[Excluded, ...]) -> bool:
    """Whether one round less is excluded at the same chunks and steps."""
    return not schedule.pipelined and _closed(known, facts.chunks, facts.steps, facts.rounds - 1, excluded)


def _closed(known: Certain, chunks: int, steps: int, rounds: int, excluded: tuple[Excluded, ...]) -> bool:
    if known.excludes(chunks, steps, rounds):
        return True
    return any((e.chunks, e.steps) == (chunks, steps) and e.rounds >= rounds for e in excluded)


def _has(facts: ScheduleFacts, e: Excluded) -> bool:
    """Whether a schedule makes one at an excluded point: repeated, some chunks left out, some steps left idle."""
    if facts.steps > e.steps or facts.rounds == 0:
        return False
    times = (e.rounds - (e.steps - facts.steps)) // facts.rounds
    return times >= 1 and times * facts.chunks >= e.chunks


def _check_status(
    problem: Problem, known: Certain, time_per_byte: Fraction, schedules: Checked, claimed: Claimed, found: Collector
) -> None:
    """``optimal`` must not be contradicted: by a gap where nothing else was proven, or by a better point left open."""
    status, goal = claimed.status, problem.goal
    if status in (Status.INFEASIBLE, Status.UNKNOWN):
        found.error("optimality.status", problem.name, f"is said to be {status.value}, but there is a schedule")
    if status is not Status.OPTIMAL:
        return
    if not claimed.complete:
        found.error("optimality.status", problem.name, "is said to be optimal, and that better schedules may exist")
    stepped = [(s, f) for s, f in schedules if not s.pipelined and f.rounds > 0]
    if not stepped and any(f.time_per_shard_byte != time_per_byte for _, f in schedules):
        found.error("optimality.status", problem.name, "is said to be optimal; its pipeline is not at the bound")
    if goal.kind is GoalKind.POINT:
        return
    cap = goal.chunks if goal.chunks is not None else max((e.chunks for e in claimed.excluded), default=0)
    for schedule, facts in stepped:
        if facts.chunks <= cap and not _closed(known, facts.chunks, facts.steps, facts.rounds - 1, claimed.excluded):
            message = f"is said to be optimal; nothing excludes {facts.rounds - 1} rounds for {schedule.id}"
            found.error("optimality.status", problem.name, message)
    if goal.kind in (GoalKind.PARETO, GoalKind.BANDWIDTH) and goal.steps is None and stepped:
        schedule, facts = max(stepped, key=lambda pair: pair[1].steps)
        fewer = facts.rounds - 1
        if facts.chunks <= cap and fewer > facts.steps and not known.excludes(facts.chunks, fewer, fewer):
            message = f"is said to be optimal; nothing excludes fewer rounds than {schedule.id} in more steps"
            found.error("optimality.status", problem.name, message)
