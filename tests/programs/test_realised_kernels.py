"""Eager and direct kernels on the CPU: every hand-made case that has them, sequences of calls, faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Made, data, realised, realised_cases, run, write

from acclc.ir.kernel_program import Realisation
from acclc_runtime.backends.cpu import CpuBackend, Delay
from acclc_runtime.slicing import EAGER_SLICE_BYTES, plan_slices, slice_bytes_of

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

EAGER, DIRECT = Realisation.EAGER, Realisation.DIRECT
CASES = [pytest.param(name, r, id=f"{name}-{r.value}") for name, r in realised_cases()]


def make(folder: Path, name: str, realisation: Realisation, channels: int = 1) -> Made:
    found = realised(name, realisation, channels)
    assert found is not None
    return write(folder, *found)


def test_there_are_cases_of_both() -> None:
    """Of every collective in one step; rings have neither where values travel on."""
    names = {r: {name for name, found in realised_cases() if found is r} for r in (EAGER, DIRECT)}
    for found in names.values():
        assert {"all_reduce_full3", "all_gather_full3", "all_gather_star3"} <= found
        assert not found & {"all_reduce_ring3", "all_gather_ring3", "reduce_scatter_ring4"}


@pytest.mark.parametrize(("name", "realisation"), CASES)
def test_a_sequence_of_calls_in_both_modes(tmp_path: Path, name: str, realisation: Realisation) -> None:
    """Sizes and slice counts change from call to call, so that slots are met in every phase."""
    made = make(tmp_path, name, realisation)
    places = (False, True) if made.collective.in_place != "none" else (False,)
    for mode in ("fibres", "threads"):
        backend = CpuBackend(tmp_path, mode=mode, slice_bytes=1024)
        for seed, count in enumerate((1, 1, 1, 0, 7, 5000, 16, 1, 1300, 2, 17)):
            run(backend, made, count, seed=seed, in_place=places[seed % len(places)])
        backend.close()


@pytest.mark.parametrize("realisation", [EAGER, DIRECT])
@pytest.mark.parametrize(("dtype", "op"), [("f16", "avg"), ("bf16", "sum"), ("i8", "avg"), ("f64", "max")])
def test_types_and_operators(tmp_path: Path, realisation: Realisation, dtype: str, op: str) -> None:
    made = make(tmp_path, "all_reduce_full3", realisation)
    backend = CpuBackend(tmp_path, mode="fibres")
    for count in (1, 31, 1000):
        run(backend, made, count, dtype, op, seed=count, offset=count % 3 * 8)
    backend.close()


@pytest.mark.parametrize("realisation", [EAGER, DIRECT])
def test_blocks_of_several_threads_and_channels(tmp_path: Path, realisation: Realisation) -> None:
    made = make(tmp_path, "all_reduce_full3", realisation, channels=2)
    backend = CpuBackend(tmp_path, mode="fibres", block_threads=5, slice_bytes=1024)
    for seed, count in enumerate((1, 3000, 33)):
        run(backend, made, count, seed=seed, in_place=seed == 1)
    backend.close()


@pytest.mark.parametrize(("name", "realisation"), CASES)
def test_a_late_rank_is_waited_for(tmp_path: Path, name: str, realisation: Realisation) -> None:
    """Each block in turn runs only when nothing else can; calls follow each other without any other pause."""
    made = make(tmp_path, name, realisation)
    for block in made.collective.variants[0].blocks:
        backend = CpuBackend(tmp_path, mode="fibres", slice_bytes=256, delay=Delay(block.rank, block.index, 1))
        for seed in range(3):
            run(backend, made, 300, seed=seed)
        backend.close()


def test_slices_of_each(tmp_path: Path) -> None:
    eager, direct = (make(tmp_path, "all_reduce_full3", r).variant for r in (EAGER, DIRECT))
    assert slice_bytes_of(eager) == EAGER_SLICE_BYTES
    assert plan_slices(2**33, 4, direct.longest_chunk, 1, slice_bytes_of(direct)).slices == 1
    assert direct.slots == (0, 0, 0)
    assert (direct.read, direct.written) == ((0, 1, 2), (0, 1, 2))
    assert (eager.read, eager.written) == ((), ())


def test_same_bits_as_puts(tmp_path: Path) -> None:
    """Real numbers, whose sums depend on the order: eager keeps the schedule's, and so do all ranks."""
    rng = np.random.default_rng(3)
    rows = [rng.normal(size=1000).astype(np.float32) for _ in range(3)]
    found = []
    for number, realisation in enumerate((EAGER, DIRECT)):
        made = make(tmp_path / str(number), "all_reduce_full3", realisation)
        call = data(made, 1000, "f32", "sum", content=iter(rows)).call
        backend = CpuBackend(tmp_path / str(number), mode="fibres")
        backend.run(call)
        backend.close()
        found += [bytes(output) for output in call.outputs]
    assert len(set(found)) == 1
    assert found[0] == bytes(((rows[0] + rows[1]) + rows[2]).view(np.uint8))
