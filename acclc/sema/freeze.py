"""From a built machine to the Topology of the problem: GPUs first, numbered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from acclc.ir.problem import Budget, Link, LinkId, Node, NodeId, NodeKind, Rank, Topology
from acclc.sema.machine import Machine


def gpu_first(machine: Machine) -> list[int]:
    """Return for each node of the machine its NodeId: all GPUs in order of declaration, then the others."""
    is_other = [node.kind is not NodeKind.GPU for node in machine.nodes]
    order = sorted(range(len(is_other)), key=is_other.__getitem__)  # stable
    ids = [0] * len(order)
    for new, old in enumerate(order):
        ids[old] = new
    return ids


def freeze(machine: Machine) -> Topology:
    """Return the Topology. A node's position is given where it has two or more indices."""
    ids = gpu_first(machine)
    nodes = [
        Node(
            NodeId(ids[number]),
            node.name,
            node.kind,
            node.can_multicast,
            node.can_reduce,
            node.indices if len(node.indices) > 1 else (),
            node.span,
        )
        for number, node in enumerate(machine.nodes)
    ]
    links = tuple(
        Link(LinkId(number), NodeId(ids[link.src]), NodeId(ids[link.dst]), link.count, link.cls, link.span)
        for number, link in enumerate(machine.links)
    )
    budgets = tuple(
        Budget(budget.name, tuple(LinkId(x) for x in budget.links), budget.capacity, budget.span)
        for budget in machine.budgets
    )
    return Topology(machine.name, tuple(sorted(nodes, key=lambda n: n.id)), links, budgets, machine.doc)


def induced(topology: Topology, group: Collection[Rank]) -> Topology:
    """Return the machine as a group sees it: without the links of GPUs outside, which run nothing, so pass nothing on.

    Nodes keep their numbers, so ranks stay global; links and budgets are numbered anew.
    """
    outside = set(topology.ranks) - set(group)
    if not outside:
        return topology
    kept = [link for link in topology.links if outside.isdisjoint((Rank(link.src), Rank(link.dst)))]
    number = {link.id: LinkId(new) for new, link in enumerate(kept)}
    links = tuple(replace(link, id=number[link.id]) for link in kept)
    budgets = (replace(b, links=tuple(number[x] for x in b.links if x in number)) for b in topology.budgets)
    return replace(topology, links=links, budgets=tuple(b for b in budgets if b.links))
