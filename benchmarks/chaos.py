"""Ranks that die, stop, or call something else at a random moment: how the others end.

    python benchmarks/chaos.py [--runs 500] [--quick] [--seed N] [--json FILE]

Each run starts processes (2 to 4 ranks) that make random calls, checked, on one communicator. At a random moment one of
them is killed (-9), stopped (SIGSTOP), interrupted (SIGINT), or calls with another size. Every other rank has to end
its call with an error of the right kind that names the rank, within the time-out and a grace; no memory, file
descriptor or file may be left; then the same processes, with a new one for a lost rank, make another communicator and
use it. A run that breaks any of this is listed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import secrets
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

ACTIONS = ("killed", "stopped", "interrupted", "another size")
TIMEOUT_S = 1.5
GRACE_S = 3.0
"""Beyond the time-out: the machine's cores are shared by more processes than it has."""
COUNTS = (1, 7, 100, 4096, 100_000)
KIND_OF = {
    "killed": ("RankFailedError",),
    "stopped": ("CollectiveTimeoutError",),
    "interrupted": ("RankFailedError",),
    "another size": ("MismatchError",),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One run. ``slowest_s``: from the act to the last survivor's error. ``faults``: what went wrong, if anything."""

    case: str
    verified: bool
    seconds: float
    action: str
    ranks: int
    victim: int
    slowest_s: float
    faults: tuple[str, ...]


@dataclass
class Told:
    """What a rank says of its first call that failed, and of the communicator it made then."""

    kind: str = ""
    text: str = ""
    at: float = 0.0
    left: str = ""
    again: str = ""


def leftovers() -> tuple[int, int]:
    """Open descriptors, and mapped segments, of this process."""
    maps = Path("/proc/self/maps").read_text().count("memfd:")
    return len(os.listdir("/proc/self/fd")), maps


def one_call(comm: Any, choice: random.Random, other_size: bool = False) -> None:
    """Make a random call, the same on all ranks, and check its result."""
    name = choice.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
    count, symmetric = choice.choice(COUNTS), choice.random() < 0.5
    n = comm.world
    count = count + 1 if other_size else count
    make = comm.empty if symmetric else np.empty
    x = make(count * (1 if name in ("all_reduce", "all_gather") else n), np.int32)
    y = make(count * (1 if name in ("all_reduce", "reduce_scatter") else n), np.int32)
    x[:] = comm.rank + 1
    getattr(comm, name)(x, out=y)
    wanted: Any = np.repeat(np.arange(1, n + 1, dtype=np.int32), count)
    if name in ("all_reduce", "reduce_scatter"):
        wanted = n * (n + 1) // 2
    if not (y == wanted).all():
        raise AssertionError(f"rank {comm.rank}: {name} of {count} is wrong")


def live(folder: Path, place: str, rank: int, ranks: int, seed: int, flag: mmap.mmap, pipe: Connection) -> None:
    """Make calls until one fails; then say how, join anew and make some more."""
    import acclc_runtime as rt

    module, told, before = rt.load(folder), Told(), leftovers()

    def join(number: int) -> Any:
        return module.join(
            f"file://{place}.{number}", rank=rank, world=ranks, timeout_s=TIMEOUT_S, entry_timeout_s=TIMEOUT_S
        )

    if flag[1] == 0:  # a rank of the first communicator, not one that takes a lost one's place
        comm = join(0)
        choice = random.Random(seed)
        pipe.send("ready")
        try:
            while True:
                one_call(comm, choice, other_size=flag[0] == rank + 1)
        except BaseException as error:
            told.at, told.kind, told.text = time.monotonic(), type(error).__name__, str(error)
        comm.close()
        del comm
        if (now := leftovers()) != before:
            told.left = f"descriptors and mappings {now}, {before} before"
        pipe.send(told)
        pipe.recv()
    try:
        with join(1) as comm:
            choice = random.Random(seed + 1)
            for _ in range(20):
                one_call(comm, choice)
    except BaseException as error:
        told.again = f"{type(error).__name__}: {error}"
    pipe.send(told)


@dataclass
class Process:
    pid: int
    pipe: Connection

    @staticmethod
    def start(*arguments: Any) -> Process:
        here, there = Pipe()
        pid = os.fork()
        if pid == 0:
            here.close()
            try:
                live(*arguments, there)
            finally:
                os._exit(0)
        there.close()
        return Process(pid, here)

    def hear(self, seconds: float) -> Any:
        """What it says next; None if it says nothing in time, or ended."""
        try:
            return self.pipe.recv() if self.pipe.poll(max(0.0, seconds)) else None
        except EOFError:
            return None

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pipe.close()


def act(action: str, victim: Process, number: int, flag: mmap.mmap) -> None:
    if action == "another size":
        flag[0] = number + 1
        return
    signals = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "interrupted": signal.SIGINT}
    os.kill(victim.pid, signals[action])


def judge(action: str, victim: int, rank: int, told: Told | None) -> Iterable[str]:
    if told is None:
        yield f"rank {rank} hangs"
        return
    wanted = ("KeyboardInterrupt",) if rank == victim and action == "interrupted" else KIND_OF[action]
    if told.kind not in wanted:
        yield f"rank {rank} ends with {told.kind}: {told.text}"
    elif rank != victim and f"rank {victim}" not in told.text:
        yield f"rank {rank} does not name rank {victim}: {told.text}"
    if told.left:
        yield f"rank {rank} keeps memory: {told.left}"


def run(folder: Path, place: Path, number: int, choice: random.Random) -> Row:
    ranks, action = choice.choice((2, 3, 4)), ACTIONS[number % len(ACTIONS)]
    victim, seed = choice.randrange(ranks), choice.randrange(1 << 30)
    flag = mmap.mmap(-1, 4096)  # [0]: 1 + the rank that calls with another size; [1]: 1 for a rank that comes later
    address = str(place / secrets.token_hex(4))
    artefact = folder / f"full{ranks}"
    before = sorted(os.listdir("/dev/shm"))
    started = time.monotonic()
    processes = [Process.start(artefact, address, rank, ranks, seed, flag) for rank in range(ranks)]
    faults = [f"rank {n} does not begin" for n, p in enumerate(processes) if p.hear(60) != "ready"]
    time.sleep(choice.random() * 0.2)
    begin = time.monotonic()
    act(action, processes[victim], victim, flag)
    lost = action in ("killed", "stopped")
    slowest, limit = 0.0, begin + TIMEOUT_S + GRACE_S
    for rank, process in enumerate(processes):
        if lost and rank == victim:
            continue
        told = process.hear(limit - time.monotonic())
        faults += judge(action, victim, rank, told)
        slowest = max(slowest, told.at - begin if told else limit - begin)
    if lost:
        processes[victim].end()
        flag[1] = 1
        processes[victim] = Process.start(artefact, address, victim, ranks, seed, flag)
    for rank, process in enumerate(processes):
        if not lost or rank != victim:
            process.pipe.send("go on")
    for rank, process in enumerate(processes):
        again = process.hear(60)
        if again is None or again.again:
            faults.append(f"rank {rank} on the next communicator: {again.again if again else 'hangs'}")
    for process in processes:
        process.end()
    left = [*sorted(set(os.listdir("/dev/shm")) - set(before)), *(p.name for p in place.iterdir())]
    if left:
        faults.append(f"files are left: {', '.join(left)}")
        for path in place.iterdir():
            path.unlink()
    flag.close()
    took = time.monotonic() - started
    return Row(f"{number}: rank {victim} {action}", not faults, took, action, ranks, victim, slowest, tuple(faults))


def table(rows: list[Row]) -> str:
    lines = [f"{'a rank is / makes':18} {'runs':>5} {'right':>6} {'median s':>9} {'slowest s':>10}"]
    for action in ACTIONS:
        found = [r for r in rows if r.action == action]
        if found:
            times = [r.slowest_s for r in found]
            right = sum(r.verified for r in found)
            lines.append(f"{action:18} {len(found):5} {right:6} {statistics.median(times):9.3f} {max(times):10.3f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 runs")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    options = parser.parse_args()
    import acclc
    import acclc_runtime as rt

    choice = random.Random(options.seed)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, place = Path(name), Path(name) / "meet"
        place.mkdir()
        for ranks in (2, 3, 4):
            text = "\n".join(
                f"{c} on full({ranks})" for c in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
            )
            artefact = acclc.compile_text(text, f"full{ranks}").save(folder / f"full{ranks}")
            rt.spawn(_build_kernels, ranks, artefact)
        for number in range(20 if options.quick else options.runs):
            rows.append(run(folder, place, number, choice))
            for fault in rows[-1].faults:
                print(f"run {rows[-1].case} of {rows[-1].ranks}: {fault}", file=sys.stderr)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    return 0 if all(r.verified for r in rows) else 1


def _build_kernels(comm: Any) -> None:
    choice = random.Random(0)
    for _ in range(200):
        one_call(comm, choice)


if __name__ == "__main__":
    sys.exit(main())
