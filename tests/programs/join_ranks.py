"""What the ranks of the tests of communicators do: functions that run in processes of their own."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from acclc_runtime import Communicator, load
from acclc_runtime.dtypes import bf16_to_f32, named
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError
from acclc_runtime.manifest import ManifestCollective
from acclc_runtime.reference import expected, random_inputs

PATIENT_S = 120.0
"""A time-out that is not to be seen, also on a machine that does much else."""


def same(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], dtype: str) -> bool:
    """Compare bits; the reference gives reduced floats in f64, and the values of the tests are exact in every type."""
    if found.dtype == wanted.dtype and dtype != "f64":
        return np.array_equal(found.view(np.uint8), wanted.view(np.uint8))
    return np.array_equal(bf16_to_f32(found) if dtype == "bf16" else found, wanted)


def call_and_compare(
    comm: Communicator,
    collective: ManifestCollective,
    variant: str,
    count: int,
    dtype: str,
    op: str | None,
    place: str,
    seed: int,
    said_type: str | None = "",
) -> str:
    """Run one call on data that every rank can compute; return what is wrong. ``place``: private, symmetric, in.

    ``said_type`` is what the call says of the type; "": ``dtype``.
    """
    n = collective.ranks.index(comm.rank)
    every = random_inputs(collective, count, dtype, seed, op=op)
    wanted = expected(collective, every, count, dtype, op)[n]
    storage = named(dtype).storage

    def make(length: int) -> np.ndarray[Any, Any]:
        made = comm.empty(length, storage) if place == "symmetric" else np.empty(length, storage)
        made.view(np.uint8)[:] = 0xA5
        return made

    units_in, units_out = collective.input_units[n], collective.output_units[n]
    x = make(units_in * count) if units_in else None
    out = make(units_out * count) if units_out else None
    start = collective.positions[n] * count
    if place == "in" and x is not None and out is not None:
        if collective.in_place == "same":
            x = out
        elif collective.in_place == "input_in_output":
            x = out[start : start + len(x)]
        elif collective.in_place == "output_in_input":
            out = x[start : start + len(out)]
    mine = every[n]
    if x is not None and mine is not None:
        x[:] = mine
    given = make(count) if x is None and out is None else x  # one that only passes on is told the size
    comm.collective(collective.name, given, out, op, variant=variant, dtype=dtype if said_type == "" else said_type)
    if wanted is not None and out is not None and not same(out, wanted, dtype):
        wrong = int((out != wanted).sum())
        return f"rank {comm.rank}: {collective.name}/{variant} {count} {dtype} {op} {place}: {wrong} wrong"
    if (
        place != "in"
        and x is not None
        and mine is not None
        and not np.array_equal(x.view(np.uint8), mine.view(np.uint8))
    ):
        return f"rank {comm.rank}: {collective.name}/{variant} {count} {dtype} {op} {place}: the input was written"
    return ""


def check_everything(comm: Communicator, kinds: list[tuple[str, str]], counts: list[int]) -> list[str]:
    """Run all collectives that this rank is in, every variant, with each (type, operator), size and place."""
    faults = []
    seed = 0
    for collective in comm.manifest.collectives:
        for variant in (v for v in collective.variants if v.protocol == "simple"):
            for dtype, op in kinds:
                for count in counts:
                    for place in (
                        ("private", "symmetric", "in") if collective.in_place != "none" else ("private", "symmetric")
                    ):
                        seed += 1
                        if comm.rank not in collective.ranks:
                            continue
                        operator = op if collective.reduces else None
                        faults.append(
                            call_and_compare(comm, collective, variant.id, count, dtype, operator, place, seed)
                        )
    return [fault for fault in faults if fault]


def check_past_the_caches(comm: Communicator, kinds: list[tuple[str, str]], counts: list[int]) -> list[str]:
    """The same with stores that go past the caches, which are for large arrays otherwise."""
    comm._plans._streams_from = -1
    return check_everything(comm, kinds, counts)


def mixed_sequence(comm: Communicator, turns: int) -> list[str]:
    """Mix collectives, variants, sizes and places at random, alike on all ranks, without any pause."""
    rng = np.random.default_rng(7)
    faults = []
    for seed in range(turns):
        collective = comm.manifest.collectives[rng.integers(len(comm.manifest.collectives))]
        simple = [v for v in collective.variants if v.protocol == "simple"]
        variant = simple[rng.integers(len(simple))]
        count = int(rng.choice([0, 1, 3, 64, 1000, 20_000, 100_001]))
        place = str(rng.choice(["private", "symmetric"]))
        op = "sum" if collective.reduces else None
        if comm.rank in collective.ranks:
            faults.append(call_and_compare(comm, collective, variant.id, count, "f32", op, place, seed))
    return [fault for fault in faults if fault]


def public_methods(comm: Communicator, folder: str) -> dict[str, Any]:
    """The methods by name, outputs allocated and given, repeated (the short way), handles, threads."""
    n, me = comm.world, comm.rank
    x = np.arange(4 * n, dtype=np.float32) + me
    total = np.arange(4 * n, dtype=np.float32) * n + n * (n - 1) / 2
    found: dict[str, Any] = {}
    found["all_reduce"] = all(np.array_equal(comm.all_reduce(x), total) for _ in range(3))
    out = np.empty_like(x)
    found["out is returned"] = all(comm.all_reduce(x, out=out) is out for _ in range(3)) and np.array_equal(out, total)
    found["max"] = np.array_equal(comm.all_reduce(x, "max"), np.arange(4 * n, dtype=np.float32) + n - 1)
    found["in place"] = True
    for _ in range(3):
        y = x.copy()
        comm.all_reduce(y, out=y)
        found["in place"] &= bool(np.array_equal(y, total))
    gathered = np.stack([np.arange(4 * n, dtype=np.float32) + r for r in range(n)])
    found["all_gather"] = np.array_equal(comm.all_gather(x).reshape(n, -1), gathered)
    into = comm.empty((n, 4 * n))
    comm.all_gather_into_tensor(into, x)
    found["all_gather_into_tensor"] = np.array_equal(into, gathered)
    found["reduce_scatter"] = np.array_equal(comm.reduce_scatter(x), total[4 * me : 4 * me + 4])
    part = np.empty(4, np.float32)
    comm.reduce_scatter_tensor(part, x)
    found["reduce_scatter_tensor"] = np.array_equal(part, total[4 * me : 4 * me + 4])
    turned = np.concatenate([np.arange(4, dtype=np.float32) + 4 * me + r for r in range(n)])
    found["all_to_all"] = np.array_equal(comm.all_to_all(x), turned)
    comm.all_to_all_single(out, x)
    found["all_to_all_single"] = np.array_equal(out, turned)
    named = [comm.collective("all_reduce", x, out, variant="c1s1r1") is out for _ in range(3)]
    found["by name"] = all(named) and np.array_equal(out, total)
    m = load(folder)
    found["as a function"] = m.all_reduce(comm, x, op="sum", out=out) is out and np.array_equal(out, total)
    found["with a handle"] = np.array_equal(m.all_reduce(comm, x, async_op=True).wait(), total)
    found["two dimensions"] = comm.all_reduce(x.reshape(2, -1)).shape == (2, 2 * n)
    handles = [comm.all_reduce(x + k, async_op=True) for k in range(20)]
    found["sync after async"] = np.array_equal(comm.all_reduce(x), total)
    found["handles"] = all(np.array_equal(h.wait(), total + n * k) for k, h in enumerate(handles))
    found["done"] = all(h.done() for h in handles)
    found["describe"] = comm.describe(64)
    return found


def short_ways(comm: Communicator) -> list[str]:
    """Make every call twice; tell of those that are wrong, or that take the long way the second time."""
    taken: list[str] = []
    begin = comm._begin

    def counted(*arguments: Any) -> Any:
        taken.append(arguments[0].name)
        return begin(*arguments)

    comm._begin = counted  # type: ignore[method-assign]
    faults = []
    for collective in comm.manifest.collectives:
        if comm.rank not in collective.ranks:
            continue
        for dtype, say in (("f32", False), ("bf16", True), ("f32", True)):
            for seed in range(2):
                taken.clear()
                say_type = dtype if say else None
                op = "sum" if collective.reduces else None
                fault = call_and_compare(
                    comm, collective, collective.variants[0].id, 24, dtype, op, "private", seed, say_type
                )
                faults += [fault] if fault else []
                if len(taken) != 1 - seed:
                    faults.append(f"{collective.name} {dtype} {say}: call {seed} took the long way {len(taken)} times")
    x = np.arange(8, dtype=np.int32) + comm.rank
    for out in (np.empty(8, np.int32), comm.empty(8, np.int32), np.empty((2, 4), np.int32)):
        x = x.reshape(out.shape)
        for turn in range(2):
            taken.clear()
            if comm.all_reduce(x, "max", out) is not out or not (out == x - comm.rank + comm.world - 1).all():
                faults.append(f"max into {out.shape}, turn {turn}")
    if taken:
        faults.append("the last one took the long way")
    comm.broadcast(x if comm.rank == 1 else None, out=x)
    taken.clear()
    for root in (None, 1, None):
        comm.broadcast(x if comm.rank == 1 else None, root, out=x)
    if len(taken) != 1 or not (x.reshape(-1) == np.arange(8) + 1).all():
        faults.append(f"broadcast in place took the long way {len(taken)} times")
    return faults + _short_ways_that_do_not_fit(comm, taken)


def _short_ways_that_do_not_fit(comm: Communicator, taken: list[str]) -> list[str]:
    """What looks like a call that was made, but is another, must take the long way and be an error there."""
    x, out = np.ones(8, np.float32), np.empty(8, np.float32)
    for _ in range(2):
        comm.all_reduce(x, out=out)
    fixed = out.copy()
    fixed.flags.writeable = False
    faults = []
    wrong: list[Callable[[], Any]] = [
        lambda: comm.all_reduce(x, out=fixed),
        lambda: comm.all_reduce(x, out=np.empty(16, np.float32)[::2]),
        lambda: comm.all_reduce(np.ones(16, np.float32)[::2], out=out),
        lambda: comm.all_reduce(x, out=out.view(np.int32)),
        lambda: comm.all_reduce(x.astype(">f4"), out=out),
        lambda: comm.all_reduce(x[:7], out=out),
        lambda: comm.all_reduce(x[:6], out=x[2:]),
        lambda: comm.all_reduce(x, "median", out),
        lambda: comm.all_reduce(x, out=out, variant="none"),
        lambda: comm.all_reduce(x, out=out, dtype="f64"),
        lambda: comm.all_reduce(x, out=out, stream=1),
        lambda: comm.all_reduce([1.0] * 8, out=out),
    ]
    for number, call in enumerate(wrong):
        taken.clear()
        try:
            call()
            faults.append(f"wrong call {number} was made")
        except ArgumentError:
            pass
    for unknown in ({"outt": out}, {"x": x}):
        try:
            comm.all_reduce(x, **unknown)
            faults.append("a parameter that there is not")
        except TypeError:
            pass
    if "out=None" not in str(inspect.signature(comm.all_reduce)) or "reduction" not in (comm.all_reduce.__doc__ or ""):
        faults.append("no signature")
    return faults


def wrong_arguments(comm: Communicator) -> list[str]:
    """Calls that do not fit, each an error of this rank alone; and the communicator works afterwards."""
    x = np.ones(8, np.float32)
    told = []
    calls: list[Callable[[], Any]] = [
        lambda: comm.all_reduce(x, out=np.ones(7, np.float32)),
        lambda: comm.all_reduce(x, out=np.ones(8, np.float64)),
        lambda: comm.all_reduce(x, "median"),
        lambda: comm.all_reduce(x[::2]),
        lambda: comm.all_reduce(x[:6], out=x[2:]),
        lambda: comm.all_reduce(x, stream=1),
        lambda: comm.all_reduce(x, variant="none"),
        lambda: comm.all_reduce(x.astype(np.complex64)),
        lambda: comm.gather(x, root=comm.world + 3),
        lambda: comm.collective("nothing", x),
    ]
    if isinstance(comm, Communicator):  # other engines run the schedule, however kernels would
        calls.append(lambda: comm.all_reduce(x, variant="c1s1r1_eager_ll"))
    for call in calls:
        try:
            call()
            told.append("no error")
        except AcclcRuntimeError as error:
            told.append(f"{type(error).__name__}: {error}")
    assert np.array_equal(comm.all_reduce(x), x * comm.world)
    return told


def _different_count(comm: Communicator) -> None:
    comm.all_reduce(np.ones(8 * (1 + comm.rank), np.float32))


def _one_has_nothing(comm: Communicator) -> None:
    comm.all_reduce(np.ones(0 if comm.rank == 0 else 8, np.float32))


def _different_type(comm: Communicator) -> None:
    comm.all_reduce(np.ones(8, np.float32 if comm.rank == 0 else np.int32))


def _different_operator(comm: Communicator) -> None:
    comm.all_reduce(np.ones(8, np.float32), "sum" if comm.rank == 0 else "max")


def _different_collective(comm: Communicator) -> None:
    x = np.ones(8 * comm.world, np.float32)
    comm.all_reduce(x) if comm.rank == 0 else comm.all_to_all(x)


def _different_place(comm: Communicator) -> None:
    x = np.ones(8, np.float32)
    comm.all_reduce(x, out=x if comm.rank == 0 else None)


def _one_closes(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.close()
    comm.all_reduce(np.ones(8, np.float32))


def _one_aborts(comm: Communicator) -> None:
    if comm.rank == 0:
        threading.Timer(0.3, comm.abort).start()
        time.sleep(1.0)
    comm.all_reduce(np.ones(8, np.float32))


def _one_is_interrupted(comm: Communicator) -> None:
    if comm.rank == 0:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    else:
        time.sleep(1.5)
    comm.all_reduce(np.ones(8, np.float32))


def _one_is_late(comm: Communicator) -> None:
    if comm.rank == 0:
        time.sleep(3.0)
    comm.all_reduce(np.ones(8, np.float32))


MISTAKES: dict[str, Callable[[Communicator], None]] = {
    f.__name__.removeprefix("_"): f
    for f in (
        _different_count,
        _one_has_nothing,
        _different_type,
        _different_operator,
        _different_collective,
        _different_place,
        _one_closes,
        _one_aborts,
        _one_is_interrupted,
        _one_is_late,
    )
}


def make_mistakes(comm: Communicator, folder: str, place: str) -> dict[str, tuple[str, str, float, bool]]:
    """Make each mistake on a communicator of its own; return (error's type, text, seconds, usable afterwards)."""
    found = {}
    for number, (name, mistake) in enumerate(MISTAKES.items()):
        limit = 1.0 if name == "one_is_late" else PATIENT_S
        other = load(folder).join(
            f"file://{place}/{number}", rank=comm.rank, world=comm.world, timeout_s=PATIENT_S, entry_timeout_s=limit
        )
        for dtype in (np.float32, np.int32):  # builds the kernels
            comm.all_reduce(np.ones(8, dtype))
            comm.all_reduce(np.ones(8, dtype), "max")
            comm.all_to_all(np.ones(8 * comm.world, dtype))
        begin = time.monotonic()
        kind, text = "", ""
        try:
            mistake(other)
        except BaseException as error:
            kind, text = type(error).__name__, str(error)
        seconds = time.monotonic() - begin
        usable = True
        try:
            other.all_reduce(np.ones(8, np.float32))
        except AcclcRuntimeError:
            usable = False
        other.close()
        found[name] = (kind, text, seconds, usable)
    return found


def one_dies(comm: Communicator, signal_number: int, folder: str) -> tuple[str, str, float]:
    """Rank 1 gets a signal while all call without end; return what the others were told, and when."""
    x = np.ones(1 << 18, np.float32)
    y = comm.empty(1 << 18)
    comm.all_reduce(x, out=y)
    begin = time.monotonic()
    if comm.rank == 1:
        (Path(folder) / "pid").write_text(str(os.getpid()))
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal_number)).start()
    try:
        while True:
            comm.all_reduce(x, out=y)
    except AcclcRuntimeError as error:
        told = (type(error).__name__, str(error), time.monotonic() - begin)
    if signal_number == signal.SIGSTOP:
        if comm.rank == 0:  # for the test's sake: nobody else would end it
            os.kill(int((Path(folder) / "pid").read_text()), signal.SIGKILL)
        (Path(folder) / f"told{comm.rank}").write_text("\n".join(map(str, told)))
    else:
        (Path(folder) / f"told{comm.rank}").write_text("\n".join(map(str, told)))
    return told


def raises(comm: Communicator) -> None:
    """One rank has a fault of its own while the others wait for it."""
    if comm.rank == 1:
        raise LookupError("a fault of the program")
    comm.all_reduce(np.ones(8, np.float32))


def memory_comes_back(comm: Communicator, folder: str, place: str) -> tuple[int, int, int, int]:
    """Make and close communicators; return open files before and after, and mapped bytes of shared memory."""

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:acclc")

    def once(number: int) -> None:
        with load(folder).join(f"file://{place}/m{number}", rank=comm.rank, world=comm.world) as other:
            out = other.empty(1 << 20)
            other.all_reduce(np.ones(1 << 20, np.float32), out=out)
            private = other.all_to_all(np.ones(1 << 20, np.float32))
            del out, private

    once(0)
    before = (files(), mapped())
    for number in range(1, 4):
        once(number)
    return before[0], files(), before[1], mapped()
