"""The units of quantities, exact. GB is 1e9 bytes, GiB is 2**30, Gbit/s is 1e9 bits a second."""

from __future__ import annotations

from fractions import Fraction

from acclc.diagnostics import suggest
from acclc.syntax.ast import Quantity

BANDWIDTH = "bandwidth"
LATENCY = "latency"
SIZE = "size"
TIME = "time"

BANDWIDTH_UNITS: dict[str, Fraction] = {
    "GB/s": Fraction(10**9),
    "MB/s": Fraction(10**6),
    "KB/s": Fraction(10**3),
    "B/s": Fraction(1),
    "TB/s": Fraction(10**12),
    "GiB/s": Fraction(2**30),
    "MiB/s": Fraction(2**20),
    "Gbit/s": Fraction(10**9, 8),
    "Mbit/s": Fraction(10**6, 8),
    "Tbit/s": Fraction(10**12, 8),
}
"""Unit -> bytes a second."""

LATENCY_UNITS: dict[str, Fraction] = {
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
}
"""Unit -> seconds."""

SIZE_UNITS: dict[str, Fraction] = {
    "B": Fraction(1),
    "KB": Fraction(10**3),
    "KiB": Fraction(2**10),
    "MB": Fraction(10**6),
    "MiB": Fraction(2**20),
    "GB": Fraction(10**9),
    "GiB": Fraction(2**30),
    "TB": Fraction(10**12),
    "TiB": Fraction(2**40),
}
"""Unit -> bytes."""

TIME_UNITS: dict[str, Fraction] = {
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "min": Fraction(60),
    "h": Fraction(3600),
}
"""Unit -> seconds."""

UNITS: dict[str, dict[str, Fraction]] = {
    BANDWIDTH: BANDWIDTH_UNITS,
    LATENCY: LATENCY_UNITS,
    SIZE: SIZE_UNITS,
    TIME: TIME_UNITS,
}
"""Kind of quantity -> its units. The first of each is the one that messages give as the example."""

# Other people's spellings, by the kind of quantity. Whoever writes a small b means bits.
_SPELLINGS: dict[str, dict[str, str]] = {
    BANDWIDTH: {
        **{f"{p}{s}": f"{p}B/s" for p in "KMGT" for s in ("Bps", "BPS", "B", "Byte/s", "Bytes/s")},
        **{f"{p}{s}": f"{p}iB/s" for p in "MG" for s in ("iBps", "iB", "ib/s", "ibps")},
        **{f"{p}{s}": f"{p}bit/s" for p in "MGT" for s in ("bps", "b", "b/s", "bit", "bits/s", "bitps")},
        **{f"{p}{s}": f"{p.upper()}B/s" for p in "kmgt" for s in ("b/s", "bps", "B/s", "Bps")},
        "bytes/s": "B/s",
        "Bps": "B/s",
        "G": "GB/s",
        "GT/s": "GB/s",
    },
    LATENCY: {
        **dict.fromkeys(("µs", "μs", "usec", "usecs", "micros", "microseconds", "u"), "us"),
        **dict.fromkeys(("nsec", "nanoseconds", "n"), "ns"),
        **dict.fromkeys(("msec", "milliseconds"), "ms"),
        **dict.fromkeys(("sec", "secs", "seconds"), "s"),
    },
    SIZE: {
        **{f"{p}": f"{p.upper()}iB" for p in "KMGTkmgt"},
        **{f"{p.lower()}{s}": f"{p}{s.upper()}" for p in "KMGT" for s in ("b", "B")},
        **{f"{p}{s}": f"{p}iB" for p in "KMGT" for s in ("ib", "IB", "i")},
        **dict.fromkeys(("b", "byte", "bytes", "Bytes"), "B"),
    },
    TIME: {
        **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
        **dict.fromkeys(("m", "mins", "minute", "minutes"), "min"),
        **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    },
}


def base_value(quantity: Quantity) -> Fraction:
    """Return a parsed quantity in its base unit: bytes a second, seconds, or bytes."""
    for table in UNITS.values():
        if quantity.unit in table:
            return quantity.value * table[quantity.unit]
    raise ValueError(f"{quantity.unit!r} is no unit")


def suggest_unit(unit: str, kind: str) -> str | None:
    """Return the unit of ``kind`` that ``unit`` is another spelling or a slip of, or None."""
    return _SPELLINGS[kind].get(unit) or suggest(unit, UNITS[kind])


def kind_of(unit: str) -> str | None:
    """Return what a unit measures (``s`` and ``ms``: a latency), or None if there is no such unit."""
    return next((kind for kind, table in UNITS.items() if unit in table), None)
