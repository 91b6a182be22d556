"""Where steps do not reach the throughput bound, a pipelined packing of trees, or a flow, is put beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from acclc.bounds.families import family
from acclc.bounds.loads import value
from acclc.bounds.words import certificate_words
from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Bound, Result, Solution, Status, ThroughputBound
from acclc.ir.schedule import Schedule
from acclc.solve.frontier import rounds_per_chunk
from acclc.solve.protocol import Budget, Deadline, Progress, Report

if TYPE_CHECKING:
    from acclc.solve.flow.variant import Flowed
    from acclc.solve.mixed.variant import Mixed
    from acclc.solve.packing.variant import Packed
    from acclc.solve.timed.laid import Laid

    Pipeline = Packed | Flowed | Mixed | Laid

WANTED = (GoalKind.BANDWIDTH, GoalKind.PARETO, GoalKind.SIZES)
"""Goals that a better throughput serves."""

SHARE = 0.5
"""The part of a deadline's time that packing may take."""


def packings_of(
    problem: Problem,
    bound: Bound,
    known: list[Schedule],
    budget: Budget,
    report: Report,
    pipelined: Sequence[Schedule] = (),
    least: Fraction | None = None,
) -> list[Pipeline]:
    """Return packings that may serve the goal, the best last; none where a known schedule is at the bound already.

    They are looked for before the exact search, which would take all the time there is: packing takes little of it.
    Beside the best one there is one with a single tree a shard, where it is shallower: it is sooner filled.
    Of what goes from one place to one place there is a flow in their stead; of what is of several kinds, mixed trees;
    and where neither has an answer, trees that are laid one by one. ``pipelined`` schedules that are there already come
    first; where one is at the bound, none is looked for. ``least``: seconds a byte of shard, proven of all schedules
    that keep to the hints.
    """
    unit = problem.topology.unit
    least = bound.throughput.time_per_byte if least is None else least
    if problem.goal.kind not in WANTED or not least or unit is None:
        return []
    if any(rounds_per_chunk(s) == least * unit for s in known):
        return []
    there = _there(problem, pipelined)
    if there and there[-1].time == least:
        return there
    return [*there, *_looked_for(problem, bound, least, budget, report)]


def _there(problem: Problem, pipelined: Sequence[Schedule]) -> list[Pipeline]:
    """Schedules that are there already, the best last."""
    from acclc.solve.packing.check import seconds_per_byte
    from acclc.solve.packing.variant import Packed

    found: list[Pipeline] = [Packed(s, time=seconds_per_byte(problem, s)) for s in pipelined]
    return sorted(found, key=lambda p: -p.time)


def _looked_for(problem: Problem, bound: Bound, least: Fraction, budget: Budget, report: Report) -> list[Pipeline]:
    from acclc.solve.flow import flow_schedule, point_to_point
    from acclc.solve.mixed import mixed_schedule
    from acclc.solve.packing import packed_schedule

    unit = problem.topology.unit
    assert unit is not None
    left = budget.deadline.remaining()
    deadline = Deadline.after(None if left is None else left * SHARE)
    if family(problem) is None and point_to_point(problem):
        flow = flow_schedule(problem, deadline, bound=least)
        if flow.schedule is not None:
            report(Progress(f"flow: {flow.schedule.id}", flow.time * unit, bound.rounds_per_chunk))
        return [flow]
    if family(problem) is None:
        mixed = mixed_schedule(problem, deadline, bound=least)
        if mixed.schedule is None:
            return _laid(problem, deadline, least, bound, report) or [mixed]
        report(Progress(f"mixed trees: {mixed.schedule.id}", mixed.time * unit, bound.rounds_per_chunk))
        return [mixed]
    best = packed_schedule(problem, deadline, bound=least)
    if best.schedule is None:
        return (not best.cut and _laid(problem, deadline, least, bound, report)) or [best]
    report(Progress(f"packing: {best.schedule.id}", best.time * unit, bound.rounds_per_chunk))
    if problem.goal.kind is GoalKind.BANDWIDTH:
        return [best]
    simple = packed_schedule(problem, deadline, max_trees=1, bound=least)
    shallower = simple.schedule is not None and simple.schedule.steps < best.schedule.steps
    return [simple, best] if shallower else [best]


def _laid(problem: Problem, deadline: Deadline, least: Fraction, bound: Bound, report: Report) -> list[Pipeline]:
    """Trees one by one, at prices of the load that the others make; none where there is no answer."""
    from acclc.solve.timed import laid_schedule

    laid, unit = laid_schedule(problem, deadline, least), problem.topology.unit
    if laid.schedule is None or unit is None:
        return []
    report(Progress(f"trees: {laid.schedule.id}", laid.time * unit, bound.rounds_per_chunk))
    return [laid]


def tightened(problem: Problem, bound: Bound, packings: Sequence[Pipeline]) -> Bound:
    """Return the bound, or a greater one that a flow brought the proof of: by symmetries it solves larger programs."""
    for packed in packings:
        if packed.certificate is not None:
            time = value(problem, packed.certificate)
            if time > bound.throughput.time_per_byte and bound.rounds_per_chunk is not None:
                rounds = bound.rounds_per_chunk * time / bound.throughput.time_per_byte
                words = certificate_words(problem, packed.certificate)
                bound = replace(bound, throughput=ThroughputBound(time, packed.certificate, words))
                bound = replace(bound, rounds_per_chunk=rounds)
    return bound


def with_packings(problem: Problem, result: Result, packings: Sequence[Pipeline]) -> Result:
    """Add pipelined schedules to the end of a result where they are strictly better in throughput.

    For the goal ``bandwidth`` one takes the place of the others. The stepped ones keep their proofs.
    """
    unit = problem.topology.unit
    if not packings or unit is None or result.status is Status.INFEASIBLE:
        return result
    best = min((rounds_per_chunk(s.schedule) / unit for s in result.solutions), default=None)
    if best == result.bound.throughput.time_per_byte:
        return result
    for packed in packings:
        if packed.schedule is None:
            notes = (*result.notes, f"no {packed.kind}: {packed.reason}")
            return replace(result, notes=notes, reproducible=result.reproducible and not packed.cut)
        if best is None or packed.time < best:
            result, best = _added(problem, result, packed.schedule, packed.time), packed.time
        result = replace(result, reproducible=result.reproducible and not packed.cut)
    return replace(result, notes=(*result.notes, *_notes(packings[-1], result.bound)))


def _notes(packed: Pipeline, bound: Bound) -> tuple[str, ...]:
    """What k the optimum would have needed, and what it costs that another was taken; or why the bound is not met."""
    if packed.loss:
        exact = f"k = {packed.exact_k} units a shard" if packed.exact_k else "more units a shard than were looked at"
        return (
            f"{packed.kind.split()[0]}: the optimum takes {exact}; so that no shard has too many chunks, "
            f"k = {packed.k} was taken, which costs {float(100 * packed.loss):.3g} %",
        )
    if packed.of_all and packed.time > bound.throughput.time_per_byte:
        return (f"{packed.kind.split()[0]}: {packed.of_all}",)
    return ()


def _added(problem: Problem, result: Result, schedule: Schedule, time: Fraction) -> Result:
    """Put a schedule that is better than all others at the end of a result; a pipelined one that is as deep goes."""
    met = time == result.bound.throughput.time_per_byte
    added = Solution(replace(schedule, optimal=("throughput",) if met else ()))
    if problem.goal.kind is GoalKind.BANDWIDTH:
        status = Status.OPTIMAL if met else Status.FEASIBLE
        notes = () if met else result.notes  # why a search ended says nothing where there is no better
        return replace(result, status=status, solutions=(added,), complete=met or result.complete, notes=notes)
    status = Status.FEASIBLE if result.status in (Status.UNKNOWN, Status.FALLBACK) else result.status
    others = (s for s in result.solutions if not s.schedule.pipelined or s.schedule.steps < schedule.steps)
    return replace(result, status=status, solutions=(*others, added))
