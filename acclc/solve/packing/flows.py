"""A capacitated graph whose arcs change between max-flows: OR-tools' solver behind (tail, head) keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from acclc.solve.protocol import Deadline

WORK = 10**8
"""Arcs in flows that a packing may cost by default: some tens of seconds on one core."""


class TimeUp(Exception):  # noqa: N818 (the deadline is no error)
    """The deadline passed, or the work was used up, before a packing was complete."""


@dataclass
class Effort:
    """What may still be spent: a moment by the wall clock, and counted work (arcs, summed over the flows)."""

    deadline: Deadline = field(default_factory=Deadline)
    work: int = WORK
    clock_cut: bool = False
    """The wall clock, not the counted work, ended something: another machine may find better."""

    def spend(self, work: int) -> None:
        """Take note of some work. Raises TimeUp."""
        self.work -= work
        self.clock_cut |= self.deadline.expired
        if self.work < 0 or self.clock_cut:
            raise TimeUp


class FlowGraph:
    """Integer capacities by (tail, head); an arc never set has none. Nodes are numbered from nought."""

    def __init__(self, effort: Effort) -> None:
        from ortools.graph.python import max_flow

        self._solver: Any = max_flow.SimpleMaxFlow()
        self._arcs: dict[tuple[int, int], int] = {}
        self._capacity: dict[tuple[int, int], int] = {}
        self._effort = effort

    def set(self, tail: int, head: int, capacity: int) -> None:
        """Give an arc its capacity."""
        key = (tail, head)
        arc = self._arcs.get(key)
        if arc is not None:
            self._solver.set_arc_capacity(arc, capacity)
        elif capacity:
            self._arcs[key] = self._solver.add_arc_with_capacity(tail, head, capacity)
        self._capacity[key] = capacity

    def add(self, tail: int, head: int, amount: int) -> None:
        """Change an arc's capacity by an amount."""
        self.set(tail, head, self.get(tail, head) + amount)

    def get(self, tail: int, head: int) -> int:
        """Return an arc's capacity."""
        return self._capacity.get((tail, head), 0)

    def arcs(self) -> list[tuple[int, int, int]]:
        """Return (tail, head, capacity) of every arc that has any, in order."""
        return [(u, v, c) for (u, v), c in sorted(self._capacity.items()) if c]

    def max_flow(self, source: int, sink: int) -> int:
        """Return the greatest flow. Raises TimeUp, or OverflowError where it does not fit 64 bits."""
        self._effort.spend(len(self._arcs))
        status = self._solver.solve(source, sink)
        if status != self._solver.OPTIMAL:
            raise OverflowError(f"max-flow ended with {status}")
        return int(self._solver.optimal_flow())

    def sink_side(self) -> frozenset[int]:
        """Return the sink's side of a least cut of the flow just computed."""
        return frozenset(self._solver.get_sink_side_min_cut())
