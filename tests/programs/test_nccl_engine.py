"""The NCCL engine over a double that checks NCCL's rules, against the definitions; it has not run on a GPU."""

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_nccl import FakeNccl

import acclc_runtime as rt
from acclc import compile_text
from acclc_runtime.call_buffers import buffers_of
from acclc_runtime.dtypes import named
from acclc_runtime.engines.nccl.levels import levels_of
from acclc_runtime.engines.nccl.script import script_of
from acclc_runtime.engines.tasks import rank_tasks
from acclc_runtime.errors import ArgumentError, BackendUnavailableError, CommunicatorClosedError, JoinError
from acclc_runtime.memory.tables import artefact_digest
from acclc_runtime.program import Buffer, Extent, Operation, OperationKind, Program, ProgramBlock, RankProgram
from acclc_runtime.reference import check, random_counts, random_inputs

TEXTS = {
    "dgx1": "all_gather on dgx1 { chunks up to 2 } all_to_all on dgx1 { goal latency }\n"
    "all_reduce on dgx1 { goal latency }",
    "cube": "reduce_scatter on hypercube(3) { goal latency }",
    "four": "goal torch on full(4) { root g[2] }",
    "ring": "all_reduce on ring(5)",
    "turned": "all_reduce on ring(4) among g[3], g[2], g[1], g[0]",
    "halo": """collective halo on torus(3, 3) {
        for x in 0..<3, y in 0..<3 { chunk east[x, y] at g[x, y] need east[x, y] at g[(x + 1) % 3, y] }
        reduce total over g
        need total at g[0, 0], g[2, 2]
    } with { op sum, goal latency }""",
    "pairs": "send_recv on line(4) { pairs g[0] -> g[3], g[3] -> g[0], g[1] -> g[0] }",
}
KINDS = [("f32", "sum"), ("bf16", "avg"), ("f16", "max"), ("i8", "prod")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("nccl")
    return {name: compile_text(text, name).save(folder / name) for name, text in TEXTS.items()}


def join_all(folder: Path, fake: FakeNccl, place: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Join in threads, as the ranks wait for rank 0's file."""
    loaded = rt.load(folder)
    found: dict[int, Any] = {}

    def one(rank: int) -> None:
        found[rank] = loaded.join(f"file://{place}", "nccl", rank=rank, world=fake.world, join_timeout_s=20)

    for rank in reversed(range(fake.world)):  # rank 0 last, and it takes the file away
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        if rank:
            place.write_text(
                '{"digest": "' + artefact_digest(folder.resolve()) + '", "id": ' + str(list(range(128))) + "}"
            )
        else:
            place.unlink(missing_ok=True)
        thread = threading.Thread(target=one, args=(rank,))
        thread.start()
        thread.join(30)
    assert not place.exists()
    return [found[rank] for rank in range(fake.world)]


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_variant_is_right(
    name: str, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = rt.load(folders[name]).manifest
    world = sum(kind == "gpu" for kind in manifest.topologies[0].kinds)
    fake = FakeNccl(world)
    fake.install(monkeypatch)
    monkeypatch.setattr("acclc_runtime.engines.nccl.communicator.SLICE_BYTES", 1 << 10)
    comms = join_all(folders[name], fake, tmp_path / "id", monkeypatch)
    for c in manifest.collectives:
        kinds = KINDS if c.reduces else [("f32", None), ("u8", None)]
        for v, variant in enumerate(c.variants):
            for k, (dtype, op) in enumerate(kinds if v == 0 else kinds[:1]):
                if op == "avg" and c.contributors == 0:
                    op = "sum"
                for count, in_place in ((1, False), (1037, c.in_place != "none")) if k == 0 else ((3000 + k, False),):
                    counts = random_counts(c, "random", count, k) if c.varying else None
                    one_call(fake, comms, c, variant.id, dtype, op, count, in_place, counts)


def one_call(
    fake: FakeNccl, comms: list[Any], c: Any, variant: str, dtype: str, op: Any, count: int, in_place: bool, counts: Any
) -> None:
    """Queue a call on every rank, one after the other, then let all run."""
    inputs = random_inputs(c, count, dtype, 3, op=op, counts=counts)
    outs: list[Any] = []
    storage = named(dtype).storage
    for n, rank in enumerate(c.ranks):

        def make(length: int, rank: int = rank) -> Any:
            with fake.cuda.Device(rank):
                return fake.empty(length, storage)

        if counts is None:
            x, out = buffers_of(c, n, count, in_place, make)
        else:
            p = c.positions[n]
            x, out = make(sum(counts[p])), make(sum(row[p] for row in counts))
        if x is not None:
            x.content[:] = inputs[n]
        outs.append(None if out is None else out.content)
        sized = make(count) if x is None and out is None else x
        told = {} if counts is None else {"counts": counts}
        comms[rank].collective(c.name, sized, out, op, variant, dtype, **told)
    fake.run()
    found = check(c, inputs, outs, count, dtype, op, 1, counts)
    assert found.wrong == 0, f"{c.name} {variant} {dtype} {op} {count} {found.mismatches[0].words}"


def test_streams_of_torch_and_handles(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeNccl(4)
    fake.install(monkeypatch)
    comms = join_all(folders["four"], fake, tmp_path / "id", monkeypatch)
    arrays = [np.full(5, rank + 1, np.float32) for rank in range(4)]
    handles = []
    for rank, comm in enumerate(comms):
        x = fake.array(arrays[rank], rank)
        handles.append(comm.all_reduce(x, out=x, stream=SimpleNamespace(cuda_stream=7), async_op=True))
        assert not handles[-1].done()
        with fake.cuda.Device(rank):
            assert handles[-1].wait() is x
    fake.run()
    assert all(handle.done() for handle in handles)
    assert [array.tolist() for array in arrays] == [[10.0] * 5] * 4
    for rank, comm in enumerate(comms):  # by name, too
        name = next(c.name for c in comm.manifest.collectives if c.collective == "all_reduce")
        x = fake.array(arrays[rank], rank)
        assert comm.collective(name, x, x, stream=SimpleNamespace(cuda_stream=7)) is x
    fake.run()
    assert [array.tolist() for array in arrays] == [[40.0] * 5] * 4
    for comm in comms:
        comm.close()
        with pytest.raises(CommunicatorClosedError):
            comm.all_reduce(None)


def test_ranks_that_swap_in_place_send_copies() -> None:
    """Both read what both write: the messages would wait for each other, so at least one value is put aside first."""

    def rank(number: int) -> RankProgram:
        whole = Extent(Buffer.OUTPUT, 0, Fraction(0), Fraction(1))
        send = Operation(0, OperationKind.SEND, 0, (whole,), None, number, 1 - number, 0, 0)
        receive = Operation(1, OperationKind.RECEIVE, 0, (), whole, 1 - number, 1 - number, 0, 0)
        return RankProgram(number, 1, 1, 0, (ProgramBlock(-1, (send, receive)),))

    program = Program("swap", "none", (0, 1), 1, (rank(0), rank(1)))
    levels = levels_of(program, "swap")
    assert levels.staged
    assert {levels.message[r, 0] for r in (0, 1)} == {levels.message[r, 1] for r in (0, 1)}
    for r in (0, 1):
        script = script_of(rank_tasks(program, r, 100, None, 1, False, "swap"), levels)
        assert sum(len(turn.messages) for turn in script.rounds) == 2


def test_mistakes(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNccl(4)
    fake.install(monkeypatch)
    comms = join_all(folders["four"], fake, tmp_path / "id", monkeypatch)
    with pytest.raises(ArgumentError, match="needs arrays on a CUDA device"):
        comms[1].all_reduce(np.zeros(4, np.float32))
    with pytest.raises(ArgumentError, match="the rank runs on device 1"):
        comms[1].all_reduce(fake.array(np.zeros(4, np.float32), 2))
    with pytest.raises(ArgumentError, match="needs counts=, the whole matrix"):
        comms[1].all_to_all_v(fake.array(np.zeros(4, np.float32), 1), send_counts=[1, 1, 1, 1])
    with pytest.raises(ArgumentError, match="is no stream"):
        comms[1].all_reduce(fake.array(np.zeros(4, np.float32), 1), stream="mine")
    assert not any(fake.queues)

    def refuse() -> None:
        raise fake.nccl.NcclError("NCCL_ERROR_SYSTEM_ERROR")

    monkeypatch.setattr(fake.nccl, "groupStart", refuse)
    with pytest.raises(rt.AcclcRuntimeError, match=r"rank 1 in all_reduce: NCCL_ERROR_SYSTEM_ERROR"):
        comms[1].all_reduce(fake.array(np.zeros(4, np.float32), 1))
    with pytest.raises(CommunicatorClosedError):
        comms[1].all_reduce(fake.array(np.zeros(4, np.float32), 1))
    loaded = rt.load(folders["four"])
    taken = tmp_path / "taken"
    taken.write_text("")
    for rank, words in ((0, "is there already, from another job"), (1, "is no meeting place")):
        with pytest.raises(JoinError, match=words):
            loaded.join(f"file://{taken}", "nccl", rank=rank, world=4)
    with pytest.raises(JoinError, match=r"found no .* within 0 s"):
        loaded.join(f"file://{tmp_path}/none", "nccl", rank=1, world=4, join_timeout_s=0)
    with pytest.raises(JoinError, match="compiled for 4 ranks, but 3 join"):
        loaded.join(f"file://{tmp_path}/none", "nccl", rank=1, world=3)
    with pytest.raises(ArgumentError, match="meets by mpi, or by a file"):
        loaded.join("env://", "nccl", rank=1, world=4)
    fake.nccl.available = False
    with pytest.raises(BackendUnavailableError, match="needs NCCL, which this cupy does not find"):
        loaded.join(f"file://{tmp_path}/none", "nccl", rank=1, world=4)
