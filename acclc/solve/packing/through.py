"""Trees that branch, or meet, at switches: what multicast and reduction in a switch (NVLS, SHARP) are worth.

A switch that copies is, to a tree that spreads, a rank that wants everything and has nothing; to one that collects, so
is a switch that reduces. With such switches among the ranks the packing is the same as ever; a switch that a tree
needs for nothing is cut off its end. No kernel is generated from these trees yet: they say what would be reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from acclc.bounds.families import Family, family
from acclc.ir.problem import LinkId, Node, NodeId, NodeKind, Problem, Topology
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.packing.solver import Packing, pack
from acclc.solve.packing.task import Task, packable, tasks
from acclc.solve.packing.trees import Hop, Tree


@dataclass(frozen=True, slots=True)
class Through:
    """What trees through switches reach: seconds a byte of shard, their number, and the deepest in links."""

    time_per_byte: Fraction
    trees: int
    depth: int
    switches: tuple[str, ...]
    """The names of those that copy or reduce."""


def without_abilities(problem: Problem) -> Problem:
    """Return the problem on a machine whose switches only pass on."""
    nodes = tuple(replace(n, can_multicast=False, can_reduce=False) for n in problem.topology.nodes)
    return replace(problem, topology=replace(problem.topology, nodes=nodes))


def through_switches(problem: Problem, effort: Effort | None = None) -> Through | None:
    """Pack trees with the switches that copy and reduce in them.

    None where no switch helps in this, the shards are no trees over all ranks, or the machine cannot be packed.
    """
    kind, nodes = family(problem), problem.topology.nodes
    able = [n for n in nodes if n.kind is NodeKind.SWITCH and (n.can_multicast or n.can_reduce)]
    if kind is None or not able:
        return None
    gather, spread = tasks(problem, kind)
    load: dict[LinkId, Fraction] = {}
    units = Fraction(1, len(problem.topology.ranks)) * len(problem.shards) if kind is Family.BOTH else Fraction(1)
    trees, depth = 0, 0
    for task, switches in (
        (gather, [n.id for n in able if n.can_reduce]),
        (spread, [n.id for n in able if n.can_multicast]),
    ):
        if task is None:
            continue
        try:
            packing = _pack(task, switches, effort or Effort())
        except TimeUp:
            return None
        if packing is None:
            return None
        trees, depth = trees + len(packing.trees), depth + max(map(_links_deep, packing.trees))
        for tree in packing.trees:
            for hop in tree.hops:
                for link in hop.path:
                    load[link] = load.get(link, Fraction(0)) + Fraction(tree.weight, packing.k) * units
    time = max(amount / problem.topology.links[link].capacity for link, amount in load.items())
    return Through(time, trees, depth, tuple(n.name for n in able))


def _pack(task: Task, switches: Iterable[NodeId], effort: Effort) -> Packing | None:
    """Pack with some switches as ranks, and cut off what only they would get."""
    topology, gpus = _with_ranks(task.topology, tuple(switches)), len(task.topology.ranks)
    if packable(topology):
        return None
    weights = (*task.weights, *(0 for _ in topology.ranks[gpus:]))
    packing = pack(Task(topology, weights), effort)
    if packing is None:
        return None
    return replace(packing, trees=tuple(replace(t, hops=_pruned(t.hops, gpus)) for t in packing.trees))


def _with_ranks(topology: Topology, switches: tuple[NodeId, ...]) -> Topology:
    """Return the machine with some switches as ranks, after the GPUs. Links keep their numbers."""
    gpus = [n for n in topology.nodes if n.kind is NodeKind.GPU]
    chosen = [replace(topology.nodes[v], kind=NodeKind.GPU) for v in switches]
    rest = [n for n in topology.nodes if n.kind is not NodeKind.GPU and n.id not in switches]
    order: list[Node] = [*gpus, *chosen, *rest]
    new = {n.id: NodeId(position) for position, n in enumerate(order)}
    links = tuple(replace(e, src=new[e.src], dst=new[e.dst]) for e in topology.links)
    return replace(topology, nodes=tuple(replace(n, id=new[n.id]) for n in order), links=links)


def _pruned(hops: tuple[Hop, ...], gpus: int) -> tuple[Hop, ...]:
    """Leave out hops that lead to no GPU."""
    useful: set[int] = set()
    kept: list[Hop] = []
    for hop in reversed(hops):  # children before parents
        if hop.child < gpus or hop.child in useful:
            useful.add(hop.parent)
            kept.append(hop)
    return tuple(reversed(kept))


def _links_deep(tree: Tree) -> int:
    depth: dict[int, int] = {tree.root: 0}
    for hop in tree.hops:
        depth[hop.child] = depth[hop.parent] + len(hop.path)
    return max(depth.values())
