"""Collectives between processes on CPUs: the artefact's kernels through the public API, beside MPICH.

    python benchmarks/runtime.py [--quick] [--json FILE] [--ranks 2,4,8] [--rounds R] [--peer PYTHON]

Times are microseconds a call of float32, out of place: rank 0's mean in a round, the median of alternating rounds
(ours, the peer's, ours, ...), each with processes of its own. S is counted as nccl-tests does: the larger buffer.
``symmetric`` arrays are of ``comm.empty``; ``private`` ones any, aligned on 64 bytes, as the peer's are. The peer is
used where PYTHON (default: this one) has mpi4py with an mpiexec beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SIZES = (8, 256, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20)
QUICK_SIZES = (8, 1 << 10, 64 << 10, 4 << 20)
BUDGET_S = 0.04

PEER = """
import sys, json, time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
n, rank = comm.Get_size(), comm.Get_rank()
def array(length):
    raw = np.zeros(length * 4 + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + length * 4].view(np.float32)
rows = []
for name, size, turns in json.loads(sys.argv[1]):
    whole = max(n, size // 4) if name != "all_reduce" else max(1, size // 4)
    part = whole // n
    x = array(part if name == "all_gather" else whole)
    y = array(part if name == "reduce_scatter" else whole)
    x[:] = 1
    call = {
        "all_reduce": lambda: comm.Allreduce(x, y),
        "all_gather": lambda: comm.Allgather(x, y),
        "reduce_scatter": lambda: comm.Reduce_scatter_block(x, y),
        "all_to_all": lambda: comm.Alltoall(x, y),
    }[name]
    call()
    begin = time.perf_counter()
    for _ in range(3):
        call()
    turns = comm.bcast(min(turns, max(3, int(0.2 * 3 / (time.perf_counter() - begin)))), root=0)
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(turns):
        call()
    rows.append((time.perf_counter() - begin) / turns)
if rank == 0:
    print(json.dumps([MPI.Get_library_version().split(chr(10))[0][:40], rows]))
"""

Cell = tuple[str, int, int]
"""Operation, S in bytes, calls to time."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; microseconds. ``peer_seconds`` is None where there is no peer."""

    case: str
    verified: bool
    operation: str
    ranks: int
    size: int
    seconds: float
    private_seconds: float
    peer: str
    peer_seconds: float | None


def cells(ranks: int, sizes: tuple[int, ...]) -> list[Cell]:
    """Return what is timed, with as many calls as fit into the budget of a slow machine."""
    return [
        (name, size, max(3, min(2000, int(BUDGET_S / (3e-6 * ranks + size * ranks / 2e9)))))
        for name in OPERATIONS
        for size in sizes
    ]


def aligned(length: int) -> np.ndarray[Any, Any]:
    """Return float32 that begin on 64 bytes."""
    raw = np.zeros(length * 4 + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + length * 4].view(np.float32)


def ours(comm: Any, wanted: list[Cell]) -> list[tuple[float, float, bool]]:
    """Return, for each cell, seconds with symmetric and with private arrays, and whether the results are right."""
    return [(*(timed(comm, cell, make) for make in (comm.empty, aligned)), right(comm, cell)) for cell in wanted]


def buffers(comm: Any, cell: Cell, make: Any) -> tuple[Any, Any]:
    name, size, _ = cell
    n = comm.world
    whole = max(1, size // 4) if name == "all_reduce" else max(n, size // 4)
    whole = whole if name == "all_reduce" else whole // n * n
    x = make(whole // n if name == "all_gather" else whole)
    y = make(whole // n if name == "reduce_scatter" else whole)
    x[:] = comm.rank + 1
    return x, y


def timed(comm: Any, cell: Cell, make: Any) -> float:
    name, _, turns = cell
    x, y = buffers(comm, cell, make)
    call = getattr(comm, name)
    for _ in range(max(2, turns // 10)):
        call(x, out=y)
    begin = time.perf_counter()
    for _ in range(turns):
        call(x, out=y)
    return (time.perf_counter() - begin) / turns


def right(comm: Any, cell: Cell) -> bool:
    """Check a call on data that are the rank's number."""
    x, y = buffers(comm, cell, comm.empty)
    getattr(comm, cell[0])(x, out=y)
    n = comm.world
    if cell[0] in ("all_reduce", "reduce_scatter"):
        return bool((y == n * (n + 1) // 2).all())
    return bool((y.reshape(n, -1) == np.arange(1, n + 1, dtype=np.float32)[:, None]).all())


def our_round(folder: Path, ranks: int, wanted: list[Cell]) -> list[tuple[float, float, bool]]:
    import acclc_runtime

    results = acclc_runtime.spawn(ours, ranks, folder, (wanted,))
    return [(a, b, all(r[n][2] for r in results)) for n, (a, b, _) in enumerate(results[0])]


def peer_round(python: str, ranks: int, wanted: list[Cell]) -> tuple[str, list[float]] | None:
    """Return the peer's version and seconds; None where it is not there."""
    mpiexec = Path(python).parent / "mpiexec"
    command = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(ranks), python, "-c", PEER]
    try:
        done = subprocess.run([*command, json.dumps(wanted)], capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    version, seconds = json.loads(done.stdout.splitlines()[-1])
    return version, seconds


def compile_full(folder: Path, ranks: int) -> Path:
    import acclc

    text = "\n".join(f"{name} on full({ranks})" for name in OPERATIONS)
    path: Path = acclc.compile_text(text, f"full{ranks}").save(folder / f"full{ranks}")
    return path


def run(folder: Path, ranks: int, sizes: tuple[int, ...], rounds: int, python: str) -> list[Row]:
    artefact = compile_full(folder, ranks)
    wanted = cells(ranks, sizes)
    our_round(artefact, ranks, [(name, size, 1) for name, size, _ in wanted])  # builds the kernels
    mine, theirs, version = [], [], "-"
    for number in range(rounds):
        mine.append(our_round(artefact, ranks, wanted))
        found = peer_round(python, ranks, wanted)
        if found is not None:
            version = found[0]
            theirs.append(found[1])
        print(f"{ranks} ranks: round {number + 1} of {rounds}", file=sys.stderr)
    rows = []
    for n, (name, size, _) in enumerate(wanted):
        rows.append(
            Row(
                case=f"{name} {size} B x{ranks}",
                verified=all(r[n][2] for r in mine),
                operation=name,
                ranks=ranks,
                size=size,
                seconds=statistics.median(r[n][0] for r in mine),
                private_seconds=statistics.median(r[n][1] for r in mine),
                peer=version,
                peer_seconds=statistics.median(r[n] for r in theirs) if theirs else None,
            )
        )
    return rows


def table(rows: list[Row]) -> str:
    lines = [f"{'collective':15} {'N':>2} {'S':>9} {'symmetric':>10} {'private':>10} {'peer':>10}  sym x  priv x"]
    for r in rows:
        peer = f"{r.peer_seconds * 1e6:10.1f}" if r.peer_seconds else f"{'-':>10}"
        ratios = (
            f"{r.peer_seconds / r.seconds:6.2f} {r.peer_seconds / r.private_seconds:6.2f}" if r.peer_seconds else ""
        )
        mark = "" if r.verified else "  WRONG"
        lines.append(
            f"{r.operation:15} {r.ranks:2} {r.size:9} {r.seconds * 1e6:10.1f} {r.private_seconds * 1e6:10.1f} "
            f"{peer} {ratios}{mark}"
        )
    return "\n".join(lines)


def summary(rows: list[Row]) -> str:
    """Return geometric means of how many times faster than the peer, by class of size."""
    classes = (("all", 0, math.inf), ("<= 1 KiB", 0, 1 << 10), ("16-256 KiB", 16 << 10, 256 << 10),
               ("> 256 KiB", (256 << 10) + 1, math.inf))  # fmt: skip
    lines = []
    for ranks in dict.fromkeys(r.ranks for r in rows):
        for words, least, most in classes:
            found = [r for r in rows if r.ranks == ranks and least <= r.size <= most and r.peer_seconds]
            if found:
                means = [
                    statistics.geometric_mean((r.peer_seconds or 0) / getattr(r, key) for r in found)
                    for key in ("seconds", "private_seconds")
                ]
                lines.append(f"N={ranks} {words:11} {means[0]:5.2f}x symmetric, {means[1]:5.2f}x private")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few sizes, two rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    parser.add_argument("--ranks", default="2,4,8", metavar="N,...")
    parser.add_argument("--rounds", type=int, default=0, metavar="R")
    parser.add_argument("--peer", default=os.environ.get("ACCLC_PEER_PYTHON", sys.executable), metavar="PYTHON")
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.quick else 5)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in map(int, options.ranks.split(",")):
            rows += run(Path(folder), ranks, QUICK_SIZES if options.quick else SIZES, rounds, options.peer)
    print(table(rows))
    print(summary(rows))
    print(f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}; peer: {rows[0].peer}")
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    return 0 if all(r.verified for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
