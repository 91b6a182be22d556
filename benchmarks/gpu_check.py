"""The one script for a machine with a GPU: are the generated kernels right there, and how fast.

    python benchmarks/gpu_check.py [--quick] [--dry] [--budget S] [--json FILE]

All ranks of an example run on one GPU in one cooperative launch (one GPU a rank where there are enough). Every result
is compared with the collective's definition: all examples in f32, then other types and operators on the DGX-1, as far
as the budget of time goes; what it left out is said. Then the rate of large calls beside the device's own copies, the
time of 8 bytes, compute-sanitizer on a small run (where it is installed), and two processes that map each other's
memory, by calls and by a captured graph. Needs the extra ``cuda13`` or ``cuda12``, and no network.

``--dry`` needs no GPU: everything but the launches. The examples are compiled, the runs are counted, and kernels are
built by nvcc, if it is installed: with ``--quick`` the smallest of each collective for one architecture.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from peers import memory_roof

from acclc import compile_file, compile_text
from acclc_runtime import load, spawn
from acclc_runtime.backends.kernel_file import ABI
from acclc_runtime.bench import Effort, bench, cases
from acclc_runtime.errors import AcclcRuntimeError, BackendUnavailableError
from acclc_runtime.reference import expected, random_inputs
from acclc_runtime.run import cases_to_run, run_checks

ROOT = Path(__file__).resolve().parent.parent
FIRST = "dgx1"
SIZES = (1, 1000, 64 * 1024, 1024 * 1024 + 4, 64 * 1024 * 1024)
TYPES = ("f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8")
OPERATORS = ("sum", "prod", "min", "max", "avg")
ARCHITECTURES = (80, 90, 100)
SMALL, LARGE = 8, 64 << 20
ROOFED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
COPY_BYTES, COPIES = 256 << 20, 10
PAIR = "\n".join(f"{name} on full(2)" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))

Row = dict[str, Any]


def examples(quick: bool) -> list[str]:
    """Return the names of the examples, the DGX-1 first."""
    others = sorted(path.stem for path in (ROOT / "examples").glob("*.accl") if path.stem != FIRST)
    return [FIRST] if quick else [FIRST, *others]


def compiled(work: Path, name: str) -> Path:
    """Compile an example once."""
    folder = work / name
    return folder if folder.exists() else compile_file(ROOT / "examples" / f"{name}.accl").save(folder)


def units(quick: bool) -> Iterator[tuple[str, str, str]]:
    """Yield what is checked together, the most telling first: (example, type, operator)."""
    for name in examples(quick):
        yield name, TYPES[0], OPERATORS[0]
    if not quick:
        others = list(product(TYPES, OPERATORS))[1:]
        yield from ((FIRST, dtype, op) for dtype, op in others)


def correct(work: Path, quick: bool, ends: float) -> Iterator[Row]:
    """Check results until the time is over.

    Raises:
        BackendUnavailableError: no GPU.
    """
    left = list(units(quick))
    while left and time.monotonic() < ends:
        name, dtype, op = left.pop(0)
        sizes = SIZES[:3] if quick else SIZES
        for row in run_checks(compiled(work, name), "cuda", sizes=sizes, dtypes=(dtype,), ops=(op,), iterations=5):
            yield {"case": f"{name} {row.collective}/{row.variant}", "verified": row.ok, **row.to_dict()}
    if left:
        print(f"not checked within the budget: {', '.join(' '.join(unit) for unit in left)}")


def copy_roof() -> Row:
    """Time the device's copies in its own memory; bytes read and written a second."""
    import cupy

    source, target = (cupy.zeros(COPY_BYTES, cupy.uint8) for _ in range(2))
    source.fill(1)
    for times in (1, COPIES):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            target.data.copy_from_device_async(source.data, COPY_BYTES, cupy.cuda.get_current_stream())
        cupy.cuda.Device().synchronize()
        seconds = (time.perf_counter() - begin) / times
    return {"case": "copy roof", "verified": True, "seconds": seconds, "moved": 2 * COPY_BYTES / seconds}


def rates(work: Path, roof: float) -> Iterator[Row]:
    """Time 8 bytes and 64 MiB of each collective of the DGX-1, the latter beside the roof."""
    folder = compiled(work, FIRST)
    for row in bench(folder, "cuda", cases(load(folder).manifest, (SMALL, LARGE), "f32", None, None, None), Effort()):
        side, size = row.out_of_place, row.case.size
        beside = size > SMALL and row.kind in ROOFED
        share = memory_roof.moved(row.kind, row.ranks, size) / side.seconds / roof if beside else None
        name = f"{row.case.collective} {size} B"
        yield {"case": name, "verified": not side.wrong, "seconds": side.seconds, "roof": share}


def sanitized(work: Path) -> Iterator[Row]:
    """Look for memory errors and races of one small run, where compute-sanitizer is installed."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer: not installed")
        return
    run = [sys.executable, "-m", "acclc", "run", str(compiled(work, FIRST)), "--backend", "cuda", "--size", "1KiB"]
    for check in ("memcheck", "racecheck"):
        done = subprocess.run(
            [tool, "--tool", check, "--error-exitcode", "9", *run], capture_output=True, text=True, check=False
        )
        yield {"case": f"compute-sanitizer {check}", "verified": done.returncode == 0, "said": done.stdout[-2000:]}


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
                _copy(x, inputs[n], into=True)
                comm.collective(collective.name, x, out)
                comm.synchronize()
                found.append((collective.name, count, _holds(out, wanted)))
    found.append(("captured all_reduce", 1000, _captured(comm)))
    return found


def _captured(comm: Any) -> bool:
    """Capture a call in a graph, and replay it on new data."""
    import cupy

    collective = next(c for c in comm.manifest.collectives if c.collective == "all_reduce")
    x, out = comm.empty(1000), comm.empty(1000)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        comm.collective(collective.name, x, out)  # a graph may not load a kernel
        comm.synchronize()
        stream.begin_capture()
        comm.collective(collective.name, x, out)
        graph = stream.end_capture()
    right = True
    for seed in range(3):
        inputs = random_inputs(collective, 1000, "f32", seed, op="sum")
        _copy(x, inputs[comm.rank], into=True)
        with stream:
            graph.launch()
        stream.synchronize()
        right = right and _holds(out, expected(collective, inputs, 1000, "f32", "sum")[comm.rank])
    return right


def _holds(array: Any, wanted: Any) -> bool:
    got = np.empty_like(wanted, np.float32)
    _copy(array, got, into=False)
    return bool(np.array_equal(got, wanted, equal_nan=True))


def _copy(device: Any, host: Any, *, into: bool) -> None:
    import cupy

    there, here = device.__cuda_array_interface__["data"][0], host.ctypes.data
    cupy.cuda.runtime.memcpy(*((there, here) if into else (here, there)), host.nbytes, 1 if into else 2)


def pair(work: Path) -> Iterator[Row]:
    """Run ``check_rank`` in two processes, on two GPUs or on the one there is."""
    folder = compile_text(PAIR, "pair").save(work / "pair")
    for rank, told in enumerate(spawn(check_rank, 2, folder, (SIZES[:3],), transport="cuda", timeout_s=60.0)):
        yield from ({"case": f"process {rank}: {name} {n}", "verified": good} for name, n, good in told)


def dry(work: Path, quick: bool) -> Iterator[Row]:
    """Do all that needs no GPU; a row's ``runs`` would be launched."""
    for name in examples(quick):
        manifest = load(compiled(work, name)).manifest
        runs = sum(
            1
            for example, dtype, op in units(quick)
            if example == name
            for _ in cases_to_run(manifest, SIZES, (dtype,), (op,), (False, True), None, 0)
        )
        yield {"case": f"{name}: {runs} runs", "verified": runs > 0, "runs": runs}
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc: not installed, so no kernel was built")
        return
    folder = compiled(work, FIRST)
    for collective in load(folder).manifest.collectives:
        kernels = [folder / variant.folder / "kernel.cu" for variant in collective.variants]
        if quick:
            kernels = [min(kernels, key=lambda path: path.stat().st_size)]
        for kernel, architecture in product(kernels, ARCHITECTURES[-1:] if quick else ARCHITECTURES):
            yield _build(nvcc, kernel, collective.reduces, architecture)


def _build(nvcc: str, kernel: Path, reduces: bool, architecture: int) -> Row:
    dtype, op = ("f32", "sum") if reduces else ("b4", "none")
    flags = [f"-DACCL_TYPE={dtype}", f"-DACCL_OP={op}", f"-DACCL_RUNTIME_ABI={ABI}", f"-arch=sm_{architecture}"]
    target = kernel.with_suffix(f".{architecture}.cubin")
    command = [nvcc, "-std=c++17", *flags, "-cubin", str(kernel), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    good = done.returncode == 0 and target.stat().st_size > 0
    name = f"{kernel.parent.parent.name}/{kernel.parent.name} for sm_{architecture}"
    return {"case": name, "verified": good, "said": done.stderr}


def parts(work: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of everything that was asked for."""
    if options.dry:
        yield from dry(work, options.quick)
        return
    yield from correct(work, options.quick, time.monotonic() + options.budget)
    roof = copy_roof()
    yield roof
    yield from rates(work, roof["moved"])
    yield from sanitized(work)
    yield from pair(work)


def main(words: list[str] | None = None) -> int:
    """Run, print and write the rows; exit code 1 if any is wrong, 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the DGX-1 only, in f32, up to 64 KiB")
    parser.add_argument("--dry", action="store_true", help="everything but the launches: needs no GPU")
    parser.add_argument("--budget", type=float, default=180.0, metavar="S", help="seconds for checks of results")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(words)
    rows: list[Row] = []
    failed = ""
    with tempfile.TemporaryDirectory() as work:
        try:
            for row in parts(Path(work), options):
                rows.append(row)
                taken = f"{row['seconds'] * 1e6:12.1f} us" if "seconds" in row else ""
                share = f"{row['roof']:6.2f} of the roof" if row.get("roof") else ""
                print(f"{row['case']:44} {'ok' if row['verified'] else 'WRONG':5} {taken} {share}".rstrip(), flush=True)
        except BackendUnavailableError as error:
            print(f"not run: {error}")
            if not rows:
                return 2
            failed = str(error)
        except AcclcRuntimeError as error:
            failed = str(error)
            print(f"ended: {failed}")
    if options.json:
        machine = {"machine": platform.platform(), "python": platform.python_version(), "ended": failed}
        options.json.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n")
    wrong = sum(not row["verified"] for row in rows)
    print(f"{len(rows)} rows, {wrong} wrong")
    return 1 if wrong or failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
