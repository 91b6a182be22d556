"""The exact optimum of all_gather with the cut that proves it: how large a machine, how fast.

    python benchmarks/optimum.py [--quick] [--json FILE]

Optimum in rounds a chunk, as an exact fraction. ``cut``: the ranks on its smaller side, and the links that leave it.
``search``: seconds of the max-flows and of what prepares them; ``bound``: of all bounds (throughput and latency);
``check``: of the verifier's check of the certificates. By the wall clock, one core, the best of three, each on a
problem not seen before; the import of OR-Tools is done before.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from throughput import A100, MI250

from acclc import sema
from acclc.bounds import bound
from acclc.bounds.cuts import CutFinder, best_cut
from acclc.ir.problem import Problem
from acclc.ir.result import Cut
from acclc.source import Source
from acclc.syntax import parse
from acclc.verify.certificate import check_certificate

REPEATS = 3
SMALL_BAR_S, LARGE_BAR_S = 0.05, 2.0
"""Up to 128 ranks, and above."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """An all_gather in the language."""

    name: str
    text: str
    quick: bool = True


SINGLE = ("dgx1", "dgx2", "ndv2", "dgx_a100", "hgx_h100", "mi50_4p2h", "mi100", "mi250", "mi300x")
SIZED = ("full(n = 8)", "line(n = 8)", "ring(n = 8)", "star(n = 8)", "hypercube(d = 4)", "hypercube(d = 7)")
GRIDS = ("mesh(a = 4, b = 4)", "torus(a = 4, b = 4)", "torus(a = 8, b = 16)")
CASES = (
    *(Case(name, f"all_gather on {name}") for name in (*SINGLE, *SIZED, *GRIDS)),
    *(
        Case(f"dgx_a100 x{n}", A100.format(boxes=n, collective="all_gather"), n <= 16)
        for n in (2, 4, 8, 16, 32, 64, 128)
    ),
    *(Case(f"mi250 x{n}", MI250.format(boxes=n), n <= 8) for n in (2, 4, 8, 16, 32, 64)),
    Case("torus(a = 32, b = 32)", "all_gather on torus(a = 32, b = 32)", quick=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    case: str
    ranks: int
    optimum: str
    cut_ranks: int
    links: int
    search_s: float
    bound_s: float
    check_s: float
    bar_s: float
    proven: bool


def main() -> int:
    """Search, check, print and write the rows; exit code 1 if any is not proven by its cut."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only machines of up to 128 ranks")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    bound(_problem(CASES[0].text))  # loads OR-Tools
    print(f"{'all_gather on':22} {'ranks':>5} {'optimum':>9} {'cut':>5} {'links':>5} {'search':>8} {'bar':>5} "
          f"{'bound':>7} {'check':>7}")  # fmt: skip
    rows = []
    for case in CASES:
        if case.quick or not arguments.quick:
            rows.append(row := measure(case))
            figures = f"{row.optimum:>9} {row.cut_ranks:5} {row.links:5} {row.search_s:8.4f} {row.bar_s:5}"
            wrong = "" if row.proven else "  WRONG"
            print(f"{row.case:22} {row.ranks:5} {figures} {row.bound_s:7.3f} {row.check_s:7.3f}{wrong}", flush=True)
    if arguments.json:
        machine = {"machine": platform.platform(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    wrong = sum(not row.proven for row in rows)
    late = sum(row.search_s > row.bar_s for row in rows)
    print(f"{len(rows)} optima, {wrong} not proven, {late} later than the bar")
    return 1 if wrong else 0


def measure(case: Case) -> Row:
    """Search one case by the clock; the certificate is checked by the verifier."""
    problem = _problem(case.text)
    search_s, nodes = _timed(problem, lambda p: best_cut(p, CutFinder(p)))
    bound_s, found = _timed(problem, bound)
    check_s, report = _timed(problem, lambda p: check_certificate(p, found))
    certificate = found.throughput.certificate
    assert isinstance(certificate, Cut)
    assert nodes == certificate.nodes
    ranks = problem.topology.ranks
    inside = sum(v < len(ranks) for v in nodes)
    ends = [(e.src in nodes, e.dst in nodes) for e in problem.topology.links]
    return Row(
        case=case.name,
        ranks=len(ranks),
        optimum=str(found.rounds_per_chunk),
        cut_ranks=min(inside, len(ranks) - inside),
        links=ends.count((True, False)),
        search_s=round(search_s, 5),
        bound_s=round(bound_s, 5),
        check_s=round(check_s, 5),
        bar_s=SMALL_BAR_S if len(ranks) <= 128 else LARGE_BAR_S,
        proven=report.ok,
    )


def _timed(problem: Problem, work: Callable[[Problem], T]) -> tuple[float, T]:
    best = float("inf")
    for _ in range(REPEATS):
        fresh = replace(problem, shards=(*problem.shards,))  # nothing is remembered of its shards
        started = time.perf_counter()
        result = work(fresh)
        best = min(best, time.perf_counter() - started)
    return best, result


def _problem(text: str) -> Problem:
    (problem,) = sema.analyse(parse(Source("<benchmark>", text))).problems
    return problem


if __name__ == "__main__":
    sys.exit(main())
