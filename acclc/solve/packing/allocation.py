"""Whole units: the least k for which k units a shard fit the links, for collecting and spreading at the same time.

Looked for by rounding the linear program's own solution (:mod:`.rates`), and among small k by CP-SAT, with the same
sets of nodes, added in the same way. What is returned was checked by exact max-flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from acclc.bounds.families import Family
from acclc.bounds.rates import Machine, RateProgram
from acclc.ir.problem import Problem
from acclc.solve import cpsat
from acclc.solve.packing.flows import Effort, TimeUp

SIZE_LIMIT = 2_000_000
"""Links times ranks times sides: larger programs are not tried."""
SMALL = 12
"""Up to this k CP-SAT is asked for whole units."""
LARGEST = 5_040
"""The largest k that rounding looks at."""
NEAR = 1e-6
WORK_OF_A_K = 0.3
"""CP-SAT work units for one k."""
LOSSES = (1, 2, 3, 5, 8, 13, 21, 34, 55, 100)
"""Percent that are given away, in turn, where k is limited."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """``roots[r]`` units have their root at rank r, k of each shard; link e carries ``gather[e]`` and ``spread[e]``.

    ``time``: seconds a byte of shard that links and budgets need for it; ``optimum``: the least that any needs.
    """

    k: int
    time: Fraction
    optimum: Fraction
    roots: tuple[int, ...]
    gather: tuple[int, ...] | None
    spread: tuple[int, ...] | None
    exact_k: int = 0
    """The least k at which the optimum was reached; nought where none was found."""


def allocations(problem: Problem, kind: Family, target: Fraction, effort: Effort, most: int) -> Iterator[Allocation]:
    """Yield allocations to pack trees in, the best first: at the program's optimum, then with at most ``most`` units.

    ``target``: a proven bound, seconds a byte of shard. None is yielded where the program is too large. Raises TimeUp.
    """
    machine = Machine(problem, kind)
    if machine.size > SIZE_LIMIT:
        return
    program = RateProgram(machine, effort.spend)
    rate = program.solve()
    if rate <= 0:
        return
    program.settle(rate)
    exact = _rounded(program)
    optimum = target if exact is None else exact.time
    fewest = LARGEST if exact is None else exact.k
    for k in range(1, min(most, SMALL, fewest - 1) + 1):
        found = _whole(program, k, optimum, effort)
        if found is not None:
            exact = found
            break
    if exact is not None:
        yield replace(exact, exact_k=exact.k)
    limited = _limited(program, optimum, most, effort)
    if limited is not None:
        yield replace(limited, optimum=optimum, exact_k=0 if exact is None else exact.k)


def _rounded(program: RateProgram) -> Allocation | None:
    """Return the program's solution itself in the fewest whole units that make it up, if any do."""
    sides, roots = program.values()
    rate = float(roots.sum()) / program.machine.shards
    every = np.concatenate([*sides, roots]) / rate
    links = len(program.machine.links)
    for k in range(1, LARGEST + 1):
        near = np.rint(every * k)
        if float(np.abs(every * k - near).max()) > NEAR * max(1, k / 100):
            continue
        whole = [int(n) for n in near]
        found = _checked(
            program, k, [whole[i * links : (i + 1) * links] for i in range(len(sides))], whole[-len(roots) :]
        )
        if found is not None and float(found.time * program.machine.unit / program.machine.repeats) * rate < 1 + NEAR:
            return found
    return None


def _checked(program: RateProgram, k: int, sides: Sequence[Sequence[int]], roots: Sequence[int]) -> Allocation | None:
    """Return whole units as an allocation if they are one, in exact arithmetic; its time is what they need."""
    machine = program.machine
    given = all(n == k * w for n, w in zip(roots, machine.roots, strict=True))
    if not (sum(roots) == k if machine.free else given):
        return None
    if not all(_balanced(machine, side, ends) for side, ends in zip(sides, machine.sides, strict=True)):
        return None
    if any(True for _ in _short(program, sides, roots)):
        return None
    load = [sum(side[e] for side in sides) for e in range(len(machine.links))]
    needs = [Fraction(n, c) for n, c in zip(load, machine.lanes, strict=True)]
    needs += [Fraction(sum(load[e] for e in links), c) for links, c in machine.budgets]
    time = max(needs) * machine.repeats / (k * machine.unit)
    gather = None if machine.kind is Family.SPREAD else tuple(sides[0])
    spread = None if machine.kind is Family.COLLECT else tuple(sides[-1])
    return Allocation(k, time, time, tuple(roots), gather, spread)


def _balanced(machine: Machine, amounts: Sequence[int], ends: Sequence[tuple[int, int]]) -> bool:
    """Whether what enters every node that only passes on leaves it again."""
    balance = [0] * machine.nodes
    for n, (u, v) in zip(amounts, ends, strict=True):
        balance[u] -= n
        balance[v] += n
    return not any(balance[v] for v in machine.passing)


def _short(
    program: RateProgram, sides: Sequence[Sequence[int]], roots: Sequence[int]
) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield node sets that whole units leave too little for, by side."""
    supplies = np.array(roots, dtype=np.int64)
    for side, amounts in enumerate(sides):
        for nodes in program.separators[side].violated(np.array(amounts, dtype=np.int64), supplies):
            yield side, nodes


def _limited(program: RateProgram, optimum: Fraction, most: int, effort: Effort) -> Allocation | None:
    """Whole units, at most so many a shard, that lose little: where the optimum would take more."""
    for percent in LOSSES:
        for k in sorted({max(1, most // 4), max(1, most // 2), most}):
            found = _whole(program, k, optimum * (1 + Fraction(percent, 100)), effort)
            if found is not None:
                return found
    return None


def _whole(program: RateProgram, k: int, time: Fraction, effort: Effort) -> Allocation | None:
    """Ask CP-SAT for k units a shard within a time, adding violated sets until it has them or cannot."""
    model = _UnitModel(program.machine, k, time)
    for side, nodes in program.sets:
        model.demand(side, nodes)
    left = WORK_OF_A_K
    while left > 0:
        outcome = cpsat.run(
            model.model, work=left, deadline=effort.deadline, seed=0, workers=1, tactics=cpsat.Tactics.MIXED
        )
        left -= outcome.work
        if outcome.clock_cut:
            raise TimeUp
        if outcome.answer is not cpsat.Answer.FOUND:
            return None
        sides, roots = model.values(outcome.solver)
        short = list(_short(program, sides, roots))
        if not short:
            return _checked(program, k, sides, roots)
        for side, nodes in short:
            program.sets[side, nodes] = None
            model.demand(side, nodes)
    return None


class _UnitModel:
    """The program of :mod:`.rates` in whole units, for one k and one time (seconds a byte of shard)."""

    def __init__(self, machine: Machine, k: int, time: Fraction) -> None:
        from ortools.sat.python import cp_model

        self.model = model = cp_model.CpModel()
        self.machine = machine
        room = k * time * machine.unit / machine.repeats
        most = [int(room * c) for c in machine.lanes]
        self.sides = [[model.new_int_var(0, n, "") for n in most] for _ in machine.sides]
        self.roots: list[Any] = [k * n for n in machine.roots]
        if machine.free:
            self.roots = [model.new_int_var(0, k, "") for _ in machine.ranks]
            model.add(sum(self.roots) == k)
        limits = [((e,), n) for e, n in enumerate(most)] if len(self.sides) > 1 else []
        for links, n in [*limits, *((links, int(room * c)) for links, c in machine.budgets)]:
            model.add(sum(amounts[e] for amounts in self.sides for e in links) <= n)
        for amounts, ends in zip(self.sides, machine.sides, strict=True):
            for node in machine.passing:
                into = [amounts[e] for e, (u, v) in enumerate(ends) if v == node != u]
                out = [amounts[e] for e, (u, v) in enumerate(ends) if u == node != v]
                model.add(sum(into) == sum(out))

    def demand(self, side: int, nodes: frozenset[int]) -> None:
        """Ask that what has its roots in a set can leave it."""
        inside = [self.roots[r] for r in self.machine.ranks if r in nodes]
        self.model.add(sum(self.sides[side][e] for e in self.machine.leaving(side, nodes)) >= sum(inside))

    def values(self, solver: Any) -> tuple[list[list[int]], list[int]]:
        """Read the units of each side's links, and of the roots."""
        sides = [[int(solver.value(x)) for x in side] for side in self.sides]
        return sides, [x if isinstance(x, int) else int(solver.value(x)) for x in self.roots]
