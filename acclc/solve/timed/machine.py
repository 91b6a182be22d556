"""What the timed search sees of a machine for chunks of one size: how long each edge takes, in whole femtoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from acclc.ir.problem import Rank
from acclc.solve.network import Edge, Network

TICKS = 10**15
"""A second."""


@dataclass(frozen=True, slots=True)
class Way:
    """An edge, for chunks of one size. Times in ticks."""

    edge: Edge
    lane: int
    """The edge's first link: it sends one chunk after another."""
    delay: int
    """Latency of all links on it."""
    sending: int
    """From the first byte sent to the last: a chunk over the slowest of its rows."""
    rows: tuple[tuple[int, int], ...]
    """(row, how long the chunk would keep all of it busy)."""
    uses: tuple[tuple[int, int], ...]
    """(row, how often it is crossed), the lane first."""


class TimedMachine:
    """The ways of a network for chunks of ``chunk_bytes``; seen backward where ``reverse``."""

    def __init__(self, network: Network, chunk_bytes: Fraction, reverse: bool) -> None:
        topology = network.topology
        unit = topology.unit
        assert unit is not None, "without links nothing moves"
        self.network = network
        self.reverse = reverse
        self.ranks = network.ranks
        self.relays = network.relays
        busy = [ceil(chunk_bytes / (c * unit) * TICKS) for c in network.capacity]
        self.capacity = [1 / b for b in busy]
        """Chunks a tick over every row."""
        self.ways: list[Way] = []
        for edge in network.edges:
            delay = sum((topology.links[e].cls.latency for e in edge.path), Fraction(0))
            rows = tuple((row, times * busy[row]) for row, times in edge.rows)
            lane = edge.path[-1] if reverse else edge.path[0]
            uses = tuple(sorted(edge.rows, key=lambda use: use[0] != lane))
            self.ways.append(Way(edge, lane, int(delay * TICKS), max(t for _, t in rows), rows, uses))
        self.leaving: dict[Rank, list[Way]] = {r: [] for r in self.ranks}
        for way in self.ways:
            self.leaving[self.tail(way)].append(way)

    def tail(self, way: Way) -> Rank:
        """Where a way begins, as it is looked at."""
        return way.edge.dst if self.reverse else way.edge.src

    def head(self, way: Way) -> Rank:
        """Where a way ends, as it is looked at."""
        return way.edge.src if self.reverse else way.edge.dst
