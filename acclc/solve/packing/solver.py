"""From a task to trees: scale it to whole numbers, remove the switches, pack, check, all in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm

from acclc.bounds.families import Family
from acclc.ir.problem import Problem
from acclc.solve.packing.allocation import Allocation
from acclc.solve.packing.check import check_trees, task_seconds
from acclc.solve.packing.flows import Effort, FlowGraph
from acclc.solve.packing.levels import composed_trees
from acclc.solve.packing.shallow import lowered
from acclc.solve.packing.splitting import Scaled, logical_routes
from acclc.solve.packing.task import Task, optimum, packable, reversed_topology
from acclc.solve.packing.trees import Tree, shallow_trees

UNITS_LIMIT = 2**60
"""Units that all ranks get, times links: more would not fit the flows' 64 bits."""
TRIED = 8
"""How many values of k are compared where the exact one is not wanted."""
STOPS = 4096
"""Most times that are compared for one k."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees of a task. ``k``: units of a shard; ``optimum`` and ``achieved`` in seconds a byte of shard."""

    task: Task
    k: int
    trees: tuple[Tree, ...]
    optimum: Fraction
    achieved: Fraction
    exact_k: int = 0
    """The least k at which the optimum is reached."""

    @property
    def depth(self) -> int:
        """The deepest tree's."""
        return max((t.depth for t in self.trees), default=0)

    @property
    def loss(self) -> Fraction:
        """How much longer than the optimum it takes: nought where it is reached."""
        return self.achieved / self.optimum - 1 if self.optimum else Fraction(0)

    def most_trees(self) -> int:
        """Trees of the root that has most, a shard of its (rounded up)."""
        count = dict.fromkeys(self.task.topology.ranks, 0)
        for tree in self.trees:
            count[tree.root] += 1
        pairs = zip(count.values(), self.task.weights, strict=True)
        return max((-(-n // w) for n, w in pairs if w), default=0)


def pack(task: Task, effort: Effort, max_trees: int | None = None) -> Packing | None:
    """Return a packing at the optimum, or the best found with at most ``max_trees`` trees a shard.

    None where the machine cannot be packed (``packable``) or no few trees will do. Raises TimeUp, and
    ``acclc.bounds.UnreachableError`` where some rank cannot be reached.
    """
    if packable(task.topology):
        return None
    best = optimum(task)
    composed = composed_trees(task, best, lambda part: pack(part, effort))
    if composed is not None:
        packing = replace(_checked(*composed, best, max_trees, effort), exact_k=composed[0].k)
        if max_trees is None or packing.most_trees() <= max_trees:
            return packing
    exact = exact_scale(task, best)
    if exact.demand * (1 + len(exact.capacity)) < UNITS_LIMIT:
        packing = _packed(exact, best, max_trees, effort)
        if max_trees is None or packing.most_trees() <= max_trees:
            return replace(packing, exact_k=exact.k)
    bounded = None if max_trees is None else _bounded(task, best, max_trees, effort)
    return None if bounded is None else replace(bounded, exact_k=exact.k)


def _packed(scaled: Scaled, best: Fraction, max_trees: int | None, effort: Effort) -> Packing:
    return _checked(scaled, shallow_trees(scaled, logical_routes(scaled, effort), effort), best, max_trees, effort)


def _checked(scaled: Scaled, trees: tuple[Tree, ...], best: Fraction, max_trees: int | None, effort: Effort) -> Packing:
    trees = lowered(scaled, trees, max_trees, effort)
    check_trees(scaled, trees)
    return Packing(scaled.task, scaled.k, trees, best, task_seconds(scaled.task, scaled.k, trees))


def pack_allocated(
    problem: Problem, kind: Family, allocation: Allocation, most: int, effort: Effort
) -> tuple[Packing | None, Packing | None]:
    """Return packings for collecting and for spreading in the shares of the links that an allocation gives them.

    Their weights are the units that have their root at a rank (k is 1), or whole shards where these are given.
    ``most``: units a shard up to which every unit may have a tree of its own, of less depth. Raises TimeUp.
    """
    k = 1 if kind is Family.BOTH else allocation.k
    weights = tuple(n // k for n in allocation.roots)
    pair: list[Packing | None] = []
    for amounts, reverse in ((allocation.gather, True), (allocation.spread, False)):
        if amounts is None:
            pair.append(None)
            continue
        # links that keep to their shares keep to the budgets
        topology = replace(reversed_topology(problem.topology) if reverse else problem.topology, budgets=())
        scaled = Scaled(Task(topology, weights), k, amounts)
        trees = shallow_trees(scaled, logical_routes(scaled, effort), effort)
        if allocation.k <= most:
            trees = lowered(scaled, trees, None, effort)
        check_trees(scaled, trees)
        time = task_seconds(scaled.task, k, trees)
        pair.append(Packing(scaled.task, k, trees, time, time, allocation.exact_k))
    return pair[0], pair[1]


def _lanes(task: Task) -> tuple[Fraction, tuple[int, ...]]:
    """Return the unit of rate and each link's capacity in it."""
    unit = task.topology.unit
    assert unit is not None, "a topology without links has nothing to pack"
    return unit, tuple(int(link.capacity / unit) for link in task.topology.links)


def exact_scale(task: Task, best: Fraction) -> Scaled:
    """Return the least k at which every link carries whole units in the optimal time."""
    unit, lanes = _lanes(task)
    rate = best * unit
    k = lcm(*(rate.denominator // gcd(rate.denominator, c) for c in lanes)) if rate else 1
    return Scaled(task, k, tuple(int(k * rate * c) for c in lanes))


def _bounded(task: Task, best: Fraction, max_trees: int, effort: Effort) -> Packing | None:
    """Capacities rounded down to so small a k that no shard has too many trees; the k that loses least."""
    choices: list[tuple[Fraction, Scaled]] = []
    for k in range(max_trees, max(0, max_trees - TRIED), -1):
        choice = rounded_scale(task, best, k, effort)
        if choice is not None:
            choices.append(choice)
    for _, scaled in sorted(choices, key=lambda c: (c[0], c[1].k)):
        packing = _packed(scaled, best, max_trees, effort)
        if packing.most_trees() <= max_trees:
            return packing
    return None


def rounded_scale(task: Task, best: Fraction, k: int, effort: Effort) -> tuple[Fraction, Scaled] | None:
    """Return the least time (in rounds a shard) in which links that carry whole units of 1/k are enough.

    None where rounding makes a switch uneven.
    """
    unit, lanes = _lanes(task)
    rate = best * unit
    # at the last of these times every link carries what it carries at the optimum, rounded up
    last = max(Fraction(-(-k * rate.numerator * c // rate.denominator), k * c) for c in lanes)
    times = {last}
    for c in sorted(set(lanes)):
        first, end = -(-k * rate.numerator * c // rate.denominator), int(k * last * c)
        if end - first < STOPS:
            times.update(Fraction(j, k * c) for j in range(first, end + 1))
    stops = sorted(t for t in times if t <= last)
    low, high = 0, len(stops) - 1
    while low < high:
        middle = (low + high) // 2
        if _enough(_floored(task, k, stops[middle], lanes), effort):
            high = middle
        else:
            low = middle + 1
    scaled = _floored(task, k, stops[low], lanes)
    return (stops[low], scaled) if _even(scaled) else None


def _floored(task: Task, k: int, time: Fraction, lanes: Iterable[int]) -> Scaled:
    return Scaled(task, k, tuple(int(k * time * c) for c in lanes))


def _even(scaled: Scaled) -> bool:
    """Whether as much may enter every switch as may leave it."""
    topology = scaled.task.topology
    balance = [0] * len(topology.nodes)
    for link, capacity in zip(topology.links, scaled.capacity, strict=True):
        balance[link.src] -= capacity
        balance[link.dst] += capacity
    return not any(balance[len(topology.ranks) :])


def _enough(scaled: Scaled, effort: Effort) -> bool:
    """Whether every rank can get all it must."""
    topology, graph = scaled.task.topology, FlowGraph(effort)
    source = len(topology.nodes)
    for link, capacity in zip(topology.links, scaled.capacity, strict=True):
        graph.add(link.src, link.dst, capacity)
    for rank, weight in zip(topology.ranks, scaled.task.weights, strict=True):
        graph.set(source, rank, weight * scaled.k)
    return all(graph.max_flow(source, rank) >= scaled.demand for rank in topology.ranks)
