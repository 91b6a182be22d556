"""Whole units of a solution: k to a shard, by CP-SAT for small k, else rounded; what it costs is computed exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.solve import cpsat
from acclc.solve.mixed.program import Column, Mixture
from acclc.solve.mixed.task import Bundle
from acclc.solve.packing.flows import Effort

SMALL = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24)
"""The k at which CP-SAT is asked."""
LARGE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 60, 120, 360, 840)
"""The k at which the solution is rounded, beside the least that needs no rounding."""
MOST_K = 360
NEAR = 1e-6
GAIN = Fraction(1, 1000)
"""What a larger k must gain."""
CLOSE = Fraction(1, 10**6)
WORK_OF_A_K = 0.4
COLUMNS = 3_000
"""Of more CP-SAT is not asked."""


@dataclass(frozen=True, slots=True)
class Units:
    """Units on each column, of which ``k`` are a shard; ``rounds``: what the fullest row takes for a shard."""

    k: int
    rounds: Fraction
    columns: tuple[tuple[Column, int], ...]


def whole_units(mixture: Mixture, parts: Sequence[Bundle], effort: Effort, most: int) -> Iterator[Units]:
    """Yield whole units: at the solution's time for a small k; else rounded, the last with at most ``most`` to a shard.

    Where the clock ends the search for the former, the latter are there all the same: they take no time.
    """
    target = Fraction(mixture.time).limit_denominator(100_000)
    for k in SMALL:
        if effort.clock_cut or k > most or len(mixture.found) > COLUMNS:
            break
        found = _exact(mixture, parts, k, target, effort)
        if found is not None:
            yield found
            return
    rounded = [_rounded(mixture, parts, k) for k in sorted({*LARGE, _denominator(mixture)})]
    best = min(u.rounds for u in rounded)
    yield next(u for u in rounded if u.rounds <= best * (1 + GAIN))
    few = [u for u in rounded if u.k <= most]
    if few:  # however many ways those had, these have few enough
        yield min(few, key=lambda u: (u.rounds, u.k))


def _denominator(mixture: Mixture) -> int:
    """Return the least k of which all ways take whole units; 1 where none is small."""
    for k in range(1, MOST_K + 1):
        if all(abs(c.amount * k - round(c.amount * k)) < NEAR * k for c in mixture.taken):
            return k
    return 1


def _rounds(mixture: Mixture, k: int, columns: Sequence[tuple[Column, int]]) -> Fraction:
    load = [0] * len(mixture.lanes)
    for column, units in columns:
        for row, times in column.rows:
            load[row] += units * times
    return max(Fraction(n, k * c) for n, c in zip(load, mixture.lanes, strict=True))


def _exact(mixture: Mixture, parts: Sequence[Bundle], k: int, target: Fraction, effort: Effort) -> Units | None:
    """Ask CP-SAT for k units a shard within the solution's time, on ways that use few links."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    amounts = [model.new_int_var(0, k * len(parts[c.bundle].shards), "") for c in mixture.found]
    for number, bundle in enumerate(parts):
        own = [x for c, x in zip(mixture.found, amounts, strict=True) if c.bundle == number]
        model.add(sum(own) == k * len(bundle.shards))
    rows: list[list[object]] = [[] for _ in mixture.lanes]
    for column, x in zip(mixture.found, amounts, strict=True):
        for row, times in column.rows:
            rows[row].append(times * x)
    for terms, lanes in zip(rows, mixture.lanes, strict=True):
        if terms:
            model.add(sum(terms) <= int(k * lanes * target * (1 + CLOSE)))  # type: ignore[arg-type]
    cost = [sum(times for _, times in c.rows) for c in mixture.found]
    model.minimize(sum(n * x for n, x in zip(cost, amounts, strict=True)))
    outcome = cpsat.run(
        model, work=WORK_OF_A_K, deadline=effort.deadline, seed=0, workers=1, tactics=cpsat.Tactics.RELAXATIONS
    )
    effort.clock_cut |= outcome.clock_cut
    if outcome.answer is not cpsat.Answer.FOUND:
        return None
    value = outcome.solver.value
    columns = tuple((c, n) for c, x in zip(mixture.found, amounts, strict=True) if (n := int(value(x))))
    return Units(k, _rounds(mixture, k, columns), columns)


def _rounded(mixture: Mixture, parts: Sequence[Bundle], k: int) -> Units:
    """Give each way what it has in whole units, and what is left to those that lost the most."""
    columns: list[tuple[Column, int]] = []
    for number, bundle in enumerate(parts):
        own = [c for c in mixture.taken if c.bundle == number]
        scale = k * len(bundle.shards) / sum(c.amount for c in own)
        units = [int(c.amount * scale) for c in own]
        by_loss = sorted(range(len(own)), key=lambda n: (units[n] - own[n].amount * scale, n))
        for n in by_loss[: k * len(bundle.shards) - sum(units)]:
            units[n] += 1
        columns += [(c, n) for c, n in zip(own, units, strict=True) if n]
    return Units(k, _rounds(mixture, k, columns), tuple(columns))
