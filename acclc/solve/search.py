"""The frontier of one problem: the least R/C for each number of steps, from the fewest to the throughput bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from acclc.ir.result import Excluded
from acclc.ir.schedule import Schedule
from acclc.solve.cpsat import Answer
from acclc.solve.frontier import rounds_per_chunk
from acclc.solve.prober import Prober

SHARE = 0.2
"""The part of what is left that one question may take."""
LEAST_WORK = 0.05
UNKNOWN_LIMIT = 2
"""So many questions without an answer at one number of steps, and the search goes on with more steps."""
QUICK = 0.8
"""Work for the first try at a bound, which is made before a dearer bound is computed."""


@dataclass(frozen=True, slots=True)
class Range:
    """The points looked at: C in ``chunks`` (ascending), first <= S <= last, R <= rounds."""

    chunks: tuple[int, ...]
    first: int
    last: int | None = None
    rounds: int | None = None


@dataclass(slots=True)
class Findings:
    """What a frontier search found. ``complete``: each smaller R/C at each S is excluded, within the range."""

    schedules: list[Schedule] = field(default_factory=list)
    excluded: list[Excluded] = field(default_factory=list)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class _Best:
    """The best point with at most the steps of now."""

    rate: Fraction
    chunks: int


def frontier(prober: Prober, within: Range, known: Iterable[Schedule] = ()) -> Findings:
    """Search a range, the fewest steps first. ``known`` schedules spare questions that could not beat them.

    What it finds is only what it made: a known schedule that stays unbeaten is the caller's to keep.
    """
    findings = Findings()
    known = list(known)
    best: _Best | None = None
    steps = within.first
    try:
        while not _done(prober, within, steps, best):
            if prober.ledger.exhausted:
                findings.complete = False
                break
            best = _at_steps(prober, within, steps, best, known, findings)
            steps += 1
    except KeyboardInterrupt:
        findings.complete = False
        raise Interrupted(findings) from None
    return findings


class Interrupted(Exception):  # noqa: N818 (not an error: what was found so far is in it)
    """The user stopped a search; ``findings`` holds what it had."""

    def __init__(self, findings: Findings) -> None:
        super().__init__("interrupted")
        self.findings = findings


def _done(prober: Prober, within: Range, steps: int, best: _Best | None) -> bool:
    """Whether more steps can bring nothing."""
    if within.last is not None and steps > within.last:
        return True
    if within.rounds is not None and steps > within.rounds:
        return True
    if best is None:
        return within.last is None and steps > within.first + len(prober.network.ranks)
    least = min(Fraction(prober.least_rounds(c, steps, cheap=True), c) for c in within.chunks)
    return best.rate <= least


def _at_steps(
    prober: Prober, within: Range, steps: int, best: _Best | None, known: list[Schedule], findings: Findings
) -> _Best | None:
    """Find the least R/C at S = steps; add the schedule and what is excluded to the findings."""
    before = best
    for s in known:
        if s.steps <= steps and (best is None or rounds_per_chunk(s) < best.rate):
            best = _Best(rounds_per_chunk(s), s.chunks_per_shard)
    ideal = _ideal(prober, within, steps, cheap=True)
    if ideal is not None and _improves(ideal, best) and _ask(prober, ideal, steps, quick=True) is not Answer.FOUND:
        sharper = _ideal(prober, within, steps, cheap=False)
        if sharper is not None and sharper != ideal and _improves(sharper, best):
            _ask(prober, sharper, steps, quick=True)
    best = _best_found(prober, steps, best)
    if best is None:
        best = _climb(prober, within, steps)
    for chunks in within.chunks:
        best = _descend(prober, within, chunks, steps, best)
        unknown = sum(a is Answer.UNKNOWN and p[1] == steps for p, a in prober.answers.items())
        if unknown > UNKNOWN_LIMIT:  # the ideal point may be one of them
            break
    if best is not None:
        made = [prober.schedules[p] for p in prober.schedules if p[1] == steps]
        better = [s for s in made if (rounds_per_chunk(s), s.chunks_per_shard) == (best.rate, best.chunks)]
        if better and (before is None or best.rate < before.rate):
            findings.schedules.append(better[0])
    _account(prober, within, steps, best, findings)
    return best


def _ideal(prober: Prober, within: Range, steps: int, *, cheap: bool) -> tuple[int, int] | None:
    """The (C, R) of least R/C that bounds allow at these steps; of equals the one with fewest chunks."""
    points = [(c, prober.least_rounds(c, steps, cheap=cheap)) for c in within.chunks]
    points = [(c, r) for c, r in points if within.rounds is None or r <= within.rounds]
    return min(points, key=lambda p: (Fraction(p[1], p[0]), p[0]), default=None)


def _improves(point: tuple[int, int], best: _Best | None) -> bool:
    return best is None or (Fraction(point[1], point[0]), point[0]) < (best.rate, best.chunks)


def _ask(prober: Prober, point: tuple[int, int], steps: int, *, quick: bool = False) -> Answer:
    share = max(LEAST_WORK, prober.ledger.remaining * SHARE)
    return prober.probe(point[0], steps, point[1], min(QUICK, share) if quick else share, quick=quick)


def _best_found(prober: Prober, steps: int, best: _Best | None) -> _Best | None:
    """The best of ``best`` and of what was found at these steps."""
    for chunks, s, rounds in prober.schedules:
        if s == steps and _improves((chunks, rounds), best):
            best = _Best(Fraction(rounds, chunks), chunks)
    return best


def _climb(prober: Prober, within: Range, steps: int) -> _Best | None:
    """With nothing known: raise R, ever faster, until some schedule with the fewest chunks is found."""
    chunks = within.chunks[0]
    rounds, stride = prober.least_rounds(chunks, steps), 1
    while not prober.ledger.exhausted and stride < 1024:
        if within.rounds is not None:
            rounds = min(rounds, within.rounds)
        if _ask(prober, (chunks, rounds), steps) is Answer.FOUND:
            return _best_found(prober, steps, None)
        if within.rounds is not None and rounds >= within.rounds:
            return None
        rounds, stride = rounds + stride, stride * 2
    return None


def _descend(prober: Prober, within: Range, chunks: int, steps: int, best: _Best | None) -> _Best | None:
    """With C chunks, lower R below the best R/C until there is no schedule (or no answer)."""
    while best is not None and not prober.ledger.exhausted:
        # equally good with fewer chunks is better, too
        rounds = floor(best.rate * chunks) if chunks < best.chunks else ceil(best.rate * chunks) - 1
        if within.rounds is not None:
            rounds = min(rounds, within.rounds)
        if rounds < prober.least_rounds(chunks, steps):
            break
        if _ask(prober, (chunks, rounds), steps) is not Answer.FOUND:
            break
        best = _best_found(prober, steps, best)
    return best


def _account(prober: Prober, within: Range, steps: int, best: _Best | None, findings: Findings) -> None:
    """List the largest R below the best that is excluded for each C, and note where that was not shown."""
    for chunks in within.chunks:
        if best is not None:
            rounds = ceil(best.rate * chunks) - 1
            if within.rounds is not None:
                rounds = min(rounds, within.rounds)
        elif within.rounds is not None:
            rounds = within.rounds
        else:
            findings.complete = False
            return
        if rounds < 1:
            continue
        reason = prober.excluded_by(chunks, steps, rounds)
        if reason is None:
            findings.complete = False
            continue
        findings.excluded.append(Excluded(chunks, steps, rounds, reason, detail(prober, reason, chunks, steps)))


def detail(prober: Prober, reason: str, chunks: int, steps: int) -> str:
    """Say in words why something is excluded."""
    if reason == "infeasible":
        return f"CP-SAT, no symmetry imposed, seed {prober.ledger.budget.seed}"
    least = prober.least_rounds(chunks, steps)
    if least == steps:
        return "each step takes at least one round"
    if ceil(prober.rate * chunks) == least:
        return f"throughput bound: R/C >= {prober.rate}"
    if ceil(prober.rate_in(steps) * chunks) == least:
        return f"bound for {steps} steps: R/C >= {prober.rate_in(steps)} for every C"
    return f"what enters in the last step cannot be passed on within it: R >= {least} for C = {chunks}"
