"""A capacitated graph whose arcs change between max-flows: OR-tools' solver behind (tail, head) keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from acclc.solve.protocol import Deadline

WORK = 2 * 10**8
"""What a packing may cost by default (as of ``Effort``): some tens of seconds on one core."""
PER_FLOW = 250
"""Arcs that take as long as what every flow costs besides."""

SPARE = 256
"""Arcs without capacity that are no matter."""


class TimeUp(Exception):  # noqa: N818 (the deadline is no error)
    """The deadline passed, or the work was used up, before a packing was complete."""


@dataclass
class Effort:
    """What may still be spent: a moment by the wall clock, and counted work: arcs and ``PER_FLOW`` of every flow."""

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
        self._arcs: dict[tuple[int, int], int] = {}
        """Arcs of the solver; some have lost their capacity."""
        self._capacity: dict[tuple[int, int], int] = {}
        """Of arcs that have any."""
        self._effort = effort
        self._rebuild()

    def _rebuild(self) -> None:
        """Start a solver anew with the arcs that have capacity: it goes through all it knows at every flow."""
        from ortools.graph.python import max_flow

        self._solver: Any = max_flow.SimpleMaxFlow()
        self._arcs = {
            (tail, head): self._solver.add_arc_with_capacity(tail, head, capacity)
            for (tail, head), capacity in self._capacity.items()
        }

    def set(self, tail: int, head: int, capacity: int) -> None:
        """Give an arc its capacity."""
        key = (tail, head)
        if capacity:
            self._capacity[key] = capacity
        else:
            self._capacity.pop(key, None)
        arc = self._arcs.get(key)
        if arc is not None:
            self._solver.set_arc_capacity(arc, capacity)
        elif capacity:
            self._arcs[key] = self._solver.add_arc_with_capacity(tail, head, capacity)

    def add(self, tail: int, head: int, amount: int) -> None:
        """Change an arc's capacity by an amount."""
        self.set(tail, head, self.get(tail, head) + amount)

    def get(self, tail: int, head: int) -> int:
        """Return an arc's capacity."""
        return self._capacity.get((tail, head), 0)

    def arcs(self) -> list[tuple[int, int, int]]:
        """Return (tail, head, capacity) of every arc that has any, in order."""
        return [(u, v, c) for (u, v), c in sorted(self._capacity.items())]

    def max_flow(self, source: int, sink: int) -> int:
        """Return the greatest flow. Raises TimeUp, or OverflowError where it does not fit 64 bits."""
        if len(self._arcs) > SPARE + 2 * len(self._capacity):
            self._rebuild()
        self._effort.spend(PER_FLOW + len(self._arcs))
        status = self._solver.solve(source, sink)
        if status != self._solver.OPTIMAL:
            raise OverflowError(f"max-flow ended with {status}")
        return int(self._solver.optimal_flow())

    def sink_side(self) -> frozenset[int]:
        """Return the sink's side of a least cut of the flow just computed."""
        return frozenset(self._solver.get_sink_side_min_cut())
