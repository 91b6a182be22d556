"""What the driver calls: a fallback at once, then the exact search within its budget, and the best of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Bound, Excluded, Result, Solution, Status
from acclc.ir.schedule import Schedule
from acclc.solve import limits
from acclc.solve.frontier import Unreachable, bound_of, mark_optimal, non_dominated, rounds_per_chunk
from acclc.solve.greedy import schedules_of
from acclc.solve.pipelined import packings_of, tightened, with_packings
from acclc.solve.policy import step_search
from acclc.solve.protocol import Budget, Deadline, Progress, Report, silent
from acclc.solve.sized import Sized, schedules_for_sizes, with_sizes


def solve(
    problem: Problem,
    *,
    seed: int = 0,
    workers: int = 1,
    deadline: Deadline | None = None,
    work: float | None = None,
    report: Report = silent,
    known: Sequence[Schedule] = (),
) -> Result:
    """Return schedules for a problem: a frontier in order of steps, as its goal and limits ask.

    ``deadline``: by the wall clock; without one the search is limited by counted work only, so that the result can
    be reproduced (``work`` units; None: the default, or what the deadline grants). ``known``: sound schedules of the
    problem that are there already; the search starts from them. Raises ``acclc.bounds.UnreachableError`` where data
    cannot reach a rank that needs it.
    """
    budget = Budget(deadline or Deadline(), work, seed=seed, workers=workers)
    return Portfolio(tuple(known)).solve(problem, budget, report)


class Portfolio:
    """Greedy, then exact; the registry's ``portfolio``. ``known`` schedules take part, and are kept among equals."""

    name = "portfolio"

    def __init__(self, known: tuple[Schedule, ...] = ()) -> None:
        self._stepped = [s for s in known if not s.pipelined]
        self._pipelined = [s for s in known if s.pipelined]

    def solve(self, problem: Problem, budget: Budget, report: Report) -> Result:
        """Return the best of both solvers. An interrupt ends the search and keeps what there is."""
        bound = bound_of(problem)
        refusal = limits.refused_by_bound(problem, bound)
        if refusal is not None:
            return Result(Status.INFEASIBLE, (), bound, refusal)
        started = time.monotonic()
        fallback = limits.admitted(problem, [*self._stepped, *_fallback(problem, report)])
        if fallback:
            best = min(map(rounds_per_chunk, fallback))
            report(Progress(f"greedy: {len(fallback)} schedules", best, bound.rounds_per_chunk))
        from acclc.solve.exact import INTERRUPTED, search

        try:
            hinted = _least_under_hint(problem, bound)
            packings = packings_of(problem, bound, fallback, budget, report, self._pipelined, hinted)
            pipelines = [p.schedule for p in packings if p.schedule is not None]
            sized = schedules_for_sizes(problem, bound, pipelines, budget, report)
        except KeyboardInterrupt:
            packings, sized, hinted = [], Sized(), bound.throughput.time_per_byte
            exact = Result(Status.UNKNOWN, (), bound, (), False, False, (INTERRUPTED,))
        else:
            bound = tightened(problem, bound, packings)
            steps = step_search(problem, bound, packings, sized.schedules, max(hinted, bound.throughput.time_per_byte))
            if steps.wanted:
                exact = search(problem, bound, fallback, steps.limited(budget), report)
            else:
                exact = Result(Status.UNKNOWN, (), bound, (), False, notes=(steps.note,))
        result = _merged(problem, bound, exact, fallback)
        result = with_sizes(problem, result, sized)
        result = with_packings(problem, result, packings)
        notes = (*result.notes, *_unused_abilities(problem, bound), *_of_hint(problem, bound, hinted))
        result = replace(result, notes=notes)
        seconds = time.monotonic() - started
        return replace(result, solutions=tuple(replace(s, solve_seconds=seconds) for s in result.solutions))


def _unused_abilities(problem: Problem, bound: Bound) -> tuple[str, ...]:
    """Where the bound reckons with switches that multicast or reduce, say what it is without: no kernel uses them."""
    from acclc.solve.packing.through import without_abilities

    plain, unit = without_abilities(problem), problem.topology.unit
    if plain == problem or unit is None:
        return ()
    least = bound_of(plain).throughput.time_per_byte
    if least == bound.throughput.time_per_byte:
        return ()
    rounds = least * unit
    return (f"multicast and reduction in switches are not used yet; without them the bound is {rounds} rounds a chunk",)


def _least_under_hint(problem: Problem, bound: Bound) -> Fraction:
    """Seconds a byte of shard that no schedule undercuts which keeps to a hint on relays, if there is one."""
    from acclc.bounds.relays import bound_of_hint

    try:
        least = bound_of_hint(problem)
    except ValueError:  # the hint leaves no way: there will be no schedule to compare with
        least = None
    return max(bound.throughput.time_per_byte, least or Fraction(0))


def _of_hint(problem: Problem, bound: Bound, least: Fraction) -> tuple[str, ...]:
    """Say what a hint on relays costs; the proof beside the schedules is of the whole machine."""
    unit = problem.topology.unit
    if unit is None or least <= bound.throughput.time_per_byte:
        return ()
    return (f"with the hint on relays no schedule takes fewer than {least * unit} rounds a chunk",)


def _fallback(problem: Problem, report: Report) -> list[Schedule]:
    """Greedy schedules; none where a hint on relays leaves no way (the bound would have said so without it)."""
    try:
        return schedules_of(problem)
    except Unreachable as e:
        report(Progress(f"greedy: {e}"))
        return []


def _merged(problem: Problem, bound: Bound, exact: Result, fallback: list[Schedule]) -> Result:
    """Join what both found; the status says what the best of it is."""
    own = [s.schedule for s in exact.solutions]
    if exact.status is Status.INFEASIBLE:
        return exact
    chosen = _by_goal(problem, non_dominated([*own, *fallback]))
    if not chosen:
        return replace(exact, status=Status.UNKNOWN, solutions=())
    met = rounds_per_chunk(chosen[-1]) == bound.rounds_per_chunk and chosen[0].steps == bound.latency.steps
    if problem.goal.kind is GoalKind.BANDWIDTH and rounds_per_chunk(chosen[-1]) == bound.rounds_per_chunk:
        exact = replace(exact, notes=())  # why a search ended says nothing where there is no better
        met = True
    if exact.complete or chosen[-1].total_rounds == 0 or (met and len(chosen) == 1):
        status, complete = Status.OPTIMAL, True
    else:
        status, complete = Status.FEASIBLE if any(s in own for s in chosen) else Status.FALLBACK, False
    solutions = tuple(Solution(_with_proofs(s, bound, exact.excluded)) for s in chosen)
    return replace(exact, status=status, solutions=solutions, complete=complete)


def _with_proofs(schedule: Schedule, bound: Bound, excluded: tuple[Excluded, ...]) -> Schedule:
    """Add what is proven of a schedule: its steps, its rounds at its (C, S), its throughput."""
    below = (schedule.chunks_per_shard, schedule.steps, schedule.total_rounds - 1)
    marked = mark_optimal(schedule, bound)
    if any((e.chunks, e.steps, e.rounds) == below for e in excluded):
        marked = replace(marked, optimal=(*marked.optimal, "rounds"))
    return marked


def _by_goal(problem: Problem, frontier: list[Schedule]) -> list[Schedule]:
    """Of a frontier, what the goal asks for."""
    match problem.goal.kind:
        case GoalKind.LATENCY:
            return frontier[:1]
        case GoalKind.BANDWIDTH:
            return frontier[-1:]
        case GoalKind.POINT:
            return frontier[:1]
        case _:
            return frontier
