"""A capacitated graph whose arcs change between max-flows: OR-tools' solver behind (tail, head) keys."""

from __future__ import annotations

from typing import Any


class FlowGraph:
    """Integer capacities by (tail, head); an arc never set has none. Nodes are numbered from nought."""

    def __init__(self) -> None:
        from ortools.graph.python import max_flow

        self._solver: Any = max_flow.SimpleMaxFlow()
        self._arcs: dict[tuple[int, int], int] = {}
        self._capacity: dict[tuple[int, int], int] = {}
        self.solved = 0
        """Max-flows computed so far."""

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
        """Return the greatest flow. Raises OverflowError where it does not fit 64 bits."""
        self.solved += 1
        status = self._solver.solve(source, sink)
        if status != self._solver.OPTIMAL:
            raise OverflowError(f"max-flow ended with {status}")
        return int(self._solver.optimal_flow())

    def sink_side(self) -> frozenset[int]:
        """Return the sink's side of a least cut of the flow just computed."""
        return frozenset(self._solver.get_sink_side_min_cut())
