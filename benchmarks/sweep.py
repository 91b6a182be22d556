"""Every collective on every library topology of at most 16 ranks: compiled within its deadline, verified, run.

    python benchmarks/sweep.py [--quick] [--deadline S] [--only WORD ...] [--json FILE]

A row is one collective on one machine, with the goal ``pareto``. It is ``ok`` if the search ended within the deadline
(with ``GRACE_S`` to come to an end), every level verifies again from the files of the artefact, and every variant gives
what the definition says on the numpy and cpu backends, in and out of place, for sizes from one byte on (all_to_all_v:
for even counts, with zeros, one destination a rank, one huge block). ``achieved`` is the least of any variant, in
rounds of a shard, recomputed by the verifier.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from acclc import compile_text
from acclc.audit import audit
from acclc.diagnostics import DiagnosticError
from acclc.driver import Artefact, NoScheduleError
from acclc.ir.problem import Collective
from acclc.library import names
from acclc_runtime.run import run_checks

MOST_RANKS = 16
COLLECTIVES = tuple(c.value for c in Collective if c not in (Collective.CUSTOM, Collective.TOGETHER))
MORE = (
    "ring(2)",
    "ring(5)",
    "ring(16)",
    "line(3)",
    "full(3)",
    "full(16)",
    "star(2)",
    "star(16)",
    "hypercube(1)",
    "hypercube(4)",
    "mesh(2, 3)",
    "mesh(3, 3)",
    "torus(3, 3)",
    "torus(2, 2, 3)",
)
"""Beside each topology as it is without parameters."""
QUICK = ("ring(5)", "dgx1", "star(2)", "mi50_4p2h")
SIZES = (1, 1000, 70_001)
"""S in bytes."""
GRACE_S = 2.0


def machines(quick: bool) -> Iterator[str]:
    """Yield the machines, as the language names them."""
    yield from QUICK if quick else (*names(), *MORE)


def measure(machine: str, collective: str, deadline_s: float) -> dict[str, Any]:
    """Compile, verify and run one collective on one machine; never raises for what goes wrong there."""
    row: dict[str, Any] = {"case": f"{collective} on {machine}", "verified": False, "ok": False, "error": ""}
    started = time.perf_counter()
    try:
        artefact = compile_text(f"{collective} on {machine} {{ goal pareto, within {deadline_s:g} s }}", "sweep")
    except (DiagnosticError, NoScheduleError) as error:
        return row | {"error": str(error), "seconds": round(time.perf_counter() - started, 3)}
    seconds = time.perf_counter() - started
    row |= {"seconds": round(seconds, 3), **_figures(artefact)}
    if row["ranks"] > MOST_RANKS:
        return row | {"error": f"{row['ranks']} ranks", "ok": True}
    if row["solve_seconds"] > deadline_s + GRACE_S:
        row["error"] = f"the search took {row['solve_seconds']:.1f} s"
    with tempfile.TemporaryDirectory() as work:
        folder = artefact.save(Path(work) / "sweep")
        refused = [f"{r}" for r in audit(folder) if not r.ok]
        row["verified"] = not refused
        faults = list(refused)
        for backend in ("numpy", "cpu"):
            before = time.perf_counter()
            options = {"fallback": False} if backend == "cpu" else {}
            rows = run_checks(folder, backend, SIZES, ("f32", "u8"), options=options)
            wrong = [f"{backend}, {r.variant}, {r.bytes} B: {r.error}" for r in rows if not r.ok]
            row |= {backend: not wrong, f"{backend}_runs": len(rows)}
            row[f"{backend}_seconds"] = round(time.perf_counter() - before, 3)
            faults += wrong
    row["error"] = "; ".join([*filter(None, [row["error"]]), *faults[:2]])
    return row | {"ok": not row["error"]}


def _figures(artefact: Artefact) -> dict[str, Any]:
    (collective,) = artefact.collectives
    unit = collective.problem.topology.unit or Fraction(1)
    bound = collective.proof.bound.throughput.time_per_byte * unit
    achieved = min(v.time_per_byte for v in collective.variants) * unit
    return {
        "ranks": len(collective.problem.group),
        "status": collective.proof.status.value,
        "bound": str(bound),
        "achieved": str(achieved),
        "gap": round(float(achieved / bound - 1), 4) if bound else 0.0,
        "variants": len(collective.variants),
        "strategies": sorted({v.schedule.strategy for v in collective.variants}),
        "steps": min(v.schedule.steps for v in collective.variants),
        "solve_seconds": round(max(v.solve_seconds for v in collective.variants), 3),
    }


def main() -> int:
    """Run all cases, print and write the rows; the status is 1 if one is not ok."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}, and 2 s each")
    parser.add_argument("--deadline", type=float, default=0.0, metavar="S", help="for each search (default 6)")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="cases with one of these words")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    deadline = arguments.deadline or (2.0 if arguments.quick else 6.0)
    rows = []
    print(f"{'case':34} {'ranks':>5} {'bound':>8} {'achieved':>8} {'gap':>6} {'vars':>4} {'s':>6} verified numpy cpu")
    for machine in machines(arguments.quick):
        for collective in COLLECTIVES:
            case = f"{collective} on {machine}"
            if arguments.only and not any(word in case for word in arguments.only):
                continue
            row = measure(machine, collective, deadline)
            rows.append(row)
            shown = [row.get(key, "-") for key in ("ranks", "bound", "achieved", "gap", "variants", "seconds")]
            checks = " ".join("yes" if row.get(key) else "NO" for key in ("verified", "numpy", "cpu"))
            print("{:34} {:>5} {:>8} {:>8} {:>6} {:>4} {:>6} {}".format(case, *shown, checks), row["error"], flush=True)
    failed = [row["case"] for row in rows if not row["ok"]]
    gaps = [row for row in rows if row.get("gap")]
    print(f"{len(rows)} cases, {len(rows) - len(failed)} ok, {len(gaps)} above the bound of throughput")
    if arguments.json:
        machine = {"machine": platform.platform(), "cores": os.cpu_count(), "deadline_s": deadline}
        lines = ",\n ".join(map(json.dumps, rows))  # a row a line
        arguments.json.write_text(f'{json.dumps(machine)[:-1]}, "rows": [\n {lines}\n]}}\n')
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
