"""Exact search by CP-SAT: a point (C, S, R), or the frontier, with what was excluded and why."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import floor

from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Bound, Excluded, Result, Solution, Status
from acclc.ir.schedule import Schedule
from acclc.solve import limits, shared
from acclc.solve.cpsat import Answer
from acclc.solve.exclusions import with_exclusions
from acclc.solve.frontier import bound_of, non_dominated
from acclc.solve.items import needs_meeting
from acclc.solve.prober import Ledger, Point, Prober
from acclc.solve.protocol import Budget, Report
from acclc.solve.search import Findings, Interrupted, Range, detail, frontier

INTERRUPTED = "interrupted: the best so far is kept"
ALONE = 4
"""A point of which everything is given is the only question there is: by default it gets so many times the work."""


class Exact:
    """The solver of the registry."""

    name = "exact"

    def solve(self, problem: Problem, budget: Budget, report: Report) -> Result:
        """Return what CP-SAT finds and excludes within the budget."""
        bound = bound_of(problem)
        refusal = limits.refused_by_bound(problem, bound)
        if refusal is not None:
            return Result(Status.INFEASIBLE, (), bound, refusal)
        return search(problem, bound, [], budget, report)


def search(problem: Problem, bound: Bound, known: list[Schedule], budget: Budget, report: Report) -> Result:
    """Search as the goal asks; ``known`` schedules (within the limits) spare questions they answer."""
    ledger = Ledger(budget, report, budget.granted)
    prober = Prober(problem, bound, ledger)
    notes: list[str] = []
    if not prober.sensible:
        if not prober.network.edges:
            return Result(Status.UNKNOWN, (), bound)
        note = "rates have no common unit of a useful size: rounds say little here, no exact search"
        return Result(Status.UNKNOWN, (), bound, complete=False, notes=(note,))
    try:
        findings = _search(prober, known)
    except Interrupted as e:
        findings = e.findings
        notes.append(INTERRUPTED)
    except KeyboardInterrupt:
        findings = Findings(list(prober.schedules.values()), complete=False)
        notes.append(INTERRUPTED)
    if ledger.clock_cut:
        findings.complete = False
        notes.append("the deadline cut the search")
    elif not findings.complete and ledger.remaining <= 0:
        notes.append("the search used up its work units; a longer deadline grants more")
    if prober.network.truncated:
        notes.append("not every path through the switches was looked at: nothing is excluded by search")
    if problem.goal.hints.relays is not None:
        notes.append("the hint on relays narrows the search: nothing is excluded by search")
    found = non_dominated(limits.admitted(problem, findings.schedules))
    reproducible = not ledger.clock_cut and budget.workers == 1 and INTERRUPTED not in notes
    excluded, exclusions = with_exclusions(prober, findings.excluded)
    return Result(
        _status(problem, findings, found, known),
        tuple(Solution(s) for s in found),
        bound,
        excluded,
        findings.complete,
        reproducible,
        tuple(notes),
        exclusions,
    )


def _status(problem: Problem, findings: Findings, found: list[Schedule], known: list[Schedule]) -> Status:
    if found or known:
        return Status.OPTIMAL if findings.complete else Status.FEASIBLE if found else Status.UNKNOWN
    if findings.complete and findings.excluded and limits.hard(problem):
        return Status.INFEASIBLE
    return Status.UNKNOWN


def _search(prober: Prober, known: Iterable[Schedule]) -> Findings:
    goal = prober.problem.goal
    if any(map(needs_meeting, prober.problem.shards)):
        return shared.search(prober, known)
    least = prober.least_steps()
    if least is None:  # the hint on relays leaves no way; without a hint the bound would have said so
        return Findings(complete=False)
    if goal.kind is GoalKind.POINT and goal.rounds is not None:
        return _point(prober, goal.rounds)
    first = max(1, prober.bound.latency.steps, least)
    cap = limits.chunk_cap(prober.problem)
    chunks = tuple(range(1, cap + 1))
    if goal.kind is GoalKind.POINT:
        if goal.chunks is not None:
            chunks = (goal.chunks,)
        if goal.steps is not None:
            return frontier(prober, Range(chunks, goal.steps, goal.steps, goal.rounds), known)
    if goal.kind in (GoalKind.LATENCY, GoalKind.POINT):
        return _fewest_steps(prober, chunks, first, known)
    return frontier(prober, Range(chunks, first, goal.steps, goal.rounds), known)


def _fewest_steps(prober: Prober, chunks: tuple[int, ...], first: int, known: Iterable[Schedule]) -> Findings:
    """Only the first number of steps that has a schedule."""
    goal = prober.problem.goal
    last = goal.steps if goal.steps is not None else first + len(prober.network.ranks)
    total = Findings()
    for steps in range(first, last + 1):
        part = frontier(prober, Range(chunks, steps, steps, goal.rounds), known)
        total.schedules += part.schedules
        total.excluded += part.excluded
        total.complete &= part.complete
        if part.schedules or any(s.steps == steps for s in known):
            break
    return total


def _point(prober: Prober, rounds: int) -> Findings:
    """R is given: C and S are given or looked for, the fewest steps and then the most chunks first."""
    goal = prober.problem.goal
    findings = Findings()
    alone = goal.chunks is not None and goal.steps is not None
    if alone and prober.ledger.budget.by_default:
        prober.ledger.remaining *= ALONE
    first = max(1, prober.bound.latency.steps)
    most = limits.CHUNKS if prober.rate == 0 else floor(Fraction(rounds) / prober.rate)
    choices = (goal.chunks,) if goal.chunks is not None else tuple(range(max(1, most), 0, -1))
    for steps in (goal.steps,) if goal.steps is not None else range(first, rounds + 1):
        for chunks in choices:
            if prober.excluded_by(chunks, steps, rounds) is None:
                work = prober.ledger.remaining * (1.0 if alone else 0.3)
                answer = prober.probe(chunks, steps, rounds, work, alone=alone)
                if answer is Answer.FOUND:
                    findings.schedules.append(prober.schedules[chunks, steps, rounds])
                    _exclude(prober, findings, (chunks, steps, rounds - 1))
                    return findings
            findings.complete &= _exclude(prober, findings, (chunks, steps, rounds))
    return findings


def _exclude(prober: Prober, findings: Findings, point: Point) -> bool:
    """Put a point on the list of those that have no schedule; return whether that is known."""
    chunks, steps, rounds = point
    reason = prober.excluded_by(chunks, steps, rounds) if rounds else None
    if reason is not None:
        findings.excluded.append(Excluded(chunks, steps, rounds, reason, detail(prober, reason, chunks, steps)))
    return reason is not None
