"""The one script for a machine with a GPU: are the generated kernels right there, and how fast.

All ranks of an example run on one GPU in one cooperative launch (and one GPU a rank where there are enough). Every
result is compared with the collective's definition. Then two processes, a rank each, map each other's memory (on two
GPUs, or on the one there is). Needs the extra ``cuda13`` or ``cuda12``.

    python benchmarks/gpu_check.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from acclc import compile_file, compile_text
from acclc_runtime import spawn
from acclc_runtime.errors import BackendUnavailableError
from acclc_runtime.reference import expected, random_inputs
from acclc_runtime.run import run_checks

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ("dgx1", "odd_rings", "hgx_h100", "two_roots", "torus_halo")
SIZES = (1, 1000, 64 * 1024, 1024 * 1024 + 4, 64 * 1024 * 1024)
TYPES = ("f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8")


PAIR = "\n".join(f"{name} on full(2)" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))


def check_rank(comm: Any, counts: tuple[int, ...]) -> list[tuple[str, int, bool]]:
    """Call all collectives as one rank of ``PAIR``: (name, count, right), each with staged and symmetric arrays."""
    import cupy

    cupy.cuda.Device(comm.device).use()
    found = []
    for collective in comm.manifest.collectives:
        n = collective.ranks.index(comm.rank)
        for count in counts:
            inputs = random_inputs(collective, count, "f32", count, op="sum" if collective.reduces else None)
            wanted = expected(collective, inputs, count, "f32", "sum" if collective.reduces else None)[n]
            for make in (comm.empty, functools.partial(cupy.empty, dtype="float32")):
                x, out = make(collective.input_units[n] * count), make(collective.output_units[n] * count)
                cupy.cuda.runtime.memcpy(x.__cuda_array_interface__["data"][0], inputs[n].ctypes.data, x.nbytes, 1)
                comm.collective(collective.name, x, out)
                comm.synchronize()
                got = np.empty_like(wanted, np.float32)
                cupy.cuda.runtime.memcpy(got.ctypes.data, out.__cuda_array_interface__["data"][0], got.nbytes, 2)
                found.append((collective.name, count, bool(np.array_equal(got, wanted, equal_nan=True))))
    return found


def check_pair(counts: tuple[int, ...]) -> list[dict[str, Any]]:
    """Run ``check_rank`` in two processes; return a row a call."""
    with tempfile.TemporaryDirectory() as work:
        folder = compile_text(PAIR, "pair").save(Path(work) / "pair")
        told = spawn(check_rank, 2, folder, (counts,), transport="cuda", timeout_s=60.0)
    return [{"case": f"pair/{name}", "count": count, "verified": good} for rank in told for name, count, good in rank]


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
    for pair in check_pair(SIZES[:3]):
        rows.append(pair)
        print(f"{pair['case']:30} {pair['count']:>10}  {'ok' if pair['verified'] else 'WRONG'}", flush=True)
    if arguments.json:
        machine = {"machine": platform.platform(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")
    wrong = sum(not row["verified"] for row in rows)
    print(f"{len(rows)} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
