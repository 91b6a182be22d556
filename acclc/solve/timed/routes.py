"""Where chunks go, for one size: trees that weigh the latency of a way against the load on its links.

One chunk after another grows its tree along the cheapest ways (Prim and Dijkstra at once); a way costs its latency, the
time of sending, and that time again multiplied by a price, which rises steeply as a link nears the time that is aimed
at. Then every chunk is taken off and laid anew, a few times over, at the prices that the others make (as routers of
circuits do: McMurchie and Ebeling, PathFinder, 1995).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acclc.ir.problem import Rank, ShardId
from acclc.solve.timed.machine import TimedMachine, Way


@dataclass(frozen=True, slots=True)
class Item:
    """A chunk, from any of ``starts`` to all of ``ends`` (as the machine is looked at)."""

    shard: ShardId
    index: int
    starts: tuple[Rank, ...]
    ends: tuple[Rank, ...]


@dataclass(frozen=True, slots=True)
class Hop:
    """One way of an item's tree; ``before``: the number of the hop that brings what it sends, -1 for a start."""

    way: Way
    before: int


Tree = tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Tariff:
    """What load costs. ``aim``: ticks in which all should have passed every row; ``steepness``: at that load."""

    aim: int
    steepness: float

    def price(self, load: int) -> float:
        """The price of a row's time."""
        used = load / self.aim
        return used * (0.25 + self.steepness * used * used * used)


class Loads:
    """The load of every row, in ticks, and its price; routers of one machine, forward and backward, may share it."""

    def __init__(self, rows: int, tariff: Tariff) -> None:
        self._tariff = tariff
        self.load = [0] * rows
        self.price = [0.0] * rows

    def book(self, tree: Tree, sign: int) -> None:
        """Add a tree, or take it off."""
        touched: dict[int, None] = {}
        for hop in tree:
            for row, busy in hop.way.rows:
                self.load[row] += sign * busy
                touched[row] = None
        for row in touched:
            self.price[row] = self._tariff.price(self.load[row])


class Router:
    """Lays the trees of items."""

    def __init__(self, machine: TimedMachine, items: Sequence[Item], loads: Loads) -> None:
        self.machine, self.items, self.loads = machine, items, loads
        self.trees: list[Tree] = [()] * len(items)

    def sweep(self) -> bool:
        """Lay every item anew; return whether all their ends can be reached."""
        for number, item in enumerate(self.items):
            self.loads.book(self.trees[number], -1)
            tree = self._grown(item)
            if tree is None:
                return False
            self.trees[number] = tree
            self.loads.book(tree, 1)
        return True

    def _cost(self, way: Way) -> float:
        price = self.loads.price
        cost = float(way.delay + way.sending)
        for row, busy in way.rows:
            cost += busy * price[row]
        return cost

    def _grown(self, item: Item) -> Tree | None:
        """Grow the tree of an item; what reaches an end is part of it, and costs others only its latency from then."""
        machine = self.machine
        reach: dict[Rank, float] = dict.fromkeys(item.starts, 0.0)
        tree = _Tree(machine, reach)
        missing = set(item.ends) - set(reach)
        best: dict[Rank, float] = dict(reach)
        via: dict[Rank, Way] = {}
        heap = [(0.0, int(r)) for r in sorted(reach)]
        starts = set(item.starts)
        while missing and heap:
            cost, node = heapq.heappop(heap)
            u = Rank(node)
            if cost > best[u]:
                continue
            if u in missing:
                for rank in tree.join(u, via):
                    missing.discard(rank)
                    best[rank] = reach[rank]
                    self._spread(rank, rank in starts, reach[rank], reach, best, via, heap)
            else:
                self._spread(u, u in starts, cost, reach, best, via, heap)
        return None if missing else tuple(tree.hops)

    def _spread(
        self,
        u: Rank,
        own: bool,
        cost: float,
        reach: dict[Rank, float],
        best: dict[Rank, float],
        via: dict[Rank, Way],
        heap: list[tuple[float, int]],
    ) -> None:
        machine = self.machine
        if not own and u not in machine.relays:
            return
        for way in machine.leaving[u]:
            v = machine.head(way)
            if v in reach:
                continue
            new = cost + self._cost(way)
            if new < best.get(v, float("inf")):
                best[v] = new
                via[v] = way
                heapq.heappush(heap, (new, int(v)))


class _Tree:
    """A tree under construction: its hops, and the latency at which each of its ranks is reached."""

    def __init__(self, machine: TimedMachine, reach: dict[Rank, float]) -> None:
        self._machine, self._reach = machine, reach
        self.hops: list[Hop] = []
        self._entry: dict[Rank, int] = {}

    def join(self, end: Rank, via: dict[Rank, Way]) -> Iterable[Rank]:
        """Take in the way to an end; return the ranks that are new in the tree."""
        path: list[Way] = []
        u = end
        while u not in self._reach:
            path.append(via[u])
            u = self._machine.tail(via[u])
        joined: list[Rank] = []
        for way in reversed(path):
            before, v = self._machine.tail(way), self._machine.head(way)
            self.hops.append(Hop(way, self._entry.get(before, -1)))
            self._entry[v] = len(self.hops) - 1
            self._reach[v] = self._reach[before] + way.delay + way.sending
            joined.append(v)
        return joined
