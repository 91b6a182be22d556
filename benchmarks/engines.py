"""The MPI engine beside MPI's own all_reduce: seconds a call of the same ranks, in the same processes, in turn.

    python benchmarks/engines.py [--quick] [--json FILE] [--ranks N] [--mpiexec COMMAND] [--private] [--without-kernels]

with a Python that has mpi4py. ``seconds`` and ``peer_seconds`` are the medians of rounds in which both take turns, the
mean of all ranks. The topology is full; f32, sum, out of place, arrays of ``comm.empty`` (or private ones). Each row's
result is compared with MPI's. On one host generated kernels run the calls; without them slices go through the rings of
a window, as between the ranks of one host in calls that have ranks of others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SIZES = (1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
QUICK = (1 << 20, 4 << 20)
ROUNDS = 5


def rank_main(folder: str, sizes: list[int], private: bool, kernels: bool) -> None:
    """What one rank does; rank 0 prints the rows."""
    import numpy as np
    from mpi4py import MPI

    import acclc_runtime as rt
    from acclc_runtime.engines.mpi.join import join_mpi

    everyone = MPI.COMM_WORLD

    def timed(call: Callable[[], Any], turns: int) -> float:
        call()
        everyone.Barrier()
        begin = time.perf_counter()
        for _ in range(turns):
            call()
        return everyone.allreduce((time.perf_counter() - begin) / turns) / everyone.Get_size()

    rows = []
    loaded = rt.load(folder)
    with join_mpi(loaded.folder, loaded.manifest, kernels=kernels) as comm:
        for size in sizes:
            x, out, peer = ((np.zeros if private else comm.empty)(size // 4, np.float32) for _ in range(3))
            x[:] = comm.rank
            turns = max(3, min(40, (16 << 20) // size))

            def ours(x: Any = x, out: Any = out) -> Any:
                return comm.all_reduce(x, out=out)

            def theirs(x: Any = x, peer: Any = peer) -> Any:
                return everyone.Allreduce(x, peer)

            pairs = [(timed(ours, turns), timed(theirs, turns)) for _ in range(ROUNDS)]
            rows.append(
                {
                    "case": f"all_reduce, {comm.world} ranks, {size} B",
                    "verified": bool(np.array_equal(out, peer)),
                    "seconds": median(a for a, _ in pairs),
                    "peer": MPI.Get_library_version().split("\n")[0].strip()[:40],
                    "peer_seconds": median(b for _, b in pairs),
                }
            )
    if everyone.Get_rank() == 0:
        print("\nrows " + json.dumps(rows), flush=True)


def main() -> int:
    """Compile, start the ranks, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--mpiexec", default=str(Path(sys.executable).parent / "mpiexec"))
    parser.add_argument("--private", action="store_true")
    parser.add_argument("--without-kernels", action="store_true")
    parser.add_argument("--rank-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        rank_main(options.rank_of[0], *json.loads(options.rank_of[1]))
        return 0
    from acclc import compile_text

    with tempfile.TemporaryDirectory() as folder:
        artefact = compile_text(f"all_reduce on full({options.ranks})", "full").save(Path(folder) / "full")
        asked = json.dumps((QUICK if options.quick else SIZES, options.private, not options.without_kernels))
        path = os.pathsep.join((str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")))
        command = [*options.mpiexec.split(), "-n", str(options.ranks), sys.executable, __file__]
        done = subprocess.run(
            [*command, "--rank-of", str(artefact), asked],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": path},
        )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("rows ")]
    rows = json.loads(line.removeprefix("rows "))
    print(f"{'case':32} {'ours us':>10} {'MPI us':>10} {'ratio':>6}  {rows[0]['peer']}")
    for row in rows:
        ours, theirs = row["seconds"] * 1e6, row["peer_seconds"] * 1e6
        print(
            f"{row['case']:32} {ours:10.0f} {theirs:10.0f} {ours / theirs:6.2f}  {'' if row['verified'] else 'WRONG'}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["verified"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
