"""Rings in the manner of NCCL: as many Hamiltonian cycles, at one rate each, as the links' capacity holds.

Like NCCL's graph search it tries rates from the highest down, takes one cycle after the other from what
capacity is left (the reverse of a cycle first), and keeps the set with the highest total rate. The search is
bounded; so it may miss a ring that exists, as NCCL's may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import Rank
from acclc.simulate.routes import Hop, Route, Routes, boxes

SEARCH_LIMIT = 1_000
"""Extensions of a path in the search of one cycle."""
RING_LIMIT = 16
"""Rings at most, as NCCL's channels."""
PARTS = 4
"""A unit of capacity is counted as so many, to halve and quarter it."""
START_LIMIT = 4
"""Ranks at which the search of one cycle begins: where it begins decides which ports it can cross boxes by."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Ranks in order, and the route from each to the next (the last to the first)."""

    ranks: tuple[Rank, ...]
    routes: tuple[Route, ...]


def find_rings(routes: Routes, group: Sequence[Rank]) -> tuple[Ring, ...]:
    """Return the rings over a group; where links form no cycle through it, one ring over shortest routes.

    Empty for fewer than two ranks, or where some rank cannot be reached.
    """
    unit = routes.topology.unit
    if len(group) < 2 or unit is None:
        return ()
    search = _Search(routes, group, unit)
    best: list[Ring] = []
    best_total = 0
    for rate in search.rates():
        rings = search.at_rate(rate)
        if len(rings) * rate > best_total:
            best, best_total = rings, len(rings) * rate
    return tuple(best) if best else _roundabout(routes, group)


class _Search:
    """Capacities as whole numbers (``PARTS`` to a unit), so that the search counts fast."""

    def __init__(self, routes: Routes, group: Sequence[Rank], unit: Fraction) -> None:
        self.routes = routes
        self.group = group
        self.capacity = [int(e.capacity / unit) * PARTS for e in routes.topology.links]
        self.width = {
            (a, b): int(hop.capacity / unit) * PARTS for a in group for b, hop in routes.hops[a].items() if b in group
        }

    def rates(self) -> list[int]:
        """Rates to try, highest first: those of hops, and parts of the highest, as rings may share a link."""
        widest = [max((self.width.get((a, b), 0) for b in self.group), default=0) for a in self.group]
        usable = {w for w in self.width.values() if w <= min(widest)}
        return sorted(usable | ({max(usable) // 2, max(usable) // 4} if usable else set()), reverse=True)

    def at_rate(self, rate: int) -> list[Ring]:
        """Take cycles of one rate from the links until none is found."""
        room = list(self.capacity)
        rings: list[Ring] = []
        while len(rings) < RING_LIMIT:
            order = None
            if len(rings) % 2:
                reverse = (rings[-1].ranks[0], *reversed(rings[-1].ranks[1:]))
                order = reverse if self._fits(reverse, room, rate) else None
            order = order or self._through_boxes(room, rate)
            for start in range(START_LIMIT):
                first = (len(rings) + start) % len(self.group)
                order = order or self._cycle((*self.group[first:], *self.group[:first]), room, rate, rate)
            if order is None:
                break
            hops = [self.routes.hops[a][b] for a, b in _around(order)]
            for hop in hops:
                for e in hop.path:
                    room[e] -= rate
            rings.append(Ring(order, tuple((hop,) for hop in hops)))
        return rings

    def _fits(self, order: Sequence[Rank], room: Sequence[int], rate: int) -> bool:
        left = list(room)
        for a, b in _around(order):
            hop = self.routes.hop(a, b)
            if hop is None or any(left[e] < rate for e in hop.path):
                return False
            for e in hop.path:
                left[e] -= rate
        return True

    def _through_boxes(self, room: Sequence[int], rate: int) -> tuple[Rank, ...] | None:
        """A cycle through one box after the other; a box is what hops wider than the rate connect.

        Within each box a cycle is found and cut open where the crossings still have room.
        """
        found = boxes(self.group, lambda a, b: self.width.get((a, b), 0) > rate)
        if len(found) < 2:
            return None
        inner: list[tuple[Rank, ...]] = []
        for box in found:
            cycle = tuple(box) if len(box) < 3 else self._cycle(box, room, rate, rate + 1)
            if cycle is None:
                return None
            inner.append(cycle)
        for turn in range(max(len(c) for c in inner)):
            order = tuple(c[(i + turn) % len(c)] for c in inner for i in range(len(c)))
            if self._fits(order, room, rate):
                return order
        return None

    def _cycle(
        self, members: Sequence[Rank], room: Sequence[int], rate: int, narrowest: int
    ) -> tuple[Rank, ...] | None:
        """Depth-first search of a cycle; goes over the widest hop first, then where little else leads."""
        path, taken, used = [members[0]], list[Hop](), {members[0]}
        left, inside, budget = list(room), set(members), SEARCH_LIMIT

        def usable(hop: Hop) -> bool:
            return self.width[hop.src, hop.dst] >= narrowest and all(left[e] >= rate for e in hop.path)

        def ways(here: Rank) -> list[Hop]:
            def onward(hop: Hop) -> tuple[int, int, int]:
                free = sum(1 for d in self.routes.hops[hop.dst] if d in inside and d not in used)
                return (-self.width[hop.src, hop.dst], free, hop.dst)

            hops = self.routes.hops[here].items()
            return sorted((h for d, h in hops if d in inside and d not in used and usable(h)), key=onward)

        options = [ways(path[0])]
        while options and budget > 0:
            if len(path) == len(members):
                closing = self.routes.hop(path[-1], path[0])
                if closing is not None and usable(closing):
                    return tuple(path)
            elif options[-1]:
                hop = options[-1].pop(0)
                budget -= 1
                for e in hop.path:
                    left[e] -= rate
                taken.append(hop)
                path.append(hop.dst)
                used.add(hop.dst)
                options.append(ways(hop.dst))
                continue
            options.pop()
            if taken:
                hop = taken.pop()
                used.discard(path.pop())
                for e in hop.path:
                    left[e] += rate
        return None


def _around(order: Sequence[Rank]) -> list[tuple[Rank, Rank]]:
    """Each rank with the one after it, the last with the first."""
    return list(zip(order, (*order[1:], order[0]), strict=True))


def _roundabout(routes: Routes, group: Sequence[Rank]) -> tuple[Ring, ...]:
    """One ring that always goes on to the nearest rank, over other ranks where it must."""
    order = [group[0]]
    while len(order) < len(group):
        rest = [r for r in group if r not in order]
        lengths = {r: routes.route(order[-1], r) for r in rest}
        near = [(len(route), r) for r, route in lengths.items() if route is not None]
        if not near:
            return ()
        order.append(min(near)[1])
    chosen = [routes.route(a, b) for a, b in _around(order)]
    found = tuple(route for route in chosen if route is not None)
    return (Ring(tuple(order), found),) if len(found) == len(order) else ()
