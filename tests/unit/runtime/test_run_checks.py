from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from handmade import Made, collective, custom, direct_program, ring_all_reduce, write_artefact

import acclc_runtime as rt
from acclc_runtime.backends.base import Call
from acclc_runtime.backends.numpy import NumpyBackend
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestShard, manifest_bytes, program_bytes, read_program
from acclc_runtime.program import Buffer, Extent, Program, ProgramBlock
from acclc_runtime.run import RunRow, run_checks


def test_everything_is_right(everything: Path) -> None:
    rows = run_checks(everything, "numpy", sizes=(1, 1000), dtypes=("f32", "bf16", "i8", "f8e4m3"), ops=("sum", "avg"))
    assert [r for r in rows if not r.ok] == []
    assert len({r.collective for r in rows}) == 9
    assert {r.variant for r in rows} == {"direct"}
    # Three that reduce: 3 types x 2 operators; six that move: 4 types. Times 2 sizes, name and size, places.
    places = {"all_to_all": 1, "send_recv": 1}
    expected = sum(
        (6 if r in ("all_reduce", "reduce", "reduce_scatter") else 4) * 2 * 2 * places.get(r, 2)
        for r in {r.collective for r in rows}
    )
    assert len(rows) == expected


def test_rows_say_what_ran(ring: Path) -> None:
    rows = run_checks(ring, "numpy", sizes=(10, 4000), iterations=2)
    assert [(r.variant, r.chosen, r.bytes, r.count, r.in_place) for r in rows] == [
        (variant, chosen, size, size // 4, place)
        for size, by_size in ((12, "direct"), (4000, "ring"))
        for variant, chosen in (("direct", "name"), ("ring", "name"), (by_size, "size"))
        for place in (False, True)
    ]
    row = rows[0]
    assert (row.collective, row.dtype, row.op, row.wrong, row.error, row.ok) == (
        "all_reduce",
        "f32",
        "sum",
        0,
        "",
        True,
    )
    assert row.backend == "numpy"
    assert row.seconds > 0
    assert row.algbw_GBps == pytest.approx(12 / row.seconds / 1e9)
    plain = json.loads(json.dumps(row.to_dict()))
    assert plain["ok"] is True
    assert plain["in_place"] is False
    assert set(plain) == {*RunRow.__dataclass_fields__, "ok"}


def test_size_zero_and_one_variant_only(ring: Path) -> None:
    rows = run_checks(ring, "numpy", sizes=(0,), only="all_reduce/ring", in_place=(False,))
    assert [(r.variant, r.count, r.bytes, r.ok) for r in rows] == [("ring", 0, 0, True)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"only": "halo"}, "no collective 'halo'; there are all_reduce"),
        ({"only": "all_reduce/c1"}, "all_reduce has no variant 'c1'; it has: direct, ring"),
        ({"dtypes": ("f128",)}, "no element type 'f128'"),
        ({"ops": ("xor",)}, "no operator 'xor'"),
        ({"dtypes": ("u32",)}, "nothing to run: no collective of the artefact takes these types and operators"),
        ({"backend": "tpu"}, "no backend 'tpu'"),
        ({"backend": "numpy", "options": {"mode": "fibres"}}, "the numpy backend takes no options; it was given mode"),
    ],
)
def test_what_is_asked_wrongly(ring: Path, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        run_checks(ring, **{"backend": "numpy", **arguments})
    assert text in str(caught.value)


def test_what_is_not_emitted_is_left_out(ring: Path) -> None:
    manifest = replace(rt.load(ring).manifest, types=("half",), ops=("max",))
    (ring / "manifest.json").write_bytes(manifest_bytes(manifest))
    rows = run_checks(ring, "numpy", sizes=(100,), dtypes=("f32", "f16"), ops=("sum", "max"))
    assert {(r.dtype, r.op, r.ok) for r in rows} == {("f16", "max", True)}


# Faults must be seen. Each changes the ring's program so that it still runs.


def change_operation(rank: int, number: int, **changes: Any) -> Callable[[Program], Program]:
    def change(program: Program) -> Program:
        ranks = list(program.ranks)
        ranks[rank] = replace(
            ranks[rank],
            blocks=tuple(
                ProgramBlock(b.link, tuple(replace(o, **changes) if o.id == number else o for o in b.operations))
                for b in ranks[rank].blocks
            ),
        )
        return replace(program, ranks=tuple(ranks))

    return change


def without_output(program: Program) -> Program:
    """Rank 2 no longer stores its last chunk: it lands in scratch."""
    return change_operation(2, 103, target=Extent(Buffer.SCRATCH, 1, Fraction(1, 3), Fraction(2, 3)))(program)


def part(buffer: Buffer, unit: int, k: int) -> Extent:
    return Extent(buffer, unit, Fraction(k, 3), Fraction(k + 1, 3))


@pytest.mark.parametrize(
    ("change", "ops", "general"),
    [
        # The contribution of rank 0 is left out of chunk 1.
        (change_operation(0, 200, sources=(part(Buffer.SCRATCH, 1, 1),)), ("sum",), False),
        # Reduced twice.
        (
            change_operation(0, 200, sources=(part(Buffer.SCRATCH, 1, 1), *(part(Buffer.INPUT, 0, 1),) * 2)),
            ("sum",),
            False,
        ),
        # Of another place.
        (
            change_operation(0, 200, sources=(part(Buffer.SCRATCH, 1, 1), part(Buffer.INPUT, 0, 0))),
            ("sum", "max"),
            True,
        ),
        # avg never divides.
        (change_operation(1, 200, final=False), ("avg",), False),
        # Never stored.
        (without_output, ("sum",), False),
    ],
)
def test_faults_are_seen(
    tmp_path: Path, change: Callable[[Program], Program], ops: tuple[str, ...], general: bool
) -> None:
    c = collective("all_reduce")
    for name, program, ok in (("right", ring_all_reduce(c), True), ("wrong", change(ring_all_reduce(c)), False)):
        path = write_artefact(tmp_path / name, [(c, [Made("ring", program)])])
        rows = run_checks(path, "numpy", sizes=(400,), dtypes=("f32", "i32"), ops=ops, general=general)
        assert [r.ok for r in rows] == [ok] * len(rows), rows
        if not ok:
            assert all(r.wrong > 0 for r in rows)
            assert all(r.error.startswith("rank ") and "expected" in r.error for r in rows)
            assert all(r.algbw_GBps == 0 for r in rows)


def test_results_of_different_trees_on_different_ranks_are_seen(tmp_path: Path) -> None:
    """Every rank's sum is right within rounding, but one adds in another order."""
    c = collective("all_reduce", range(4))

    def reversed_on_rank_2(program: Program) -> Program:
        ranks = list(program.ranks)
        local = ranks[2].blocks[0]
        operations = tuple(replace(o, sources=o.sources[::-1]) for o in local.operations)
        ranks[2] = replace(ranks[2], blocks=(replace(local, operations=operations), *ranks[2].blocks[1:]))
        return replace(program, ranks=tuple(ranks))

    for name, program in (("same", direct_program(c)), ("other", reversed_on_rank_2(direct_program(c)))):
        path = write_artefact(tmp_path / name, [(c, [Made("direct", program)])])
        rows = run_checks(path, "numpy", sizes=(4000,), general=True, in_place=(False,))
        assert all(r.ok for r in rows) == (name == "same")
        exact = run_checks(path, "numpy", sizes=(4000,), dtypes=("i32",), in_place=(False,))
        assert all(r.ok for r in exact)


def test_an_input_that_is_written_to_is_seen(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = NumpyBackend.run

    def careless(self: NumpyBackend, call: Call) -> None:
        run(self, call)
        call.inputs[1][3] ^= 1

    monkeypatch.setattr(NumpyBackend, "run", careless)
    rows = run_checks(ring, "numpy", sizes=(400,), in_place=(False,))
    assert {r.error for r in rows} == {"rank 1's input was written to"}


def test_an_error_of_one_run_is_a_row(ring: Path) -> None:
    (ring / "all_reduce" / "ring" / "program.json").write_text("{")
    rows = run_checks(ring, "numpy", sizes=(4000,), in_place=(False,))
    assert [(r.variant, r.chosen, r.ok) for r in rows] == [
        ("direct", "name", True),
        ("ring", "name", False),
        ("ring", "size", False),
    ]
    assert "not valid JSON" in rows[1].error


def test_the_last_of_several_calls_is_checked_too(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Call] = []

    def only_twice(self: NumpyBackend, call: Call) -> None:
        calls.append(call)
        if len(calls) <= 2:
            original(self, call)

    original = NumpyBackend.run
    monkeypatch.setattr(NumpyBackend, "run", only_twice)
    rows = run_checks(ring, "numpy", sizes=(400,), only="all_reduce/ring", in_place=(False,), iterations=3)
    assert len(calls) == 4
    assert rows[0].wrong == 300
    calls.clear()
    unchecked = run_checks(ring, "numpy", sizes=(400,), only="all_reduce/ring", iterations=3, check=False)
    assert all(r.ok for r in unchecked)


def test_a_copied_chunk_of_a_broadcast_in_place(tmp_path: Path) -> None:
    """A collective whose root has nothing to do but send: its output is its input."""
    c = collective("broadcast", range(3), 1)
    path = write_artefact(tmp_path / "b", [(c, [Made("direct", direct_program(c, 3))])])
    program = read_program(path, rt.load(path).manifest.collectives[0].variants[0])
    assert program_bytes(program) == (path / "broadcast" / "direct" / "program.json").read_bytes()
    assert all(r.ok for r in run_checks(path, "numpy", sizes=(0, 1, 50, 3000), dtypes=("u8", "c64", "raw2", "bool")))


def test_a_program_that_does_nothing(tmp_path: Path) -> None:
    """An output that nobody writes keeps the poison, so even equal data is seen to be missing."""
    c = collective("all_gather", range(2))
    idle = direct_program(c)
    idle = replace(idle, ranks=tuple(replace(r, blocks=()) for r in idle.ranks))
    path = write_artefact(tmp_path / "idle", [(c, [Made("idle", idle)])])
    rows = run_checks(path, "numpy", sizes=(80,), dtypes=("u8",))
    assert all(not r.ok for r in rows)


def test_custom_collectives_are_checked_by_their_shards(tmp_path: Path) -> None:
    shards = (ManifestShard(((0, 0), (1, 0)), ((2, 1),), True), ManifestShard(((2, 0),), ((0, 0), (2, 0)), False))
    c = custom("mixed", shards, range(3))
    path = write_artefact(tmp_path / "mixed", [(c, [Made("direct", direct_program(c, 2))])])
    assert all(r.ok for r in run_checks(path, "numpy", sizes=(1, 999), dtypes=("f16", "i64"), ops=("prod", "avg")))
