"""The linear program's solution rounded: each shard's paths get whole units, and full links give some away.

A vertex has few shards that take more than one path, so little is lost; how much is computed exactly, and of some k
the least is taken at which little more would be gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import Rank
from acclc.solve.flow.machine import FlowMachine
from acclc.solve.flow.paths import Path, Way, shares
from acclc.solve.flow.program import Rates
from acclc.solve.packing.flows import Effort

UNITS = (1, 2, 4, 12, 24, 60, 120, 360, 840, 2520)
"""The k that are tried."""
GAIN = Fraction(1, 1000)
"""What a larger k must gain."""
MOVES = 1_000
"""Units that are moved from full links, at most."""


@dataclass
class _Choice:
    """The paths of one end of a representative, how much of them the program took, and units on each."""

    number: int
    end: Rank
    paths: list[Path]
    amounts: list[float]
    rows: list[list[tuple[int, int]]]
    """(row, times) of each path."""
    units: list[int]


def rounded(
    machine: FlowMachine, rates: Rates, effort: Effort, most: int
) -> tuple[int, tuple[tuple[Way, ...], ...]] | None:
    """Return k and each representative's ways, at most ``most`` a shard; None where floats were too far off."""
    choices = _choices(machine, rates, most)
    if choices is None:
        return None
    found: list[tuple[int, Fraction, tuple[tuple[Way, ...], ...]]] = []
    for k in UNITS:
        effort.spend(sum(len(c.paths) for c in choices))
        _round(machine, choices, k)
        time = _relieve(machine, choices, effort) / k
        found.append((k, time, _ways(machine, choices)))
    best = min(time for _, time, _ in found)
    return next((k, of) for k, time, of in found if time <= best * (1 + GAIN))


def _choices(machine: FlowMachine, rates: Rates, most: int) -> list[_Choice] | None:
    rows_of: dict[int, list[tuple[int, int]]] = {}
    for r, row in enumerate(machine.rows):
        for link, n in row.use:
            rows_of.setdefault(link, []).append((r, n))
    found: list[_Choice] = []
    for number, flow in enumerate(rates):
        taken = shares(machine, number, flow)
        for end, count in machine.representatives[number].demand.items():
            parts = sorted(taken.get(end, ()), key=lambda p: -p[1])[: most * count]
            if not parts:
                return None
            paths = [path for path, _ in parts]
            rows = [_total(rows_of, path) for path in paths]
            scale = count / sum(n for _, n in parts)
            found.append(_Choice(number, end, paths, [n * scale for _, n in parts], rows, []))
    return found


def _total(rows_of: dict[int, list[tuple[int, int]]], path: Path) -> list[tuple[int, int]]:
    """What a unit on a path puts on every row."""
    use: dict[int, int] = {}
    for link in path:
        for r, n in rows_of.get(link, ()):
            use[r] = use.get(r, 0) + n
    return sorted(use.items())


def _round(machine: FlowMachine, choices: Sequence[_Choice], k: int) -> None:
    """Give each path what it has in whole units, and what is left to those that lost the most."""
    for c in choices:
        total = k * machine.representatives[c.number].demand[c.end]
        c.units = [int(k * a) for a in c.amounts]
        by_loss = sorted(range(len(c.units)), key=lambda n: (c.units[n] - k * c.amounts[n], n))
        for turn in range(total - sum(c.units)):
            c.units[by_loss[turn % len(by_loss)]] += 1


def _relieve(machine: FlowMachine, choices: Sequence[_Choice], effort: Effort) -> Fraction:
    """Move units from the fullest row to other paths of theirs while that helps; return units over lanes."""
    capacity = [row.capacity for row in machine.rows]
    load = [0] * len(capacity)
    for c in choices:
        for rows, units in zip(c.rows, c.units, strict=True):
            for r, n in rows:
                load[r] += n * units
    divided = [c for c in choices if len(c.paths) > 1]
    worst = Fraction(0)
    for _ in range(MOVES):
        effort.spend(len(divided) + len(load))
        full = max(range(len(load)), key=lambda r: (load[r] / capacity[r], -r))
        worst = Fraction(load[full], capacity[full])
        move = _best_move(divided, load, capacity, full, worst)
        if move is None:
            break
        c, here, there = move
        c.units[here] -= 1
        c.units[there] += 1
        for r, n in c.rows[here]:
            load[r] -= n
        for r, n in c.rows[there]:
            load[r] += n
    return max(Fraction(n, c) for n, c in zip(load, capacity, strict=True))


def _best_move(
    divided: Sequence[_Choice], load: Sequence[int], capacity: Sequence[int], full: int, worst: Fraction
) -> tuple[_Choice, int, int] | None:
    """Return a choice and two of its paths: what moving a unit from a full row fills the least. None: none helps."""
    best: tuple[_Choice, int, int] | None = None
    least = float(worst)
    for c in divided:
        for here, units in enumerate(c.units):
            if not units or all(r != full for r, _ in c.rows[here]):
                continue
            gone = dict(c.rows[here])
            for there in range(len(c.units)):
                if there == here:
                    continue
                after = max((load[r] + n - gone.get(r, 0)) / capacity[r] for r, n in c.rows[there])
                if after < least:
                    best, least = (c, here, there), after
    return best


def _ways(machine: FlowMachine, choices: Sequence[_Choice]) -> tuple[tuple[Way, ...], ...]:
    found: list[list[Way]] = [[] for _ in machine.representatives]
    for c in choices:
        found[c.number] += [Way(c.end, n, path) for path, n in zip(c.paths, c.units, strict=True) if n]
    return tuple(map(tuple, found))
