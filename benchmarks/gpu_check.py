"""The one script for a machine with a GPU: are the generated kernels right there, and how fast.

All ranks of an example run on one GPU in one cooperative launch (and one GPU a rank where there are enough). Every
result is compared with the collective's definition. Needs the extra ``cuda13`` or ``cuda12``.

    python benchmarks/gpu_check.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from acclc import compile_file
from acclc_runtime.errors import BackendUnavailableError
from acclc_runtime.run import run_checks

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ("dgx1", "odd_rings", "hgx_h100", "two_roots", "torus_halo")
SIZES = (1, 1000, 64 * 1024, 1024 * 1024 + 4, 64 * 1024 * 1024)
TYPES = ("f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8")


def main() -> int:
    """Compile, run, print and write the rows; exit code 1 if any is wrong, 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer types and sizes, DGX-1 only")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in EXAMPLES[: 1 if arguments.quick else None]:
        with tempfile.TemporaryDirectory() as work:
            folder = compile_file(ROOT / "examples" / f"{name}.accl").save(Path(work) / name)
            try:
                found = run_checks(
                    folder,
                    backend="cuda",
                    sizes=SIZES[:3] if arguments.quick else SIZES,
                    dtypes=TYPES[:1] if arguments.quick else TYPES,
                    iterations=5,
                )
            except BackendUnavailableError as error:
                print(f"not run: {error}")
                return 2
        for row in found:
            rows.append({"case": name, "verified": row.ok, **row.to_dict()})
            print(f"{name:12} {row.collective:16} {row.variant:16} {row.dtype:5} {row.bytes:>10} B  "
                  f"{row.seconds * 1e6:10.1f} us  {'ok' if row.ok else row.error or 'WRONG'}", flush=True)  # fmt: skip
    if arguments.json:
        machine = {"machine": platform.platform(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")
    wrong = sum(not row["verified"] for row in rows)
    print(f"{len(rows)} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
