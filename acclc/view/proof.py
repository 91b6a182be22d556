"""What of a bound's certificate is drawn on the graph: node sets, links, a path; with a caption in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, NodeId, Problem, Topology
from acclc.ir.result import Certificate, Cut, CutSum, FlowDual, LongestPath, Partition, TreeDual
from acclc.view.words import plural, rate_words

SET_LIMIT = 8
"""So many node sets are drawn at most, the heaviest first: more hide the graph."""


@dataclass(frozen=True, slots=True)
class ProofSet:
    """A node set to outline, and the links that cross its border in the direction that limits."""

    nodes: tuple[NodeId, ...]
    links: tuple[LinkId, ...]
    caption: str


@dataclass(frozen=True, slots=True)
class Proof:
    """A certificate as a drawing. ``kind``: cut, cuts, partition, lengths or path."""

    kind: str
    caption: str
    sets: tuple[ProofSet, ...] = ()
    links: tuple[LinkId, ...] = ()


def proof_drawing(problem: Problem, certificate: Certificate) -> Proof:
    """Return what to draw for a certificate."""
    topology = problem.topology
    match certificate:
        case Cut():
            drawn = _cut(topology, certificate)
            return Proof("cut", drawn.caption, (drawn,), drawn.links)
        case CutSum():
            heaviest = sorted(certificate.cuts, key=lambda c: (-c[0], c[1].nodes))
            sets = tuple(_cut(topology, cut) for _, cut in heaviest[:SET_LIMIT])
            shown = "" if len(heaviest) <= SET_LIMIT else f", the {SET_LIMIT} heaviest drawn"
            caption = f"A weighted sum of {plural(len(heaviest), 'cut')}{shown}: together they limit more than one."
            return Proof("cuts", caption, sets)
        case Partition():
            return _partition(topology, certificate)
        case FlowDual() | TreeDual():
            links = tuple(link for link, length in certificate.lengths if length > 0)
            caption = (
                f"{plural(len(links), 'link')} with a length: whatever the routes, the traffic needs this much "
                "of their capacity."
            )
            return Proof("lengths", caption, (), links)
        case LongestPath():
            return _path(topology, certificate)


def _cut(topology: Topology, cut: Cut) -> ProofSet:
    """Outline the smaller side; the load goes out of ``cut.nodes``, so into the other side."""
    inside = set(cut.nodes)
    outside = tuple(n.id for n in topology.nodes if n.id not in inside)
    crossing = tuple(x for x in topology.links if x.src in inside and x.dst not in inside)
    capacity = sum((x.capacity for x in crossing), Fraction(0))
    inward = 0 < len(outside) < len(inside)
    nodes = outside if inward else cut.nodes
    verb = "enter" if inward else "leave"
    caption = (
        f"{plural(cut.load, 'shard')} must {verb} {_members(topology, nodes)} "
        f"over {plural(sum(x.count for x in crossing), 'link')} ({rate_words(capacity)})."
    )
    return ProofSet(tuple(nodes), tuple(x.id for x in crossing), caption)


def _partition(topology: Topology, partition: Partition) -> Proof:
    part_of = {node: i for i, part in enumerate(partition.parts) for node in part}
    crossing = [x for x in topology.links if part_of.get(x.src) != part_of.get(x.dst)]
    capacity = sum((x.capacity for x in crossing), Fraction(0))
    count = len(partition.parts)
    caption = (
        f"Every element needs at least {2 * (count - 1)} messages between these {count} parts, "
        f"which are joined by {rate_words(capacity)} in all."
    )
    sets = tuple(ProofSet(tuple(part), (), _members(topology, part)) for part in partition.parts)
    # Where every link crosses (each rank is a part), marking all of them would say nothing.
    marked = crossing if len(crossing) < len(topology.links) else []
    return Proof("partition", caption, sets, tuple(x.id for x in marked))


def _path(topology: Topology, path: LongestPath) -> Proof:
    nodes = topology.nodes
    caption = f"{nodes[path.src].name} and {nodes[path.dst].name} are the farthest apart; the shortest way is drawn."
    return Proof("path", caption, (), path.path)


def _members(topology: Topology, nodes: Sequence[NodeId]) -> str:
    names = [topology.nodes[n].name for n in nodes]
    if len(names) > 6:
        return f"{{{', '.join(names[:4])}, … ({len(names)} nodes)}}"
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
