"""The table of nccl-tests: written to the letter from rows, and read back from logs, its own ones too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acclc_runtime.bench import BenchRow, Side, bus_factor

NAMES = {
    "f64": "double", "f32": "float", "f16": "half", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i8": "int8",
    "u8": "uint8", "u32": "uint32", "u64": "uint64", "f8e4m3": "fp8_e4m3", "f8e5m2": "fp8_e5m2",
}  # fmt: skip
"""Types, as nccl-tests names them; others keep their name here."""

_ROW = re.compile(
    r"\s*(\d+)\s+(\d+)\s+(\w+)\s+(\S+)\s+(-?\d+)"  # size, count, type, redop, root
    r"\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+))?.*"
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a log says of one size: busbw in GB/s out of place and in place; None: none, or a failed check."""

    title: str
    size: int
    out_of_place: float | None
    in_place: float | None


def header(title: str, extra: Sequence[str] = ()) -> list[str]:
    """Return the lines above the rows; ``extra`` are columns at the end, in microseconds."""
    more = "".join(f"  {name:>9}" for name in extra)
    units = "".join(f"  {'(us)':>9}" for _ in extra)
    return [
        f"# {title}",
        f"# {'':10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}  {'out-of-place':^31}  {'in-place':^31}".rstrip(),
        f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
        f"{_titles('time', 'algbw', 'busbw', '#wrong') * 2}{more}",
        f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
        f"{_titles('(us)', '(GB/s)', '(GB/s)', '') * 2}{units}".rstrip(),
    ]


def line(row: BenchRow, extra: Sequence[float | None] = ()) -> str:
    """Return a row; ``extra`` in seconds."""
    case = row.case
    op, type_name = case.op or "none", NAMES.get(case.dtype, case.dtype)
    more = "".join(f"  {'N/A' if t is None else _microseconds(t):>9}" for t in extra)
    return (
        f"{case.size:12}  {case.count:12}  {type_name:>8}  {op:>6}  {case.root:6}"
        f"{_side(row, row.out_of_place)}{_side(row, row.in_place)}{more}"
    )


def footer(rows: Iterable[BenchRow]) -> list[str]:
    """Return the lines below: wrong elements, the average of busbw, and the factors it is made with."""
    wrong, rates, factors = 0, [], {}
    for row in rows:
        factors[(row.kind, row.ranks)] = bus_factor(row.kind, row.ranks)
        for side in (row.out_of_place, row.in_place):
            if side is not None:
                wrong += side.wrong or 0
                rate = row.busbw(side)
                if rate is not None:
                    rates.append(rate / 1e9)
    average = sum(rates) / len(rates) if rates else 0.0
    said = ", ".join(f"{kind} {factor:g}" for (kind, _), factor in factors.items())
    return [
        f"# Out of bounds values : {wrong} {'OK' if wrong == 0 else 'FAILED'}",
        f"# Avg bus bandwidth    : {average:g}",
        f"# busbw = algbw times  : {said}",
    ]


def read_log(text: str, name: str) -> list[Measured]:
    """Read a log of nccl-tests or of ``acclc bench``, or what its ``-J`` writes.

    Raises:
        ValueError: no row is in it.
    """
    rows = list(_read_json(text) if text.lstrip().startswith("{") else _read_table(text))
    if not rows:
        raise ValueError(f"{name}: no row of nccl-tests' table in it, nor JSON of acclc bench")
    return rows


def compare(a: Sequence[Measured], b: Sequence[Measured]) -> list[str]:
    """Return a table of both by size, with how many times B's busbw is A's. Sizes that only one has are left out."""
    other = {(m.title, m.size): m for m in b}
    if not {m.title for m in a} & {m.title for m in b}:  # logs of nccl-tests do not name the collective
        other = {("", m.size): m for m in b}
    lines = [f"{'size':>12}  {'A out':>8} {'B out':>8} {'B/A':>6}  {'A in':>8} {'B in':>8} {'B/A':>6}  busbw in GB/s"]
    for m in a:
        found = other.get((m.title, m.size)) or other.get(("", m.size))
        if found is not None:
            apart, inside = _pair(m.out_of_place, found.out_of_place), _pair(m.in_place, found.in_place)
            lines.append(f"{m.size:12}  {apart}  {inside}  {m.title or found.title}".rstrip())
    return lines


def _titles(*names: str) -> str:
    return "".join(f"  {n:>{width}}" for n, width in zip(names, (7, 6, 6, 6), strict=True))


def _side(row: BenchRow, side: Side | None) -> str:
    if side is None:
        return f"  {'N/A':>7}  {'N/A':>6}  {'N/A':>6}  {'N/A':>6}"
    wrong = "N/A" if side.wrong is None else f"{side.wrong:g}"
    algbw, busbw = row.algbw(side), row.busbw(side)
    rates = "".join(f"  {'N/A' if r is None else format(r / 1e9, '.2f'):>6}" for r in (algbw, busbw))
    return f"  {_microseconds(side.seconds):>7}{rates}  {wrong:>6}"


def _microseconds(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:.0f}" if us >= 10_000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"


def _read_table(text: str) -> Iterator[Measured]:
    title = ""
    for each in text.splitlines():
        said = re.match(r"# acclc bench: (\S+)", each)
        if said:
            title = said[1]
        found = None if each.startswith("#") else _ROW.fullmatch(each)
        if found:
            yield Measured(title, int(found[1]), _rate(found[8], found[9]), _rate(found[12], found[13]))


def _read_json(text: str) -> Iterator[Measured]:
    try:
        rows: list[dict[str, Any]] = json.loads(text)["rows"]
        for row in rows:
            sides = [row["out_of_place"], row["in_place"]]
            rates = [None if s is None or s["busbw"] is None else s["busbw"] / 1e9 for s in sides]
            yield Measured(str(row["collective"]), int(row["size"]), *rates)
    except (ValueError, KeyError, TypeError):
        return


def _rate(busbw: str | None, wrong: str | None) -> float | None:
    """Read a rate; a row whose check failed has none."""
    try:
        failed = wrong not in (None, "N/A") and float(str(wrong)) != 0
        return None if busbw is None or failed else float(busbw)
    except ValueError:
        return None


def _pair(a: float | None, b: float | None) -> str:
    ratio = f"{b / a:6.2f}" if a and b else f"{'-':>6}"
    return " ".join([*(f"{'-' if x is None else format(x, '.2f'):>8}" for x in (a, b)), ratio])
