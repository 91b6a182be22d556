"""Generated kernels on the CPU: every case, type, operator, count, mode; against the definition, bit for bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import OPS, REDUCIBLE, Array, cases, data, lowered, make, run, values, write

from acclc.ir.kernel_program import CounterKind, InstructionKind, KernelProgram
from acclc_runtime.backends.cpu import CpuBackend, Delay
from acclc_runtime.dtypes import DTYPES
from acclc_runtime.errors import (
    ArgumentError,
    BuildError,
    CollectiveTimeoutError,
    DamagedFileError,
    DeadlockError,
)

COUNTS = (0, 1, 2, 7, 15, 16, 17, 1000, 100003)

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.mark.parametrize("name", sorted(cases()))
def test_every_case_in_both_modes(tmp_path: Path, name: str) -> None:
    made = make(tmp_path, name)
    for mode in ("fibres", "threads"):
        backend = CpuBackend(tmp_path, mode=mode, slice_bytes=4096)
        for seed, count in enumerate(COUNTS):
            run(backend, made, count, seed=seed)
            if made.collective.in_place != "none":
                run(backend, made, count, seed=seed, in_place=True)
        backend.close()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_every_type_and_operator(tmp_path: Path, dtype: str, op: str) -> None:
    made = make(tmp_path, "all_reduce_full3")
    backend = CpuBackend(tmp_path, mode="fibres")
    for count in (1, 31, 1000):
        run(backend, made, count, dtype, op, seed=count)
    backend.close()


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values()])
def test_every_type_can_be_moved(tmp_path: Path, dtype: str) -> None:
    made = make(tmp_path, "all_gather_ring3")
    backend = CpuBackend(tmp_path, mode="fibres")
    rng = np.random.default_rng(4)

    def bits() -> Iterator[Array]:
        while True:
            yield rng.integers(0, 256, 37 * DTYPES[dtype].item_bytes).astype(np.uint8)

    run(backend, made, 37, dtype, None, content=bits())
    backend.close()


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_floats_accumulate_wide_and_round_once(tmp_path: Path, dtype: str) -> None:
    """Three real-valued contributions reduced at once, left to right: 16-bit types in f32."""
    made = make(tmp_path, "all_reduce_full3")
    backend = CpuBackend(tmp_path, mode="fibres")
    rng = np.random.default_rng(5)

    def reals() -> Iterator[Array]:
        while True:
            yield rng.normal(size=999) * 10.0 ** rng.integers(-3, 3, 999)

    for op in ("sum", "avg"):
        run(backend, made, 999, dtype, op, content=reals())
    backend.close()


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_minimum_and_maximum_pass_nan_on(tmp_path: Path, dtype: str) -> None:
    made = make(tmp_path, "all_reduce_full3")
    backend = CpuBackend(tmp_path, mode="fibres")
    for op in ("min", "max"):
        for holder in range(3):
            rows = iter([np.array([np.nan if n == holder else float(n), n, -n, np.inf]) for n in range(3)])
            call = data(made, 4, dtype, op, content=rows).call
            backend.run(call)
            found = values(call.outputs[0], dtype).astype(np.float64)
            pick = {"min": min, "max": max}[op]
            assert np.isnan(found[0])
            np.testing.assert_array_equal(found[1:], [pick(0, 1, 2), pick(0, -1, -2), np.inf])
    backend.close()


@pytest.mark.parametrize("dtype", ["i64", "i32", "i8", "u8"])
def test_integers_wrap(tmp_path: Path, dtype: str) -> None:
    made = make(tmp_path, "all_reduce_full3")
    backend = CpuBackend(tmp_path, mode="fibres")
    limits = np.iinfo(DTYPES[dtype].storage)
    edges = np.array([limits.max, limits.min, limits.max, limits.min // 2, 1, limits.max - 1], DTYPES[dtype].storage)
    for op in ("sum", "prod", "avg", "min", "max"):
        rows = iter([np.roll(edges, n).view(np.uint8) for n in range(3)])
        run(backend, made, 6, dtype, op, content=rows)
    backend.close()


@pytest.mark.parametrize("name", ["all_gather_ring3", "all_reduce_ring3", "all_reduce_full3"])
def test_any_alignment(tmp_path: Path, name: str) -> None:
    made = make(tmp_path, name)
    backend = CpuBackend(tmp_path, mode="threads", block_threads=3)
    for offset in (1, 3, 4, 8, 20):
        run(backend, made, 1003, "f32", offset=offset)
        run(backend, made, 517, "f64", offset=offset, in_place=True)
    backend.close()


@pytest.mark.parametrize("mode", ["threads", "fibres"])
@pytest.mark.parametrize(("depth", "channels"), [(1, 1), (2, 1), (3, 1), (2, 2), (1, 3)])
def test_calls_that_mix_sizes_and_types(tmp_path: Path, mode: str, depth: int, channels: int) -> None:
    """Counters go on from call to call, whatever the slices; tiny slices reuse every slot many times."""
    made = make(tmp_path, "all_reduce_ring3", depth, channels)
    backend = CpuBackend(tmp_path, mode=mode, slice_bytes=128)
    rng = random.Random(6)
    for turn in range(12):
        count = rng.choice([0, 1, 5, 64, 333, 2000])
        dtype, op = rng.choice([("f32", "sum"), ("i8", "max")])
        run(backend, made, count, dtype, op, seed=turn, in_place=rng.random() < 0.5)
    backend.close()


@pytest.mark.parametrize("mode", ["threads", "fibres"])
def test_several_threads_a_block(tmp_path: Path, mode: str) -> None:
    made = make(tmp_path, "all_reduce_full3")
    backend = CpuBackend(tmp_path, mode=mode, block_threads=8, slice_bytes=512)
    for count in (0, 3, 8, 1000, 20011):
        run(backend, made, count, seed=count)
    backend.close()


def test_every_order_of_the_fibres_gives_the_same_bits(tmp_path: Path) -> None:
    made = make(tmp_path, "all_reduce_ring4")
    rng = np.random.default_rng(7)
    rows = [rng.normal(size=777) for _ in range(4)]
    answers = set()
    for seed in range(8):
        backend = CpuBackend(tmp_path, mode="fibres", seed=seed, slice_bytes=256)
        call = data(made, 777, "f32", "sum", content=iter(rows)).call
        backend.run(call)
        answers.add(b"".join(output.tobytes() for output in call.outputs))
        backend.close()
    assert len(answers) == 1


def without(kernel: KernelProgram, kind: CounterKind) -> KernelProgram:
    """The kernel with the last post to the first counter of a kind left out."""
    counter = next(c for c in kernel.counters if c.kind is kind)
    blocks = []
    for block in kernel.blocks:
        posts = [n for n, i in enumerate(block.body) if i.kind is InstructionKind.POST and i.counter == counter.id]
        body = tuple(i for n, i in enumerate(block.body) if not posts or n != posts[-1])
        entry = tuple(i for i in block.entry if i.kind is not InstructionKind.POST or i.counter != counter.id)
        blocks.append(replace(block, body=body, entry=entry))
    return replace(kernel, blocks=tuple(blocks))


def test_fibres_name_the_deadlock(tmp_path: Path) -> None:
    problem, schedule, kernel = lowered("all_gather_ring3")
    made = write(tmp_path, problem, schedule, without(kernel, CounterKind.ARRIVAL))
    backend = CpuBackend(tmp_path, mode="fibres")
    with pytest.raises(DeadlockError) as caught:
        backend.run(data(made, 100).call)
    text = str(caught.value)
    assert text.startswith("all_gather_ring3/c1s2r2: deadlock, every block waits or has ended:")
    assert (
        "rank 1, block 0 (link -1), slice 0, step 1, transfer 5: waits for its arrival from rank 0 "
        "(counter arrival 0 -> 1: wants 2, has 1)"
    ) in text
    backend.close()


@pytest.mark.parametrize("block_threads", [1, 4])
def test_threads_name_who_waits_too_long(tmp_path: Path, block_threads: int) -> None:
    problem, schedule, kernel = lowered("all_gather_ring3")
    made = write(tmp_path, problem, schedule, without(kernel, CounterKind.ENTRY))
    backend = CpuBackend(tmp_path, mode="threads", block_threads=block_threads)
    with pytest.raises(CollectiveTimeoutError) as caught:
        backend.run(data(made, 100, timeout_s=0.2).call)
    text = str(caught.value)
    assert "no progress for 0.2 s" in text
    assert (
        "rank 0, block 1 (link 0), slice 0: waits for rank 1 to enter the call (counter entry 0 -> 1: wants 1" in text
    )
    backend.close()


def test_a_group_works_again_after_a_failed_call(tmp_path: Path) -> None:
    made = make(tmp_path, "all_reduce_ring3")
    backend = CpuBackend(tmp_path, mode="threads", delay=Delay(0, 1, 1.0))
    run(backend, made, 50)
    with pytest.raises(CollectiveTimeoutError):
        backend.run(data(made, 1000, "f32", "sum", timeout_s=0.05).call)
    run(backend, made, 70)
    backend.close()


def dependants(kernel: KernelProgram, late: tuple[int, int]) -> set[int]:
    """The transfers that cannot begin before the block ``late`` runs: by the kernel's own waits and order."""
    posts: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    for block in kernel.blocks:
        for n, i in enumerate(block.body):
            if i.kind is InstructionKind.POST:
                posts[i.counter, i.index] = ((block.rank, block.index), n)
    bodies = {(b.rank, b.index): b.body for b in kernel.blocks}
    first_late = {key: 0 if key == late else len(body) for key, body in bodies.items()}
    changed = True
    while changed:
        changed = False
        for key, body in bodies.items():
            for n, i in enumerate(body[: first_late[key]]):
                if i.kind is InstructionKind.AWAIT and i.lag == 0:
                    poster, at = posts[i.counter, i.index]
                    if at >= first_late[poster]:
                        first_late[key], changed = n, True
                        break
    puts = {
        i.transfer
        for key, body in bodies.items()
        for n, i in enumerate(body)
        if i.kind is InstructionKind.PUT and n >= first_late[key]
    }
    return puts - {-1}


@pytest.mark.parametrize("name", ["all_gather_ring4", "all_gather_full3", "all_reduce_full3", "broadcast_ring4"])
def test_only_dependants_of_a_late_link_are_late(tmp_path: Path, name: str) -> None:
    """No barrier between steps: what does not depend on the late block is done before it starts."""
    made = make(tmp_path, name)
    blocks = [(b.rank, b.index) for b in made.kernel.blocks if b.link >= 0]
    for late in blocks:
        backend = CpuBackend(tmp_path, mode="fibres", trace=True, delay=Delay(*late, 0.01))
        run(backend, made, 64)
        end, _ = backend.delay_end()
        events = [e for e in backend.events() if e.transfer >= 0]
        assert {e.transfer for e in events} == {t.id for t in made.schedule.transfers}
        assert {e.transfer for e in events if e.begin_order > end} == dependants(made.kernel, late)
        assert {e.transfer for e in events if e.end_order > end} == dependants(made.kernel, late)
        backend.close()


def test_a_link_ten_milliseconds_late_delays_only_its_dependants(tmp_path: Path) -> None:
    """The same with threads and time. A busy machine may delay others too, so longer delays get their chance."""
    made = make(tmp_path, "all_gather_ring4")
    late = dependants(made.kernel, (0, 1))
    assert 0 < len(late) < len(made.schedule.transfers)
    for seconds in (0.01, 0.1, 1.0, 5.0):
        backend = CpuBackend(tmp_path, mode="threads", trace=True, delay=Delay(0, 1, seconds))
        run(backend, made, 64)
        _, end_ns = backend.delay_end()
        events = [e for e in backend.events() if e.transfer >= 0]
        backend.close()
        assert end_ns >= seconds * 1e9
        assert all(e.begin_ns >= end_ns for e in events if e.transfer in late)
        if all(e.end_ns < end_ns for e in events if e.transfer not in late):
            return
    pytest.fail("transfers that do not depend on the late link waited for it")


def test_each_link_direction_has_a_block_of_its_own() -> None:
    problem, _, kernel = lowered("all_gather_full3")
    assert sorted(b.link for b in kernel.blocks if b.link >= 0) == [link.id for link in problem.topology.links]


def test_events_of_a_traced_call(tmp_path: Path) -> None:
    made = make(tmp_path, "broadcast_ring3")
    backend = CpuBackend(tmp_path, mode="threads", trace=True, slice_bytes=256)
    run(backend, made, 1000)
    events = backend.events()
    slices = {e.slice for e in events}
    assert slices == set(range(max(slices) + 1))
    assert len(slices) > 4
    moved = {t: sum(e.bytes for e in events if e.transfer == t) for t in {e.transfer for e in events} - {-1}}
    assert sum(moved.values()) == 2 * 4000  # each of two hops carries the whole vector, in chunks
    assert all(e.begin_ns <= e.end_ns and e.begin_order < e.end_order for e in events)
    backend.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "process"}, "mode='process' is not known; it can be threads or fibres"),
        ({"block_threads": 0}, "block_threads=0 is no whole number from 1 to 1024"),
        ({"workers": 3}, "unexpected keyword argument 'workers'"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        CpuBackend(tmp_path, **options)
    assert words in str(caught.value)


def test_a_type_that_cannot_be_reduced(tmp_path: Path) -> None:
    made = make(tmp_path, "all_reduce_ring2")
    backend = CpuBackend(tmp_path)
    call = replace(data(made, 4, "f32", "sum").call, dtype="f8e4m3")
    with pytest.raises(ArgumentError, match="f8e4m3 can be moved, not reduced"):
        backend.run(call)
    backend.close()


def test_the_backend_says_what_it_is(tmp_path: Path) -> None:
    backend = CpuBackend(tmp_path, mode="fibres", block_threads=2)
    assert backend.describe().startswith("cpu: fibres on one thread, 2 threads a block, compiled by ")
    backend.close()


def test_a_call_whose_end_nobody_saw_does_not_disturb_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the return of a failed call and the look at it: counters and the abort word are left over."""
    made = make(tmp_path, "all_reduce_ring3")
    backend = CpuBackend(tmp_path, mode="threads", delay=Delay(0, 1, 0.5))
    run(backend, made, 50)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("acclc_runtime.backends.cpu.failure", interrupted)
    monkeypatch.setattr("acclc_runtime.backends.cpu._Memory.take_reports", lambda memory: [])
    with pytest.raises(KeyboardInterrupt):
        backend.run(data(made, 1000, "f32", "sum", timeout_s=0.05).call)
    monkeypatch.undo()
    for count in (70, 1000):
        run(backend, made, count)
    backend.close()


def test_a_fork_in_the_middle_of_a_call_leaves_the_child_a_group_that_works(tmp_path: Path) -> None:
    made = make(tmp_path, "all_reduce_ring3")
    backend = CpuBackend(tmp_path, mode="threads", delay=Delay(0, 1, 1.0))
    run(backend, made, 50)
    thread = threading.Thread(target=lambda: run(backend, made, 1000))
    thread.start()
    while not backend._memories[made.variant.folder].in_use:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads and fork
        child = os.fork()
    if child == 0:
        signal.alarm(60)  # a lock that nobody frees ends the child, and the test fails
        try:
            run(backend, made, 70)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    backend.close()


def test_reductions_of_different_sizes_have_every_operator_but_avg(tmp_path: Path) -> None:
    problem, schedule, kernel = lowered("all_reduce_ring3")
    made = write(tmp_path, problem, schedule, replace(kernel, contributors=0))
    backend = CpuBackend(tmp_path, mode="fibres")
    for op in ("sum", "prod", "min", "max"):
        run(backend, made, 100, "i32", op)
    with pytest.raises(BuildError, match="reductions of different sizes have no one divisor for avg"):
        backend.run(data(made, 100, "i32", "avg").call)
    backend.close()


def test_a_manifest_of_other_memory_is_refused(tmp_path: Path) -> None:
    """Whatever of it would be too small or elsewhere: nothing is allocated and nothing runs."""
    made = make(tmp_path, "all_reduce_ring3")
    variant, collective = made.variant, made.collective
    few = replace(variant, slots=tuple(n - 1 for n in variant.slots))
    changes = [
        (few, {}),
        (replace(variant, counters=variant.counters[:-1]), {}),
        (replace(variant, counters=variant.counters[::-1]), {}),
        (replace(variant, blocks=variant.blocks[:-1]), {}),
        (replace(variant, channels=2), {}),
        (replace(variant, slot_depth=1), {}),
        (replace(variant, longest_chunk=variant.longest_chunk / 2), {}),
        (variant, {"input_units": (2, 1, 1)}),
        (variant, {"ranks": (1, 0, 2)}),
        (variant, {"positions": (1, 0, 2)}),
    ]
    backend = CpuBackend(tmp_path, mode="fibres")
    call = data(made, 1000, "f32", "sum").call
    for changed, more in changes:
        other = replace(collective, variants=(changed,), **more)
        with pytest.raises(DamagedFileError, match="describes other memory"):
            backend.run(replace(call, collective=other, variant=changed))
    run(backend, made, 1000)
    backend.close()
