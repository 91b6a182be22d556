"""The cuda backend against a stand-in for cupy that runs the same kernels on the processor."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_cupy import FakeCupy
from kernel_cases import Data, Made, by_lines, data, lowered, make, realised, write

from acclc.codegen import generate
from acclc.ir.kernel_program import Realisation
from acclc_runtime.backends.cuda import CudaBackend
from acclc_runtime.backends.kernel_file import ABI
from acclc_runtime.errors import (
    AcclcRuntimeError,
    ArgumentError,
    BackendUnavailableError,
    BuildError,
    CollectiveTimeoutError,
)

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="the stand-in needs g++")


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    return fake


def on_devices(fake: FakeCupy, prepared: Data, devices: Sequence[int]) -> Any:
    """The call with its buffers on devices."""
    call = prepared.call
    inputs = [fake.array(b, d) for b, d in zip(call.inputs, devices, strict=True)]
    outputs = [fake.array(b, d) for b, d in zip(call.outputs, devices, strict=True)]
    return replace(call, inputs=inputs, outputs=outputs)


def run(backend: CudaBackend, fake: FakeCupy, made: Made, count: int, devices: Sequence[int], **options: Any) -> None:
    op = "sum" if made.collective.reduces else None
    prepared = data(made, count, options.pop("dtype", "f32"), op, **options)
    backend.run(on_devices(fake, prepared, devices))
    prepared.check()


@pytest.mark.parametrize("name", ["all_gather_ring3", "all_reduce_ring3", "reduce_scatter_ring3", "broadcast_ring3"])
def test_one_device_a_rank(tmp_path: Path, cupy: FakeCupy, name: str) -> None:
    made = make(tmp_path, name)
    backend = CudaBackend(tmp_path, slice_bytes=1024)
    for seed, count in enumerate((0, 1, 17, 1000, 5, 3001)):
        run(backend, cupy, made, count, (0, 1, 2), seed=seed, in_place=seed % 2 == 1)
    assert {launch.device for launch in cupy.launched} == {0, 1, 2}
    assert not any(launch.cooperative for launch in cupy.launched)


@pytest.mark.parametrize("devices", [(0, 1, 2), (0, 0, 0)])
def test_lines_in_both_layouts(
    tmp_path: Path, cupy: FakeCupy, devices: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a call that was given up slices count from 0 again, so slots must hold no flag of the calls before."""
    found = by_lines("all_reduce_full3")
    assert found is not None
    made = write(tmp_path, *found)
    layout = "one" if len(set(devices)) == 1 else "devices"
    backend = CudaBackend(tmp_path, layout=layout, slice_bytes=1024)
    for seed, count in enumerate((1, 1, 3000, 0, 7, 1)):
        run(backend, cupy, made, count, devices, seed=seed, in_place=seed % 2 == 1)
    if layout == "devices":
        monkeypatch.setattr("acclc_runtime.backends.cuda.CudaBackend._launch_each", _launch_but_the_last)
        with pytest.raises(CollectiveTimeoutError, match=r"rank 0, block 0 .* waits for its arrival from rank 2"):
            run(backend, cupy, made, 10, devices, timeout_s=0.1)
        monkeypatch.undo()
        monkeypatch.setitem(sys.modules, "cupy", cupy)
    for seed, count in enumerate((3000, 1)):
        run(backend, cupy, made, count, devices, seed=seed)
    backend.close()
    assert cupy.memory == {}


@pytest.mark.parametrize("devices", [(0, 1, 2), (0, 0, 0)])
@pytest.mark.parametrize("realisation", [Realisation.EAGER, Realisation.DIRECT])
def test_realisations_in_both_layouts(
    tmp_path: Path, cupy: FakeCupy, realisation: Realisation, devices: tuple[int, ...]
) -> None:
    """Direct kernels get more blocks, so counters and state are laid out for as many."""
    found = realised("all_reduce_full3", realisation)
    assert found is not None
    made = write(tmp_path, *found)
    layout = "one" if len(set(devices)) == 1 else "devices"
    backend = CudaBackend(tmp_path, layout=layout, slice_bytes=1024, direct_channels=3)
    for seed, count in enumerate((1, 1, 0, 3001, 17, 5)):
        run(backend, cupy, made, count, devices, seed=seed, in_place=seed % 2 == 1)
    each = 3 if realisation is Realisation.DIRECT else 1
    assert {launch.grid for launch in cupy.launched} == {each * (3 if layout == "one" else 1)}
    backend.close()
    assert cupy.memory == {}


@pytest.mark.parametrize("name", ["all_gather_ring4", "all_reduce_full3"])
def test_all_ranks_on_one_device_in_one_cooperative_launch(tmp_path: Path, cupy: FakeCupy, name: str) -> None:
    made = make(tmp_path, name, channels=2)
    backend = CudaBackend(tmp_path, layout="one", devices=[3], threads=128)
    ranks = len(made.collective.ranks)
    for seed, count in enumerate((7, 1000, 0, 64)):
        run(backend, cupy, made, count, [3] * ranks, seed=seed)
    assert [(x.device, x.cooperative, x.threads) for x in cupy.launched] == [(3, True, 128)] * 4
    assert {x.grid for x in cupy.launched} == {2 * len(made.kernel.blocks)}
    assert cupy.joined == set()
    backend.close()
    assert cupy.memory == {}


def test_nothing_that_could_wait_lies_between_launches(tmp_path: Path, cupy: FakeCupy) -> None:
    made = make(tmp_path, "all_reduce_ring3")
    backend = CudaBackend(tmp_path)
    for count in (10, 100_000, 10):  # the second needs more scratch
        cupy.log.clear()
        run(backend, cupy, made, count, (0, 1, 2))
        first = cupy.log.index("launch on 0")
        assert cupy.log[first:] == ["launch on 0", "launch on 1", "launch on 2", *["synchronize"] * 3]
        assert not any(entry.startswith("load") for entry in cupy.log[first:])
    assert cupy.log[:first] == ["memcpyAsync"] * 3  # all is kept: no allocation, no loading
    backend.close()


def test_peer_access_is_enabled_along_used_edges_only(tmp_path: Path, cupy: FakeCupy) -> None:
    made = make(tmp_path, "all_gather_ring4")
    backend = CudaBackend(tmp_path, devices=(2, 0, 3, 1))
    run(backend, cupy, made, 10, (2, 0, 3, 1))
    edges = {(2, 0), (0, 3), (3, 1), (1, 2)}
    assert cupy.joined == edges | {(b, a) for a, b in edges}
    probes = cupy.log.count("memcpyPeer")
    assert probes == 8
    run(backend, cupy, made, 10, (2, 0, 3, 1))
    assert cupy.log.count("memcpyPeer") == probes
    backend.close()


def test_access_enabled_by_others_is_no_error(tmp_path: Path, cupy: FakeCupy) -> None:
    cupy.joined.add((0, 1))
    made = make(tmp_path, "all_gather_ring3")
    backend = CudaBackend(tmp_path)
    run(backend, cupy, made, 10, (0, 1, 2))
    backend.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [({"peers": False}, "device 0 cannot reach the memory of device 1"), ({"broken_copies": True}, "arrives changed")],
)
def test_an_edge_that_does_not_work(tmp_path: Path, cupy: FakeCupy, change: dict[str, bool], words: str) -> None:
    for name, value in change.items():
        setattr(cupy, name, value)
    made = make(tmp_path, "all_gather_ring3")
    backend = CudaBackend(tmp_path)
    with pytest.raises(BackendUnavailableError, match=words):
        run(backend, cupy, made, 10, (0, 1, 2))
    backend.close()
    assert cupy.memory == {}


def test_launches_that_block_are_refused(tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    made = make(tmp_path, "all_gather_ring3")
    backend = CudaBackend(tmp_path)
    with pytest.raises(BackendUnavailableError, match="CUDA_LAUNCH_BLOCKING=1"):
        run(backend, cupy, made, 10, (0, 1, 2))
    one = CudaBackend(tmp_path, layout="one")
    run(one, cupy, made, 10, (0, 0, 0))  # a single launch has nothing to wait for
    assert cupy.log.count("launch on 0") == 1


def test_without_cupy_or_gpu(tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy.no_driver = True
    with pytest.raises(BackendUnavailableError, match="needs an NVIDIA GPU and its driver: cudaErrorNoDevice"):
        CudaBackend(tmp_path)
    cupy.no_driver, cupy.devices = False, 0
    with pytest.raises(BackendUnavailableError, match="this machine has none"):
        CudaBackend(tmp_path)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendUnavailableError, match=r"needs cupy .*; install acclc\[cuda13\] or acclc\[cuda12\]"):
        CudaBackend(tmp_path)


def test_blocks_that_cannot_all_run_at_once(tmp_path: Path, cupy: FakeCupy) -> None:
    cupy.blocks_a_multiprocessor = 0
    made = make(tmp_path, "all_gather_ring3")
    for layout, devices in (("devices", (0, 1, 2)), ("one", (0, 0, 0))):
        backend = CudaBackend(tmp_path, layout=layout)
        with pytest.raises(ArgumentError, match=r"have to run at once on device 0, which holds 0"):
            run(backend, cupy, made, 10, devices)
        assert cupy.launched == []


def test_a_buffer_on_the_wrong_device(tmp_path: Path, cupy: FakeCupy) -> None:
    made = make(tmp_path, "all_gather_ring3")
    backend = CudaBackend(tmp_path)
    with pytest.raises(ArgumentError, match="the input of rank 1 lies on device 0; the rank runs on device 1"):
        run(backend, cupy, made, 10, (0, 0, 2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"devices": (0, 1)}, None),
        ({"layout": "devices", "devices": (0, 1)}, "needs 3 devices, one a rank; chosen are"),
        ({"layout": "devices", "devices": (0, 1, 9)}, "present are 4"),
        ({"layout": "devices", "devices": (0, 1, 1)}, "names a device twice"),
    ],
)
def test_which_devices(tmp_path: Path, cupy: FakeCupy, options: dict[str, Any], words: str | None) -> None:
    made = make(tmp_path, "all_gather_ring3")
    backend = CudaBackend(tmp_path, **options)
    if words is None:
        run(backend, cupy, made, 10, (0, 0, 0))
        return
    with pytest.raises(ArgumentError, match=words):
        run(backend, cupy, made, 10, (0, 1, 2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "two"}, "layout='two' is not known; it can be auto, devices, one"),
        ({"threads": 100}, "threads=100 is no multiple of 32 up to 512"),
        ({"slice_bytes": 1}, "slice_bytes=1 is no whole number from 64 on"),
        ({"mode": "fibres"}, "unexpected keyword argument 'mode'"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, cupy: FakeCupy, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        CudaBackend(tmp_path, **options)
    assert words in str(caught.value)


def test_a_kernel_that_does_not_compile(tmp_path: Path, cupy: FakeCupy) -> None:
    problem, schedule, kernel = lowered("all_gather_ring3")
    made = write(tmp_path, problem, schedule, kernel, generate(kernel) + "// does not compile\n")
    backend = CudaBackend(tmp_path)
    with pytest.raises(BuildError) as caught:
        run(backend, cupy, made, 10, (0, 1, 2))
    text = str(caught.value)
    assert "kernel.cu(7): error: does not compile" in text
    defines = f"-DACCL_TYPE=b4 -DACCL_OP=none -DACCL_RUNTIME_ABI={ABI} -DACCL_CHANNELS=1"
    assert f"nvcc -std=c++17 {defines} -arch=sm_90 -cubin" in text


def test_a_time_out_is_told_and_the_group_goes_on(tmp_path: Path, cupy: FakeCupy, monkeypatch: Any) -> None:
    """The first call misses a rank's launch, as if its kernel never started."""
    made = make(tmp_path, "all_gather_ring3")
    backend = CudaBackend(tmp_path)
    run(backend, cupy, made, 10, (0, 1, 2))
    monkeypatch.setattr("acclc_runtime.backends.cuda.CudaBackend._launch_each", _launch_but_the_last)
    with pytest.raises(CollectiveTimeoutError, match=r"rank 1, block 1 .* waits for rank 2 to enter the call"):
        run(backend, cupy, made, 10, (0, 1, 2), timeout_s=0.1)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    run(backend, cupy, made, 10, (0, 1, 2))
    backend.close()
    assert cupy.memory == {}


_launch_each = CudaBackend._launch_each


def _launch_but_the_last(self: CudaBackend, *arguments: Any) -> None:
    _launch_each(self, *arguments)
    self._cupy.pending.pop()


def test_it_says_what_it_is(tmp_path: Path, cupy: FakeCupy) -> None:
    backend = CudaBackend(tmp_path)
    assert backend.describe() == "cuda: 4 device(s), Fake GPU, 256 threads a block, layout auto"


@pytest.mark.parametrize("device", [0, 1, 2])
def test_a_launch_that_fails_ends_those_that_wait_for_it(tmp_path: Path, cupy: FakeCupy, device: int) -> None:
    made = make(tmp_path, "all_gather_ring3")
    backend = CudaBackend(tmp_path)
    run(backend, cupy, made, 10, (0, 1, 2))
    cupy.refused_launch = device
    with pytest.raises(AcclcRuntimeError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
        run(backend, cupy, made, 10, (0, 1, 2), timeout_s=3600.0)
    assert cupy.pending == []
    cupy.refused_launch = -1
    for seed in range(3):
        run(backend, cupy, made, 1000, (0, 1, 2), seed=seed)
    backend.close()
    assert cupy.memory == {}


def test_memory_that_is_not_to_be_had_is_told_and_the_group_goes_on(tmp_path: Path, cupy: FakeCupy) -> None:
    made = make(tmp_path, "all_reduce_ring3")
    backend = CudaBackend(tmp_path)
    run(backend, cupy, made, 10, (0, 1, 2))
    cupy.most_bytes = 100_000
    for _ in range(2):
        with pytest.raises(AcclcRuntimeError, match="out of memory"):
            run(backend, cupy, made, 1_000_000, (0, 1, 2))
    run(backend, cupy, made, 10, (0, 1, 2))
    cupy.most_bytes = 1 << 40
    run(backend, cupy, made, 100_000, (0, 1, 2))
    backend.close()
    assert cupy.memory == {}


def test_groups_of_several_threads_take_turns_on_the_devices(tmp_path: Path, cupy: FakeCupy) -> None:
    """Each with half of the devices would wait for the other for ever; the stand-in refuses mixed launches."""
    made = make(tmp_path, "all_gather_ring3")
    cupy.launch_seconds = 0.002
    failed: list[BaseException] = []

    def calls(seed: int) -> None:
        try:
            backend = CudaBackend(tmp_path)
            for n in range(10):
                run(backend, cupy, made, 50, (0, 1, 2), seed=seed + n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=calls, args=(100 * t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
