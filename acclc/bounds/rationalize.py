"""From a solver's float duals to exact ones: whatever comes out is checked exactly, so rounding is safe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

DENOMINATORS = (1, 2, 3, 4, 6, 12, 60, 840, 5040, 27720, 10**6, 10**9)
T = TypeVar("T")


def roundings(values: Sequence[float]) -> Iterator[tuple[Fraction, ...]]:
    """Yield the values, scaled so that the largest is 1, as fractions of growing denominators."""
    largest = max((abs(v) for v in values), default=0.0)
    if largest == 0:
        return
    scaled = [v / largest for v in values]
    cache: dict[tuple[float, int], Fraction] = {}
    for denominator in DENOMINATORS:
        rounded = []
        for v in scaled:
            key = (v, denominator)
            if key not in cache:
                cache[key] = Fraction(0) if abs(v) < 1e-9 else Fraction(v).limit_denominator(denominator)
            rounded.append(cache[key])
        if any(rounded):
            yield tuple(rounded)


def best_rounding(
    values: Sequence[float],
    build: Callable[[tuple[Fraction, ...]], T],
    exact: Callable[[T], Fraction],
    target: float,
) -> tuple[Fraction, T] | None:
    """Return the largest exact value over all roundings with what it was built into; None if none is positive.

    ``target`` is the solver's own value: once it is met to nine digits, finer denominators are not tried.
    """
    best: tuple[Fraction, T] | None = None
    for rounded in roundings(values):
        certificate = build(rounded)
        proven = exact(certificate)
        if proven > (best[0] if best is not None else 0):
            best = (proven, certificate)
        if best is not None and float(best[0]) >= target * (1 - 1e-9):
            break
    return best
