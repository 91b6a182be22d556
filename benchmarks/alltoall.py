"""Point-to-point traffic: the bound, what a flow achieves, what it loses, and how long it takes.

Usage: ``python benchmarks/alltoall.py [--quick] [--json FILE]``. Rounds are of a whole shard; the bound is proven by a
cut or by lengths of links, ``achieved`` is what the verifier counts in the transfers. Seconds are by the wall clock on
one core, best of so many runs as ``--repeat`` says: of the bound, of the flow alone, and of the portfolio with the goal
``bandwidth``, which looks for steps as fast besides.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

from throughput import SEED, a100, mi250, problem, renumbered, table, without_a_link

from acclc.bounds import bound
from acclc.ir.problem import Goal, GoalKind, Problem
from acclc.solve.flow import flow_schedule
from acclc.solve.portfolio import solve
from acclc.verify import check_schedule

LOSS = Fraction(2, 100)
"""What may be lost at most."""


@dataclass(frozen=True, slots=True)
class Case:
    """A problem in the language; its optimum where a table names one (rounds), and the bar in seconds for all of it.

    ``copies``: also renumbered, and without a link.
    """

    name: str
    text: str
    known: str = "-"
    bar_s: float | None = None
    quick: bool = True
    copies: bool = False


CASES = (
    Case("dgx1", "all_to_all on dgx1", "8/3", 30.0, copies=True),
    Case("ring of 8", "all_to_all on ring(n = 8)", "8", 30.0, copies=True),
    Case("torus 4 x 4", "all_to_all on torus(a = 4, b = 4)", "8", 30.0, copies=True),
    Case("hypercube 16", "all_to_all on hypercube(d = 4)", "8", 30.0, copies=True),
    Case("mi250", "all_to_all on mi250", "32/3", 30.0, copies=True),
    Case("dgx1 gather", "gather on dgx1 { root g[0] }"),
    Case("dgx1 scatter", "scatter on dgx1 { root g[0] }"),
    Case("mi250 gather", "gather on mi250 { root g[3] }"),
    Case("dgx_a100 x2", a100(2, "all_to_all"), copies=True),
    Case("mi250 x2", mi250(2, "all_to_all"), copies=True),
    Case("dgx2", "all_to_all on dgx2"),
    Case("hypercube 64", "all_to_all on hypercube(d = 6)", "32", 120.0, quick=False, copies=True),
    Case("torus 8 x 8", "all_to_all on torus(a = 8, b = 8)", "64", 120.0, quick=False, copies=True),
    Case("dgx_a100 x8", a100(8, "all_to_all"), quick=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What a flow came to. Rounds a shard; ``right``: verified, within ``LOSS`` of the bound, and the known optimum."""

    case: str
    ranks: int
    bound: str
    known: str
    achieved: str
    loss_percent: float
    right: bool
    k: int
    chunks: int
    """Most of a shard."""
    paths: int
    depth: int
    bound_s: float
    flow_s: float
    portfolio_s: float | None
    bar_s: float | None


def main() -> int:
    """Print the table and write it; exit code 1 if anything is not right or misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only what takes a few seconds")
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    flow_schedule(problem(CASES[0].text))  # loads OR-Tools
    rows: list[Row] = table(_rows(arguments.quick, arguments.repeat))
    if arguments.json:
        machine = {"machine": platform.platform(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**machine, "flows": [asdict(row) for row in rows]}, indent=1) + "\n")
    wrong = sum(not row.right for row in rows)
    late = sum(row.bar_s is not None and row.bound_s + (row.portfolio_s or row.flow_s) > row.bar_s for row in rows)
    print(f"{len(rows)} rows, {wrong} not right, {late} over their bar")
    return 1 if wrong or late else 0


def _rows(quick: bool, repeat: int) -> Iterator[Row]:
    for case in CASES:
        if quick and not case.quick:
            continue
        whole = problem(case.text)
        yield row(case.name, whole, case.known, case.bar_s, repeat)
        if case.copies:
            yield row(f"  renumbered, seed {SEED}", renumbered(whole, SEED), case.known, case.bar_s, repeat)
            damaged, lost = without_a_link(whole, SEED)
            yield row(f"  without {lost}", damaged, "-", case.bar_s, repeat)


def row(name: str, task: Problem, known: str, bar_s: float | None, repeat: int) -> Row:
    """Bound and flow by the clock; with a bar, the portfolio too."""
    times: list[list[float]] = [[], [], []]
    for _ in range(repeat):
        started = time.perf_counter()
        least = bound(task)
        times[0].append(time.perf_counter() - started)
        started = time.perf_counter()
        flow = flow_schedule(task, bound=least.throughput.time_per_byte)
        times[1].append(time.perf_counter() - started)
        if bar_s is not None:
            started = time.perf_counter()
            solve(replace(task, goal=Goal(GoalKind.BANDWIDTH)))
            times[2].append(time.perf_counter() - started)
    if flow.schedule is None:
        sys.exit(f"{name}: {flow.reason}")
    report = check_schedule(task, flow.schedule)
    assert report.facts is not None, report.findings
    assert least.rounds_per_chunk is not None
    achieved = report.facts.rounds_per_chunk
    loss = achieved / least.rounds_per_chunk - 1
    return Row(
        case=name,
        ranks=len(task.topology.ranks),
        bound=str(least.rounds_per_chunk),
        known=known,
        achieved=str(achieved),
        loss_percent=float(100 * loss),
        right=report.ok and 0 <= loss <= LOSS and known in ("-", str(least.rounds_per_chunk)),
        k=flow.k,
        chunks=flow.chunks,
        paths=len({t.chunk for t in flow.schedule.transfers}),
        depth=flow.schedule.steps,
        bound_s=round(min(times[0]), 3),
        flow_s=round(min(times[1]), 3),
        portfolio_s=round(min(times[2]), 3) if times[2] else None,
        bar_s=bar_s,
    )


if __name__ == "__main__":
    sys.exit(main())
