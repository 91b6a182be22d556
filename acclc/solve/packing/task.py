"""What a packing has to carry: whole shards from ranks to all ranks, on a machine whose links may be turned round.

Copies to everybody are out-trees. A reduction from everybody to one rank is an out-tree of the reversed machine,
read backward. A reduction that everybody needs is an in-tree and an out-tree with the same root, for any root: the
shard is cut among all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from acclc.bounds.cuts import CutFinder, best_cut
from acclc.bounds.families import Family, root_counts
from acclc.bounds.loads import cut_load, value
from acclc.ir.problem import Collective, NodeKind, Place, Problem, Shard, ShardId, Topology
from acclc.ir.result import Cut


@dataclass(frozen=True, slots=True)
class Task:
    """``weights[r]`` whole shards go from rank r to every rank of ``topology``."""

    topology: Topology
    weights: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many shards every rank must get or have."""
        return sum(self.weights)


def tasks(problem: Problem, kind: Family) -> tuple[Task | None, Task | None]:
    """Return what to pack for collecting (on the reversed machine) and for spreading."""
    topology = problem.topology
    if kind is Family.BOTH:
        weights = root_counts(problem, kind)
        return Task(reversed_topology(topology), weights), Task(topology, weights)
    weights = root_counts(problem, kind)
    if kind is Family.SPREAD:
        return None, Task(topology, weights)
    return Task(reversed_topology(topology), weights), None


def reversed_topology(topology: Topology) -> Topology:
    """Return the machine with every link turned round; ids stay."""
    return replace(topology, links=tuple(replace(x, src=x.dst, dst=x.src) for x in topology.links))


def packable(topology: Topology) -> str:
    """Say why a machine cannot be packed; empty if it can."""
    if topology.budgets:
        return "links share budgets"
    balance = dict.fromkeys((n.id for n in topology.nodes), Fraction(0))
    for link in topology.links:
        balance[link.src] -= link.capacity
        balance[link.dst] += link.capacity
    for node in topology.nodes:
        if node.kind is not NodeKind.GPU and balance[node.id] != 0:
            return f"what may enter {node.name} and what may leave it differ"
    return ""


def optimum(task: Task) -> Fraction:
    """Return the least seconds a byte of shard, by the best cut (``acclc.bounds``)."""
    everyone = tuple(Place(r, 0) for r in task.topology.ranks)
    roots = [r for r, n in zip(task.topology.ranks, task.weights, strict=True) for _ in range(n)]
    shards = tuple(Shard(ShardId(n), "", 0, (Place(r, 0),), everyone) for n, r in enumerate(roots))
    problem = Problem("packing", task.topology, Collective.CUSTOM, (), shards)
    nodes = best_cut(problem, CutFinder(problem))
    if nodes is None:
        return Fraction(0)
    return value(problem, Cut(nodes, Fraction(cut_load(shards, nodes))))
