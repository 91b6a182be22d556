"""What proves the points that a search calls excluded by a bound: as few certificates as do, to be kept in the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from acclc.ir.result import Excluded, Exclusion, LastStepSet, StepDual
from acclc.solve.prober import Prober

ENTRIES = 2000
"""Numbers of a dual at most; one of more is not kept, and what rests on it is called ``step_bound``."""


def with_exclusions(prober: Prober, excluded: Iterable[Excluded]) -> tuple[tuple[Excluded, ...], tuple[Exclusion, ...]]:
    """Return the excluded points, and what beside the throughput bound proves those of reason ``bound``."""
    kept: list[Excluded] = []
    proofs: dict[Exclusion, None] = {}
    for point in excluded:
        plain = point.rounds < point.steps or point.rounds < prober.rate * point.chunks
        if plain or point.reason != "bound" or point.steps < prober.bound.latency.steps:
            kept.append(point)
        elif point.rounds < prober.last_step.rounds(point.chunks):
            proofs[LastStepSet(prober.last_step.strongest(point.chunks))] = None
            kept.append(point)
        else:
            dual = _dual(prober, point)
            if dual is not None:
                proofs[dual] = None
            kept.append(point if dual is not None else replace(point, reason="step_bound"))
    return tuple(kept), tuple(proofs)


def _dual(prober: Prober, point: Excluded) -> StepDual | None:
    """The dual for these steps, if it proves the point and is small enough to be kept."""
    assert point.rounds < prober.rate_in(point.steps) * Fraction(point.chunks), "else no bound excludes it"
    dual = prober.step_duals[point.steps]
    size = len(dual.lengths) + len(dual.potentials) + len(dual.budget_prices)
    return dual if size <= ENTRIES else None
