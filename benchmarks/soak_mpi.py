"""A long run of the MPI engine: random calls, each compared with what its collective means.

    python benchmarks/soak_mpi.py [--batches 20] [--calls 50] [--seed 0] [--threads] [--mpiexec COMMAND] [--json FILE]

A batch is a communicator of 2 to 5 ranks on one host or several, with slices of some length, and with or without
generated kernels within a host; its ranks make the same random calls: collective, variant, type, operator, 0 bytes to
some MB, in place or not, private arrays or ``comm.empty``'s, sometimes async. The ranks are MPI's, hosts those that
MPICH pretends; with ``--threads`` they are threads of this process, over the tests' double of mpi4py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
KINDS = (("f32", "sum"), ("bf16", "avg"), ("i64", "max"), ("u8", "prod"), ("f16", "sum"), ("f64", "min"))
KERNEL_KINDS = (("f32", "sum"), ("i64", "max"))
"""Each is a kernel to compile for every variant."""
SLICES = (256, 512, 4096, 1 << 16, None)
MOST_BYTES = 4 << 20
MOST_SLICES = 4000


@dataclass(frozen=True, slots=True)
class Batch:
    """``hosts``: on which each rank is; ``slice_bytes``: None is the engine's choice."""

    seed: int
    hosts: tuple[int, ...]
    slice_bytes: int | None
    kernels: bool
    calls: int


@dataclass(frozen=True, slots=True)
class Row:
    """A batch that was run: what was wrong, at most a few lines."""

    case: str
    verified: bool
    calls: int
    seconds: float
    faults: tuple[str, ...]


def text_of(ranks: int) -> str:
    names = ("all_gather", "reduce_scatter", "all_to_all")
    rooted = ("broadcast", "reduce", "gather", "scatter")
    lines = [f"all_reduce on full({ranks}) {{ goal pareto, chunks up to 2 }}", f"all_to_all_v on full({ranks}) as rows"]
    lines += [f"{name} on full({ranks})" for name in names]
    lines += [f"{name} on full({ranks}) {{ root g[{n % ranks}] }}" for n, name in enumerate(rooted)]
    if ranks > 2:
        lines += [f"all_reduce on ring({ranks}) as around", f"all_reduce on full({ranks}) among g[1..2] as pair"]
    return "\n".join(lines)


def batches_of(number: int, calls: int, seed: int, threads: bool) -> list[Batch]:
    """Return random batches. MPICH deals ranks to the hosts that it pretends (cliques) in turn."""
    choice, found = random.Random(seed), []
    for n in range(number):
        ranks = choice.randint(2, 5)
        hosts = [choice.randrange(choice.randint(1, ranks)) for _ in range(ranks)]
        if not threads:
            cliques = choice.randint(1, ranks)
            hosts = [rank % cliques for rank in range(ranks)]
        found.append(Batch(seed * 1000 + n, tuple(hosts), choice.choice(SLICES), choice.random() < 0.4, calls))
    return found


def run_batch(comm: Any, batch: Batch) -> list[str]:
    """Make the calls of a batch as one rank; return what was wrong."""
    choice = random.Random(batch.seed)
    faults = [one_call(comm, choice, n, batch) for n in range(batch.calls)]
    return [fault for fault in faults if fault]


def one_call(comm: Any, choice: random.Random, number: int, batch: Batch) -> str:
    from acclc_runtime.call_buffers import buffers_of
    from acclc_runtime.dtypes import named
    from acclc_runtime.reference import PATTERNS, check, random_counts, random_inputs
    from acclc_runtime.selection import units_of_size

    collective = choice.choice(comm.manifest.collectives)
    variant = choice.choice((None, *(v.id for v in collective.variants if v.protocol == "simple")))
    dtype, op = choice.choice(KERNEL_KINDS if batch.kernels else KINDS)
    kind = named(dtype)
    most = min(MOST_BYTES, (batch.slice_bytes or MOST_BYTES) * MOST_SLICES // 4)
    count = int(most ** choice.random()) * choice.randint(0, 3) // (kind.item_bytes * units_of_size(collective))
    in_place, symmetric, waits = choice.random() < 0.3, choice.random() < 0.5, choice.random() < 0.8
    pattern, seed = choice.choice(PATTERNS), choice.randrange(1 << 30)
    if comm.rank not in collective.ranks:
        return ""
    n, operator = collective.ranks.index(comm.rank), op if collective.reduces else None
    counts = random_counts(collective, pattern, min(count, 1 << 16), seed) if collective.varying else None
    every = random_inputs(collective, count, dtype, seed, op=operator, counts=counts)

    def make(length: int) -> Any:
        made = comm.empty(length, kind.storage) if symmetric else np.empty(length, kind.storage)
        made.view(np.uint8)[:] = 0xA5
        return made

    if counts is None:
        x, out = buffers_of(collective, n, count, in_place, make)
    else:
        position = collective.positions[n]
        in_place, x, out = False, make(sum(counts[position])), make(sum(row[position] for row in counts))
    mine = every[n]
    if x is not None and mine is not None:
        x[:] = mine
    sized = make(count) if x is None and out is None else x
    told = {} if counts is None else {"counts": counts}
    begun = comm.collective(collective.name, sized, out, operator, variant, dtype, async_op=not waits, **told)
    if not waits:
        begun.wait()
    outs = [out if i == n else None for i in range(len(collective.ranks))]
    found = check(collective, every, outs, count, dtype, operator, 1, counts, only=n)
    wrong = found.mismatches[0].words if found.wrong else ""
    if not wrong and not in_place and x is not None and mine is not None and x.tobytes() != mine.tobytes():
        wrong = "the input was written"
    place = "in place" if in_place else "apart"
    what = f"call {number}: {collective.name}/{variant} {count} x {dtype}, {operator}, {place}, pattern {pattern}"
    return f"rank {comm.rank}, {what}: {found.wrong} wrong, {wrong}" if wrong else ""


def on_threads(artefact: Path, batch: Batch) -> list[Any]:
    """Run a batch over the double of mpi4py; return what each rank found, or its error."""
    sys.path.insert(0, str(ROOT / "tests" / "programs"))
    import thread_mpi

    import acclc_runtime as rt
    from acclc_runtime.engines.mpi.join import join_mpi

    loaded = rt.load(artefact)

    def work(everyone: Any) -> list[str]:
        options: dict[str, Any] = {"slice_bytes": batch.slice_bytes, "kernels": batch.kernels}
        with join_mpi(loaded.folder, loaded.manifest, mpi=thread_mpi.MPI, everyone=everyone, **options) as comm:
            return run_batch(comm, batch)

    return thread_mpi.run(batch.hosts, work)


def on_ranks(artefact: Path, batch: Batch, mpiexec: list[str]) -> list[Any]:
    """The same over MPI."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")))
    cliques = str(max(batch.hosts) + 1)
    command = [*mpiexec, "-n", str(len(batch.hosts)), sys.executable, __file__]
    done = subprocess.run(
        [*command, "--rank-of", str(artefact), json.dumps(asdict(batch))],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "MPIR_CVAR_NUM_CLIQUES": cliques},
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    return list(json.loads(told[0].removeprefix("found "))) if told else [f"mpiexec ended with {done.returncode}"]


def rank_main(artefact: str, batch: Batch) -> None:
    """What one rank of MPI does; rank 0 prints what all found."""
    from mpi4py import MPI

    import acclc_runtime as rt
    from acclc_runtime.engines.mpi.join import join_mpi

    loaded = rt.load(artefact)
    try:
        options: dict[str, Any] = {"slice_bytes": batch.slice_bytes, "kernels": batch.kernels}
        with join_mpi(loaded.folder, loaded.manifest, **options) as comm:
            found: Any = run_batch(comm, batch)
    except rt.AcclcRuntimeError as error:
        found = f"{type(error).__name__}: {error}"
    told = MPI.COMM_WORLD.gather(found, root=0)
    if told is not None:
        print("\nfound " + json.dumps(told), flush=True)


def main() -> int:
    """Compile, run the batches, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--mpiexec", default=str(Path(sys.executable).parent / "mpiexec"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    parser.add_argument("--rank-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        told = json.loads(options.rank_of[1])
        rank_main(options.rank_of[0], Batch(**{**told, "hosts": tuple(told["hosts"])}))
        return 0
    from acclc import compile_text

    rows, artefacts = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches_of(options.batches, options.calls, options.seed, options.threads):
            ranks = len(batch.hosts)
            if ranks not in artefacts:
                artefacts[ranks] = compile_text(text_of(ranks), f"soak{ranks}").save(Path(folder) / f"soak{ranks}")
            begin = time.perf_counter()
            artefact, command = artefacts[ranks], options.mpiexec.split()
            answers = on_threads(artefact, batch) if options.threads else on_ranks(artefact, batch, command)
            faults = [str(f) for answer in answers for f in (answer if isinstance(answer, list) else [answer])]
            case = f"hosts {batch.hosts}, slices {batch.slice_bytes}, kernels {batch.kernels}, seed {batch.seed}"
            row = Row(case, not faults, batch.calls, time.perf_counter() - begin, tuple(faults[:20]))
            rows.append(row)
            verdict = "right" if row.verified else "WRONG"
            print(f"{row.case}: {row.calls} calls in {row.seconds:.1f} s: {verdict}", flush=True)
            for fault in row.faults:
                print(f"  {fault}", flush=True)
    print(f"{sum(row.calls for row in rows)} calls, {sum(not row.verified for row in rows)} batches wrong")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0 if all(row.verified for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
