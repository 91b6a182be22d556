"""The linear program: so many trees a bundle, within the least time; trees come in as the prices of links ask.

Legend: x_w shards of a bundle that take way w, T rounds a shard, n_b shards of bundle b, c_r lanes of a link or budget.
minimise T, sum over w of b x_w = n_b, sum over w load_r(w) x_w <= T c_r. The rows' duals price the links; a way that
costs less than its bundle's dual may make T less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acclc.ir.problem import LinkId, Problem, Rank
from acclc.solve.mixed.task import Bundle
from acclc.solve.mixed.ways import Prices, Way, cheapest
from acclc.solve.packing.flows import Effort, TimeUp

TURNS = 400
"""Times that ways are looked for, at most."""
FIRST = 6
"""Times that ways are looked for before the program is solved: each time the full links cost more."""
STEADY = 0.7
"""How much of the prices before stays in those that ways are looked for by: they do not jump about then."""
CLOSE = 1e-7
PER_PAIR = 20
"""Of ``Effort``: to price all hops, or to look for a tree, for each pair of ranks."""
GLOP_WORK = 20.0
"""GLOP's deterministic seconds for one solution."""


@dataclass(frozen=True, slots=True)
class Column:
    """A way of a bundle, what it puts on each row, and (of a solution) how many shards take it."""

    bundle: int
    way: Way
    rows: tuple[tuple[int, int], ...]
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Mixture:
    """A solution: rounds a shard, the ways taken, and all that were found; ``lanes`` of each row.

    ``settled``: no way that was looked for would make it less. ``prices``: of links, then of budgets, that may prove
    the time; several tries.
    """

    time: float
    taken: tuple[Column, ...]
    found: tuple[Column, ...]
    lanes: tuple[int, ...]
    settled: bool
    prices: tuple[tuple[float, ...], ...] = ()


def solve(
    problem: Problem, parts: Sequence[Bundle], relays: frozenset[Rank], bound: float, effort: Effort
) -> Mixture | None:
    """Return the least time found; None where some bundle has no way. ``bound``: rounds a shard that are proven.

    Where the work or the deadline ends it, what there is is returned; TimeUp is raised only without any.
    """
    master = _Master(problem, parts, relays, effort)
    if not master.start():
        return None
    settled = False
    try:
        for _ in range(TURNS):
            if not master.solve() or master.time <= bound * (1 + CLOSE):
                break
            if not master.extend():
                settled = True
                break
    except TimeUp:
        if not master.solved:
            raise
    if not master.solved:
        raise TimeUp
    return master.mixture(settled)


class _Master:
    def __init__(self, problem: Problem, parts: Sequence[Bundle], relays: frozenset[Rank], effort: Effort) -> None:
        from ortools.linear_solver import pywraplp

        topology = problem.topology
        unit = topology.unit
        assert unit is not None, "without links nothing moves"
        self._topology, self._parts, self._relays, self._effort = topology, parts, relays, effort
        self._lanes = [int(e.capacity / unit) for e in topology.links]
        self._lanes += [int(b.capacity / unit) for b in topology.budgets]
        self._rows_of: dict[LinkId, list[int]] = {e.id: [int(e.id)] for e in topology.links}
        for n, budget in enumerate(topology.budgets, start=len(topology.links)):
            for link in budget.links:
                self._rows_of[link].append(n)
        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._optimal = pywraplp.Solver.OPTIMAL
        infinite = self._solver.infinity()
        self._t = self._solver.NumVar(0, infinite, "")
        self._solver.Objective().SetCoefficient(self._t, 1)
        self._solver.Objective().SetMinimization()
        self._rows = [self._solver.Constraint(-infinite, 0) for _ in self._lanes]
        for row, lanes in zip(self._rows, self._lanes, strict=True):
            row.SetCoefficient(self._t, -lanes)
        self._demands = [self._solver.Constraint(len(b.shards), len(b.shards)) for b in parts]
        self._columns: dict[tuple[int, Way], tuple[Column, Any]] = {}
        self._center: list[float] = []
        self._amounts: dict[tuple[int, Way], float] = {}
        """Of the last solution: ways that came in after it have none."""
        self.time = 0.0

    @property
    def solved(self) -> bool:
        """Whether there is a solution."""
        return bool(self._amounts)

    def start(self) -> bool:
        """Give every bundle some ways; whether each has one."""
        load = [0.0] * len(self._lanes)
        for turn in range(FIRST):
            worst = max(n / c for n, c in zip(load, self._lanes, strict=True)) or 1.0
            weights = [(1.0 + 4.0 * n / c / worst) / c for n, c in zip(load, self._lanes, strict=True)]
            prices = self._prices(weights)
            for number, bundle in enumerate(self._parts):
                found = self._cheapest(prices, bundle)
                if found is None:
                    return False
                column = self._add(number, found[0])
                for row, times in column.rows:
                    load[row] += len(bundle.shards) * times / (turn + 1)
        return True

    def solve(self) -> bool:
        """Minimise over the ways that there are; False where the solver gave up. Raises TimeUp."""
        left = self._effort.deadline.remaining()
        self._effort.spend(len(self._columns) + len(self._rows))
        text = f"max_deterministic_time: {GLOP_WORK}"
        if left is not None:
            text += f" max_time_in_seconds: {max(left, 0.01)}"
        self._solver.SetSolverSpecificParametersAsString(text)
        if self._solver.Solve() != self._optimal:
            self._effort.clock_cut |= self._effort.deadline.expired
            return False
        self.time = float(self._t.solution_value())
        self._amounts = {key: float(x.solution_value()) for key, (_, x) in self._columns.items()}
        return True

    def extend(self) -> bool:
        """Add ways that the prices ask for: by steady prices, else by the last ones; whether there are any."""
        duals = self._duals()
        worth = [float(row.dual_value()) for row in self._demands]
        if self._center:
            self._center = [STEADY * a + (1 - STEADY) * b for a, b in zip(self._center, duals, strict=True)]
        else:
            self._center = duals
        return self._priced(self._center, duals, worth) or self._priced(duals, duals, worth)

    def _priced(self, steady: list[float], duals: list[float], worth: list[float]) -> bool:
        added = False
        # a little for every link, so that of ways that cost nothing the short one is taken
        prices = self._prices([y + 1e-6 / c for y, c in zip(steady, self._lanes, strict=True)])
        for number, bundle in enumerate(self._parts):
            found = self._cheapest(prices, bundle)
            if found is None or (number, found[0]) in self._columns:
                continue
            cost = sum(duals[row] * n for row, n in self._uses(found[0]))
            if cost < worth[number] - CLOSE:
                self._add(number, found[0])
                added = True
        return added

    def _cheapest(self, prices: Prices, bundle: Bundle) -> tuple[Way, float] | None:
        """Look for a way. Raises TimeUp."""
        ranks = len(self._topology.ranks)
        trees = 2 * ranks if bundle.reduced and len(bundle.ends) > 1 else 1
        self._effort.spend(trees * ranks * (PER_PAIR * ranks if bundle.reduced or len(bundle.ends) > 1 else 1))
        return cheapest(prices, bundle)

    def _prices(self, weights: Sequence[float]) -> Prices:
        self._effort.spend(PER_PAIR * len(self._topology.ranks) ** 2)
        of_links = [sum(weights[r] for r in self._rows_of[e.id]) for e in self._topology.links]
        return Prices(self._topology, self._relays, of_links)

    def _uses(self, way: Way) -> tuple[tuple[int, int], ...]:
        use: dict[int, int] = {}
        for link, times in way.load().items():
            for row in self._rows_of[link]:
                use[row] = use.get(row, 0) + times
        return tuple(sorted(use.items()))

    def _add(self, number: int, way: Way) -> Column:
        known = self._columns.get((number, way))
        if known is not None:
            return known[0]
        column = Column(number, way, self._uses(way))
        amount = self._solver.NumVar(0, self._solver.infinity(), "")
        self._demands[number].SetCoefficient(amount, 1)
        for row, times in column.rows:
            self._rows[row].SetCoefficient(amount, times)
        self._columns[number, way] = column, amount
        return column

    def mixture(self, settled: bool) -> Mixture:
        """Return the last solution."""
        found = tuple(
            Column(c.bundle, c.way, c.rows, self._amounts.get(key, 0.0)) for key, (c, _) in self._columns.items()
        )
        taken = tuple(c for c in found if c.amount > CLOSE)
        links = len(self._topology.links)
        even = tuple([1.0] * links + [0.0] * (len(self._lanes) - links))
        tries = (even, tuple(self._duals()), tuple(self._center)) if settled else ()
        return Mixture(self.time, taken, found, tuple(self._lanes), settled, tuple(p for p in tries if p))

    def _duals(self) -> list[float]:
        return [max(0.0, -float(row.dual_value())) for row in self._rows]
