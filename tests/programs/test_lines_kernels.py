"""Eager kernels by the protocol LL on the CPU: sequences of calls, flags that wrap, late and lost writers, faults."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import OPS, REDUCIBLE, Made, by_lines, data, run, write
from test_realised_kernels import EAGER, realised_cases

from acclc.codegen import generate
from acclc_runtime.backends.cpu import CpuBackend, Delay, _Memory
from acclc_runtime.errors import CollectiveTimeoutError, DeadlockError
from acclc_runtime.slicing import slot_bytes_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

CASES = [*(name for name, found in realised_cases() if found is EAGER), "broadcast_ring2"]
"""The last one is of two steps, but nothing is sent on: the root awaits credits."""


def make(folder: Path, name: str, channels: int = 1, change: Callable[[str], str] = str) -> Made:
    found = by_lines(name, channels)
    assert found is not None
    return write(folder, *found, change(generate(found[2])))


@pytest.mark.parametrize("name", CASES)
def test_a_sequence_of_calls_in_both_modes(tmp_path: Path, name: str) -> None:
    """Sizes and slice counts change from call to call; empty calls pass through the slots, too."""
    made = make(tmp_path, name)
    places = (False, True) if made.collective.in_place != "none" else (False,)
    for mode in ("fibres", "threads"):
        backend = CpuBackend(tmp_path, mode=mode, slice_bytes=1024)
        for seed, count in enumerate((1, 1, 0, 0, 0, 7, 5000, 16, 1, 1300, 0, 2, 17)):
            run(backend, made, count, seed=seed, in_place=places[seed % len(places)])
        backend.close()


@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_types_operators_tails_and_alignments(tmp_path: Path, dtype: str) -> None:
    """Items of 1, 2, 4 and 8 bytes; pieces that fill no line; user memory at every offset that such items have."""
    made = make(tmp_path, "all_reduce_full3")
    for number, op in enumerate(OPS):
        backend = CpuBackend(tmp_path, mode="fibres", block_threads=(1, 8)[number % 2])
        for count in (1, 3, 31, 1000):
            run(backend, made, count, dtype, op, seed=count, offset=count % 3 * 4 if dtype[1:] != "64" else 8)
        backend.close()


@pytest.mark.parametrize("dtype", ["u8", "f16", "f64"])
def test_movement(tmp_path: Path, dtype: str) -> None:
    made = make(tmp_path, "all_gather_full3")
    backend = CpuBackend(tmp_path, mode="threads", block_threads=3)
    for count in (1, 5, 0, 77):
        run(backend, made, count, dtype, offset=1)
    backend.close()


def test_blocks_of_several_threads_and_channels(tmp_path: Path) -> None:
    made = make(tmp_path, "all_reduce_full3", channels=2)
    for mode in ("fibres", "threads"):
        backend = CpuBackend(tmp_path, mode=mode, block_threads=8, slice_bytes=1024)
        for seed, count in enumerate((1, 3000, 0, 33)):
            run(backend, made, count, seed=seed, in_place=seed == 1)
        backend.close()


@pytest.mark.parametrize("name", CASES)
def test_a_late_rank_is_waited_for(tmp_path: Path, name: str) -> None:
    made = make(tmp_path, name)
    for block in made.variant.blocks:
        backend = CpuBackend(tmp_path, mode="fibres", slice_bytes=256, delay=Delay(block.rank, block.index, 1))
        for seed, count in enumerate((300, 0, 300, 5)):
            run(backend, made, count, seed=seed)
        backend.close()


def at_slice(backend: CpuBackend, made: Made, number: int) -> None:
    """Make the next slice number ``number``, as if all before it had been run: of every block, and all counters."""
    memory = backend._memories[made.variant.folder]
    for words in memory.state:
        words.view(np.uint64)[1::8] = number
    for words in memory.counters:
        words.view(np.uint64)[::8] = number


@pytest.mark.parametrize("name", ["all_reduce_full3", "broadcast_ring2"])
@pytest.mark.parametrize("border", [2**30, 2**31, 2**32, 2**33])
def test_flags_come_round(tmp_path: Path, name: str, border: int) -> None:
    made = make(tmp_path, name)
    for mode in ("fibres", "threads"):
        backend = CpuBackend(tmp_path, mode=mode, slice_bytes=1024)
        run(backend, made, 1300)
        if border > 2**30:  # what was passed over wrote the slots anew
            at_slice(backend, made, border - 2**30)
            for seed in range(2):
                run(backend, made, 1, seed=seed)
        at_slice(backend, made, border - 5)
        for seed, count in enumerate((1, 700, 1, 0, 2, 1300, 1, 1, 700)):
            run(backend, made, count, seed=seed)
        backend.close()


def test_a_flag_that_comes_again_was_written_over(tmp_path: Path) -> None:
    """The long call at slices 3 and 4 leaves flags that slices 3 + 2^31, 4 + 2^31 look for; only short calls since.

    The block's second thread has lines of its own to wait for, so the first line does not hold it back.
    """

    def stale(change: Callable[[str], str]) -> bool:
        folder = tmp_path / str(change is str)
        made = make(folder, "all_gather_full3", change=change)
        backend = CpuBackend(folder, mode="fibres", block_threads=2, delay=Delay(0, 0, 1))
        for count in (1, 1, 1, 500, 500):
            run(backend, made, count, seed=count)
        for renewed in (2**30, 2**31):
            at_slice(backend, made, renewed)
            for seed in range(2):
                run(backend, made, 1, seed=seed)
        at_slice(backend, made, 2**31 + 3)
        prepared = data(made, 500, seed=99)
        backend.run(prepared.call)
        backend.close()
        return any((a != b).any() for a, b in zip(prepared.call.outputs, prepared.expected, strict=True))

    assert not stale(str)
    assert stale(lambda text: text.replace("if (sends && renews(r))", "if (false)"))


def forged(folder: Path, change: Callable[[str], str]) -> bool:
    """Whether a kernel takes lines of which only one half has come: the writer is late."""
    made = make(folder, "all_gather_full3", change=change)
    backend = CpuBackend(folder, mode="fibres", delay=Delay(1, 0, 1))
    run(backend, made, 4)
    for scratch in backend._memories[made.variant.folder].scratch:
        words = scratch.view(np.uint64)
        size = slot_bytes_of(made.variant, 16) // 8
        for slot in range(1, len(words) // size, 2):  # those of slice 1
            words[slot * size + 1 : slot * size + 16 : 2] = (0x80000001 << 32) | 12345
    prepared = data(made, 4, seed=5)
    backend.run(prepared.call)
    backend.close()
    return any((a != b).any() for a, b in zip(prepared.call.outputs, prepared.expected, strict=True))


def test_a_line_counts_only_when_both_halves_have_come(tmp_path: Path) -> None:
    assert not forged(tmp_path / "right", str)
    assert forged(tmp_path / "wrong", lambda text: "#define ACCL_BUG_HALF\n" + text)


def test_a_lost_writer_is_named(tmp_path: Path) -> None:
    """Rank 2 sends nothing: fibres know the deadlock at once, threads after the time-out; then all goes on."""
    text = generate(by_lines("all_gather_full3")[2])  # type: ignore[index]
    begin = text.index("void rank2_block0(")
    lost = text[:begin] + text[begin:].replace("lines(r, ", "if (r.calls != 1) lines(r, ")
    made = make(tmp_path, "all_gather_full3", change=lambda _: lost)
    names = r"rank 0, block 0 .*, slice 0, step \d, transfer \d+: waits for its arrival from rank 2 \(counter arrival"
    for mode, threads, error in (("fibres", 1, DeadlockError), ("threads", 3, CollectiveTimeoutError)):
        backend = CpuBackend(tmp_path, mode=mode, block_threads=threads)
        run(backend, made, 100)
        with pytest.raises(error, match=names):
            run(backend, made, 100, timeout_s=0.1)
        run(backend, made, 100, seed=3)
        backend.close()


def test_same_bits_as_other_realisations(tmp_path: Path) -> None:
    rows = [np.random.default_rng(3 + n).normal(size=1000).astype(np.float32) for n in range(3)]
    made = make(tmp_path, "all_reduce_full3")
    call = data(made, 1000, "f32", "sum", content=iter(rows)).call
    backend = CpuBackend(tmp_path, mode="threads", block_threads=2)
    backend.run(call)
    backend.close()
    assert {bytes(output) for output in call.outputs} == {bytes(((rows[0] + rows[1]) + rows[2]).view(np.uint8))}


def test_slots_are_twice_as_long(tmp_path: Path) -> None:
    variant = make(tmp_path, "all_reduce_full3").variant
    assert [slot_bytes_of(variant, n) for n in (0, 1, 32, 33, 1000)] == [64, 64, 64, 128, 2048]


def test_slots_that_are_no_longer_than_pieces_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next slice's lines come to lie over those that a slower rank has not yet read."""
    made = make(tmp_path, "all_reduce_full3")
    reserve = _Memory.reserve

    def too_short(self: _Memory, slot_bytes: int) -> None:
        reserve(self, slot_bytes)
        self.slot_bytes //= 2

    monkeypatch.setattr(_Memory, "reserve", too_short)
    backend = CpuBackend(tmp_path, mode="fibres", slice_bytes=1024)
    with pytest.raises((DeadlockError, AssertionError)):
        run(backend, made, 4000)
    backend.close()
