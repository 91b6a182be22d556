"""Whole units: k to a shard, within the links, by the linear program's solution or by CP-SAT for small k.

Everything that is returned was checked in integers, and its time is what it takes in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from acclc.ir.problem import LinkId, Rank
from acclc.solve import cpsat
from acclc.solve.flow.machine import FlowMachine
from acclc.solve.flow.paths import Way, ways
from acclc.solve.flow.program import Rates, cost
from acclc.solve.flow.rounding import rounded
from acclc.solve.packing.flows import Effort, TimeUp

LARGEST = 5_040
"""The largest k at which the solution itself is looked for."""
NEAR = 1e-6
FEW_UNITS = 64
SMALL = 6
"""Up to this k CP-SAT is asked for whole units."""
TACTICS = cpsat.Tactics.RELAXATIONS
WORK_OF_A_K = 0.4
"""CP-SAT work units for one k."""
CPSAT_VARIABLES = 4_000
WORK_OF_A_LIMIT = 2.0
"""And for as many units as there may be chunks, where these are few."""
FINE = 10**6


@dataclass(frozen=True, slots=True)
class Units:
    """The ways of each representative's shards, in units of which k are a shard; ``time``: seconds a byte of shard."""

    k: int
    time: Fraction
    ways: tuple[tuple[Way, ...], ...]


def whole_units(
    machine: FlowMachine, least: float, optimum: Fraction, rates: Rates, effort: Effort, most: int
) -> Iterator[Units]:
    """Yield whole units, better ones first: no shard cut, the solution itself, few units, the solution rounded.

    ``least``: rounds a shard that ``rates`` take; ``optimum``: the same in seconds a byte, exact if it is proven.
    Of the solution itself a shard takes the fewest paths, so it comes first unless its units are small. Raises TimeUp.
    """
    met = _met(machine, least, rates)
    target = optimum if met is None else met.time
    whole = _whole(machine, 1, target, effort) if met is None or met.k > 1 else None
    if whole is not None:
        yield whole
    if met is not None and met.k <= FEW_UNITS:
        yield met
    for k in range(2, min(most, SMALL) + 1):
        found = _whole(machine, k, target, effort)
        if found is not None:
            yield found
            break
    if met is not None and met.k > FEW_UNITS:
        yield met
    soonest = _soonest(machine, most, effort) if most <= SMALL else None
    if soonest is not None:
        yield _whole(machine, most, soonest.time, effort) or soonest
    found_ways = rounded(machine, rates, effort, most)
    if found_ways is not None:
        yield _units(machine, *found_ways)


def _units(machine: FlowMachine, k: int, found: tuple[tuple[Way, ...], ...]) -> Units:
    """Return ways with the time they take, looked at again."""
    flows = [_on_links(of) for of in found]
    assert machine.carries(k, flows), "ways bring every shard to its end"
    return Units(k, machine.time(k, flows), found)


def _on_links(of: Sequence[Way]) -> dict[LinkId, int]:
    load: dict[LinkId, int] = {}
    for way in of:
        for link in way.path:
            load[link] = load.get(link, 0) + way.units
    return load


def _met(machine: FlowMachine, least: float, rates: Rates) -> Units | None:
    """Return the solution itself in the fewest units that make it up, if any do."""
    values = sorted({v for flow in rates for v in flow.values()})
    for k in range(1, LARGEST + 1):
        tolerance = NEAR * max(1, k / 100)
        if any(abs(v * k - round(v * k)) > tolerance for v in values):
            continue
        flows = [{e: n for e, v in flow.items() if (n := round(v * k))} for flow in rates]
        if machine.carries(k, flows):
            time = machine.time(k, flows)
            if float(time * machine.unit) < least * (1 + NEAR):
                return _taken_apart(machine, k, flows)
    return None


def _taken_apart(machine: FlowMachine, k: int, flows: Sequence[Mapping[LinkId, int]]) -> Units:
    return _units(machine, k, tuple(ways(machine, number, k, flow) for number, flow in enumerate(flows)))


def _whole(machine: FlowMachine, k: int, time: Fraction, effort: Effort) -> Units | None:
    """Ask CP-SAT for k units a shard within a time, on short ways. Raises TimeUp."""
    if machine.size > CPSAT_VARIABLES:
        return None
    model = _UnitModel(machine, k)
    for row, load in zip(machine.rows, model.loads, strict=True):
        model.model.add(load <= int(k * time * machine.unit * row.capacity))
    model.model.minimize(sum(cost(machine, e) * x for flow in model.flows for e, x in flow.items()))
    return model.solved(effort, WORK_OF_A_K)


def _soonest(machine: FlowMachine, k: int, effort: Effort) -> Units | None:
    """Ask CP-SAT for k units a shard that take little time. Raises TimeUp."""
    if machine.size > CPSAT_VARIABLES:
        return None
    model = _UnitModel(machine, k)
    scale = lcm(*(row.capacity for row in machine.rows))
    if scale > FINE:
        scale = FINE  # rows are then weighed to six digits
    most = max(scale // row.capacity + 1 for row in machine.rows) * sum(n for _, n in _all_uses(machine)) * model.total
    time = model.model.new_int_var(0, most, "")
    for row, load in zip(machine.rows, model.loads, strict=True):
        model.model.add(load * max(1, scale // row.capacity) <= time)
    model.model.minimize(time)
    return model.solved(effort, WORK_OF_A_LIMIT)


def _all_uses(machine: FlowMachine) -> Iterator[tuple[LinkId, int]]:
    for row in machine.rows:
        yield from row.use


class _UnitModel:
    """Flows of k units a shard, and what they put on every row."""

    def __init__(self, machine: FlowMachine, k: int) -> None:
        from ortools.sat.python import cp_model

        self.machine, self.k = machine, k
        self.model = model = cp_model.CpModel()
        self.flows: list[dict[LinkId, Any]] = []
        self.total = 0
        for number, arcs in enumerate(machine.arcs):
            demand = machine.representatives[number].demand
            total = k * sum(demand.values())
            self.total += total
            flow = {e: model.new_int_var(0, total, "") for e in arcs}
            self.flows.append(flow)
            into: dict[int, list[Any]] = {v: [] for v in machine.nodes_of(number)}
            for e, x in flow.items():
                link = machine.links[e]
                into[link.dst].append(x)
                if link.src in into:
                    into[link.src].append(-x)
            for v, terms in into.items():
                model.add(sum(terms) == k * demand.get(Rank(v), 0))
        self.loads = [sum(n * f[e] for f in self.flows for e, n in row.use if e in f) for row in machine.rows]

    def solved(self, effort: Effort, work: float) -> Units | None:
        """Return the units that the solver finds. Raises TimeUp."""
        outcome = cpsat.run(self.model, work=work, deadline=effort.deadline, seed=0, workers=1, tactics=TACTICS)
        if outcome.clock_cut:
            effort.clock_cut = True
            raise TimeUp
        if outcome.answer is not cpsat.Answer.FOUND:
            return None
        value = outcome.solver.value
        return _taken_apart(
            self.machine, self.k, [{e: n for e, x in f.items() if (n := int(value(x)))} for f in self.flows]
        )
