"""Latency against bandwidth: the machines and sizes of TE-CCL's published results, ours beside theirs.

Usage: ``python benchmarks/middle.py [--quick] [--json FILE]``. Times are in microseconds, by the simulator of the
cost model (``acclc simulate``), on machines with TE-CCL's rates and latencies; sizes name the output buffer of a GPU.
Seconds are of the portfolio with the goal ``size S .. S`` and of its choice, by the processor's clock (one thread), so
that they can be taken on a machine that other work shares; the work is counted: the schedules are always the same.

Theirs are the figures and the solver's seconds of the schedules that TE-CCL ships (Gurobi). Some of them no schedule
can reach on the machine they are said to be for: its code takes GPU 0 of two NDv2 boxes for a switch, so that it has 15
ranks and 56 pairs that cross where there are 64; it counts 1.3 us between two boxes that are directly joined
at 2.6 us; and a switch that copies is not in the model. There the larger of their figure and of the bound plus the
latency of the longest way is what ours is held against; such targets are marked with a star. Pipelined schedules are
simulated in slices of 64 KiB and of 8 KiB (then marked /8K): the model has no cost of a slice.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from throughput import problem, table

from acclc.bounds import bound
from acclc.simulate import best_within, shard_bytes, simulate
from acclc.solve.flow import flow_schedule
from acclc.solve.portfolio import Portfolio
from acclc.solve.protocol import WORK_PER_SECOND, Budget, Deadline, silent
from acclc.verify import check_schedule

NDV2_PAIR = """
topology two_boxes {
    link ib { 12.5 GB/s, 2.6 us, kind net }
    dgx1 box[2]
    box[0].g[0] -> box[1].g[1] : ib
    box[1].g[0] -> box[0].g[1] : ib
}
"""
NDV2_FOUR = """
topology four_boxes {
    link ib { 12.5 GB/s, 1.3 us, kind net }
    dgx1 box[4]
    switch network
    for b in 0..<4 {
        box[b].g[0] -> network : ib
        network -> box[b].g[1] : ib
    }
}
"""
DGX2_PAIR = """
topology two_boxes {
    link ib { 12.5 GB/s, 2.6 us, kind net }
    dgx2 box[2]
    for b in 0..1, i in 0..<8 { box[b].g[2 * i + 1] -> box[1 - b].g[2 * i] : ib }
}
"""
SIZES = (16 * 10**3, 10**6, 16 * 10**6, 10**9)
MICRO = 10**6
LEAST_S, MOST_S, PART = 2.0, 120.0, 20
"""A cell may take a part of the peer's time; at least, and at most, so many seconds."""
SLICES = (65536, 8192)
"""What a pipelined schedule moves at a time, in bytes: the runtime's default, and less. The better counts."""
GRANTED, MOST_GRANTED_S = 0.6, 40.0
"""The part of it, and the most of it, that the portfolio is granted work for."""


@dataclass(frozen=True, slots=True)
class Case:
    """A machine, a collective, and the peer's (microseconds, solver's seconds, whether no schedule can reach it)."""

    name: str
    topology: str
    collective: str
    cells: tuple[tuple[float, int, bool], ...]


CASES = (
    Case(
        "NDv2 x2 all_gather",
        NDV2_PAIR,
        "all_gather on two_boxes",
        ((4.44, 184, True), (48.75, 47, False), (700, 45, False), (43750, 43, False)),
    ),
    Case(
        "NDv2 x2 all_to_all",
        NDV2_PAIR,
        "all_to_all on two_boxes",
        ((7.94, 1393, True), (290, 1515, True), (4540, 1507, True), (283750, 1482, True)),
    ),
    Case(
        "NDv2 x4 all_gather",
        NDV2_FOUR,
        "all_gather on four_boxes",
        ((5.81, 3031, False), (69.375, 9510, False), (1040, 237, False), (65000, 222, False)),
    ),
    Case(
        "DGX-2 x2 all_gather",
        DGX2_PAIR,
        "all_gather on two_boxes",
        ((4.084, 2923, False), (10.75, 8181, False), (124, 1262, True), (7750, 2700, True)),
    ),
    Case(
        "DGX-2 x2 all_to_all",
        DGX2_PAIR,
        "all_to_all on two_boxes",
        ((4.704, 1307, False), (84.25, 1204, False), (1292, 1465, False), (80500, 1590, False)),
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A cell. Times in microseconds; ``bound``: no schedule is faster; ``met``: not slower than ``target``."""

    case: str
    size: int
    bound: float
    theirs: float
    target: str
    ours: float
    met: bool
    schedule: str
    strategy: str
    seconds: float
    allowed_s: float
    their_s: int


def main() -> int:
    """Print the table and write it; exit code 1 if a cell misses its target or its time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the machine of 16 ranks")
    parser.add_argument("--case", type=int, metavar="N", help="only one machine and collective")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    flow_schedule(problem("all_to_all on ring(n = 4)"))  # loads OR-Tools
    chosen = CASES[:2] if arguments.quick else CASES
    rows: list[Row] = table(_rows(chosen if arguments.case is None else (CASES[arguments.case],)))
    if arguments.json:
        machine = {"machine": platform.platform(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**machine, "cells": [asdict(row) for row in rows]}, indent=1) + "\n")
    missed = sum(not row.met for row in rows)
    late = sum(row.seconds > row.allowed_s for row in rows)
    print(f"{len(rows)} cells, {missed} over their target, {late} over their time")
    return 1 if missed or late else 0


def _rows(cases: tuple[Case, ...]) -> Iterator[Row]:
    for case in cases:
        for size, (theirs, their_s, broken) in zip(SIZES, case.cells, strict=True):
            yield row(case, size, theirs, their_s, broken)


def row(case: Case, size: int, theirs: float, their_s: int, broken: bool) -> Row:
    """Solve for one size, and simulate what was chosen."""
    task = problem(f"{case.topology}\n{case.collective} {{ goal size {size} B .. {size} B }}\n")
    allowed = min(MOST_S, max(LEAST_S, their_s / PART))
    started = time.process_time()
    work = min(MOST_GRANTED_S, allowed * GRANTED) * WORK_PER_SECOND
    result = Portfolio().solve(task, Budget(Deadline(), work=work), silent)
    schedules = [s.schedule for s in result.solutions]
    best = next(s for s, wanted in zip(schedules, best_within(task, schedules), strict=True) if wanted)
    seconds = time.process_time() - started
    assert check_schedule(task, best).ok
    shard = shard_bytes(task, size)
    least = bound(task)
    load = least.throughput.time_per_byte * shard
    legal = float((load + least.latency.seconds) * MICRO)
    target = max(theirs, legal) if broken else theirs
    taken, slice_bytes = min((simulate(task, best, shard, slice_bytes=s).seconds, s) for s in SLICES)
    ours = float(taken * MICRO)
    return Row(
        case=case.name,
        size=size,
        bound=round(float(max(load, least.latency.seconds) * MICRO), 3),
        theirs=theirs,
        target=f"{target:.9g}{' *' if broken else ''}",
        ours=round(ours, 3),
        met=ours <= target,
        schedule=f"{best.id}/{slice_bytes >> 10}K" if best.pipelined and slice_bytes < SLICES[0] else best.id,
        strategy=best.strategy,
        seconds=round(seconds, 2),
        allowed_s=allowed,
        their_s=their_s,
    )


if __name__ == "__main__":
    sys.exit(main())
