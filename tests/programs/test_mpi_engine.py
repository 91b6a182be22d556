"""The MPI engine against the definitions: over a double of MPI (threads, one host or several), and over an MPI."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import join_ranks as ranks
import numpy as np
import pytest
import thread_mpi
import varying_ranks
from test_join import FOUR, TWO

import acclc_runtime as rt
from acclc import compile_text
from acclc_runtime.dtypes import named
from acclc_runtime.engines.mpi.execution import Execution, Links, Plan, Work
from acclc_runtime.engines.mpi.join import join_mpi
from acclc_runtime.engines.mpi.rings import HEADS, Head, Rings, Shape
from acclc_runtime.engines.tasks import rank_tasks
from acclc_runtime.program import Buffer, Extent, Operation, OperationKind, Program, ProgramBlock, RankProgram

ROOT = Path(__file__).resolve().parent.parent.parent
HOSTS = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 2, 3)]
KINDS = [("f32", "sum"), ("bf16", "avg"), ("i64", "max"), ("u8", "prod")]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = FOUR + "\nall_to_all_v on full(4) as tokens\n"
    return compile_text(text, "four").save(tmp_path_factory.mktemp("mpi") / "four")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(TWO, "two").save(tmp_path_factory.mktemp("mpi") / "two")


def on_ranks(folder: Path, hosts: Sequence[int], do: Callable[[Any], Any], **options: Any) -> list[Any]:
    """Run ``do`` with the communicator of each rank (without kernels as a rule); return what each gives."""
    loaded = rt.load(folder)
    options = {"kernels": False, **options}

    def work(everyone: thread_mpi.Comm) -> Any:
        with join_mpi(loaded.folder, loaded.manifest, mpi=thread_mpi.MPI, everyone=everyone, **options) as comm:
            return do(comm)

    return thread_mpi.run(hosts, work)


@pytest.mark.parametrize("hosts", HOSTS, ids=str)
def test_everything_is_right_wherever_ranks_are(four: Path, hosts: tuple[int, ...]) -> None:
    """Every collective and variant in and out of place, empty and with tails, then mixed without a pause."""

    def check(comm: Any) -> list[str]:
        plain = _Without(comm, [c for c in comm.manifest.collectives if not c.varying])
        kinds = KINDS if hosts == HOSTS[1] else KINDS[:2]
        return ranks.check_everything(plain, kinds, [0, 1, 7, 1000]) + ranks.mixed_sequence(plain, 12)

    assert on_ranks(four, hosts, check, timeout_s=60.0) == [[]] * 4


@pytest.mark.parametrize("hosts", HOSTS[:2], ids=str)
def test_many_slices_with_few_slots(four: Path, hosts: tuple[int, ...]) -> None:
    """Slices of 512 bytes: slots run out, and what lies in others' is copied away."""

    def check(comm: Any) -> list[str]:
        plain = _Without(comm, [c for c in comm.manifest.collectives if not c.varying])
        return ranks.check_everything(plain, KINDS[:1], [4001])

    assert on_ranks(four, hosts, check, slice_bytes=512, timeout_s=60.0) == [[]] * 4


class _Without:
    """A communicator whose manifest shows only some collectives: the tests of others than all_to_all_v take it."""

    def __init__(self, comm: Any, collectives: list[Any]) -> None:
        self._comm = comm
        self.manifest = rt.manifest.Manifest("four", "", True, (), tuple(collectives))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)


@pytest.mark.parametrize("hosts", HOSTS[:2], ids=str)
def test_counts_that_vary(four: Path, hosts: tuple[int, ...]) -> None:
    assert on_ranks(four, hosts, lambda comm: varying_ranks.many_matrices(comm, 24)) == [[]] * 4
    rows = on_ranks(four, hosts, varying_ranks.rows_of_tokens)
    assert [row[1] for row in rows] == [[0, 1, 2, 3]] * 4


@pytest.mark.parametrize("how", ["matrix", "unchecked"])
def test_counts_that_differ_are_an_error_on_all_ranks(four: Path, how: str) -> None:
    for said in on_ranks(four, HOSTS[1], lambda comm: varying_ranks.disagree(comm, how)):
        assert "the counts differ between ranks" in str(said), said


def test_the_public_methods(four: Path) -> None:
    for found in on_ranks(four, HOSTS[1], lambda comm: ranks.public_methods(comm, str(four))):
        assert all(found.values()), found
        assert "by MPI" in found["describe"]
        assert "1 other ranks on this host" in found["describe"]


@pytest.mark.parametrize("hosts", HOSTS, ids=str)
@pytest.mark.parametrize(
    "mistake", ["different_count", "one_has_nothing", "different_type", "different_operator", "different_collective"]
)
def test_ranks_that_do_not_call_the_same_are_told_so(four: Path, hosts: tuple[int, ...], mistake: str) -> None:
    for error in on_ranks(four, hosts, ranks.MISTAKES[mistake]):
        assert isinstance(error, rt.MismatchError), error
        assert "do not call the same" in str(error)
        assert "as call 1" in str(error)


def test_mistakes_of_one_rank_are_said_before_anything_moves(four: Path) -> None:
    for said in on_ranks(four, HOSTS[0], ranks.wrong_arguments):
        assert not [line for line in said if line == "no error"]


def test_a_rank_that_does_not_come_ends_the_call_of_the_others(four: Path) -> None:
    def late(comm: Any) -> None:
        if comm.rank == 2:
            return
        comm.all_reduce(np.ones(8, np.float32))

    loaded = rt.load(four)

    def work(everyone: thread_mpi.Comm) -> None:
        late(
            join_mpi(
                loaded.folder,
                loaded.manifest,
                mpi=thread_mpi.MPI,
                everyone=everyone,
                entry_timeout_s=0.5,
                timeout_s=0.5,
            )
        )

    found = thread_mpi.run(HOSTS[1], work)
    assert found[2] is None
    for rank in (0, 1, 3):
        assert isinstance(found[rank], rt.CollectiveTimeoutError), found[rank]
        assert "not all ranks began this call within 0.5 s" in str(found[rank])


def test_a_rank_that_gives_up_is_heard_by_all(four: Path) -> None:
    def abort(comm: Any) -> str:
        if comm.rank == 1:
            comm.abort()
        try:
            comm.all_reduce(np.ones(8, np.float32))
        except rt.AcclcRuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return "no error"

    found = on_ranks(four, HOSTS[1], abort)
    assert found[1].startswith("CommunicatorClosedError")
    for rank in (0, 2, 3):
        assert found[rank].startswith("RankFailedError: rank 1 gave up: rank 1 called abort()")


def test_a_world_of_another_size_and_another_artefact_are_refused_on_all_ranks(two: Path, four: Path) -> None:
    for error in on_ranks(four, (0, 0, 0), lambda _: None):
        assert isinstance(error, rt.JoinError)
        assert "compiled for 4 ranks, but MPI started 3" in str(error)

    def work(everyone: thread_mpi.Comm) -> None:
        loaded = rt.load(two if everyone.Get_rank() else four)
        join_mpi(loaded.folder, loaded.manifest, mpi=thread_mpi.MPI, everyone=everyone)

    for error in thread_mpi.run((0, 0), work):
        assert isinstance(error, rt.JoinError)


def test_ranks_are_placed_by_the_hosts_of_the_topology(tmp_path: Path) -> None:
    """MPI deals ranks to two machines in turn; the topology's boxes lie whole on one each."""
    text = """
topology box { link nv { 100 GB/s, 1 us } gpu g[2] g[0] <-> g[1] : nv }
topology pair { link ib { 10 GB/s, 5 us, kind net } box b[2] b[0].g[0] <-> b[1].g[0] : ib }
all_gather on pair
"""
    folder = compile_text(text, "pair").save(tmp_path / "pair")

    def work(comm: Any) -> tuple[int, list[int], list[int]]:
        return comm.rank, sorted(comm._world.near), comm.all_gather(np.full(1, comm.rank, np.int32)).tolist()

    everyone = [0, 1, 2, 3]
    assert on_ranks(folder, (0, 1, 0, 1), work) == [
        (0, [1], everyone), (2, [3], everyone), (1, [0], everyone), (3, [2], everyone)
    ]  # fmt: skip
    assert on_ranks(folder, (0, 1, 1, 1), work) == [
        (n, [m for m in (1, 2, 3) if m != n] if n else [], everyone) for n in range(4)
    ]


INNER = """
all_reduce on full(4) { goal latency }
all_reduce on full(4) among g[0..1] as left { goal latency }
all_gather on full(4) among g[3], g[2] as right
all_to_all_v on full(4) among g[2..3] as rows
"""
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def inner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(INNER, "inner").save(tmp_path_factory.mktemp("mpi") / "inner")


@needs_compiler
@pytest.mark.parametrize("hosts", HOSTS[:2], ids=str)
def test_collectives_within_a_host_run_by_kernels(inner: Path, hosts: tuple[int, ...]) -> None:
    """Those of other hosts, or of several, lie between them."""
    one_host = hosts == HOSTS[0]

    def check(comm: Any) -> tuple[list[str], str]:
        plain = _Without(comm, [c for c in comm.manifest.collectives if not c.varying])
        faults = [] if one_host else ranks.check_everything(plain, KINDS[:1], [0, 7, 5000])
        faults += [] if one_host else ranks.mixed_sequence(plain, 12)  # of one host: over an MPI, below
        x = np.full(3, comm.rank, np.float32)
        for _ in range(3):  # handles, and what is called while they are under way
            handle = comm.collective("left", x, async_op=True) if comm.rank < 2 else None
            if comm.all_reduce(x).tolist() != [6] * 3 or (handle and handle.wait().tolist() != [1] * 3):
                faults.append(f"rank {comm.rank}: an all_reduce beside a handle")
        if comm.rank > 1:
            rows = comm.all_to_all_v(x, send_counts=[1, 2])
            faults += [] if rows.tolist() == ([2, 3] if comm.rank == 2 else [2, 2, 3, 3]) else [f"rows: {rows}"]
        return faults, comm.describe(1024)

    for rank, (faults, said) in enumerate(on_ranks(inner, hosts, check, kernels=True)):
        assert faults == []
        names = "all_reduce, left, right, rows" if one_host else ("left", "right, rows")[rank // 2]
        assert f"within this host, by generated kernels in shared memory: {names}\n" in said
        assert f" by {'kernels' if one_host else 'MPI'}: " in said.partition("\nall_reduce, 1 KiB: variant ")[2], said


@needs_compiler
@pytest.mark.parametrize("mistake", ["different_count", "different_type", "different_operator", "one_has_nothing"])
def test_mistakes_within_a_host_are_told_to_all(inner: Path, mistake: str) -> None:
    """The left host's ranks call different things; those of the other host wait for them in another collective."""

    def call(comm: Any) -> str:
        x = np.ones(8, np.float32)
        try:
            if comm.rank > 1:
                comm.all_reduce(x)
            elif comm.rank == 0:
                comm.collective("left", x)
            elif mistake == "different_operator":
                comm.collective("left", x, op="max")
            else:
                other = {"different_count": np.ones(9, np.float32), "different_type": np.ones(8, np.int32)}
                comm.collective("left", other.get(mistake, x[:0]))
        except rt.MismatchError as error:
            assert comm._why_closed
            return str(error)
        return "no error"

    found = on_ranks(inner, HOSTS[1], call, kernels=True)
    assert all("do not call the same" in said for said in found), found
    assert all(" gave up: " in said for said in found[2:]), found


@needs_compiler
def test_a_failure_among_hosts_is_told_within_them(inner: Path) -> None:
    """Rank 0 waits for rank 1 in a collective of their host; rank 1 for all others, of which one aborts."""

    def call(comm: Any) -> str:
        x = np.ones(8, np.float32)
        try:
            if comm.rank == 3:
                comm.abort()
            comm.collective("left" if comm.rank == 0 else "all_reduce", x)
        except rt.AcclcRuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return "no error"

    found = on_ranks(inner, HOSTS[1], call, kernels=True)
    assert found[3].startswith("CommunicatorClosedError")
    for rank in range(3):
        assert found[rank].startswith("RankFailedError"), found
        assert "rank 3 called abort()" in found[rank]


def test_without_a_compiler_all_run_as_others(inner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    x = np.ones(4, np.float32)
    for total, said in on_ranks(inner, HOSTS[0], lambda c: (c.all_reduce(x).tolist(), c.describe()), kernels=True):
        assert total == [4.0] * 4
        assert "no generated kernels within this host: rank 0: CXX='/nowhere/c++' cannot be run" in said


def test_a_slot_of_scratch_may_be_written_again() -> None:
    """Rank 1 passes two halves on, each to two ranks, by the same slot: what arrives is what was there at that time."""

    def extent(buffer: Buffer, half: int) -> Extent:
        return Extent(buffer, 0, Fraction(half, 2), Fraction(half + 1, 2))

    def send(half: int, source: Buffer, src: int, dst: int) -> Operation:
        number, transfer = 10 * half + dst, 10 * half + 4 * src + dst
        sources = (extent(source, half),)
        return Operation(number, OperationKind.SEND, half, sources, None, transfer, dst, 0, half)

    def receive(half: int, target: Buffer, src: int, dst: int) -> Operation:
        transfer, into = 10 * half + 4 * src + dst, extent(target, half)
        return Operation(10 * half, OperationKind.RECEIVE, half, (), into, transfer, src, 0, half)

    def rank(number: int, *operations: Operation) -> RankProgram:
        return RankProgram(number, int(number == 0), int(number > 1), int(number == 1), (ProgramBlock(-1, operations),))

    halves, passed_on = (0, 1), []
    for half in halves:
        passed_on += [receive(half, Buffer.SCRATCH, 0, 1), *(send(half, Buffer.SCRATCH, 1, dst) for dst in (2, 3))]
    ends = [rank(n, *(receive(half, Buffer.OUTPUT, 1, n) for half in halves)) for n in (2, 3)]
    first = rank(0, *(send(half, Buffer.INPUT, 0, 1) for half in halves))
    program = Program("relay", "none", (0, 1, 2, 3), 1, (first, rank(1, *passed_on), *ends))
    shape, count = Shape(4, 8, 256), 64
    segments = [np.zeros(shape.segment_bytes, np.uint8) for _ in range(4)]
    x = np.arange(count, dtype=np.uint8)
    outs = [np.zeros(count, np.uint8) for _ in range(4)]

    def work(me: int) -> None:
        tasks = rank_tasks(program, me, count, None, 1, False, "relay")
        rings = Rings(me, segments, shape, lambda: None)
        near = {n: n for n in range(4) if n != me}
        links = Links(near, rings, None)  # type: ignore[arg-type]
        Execution(Work(Plan.of(tasks, 1, near), 1, named("u8"), None, x, outs[me]), links).run(
            lambda moved: time.sleep(0)
        )

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [out.tolist() for out in outs[2:]] == [x.tolist()] * 2


def test_rings_hold_what_is_not_given_back() -> None:
    shape = Shape(2, 3, 100)
    segments = [np.zeros(shape.segment_bytes, np.uint8) for _ in range(2)]
    here, there = (Rings(n, segments, shape, lambda: None) for n in range(2))
    written = []
    for n in range(3):
        slot, room = here.take_slot(10)
        room[:] = n
        here.tell(1, Head(7, n, 10, slot), last=True)
        written.append(slot)
    assert sorted(written) == [0, 1, 2]
    assert here.free_slots() == 0
    assert there.look(6) == []  # of another call
    found = there.look(7)
    assert [(head.message, data.tolist()) for _, _, head, data in found] == [(n, [n] * 10) for n in range(3)]
    there.give_back(0, found[1][1])
    assert here.free_slots() == 0  # counts only grow: what was told before has to come back first
    there.give_back(0, found[0][1])
    assert here.free_slots() == 2
    slot, _ = here.take_slot(1)
    told = 1  # of three messages two came back
    while here.can_tell(1):
        here.tell(1, Head(8, 0, 1, slot), last=False)
        told += 1
    assert told == HEADS


def mpiexec() -> list[str] | None:
    """Return the command that starts ranks of the MPI that mpi4py is for; None where there is none."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    beside = Path(sys.executable).parent / "mpiexec"
    return [str(beside)] if beside.exists() else None


needs_mpi = pytest.mark.skipif(mpiexec() is None, reason="needs mpi4py and mpich")


def start(ranks_of_mpi: int, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    found = mpiexec()
    assert found is not None
    path = os.pathsep.join((str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")))
    return subprocess.run(
        [*found, "-n", str(ranks_of_mpi), sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


@needs_mpi
@pytest.mark.parametrize("cliques", ["1", "2"])
def test_an_mpi_on_one_host_and_on_what_looks_like_two(four: Path, cliques: str) -> None:
    calls = [["mixed_sequence", [20]], ["_different_count", []], ["_different_collective", []]]
    folder = four.parent / "plain"
    if not folder.exists():
        compile_text(FOUR, "four").save(folder)
    done = start(
        4, str(Path(__file__).parent / "mpi_main.py"), str(folder), json.dumps(calls), MPIR_CVAR_NUM_CLIQUES=cliques
    )
    assert done.returncode == 0, done.stderr
    (answers,) = [line for line in done.stdout.splitlines() if line.startswith("answers ")]  # UCX prints there, too
    mixed, *mistakes = json.loads(answers.removeprefix("answers "))
    assert mixed == [[]] * 4
    for found in mistakes:
        assert all("do not call the same" in text for text in found)


@needs_mpi
def test_run_and_bench_on_the_ranks_of_an_mpi(two: Path, tmp_path: Path) -> None:
    done = start(2, "-m", "acclc", "run", str(two), "--engine", "mpi", "--size", "4KiB", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"]
    assert {row["backend"] for row in told["rows"]} == {"mpi"}
    log = tmp_path / "log.json"
    done = start(
        2, "-m", "acclc", "bench", str(two), "--engine", "mpi", "-b", "1K", "-e", "1K", "-n", "2", "-J", str(log)
    )
    assert done.returncode == 0, done.stderr
    assert all(row["out_of_place"]["wrong"] == 0 for row in json.loads(log.read_text())["rows"])
    done = start(2, "-m", "acclc", "run", str(two), "--engine", "mpi", "--only", "nothing")
    assert done.returncode != 0
    assert done.stderr.count("no collective 'nothing'") == 1
