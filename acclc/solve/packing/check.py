"""A packing looked at again, with none of the code that made it: trees span, units add up, links suffice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from acclc.ir.problem import LinkId, NodeKind, Problem
from acclc.ir.schedule import Schedule
from acclc.solve.packing.splitting import Scaled
from acclc.solve.packing.task import Task
from acclc.solve.packing.trees import Hop, Tree


def check_trees(scaled: Scaled, trees: Iterable[Tree]) -> None:
    """Raise AssertionError where trees do not carry k units of each shard within the capacities: our bug."""
    topology, units = scaled.task.topology, Counter[int]()
    trees = tuple(trees)
    sound: set[Hop] = set()
    """Trees share hops: the path of each is followed once."""
    for tree in trees:
        if tree.weight <= 0:
            raise AssertionError(f"a tree of {tree.root} carries nothing")
        units[tree.root] += tree.weight
        reached = {tree.root}
        for hop in tree.hops:
            if hop.parent not in reached or hop.child in reached:
                raise AssertionError(f"{hop} is no edge of an out-tree")
            reached.add(hop.child)
            if hop not in sound:
                _check_path(scaled.task, hop)
                sound.add(hop)
        if len(reached) != len(topology.ranks):
            raise AssertionError(f"a tree of {tree.root} does not span")
    for rank, weight in zip(topology.ranks, scaled.task.weights, strict=True):
        if units[rank] != weight * scaled.k:
            raise AssertionError(f"root {rank} has {units[rank]} units, not {weight * scaled.k}")
    for link, load in link_units(trees).items():
        if load > scaled.capacity[link]:
            raise AssertionError(f"link {link} carries {load} units of {scaled.capacity[link]}")


def _check_path(task: Task, hop: Hop) -> None:
    nodes, links = task.topology.nodes, task.topology.links
    at = [links[e].src for e in hop.path] + [links[hop.path[-1]].dst]
    chained = all(links[e].dst == end for e, end in zip(hop.path, at[1:], strict=True))
    inner = all(nodes[v].kind is not NodeKind.GPU for v in at[1:-1])
    if not chained or not inner or len(set(at)) != len(at):
        raise AssertionError(f"{hop} has no simple path through switches")
    if at[0] != int(hop.parent) or at[-1] != int(hop.child):
        raise AssertionError(f"the path of {hop} does not join its ends")


def link_units(trees: Iterable[Tree]) -> Counter[LinkId]:
    """Return how many units each link carries."""
    load: Counter[LinkId] = Counter()
    for tree in trees:
        for hop in tree.hops:
            for link in hop.path:
                load[link] += tree.weight
    return load


def task_seconds(task: Task, k: int, trees: Iterable[Tree]) -> Fraction:
    """Return what the fullest link takes for a task, in seconds a byte of shard."""
    links = task.topology.links
    return max((Fraction(n, k) / links[e].capacity for e, n in link_units(trees).items()), default=Fraction(0))


def seconds_per_byte(problem: Problem, schedule: Schedule) -> Fraction:
    """Return what the fullest link or budget takes, from the transfers themselves, in seconds a byte of shard."""
    topology = problem.topology
    load = [Fraction(0)] * len(topology.links)
    for t in schedule.transfers:
        for link in t.path:
            load[link] += schedule.chunks[t.chunk].weight
    needs = [n / e.capacity for n, e in zip(load, topology.links, strict=True)]
    needs += [sum((load[e] for e in b.links), Fraction(0)) / b.capacity for b in topology.budgets]
    return max(needs, default=Fraction(0))
