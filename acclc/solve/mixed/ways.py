"""The cheapest tree for a bundle, where every link has a price."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from acclc.ir.problem import LinkId, NodeKind, Rank, Topology
from acclc.solve.mixed.arborescence import Arc, arborescence
from acclc.solve.mixed.task import Bundle
from acclc.solve.packing.trees import Hop, Path, Tree

Hops = tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """How a bundle's shard may travel: up an in-tree (its hops of the reversed machine), down an out-tree, or both."""

    gather: Tree | None
    spread: Tree | None

    def load(self) -> Counter[LinkId]:
        """Return how often each link is used."""
        return Counter(e for t in (self.gather, self.spread) if t is not None for hop in t.hops for e in hop.path)


class Prices:
    """Cheapest hops and paths between the ranks, for one set of prices. GPUs that may not relay only start or end."""

    def __init__(self, topology: Topology, relays: frozenset[Rank], prices: Sequence[float]) -> None:
        self._topology = topology
        self.relays = relays
        self._ranks = len(topology.ranks)
        self._paths: list[dict[int, Path]] = []
        self.hop = np.full((self._ranks, self._ranks), np.inf)
        out: list[list[tuple[int, LinkId]]] = [[] for _ in topology.nodes]
        for e in topology.links:
            out[e.src].append((e.dst, e.id))
        for rank in range(self._ranks):
            self._paths.append(self._from(rank, out, prices))
        self.forward = _Closure(self.hop, relays)
        self.backward = _Closure(self.hop.T, relays)

    def _from(self, rank: int, out: list[list[tuple[int, LinkId]]], prices: Sequence[float]) -> dict[int, Path]:
        """Find the cheapest way to every other GPU through no GPU; shorter ones among equals."""
        heap: list[tuple[float, int, int, Path]] = [(0.0, 0, rank, ())]
        done: set[int] = set()
        paths: dict[int, Path] = {}
        while heap:
            cost, length, v, path = heapq.heappop(heap)
            if v in done:
                continue
            done.add(v)
            if v != rank and self._topology.nodes[v].kind is NodeKind.GPU:
                paths[v] = path
                self.hop[rank, v] = cost
                continue
            for w, link in out[v]:
                if w not in done:
                    heapq.heappush(heap, (cost + prices[link], length + 1, w, (*path, link)))
        return paths

    def path(self, src: int, dst: int) -> Path:
        """Return the links of a hop."""
        return self._paths[src][dst]


class _Closure:
    """Distances through relays, and the first hop of each."""

    def __init__(self, hop: NDArray[np.float64], relays: frozenset[Rank]) -> None:
        self.hop = hop
        self.distance = hop.copy()
        np.fill_diagonal(self.distance, 0.0)
        n = len(hop)
        self.first = np.tile(np.arange(n), (n, 1))
        for w in sorted(relays):
            through = self.distance[:, w, None] + self.distance[None, w, :]
            better = through < self.distance - 1e-15
            self.distance = np.where(better, through, self.distance)
            self.first = np.where(better, self.first[:, w, None], self.first)

    def nodes(self, src: int, dst: int) -> list[int]:
        """Return the ranks on the cheapest path, both ends included."""
        found = [src]
        while found[-1] != dst:
            found.append(int(self.first[found[-1], dst]))
        return found

    def out_tree(self, starts: Iterable[int], ends: Iterable[int], relays: frozenset[Rank]) -> _Grown | None:
        """Return the arcs of a cheap forest from the starts to all ends, parents first.

        One end: a cheapest path. Else paths to the nearest end in turn (Takahashi and Matsuyama, 1980), then the
        cheapest tree over the ranks that these use, without leaves that need nothing.
        """
        roots = sorted(set(starts))
        missing = sorted(set(ends) - set(roots))
        parent: dict[int, int] = {}
        reached, total = list(roots), 0.0
        while missing:
            senders = [v for v in reached if v in roots or v in relays]
            table = self.distance[np.ix_(senders, missing)]
            at = int(table.argmin())
            cost = float(table.flat[at])
            if not np.isfinite(cost):
                return None
            total += cost
            path = self.nodes(senders[at // len(missing)], missing[at % len(missing)])
            for u, v in pairwise(path):
                if v not in parent and v not in roots:
                    parent[v] = u
                    reached.append(v)
            missing = [v for v in missing if v not in parent]
        if len(reached) > len(roots) + 1:
            parent = self._respanned(roots, reached, set(ends), relays) or parent
        return _Grown(parent, sum(float(self.hop[u, v]) for v, u in parent.items()))

    def _respanned(
        self, roots: list[int], reached: list[int], ends: set[int], relays: frozenset[Rank]
    ) -> dict[int, int] | None:
        """Return the cheapest tree over some ranks, as parents; one node stands for all roots."""
        outer = len(self.hop)
        inner = [v for v in reached if v not in roots]
        arcs = []
        for v in inner:
            root = min(roots, key=lambda r: float(self.hop[r, v]))
            if np.isfinite(self.hop[root, v]):
                arcs.append(Arc(outer, v, float(self.hop[root, v])))
            arcs += [
                Arc(u, v, float(self.hop[u, v]))
                for u in inner
                if u != v and u in relays and np.isfinite(self.hop[u, v])
            ]
        found = arborescence([outer, *inner], arcs, outer)
        if found is None:
            return None
        parent = {
            a.dst: a.src if a.src != outer else min(roots, key=lambda r: float(self.hop[r, a.dst])) for a in found
        }
        while True:
            used = set(parent.values())
            idle = [v for v in parent if v not in used and v not in ends]
            if not idle:
                return parent
            for v in idle:
                del parent[v]


@dataclass(frozen=True, slots=True)
class _Grown:
    parent: dict[int, int]
    cost: float


def cheapest(prices: Prices, bundle: Bundle) -> tuple[Way, float] | None:
    """Return a cheap way for a bundle, and its cost; None where there is none."""
    if not bundle.reduced:
        spread = prices.forward.out_tree(bundle.origins, bundle.ends, prices.relays)
        return None if spread is None else (Way(None, _spread_tree(prices, spread, bundle.origins[0])), spread.cost)
    best: tuple[Way, float] | None = None
    for root in _roots(prices, bundle):
        gather = prices.backward.out_tree((root,), bundle.origins, prices.relays)
        spread = prices.forward.out_tree((root,), bundle.ends, prices.relays)
        if gather is None or spread is None:
            continue
        cost = gather.cost + spread.cost
        if best is None or cost < best[1]:
            down = _spread_tree(prices, spread, root) if spread.parent else None
            best = Way(_gather_tree(prices, gather, root), down), cost
    return best


def _roots(prices: Prices, bundle: Bundle) -> tuple[Rank, ...]:
    """Return where a reduction may be complete: at its one end, or anywhere."""
    return bundle.ends if len(bundle.ends) == 1 else tuple(sorted({*bundle.ends, *prices.relays}))


def _ordered(grown: _Grown) -> list[tuple[int, int]]:
    """Return (parent, child), parents first, in order of their level, then of the child."""
    level: dict[int, int] = {}

    def depth(v: int) -> int:
        if v not in grown.parent:
            return 0
        if v not in level:
            level[v] = depth(grown.parent[v]) + 1
        return level[v]

    return [(grown.parent[v], v) for v in sorted(grown.parent, key=lambda v: (depth(v), v))]


def _spread_tree(prices: Prices, grown: _Grown, root: int) -> Tree:
    hops = tuple(Hop(Rank(u), Rank(v), prices.path(u, v)) for u, v in _ordered(grown))
    return Tree(Rank(root), 1, hops)


def _gather_tree(prices: Prices, grown: _Grown, root: int) -> Tree:
    """An out-tree of the reversed machine: its paths are those of the machine, read backward."""
    hops = tuple(Hop(Rank(u), Rank(v), prices.path(v, u)[::-1]) for u, v in _ordered(grown))
    return Tree(Rank(root), 1, hops)
