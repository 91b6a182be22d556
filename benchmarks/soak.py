"""A long run: mixed collectives over two communicators of the same processes, all results checked, memory watched.

    python benchmarks/soak.py [--calls 1000000] [--quick] [--ranks 2] [--json FILE]

Every rank makes the same random sequence: which communicator, collective, operator, type, count, arrays of ``empty``
or private ones, in place or not, with new arrays now and then. After 20,000 calls a rank's resident memory must not
grow any more (by more than 2 MiB).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
COUNTS = (1, 3, 64, 1000, 4096, 20_000)
TYPES = (np.int32, np.float32, np.int64, np.float64)
MOST_GROWTH = 2 << 20
WARM_UP_CALLS = 20_000
"""By then every kind of call was made, and every array."""
NEW_ARRAYS_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """One rank's run. ``resident_bytes``: after each tenth of the calls."""

    case: str
    verified: bool
    seconds: float
    calls: int
    wrong: int
    growth_bytes: int
    resident_bytes: tuple[int, ...]


class Arrays:
    """Arrays by (communicator, type, length, symmetric, which), made once, and anew when told."""

    def __init__(self, comms: tuple[Any, ...]) -> None:
        self._comms = comms
        self._made: dict[tuple[Any, ...], Any] = {}

    def get(self, comm: int, dtype: Any, length: int, symmetric: bool, which: str) -> Any:
        key = (comm, dtype, length, symmetric, which)
        found = self._made.get(key)
        if found is None:
            make = self._comms[comm].empty if symmetric else np.empty
            found = self._made[key] = make(length, dtype)
        return found

    def renew(self, choice: random.Random) -> None:
        for key in choice.sample(sorted(self._made, key=str), len(self._made) // 4):
            del self._made[key]


def one_call(comms: tuple[Any, ...], arrays: Arrays, choice: random.Random) -> bool:
    """Make a random call; return whether the result is right."""
    number = choice.randrange(len(comms))
    comm, name, count, dtype = comms[number], choice.choice(NAMES), choice.choice(COUNTS), choice.choice(TYPES)
    symmetric, in_place, op = choice.random() < 0.5, choice.random() < 0.3, choice.choice(("sum", "max"))
    n, rank = comm.world, comm.rank
    whole = arrays.get(number, dtype, count * n, symmetric, "whole")
    part = arrays.get(number, dtype, count, symmetric, "part")
    other = arrays.get(number, dtype, count * n, symmetric, "other")
    reduced: Any = n if op == "max" else n * (n + 1) // 2
    gathered: Any = np.repeat(np.arange(1, n + 1, dtype=dtype), count)
    mine = slice(rank * count, (rank + 1) * count)
    if name == "all_reduce":
        part[:] = rank + 1
        out = part if in_place else whole[:count]
        comm.all_reduce(part, op, out=out)
        return bool((out == reduced).all())
    if name == "all_gather":
        source = whole[mine] if in_place else part
        source[:] = rank + 1
        comm.all_gather(source, out=whole)
        return bool((whole == gathered).all())
    whole[:] = rank + 1
    if name == "reduce_scatter":
        out = whole[mine] if in_place else part
        comm.reduce_scatter(whole, op, out=out)
        return bool((out == reduced).all())
    comm.all_to_all(whole, out=other)
    return bool((other == gathered).all())


def soak(comm: Any, folder: str, calls: int, seed: int) -> Row:
    import acclc_runtime as rt

    place = f"file://{folder}/second"
    second = rt.load(Path(folder) / "soak").join(place, "memory", rank=comm.rank, world=comm.world, name="second")
    comms = (comm, second)
    arrays, choice = Arrays(comms), random.Random(seed)
    wrong, resident, begin = 0, [], time.perf_counter()
    for number in range(calls):
        wrong += not one_call(comms, arrays, choice)
        if number % NEW_ARRAYS_EVERY == 0:
            arrays.renew(choice)
        if (number + 1) % max(1, calls // 10) == 0:
            resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"))
            if comm.rank == 0:
                print(f"{number + 1} calls, {resident[-1] >> 20} MiB", file=sys.stderr)
    second.close()
    settled = [r for n, r in enumerate(resident, start=1) if n * (calls // 10) >= WARM_UP_CALLS]
    growth = max(settled) - settled[0] if settled else 0
    right = wrong == 0 and growth <= MOST_GROWTH
    seconds = time.perf_counter() - begin
    return Row(f"rank {comm.rank} of {comm.world}", right, seconds, calls, wrong, growth, tuple(resident))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200,000 calls")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    options = parser.parse_args()
    import acclc
    import acclc_runtime as rt

    text = "\n".join(f"{name} on full({options.ranks})" for name in NAMES)
    with tempfile.TemporaryDirectory() as folder:
        artefact = acclc.compile_text(text, "soak").save(Path(folder) / "soak")
        calls = 200_000 if options.quick else options.calls
        rows: list[Row] = rt.spawn(soak, options.ranks, artefact, (folder, calls, options.seed))
    for r in rows:
        print(
            f"{r.case}: {r.calls} calls in {r.seconds:.0f} s, {r.wrong} wrong; memory grew by {r.growth_bytes >> 10} "
            f"KiB after {WARM_UP_CALLS} calls ({r.resident_bytes[-1] >> 20} MiB)"
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    return 0 if all(r.verified for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
