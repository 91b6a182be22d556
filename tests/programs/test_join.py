"""Communicators: a process a rank. Every collective against the reference; mistakes, deaths, and what is left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import join_ranks as ranks
import numpy as np
import pytest

import acclc_runtime as rt
from acclc import compile_text

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

FOUR = """
all_reduce on full(4) { goal pareto, chunks up to 4 }
all_gather on full(4)
reduce_scatter on full(4)
all_to_all on full(4)
broadcast on full(4) { root g[1] }
reduce on full(4) { root g[2] }
gather on full(4) { root g[0] }
scatter on full(4) { root g[3] }
all_reduce on ring(4) as around { goal chunks 4, steps 6, rounds 6 }
all_reduce on full(4) among g[1..2] as pair
send_recv on line(4) as passed { pairs g[0] -> g[3], g[3] -> g[0], goal latency }
collective halo on ring(4) {
    for i in 0..<4 {
        chunk east[i] at g[i]
        need east[i] at g[(i + 1) % 4]
    }
}
"""
WRONG = (
    "it must have 8",
    "of type f64",
    "median",
    "not contiguous",
    "overlap",
    "stream=",
    "no variant 'none'",
    "can be moved, but not reduced",
    "has no gather",
    "no collective 'nothing'",
    "is by protocol LL",
)
TWO = "\n".join(f"{name} on full(2)" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
EIGHT = "all_reduce on full(8)\nall_gather on ring(8)"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(TWO, "two").save(tmp_path_factory.mktemp("join") / "two")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(FOUR, "four").save(tmp_path_factory.mktemp("join") / "four")


def faults(lists: list[list[str]]) -> list[str]:
    return [fault for found in lists for fault in found]


def test_two_processes_types_operators_sizes_places(two: Path) -> None:
    kinds = [("f32", "sum"), ("bf16", "avg"), ("i64", "max"), ("u8", "prod")]
    counts = [0, 1, 7, 1000, 70_001]
    assert not faults(rt.spawn(ranks.check_everything, 2, two, (kinds, counts), timeout_s=ranks.PATIENT_S))


def test_stores_past_the_caches(two: Path) -> None:
    arguments = ([("f32", "sum")], [1, 1000, 70_001])
    assert not faults(rt.spawn(ranks.check_past_the_caches, 2, two, arguments, timeout_s=ranks.PATIENT_S))


def test_four_processes_all_collectives(four: Path) -> None:
    arguments = ([("f32", "sum")], [0, 1, 33, 40_003])
    assert not faults(rt.spawn(ranks.check_everything, 4, four, arguments, timeout_s=ranks.PATIENT_S))
    assert not faults(rt.spawn(ranks.mixed_sequence, 4, four, (150,), timeout_s=ranks.PATIENT_S))


def test_eight_processes(tmp_path: Path) -> None:
    eight = compile_text(EIGHT, "eight").save(tmp_path / "eight")
    arguments = ([("f32", "sum")], [1, 5000])
    assert not faults(rt.spawn(ranks.check_everything, 8, eight, arguments, timeout_s=ranks.PATIENT_S))


def test_methods_handles_and_repeated_calls(two: Path) -> None:
    for found in rt.spawn(ranks.public_methods, 2, two, (str(two),), timeout_s=ranks.PATIENT_S):
        words = found.pop("describe")
        assert "memory shared by 2 processes" in words
        assert "variant c1s1r1" in words
        assert [name for name, good in found.items() if not good] == []


def test_calls_like_earlier_ones_take_the_short_way(four: Path) -> None:
    assert not faults(rt.spawn(ranks.short_ways, 4, four, timeout_s=ranks.PATIENT_S))


def test_calls_that_do_not_fit_are_errors_of_the_caller(two: Path) -> None:
    for told in rt.spawn(ranks.wrong_arguments, 2, two, timeout_s=ranks.PATIENT_S):
        for text, words in zip(told, WRONG, strict=True):
            assert text.startswith("ArgumentError")
            assert words in text


def test_mistakes_are_told_to_every_rank(two: Path, tmp_path: Path) -> None:
    results = rt.spawn(ranks.make_mistakes, 2, two, (str(two), str(tmp_path)), timeout_s=ranks.PATIENT_S)
    assert not list(tmp_path.iterdir())
    for rank, found in enumerate(results):
        for name in ranks.MISTAKES:
            kind, text, seconds, usable = found[name]
            assert not usable, name
            assert seconds < ranks.PATIENT_S / 2, name
            if name.startswith(("different", "one_has")):
                assert kind == "MismatchError", (name, text)
                assert "rank 0" in text, name
                assert "rank 1" in text, name
            elif name == "one_closes":
                assert kind == ("CommunicatorClosedError" if rank == 0 else "RankFailedError"), text
                assert rank == 0 or "rank 0 closed its communicator" in text
            elif name == "one_aborts":
                assert kind == "RankFailedError", text
                assert "rank 0 called abort()" in text
            elif name == "one_is_interrupted":
                assert kind == ("KeyboardInterrupt" if rank == 0 else "RankFailedError"), text
                assert rank == 0 or "rank 0 was interrupted" in text
            else:
                assert kind == "CollectiveTimeoutError", text
                assert "not all ranks began this call within 1 s" in text
        _, text, _, _ = found["different_count"]
        assert "count 8 of f32, sum" in text
        assert "count 16 of f32, sum" in text
        assert "waits for its arrival from rank 0" in found["one_is_late"][1]


def test_a_killed_rank_is_named_soon(four: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir("/dev/shm"))
    with pytest.raises(rt.RankFailedError, match="rank 1 ended with signal 9"):
        rt.spawn(ranks.one_dies, 4, four, (signal.SIGKILL, str(tmp_path)), timeout_s=ranks.PATIENT_S, grace_s=60)
    pid = (tmp_path / "pid").read_text()
    for rank in (0, 2, 3):
        kind, text, seconds = (tmp_path / f"told{rank}").read_text().replace("\n  ", " ").split("\n")[:3]
        assert kind == "RankFailedError"
        assert f"the process of rank 1 (pid {pid}) ended" in text
        assert float(seconds) < ranks.PATIENT_S / 2
    assert sorted(os.listdir("/dev/shm")) == before


def test_a_stopped_rank_is_named_after_the_time_out(two: Path, tmp_path: Path) -> None:
    with pytest.raises(rt.RankFailedError, match="rank 1 ended with signal 9"):
        rt.spawn(ranks.one_dies, 2, two, (signal.SIGSTOP, str(tmp_path)), timeout_s=4, grace_s=60)
    text = (tmp_path / "told0").read_text()
    pid = (tmp_path / "pid").read_text()
    assert text.startswith("CollectiveTimeoutError")
    assert f"stopped: rank 1 (pid {pid})" in text


def test_what_a_rank_raises_comes_back(two: Path) -> None:
    with pytest.raises(rt.RankFailedError, match="rank 1 raised LookupError: a fault of the program") as caught:
        rt.spawn(ranks.raises, 2, two, timeout_s=ranks.PATIENT_S)
    assert isinstance(caught.value.__cause__, LookupError)


def test_closed_communicators_leave_nothing(two: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir("/dev/shm"))
    for files, files_after, mapped, mapped_after in rt.spawn(
        ranks.memory_comes_back, 2, two, (str(two), str(tmp_path))
    ):
        assert files_after == files
        assert mapped_after == mapped
    assert sorted(os.listdir("/dev/shm")) == before


def joined(folder: Path, place: str, rank: int, world: int, **options: float) -> str:
    """Join in this process, on whatever thread; return the error."""
    try:
        with rt.load(folder).join(place, rank=rank, world=world, **options):  # type: ignore[arg-type]
            return ""
    except rt.AcclcRuntimeError as error:
        return f"{type(error).__name__}: {error}"


def join_all(calls: list[tuple[Path, str, int, int]], timeout_s: float = 60) -> list[str]:
    """Join on a thread each."""
    told = [""] * len(calls)

    def one(n: int) -> None:
        told[n] = joined(*calls[n], join_timeout_s=timeout_s)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def test_ranks_that_cannot_join_are_told_why(two: Path, four: Path, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/socket"
    assert "was compiled for 2 ranks, but 3 join" in joined(two, place, 0, 3)
    assert "rank 2 is not one of 2 ranks" in joined(two, place, 2, 2)
    assert "is not known" in joined(two, "tcp://somewhere", 0, 2)
    assert "absolute path" in joined(two, "file://here", 0, 2)
    assert "rank 1 did not come" in joined(two, place, 0, 2, join_timeout_s=0.3)
    assert "found no rank 0" in joined(two, place, 1, 2, join_timeout_s=0.3)
    told = join_all([(four, place, 0, 4), (four, place, 1, 4), (four, place, 1, 4)])
    assert all("two processes are rank 1" in text for text in told)
    assert not list(tmp_path.iterdir())


def test_two_processes_of_rank_0(two: Path, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/socket"
    told = join_all([(two, place, 0, 2), (two, place, 0, 2)], timeout_s=1)
    assert sum("two processes are rank 0" in text for text in told) == 1


def test_different_artefacts(two: Path, tmp_path: Path) -> None:
    other = compile_text(TWO.replace("all_to_all on full(2)", ""), "two").save(tmp_path / "other")
    told = join_all([(two, f"file://{tmp_path}/socket", 0, 2), (other, f"file://{tmp_path}/socket", 1, 2)])
    for text in told:
        assert text.startswith("JoinError: rank 1")
        assert "loaded another artefact than rank 0" in text


def test_a_stale_socket_is_no_obstacle(two: Path, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "socket"))
    place = f"file://{tmp_path}/socket"
    assert join_all([(two, place, 0, 2), (two, place, 1, 2)]) == ["", ""]


def test_the_environment_of_torchrun(two: Path) -> None:
    program = (
        "import numpy, acclc_runtime as rt, sys\n"
        "with rt.load(sys.argv[1]).join() as comm:\n"
        "    print(comm.rank, comm.all_reduce(numpy.ones(3, numpy.float32)).tolist())\n"
    )
    setting = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(os.getpid())}
    setting["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(two)],
            env={**setting, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    answers = [process.communicate(timeout=ranks.PATIENT_S)[0].strip() for process in started]
    assert answers == ["0 [2.0, 2.0, 2.0]", "1 [2.0, 2.0, 2.0]"]


def test_an_environment_that_says_too_little(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(rt.ArgumentError, match="does not say the rank"):
        rt.load(two).join()
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(rt.ArgumentError, match="MASTER_ADDR"):
        rt.load(two).join()
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(rt.ArgumentError, match="RANK='first'"):
        rt.load(two).join()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"slice_bytes": 0}, "slice_bytes=0"),
        ({"heap_bytes": 1}, "heap_bytes= goes with transport='cuda'"),
        ({"transport": "memory", "device": 0}, "device= goes with transport='cuda'"),
        ({"transport": "nccl", "slice_bytes": 1}, "slice_bytes= is not for transport='nccl'"),
    ],
)
def test_options_that_a_transport_has_not(two: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(rt.ArgumentError, match=re.escape(told)):
        rt.load(two).join("file:///nowhere", rank=0, world=2, **options)


def test_slices_of_any_size(two: Path, tmp_path: Path) -> None:
    place, sums = f"file://{tmp_path}/socket", []

    def one(rank: int) -> None:
        with rt.load(two).join(place, rank=rank, world=2, slice_bytes=100) as comm:
            sums.append(comm.all_reduce(np.ones(1000, np.float32), variant="c1s1r1").sum())

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [2000, 2000]


def test_a_forked_child_must_join_by_itself(two: Path, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/socket"
    comms: list[rt.Communicator | None] = [None, None]

    def one(rank: int) -> None:
        comms[rank] = rt.load(two).join(place, rank=rank, world=2)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    comm = comms[0]
    assert comm is not None
    child = os.fork()
    if child == 0:
        try:
            comm.all_reduce(np.ones(4, np.float32))
        except rt.CommunicatorClosedError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for each in comms:
        assert each is not None
        each.close()
