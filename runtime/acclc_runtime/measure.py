"""Measures every variant by size, as ``acclc tune`` does: through the public calls, in alternating rounds."""

from __future__ import annotations

import importlib
import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from acclc_runtime.bench import timed
from acclc_runtime.call_buffers import buffers_of
from acclc_runtime.errors import ArgumentError
from acclc_runtime.loader import load
from acclc_runtime.manifest import Manifest, ManifestCollective
from acclc_runtime.selection import units_of_size
from acclc_runtime.tuning import TunedCollective, Tuning, ranges_of

ROUNDS = 5
AS_GOOD = 0.97
"""Another variant than that of the next smaller size must be faster by this factor: noise makes no borders."""
_BUDGET_S = 0.01
"""Of one measurement: so many calls are timed together, at least two."""
_MOST_CALLS = 1000
_ITEM = 4

Times = dict[tuple[str, int], dict[str, float]]
"""(collective, S) -> variant -> seconds a call."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to time."""

    collective: str
    variant: str
    size: int


def measure(
    artefact: Path,
    transport: str = "memory",
    sizes: Sequence[int] = (),
    rounds: int = ROUNDS,
    only: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Times:
    """Return the seconds that each variant takes by size S: the median over the rounds, of the slowest rank.

    ``transport``: memory is a process a rank, with arrays of ``empty`` and private ones (their geometric mean);
    cpu and cuda are a local group. Types are f32. ``tell`` hears of progress.

    Raises:
        ArgumentError: no such collective, or nothing to choose from.
    """
    manifest = load(artefact).manifest
    cells = _cells(manifest, sizes or default_sizes(), only, transport)
    found: dict[Cell, list[float]] = {cell: [] for cell in cells}
    for number in range(rounds):
        if tell is not None:
            tell(f"round {number + 1} of {rounds}")
        for cell, seconds in zip(cells, _one_round(artefact, manifest, transport, cells), strict=True):
            found[cell].append(seconds)
    times: Times = {}
    for cell, spans in found.items():
        times.setdefault((cell.collective, cell.size), {})[cell.variant] = median(spans)
    return times


def default_sizes(smallest: int = 8, largest: int = 64 << 20) -> tuple[int, ...]:
    """Return sizes by powers of four."""
    return tuple(smallest * 4**n for n in range(1 + int(math.log(largest / smallest, 4) + 1e-9)))


def tuned(transport: str, times: Times) -> Tuning:
    """Return the ranges that measured times give."""
    collectives = []
    for name in dict.fromkeys(name for name, _ in times):
        of_size = {size: by_variant for (each, size), by_variant in times.items() if each == name}

        def best(size: int, before: str | None, of_size: dict[int, dict[str, float]] = of_size) -> str:
            by_variant = of_size[size]
            fastest = min(by_variant, key=by_variant.__getitem__)
            as_good = before is not None and by_variant[before] * AS_GOOD <= by_variant[fastest]
            return before if before is not None and as_good else fastest

        collectives.append(TunedCollective(name, ranges_of(tuple(sorted(of_size)), best)))
    return Tuning(transport, f"{os.cpu_count()} cores, {platform.machine()}", tuple(collectives))


def _cells(manifest: Manifest, sizes: Sequence[int], only: str | None, transport: str) -> list[Cell]:
    names = [c.name for c in manifest.collectives]
    if only is not None and only not in names:
        raise ArgumentError(f"{manifest.name} has no collective {only!r}; it has: {', '.join(names)}")
    cells = [
        Cell(collective.name, variant.id, size)
        for collective in manifest.collectives
        if only in (None, collective.name) and len(collective.variants) > 1 and not _is_uneven(collective)
        for size in sizes
        for variant in collective.variants
        if transport != "memory" or variant.protocol != "ll"
    ]
    if not cells:
        raise ArgumentError(f"{manifest.name}: nothing to tune, each collective has one variant")
    return cells


def _is_uneven(collective: ManifestCollective) -> bool:
    return collective.varying or collective.collective in ("custom", "together")


def _one_round(artefact: Path, manifest: Manifest, transport: str, cells: list[Cell]) -> list[float]:
    if transport == "memory":
        from acclc_runtime.memory.spawn import spawn
        from acclc_runtime.memory.tables import world_of

        ranks: list[list[float]] = spawn(_time_rank, world_of(manifest), artefact, (cells,))
        return [max(spans) for spans in zip(*ranks, strict=True)]
    with load(artefact).local(transport, fallback=False) as group:
        collectives = {c.name: c for c in manifest.collectives}
        return [_time_group(group, collectives[cell.collective], cell) for cell in cells]


def _time_rank(comm: Any, cells: list[Cell]) -> list[float]:
    """What one rank does: all ranks make the same number of calls, which follows from the size."""
    collectives = {c.name: c for c in comm.manifest.collectives}
    return [
        geometric_mean(_time_call(comm, collectives[c.collective], c, make) for make in (comm.empty, np.empty))
        if comm.rank in collectives[c.collective].ranks
        else 0.0
        for c in cells
    ]


def _time_call(comm: Any, collective: ManifestCollective, cell: Cell, make: Callable[..., Any]) -> float:
    count, n = _count(collective, cell.size), collective.ranks.index(comm.rank)
    given, out = buffers_of(collective, n, count, False, lambda length: make(length, np.float32))
    if given is None and out is None:
        given = make(count, np.float32)  # tells the size where others' data only pass through
    for array in (given, out):
        if array is not None:
            array.fill(1)

    def call() -> None:
        comm.collective(cell.collective, given, out, variant=cell.variant)

    return _timed(call, cell, collective)


def _time_group(group: Any, collective: ManifestCollective, cell: Cell) -> float:
    count = _count(collective, cell.size)
    library: Any = importlib.import_module("cupy") if group.backend == "cuda" else np
    pairs = [
        buffers_of(collective, n, count, False, lambda length: library.ones(length, np.float32))
        for n in range(len(collective.ranks))
    ]
    xs, outs = [x for x, _ in pairs], [out for _, out in pairs]
    return _timed(lambda: group.collective(cell.collective, xs, outs, variant=cell.variant), cell, collective)


def _timed(call: Callable[[], Any], cell: Cell, collective: ManifestCollective) -> float:
    calls = _calls(cell, len(collective.ranks))
    return timed(call, calls, warm_up=max(1, calls // 10))


def _calls(cell: Cell, ranks: int) -> int:
    return max(2, min(_MOST_CALLS, int(_BUDGET_S / (3e-6 * ranks + cell.size * ranks / 2e9))))


def _count(collective: ManifestCollective, size: int) -> int:
    return max(1, size // (_ITEM * units_of_size(collective)))
