"""all_to_all_v with counts that differ from call to call: right results for many matrices, one schedule a machine.

    python benchmarks/varying.py [--matrices N] [--quick] [--json FILE]

Each machine's schedule is compiled and verified once. Then so many matrices of counts (even, random with zeros, one
destination a rank, one huge block among tiny ones; sizes from nothing to a megabyte a rank) go with as many calls of
the cpu backend, and every output is compared with the definition, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import acclc_runtime
from acclc import compile_text
from acclc.audit import audit
from acclc_runtime.dtypes import named
from acclc_runtime.reference import PATTERNS, check, random_counts, random_inputs

MACHINES = {
    "dgx1": "all_to_all_v on dgx1 { goal bandwidth, within 30 s }",
    "dgx2 (16 ranks, a switch)": "all_to_all_v on dgx2 { goal bandwidth, within 30 s }",
    "ring of 6": "all_to_all_v on ring(n = 6) { goal bandwidth, within 30 s }",
}
TYPES = ("f32", "u8", "f64", "bf16")
LARGEST_ROW = 2**18
"""Elements that a rank sends, at most."""


def matrices(collective: Any, number: int, seed: int) -> Iterator[tuple[str, tuple[tuple[int, ...], ...]]]:
    """Yield (pattern, counts): all patterns in turn, of all orders of magnitude."""
    n = len(collective.ranks)
    yield "zeros", ((0,) * n,) * n
    generator = np.random.default_rng(seed)
    for turn in range(number - 1):
        pattern = PATTERNS[turn % len(PATTERNS)]
        row = int(2 ** generator.uniform(0, np.log2(LARGEST_ROW)))
        yield pattern, random_counts(collective, pattern, row, seed + turn)


def measure(name: str, text: str, number: int) -> dict[str, Any]:
    """Compile a machine's schedule and call it with ``number`` matrices."""
    started = time.perf_counter()
    artefact = compile_text(text, "varying")
    with tempfile.TemporaryDirectory() as work:
        folder = artefact.save(Path(work) / "varying")
        verified = all(row.ok for row in audit(folder))
        compiled = time.perf_counter() - started
        loaded = acclc_runtime.load(folder)
        (collective,) = loaded.manifest.collectives
        wrong: list[str] = []
        seen: Counter[str] = Counter()
        moved = 0
        seconds = 0.0
        with loaded.local("cpu", fallback=False) as group:
            for turn, (pattern, counts) in enumerate(matrices(collective, number, 1)):
                dtype = TYPES[turn % len(TYPES)]
                inputs = random_inputs(collective, 0, dtype, turn, counts=counts)
                outputs = [np.full(sum(column), 0xFF, named(dtype).storage) for column in zip(*counts, strict=True)]
                before = time.perf_counter()
                group.all_to_all_v(inputs, counts, outputs, dtype=dtype)
                seconds += time.perf_counter() - before
                found = check(collective, inputs, outputs, 0, dtype, counts=counts)
                if found.wrong:
                    wrong.append(f"matrix {turn} ({pattern}, {dtype}): {found.mismatches[0]}")
                seen[pattern] += 1
                moved += sum(map(sum, counts)) * named(dtype).item_bytes
    for line in wrong[:5]:
        print(line, file=sys.stderr)
    return {
        "case": name,
        "verified": verified,
        "seconds": round(compiled, 3),
        "variants": [v.id for v in collective.variants],
        "matrices": sum(seen.values()),
        "patterns": dict(seen),
        "right": sum(seen.values()) - len(wrong),
        "mean_call_ms": round(1000 * seconds / sum(seen.values()), 3),
        "moved_MB": round(moved / 1e6, 1),
    }


def main() -> int:
    """Run all machines, print and write the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--matrices", type=int, default=1000, metavar="N")
    parser.add_argument("--quick", action="store_true", help="40 matrices a machine")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    number = 40 if arguments.quick else arguments.matrices
    rows = []
    print(f"{'machine':28} {'compile s':>9} {'matrices':>8} {'right':>6} {'ms a call':>9} {'MB moved':>9}")
    for name, text in MACHINES.items():
        row = measure(name, text, number)
        rows.append(row)
        print(
            f"{name:28} {row['seconds']:9.1f} {row['matrices']:8} {row['right']:6} {row['mean_call_ms']:9.2f} "
            f"{row['moved_MB']:9.1f}",
            flush=True,
        )
    if arguments.json:
        machine = {"machine": platform.platform(), "cores": os.cpu_count()}
        arguments.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")
    return 0 if all(row["verified"] and row["right"] == row["matrices"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
