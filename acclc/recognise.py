"""Which topology of the library a machine is, and how the ranks correspond.

Two machines are the same where a map of GPUs to GPUs and switches to switches takes links to links and all capacities
in one proportion: rates may differ (nominal here, effective there), what is wired may not. NVLink and xGMI are also
looked at alone, since the library leaves PCIe and network cards out of its boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from acclc.fabrics import restrict
from acclc.ir.problem import NodeId, NodeKind, Topology

MAX_RANKS = 256
"""Larger machines are not compared."""
MAX_STEPS = 100_000
"""Pairs of nodes that a search for a map looks at, before it gives up."""
FAST = ("nvlink", "xgmi")


@dataclass(frozen=True, slots=True)
class Match:
    """A library topology that a machine is. ``ranks[i]`` is the machine's rank that plays rank i of the library's."""

    name: str
    ranks: tuple[int, ...]
    kinds: tuple[str, ...]
    """The kinds of links that were compared; empty for all."""
    same_rates: bool


class _GaveUpError(Exception):
    pass


def recognise(topology: Topology) -> tuple[Match, ...]:
    """Return the library topologies that a machine is, the likeliest first."""
    if not 1 < len(topology.ranks) <= MAX_RANKS:
        return ()
    found: list[tuple[int, int, Match]] = []
    parts = [((), topology)] + [((kind,), _part(topology, kind)) for kind in FAST if _has(topology, kind)]
    for kinds, part in parts:
        graph = _Graph(part)
        if not graph.edges:
            continue
        for order, name in enumerate(_candidates(len(part.ranks), len(graph.edges))):
            match = _compare(graph, name, kinds)
            if match is not None:
                found.append((-_likeness(part, name), order, match))
        if found:
            break
    seen: set[str] = set()
    result = []
    for _, _, match in sorted(found, key=lambda f: f[:2]):
        if match.name not in seen:
            seen.add(match.name)
            result.append(match)
    return tuple(result)


def _has(topology: Topology, kind: str) -> bool:
    kinds = {c.kind for c in topology.classes}
    return kind in kinds and len(kinds) > 1


def _part(topology: Topology, kind: str) -> Topology:
    """The links of one kind, and the nodes that they touch."""
    part = restrict(topology, (kind,))
    touched = {n for e in part.links for n in (e.src, e.dst)}
    kept = [n for n in topology.nodes if n.kind is NodeKind.GPU or n.id in touched]
    number = {n.id: NodeId(i) for i, n in enumerate(kept)}
    return replace(
        part,
        nodes=tuple(replace(n, id=number[n.id]) for n in kept),
        links=tuple(replace(e, src=number[e.src], dst=number[e.dst]) for e in part.links),
    )


class _Graph:
    """A machine as a directed graph: capacity of each pair, in units of the smallest."""

    def __init__(self, topology: Topology) -> None:
        self.kinds = [n.kind for n in topology.nodes]
        total: dict[tuple[int, int], Fraction] = {}
        for e in topology.links:
            total[e.src, e.dst] = total.get((e.src, e.dst), Fraction(0)) + e.capacity
        least = min(total.values(), default=Fraction(1))
        self.least = least
        self.edges: dict[tuple[int, int], Fraction] = {pair: c / least for pair, c in total.items()}
        self.budgets = len(topology.budgets)
        self.shape = self._shape()

    def _shape(self) -> Any:
        """Colours of nodes, refined: equal for machines that are the same, and mostly only for them."""
        out: dict[int, list[tuple[int, Fraction]]] = {}
        into: dict[int, list[tuple[int, Fraction]]] = {}
        for (a, b), c in self.edges.items():
            out.setdefault(a, []).append((b, c))
            into.setdefault(b, []).append((a, c))
        colours: list[Any] = [k.value for k in self.kinds]
        for _ in range(4):
            raw = [
                (
                    colours[n],
                    tuple(sorted((colours[m], c) for m, c in out.get(n, ()))),
                    tuple(sorted((colours[m], c) for m, c in into.get(n, ()))),
                )
                for n in range(len(self.kinds))
            ]
            known = {r: i for i, r in enumerate(sorted(set(raw)))}
            names = [known[r] for r in raw]
            self.colours = names
            colours = names
            shape = sorted(Counter(raw).items())
        return shape if self.kinds else ()

    def keeps(self, other: _Graph, nodes: Mapping[int, int]) -> bool:
        """Whether a map takes every link of this graph to one of the same capacity, and no link is left over."""
        image = {(nodes[a], nodes[b]): c for (a, b), c in self.edges.items()}
        return image == other.edges and all(other.kinds[nodes[n]] is k for n, k in enumerate(self.kinds))


def _candidates(ranks: int, edges: int) -> Iterator[str]:
    """Names to compare with; the generic ones only where the number of linked pairs fits."""
    from acclc.library import names

    generic = {"full", "hypercube", "line", "mesh", "ring", "star", "torus"}
    yield from (n for n in names() if n not in generic)
    n = ranks
    sizes = {
        f"full({n})": n * (n - 1),
        f"star({n})": 2 * n,
        f"ring({n})": 2 * n if n > 2 else 2,
        f"line({n})": 2 * n - 2,
    }
    if n & (n - 1) == 0:
        sizes[f"hypercube({n.bit_length() - 1})"] = n * (n.bit_length() - 1)
    for a in range(2, int(n**0.5) + 1):
        if n % a == 0:
            b = n // a
            sizes[f"mesh({a}, {b})"] = 2 * (a * (b - 1) + b * (a - 1))
            sizes[f"torus({a}, {b})"] = n * ((2 if a > 2 else 1) + (2 if b > 2 else 1))
    yield from (name for name, size in sizes.items() if size == edges)


@lru_cache(maxsize=64)
def _library(name: str) -> tuple[Topology, _Graph]:
    from acclc.sema import topology_named

    topology = topology_named(name)
    return topology, _Graph(topology)


def _compare(graph: _Graph, name: str, kinds: tuple[str, ...]) -> Match | None:
    topology, other = _library(name)
    if len(graph.edges) != len(other.edges) or graph.shape != other.shape or graph.budgets != other.budgets:
        return None
    nodes = _map(other, graph)
    if nodes is None:
        return None
    ranks = tuple(nodes[r] for r in topology.ranks)
    return Match(name, ranks, kinds, graph.least == other.least)


def _map(library: _Graph, machine: _Graph) -> dict[int, int] | None:
    """Return library node -> machine node, checked; the identity where that is one."""
    same = {n: n for n in range(len(library.kinds))}
    if library.keeps(machine, same):
        return same
    try:
        nodes = _search(library, machine)
    except _GaveUpError:
        return None
    return nodes if nodes is not None and library.keeps(machine, nodes) else None


def _search(library: _Graph, machine: _Graph) -> dict[int, int] | None:
    import networkx as nx
    from networkx.algorithms.isomorphism import DiGraphMatcher

    class Matcher(DiGraphMatcher):  # type: ignore[misc]
        steps = 0

        def semantic_feasibility(self, a: int, b: int) -> bool:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise _GaveUpError
            if library.colours[a] != machine.colours[b]:
                return False
            first, second = library.edges, machine.edges
            return all(
                first.get((a, n)) == second.get((b, m)) and first.get((n, a)) == second.get((m, b))
                for n, m in self.core_1.items()
            )

    graphs = []
    for g in (library, machine):
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(g.kinds)))
        graph.add_edges_from(sorted(g.edges))
        graphs.append(graph)
    matcher = Matcher(*graphs)
    return next((dict(m) for m in matcher.isomorphisms_iter()), None)


def _likeness(topology: Topology, name: str) -> int:
    """How much else agrees: the kind of the links, the nominal rates, what switches can do."""
    other, _ = _library(name)
    score = 0
    if {c.kind for c in topology.classes} == {c.kind for c in other.classes}:
        score = 6 if sorted(_nominal(topology)) == sorted(_nominal(other)) else 4
    abilities = [sorted((n.can_multicast, n.can_reduce) for n in t.nodes) for t in (topology, other)]
    return score + (abilities[0] == abilities[1])


def _nominal(topology: Topology) -> Iterator[Fraction]:
    return (e.count * (e.cls.nominal or e.cls.bandwidth) for e in topology.links)
