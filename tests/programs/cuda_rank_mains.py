"""What the ranks of the tests of GPUs do, each in a process of its own with the stand-in for cupy."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from fake_cupy_ranks import FakeRanksCupy
from join_ranks import same

from acclc_runtime.dtypes import named
from acclc_runtime.errors import AcclcRuntimeError
from acclc_runtime.reference import expected, random_inputs

fake = FakeRanksCupy(devices=int(os.environ.get("FAKE_DEVICES", "8")), peers=os.environ.get("FAKE_PEERS", "1") == "1")
fake.blocks_a_multiprocessor = 64
sys.modules["cupy"] = fake  # type: ignore[assignment]


def device_of(comm: Any) -> Any:
    return fake.cuda.Device(comm.device)


def array(comm: Any, length: int, storage: Any, place: str) -> Any:
    with device_of(comm):
        return comm.empty(length, storage) if place == "symmetric" else fake.empty(length, storage)


def compare(comm: Any, collective: Any, variant: str, count: int, dtype: str, op: str, place: str, seed: int) -> str:
    """Run one call on data that every rank can compute; return what is wrong."""
    n = collective.ranks.index(comm.rank)
    operator = op if collective.reduces else None
    every = random_inputs(collective, count, dtype, seed, op=operator)
    wanted = expected(collective, every, count, dtype, operator)[n]
    units_in, units_out = collective.input_units[n], collective.output_units[n]
    storage = named(dtype).storage
    whole = max(collective.input_units), max(collective.output_units)  # all ranks make the same arrays
    x, out = (array(comm, units * count, storage, place) for units in whole)
    x = x[: units_in * count] if units_in else None
    out = out[: units_out * count] if units_out else None
    if place == "in" and collective.in_place == "same" and x is not None and out is not None:
        x = out
    if x is not None and every[n] is not None:
        x[:] = every[n]
    comm.collective(collective.name, x, out, operator, variant=variant, dtype=dtype)
    comm.synchronize()
    fake.stream.synchronize()
    good = wanted is None or out is None or same(np.asarray(out), wanted, dtype)
    return "" if good else f"rank {comm.rank}: {collective.name}/{variant} {count} {dtype} {op} {place}"


def everything(comm: Any, kinds: list[tuple[str, str]], counts: list[int]) -> list[str]:
    """Run every variant of every collective with each type, size and place."""
    faults, seed = [], 0
    for collective in comm.manifest.collectives:
        for variant in collective.variants:
            for dtype, op in kinds:
                for count in counts:
                    for place in ("private", "symmetric", "in"):
                        seed += 1
                        if comm.rank in collective.ranks:
                            faults.append(compare(comm, collective, variant.id, count, dtype, op, place, seed))
                        elif place == "symmetric":  # all ranks make the same arrays
                            item = named(dtype).storage
                            for units in (max(collective.input_units), max(collective.output_units)):
                                comm.empty(units * count, item)
    return [fault for fault in faults if fault]


def opened(comm: Any) -> tuple[int, list[int], str]:
    """Return how many handles were opened, for whom slabs are mapped, and what it says of itself."""
    mapped = [rank for rank, base in enumerate(comm._world.slabs) if base and rank != comm.rank]
    return len(fake.opened), mapped, comm.describe(1024)


def asynchronous(comm: Any) -> dict[str, bool]:
    """Calls return at once, change streams in order, and are captured in a graph that is replayed on new data."""
    good: dict[str, bool] = {}
    x, out = comm.empty(1000), comm.empty(1000)
    stream = fake.new_stream()
    total = comm.world * (comm.world + 1) / 2
    x[:] = comm.rank + 1
    comm.all_reduce(x, out=out, stream=stream)
    handle = comm.all_reduce(out, out=out, async_op=True)  # on another stream: after the first
    good["two streams, in order"] = handle.wait() is out and handle.done() and bool((out == total * comm.world).all())
    with stream:
        before = len(fake.log)
        stream.begin_capture()
        comm.all_reduce(x, out=out)
        graph = stream.end_capture()
    good["a call is a launch"] = [w.split()[0] for w in fake.log[before:]] == ["launch"]
    for n in range(1, 4):
        x[:] = n * (comm.rank + 1)
        graph.launch()
        stream.synchronize()
        good[f"replay {n}"] = bool((out == n * total).all())
        comm._calls.compare()
    with stream:
        stream.begin_capture()
        try:
            comm.all_reduce(x, "max", out=out)
            good["not loaded"] = False
        except AcclcRuntimeError as error:
            good["not loaded"] = "call it once before a graph is captured" in str(error)
        stream.end_capture()
    return good


def of_gpu_check(comm: Any) -> list[tuple[str, int, bool]]:
    """The case of the script for a GPU machine."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    from gpu_check import check_rank

    return check_rank(comm, (1, 1000))


def mistake(comm: Any, kind: str) -> tuple[str, str]:
    """Rank 1 does something else; return the error that this rank gets."""
    count = 8 if kind == "count" and comm.rank == 1 else 16
    if kind == "offset" and comm.rank == 1:
        comm.empty(1000)
    place = "symmetric" if kind in ("offset", "place") and not (kind == "place" and comm.rank == 1) else "private"
    x = array(comm, count, np.float32, place)
    try:
        if comm.rank == 1 and kind == "closes":
            comm.close()
        elif comm.rank == 1 and kind == "aborts":
            comm.abort()
        elif comm.rank == 1 and kind == "dies":
            os._exit(7)
        elif comm.rank == 1 and kind == "late":
            time.sleep(3)
        comm.all_reduce(x, "max" if kind == "op" and comm.rank == 1 else "sum")
        comm.synchronize()
    except AcclcRuntimeError as error:
        try:
            comm.synchronize()
        except AcclcRuntimeError as closed:
            return type(error).__name__, f"{error} / {closed}"
    return "none", ""


def wrong(comm: Any) -> list[str]:
    """Return what is said to calls that do not fit; the communicator goes on."""
    told = []
    with fake.cuda.Device((comm.device + 1) % 8):
        far = fake.empty(8, np.float32)
    near = array(comm, 8, np.float32, "private")
    long = array(comm, 1 << 20, np.float32, "private")
    for call in (
        lambda: comm.all_reduce(far),
        lambda: comm.all_reduce(np.zeros(8, np.float32)),
        lambda: comm.all_reduce(near[::2]),
        lambda: comm.all_reduce(long),
        lambda: comm.empty(1 << 30),
    ):
        try:
            call()
            told.append("nothing")
        except AcclcRuntimeError as error:
            told.append(str(error))
    near[:] = 1
    out = comm.all_reduce(near)
    comm.synchronize()
    return [*told, str(float(out[0]))]
