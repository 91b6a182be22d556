"""A flow of one commodity taken apart into ways: paths from where it starts to its ends, with units on each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from acclc.ir.problem import LinkId, Rank
from acclc.solve.flow.machine import FlowMachine

Path = tuple[LinkId, ...]
NOTHING = 1e-7
"""Shards: what is less is an error of floats."""


@dataclass(frozen=True, slots=True)
class Way:
    """Units that take one path from an origin to an end; no node is passed twice."""

    end: Rank
    units: int
    path: Path


def ways(machine: FlowMachine, number: int, k: int, flow: Mapping[LinkId, int]) -> tuple[Way, ...]:
    """Return the ways of a representative's flow of k units a shard; circles in it are dropped.

    Ends that are far away come first. Of an end's ways the widest come first, and of as wide ones the shortest.
    """
    parts = list(_parts(machine, number, k, flow, 1))
    found = tuple(Way(end, round(width), path) for end, path, width in parts)
    demand = machine.representatives[number].demand
    for end, n in demand.items():
        assert sum(w.units for w in found if w.end == end) == k * n, f"the flow brings too little to {end}"
    return found


def shares(machine: FlowMachine, number: int, flow: Mapping[LinkId, float]) -> dict[Rank, list[tuple[Path, float]]]:
    """Return the paths to each end, with the shards that each carries, of a flow in floats."""
    found: dict[Rank, list[tuple[Path, float]]] = {}
    for end, path, width in _parts(machine, number, 1, flow, NOTHING):
        found.setdefault(end, []).append((path, width))
    return found


def _parts(
    machine: FlowMachine, number: int, k: int, flow: Mapping[LinkId, float], least: float
) -> Iterator[tuple[Rank, Path, float]]:
    """Yield (end, path, width); a path is no narrower than ``least``."""
    left = {link: n for link, n in flow.items() if n >= least}
    demand = machine.representatives[number].demand
    distance = {end: len(path) for end in demand if (path := _path(machine, number, left, end, least)) is not None}
    for end in sorted(demand, key=lambda r: (-distance.get(r, 0), r)):
        wanted: float = k * demand[end]
        while wanted >= least:
            path, width = _widest(machine, number, left, end, wanted, least)
            if path is None:
                break
            for link in path:
                left[link] -= width
                if left[link] < least:
                    del left[link]
            wanted -= width
            yield end, path, width


def _widest(
    machine: FlowMachine, number: int, left: Mapping[LinkId, float], end: Rank, wanted: float, least: float
) -> tuple[Path | None, float]:
    """Return a path of the greatest width up to what is wanted (but for ``NOTHING``), and that width."""
    widths = sorted({wanted, *(n for n in left.values() if least <= n < wanted)}, reverse=True)
    best = _path(machine, number, left, end, wanted - NOTHING)
    if best is not None:
        return best, min(wanted, *(left[link] for link in best))
    low, high = 0, len(widths)
    while high - low > 1:
        middle = (low + high) // 2
        path = _path(machine, number, left, end, widths[middle])
        if path is None:
            low = middle
        else:
            best, high = path, middle
    return best, widths[high] if best is not None else 0


def _path(machine: FlowMachine, number: int, left: Mapping[LinkId, float], end: Rank, width: float) -> Path | None:
    """Return a shortest path over links with so much left; None where there is none."""
    out: dict[int, list[LinkId]] = {}
    for link in sorted(left):
        if left[link] >= width:
            out.setdefault(machine.links[link].src, []).append(link)
    before: dict[int, LinkId | None] = dict.fromkeys(map(int, machine.representatives[number].origins))
    queue = deque(before)
    while queue and end not in before:
        for link in out.get(queue.popleft(), ()):
            dst = machine.links[link].dst
            if dst not in before:
                before[dst] = link
                queue.append(dst)
    if end not in before:
        return None
    path: list[LinkId] = []
    last = before[end]
    while last is not None:
        path.append(last)
        last = before[machine.links[last].src]
    return tuple(reversed(path))
