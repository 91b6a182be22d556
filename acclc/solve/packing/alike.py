"""Equal parts of a machine told in the same numbers: one packing serves them all, however they were numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acclc.ir.problem import LinkId, Rank, Topology

if TYPE_CHECKING:
    import networkx as nx

LARGEST = 64
"""Parts with more nodes are compared as they are numbered: to look for a renumbering might take long."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some ranks of a machine and some of its links, as a machine: ``ranks`` and ``links`` are their numbers there."""

    machine: Topology
    ranks: tuple[Rank, ...]
    links: tuple[LinkId, ...]


def alike(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts, each as a renumbered copy of the first that it is equal to."""
    first: dict[object, list[tuple[Topology, nx.DiGraph[int]]]] = {}
    known: set[Topology] = set()
    result: list[Part] = []
    for part in parts:
        if part.machine not in known and len(part.machine.nodes) <= LARGEST:
            others = first.setdefault(_shape(part.machine), [])
            graph = _graph(part.machine) if others else None
            part = next(filter(None, (_as(part, graph, *other) for other in others)), part)
            if part.machine not in known:
                others.append((part.machine, graph or _graph(part.machine)))
        known.add(part.machine)
        result.append(part)
    return tuple(result)


Wires = Mapping[tuple[int, int], list[tuple[Any, LinkId]]]


def _wires(machine: Topology) -> Wires:
    """Return the links from node to node with what must be equal of them, in that order."""
    found: dict[tuple[int, int], list[tuple[Any, LinkId]]] = {}
    for e in machine.links:
        found.setdefault((e.src, e.dst), []).append((e.capacity, e.id))
    return {pair: sorted(links) for pair, links in found.items()}


def _shape(machine: Topology) -> object:
    """Return something that equal machines have in common."""
    kinds = Counter(n.kind for n in machine.nodes)
    around: dict[int, list[Any]] = {n.id: [] for n in machine.nodes}
    for e in machine.links:
        around[e.src].append((e.capacity, "out"))
        around[e.dst].append((e.capacity, "in"))
    return tuple(sorted(kinds.items())), tuple(sorted(tuple(sorted(links)) for links in around.values()))


def _graph(machine: Topology) -> nx.DiGraph[int]:
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    for n in machine.nodes:
        graph.add_node(n.id, kind=(n.kind, n.can_multicast, n.can_reduce))
    for (u, v), links in _wires(machine).items():
        graph.add_edge(u, v, rates=[rate for rate, _ in links])
    return graph


def _as(part: Part, graph: nx.DiGraph[int] | None, machine: Topology, other: nx.DiGraph[int]) -> Part | None:
    """Return a part in the numbers of an equal machine; None where it is not equal."""
    from networkx.algorithms.isomorphism import DiGraphMatcher

    matcher: Any = DiGraphMatcher(other, graph, node_match=lambda a, b: a == b, edge_match=lambda a, b: bool(a == b))
    if not matcher.is_isomorphic():
        return None
    node: dict[int, int] = matcher.mapping
    mine = _wires(part.machine)
    link: dict[LinkId, LinkId] = {}
    for (u, v), links in _wires(machine).items():
        for (_, theirs), (_, own) in zip(links, mine[node[u], node[v]], strict=True):
            link[theirs] = own
    return Part(
        machine,
        tuple(part.ranks[node[r]] for r in machine.ranks),
        tuple(part.links[link[e.id]] for e in machine.links),
    )
