"""From weights and a count to element ranges: the only place that does this, for every backend and engine.

A boundary is a fraction of the count, rounded down to a whole number of elements, and, inside the vector, to
a multiple of ``ALIGN`` elements, so that chunks start on 16 bytes where the buffer does. Boundaries grow with
their fraction, so chunks tile [0, count) without gap or overlap, in order; small counts leave some empty.
"""

from __future__ import annotations

from fractions import Fraction

ALIGN = 16
"""Elements. 16 of the smallest type are the 16 bytes of one vector access."""


def boundary(count: int, fraction: Fraction) -> int:
    """Return the element at which ``fraction`` of a count-long vector lies."""
    if fraction >= 1:
        return count
    return count * fraction.numerator // fraction.denominator // ALIGN * ALIGN


def extent(count: int, begin: Fraction, end: Fraction) -> tuple[int, int]:
    """Return the element range [first, last) of the part [begin, end) of a count-long vector."""
    return boundary(count, begin), boundary(count, end)


def piece(first: int, last: int, index: int, pieces: int) -> tuple[int, int]:
    """Return piece ``index`` of ``pieces`` of the element range [first, last): tiles it, in order, aligned inside."""
    length = last - first

    def at(k: int) -> int:
        return last if k >= pieces else first + length * k // pieces // ALIGN * ALIGN

    return at(index), at(index + 1)


def longest_piece(length: int, pieces: int) -> int:
    """Return an upper bound of the length of any piece of a range of ``length`` elements."""
    return min(length, length // pieces + ALIGN) if pieces > 1 else length
