"""Throughput: what packings of trees reach beside the proven optimum, how deep they are, and how fast they are found.

    python benchmarks/throughput.py [--quick] [--json FILE]

Optimum and achieved are in rounds a chunk, as exact fractions: the first from the certified bound, the second from
what the verifier counts in the transfers. Seconds are of the packing alone (optimum, switches, trees, its own check),
by the wall clock on one core; the import of OR-Tools is done before.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from acclc import sema
from acclc.bounds import bound
from acclc.ir.problem import Problem
from acclc.solve.packing import packed_schedule
from acclc.source import Source
from acclc.syntax import parse
from acclc.verify import check_schedule

PEER_NOTE = (
    "Peer: ForestColl's published Python, exact trees, measured by this project's founders on two cores of another day "
    "(within a factor of two). '-': no figure."
)
A100 = """
topology box {{
    link nv {{ 300 GB/s, 0.35 us }}
    gpu g[8]
    switch sw
    g <-> sw : nv
}}
topology cluster {{
    link ib {{ 25 GB/s, 2.5 us }}
    box box[{boxes}]
    switch rail[8]
    for b in 0..<{boxes}, r in 0..<8 {{ box[b].g[r] <-> rail[r] : ib }}
}}
{collective} on cluster
"""
MI250 = """
topology cluster {{
    link ib {{ 16 GB/s, 2.5 us }}
    mi250 box[{boxes}]
    switch fabric
    for b in 0..<{boxes}, r in 0..<16 {{ box[b].g[r] <-> fabric : ib }}
}}
all_gather on cluster
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A problem in the language; the bar and the peer's figure in seconds."""

    name: str
    text: str
    bar_s: float | None = None
    peer_s: str = "-"
    quick: bool = True


CASES = (
    Case("dgx1 all_gather", "all_gather on dgx1", 0.5, "0.2"),
    Case("dgx1 reduce_scatter", "reduce_scatter on dgx1"),
    Case("dgx1 all_reduce", "all_reduce on dgx1 { op sum }"),
    Case("dgx1 broadcast", "broadcast on dgx1 { root g[0] }"),
    Case("dgx1 reduce", "reduce on dgx1 { root g[0], op sum }"),
    Case("ring of 8 all_gather", "all_gather on ring(n = 8)"),
    Case("torus 4 x 4 all_gather", "all_gather on torus(a = 4, b = 4)", 1.0, "1.0"),
    Case("hypercube 16 all_gather", "all_gather on hypercube(d = 4)"),
    Case("dgx_a100 all_gather", "all_gather on dgx_a100"),
    Case("mi250 all_gather", "all_gather on mi250", 3.7, "3.7"),
    Case("dgx_a100 x2 all_gather", A100.format(boxes=2, collective="all_gather"), 0.5, "25.8"),
    Case("dgx_a100 x2 all_reduce", A100.format(boxes=2, collective="all_reduce"), 1.0),
    Case("dgx_a100 x4 all_gather", A100.format(boxes=4, collective="all_gather"), 2.0),
    Case("mi250 x2 all_gather", MI250.format(boxes=2), 2.0, "278"),
    Case("dgx_a100 x8 all_gather", A100.format(boxes=8, collective="all_gather"), 5.0, quick=False),
    Case("mi250 x4 all_gather", MI250.format(boxes=4), 5.0, quick=False),
    Case("dgx_a100 x16 all_gather", A100.format(boxes=16, collective="all_gather"), 20.0, quick=False),
    Case("mi250 x8 all_gather", MI250.format(boxes=8), 20.0, quick=False),
    Case("dgx_a100 x32 all_gather", A100.format(boxes=32, collective="all_gather"), 60.0, quick=False),
    Case("mi250 x16 all_gather", MI250.format(boxes=16), 60.0, quick=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    case: str
    ranks: int
    optimum: str
    achieved: str
    verified: bool
    k: int
    trees: int
    depth: int
    seconds: float
    bar_s: float | None
    peer_s: str


def main() -> int:
    """Pack, verify, print and write the rows; exit code 1 if any does not verify or misses its optimum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only what takes a few seconds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    packed_schedule(_problem(CASES[0].text))  # loads OR-Tools
    print(f"{'case':26} {'ranks':>5} {'optimum':>8} {'achieved':>8} {'k':>4} {'trees':>5} {'depth':>5} "
          f"{'seconds':>8} {'bar':>5} {'peer s':>6}")  # fmt: skip
    rows = []
    for case in CASES:
        if case.quick or not arguments.quick:
            rows.append(row := measure(case))
            figures = f"{row.optimum:>8} {row.achieved:>8} {row.k:4} {row.trees:5} {row.depth:5} {row.seconds:8.3f}"
            wrong = "" if row.verified else "  WRONG"
            print(f"{row.case:26} {row.ranks:5} {figures} {row.bar_s or '-':>5} {row.peer_s:>6}{wrong}", flush=True)
    print(PEER_NOTE)
    if arguments.json:
        machine = {"machine": platform.platform(), "python": platform.python_version(), "note": PEER_NOTE}
        arguments.json.write_text(json.dumps({**machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    wrong = sum(not row.verified or row.optimum != row.achieved for row in rows)
    print(f"{len(rows)} packings, {wrong} not verified or not at the optimum")
    return 1 if wrong else 0


def measure(case: Case) -> Row:
    """Pack one case by the clock; bound and verification are outside it."""
    problem = _problem(case.text)
    least = bound(problem)
    started = time.perf_counter()
    packed = packed_schedule(problem)
    seconds = time.perf_counter() - started
    if packed.schedule is None:
        sys.exit(f"{case.name}: {packed.reason}")
    report = check_schedule(problem, packed.schedule)
    achieved = "-" if report.facts is None else str(report.facts.rounds_per_chunk)
    return Row(
        case=case.name,
        ranks=len(problem.topology.ranks),
        optimum=str(least.rounds_per_chunk),
        achieved=achieved,
        verified=report.ok,
        k=max(p.k for p in packed.packings),
        trees=max(len(p.trees) for p in packed.packings),
        depth=packed.schedule.steps,
        seconds=round(seconds, 4),
        bar_s=case.bar_s,
        peer_s=case.peer_s,
    )


def _problem(text: str) -> Problem:
    (problem,) = sema.analyse(parse(Source("<benchmark>", text))).problems
    return problem


if __name__ == "__main__":
    sys.exit(main())
