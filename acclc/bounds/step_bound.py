"""A lower bound on R/C for schedules of exactly S steps, whatever C: it completes the proof of a frontier.

Divide a schedule's transfers by C: x[i,e,s] shards of kind i over link e in step s, rho[s] = rounds[s]/C. In the graph
unrolled over steps (a rank keeps what it has; switches pass on within the step) the amounts x must leave room
for a flow of every shard to every rank that needs it. Minimising the sum of rho is a linear program; its dual
is rounded to fractions and evaluated exactly: with lengths z[i,t,e,s] >= 0 for shard i's way to t, prices beta of
budgets and potentials pi of passing nodes,
R/C >= sum_{i,t} dist_z(i,t) / max_s (sum_e c_e y[e,s] + sum_b cap_b beta[b,s]),
y[e,s] = max(0, max_i (sum_t z[i,t,e,s] + pi[i,dst,s] - pi[i,src,s]) - sum_{b on e} beta[b,s]).
Reduced shards of one target are copied shards on the reversed graph, in reversed time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from acclc.bounds.loads import passing_nodes
from acclc.bounds.rationalize import best_rounding
from acclc.ir.problem import LinkId, NodeId, NodeKind, Problem, Rank, ShardId
from acclc.ir.result import StepDual

VARIABLE_LIMIT = 30_000
"""Larger programs are tried only on demand (``size_limit``): DGX-1 in two steps has 5,120 variables, an MI250 box
in five 92,160, which takes a quarter of a minute."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Equal shards: who holds them, who needs them, how many, and the first of them."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    shards: int
    first: ShardId


def step_certificate(
    problem: Problem, steps: int, size_limit: int = VARIABLE_LIMIT
) -> tuple[Fraction, StepDual] | None:
    """Return a lower bound on R/C of any schedule of at most ``steps`` steps, for every C, with what proves it.

    None where the method says nothing: shards reduced into several ranks, reduced and copied ones mixed, no
    common unit of rate, too large a program, or no schedule of so few steps at all.
    """
    topology = problem.topology
    reduced = {s.reduced for s in problem.shards if set(s.targets) - set(s.sources) or s.reduced}
    if topology.unit is None or len(reduced) != 1 or steps < 1:
        return None
    reverse = reduced == {True}
    if reverse and any(len(s.targets) > 1 for s in problem.shards):
        return None
    program = _Program(problem, steps, reverse)
    found = program.bound() if 0 < program.size <= size_limit else None
    return None if found is None else (found[0], program.certificate(found[1], reverse))


def _kinds(problem: Problem, reverse: bool) -> tuple[_Kind, ...]:
    tally: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    first: dict[tuple[tuple[int, ...], tuple[int, ...]], ShardId] = {}
    for s in problem.shards:
        sources, targets = (s.targets, s.sources) if reverse else (s.sources, s.targets)
        needed = tuple(sorted(set(targets) - set(sources)))
        if needed:
            key = (tuple(sorted(set(sources))), needed)
            tally[key] += 1
            first.setdefault(key, s.id)
    return tuple(_Kind(*key, n, first[key]) for key, n in sorted(tally.items()))


class _Program:
    """The unrolled graph as a linear program, and the exact value of any dual of it."""

    def __init__(self, problem: Problem, steps: int, reverse: bool) -> None:
        topology = problem.topology
        unit = topology.unit
        assert unit is not None
        self.steps = steps
        self.nodes = len(topology.nodes)
        self.links = [(e.dst, e.src) if reverse else (e.src, e.dst) for e in topology.links]
        self.lanes = [int(e.capacity / unit) for e in topology.links]
        self.budgets = [(b.links, int(b.capacity / unit)) for b in topology.budgets]
        self.gpu = [n.kind is NodeKind.GPU for n in topology.nodes]
        self.balanced = passing_nodes(problem)
        self.kinds = _kinds(problem, reverse)
        ways = sum(1 + len(k.targets) for k in self.kinds)
        self.size = ways * steps * (len(self.links) + self.nodes)

    def bound(self) -> tuple[Fraction, _Duals] | None:
        """Solve in floats, round the dual, and return the best exact value with its dual."""
        from ortools.linear_solver import pywraplp

        solver = pywraplp.Solver.CreateSolver("GLOP")
        duals = self._state(solver)
        if solver.Solve() != pywraplp.Solver.OPTIMAL:
            return None
        rows, shape = _flatten(duals)
        values = [sign * row.dual_value() for sign, row in rows]
        return best_rounding(values, shape.restore, self._exact, solver.Objective().Value())

    def certificate(self, dual: _Duals, reverse: bool) -> StepDual:
        """The dual as it is kept: without zeros, and read forward where the program was of the reversed graph."""

        def at(step: int) -> int:
            return self.steps - 1 - step if reverse else step

        lengths = sorted((self.kinds[i].first, t, e, at(s), z) for (i, t, e, s), z in dual.lengths.items() if z > 0)
        potentials = sorted((self.kinds[i].first, v, at(s), pi) for (i, v, s), pi in dual.potentials.items() if pi)
        prices = sorted((b, at(s), beta) for (b, s), beta in dual.prices.items() if beta > 0)
        return StepDual(
            self.steps,
            tuple((k, Rank(t), LinkId(e), s, z) for k, t, e, s, z in lengths),
            tuple((k, NodeId(v), s, -pi if reverse else pi) for k, v, s, pi in potentials),
            tuple(prices),
        )

    def _state(self, solver: Any) -> _Duals:
        """Write the program down; return the rows whose duals make the certificate."""
        infinite = solver.infinity()
        rho = [solver.NumVar(0, infinite, "") for _ in range(self.steps)]
        for r in rho:
            solver.Objective().SetCoefficient(r, 1)
        solver.Objective().SetMinimization()
        capacity = [[solver.Constraint(-infinite, 0) for _ in range(self.steps)] for _ in self.links]
        budget = [[solver.Constraint(-infinite, 0) for _ in range(self.steps)] for _ in self.budgets]
        for s in range(self.steps):
            for e, c in enumerate(self.lanes):
                capacity[e][s].SetCoefficient(rho[s], -c)
            for b, (_, c) in enumerate(self.budgets):
                budget[b][s].SetCoefficient(rho[s], -c)
        lengths: dict[tuple[int, int, int, int], Any] = {}
        potentials: dict[tuple[int, int, int], Any] = {}
        for i, kind in enumerate(self.kinds):
            x = [[solver.NumVar(0, infinite, "") for _ in range(self.steps)] for _ in self.links]
            for s in range(self.steps):
                for e in range(len(self.links)):
                    capacity[e][s].SetCoefficient(x[e][s], 1)
                for b, (members, _) in enumerate(self.budgets):
                    for e in members:
                        budget[b][s].SetCoefficient(x[e][s], 1)
                for v in self.balanced:
                    row = solver.Constraint(0, 0)
                    for e, (a, z) in enumerate(self.links):
                        if v in (a, z):
                            row.SetCoefficient(x[e][s], 1 if z == v else -1)
                    potentials[i, v, s] = row
            for t in kind.targets:
                self._flow(solver, kind, t, x, lengths, i)
        return _Duals(lengths, potentials, {(b, s): row for b, rows in enumerate(budget) for s, row in enumerate(rows)})

    def _flow(self, solver: Any, kind: _Kind, target: int, x: Any, lengths: dict[Any, Any], i: int) -> None:
        """One target's flow through the unrolled graph, within what its kind sends on each link."""
        infinite, amount = solver.infinity(), kind.shards
        supply = solver.Constraint(amount, amount)
        balance: dict[tuple[int, int], Any] = {}
        for v in range(self.nodes):
            for s in range(self.steps + 1 if self.gpu[v] else self.steps):
                net = amount if (v, s) == (target, self.steps) else 0
                balance[v, s] = solver.Constraint(net, net)
        for source in kind.sources:
            start = solver.NumVar(0, infinite, "")
            supply.SetCoefficient(start, 1)
            balance[source, 0].SetCoefficient(start, 1)
        for s in range(self.steps):
            for v in range(self.nodes):
                if self.gpu[v]:
                    keep = solver.NumVar(0, infinite, "")
                    balance[v, s].SetCoefficient(keep, -1)
                    balance[v, s + 1].SetCoefficient(keep, 1)
            for e, (a, z) in enumerate(self.links):
                flow = solver.NumVar(0, infinite, "")
                balance[a, s].SetCoefficient(flow, -1)
                balance[z, s + 1 if self.gpu[z] else s].SetCoefficient(flow, 1)
                row = solver.Constraint(-infinite, 0)
                row.SetCoefficient(flow, 1)
                row.SetCoefficient(x[e][s], -1)
                lengths[i, target, e, s] = row

    def _exact(self, dual: _Duals) -> Fraction:
        """The value that a dual proves, by the formula above; any numbers are valid once negative ones are 0."""
        lengths = {k: max(Fraction(0), v) for k, v in dual.lengths.items()}
        prices = {k: max(Fraction(0), v) for k, v in dual.prices.items()}
        fullest = Fraction(0)
        for s in range(self.steps):
            cost = sum((c * prices[b, s] for b, (_, c) in enumerate(self.budgets)), Fraction(0))
            for e, (a, z) in enumerate(self.links):
                need = Fraction(0)
                for i, kind in enumerate(self.kinds):
                    total = sum((lengths[i, t, e, s] for t in kind.targets), Fraction(0))
                    total += dual.potentials.get((i, z, s), Fraction(0)) - dual.potentials.get((i, a, s), Fraction(0))
                    need = max(need, total)
                need -= sum((prices[b, s] for b, (members, _) in enumerate(self.budgets) if e in members), Fraction(0))
                cost += self.lanes[e] * max(Fraction(0), need)
            fullest = max(fullest, cost)
        if fullest == 0:
            return Fraction(0)
        return (
            sum(
                (
                    kind.shards * self._distance(kind, t, {(e, s): lengths[i, t, e, s] for e, s in self._link_steps()})
                    for i, kind in enumerate(self.kinds)
                    for t in kind.targets
                ),
                Fraction(0),
            )
            / fullest
        )

    def _link_steps(self) -> list[tuple[int, int]]:
        return [(e, s) for e in range(len(self.links)) for s in range(self.steps)]

    def _distance(self, kind: _Kind, target: int, length: dict[tuple[int, int], Fraction]) -> Fraction:
        """Shortest way from any holder at the start to the target at the end, step by step."""
        at: dict[int, Fraction] = dict.fromkeys(kind.sources, Fraction(0))
        for s in range(self.steps):
            inside = dict(at)
            changed = True
            while changed:  # passing nodes within the step; each round settles at least one more link of a way
                changed = False
                for e, (a, z) in enumerate(self.links):
                    if a in inside and not self.gpu[z] and (z not in inside or inside[a] + length[e, s] < inside[z]):
                        inside[z] = inside[a] + length[e, s]
                        changed = True
            after = dict(at)
            for e, (a, z) in enumerate(self.links):
                if a in inside and self.gpu[z] and (z not in after or inside[a] + length[e, s] < after[z]):
                    after[z] = inside[a] + length[e, s]
            at = after
        if target not in at:
            raise AssertionError("the program was feasible, so every target is in reach")
        return at[target]


@dataclass(frozen=True, slots=True)
class _Duals:
    """Solver rows, or their rounded duals: lengths by (kind, target, link, step), potentials, budget prices."""

    lengths: dict[tuple[int, int, int, int], Any]
    potentials: dict[tuple[int, int, int], Any]
    prices: dict[tuple[int, int], Any]


@dataclass(frozen=True, slots=True)
class _Shape:
    lengths: Sequence[tuple[int, int, int, int]]
    potentials: Sequence[tuple[int, int, int]]
    prices: Sequence[tuple[int, int]]

    def restore(self, values: Sequence[Fraction]) -> _Duals:
        """The flat numbers under their keys again."""
        first, second = len(self.lengths), len(self.lengths) + len(self.potentials)
        return _Duals(
            dict(zip(self.lengths, values[:first], strict=True)),
            dict(zip(self.potentials, values[first:second], strict=True)),
            dict(zip(self.prices, values[second:], strict=True)),
        )


def _flatten(rows: _Duals) -> tuple[list[tuple[int, Any]], _Shape]:
    """The rows in one list, with the sign that makes their duals the certificate's numbers."""
    flat = [(-1, r) for r in rows.lengths.values()] + [(1, r) for r in rows.potentials.values()]
    flat += [(-1, r) for r in rows.prices.values()]
    return flat, _Shape(tuple(rows.lengths), tuple(rows.potentials), tuple(rows.prices))


@dataclass(frozen=True, slots=True)
class LastStep:
    """What the last step alone says of R: for rank sets T, (load, lanes, |T|, last), each kind of set once.

    What first enters T in the last step cannot be passed on inside T, so it enters |T| times. If T lacks ``load``
    shards that all of it needs, and ``lanes`` enter it, then with r >= 1 rounds in the last step
    R >= C load / lanes + r (1 - 1/|T|). Reduced shards: what leaves T in the first step, by symmetry (``last``
    is false).
    """

    terms: tuple[tuple[int, int, int, bool], ...]
    sets: tuple[tuple[NodeId, ...], ...] = ()
    """For each term the nodes T."""

    def rounds(self, chunks: int) -> int:
        """Return the least R of any schedule of C = ``chunks``, whatever its steps; 0 where nothing is said."""
        return max((ceil(_least(chunks, 1, term)) for term in self.terms), default=0)

    def allows(self, chunks: int, rounds: Sequence[int]) -> bool:
        """Whether a schedule of C = ``chunks`` may have these rounds in its steps, as far as this says."""
        total = sum(rounds)
        return all(total >= _least(chunks, rounds[-1 if term[3] else 0], term) for term in self.terms)

    def strongest(self, chunks: int) -> tuple[NodeId, ...]:
        """Return the set T that says most at C = ``chunks``; there must be a term."""
        least = self.rounds(chunks)
        return next(t for x, t in zip(self.terms, self.sets, strict=True) if LastStep((x,)).rounds(chunks) == least)


def _least(chunks: int, rounds: int, term: tuple[int, int, int, bool]) -> Fraction:
    load, lanes, size, _ = term
    return Fraction(chunks * load, lanes) + rounds * (1 - Fraction(1, size))


def last_step(problem: Problem) -> LastStep:
    """Return the argument of the last step for every rank, every two linked ones, and the best cut.

    It says nothing without a common unit of rate, or with multicast or reduction in switches.
    """
    topology = problem.topology
    unit = topology.unit
    if unit is None or len(passing_nodes(problem)) + len(topology.ranks) < len(topology.nodes):
        return LastStep(())
    ports: list[list[tuple[int, int, bool]]] = [[] for _ in topology.nodes]
    for e in topology.links:
        lanes = int(e.capacity / unit)
        ports[e.dst].append((e.src, lanes, True))
        ports[e.src].append((e.dst, lanes, False))
    shards = [(s.reduced, frozenset(s.sources), frozenset(s.targets)) for s in problem.shards]
    terms: dict[tuple[int, int, int, bool], tuple[NodeId, ...]] = {}
    for nodes in _rank_sets(problem):
        ranks = {v for v in nodes if topology.nodes[v].kind is NodeKind.GPU}
        crossing = [(lanes, inward) for v in nodes for other, lanes, inward in ports[v] if other not in nodes]
        wanted = sum(not reduced and ranks <= targets and not ranks & sources for reduced, sources, targets in shards)
        given = sum(reduced and ranks <= sources and not ranks & targets for reduced, sources, targets in shards)
        for load, inward in ((wanted, True), (given, False)):
            total = sum(lanes for lanes, direction in crossing if direction is inward)
            if load and total:
                terms.setdefault((load, total, len(ranks), inward), tuple(NodeId(v) for v in sorted(nodes)))
    return LastStep(tuple(terms), tuple(terms.values()))


def _rank_sets(problem: Problem) -> list[set[int]]:
    from acclc.bounds.cuts import CutFinder, best_cut

    topology = problem.topology
    sets: list[set[int]] = [{r} for r in topology.ranks]
    gpu = set(topology.ranks)
    sets += [{int(e.src), int(e.dst)} for e in topology.links if e.src < e.dst and {e.src, e.dst} <= gpu]
    cut = best_cut(problem, CutFinder(problem)) if topology.links else None
    if cut is not None:
        sets += [set(cut), {int(n.id) for n in topology.nodes} - set(cut)]
    return [s for s in sets if s & gpu]
