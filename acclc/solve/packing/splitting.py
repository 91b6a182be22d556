"""Switches out of the way: pairs of links through them become logical edges, and every rank still gets its flow.

A switch as strong inward as outward can be split off edge by edge so that the max-flow from the super source to each
rank stays whole (Mader; Frank; Bang-Jensen, Frank and Jackson 1995; ForestColl, Zhao et al. 2024). How much of a pair
(u -> w, w -> t) may be split is found by asking the ranks, the one that objected last first; a shortfall tells by how
much too much it was. Where all ports of a switch are equal, a circulant (each port's rate spread evenly over the
others) is tried as a whole first: it takes one round of questions, and makes shallow trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from acclc.ir.problem import LinkId, NodeKind, Rank
from acclc.solve.packing.flows import Effort, FlowGraph
from acclc.solve.packing.task import Task

Path = tuple[LinkId, ...]


@dataclass(frozen=True, slots=True)
class Scaled:
    """A task in whole numbers: k units of a shard go from a root; link e may carry ``capacity[e]`` of them."""

    task: Task
    k: int
    capacity: tuple[int, ...]

    @property
    def demand(self) -> int:
        """Units that every rank must be able to get."""
        return self.task.total * self.k


@dataclass
class Routes:
    """For each pair of ranks the physical paths between them, each with the units it may carry."""

    paths: dict[tuple[int, int], dict[Path, int]] = field(default_factory=dict)

    def give(self, u: int, v: int, path: Path, amount: int) -> None:
        """Add to what a path may carry."""
        of_pair = self.paths.setdefault((u, v), {})
        of_pair[path] = of_pair.get(path, 0) + amount

    def take(self, u: int, v: int, amount: int) -> list[tuple[Path, int]]:
        """Remove so many units from a pair, from its paths in order."""
        of_pair, taken = self.paths[u, v], []
        while amount:
            path, there = next(iter(of_pair.items()))
            part = min(there, amount)
            taken.append((path, part))
            amount -= part
            if part == there:
                del of_pair[path]
            else:
                of_pair[path] = there - part
        return taken


def logical_routes(scaled: Scaled, effort: Effort) -> Routes:
    """Return paths between ranks within the capacities, such that every rank can still get all it must.

    Raises TimeUp.
    """
    splitter = _Splitter(scaled, effort)
    for node in scaled.task.topology.nodes:
        if node.kind is not NodeKind.GPU:
            splitter.remove(node.id)
    return splitter.routes


class _Splitter:
    def __init__(self, scaled: Scaled, effort: Effort) -> None:
        topology = scaled.task.topology
        self.routes = Routes()
        self._links = topology.links
        self._graph = FlowGraph(effort)
        self._source = len(topology.nodes)
        self._demand = scaled.demand
        self._sinks: list[Rank] = list(topology.ranks)
        for link, capacity in zip(topology.links, scaled.capacity, strict=True):
            if capacity:
                self._graph.add(link.src, link.dst, capacity)
                self.routes.give(link.src, link.dst, (link.id,), capacity)
        for rank, weight in zip(topology.ranks, scaled.task.weights, strict=True):
            self._graph.set(self._source, rank, weight * scaled.k)

    def remove(self, switch: int) -> None:
        """Split off all links of a switch."""
        into = [(u, c) for u, v, c in self._graph.arcs() if v == switch]
        out = [(v, c) for u, v, c in self._graph.arcs() if u == switch]
        if self._circulant(switch, into, out):
            return
        for u, _ in into:
            # a pair that comes back to where it came from carries nothing: it is the last choice
            for t, _ in sorted(out, key=lambda port: (port[0] == u, port[0])):
                self._split(switch, u, t)

    def _circulant(self, switch: int, into: list[tuple[int, int]], out: list[tuple[int, int]]) -> bool:
        if into != out or len({c for _, c in into}) != 1 or len(into) < 2:
            return False
        return any(self._spread(switch, circle, into[0][1]) for circle in self._circles([u for u, _ in into], switch))

    def _circles(self, ports: list[int], switch: int) -> Iterator[list[list[int]]]:
        """Yield ways to group the ports, to spread what each brings over the others of its group.

        First one port of each box (what hangs together without the switch) a group: few strong edges make few
        trees. Then all ports as one group.
        """
        boxes = self._boxes(ports, switch)
        if len(boxes) > 1 and len(boxes[0]) > 1 and len({len(box) for box in boxes}) == 1:
            yield [list(group) for group in zip(*boxes, strict=True)]
        yield [ports]

    def _boxes(self, ports: list[int], switch: int) -> list[list[int]]:
        """Group ports by what is joined without the switch."""
        near: dict[int, list[int]] = {}
        for u, v, _ in self._graph.arcs():
            if switch not in (u, v) and u != self._source:
                near.setdefault(u, []).append(v)
                near.setdefault(v, []).append(u)
        box_of: dict[int, int] = {}
        for port in ports:
            stack = [] if port in box_of else [port]
            while stack:
                node = stack.pop()
                if node not in box_of:
                    box_of[node] = port
                    stack += near.get(node, [])
        boxes: dict[int, list[int]] = {}
        for port in ports:
            boxes.setdefault(box_of[port], []).append(port)
        return list(boxes.values())

    def _spread(self, switch: int, circles: list[list[int]], capacity: int) -> bool:
        """Spread every port's capacity evenly over the others of its circle, if no rank objects."""
        plan: list[tuple[int, int, int]] = []
        for ports in circles:
            each, rest = divmod(capacity, len(ports) - 1)
            plan += [
                (ports[i], ports[(i + turn) % len(ports)], each + (turn <= rest))
                for turn in range(1, len(ports))
                for i in range(len(ports))
                if each + (turn <= rest)
            ]
        for u, t, amount in plan:
            self._move(switch, u, t, amount)
        if self._objection() is None:
            for u, t, amount in plan:
                self._join(switch, u, t, amount)
            return True
        for u, t, amount in plan:
            self._move(switch, u, t, -amount)
        return False

    def _split(self, switch: int, u: int, t: int) -> None:
        """Split as much of one pair as the ranks allow."""
        amount = min(self._graph.get(u, switch), self._graph.get(switch, t))
        if not amount:
            return
        self._move(switch, u, t, amount)
        while amount:
            short = self._objection()
            if short is None:
                self._join(switch, u, t, amount)
                return
            back = min(amount, short)
            self._move(switch, u, t, -back)
            amount -= back

    def _objection(self) -> int | None:
        """Return how much some rank lacks, or None. It will be asked first the next time."""
        for position, sink in enumerate(self._sinks):
            flow = self._graph.max_flow(self._source, sink)
            if flow < self._demand:
                self._sinks.insert(0, self._sinks.pop(position))
                return self._demand - flow
        return None

    def _move(self, switch: int, u: int, t: int, amount: int) -> None:
        self._graph.add(u, switch, -amount)
        self._graph.add(switch, t, -amount)
        if u != t:
            self._graph.add(u, t, amount)

    def _join(self, switch: int, u: int, t: int, amount: int) -> None:
        """Put the physical paths of both halves together."""
        first, second = self.routes.take(u, switch, amount), self.routes.take(switch, t, amount)
        while first:
            (a, there), (b, here) = first.pop(), second.pop()
            part = min(there, here)
            if there > part:
                first.append((a, there - part))
            if here > part:
                second.append((b, here - part))
            if u != t:
                self.routes.give(u, t, self._straight((*a, *b)), part)

    def _straight(self, path: Path) -> Path:
        """Leave out what leads back to a node where the path has been (switches removed before allow such loops)."""
        kept: list[LinkId] = []
        seen = [self._links[path[0]].src]
        for link in path:
            end = self._links[link].dst
            if end in seen:
                keep = seen.index(end)
                del kept[keep:], seen[keep + 1 :]
            else:
                kept.append(link)
                seen.append(end)
        return tuple(kept)
