"""How large the generated kernels are, and how long the C++ compiler takes for one instance of each.

Bars: a variant's source under 200 KB, its build under 3 s.

    python benchmarks/kernels.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from acclc import compile_file
from acclc.audit import audit
from acclc_runtime.backends.kernel_file import ABI

ROOT = Path(__file__).resolve().parent.parent


def build_seconds(compiler: str, source: Path, kind: tuple[str, str], runs: int) -> float:
    """Return the median time of compiling a kernel with the flags that the cpu backend uses."""
    flags = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-x", "c++"]
    instance = [f"-DACCL_TYPE={kind[0]}", f"-DACCL_OP={kind[1]}", f"-DACCL_RUNTIME_ABI={ABI}"]
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run([compiler, *flags, *instance, str(source), "-o", os.devnull], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> int:
    """Compile the example, build every kernel, print and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="build each once instead of five times")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    compiler = os.environ.get("CXX", "g++")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        artefact = compile_file(ROOT / "examples" / "dgx1.accl")
        folder = artefact.save(Path(work) / "dgx1")
        verified = all(row.ok for row in audit(folder))
        print(f"{'case':24} {'KB':>8} {'build s':>8}")
        for collective in artefact.collectives:
            kind = ("f32", "sum") if collective.problem.reduces else ("b4", "none")
            for variant in collective.variants:
                source = folder / collective.name / variant.id / "kernel.cu"
                seconds = build_seconds(compiler, source, kind, 1 if arguments.quick else 5)
                size = source.stat().st_size
                case = f"{collective.name}/{variant.id}"
                rows.append({"case": case, "verified": verified, "seconds": seconds, "source_bytes": size})
                print(f"{case:24} {size / 1000:8.1f} {seconds:8.2f}", flush=True)
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    print(f"largest {max(r['source_bytes'] for r in rows) / 1000:.1f} KB, slowest {max(r['seconds'] for r in rows):.2f} s, {version}")  # fmt: skip  # noqa: E501
    if arguments.json:
        machine = {"machine": platform.platform(), "cores": os.cpu_count(), "compiler": version}
        arguments.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")
    return 0 if verified else 1


if __name__ == "__main__":
    sys.exit(main())
