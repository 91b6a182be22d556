"""Exact synthesis: what the search reaches, how fast, and what peers reached on machines like this one.

    python benchmarks/exact.py [--quick] [--json FILE]

Seconds are of ``portfolio.solve`` alone (bounds, fallback, search), by the wall clock, one worker; the import of
OR-Tools (about a second) is done before. Every schedule is verified by ``acclc.verify``, outside the time.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from acclc import sema
from acclc.ir.problem import Link, LinkId, NodeId, Problem
from acclc.ir.result import Result
from acclc.solve import portfolio
from acclc.verify import check_schedule

Point = tuple[int, int, int]

PEER_NOTE = (
    "Peers' seconds were measured by this project's founders on two cores of another day (within a factor of two): "
    "msccl-tools with Z3. '-': no figure. '> 240': no answer within that time."
)


@dataclass(frozen=True, slots=True)
class Case:
    """A problem in the language, points it must reach or beat (none: proven infeasible), and the bar in seconds."""

    name: str
    text: str
    expected: tuple[Point, ...]
    bar_s: float | None = None
    peer: str = ""
    peer_s: str = "-"
    relabel: int | None = None
    quick: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table for each schedule of a case."""

    case: str
    verified: bool
    expected: bool
    seconds: float
    bar_s: float | None
    status: str
    bound: str
    achieved: str
    chunks: int
    steps: int
    rounds: int
    peer: str
    peer_seconds: str


DGX1_FRONTIER = ((2, 2, 3), (6, 3, 7))
CASES = (
    Case(
        "dgx1 all_gather frontier",
        "import dgx1\nall_gather on dgx1 { goal pareto }",
        DGX1_FRONTIER,
        8,
        "msccl-tools, with its proofs",
        "179",
    ),
    Case("dgx1 relabelled, frontier", "import dgx1\nall_gather on dgx1 { goal pareto }", DGX1_FRONTIER, 8, relabel=1),
    Case(
        "dgx1 all_gather (6,3,7)",
        "import dgx1\nall_gather on dgx1 { goal chunks 6, steps 3, rounds 7 }",
        ((6, 3, 7),),
        None,
        "msccl-tools",
        "108.7",
    ),
    Case(
        "dgx1 all_gather (3,2,4)",
        "import dgx1\nall_gather on dgx1 { goal chunks 3, steps 2, rounds 4 }",
        (),
        None,
        "msccl-tools",
        "2.1",
    ),
    Case(
        "dgx1 all_to_all (3,2,8)",
        "import dgx1\nall_to_all on dgx1 { goal pareto }",
        ((3, 2, 8),),
        5,
        "msccl-tools",
        "> 240",
    ),
    Case(
        "dgx1 all_reduce frontier",
        "import dgx1\nall_reduce on dgx1 { op sum, goal pareto }",
        ((2, 2, 3), (6, 3, 7), (16, 4, 6)),
        quick=False,
    ),
    Case(
        "dgx2 all_gather", "import dgx2\nall_gather on dgx2 { goal pareto }", ((1, 1, 15),), 5, "msccl-tools", "> 240"
    ),
    Case("hypercube(4) all_gather", "import hypercube\nall_gather on hypercube(4) { goal pareto }", ((4, 4, 15),), 10),
    Case("torus(4, 4) all_gather", "import torus\nall_gather on torus(4, 4) { goal pareto }", ((4, 4, 15),), 10),
    Case(
        "torus(4, 4) relabelled",
        "import torus\nall_gather on torus(4, 4) { goal pareto }",
        ((4, 4, 15),),
        10,
        relabel=5,
    ),
    Case("torus(4, 4) all_to_all", "import torus\nall_to_all on torus(4, 4) { goal pareto }", ((1, 4, 8),)),
    Case("ring(5) all_reduce", "import ring\nall_reduce on ring(5) { op sum, goal pareto }", ((1, 2, 2), (5, 4, 4)), 5),
    Case(
        "ring(8) all_gather (2,4,7)",
        "import ring\nall_gather on ring(8) { goal pareto }",
        ((2, 4, 7),),
        None,
        "msccl-tools",
        "1.2",
    ),
    Case("dgx1 without 0-2 all_gather", "all_gather on dgx1 without g[0] <-> g[2]", ((5, 3, 7),), 10),
    Case("dgx1 without 2-6 all_gather", "all_gather on dgx1 without g[2] <-> g[6]", ((4, 4, 7),), 10),
    *(
        Case(
            f"mi250 all_gather {chunks, steps, rounds}",
            f"import mi250\nall_gather on mi250 {{ goal chunks {chunks}, steps {steps}, rounds {rounds} }}",
            ((chunks, steps, rounds),),
            60,
        )
        for chunks, steps, rounds in ((1, 5, 5), (2, 5, 6), (3, 6, 8), (4, 6, 10), (7, 8, 17))
    ),
    Case(
        "mi250 all_gather", "import mi250\nall_gather on mi250 { goal pareto, within 60 s }", ((2, 5, 6),), quick=False
    ),
)


def relabelled(problem: Problem, seed: int) -> Problem:
    """Return the same problem on the same machine, its GPUs numbered and its links ordered at random."""
    rng = random.Random(seed)
    topology = problem.topology
    ranks = len(topology.ranks)
    new = list(range(ranks))
    rng.shuffle(new)
    new += range(ranks, len(topology.nodes))
    links = list(topology.links)
    rng.shuffle(links)
    moved = tuple(Link(LinkId(k), NodeId(new[x.src]), NodeId(new[x.dst]), x.count, x.cls) for k, x in enumerate(links))
    if topology.budgets or len({s.reduced for s in problem.shards}) > 1:
        raise ValueError("only machines without budgets are relabelled here")
    return replace(problem, topology=replace(topology, links=moved))


def run(case: Case) -> list[Row]:
    """Solve a case and verify what came out."""
    (problem,) = sema.analyse_text(case.text).problems
    if case.relabel is not None:
        problem = relabelled(problem, case.relabel)
    begin = time.perf_counter()
    result = portfolio.solve(problem)
    seconds = time.perf_counter() - begin
    return rows_of(case, problem, result, seconds)


def rows_of(case: Case, problem: Problem, result: Result, seconds: float) -> list[Row]:
    """One row for each schedule; one row without a schedule where there is none."""
    schedules = [s.schedule for s in result.solutions]
    points = {(s.chunks_per_shard, s.steps, s.total_rounds) for s in schedules if not s.pipelined}
    expected = all(any(as_good(p, e) for p in points) for e in case.expected)
    if not case.expected:
        expected = result.status.value == "infeasible"
    bound = str(result.bound.rounds_per_chunk)
    head = (round(seconds, 2), case.bar_s, result.status.value, bound)
    if not schedules:
        return [Row(case.name, True, expected, *head, "-", 0, 0, 0, case.peer, case.peer_s)]
    rows = []
    for schedule in schedules:
        report = check_schedule(problem, schedule)
        achieved = "-" if report.facts is None else str(report.facts.rounds_per_chunk)
        figures = (schedule.chunks_per_shard, schedule.steps, schedule.total_rounds)
        rows.append(Row(case.name, report.ok, expected, *head, achieved, *figures, case.peer, case.peer_s))
    return rows


def as_good(point: Point, expected: Point) -> bool:
    """Whether a point needs neither more steps nor more rounds a chunk than another."""
    return point[1] <= expected[1] and point[2] * expected[0] <= expected[2] * point[0]


def table(rows: Sequence[Row]) -> str:
    """The rows as text in columns."""
    head = ("case", "verified", "seconds", "bar", "status", "bound", "R/C", "C", "S", "R", "peer", "peer s")
    body = [
        (
            r.case,
            "yes" if r.verified and r.expected else "NO",
            f"{r.seconds:.2f}",
            "" if r.bar_s is None else f"< {r.bar_s:g}",
            r.status,
            r.bound,
            r.achieved,
            str(r.chunks),
            str(r.steps),
            str(r.rounds),
            r.peer,
            r.peer_seconds,
        )
        for r in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in (head, *body)]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the cases that take more than a few seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    options = parser.parse_args()
    import ortools.sat.python.cp_model  # noqa: F401 (its import is no part of a solve)

    rows: list[Row] = []
    for case in CASES:
        if case.quick or not options.quick:
            rows += run(case)
            print(f"{case.name}: {rows[-1].seconds} s", file=sys.stderr)
    print(table(rows))
    print(PEER_NOTE)
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    late = [r.case for r in rows if r.bar_s is not None and r.seconds >= r.bar_s]
    wrong = [r.case for r in rows if not (r.verified and r.expected)]
    for name in dict.fromkeys(late):
        print(f"slower than its bar: {name}", file=sys.stderr)
    for name in dict.fromkeys(wrong):
        print(f"not as expected: {name}", file=sys.stderr)
    return 1 if late or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
