"""A GPU a process, against a stand-in for cupy that runs the kernels on the processor: results, edges, mistakes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import cuda_rank_mains as ranks
import pytest

import acclc_runtime as rt
from acclc import compile_text
from acclc_runtime.errors import BackendUnavailableError

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="the stand-in needs g++")

TWO = "\n".join(f"{name} on full(2)" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
FOUR = """
all_reduce on ring(4)
all_gather on full(4)
all_to_all on full(4)
broadcast on full(4) { root g[1] }
reduce on full(4) { root g[2] }
all_reduce on full(4) among g[1..2] as pair
collective halo on ring(4) {
    for i in 0..<4 {
        chunk east[i] at g[i]
        need east[i] at g[(i + 1) % 4]
    }
}
"""
CUDA: dict[str, Any] = {"transport": "cuda", "timeout_s": 60.0}


@pytest.fixture(scope="module", autouse=True)
def small_slabs() -> Any:
    sys.modules.pop("cupy", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCLC_CUDA_HEAP_BYTES", str(16 << 20))
        patch.setenv("ACCLC_CUDA_STAGING_BYTES", str(2 << 20))
        yield


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(TWO, "two").save(tmp_path_factory.mktemp("gpus") / "two")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(FOUR, "four").save(tmp_path_factory.mktemp("gpus") / "four")


def test_two_processes_types_sizes_places(two: Path) -> None:
    kinds = [("f32", "sum"), ("bf16", "max"), ("u8", "prod")]
    assert rt.spawn(ranks.everything, 2, two, (kinds, [0, 1, 30_001]), **CUDA) == [[]] * 2


def test_four_processes_groups_roots_and_edges(four: Path) -> None:
    assert rt.spawn(ranks.everything, 4, four, ([("f32", "sum")], [5000]), **CUDA) == [[]] * 4


def test_eight_processes_open_only_the_slabs_of_their_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eight = compile_text("all_gather on ring(8)", "eight").save(tmp_path / "eight")
    monkeypatch.setenv("FAKE_DEVICES", "4")
    for rank, (handles, mapped, words) in enumerate(rt.spawn(ranks.opened, 8, eight, **CUDA)):
        assert handles == 2
        assert mapped == sorted([(rank - 1) % 8, (rank + 1) % 8])
        assert f"ranks {rank % 4}, {rank % 4 + 4} share this GPU" in words
    assert rt.spawn(ranks.everything, 8, eight, ([("f32", "sum")], [1000]), **CUDA) == [[]] * 8


def test_streams_handles_and_graphs(two: Path) -> None:
    for found in rt.spawn(ranks.asynchronous, 2, two, **CUDA):
        assert all(found.values()), found


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("count", "MismatchError", "16 of f32"),
        ("op", "MismatchError", "max"),
        ("offset", "MismatchError", "input at 0x"),
        ("place", "MismatchError", "input staged"),
        ("closes", "RankFailedError", "rank 1 closed its communicator"),
        ("aborts", "RankFailedError", "rank 1 called abort()"),
        ("late", "CollectiveTimeoutError", "waits for its arrival from rank 1"),
    ],
)
def test_mistakes_end_the_others_calls(two: Path, kind: str, error: str, words: str) -> None:
    limit = 1.0 if kind == "late" else 60.0
    found = rt.spawn(ranks.mistake, 2, two, (kind,), transport="cuda", timeout_s=limit)
    assert found[0][0] == error, found
    assert words in found[0][1]
    assert "communicator is closed" in found[0][1]
    assert found[1][0] == ("CommunicatorClosedError" if kind == "closes" else error)


def test_the_case_of_the_script_for_a_gpu_machine(two: Path) -> None:
    for found in rt.spawn(ranks.of_gpu_check, 2, two, **CUDA):
        assert len(found) == 4 * 2 * 2 + 1
        assert [each for each in found if not each[2]] == []


def test_a_process_that_ends(two: Path) -> None:
    with pytest.raises(rt.RankFailedError, match="the process of rank 1 ended with exit code 7"):
        rt.spawn(ranks.mistake, 2, two, ("dies",), **CUDA)


def test_calls_that_do_not_fit(two: Path) -> None:
    for told in rt.spawn(ranks.wrong, 2, two, **CUDA):
        for text, words in zip(told, ("the rank runs on device", "lies in host memory", "not contiguous",
                                      "larger staging_bytes", "larger heap_bytes", "2.0"), strict=True):  # fmt: skip
            assert words in text


def test_gpus_that_cannot_reach_each_other(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PEERS", "0")
    with pytest.raises(rt.JoinError, match=r"rank 0 \(GPU 0000:01:00.0\) and rank 1 .*no peer access.*memory"):
        rt.spawn(ranks.opened, 2, two, **CUDA)


def test_without_cupy(two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendUnavailableError, match="needs cupy"):
        rt.load(two).join(f"file://{tmp_path}/job", "cuda", rank=0, world=2)
    with pytest.raises(rt.ArgumentError, match="transport='cuda'"):
        rt.load(two).join(f"file://{tmp_path}/job", "memory", rank=0, world=2, device=1)
