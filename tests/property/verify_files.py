"""Run as a program: verifies mutated files from the files alone, where solve and lower cannot be imported.

Arguments: a folder. Each folder in it is a case: problem.json, schedule.json, program.json, kernel.json, and
``faults/<level>-<number>.json``. Prints one JSON object: the case's file name -> codes of the findings.
"""

from __future__ import annotations

import json
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

FORBIDDEN = ("acclc.solve", "acclc.lower", "acclc.bounds", "acclc.simulate", "acclc.sema", "ortools", "networkx")


class Barrier(MetaPathFinder):
    """Refuses the import of what verification must not need."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if any(name == f or name.startswith(f + ".") for f in FORBIDDEN):
            raise ImportError(f"{name} must not be imported to verify")


def main(root: Path) -> None:
    sys.meta_path.insert(0, Barrier())
    from acclc.ir.kernel_program import KernelProgram
    from acclc.ir.problem import Problem
    from acclc.ir.program import Program
    from acclc.ir.schedule import Schedule
    from acclc.verify import check_kernel, check_problem, check_program, check_schedule
    from acclc_runtime.codec import from_json
    from acclc_runtime.errors import DamagedFileError

    kinds = {"problem": Problem, "schedule": Schedule, "program": Program, "kernel": KernelProgram}

    def read(path: Path, level: str):  # type: ignore[no-untyped-def]
        return from_json(path.read_bytes(), kinds[level], f"acclc-{level}", 1, path.name)

    results: dict[str, list[str]] = {}
    for case in sorted(p for p in root.iterdir() if p.is_dir()):
        problem, schedule, program, kernel = (read(case / f"{level}.json", level) for level in kinds)
        checks = {
            "schedule": lambda s, p=problem: check_schedule(p, s),
            "program": lambda g, p=problem, s=schedule: check_program(p, s, g),
            "kernel": lambda k, p=problem, s=schedule: check_kernel(p, s, k),
        }
        sound = [
            check_problem(problem),
            checks["schedule"](schedule),
            checks["program"](program),
            checks["kernel"](kernel),
        ]
        results[f"{case.name}"] = [f.code for report in sound for f in report.errors]
        for path in sorted((case / "faults").iterdir()):
            level = path.name.split("-")[0]
            try:
                report = checks[level](read(path, level))
                codes = [f.code for f in report.errors]
            except DamagedFileError:
                codes = ["damaged"]
            results[f"{case.name}/{path.name}"] = codes
    loaded = [m for m in sys.modules if m.startswith(FORBIDDEN)]
    print(json.dumps({"results": results, "loaded": loaded}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
