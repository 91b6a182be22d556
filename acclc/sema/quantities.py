"""Quantities as exact numbers, within sensible bounds. The units themselves are checked by the parser."""

from __future__ import annotations

from fractions import Fraction

from acclc.sema.limits import MAX_BYTES, MAX_RATE, MAX_SECONDS
from acclc.sema.report import Report
from acclc.syntax import ast
from acclc.syntax.units import base_value


def rate(quantity: ast.Quantity, report: Report) -> Fraction | None:
    """Return bytes per second, more than 0; None after an error."""
    value = base_value(quantity)
    if 0 < value <= MAX_RATE:
        return value
    what = "is not more than 0" if value <= 0 else "is more than 10^18 B/s"
    report.error(
        "bad-rate",
        f"the bandwidth {written(quantity)} {what}",
        quantity.span,
        help="a rate is written `25 GB/s` or `200 Gbit/s`; a link that carries nothing is left out",
    )
    return None


def duration(quantity: ast.Quantity, report: Report, *, may_be_zero: bool = True) -> Fraction | None:
    """Return seconds, 0 or more; None after an error."""
    value = base_value(quantity)
    if 0 <= value <= MAX_SECONDS and (value > 0 or may_be_zero):
        return value
    what = "is longer than 10^6 s" if value > MAX_SECONDS else "is not more than 0"
    report.error(
        "bad-time",
        f"the time {written(quantity)} {what}",
        quantity.span,
        help="a time is written `0.7 us` or `30 s`",
    )
    return None


def size(quantity: ast.Quantity, report: Report) -> int | None:
    """Return whole bytes, 1 or more; None after an error."""
    value = base_value(quantity)
    if value.denominator == 1 and 1 <= value <= MAX_BYTES:
        return int(value)
    what = "is no whole number of bytes" if value.denominator != 1 else "is not between 1 B and 2^60 B"
    report.error(
        "bad-size",
        f"the size {written(quantity)} {what}",
        quantity.span,
        help="a size is written `1 KiB` or `64 MB`",
    )
    return None


def written(quantity: ast.Quantity) -> str:
    """Return the quantity for a message."""
    value = quantity.value
    number = str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"
    return f"{number} {quantity.unit}"
