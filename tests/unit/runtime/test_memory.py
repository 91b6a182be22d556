"""Parts of communicators that need no other process: places, tables, time-outs, the heap."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from handmade import collective, direct_artefact

from acclc_runtime import ArgumentError, JoinError, load
from acclc_runtime.backends.kernel_file import COUNTER_STRIDE
from acclc_runtime.manifest import ManifestCounter
from acclc_runtime.memory.bootstrap import find_place
from acclc_runtime.memory.heap import Heap
from acclc_runtime.memory.native import NativeComm
from acclc_runtime.memory.plans import of_one_rank
from acclc_runtime.memory.tables import HEAD_BYTES, PAGE, lay_out, slot_bytes_at_most, world_of
from acclc_runtime.settings import entry_timeout_seconds
from acclc_runtime.slicing import plan_slices

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def set_all(environment: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        environment.setenv(name, value)


def test_the_environment_tells_rank_world_and_place(environment: pytest.MonkeyPatch) -> None:
    set_all(environment, RANK="1", WORLD_SIZE="4", MASTER_ADDR="here", MASTER_PORT="1234")
    place = find_place("env://", None, None, "")
    assert (place.rank, place.world) == (1, 4)
    assert place.address.startswith(b"\0acclc/")
    assert len(place.address) <= 107
    assert find_place("env://", 2, None, "").address == place.address
    assert find_place("env://", None, None, "second").address != place.address
    environment.setenv("MASTER_PORT", "1235")
    assert find_place("env://", None, None, "").address != place.address
    environment.setenv("TORCHELASTIC_RUN_ID", "x" * 300)
    assert len(find_place("env://", None, None, "").address) <= 107


def test_ranks_on_other_machines_are_an_error(environment: pytest.MonkeyPatch) -> None:
    set_all(environment, RANK="1", WORLD_SIZE="4", LOCAL_WORLD_SIZE="2", MASTER_ADDR="here", MASTER_PORT="1")
    with pytest.raises(JoinError, match="2 of 4 ranks are on this machine"):
        find_place("env://", None, None, "")


def test_a_folder_or_a_file_is_a_place(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_place(f"file://{tmp_path}", 0, 2, "").address == os.fsencode(tmp_path / "acclc.socket")
    assert find_place(f"file://{tmp_path}/x", 0, 2, "a").address == os.fsencode(tmp_path / "x.a")
    with pytest.raises(ArgumentError, match="pass rank="):
        find_place(f"file://{tmp_path}/x", None, 2, "")
    with pytest.raises(ArgumentError, match="pass world="):
        find_place(f"file://{tmp_path}/x", 0, None, "")
    with pytest.raises(ArgumentError, match="no whole number"):
        find_place(f"file://{tmp_path}/x", True, 2, "")


def test_the_entry_time_out_follows_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCLC_ENTRY_TIMEOUT", raising=False)
    assert entry_timeout_seconds(None, 60, "default") == 600
    assert entry_timeout_seconds(None, 5, "option timeout_s") == 5
    assert entry_timeout_seconds(7, 5, "option timeout_s") == 7
    monkeypatch.setenv("ACCLC_ENTRY_TIMEOUT", "9")
    assert entry_timeout_seconds(None, 5, "ACCLC_TIMEOUT") == 9
    monkeypatch.setenv("ACCLC_ENTRY_TIMEOUT", "soon")
    with pytest.raises(ArgumentError, match="ACCLC_ENTRY_TIMEOUT='soon'"):
        entry_timeout_seconds(None, 5, "default")


def test_counters_and_scratch_do_not_overlap(tmp_path: Path) -> None:
    kinds = ("all_reduce", "all_gather", "broadcast")
    manifest = load(direct_artefact(tmp_path / "a", *[collective(k, (0, 2, 5), 2) for k in kinds])).manifest
    counted = []
    for n, made in enumerate(manifest.collectives):
        homes = [0, 0, 2, 5, 5, 5][: 3 + n]
        counters = tuple(ManifestCounter("arrival", home, (home + 1) % 2 * 2, home) for home in homes)
        variant = replace(made.variants[0], counters=counters, slots=(1, 0, 3))
        counted.append(replace(made, variants=(variant,)))
    manifest = replace(manifest, collectives=tuple(counted))
    tables = lay_out(manifest, 1024)
    assert tables.world == world_of(manifest) == 6
    for rank, size in ((0, 0), (2, 1), (5, 2)):
        spans = []
        for c, made in enumerate(manifest.collectives):
            variant = made.variants[0]
            length = sum(k.home == rank for k in variant.counters) * COUNTER_STRIDE * 8 * variant.channels
            spans.append((tables.places[(c, 0)].counters[size], length))
        scratch = tables.places[(0, 0)].scratch[size]
        slots = manifest.collectives[0].variants[0].slots[size] * slot_bytes_at_most(1024)
        spans.append((scratch, slots * variant.channels * variant.slot_depth))
        end = HEAD_BYTES
        for begin, length in spans:
            assert begin >= end
            end = begin + length
        assert end <= tables.segment_bytes[rank]
        assert tables.segment_bytes[rank] % PAGE == 0


@pytest.mark.parametrize("item", [1, 2, 4, 8])
def test_no_piece_is_longer_than_a_slot(item: int) -> None:
    for count in (0, 1, 17, 4096, 65_536, 100_003, 2**33 + 5):
        for channels in (1, 3):
            for parts in (1, 7, 48):
                found = plan_slices(count, item, Fraction(1, parts), channels)
                assert found.piece_elements * item <= slot_bytes_at_most(64 * 1024)


def test_one_rank_sees_its_own_buffers(tmp_path: Path) -> None:
    whole = collective("gather", (0, 2, 5), 2)
    root, other = of_one_rank(whole, 2), of_one_rank(whole, 5)
    assert (root.ranks, root.positions, root.input_units, root.output_units) == ((2,), (1,), (1,), (3,))
    assert (other.ranks, other.positions, other.input_units, other.output_units) == ((5,), (2,), (1,), (0,))


@pytest.fixture
def heap() -> Heap:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    native = NativeComm(0, 1, 1, 60, 60)
    file = os.memfd_create("test")
    native.hold(file)
    os.posix_fallocate(file, 0, HEAD_BYTES)
    native.map(0, file, -1, 0, HEAD_BYTES)
    return Heap(native, 0, file, HEAD_BYTES)


def test_parts_of_the_heap_are_apart_and_come_back(heap: Heap) -> None:
    rng = np.random.default_rng(1)
    arrays: dict[int, np.ndarray[tuple[int], np.dtype[np.uint8]]] = {}
    for turn in range(400):
        if len(arrays) > 20:
            victim = int(rng.choice(list(arrays)))
            assert (arrays.pop(victim) == victim % 251).all()
        made = heap.array((int(rng.integers(0, 50_000)),), np.dtype(np.uint8))
        assert made.ctypes.data % 64 == 0
        made[:] = turn % 251
        arrays[turn] = made
    for turn, array in arrays.items():
        assert (array == turn % 251).all()
    arrays.clear()
    del made, array
    heap.release(heap.allocate(1)[0], 1)  # takes back what the dead arrays had
    assert sum(length for _, length in heap._free) == sum(length for _, length, _ in heap._pieces)
    assert len(heap._free) == len(heap._pieces) <= 2


def test_a_view_keeps_its_part(heap: Heap) -> None:
    view = heap.array((4, 8), np.dtype(np.float32))[1:, ::2]
    view[:] = 3
    other = heap.array((4, 8), np.dtype(np.float32))
    other[:] = 5
    assert (view == 3).all()
    assert other.shape == (4, 8)


def test_an_array_dies_without_python_code(heap: Heap) -> None:
    """Python drops a KeyboardInterrupt that comes in a finalizer, so there must be none to come in."""
    arrays = [heap.array((100,), np.dtype(np.uint8)) for _ in range(8)]
    seen: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: seen.append(f"{event} {frame.f_code.co_name}") if event == "call" else None)
    try:
        arrays.clear()
    finally:
        sys.setprofile(before)
    assert seen == []


def test_long_growths_can_have_large_pages(heap: Heap) -> None:
    """Memory and file fit to each other, wherever the growths before have ended, and the contents are the array's."""
    large = 2 << 20
    arrays = [heap.array((n,), np.dtype(np.int64)) for n in (100, 700_000, 1_200_000, 131_072, 900_001)]
    for n, array in enumerate(arrays):
        array[:] = np.arange(len(array)) + n
    for offset, length, address in heap._pieces:
        assert length < large or (address - offset) % large == 0
    assert sum(length >= large for _, length, _ in heap._pieces) >= 3
    for n, array in enumerate(arrays):
        assert np.array_equal(array, np.arange(len(array)) + n)
