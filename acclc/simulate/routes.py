"""Ways between GPUs: single hops through nodes that only pass on, and chains of hops through other GPUs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, NodeKind, Rank, Topology


@dataclass(frozen=True, slots=True)
class Hop:
    """One passage from GPU to GPU: the links of a transfer's path, and their narrowest capacity (bytes/s)."""

    src: Rank
    dst: Rank
    path: tuple[LinkId, ...]
    capacity: Fraction


Route = tuple[Hop, ...]


class Routes:
    """All hops of a topology (the widest, then shortest, for each pair), and shortest routes over them."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.hops: dict[Rank, dict[Rank, Hop]] = {r: _hops_from(topology, r) for r in topology.ranks}
        self._trees: dict[Rank, dict[Rank, Hop]] = {}

    def hop(self, src: Rank, dst: Rank) -> Hop | None:
        """Return the direct hop between two ranks, or None."""
        return self.hops[src].get(dst)

    def tree(self, root: Rank) -> dict[Rank, Hop]:
        """Return a shortest-route tree: for every rank in reach the hop by which it is entered.

        Fewest hops, then the widest narrowest hop, then the lowest ranks.
        """
        if root not in self._trees:
            entered: dict[Rank, Hop] = {}
            heap: list[tuple[int, Fraction, int, int, Hop | None]] = [(0, Fraction(0), root, -1, None)]
            seen: set[Rank] = set()
            while heap:
                hops, narrow, here, _, hop = heapq.heappop(heap)
                rank = Rank(here)
                if rank in seen:
                    continue
                seen.add(rank)
                if hop is not None:
                    entered[rank] = hop
                for following in self.hops[rank].values():
                    if following.dst not in seen:
                        width = -following.capacity if hop is None else max(narrow, -following.capacity)
                        heapq.heappush(heap, (hops + 1, width, following.dst, rank, following))
            self._trees[root] = entered
        return self._trees[root]

    def route(self, src: Rank, dst: Rank) -> Route | None:
        """Return a shortest chain of hops, or None where there is none."""
        tree = self.tree(src)
        if dst not in tree:
            return None
        chain: list[Hop] = []
        here = dst
        while here != src:
            chain.append(tree[here])
            here = tree[here].src
        return tuple(reversed(chain))


def boxes(group: Sequence[Rank], close: Callable[[Rank, Rank], bool]) -> list[list[Rank]]:
    """Return the group in sets that ``close`` pairs connect, each in the group's order."""
    found: list[list[Rank]] = []
    for rank in group:
        near = [box for box in found if any(close(rank, r) or close(r, rank) for r in box)]
        found = [box for box in found if box not in near]
        found.append([*(r for box in near for r in box), rank])
    position = {r: i for i, r in enumerate(group)}
    return sorted((sorted(box, key=lambda r: position[r]) for box in found), key=lambda box: position[box[0]])


def _hops_from(topology: Topology, source: Rank) -> dict[Rank, Hop]:
    """The widest way (then the one with fewest links) to each GPU that no other GPU lies on."""
    out: dict[int, list[LinkId]] = {}
    for e in topology.links:
        if e.src != e.dst:
            out.setdefault(e.src, []).append(e.id)
    found: dict[Rank, Hop] = {}
    settled: set[int] = set()
    heap: list[tuple[Fraction, int, tuple[LinkId, ...], int]] = [(Fraction(0), 0, (), source)]
    while heap:
        width, length, path, here = heapq.heappop(heap)
        if here in settled:
            continue
        settled.add(here)
        if path and topology.nodes[here].kind is NodeKind.GPU:
            found[Rank(here)] = Hop(source, Rank(here), path, -width)
            continue
        for link in out.get(here, ()):
            e = topology.links[link]
            if e.dst not in settled:
                narrowest = -e.capacity if not path else max(width, -e.capacity)
                heapq.heappush(heap, (narrowest, length + 1, (*path, link), e.dst))
    found.pop(source, None)
    return dict(sorted(found.items()))
