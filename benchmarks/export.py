"""Exports: every library topology of up to 16 ranks, every collective, to every engine; and what is refused.

    python benchmarks/export.py [--quick] [--json FILE] [--refused FILE] [--only TOPOLOGY] [--time-limit S]

Each schedule that the compiler finds for a case (within the time limit) is exported to MSCCL's XML for each target and
to an execution plan of MSCCL++ out of place and in place. `verified`: the file was read back equal, keeps every rule of
its engine, and its execution on symbols has neither race nor deadlock and gives the collective's result, over two calls
(MSCCL++) or two loops (MSCCL); XML also ran on numbers. What exceeds a limit is refused, with the limit; `--refused`
writes these as a table. Seconds are of the export and its verification, by the wall clock.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from acclc.driver import Options, Silent, synthesize
from acclc.export.errors import ExportError
from acclc.exports import ExportOptions, export_text
from acclc.importers.msccl_xml import read_algorithm
from acclc.ir.problem import InPlace, Problem
from acclc.ir.schedule import Schedule
from acclc.sema import analyse_text
from acclc.source import Source
from acclc.verify.chunk_layout import Layout
from acclc.verify.msccl import check_algorithm, interpret

TOPOLOGIES = (
    "dgx1",
    "ndv2",
    "mi50_4p2h",
    "mi100",
    "mi300x",
    "dgx_a100",
    "hgx_h100",
    "full(8)",
    "ring(8)",
    "line(8)",
    "star(8)",
    "hypercube(3)",
    "mesh(2, 4)",
    "torus(3, 3)",
    "dgx2",
    "mi250",
    "torus(4, 4)",
    "full(16)",
)
QUICK = ("dgx1", "mesh(2, 4)", "star(8)")
COLLECTIVES = (
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "send_recv",
)
TARGETS = {
    "msccl-xml executor": ExportOptions("msccl-xml", "executor"),
    "msccl-xml rccl": ExportOptions("msccl-xml", "rccl"),
    "msccl-xml msccl": ExportOptions("msccl-xml", "msccl"),
    "mscclpp": ExportOptions("mscclpp"),
    "mscclpp in place": ExportOptions("mscclpp", in_place=True),
}


@dataclass
class Row:
    case: str
    target: str
    verified: bool
    seconds: float
    fit: list[str] = field(default_factory=list)
    """Variants that were exported."""
    refused: dict[str, str] = field(default_factory=dict)
    """Variant -> ``limit: words``."""


def cases(names: Sequence[str], limit: float) -> Iterator[tuple[str, Problem, list[Schedule]]]:
    """Yield each case with the schedules that are found for it."""
    for name in names:
        for collective in COLLECTIVES:
            (problem,) = analyse_text(f"{collective} on {name}").problems
            result = synthesize(problem, Options(time_limit_s=limit), Silent())
            yield f"{name} {collective}", problem, [s.schedule for s in result.solutions]


def measure(case: str, problem: Problem, schedules: Sequence[Schedule], target: str) -> Row:
    """Export all schedules of a case; raises InternalError where one does not verify."""
    started, options = time.perf_counter(), TARGETS[target]
    row = Row(case, target, True, 0.0)
    for schedule in schedules:
        try:
            text = export_text(problem, schedule, case, (0, None), options)
        except ExportError as error:
            row.refused[schedule.id] = f"{error.limit}: {error}"
            continue
        row.fit.append(schedule.id)
        if options.format == "msccl-xml":
            row.verified = row.verified and runs_on_numbers(text)
    row.seconds = round(time.perf_counter() - started, 2)
    return row


def runs_on_numbers(text: str) -> bool:
    """Run an algorithm on random numbers in each of its modes, against the collective's definition."""
    algorithm = read_algorithm(Source("export", text))
    facts = check_algorithm(algorithm).facts
    root = -1 if facts is None or facts.root is None else facts.root
    layout = Layout.of(algorithm, root)
    assert layout is not None
    random = np.random.default_rng(0)
    inputs = {r: random.integers(-999, 999, (layout.input_chunks(r), 3)) for r in range(algorithm.ranks)}
    for in_place in (False, True) if algorithm.in_place else (False,):
        outputs = interpret(algorithm, inputs, root, in_place)
        for rank, found in outputs.items():
            for chunk, values in enumerate(found):
                if (sum(inputs[r][c] for r, c in layout.origins(rank, chunk)) != values).any():
                    return False
    return True


def refused_table(rows: Sequence[Row]) -> str:
    """The table of what is refused: whole cases first, then single variants."""
    lines = [
        "# What is not exported, and the limit",
        "",
        "Written by `benchmarks/export.py --refused`. A case whose every variant is refused has *no* file for that",
        "engine; of the others, the variants named do not fit and those beside them do.",
        "",
        "| case | engine | fits | refused: limit |",
        "|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: (bool(r.fit), r.target, r.case)):
        if row.refused:
            words = "; ".join(f"{variant}: {why}" for variant, why in row.refused.items())
            lines.append(f"| {row.case} | {row.target} | {', '.join(row.fit) or '*no*'} | {words} |")
    return "\n".join(lines) + "\n"


def show(rows: Sequence[Row]) -> None:
    """Print counts for each engine."""
    print(f"{'engine':20} cases  with a file  variants  refused  wrong  seconds  limits")
    for target in TARGETS:
        own = [r for r in rows if r.target == target]
        limits = Counter(why.split(":")[0] for r in own for why in r.refused.values())
        print(
            f"{target:20} {len(own):5}  {sum(bool(r.fit) for r in own):11}  {sum(len(r.fit) for r in own):8}"
            f"  {sum(len(r.refused) for r in own):7}  {sum(not r.verified for r in own):5}"
            f"  {sum(r.seconds for r in own):7.1f}  {', '.join(f'{k} {n}' for k, n in limits.most_common())}"
        )


def save(rows: Sequence[Row], results: str | None, refused: str | None) -> None:
    """Write the results and the table of what is refused."""
    if results:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        Path(results).write_text(json.dumps({**machine, "rows": [asdict(r) for r in rows]}, indent=1) + "\n")
    if refused:
        Path(refused).write_text(refused_table(rows))


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three topologies")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--refused", metavar="FILE")
    parser.add_argument("--only", action="append", metavar="TOPOLOGY", help="this topology; may be repeated")
    parser.add_argument("--time-limit", type=float, default=2.0, help="seconds of search a case [2]")
    options = parser.parse_args()
    names = options.only or (QUICK if options.quick else TOPOLOGIES)
    rows: list[Row] = []
    for case, problem, schedules in cases(names, options.time_limit):
        offered = problem.demands[0].in_place is not InPlace.NONE
        rows += [measure(case, problem, schedules, t) for t in TARGETS if offered or not TARGETS[t].in_place]
        print(case, ", ".join(s.id for s in schedules), file=sys.stderr)
        save(rows, options.json, options.refused)  # a run that is interrupted leaves what it has
    show(rows)
    return 0 if all(r.verified for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
