"""The machine that a hint on relays leaves: who may not pass on data is split in two, what arrives and what is sent.

A rank's own data gets from its sending half to its arriving half over a link that is never scarce; nothing gets back.
Any schedule that keeps to the hint runs on the split machine, so its bound holds for all of them; and only for them,
which is why it is reported beside the bound of the problem, and not in its place.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from acclc.bounds.compute import throughput_bound
from acclc.ir.problem import Link, LinkClass, LinkId, Node, NodeId, NodeKind, Place, Problem, Rank, Shard, Topology


def bound_of_hint(problem: Problem) -> Fraction | None:
    """Return the seconds a byte of shard of any schedule that keeps to the hint on relays; None without a hint.

    Raises UnreachableError where the hint leaves no way.
    """
    relays = problem.goal.hints.relays
    if relays is None or problem.topology.unit is None:
        return None
    split = [r for r in problem.topology.ranks if r not in relays]
    return throughput_bound(_split(problem, split)).time_per_byte if split else None


def _split(problem: Problem, split: list[Rank]) -> Problem:
    """The problem on the machine with some ranks split: their sending halves are ranks behind all others."""
    topology = problem.topology
    ranks, more = len(topology.ranks), len(split)
    sending = {r: NodeId(ranks + n) for n, r in enumerate(split)}

    def moved(node: NodeId) -> NodeId:
        return node if node < ranks else NodeId(node + more)

    def start(node: NodeId) -> NodeId:
        return sending.get(Rank(node), moved(node))

    halves = tuple(Node(n, f"{topology.nodes[r].name} sends", NodeKind.GPU) for r, n in sending.items())
    nodes = (
        *topology.nodes[:ranks],
        *halves,
        *(replace(n, id=NodeId(n.id + more)) for n in topology.nodes[ranks:]),
    )
    links = [replace(e, src=start(e.src), dst=moved(e.dst)) for e in topology.links]
    wide = LinkClass("own", _plenty(problem), Fraction(0))
    links += [Link(LinkId(len(links) + k), n, NodeId(r), 1, wide) for k, (r, n) in enumerate(sending.items())]
    machine = Topology(topology.name, nodes, tuple(links), topology.budgets)
    return replace(problem, topology=machine, shards=tuple(_from_halves(s, sending) for s in problem.shards))


def _from_halves(shard: Shard, sending: dict[Rank, NodeId]) -> Shard:
    return replace(shard, inputs=tuple(Place(Rank(sending.get(p.rank, NodeId(p.rank))), p.unit) for p in shard.inputs))


def _plenty(problem: Problem) -> Fraction:
    """More than all links carry, as often as there are shards."""
    return sum((e.capacity for e in problem.topology.links), Fraction(0)) * (1 + len(problem.shards))
