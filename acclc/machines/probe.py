"""Measured topologies: the latency and rate of every edge, alone and with others, and what limits several together.

An engine moves bytes between ranks and tells seconds; nothing here knows how. An edge alone is measured by messages of
several sizes. The time of a size is the lower quartile of its samples, since what disturbs a message only makes it
later; the rate is the slope of Theil and Sen (the median of the slopes between any two sizes), the latency what is left
of the smallest. Then all edges out of a rank, all edges into it, and the edges of every cyclic shift are measured
together: where they carry less than they would by what is known so far, they share a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from statistics import median
from typing import Protocol

from acclc.importers.emit import rate_text
from acclc.importers.model import Budget, Draft, Imported, LinkClass
from acclc.ir.problem import NodeKind
from acclc.source import Source
from acclc_runtime.errors import AcclcRuntimeError

SIZES = (8, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
"""Bytes of the messages that an edge is measured with."""
REPEATS = 12
MOST_RANKS = 64
"""With more there are too many edges to measure each."""
ALIKE = 1.25
"""Rates within this factor are of one class."""
SHARED = 0.85
"""Edges that carry less than this part of what they could, together, share a budget."""
FAR = 5.0
"""An edge is named as an outlier this many deviations (1.48 MAD) from the median and a third off it."""
UNSTEADY = 0.5
"""An edge is named as unsteady where half of its samples spread over more than this part of their median."""

Edge = tuple[int, int]


class ProbeError(AcclcRuntimeError):
    """A measurement cannot be made here; the message says why and what to do."""


class Engine(Protocol):
    """Moves bytes between ranks."""

    @property
    def name(self) -> str:
        """What it is, in words."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What each rank is."""

    @property
    def kind(self) -> str:
        """The kind of the links, as the language names it; may be empty."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What its figures hold beside the links."""

    def alone(self, edge: Edge, nbytes: int, repeats: int) -> Sequence[float]:
        """Seconds of single messages of one edge, nothing else moving."""

    def together(self, edges: Sequence[Edge], nbytes: int, repeats: int) -> Sequence[float]:
        """Seconds a message of each edge, in order, while all of them move."""


@dataclass(frozen=True, slots=True)
class Line:
    """An edge alone: seconds = ``alpha`` + bytes / ``rate``. ``spread``: of its longest messages, as a part of them."""

    edge: Edge
    alpha: float
    rate: float
    spread: float


@dataclass(frozen=True, slots=True)
class Together:
    """Edges that moved at the same time, with the bytes/s that they carried in all, and each of them."""

    what: str
    edges: tuple[Edge, ...]
    total: float
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured. ``budgets`` are those of ``groups`` that carry less than their edges and other budgets."""

    lines: tuple[Line, ...]
    groups: tuple[Together, ...]
    budgets: tuple[Together, ...]


def fit(edge: Edge, samples: Sequence[tuple[int, Sequence[float]]]) -> Line:
    """Return the line through the lower quartiles of samples by size (bytes, seconds), by Theil and Sen."""
    points = [(size, sorted(times)[len(times) // 4]) for size, times in samples]
    slopes = [(t - s) / (b - a) for (a, s), (b, t) in combinations(points, 2) if b != a]
    slope = median(slopes)
    if slope <= 0:  # nothing but noise: the largest message alone says what can be said
        size, seconds = points[-1]
        slope = seconds / size
    alpha = max(0.0, points[0][1] - slope * points[0][0])
    ordered = sorted(samples[-1][1])
    quarter = len(ordered) // 4
    spread = (ordered[-1 - quarter] - ordered[quarter]) / median(ordered)
    return Line(edge, alpha, 1 / slope, spread)


def measure(engine: Engine, sizes: Sequence[int] = SIZES, repeats: int = REPEATS) -> Measured:
    """Measure every edge alone, then edges together."""
    count = len(engine.labels)
    edges = [(a, b) for a in range(count) for b in range(count) if a != b]
    lines = tuple(fit(e, [(n, engine.alone(e, n, repeats)) for n in sizes]) for e in edges)
    groups = []
    for what, chosen in _groups(count):
        seconds = engine.together(chosen, sizes[-1], repeats)
        rates = tuple(sizes[-1] / s for s in seconds)
        groups.append(Together(what, chosen, sum(rates), rates))
    return Measured(lines, tuple(groups), _budgets({x.edge: x.rate for x in lines}, groups))


def _groups(count: int) -> Iterator[tuple[str, tuple[Edge, ...]]]:
    """Out of each rank, into each rank, and every cyclic shift, in which each rank sends and receives once."""
    others = [[b for b in range(count) if b != a] for a in range(count)]
    if count > 2:
        yield from ((f"out of {a}", tuple((a, b) for b in others[a])) for a in range(count))
        yield from ((f"into {a}", tuple((b, a) for b in others[a])) for a in range(count))
    yield from ((f"shift {k}", tuple((a, (a + k) % count) for a in range(count))) for k in range(1, count))


def _budgets(rates: dict[Edge, float], groups: Sequence[Together]) -> tuple[Together, ...]:
    """Return what limits edges together: of ranks each, and of the shifts the one that says most, over all edges."""
    found = [g for g in groups if not g.what.startswith("shift") and g.total < SHARED * sum(rates[e] for e in g.edges)]
    shifts = [g for g in groups if g.what.startswith("shift")]
    worst = min(shifts, key=lambda g: g.total / sum(_possible(e, rates, found) for e in g.edges), default=None)
    if worst is not None and worst.total < SHARED * sum(_possible(e, rates, found) for e in worst.edges):
        found.append(Together("all ranks", tuple(sorted(rates)), max(g.total for g in shifts), ()))
    return tuple(found)


def _possible(edge: Edge, rates: dict[Edge, float], budgets: Sequence[Together]) -> float:
    """What an edge can carry where it is the only one of its budgets that moves."""
    return min([rates[edge], *(b.total for b in budgets if edge in b.edges)])


def outliers(measured: Measured) -> list[str]:
    """Edges that are far from the others, or whose samples are far from each other, in words."""
    words = []
    rates = [x.rate for x in measured.lines]
    middle = median(rates)
    deviation = 1.4826 * median(abs(r - middle) for r in rates)
    for x in measured.lines:
        name = f"g[{x.edge[0]}] -> g[{x.edge[1]}]"
        off = abs(x.rate - middle)
        if len(rates) > 2 and off > FAR * deviation and off > middle / 3:
            words.append(f"{name} carries {_gigabytes(x.rate)}; half of the edges carry {_gigabytes(middle)} or more")
        if x.spread > UNSTEADY:
            words.append(f"{name} is unsteady: the middle half of its samples spreads over {x.spread:.0%}")
    return words


def machine(engine: Engine, measured: Measured) -> Imported:
    """Return what was measured as a topology: a link for each edge, classes of alike rates, a budget where one is."""
    draft = Draft(Source("measured", ""))
    for label in engine.labels:
        draft.node(NodeKind.GPU, "g", label)
    draft.read(f"latency and rate of {len(measured.lines)} edges, each alone, by {engine.name}")
    for note in engine.notes:
        draft.assume(note)
    for words in outliers(measured):
        draft.read(f"outlier: {words}")
    names = _classes(draft, engine, measured.lines)
    lines = {x.edge: x for x in measured.lines}
    for a, b in sorted(lines, key=lambda e: (names[e], e)):
        if names[a, b] == names.get((b, a)):
            if a < b:
                draft.link(a, b, 1, names[a, b], f"{_words(lines[a, b])}; back {_words(lines[b, a])}")
        else:
            draft.link(a, b, 1, names[a, b], _words(lines[a, b]), both=False)
    for group in measured.budgets:
        alone = sum(lines[e].rate for e in group.edges)
        origin = f"measured: together {_gigabytes(group.total)}, the sum of each alone is {_gigabytes(alone)}"
        draft.budgets.append(Budget(group.what, rounded(group.total), group.edges, origin))
    if not measured.budgets:
        draft.conclude("edges that move at the same time carry what each carries alone: no budgets")
    return draft.finish(f"measured by {engine.name}")


def _classes(draft: Draft, engine: Engine, lines: Sequence[Line]) -> dict[Edge, str]:
    """Gather edges of alike rates, from the fastest on; a class has the median rate and latency of its edges."""
    groups: list[list[Line]] = []
    for x in sorted(lines, key=lambda x: (-x.rate, x.edge)):
        if groups and groups[-1][0].rate <= ALIKE * x.rate:
            groups[-1].append(x)
        else:
            groups.append([x])
    names: dict[Edge, str] = {}
    for number, group in enumerate(groups):
        name = "edge" if len(groups) == 1 else f"edge{number}"
        low, high = min(x.rate for x in group), max(x.rate for x in group)
        latency = Fraction(max(1, round(median(x.alpha for x in group) * 1e9)), 10**9)
        span = _gigabytes(low) if len(group) == 1 else f"{_gigabytes(low)} to {_gigabytes(high)}"
        origin = f"measured: 1 edge of {span}" if len(group) == 1 else f"the median of {len(group)} edges of {span}"
        rate = rounded(median(x.rate for x in group))
        draft.link_class(LinkClass(name, rate, latency, None, engine.kind, origin))
        names |= {x.edge: name for x in group}
    return names


def rounded(rate: float) -> Fraction:
    """Return bytes/s with two digits: more would be noise, and rates with a common unit make shorter schedules."""
    digits = len(str(int(rate))) - 2
    return Fraction(max(1, round(rate / 10**digits)) * Fraction(10) ** digits)


def _words(line: Line) -> str:
    return f"{line.alpha * 1e6:.3g} us, {_gigabytes(line.rate)}"


def _gigabytes(rate: float) -> str:
    return rate_text(Fraction(f"{rate:.3g}"))
