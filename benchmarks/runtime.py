"""Collectives between processes on CPUs: the artefact's kernels through the public API, beside MPICH and OpenMPI.

    python benchmarks/runtime.py [--quick] [--json FILE] [--ranks 2,4,8] [--rounds R]
                                 [--peer PYTHON[:MPIEXEC]]... [--hand-written FOLDER]

Times are microseconds a call of float32, out of place: rank 0's mean in a round, the median of alternating rounds
(ours, each peer's, ours, ...), each with processes of its own. S is counted as nccl-tests does: the larger buffer.
``symmetric`` arrays are of ``comm.empty``; ``private`` ones any, aligned on 64 bytes, as the peers' are. A peer is a
Python that has mpi4py, and the mpiexec that starts it (default: the one beside it); the better one counts in each cell.
``--hand-written`` names a folder with core.cpp, a direct plan in C++ (peers/prototype_peer.py), whose loop over its
calls is in C++ too; ``x`` compares it with ``plan``, the symmetric call in such a loop (peers/plan_loop.py). ``roof``
is the share of the memory roof (peers/memory_roof.py) that the symmetric call reaches.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers import memory_roof, plan_loop, prototype_peer

from acclc_runtime.peers.mpi import Mpi

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SIZES = (8, 256, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20)
QUICK_SIZES = (8, 1 << 10, 64 << 10, 4 << 20)
BUDGET_S = 0.04

Cell = tuple[str, int, int]
"""Operation, S in bytes, calls to time."""

Ours = tuple[float, float, float | None, bool]
"""Seconds with symmetric and with private arrays, and of the plan; whether the results are right."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. ``peers``: version and seconds of each; ``peer_seconds`` of the better one, if any."""

    case: str
    verified: bool
    operation: str
    ranks: int
    size: int
    seconds: float
    private_seconds: float
    peers: dict[str, float]
    peer_seconds: float | None
    plan_seconds: float | None
    hand_written_seconds: float | None
    roof: float
    """Share of the memory roof; above 1 where caches hold the arrays."""


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


def ours(comm: Any, wanted: list[Cell], loop: Path | None) -> list[Ours]:
    """Return what is measured of each cell."""
    found = []
    for name, size, turns in wanted:
        cell = (name, size, turns)
        x, y = buffers(comm, cell, comm.empty)
        plan = None if loop is None else plan_loop.seconds(loop, comm, getattr(comm, name), x, y, turns)
        symmetric, private = (timed(comm, cell, make) for make in (comm.empty, aligned))
        found.append((symmetric, private, plan, right(comm, cell)))
    return found


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


def our_round(folder: Path, ranks: int, wanted: list[Cell], loop: Path | None) -> list[Ours]:
    import acclc_runtime

    results = acclc_runtime.spawn(ours, ranks, folder, (wanted, loop))
    return [(*times, all(r[n][3] for r in results)) for n, (*times, _) in enumerate(results[0])]


def compile_full(folder: Path, ranks: int) -> Path:
    import acclc

    text = "\n".join(f"{name} on full({ranks})" for name in OPERATIONS)
    path: Path = acclc.compile_text(text, f"full{ranks}").save(folder / f"full{ranks}")
    return path


def hand_written_round(library: Path, ranks: int, wanted: list[Cell]) -> list[float]:
    program = Path(__file__).parent / "peers" / "prototype_peer.py"
    command = [sys.executable, str(program), str(library), str(ranks), json.dumps(wanted)]
    found: list[float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def run(
    folder: Path, ranks: int, sizes: tuple[int, ...], rounds: int, peers: list[Mpi], library: Path | None, roof: float
) -> list[Row]:
    artefact = compile_full(folder, ranks)
    wanted = cells(ranks, sizes)
    loop = None if library is None else plan_loop.build(folder)
    our_round(artefact, ranks, [(name, size, 1) for name, size, _ in wanted], None)  # builds the kernels
    mine: list[list[Ours]] = []
    theirs: dict[str, list[list[float]]] = {}
    by_hand: list[list[float]] = []
    for number in range(rounds):
        mine.append(our_round(artefact, ranks, wanted, loop))
        for peer in peers:
            version, seconds = peer.seconds(ranks, wanted)
            theirs.setdefault(version, []).append([s for s in seconds if s is not None])
        if library is not None:
            by_hand.append(hand_written_round(library, ranks, wanted))
        print(f"{ranks} ranks: round {number + 1} of {rounds}", file=sys.stderr)
    rows = []
    for n, (name, size, _) in enumerate(wanted):
        medians = {version: statistics.median(r[n] for r in found) for version, found in theirs.items()}
        seconds = statistics.median(r[n][0] for r in mine)
        rows.append(
            Row(
                case=f"{name} {size} B x{ranks}",
                verified=all(r[n][3] for r in mine),
                operation=name,
                ranks=ranks,
                size=size,
                seconds=seconds,
                private_seconds=statistics.median(r[n][1] for r in mine),
                peers=medians,
                peer_seconds=min(medians.values(), default=None),
                plan_seconds=None if loop is None else statistics.median(r[n][2] or 0 for r in mine),
                hand_written_seconds=statistics.median(r[n] for r in by_hand) if by_hand else None,
                roof=memory_roof.moved(name, ranks, size) / seconds / roof,
            )
        )
    return rows


def table(rows: list[Row]) -> str:
    versions = list(dict.fromkeys(version for r in rows for version in r.peers))
    letters = dict(zip(versions, "ABCDEF", strict=False))
    columns = "".join(f" {letters[v]:>10}" for v in versions)
    lines = [f"{letters[v]}: {v}" for v in versions]
    lines.append(
        f"{'collective':15} {'N':>2} {'S':>9} {'symmetric':>10} {'private':>10}{columns}  sym x  priv x"
        f" {'plan':>10} {'by hand':>10} {'x':>5} {'roof':>5}"
    )
    for r in rows:
        times = "".join(f" {r.peers[v] * 1e6:10.1f}" if v in r.peers else f" {'-':>10}" for v in versions)
        ratios = f"{'-':>6} {'-':>6}"
        if r.peer_seconds:
            ratios = f"{r.peer_seconds / r.seconds:6.2f} {r.peer_seconds / r.private_seconds:6.2f}"
        by_hand = f"{'-':>10} {'-':>10} {'-':>5}"
        if r.hand_written_seconds and r.plan_seconds:
            times_as_fast = r.hand_written_seconds / r.plan_seconds
            by_hand = f"{r.plan_seconds * 1e6:10.1f} {r.hand_written_seconds * 1e6:10.1f} {times_as_fast:5.2f}"
        lines.append(
            f"{r.operation:15} {r.ranks:2} {r.size:9} {r.seconds * 1e6:10.1f} {r.private_seconds * 1e6:10.1f}"
            f"{times} {ratios} {by_hand} {r.roof:5.2f}{'' if r.verified else '  WRONG'}"
        )
    return "\n".join(lines)


def plan(rows: list[Row]) -> str:
    """Return how fast the plan is beside the hand-written one, in words; nothing where there is none."""
    ratios = [r.hand_written_seconds / r.plan_seconds for r in rows if r.hand_written_seconds and r.plan_seconds]
    if not ratios:
        return ""
    met = sum(ratio >= 0.9 for ratio in ratios)
    return f"; the plan {statistics.geometric_mean(ratios):.2f}x the hand-written one, {met} of {len(ratios)} >= 0.9"


def summary(rows: list[Row]) -> str:
    """Return geometric means of how many times faster than the peer, by class of size."""
    classes = (("all", 0, math.inf), ("<= 1 KiB", 0, 1 << 10), ("16-256 KiB", 16 << 10, 256 << 10),
               ("> 256 KiB", (256 << 10) + 1, math.inf))  # fmt: skip
    lines = []
    for ranks in [None, *dict.fromkeys(r.ranks for r in rows)]:
        for words, least, most in classes:
            found = [r for r in rows if ranks in (None, r.ranks) and least <= r.size <= most and r.peer_seconds]
            if found:
                means = [
                    statistics.geometric_mean((r.peer_seconds or 0) / getattr(r, key) for r in found)
                    for key in ("seconds", "private_seconds")
                ]
                name = "all N" if ranks is None else f"N={ranks}  "
                lines.append(f"{name} {words:11} {means[0]:5.2f}x symmetric, {means[1]:5.2f}x private{plan(found)}")
    for r in rows:
        for binding, seconds in (("symmetric", r.seconds), ("private", r.private_seconds)):
            if r.peer_seconds and seconds > r.peer_seconds:
                lines.append(f"below 1x: {r.case}, {binding}: {r.peer_seconds / seconds:.2f}x")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few sizes, two rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    parser.add_argument("--ranks", default="2,4,8", metavar="N,...")
    parser.add_argument("--rounds", type=int, default=0, metavar="R")
    parser.add_argument("--peer", action="append", metavar="PYTHON[:MPIEXEC]", help="default: no peer")
    parser.add_argument("--hand-written", type=Path, metavar="FOLDER", help="with core.cpp")
    options = parser.parse_args()
    rounds = options.rounds or (2 if options.quick else 5)
    peers = [Mpi.of(text) for text in options.peer or ()]
    roof = memory_roof.measure()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = None
        if options.hand_written and shutil.which("g++"):
            library = prototype_peer.build(options.hand_written, folder)
        for ranks in map(int, options.ranks.split(",")):
            sizes = QUICK_SIZES if options.quick else SIZES
            rows += run(folder, ranks, sizes, rounds, peers, library, roof)
    print(table(rows))
    print(summary(rows))
    print(f"{os.cpu_count()} cores, {platform.machine()}, memory roof {roof / 1e9:.1f} GB/s")
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    return 0 if all(r.verified for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
