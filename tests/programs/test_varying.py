"""all_to_all_v: one schedule, and the counts go with the call."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cupy import FakeCupy
from test_kernels_cubin import NVCC, NVRTC, compile_and_check

import acclc_runtime
from acclc import Artefact, compile_text
from acclc.audit import audit
from acclc.ir.program import Buffer
from acclc.verify import check_kernel, check_program
from acclc_runtime import ArgumentError, LocalGroup
from acclc_runtime.backends.base import Call
from acclc_runtime.backends.cuda import CudaBackend
from acclc_runtime.counts import Lengths, lengths_of
from acclc_runtime.reference import PATTERNS, check, random_counts, random_inputs
from acclc_runtime.run import run_checks

MACHINES = {
    "dgx1": "all_to_all_v on dgx1 { goal bandwidth, within 10 s }",
    "dgx2": "all_to_all_v on dgx2 { goal bandwidth }",
    "ring": "all_to_all_v on ring(5) { goal pareto, within 3 s }",
    "part": "all_to_all_v on ring(6) among g[4], g[3], g[2] { goal latency }",
    "flows": "all_to_all_v on dgx1 { goal bandwidth, chunks up to 2 }",
    "channels": "all_to_all_v on line(3) { goal bandwidth, channels 2, blocks 3 }",
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, Artefact]:
    return {name: compile_text(text, name) for name, text in MACHINES.items()}


@pytest.fixture(scope="module")
def folders(compiled: dict[str, Artefact], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("varying")
    return {name: artefact.save(home / name) for name, artefact in compiled.items()}


@pytest.mark.parametrize("name", MACHINES)
def test_right_for_many_matrices(name: str, compiled: dict[str, Artefact], folders: dict[str, Path]) -> None:
    """Empty, even, with zeros, with one destination, with one huge block: on both backends, variant by variant."""
    assert not [row for row in audit(folders[name]) if not row.ok]
    for backend, options in (("numpy", {}), ("cpu", {"mode": "fibres", "slice_bytes": 256})):
        sizes = (1, 300, 70_000)
        rows = run_checks(folders[name], backend, sizes, ("u8", "f64"), iterations=1, options=options)
        assert {row.counts for row in rows} == set(PATTERNS)
        assert {row.variant for row in rows} == {v.id for v in compiled[name].collectives[0].variants}
        assert not [row for row in rows if not row.ok], [(r.counts, r.error) for r in rows if not r.ok][:3]


def test_flows_are_among_them(compiled: dict[str, Artefact]) -> None:
    """Pipelined paths, with relays whose chunks are fractions of a pair's count."""
    schedules = [v.schedule for v in compiled["flows"].collectives[0].variants]
    assert any(s.strategy == "flow" for s in schedules)
    assert any(c.weight < 1 for s in schedules for c in s.chunks)


@pytest.mark.parametrize("name", ["dgx1", "dgx2", "ring"])
def test_call_after_call(name: str, folders: dict[str, Path]) -> None:
    """Threads, and calls of very different sizes one after the other: nothing is derived from a call before."""
    artefact = acclc_runtime.load(folders[name])
    (collective,) = artefact.manifest.collectives
    with artefact.local("cpu", slice_bytes=4096) as group:
        for seed in range(24):
            counts = random_counts(collective, PATTERNS[seed % 4], 3 ** (seed % 11), seed)
            inputs = random_inputs(collective, 0, "i32", seed, counts=counts)
            outputs = group.all_to_all_v(inputs, np.asarray(counts))
            assert [len(x) for x in outputs] == np.asarray(counts).sum(axis=0).tolist()
            assert not check(collective, inputs, outputs, 0, "i32", counts=counts).wrong


def test_nothing_at_all(folders: dict[str, Path]) -> None:
    artefact = acclc_runtime.load(folders["ring"])
    with artefact.local("cpu") as group:
        zeros = [[0] * 5] * 5
        assert [len(x) for x in group.all_to_all_v([np.zeros(0, np.int16)] * 5, zeros)] == [0] * 5
        assert group.all_to_all_v([None] * 5, zeros) == [None] * 5


def test_rows_of_several_elements(folders: dict[str, Path]) -> None:
    """What is allocated has the inner dimensions of the input, as tokens of a mixture of experts need it."""
    artefact = acclc_runtime.load(folders["part"])
    tokens = np.asarray([[1, 0, 2], [3, 1, 0], [0, 2, 1]])
    xs = [np.full((n, 4), rank, np.float32) for rank, n in enumerate(tokens.sum(axis=1))]
    with artefact.local("numpy") as group:
        outs = artefact.functions["all_to_all_v"](group, xs, counts=tokens * 4)
    assert [x.shape for x in outs] == [(4, 4), (3, 4), (3, 4)]
    assert [x[:, 0].tolist() for x in outs] == [[0, 1, 1, 1], [1, 2, 2], [0, 0, 2]]


def _said(group: LocalGroup, xs: Any, **options: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        group.collective("all_to_all_v", xs, **options)
    return str(caught.value)


def test_what_does_not_fit_is_said(folders: dict[str, Path], tmp_path: Path) -> None:
    artefact = acclc_runtime.load(folders["part"])
    counts = [[1, 2, 0], [0, 0, 0], [4, 0, 1]]
    xs = [np.zeros(n, np.int32) for n in (3, 0, 5)]
    with artefact.local("numpy") as group:
        assert "needs counts=: a matrix of 3 rows of 3" in _said(group, xs)
        assert "a matrix of 3 rows of 3; got 2 rows" in _said(group, xs, counts=counts[:2])
        assert "row 1 of counts has one count for each of 3 ranks; got 2" in _said(
            group, xs, counts=[counts[0], [1, 2], counts[2]]
        )
        assert "row 2 of counts, entry 0 is -4; a count is a whole number from 0" in _said(
            group, xs, counts=[*counts[:2], [-4, 0, 1]]
        )
        assert "entry 1 is 0.5" in _said(group, xs, counts=[[1, 0.5, 0], *counts[1:]])
        assert "rank 2's input has 5 elements; row 2 of counts sums to 6" in _said(
            group, xs, counts=[*counts[:2], [4, 0, 2]]
        )
        outs = [np.zeros(n, np.int32) for n in (5, 2, 2)]
        said = _said(group, xs, counts=counts, outputs=outs)
        assert "rank 2's output has 2 elements; column 2 of counts sums to 1" in said
        assert "rank 4 needs an input of 3 elements, got None" in _said(group, [None, *xs[1:]], counts=counts)
        assert "rank 2's input is of type i16" in _said(group, [xs[0], None, xs[2].astype(np.int16)], counts=counts)
        assert "reduces nothing" in _said(group, xs, counts=counts, op="sum")
        shared = np.zeros(12, np.int32)
        outs = [shared[:5], shared[5:7], shared[6:7]]
        assert "share memory" in _said(group, xs, counts=counts, outputs=outs)
    folder = compile_text("all_to_all on line(2) { goal latency }", "even").save(tmp_path / "even")
    with acclc_runtime.load(folder).local("numpy") as group, pytest.raises(ArgumentError, match="leave counts= out"):
        group.collective("all_to_all", [np.zeros(2)] * 2, counts=[[1, 1], [1, 1]])


def test_a_wrong_label_is_refused(compiled: dict[str, Artefact]) -> None:
    """An extent that is counted by another shard than lies there moves another length: at every level, at any place."""
    (collective,) = compiled["ring"].collectives
    problem, variant = collective.problem, collective.variants[-1]
    tried = set()
    for n, rank in enumerate(variant.program.ranks[:2]):
        for b, block in enumerate(rank.blocks):
            for k, o in enumerate(block.operations):
                where = o.target or o.sources[0]
                wrong = replace(where, shard=(where.shard + 1) % len(problem.shards))
                changed = replace(o, target=wrong) if o.target else replace(o, sources=(wrong,))
                operations = (*block.operations[:k], changed, *block.operations[k + 1 :])
                blocks = (*rank.blocks[:b], replace(block, operations=operations), *rank.blocks[b + 1 :])
                ranks = list(variant.program.ranks)
                ranks[n] = replace(rank, blocks=blocks)
                program = replace(variant.program, ranks=tuple(ranks))
                assert not check_program(problem, variant.schedule, program).ok, o
                tried.add(where.buffer)
    assert tried == set(Buffer)
    for b, block in enumerate(variant.kernel.blocks[:6]):
        for k, i in enumerate(block.body):
            if i.target is None:
                continue
            for shard in (-1, (i.target.shard + 1) % len(problem.shards), len(problem.shards)):
                # all extents alike, so that only the meaning is wrong
                relabelled = replace(
                    i,
                    target=replace(i.target, shard=shard),
                    sources=tuple(replace(s, shard=shard) for s in i.sources),
                )
                body = (*block.body[:k], relabelled, *block.body[k + 1 :])
                blocks = (*variant.kernel.blocks[:b], replace(block, body=body), *variant.kernel.blocks[b + 1 :])
                kernel = replace(variant.kernel, blocks=blocks)
                assert not check_kernel(problem, variant.schedule, kernel).ok


def test_lengths_tile_the_buffers(compiled: dict[str, Artefact]) -> None:
    """Against prefix sums by NumPy: units lie one behind the other, rows by destination, columns by source."""
    collective = compiled["part"].manifest().collectives[0]
    counts = random_counts(collective, "random", 1000, 3)
    lengths: Lengths = lengths_of(collective, counts)
    matrix = np.asarray(counts)
    for index, position in enumerate(collective.positions):
        assert lengths.inputs[index] == (0, *np.cumsum(matrix[position]).tolist())
        assert lengths.outputs[index] == (0, *np.cumsum(matrix[:, position]).tolist())
    assert lengths.largest == matrix.max()
    assert lengths.size == matrix.sum(axis=1).max()


@pytest.mark.skipif(shutil.which("g++") is None, reason="the stand-in needs g++")
@pytest.mark.parametrize("layout", ["devices", "one"])
def test_the_cuda_backend_brings_the_table(
    layout: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeCupy(devices=3)
    monkeypatch.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    (collective,) = acclc_runtime.load(folders["part"]).manifest.collectives
    backend = CudaBackend(folders["part"], layout=layout, slice_bytes=512)
    devices = (0, 1, 2) if layout == "devices" else (0, 0, 0)
    for seed, pattern in enumerate(PATTERNS * 2):
        counts = random_counts(collective, pattern, 900, seed)
        inputs = random_inputs(collective, 0, "f32", seed, counts=counts)
        outputs = [np.zeros(sum(column), np.float32) for column in zip(*counts, strict=True)]
        sides = [
            [fake.array(x, d) for x, d in zip(side, devices, strict=True) if x is not None]
            for side in (inputs, outputs)
        ]
        call = Call(
            collective, collective.variants[0], max(map(max, counts)), "f32", None, *sides, False, 60.0,
            lengths_of(collective, counts),
        )  # fmt: skip
        backend.run(call)
        assert not check(collective, inputs, outputs, 0, "f32", counts=counts).wrong
    backend.close()
    assert fake.memory == {}


@pytest.mark.skipif(not (NVCC or NVRTC), reason="needs nvcc or the extra nvrtc")
def test_its_kernels_compile_for_gpus(compiled: dict[str, Artefact], tmp_path: Path) -> None:
    (variant, *_) = compiled["part"].collectives[0].variants
    compile_and_check(tmp_path, variant.source, "b4", "none", 90)
