"""What the portfolio asks for: one pipelined schedule of a mixed problem, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from acclc.bounds.compute import throughput_bound
from acclc.bounds.loads import value
from acclc.bounds.rationalize import best_rounding
from acclc.ir.problem import LinkId, Problem, ShardId
from acclc.ir.result import TreeDual
from acclc.ir.schedule import Schedule
from acclc.solve.limits import chunks_at_most
from acclc.solve.mixed.program import Mixture, solve
from acclc.solve.mixed.task import Bundle, bundles, hindrance, relays_of
from acclc.solve.mixed.units import Units, whole_units
from acclc.solve.mixed.ways import Way
from acclc.solve.packing.assemble import Piece, written
from acclc.solve.packing.check import seconds_per_byte
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.protocol import Deadline

STRATEGY = "mixed"
MAX_WAYS = 64
"""Most chunks a shard where the user sets no limit."""
CLOSE = Fraction(1, 10**6)
"""What a float may be off."""
VARIABLES = 2_000_000
"""Bundles times pairs of ranks: larger problems are not tried."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """A schedule, or why there is none. Times are in seconds a byte of shard.

    ``optimum``: what the program found to be enough where chunks are not limited.
    """

    schedule: Schedule | None
    reason: str = ""
    cut: bool = False
    """Whether the clock (or, without a schedule, the work) ended it: another machine may find another one."""
    k: int = 0
    exact_k: int = 0
    """The k at which the optimum was reached; nought where none was found."""
    optimum: Fraction = Fraction(0)
    time: Fraction = Fraction(0)
    settled: bool = False
    certificate: TreeDual | None = None
    """What proves more than the bound that was known; its worth is for ``bounds`` to say."""

    @property
    def kind(self) -> str:
        """What it is, for reports."""
        return "mixed trees"

    @property
    def of_all(self) -> str:
        """Of what no schedule is faster, in a sentence; empty where the search did not come to an end."""
        words = (
            "no tree that was looked for makes it faster, by a linear program over trees; trees to some of the ranks"
        )
        return f"{words} are looked for by a heuristic" if self.settled else ""

    @property
    def loss(self) -> Fraction:
        """How much more time than the optimum, where chunks are limited."""
        loss = self.time / self.optimum - 1 if self.optimum else Fraction(0)
        return loss if loss > CLOSE else Fraction(0)


def mixed_schedule(
    problem: Problem, deadline: Deadline | None = None, max_ways: int = MAX_WAYS, bound: Fraction | None = None
) -> Mixed:
    """Return the pipelined schedule of any problem, at most so many chunks a shard. Never raises for time.

    ``bound``: seconds a byte of shard, proven (None: it is computed here). A schedule that reaches it is the end.
    """
    reason = hindrance(problem)
    unit = problem.topology.unit
    if reason or unit is None:
        return Mixed(None, reason or "there are no links")
    most = chunks_at_most(problem, max_ways)
    parts = bundles(problem)
    if most < 1 or len(parts) * len(problem.topology.ranks) ** 2 > VARIABLES:
        return Mixed(None, "no chunk is allowed" if most < 1 else "it is too large for a program over trees")
    effort = Effort(deadline or Deadline())
    least = throughput_bound(problem).time_per_byte if bound is None else bound
    try:
        mixture = solve(problem, parts, relays_of(problem), float(least * unit), effort)
    except TimeUp:
        return Mixed(None, "the deadline passed, or the work was used up", cut=True)
    if mixture is None:
        return Mixed(None, "no way leads to some rank where only some ranks may pass on data")
    best: Mixed | None = None
    proof = _certificate(problem, mixture, least)
    least = max(least, Fraction(0) if proof is None else value(problem, proof))
    for units in whole_units(mixture, parts, effort, most):
        found = _made(problem, parts, mixture, units, least)
        assert found.schedule is not None, "it was made just now"
        if found.schedule.chunks_per_shard <= most and (best is None or found.time < best.time):
            best = found
        if best is not None and not best.loss:
            break
    if best is None:
        reason = f"it would take more than {most} chunks a shard"
        return Mixed(None, reason, cut=effort.clock_cut, certificate=proof)
    return replace(best, cut=effort.clock_cut, certificate=proof)


def _certificate(problem: Problem, mixture: Mixture, least: Fraction) -> TreeDual | None:
    """Return the prices that prove the most; None where that is no more than is known."""
    links, unit = len(problem.topology.links), problem.topology.unit
    assert unit is not None, "without links nothing moves"

    def dual(prices: tuple[Fraction, ...]) -> TreeDual:
        priced = tuple((LinkId(e), y) for e, y in enumerate(prices[:links]) if y > 0)
        return TreeDual(priced, tuple(max(Fraction(0), p) for p in prices[links:]))

    best: TreeDual | None = None
    for prices in mixture.prices:
        target = mixture.time / float(unit)
        found = best_rounding(prices, dual, lambda claim: value(problem, claim), target)
        if found is not None and found[0] > least:
            least, best = found
    return best


def _made(problem: Problem, parts: Sequence[Bundle], mixture: Mixture, units: Units, least: Fraction) -> Mixed:
    """Return the schedule of whole units, with the time that its transfers take."""
    assert problem.topology.unit is not None, "without links nothing moves"
    schedule = written(problem, _pieces(problem, parts, units), STRATEGY)
    time = seconds_per_byte(problem, schedule)
    found = Fraction(mixture.time).limit_denominator(10**9) / problem.topology.unit
    optimum = least if found <= least * (1 + CLOSE) else min(found, time)
    reached = units.k if time <= optimum * (1 + CLOSE) else 0
    return Mixed(schedule, "", False, units.k, reached, optimum, time, mixture.settled)


def _pieces(problem: Problem, parts: Sequence[Bundle], units: Units) -> list[list[Piece]]:
    """Deal the ways of every bundle out to its shards, k units to each."""
    of: dict[ShardId, list[Piece]] = {}
    for number, bundle in enumerate(parts):
        ways = [(n, column.way) for column, n in units.columns if column.bundle == number]
        of.update(zip(bundle.shards, _in_turn(ways, units.k), strict=True))
    return [of.get(shard.id, [Piece(Fraction(1), None, None)]) for shard in problem.shards]


def _in_turn(ways: Sequence[tuple[int, Way]], k: int) -> Iterator[list[Piece]]:
    part: list[Piece] = []
    room = k
    for units, way in ways:
        left = units
        while left:
            taken = min(left, room)
            part.append(Piece(Fraction(taken, k), way.gather, way.spread))
            left, room = left - taken, room - taken
            if not room:
                yield part
                part, room = [], k
