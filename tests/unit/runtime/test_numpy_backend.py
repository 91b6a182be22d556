from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import Made, collective, direct_program, ring_all_reduce, write_artefact
from hypothesis import given, settings
from hypothesis import strategies as st

import acclc_runtime as rt
from acclc_runtime import dtypes
from acclc_runtime.backends.arithmetic import reduce_bytes
from acclc_runtime.errors import ArgumentError, DamagedFileError, DeadlockError
from acclc_runtime.program import Buffer, Extent, Program, ProgramBlock
from acclc_runtime.reference import check, random_inputs


def run_ring(n: int, count: int, dtype: str, op: str, path: Path, in_place: bool, general: bool) -> None:
    c = collective("all_reduce", range(n))
    artefact = write_artefact(path, [(c, [Made("ring", ring_all_reduce(c))])])
    inputs = random_inputs(c, count, dtype, 7, op=op, general=general)
    xs = [None if x is None else x.copy() for x in inputs]
    with rt.load(artefact).local("numpy") as g:
        outs = g.all_reduce(xs, op=op, outs=xs if in_place else None, dtype=dtype)
    assert check(c, inputs, outs, count, dtype, op).wrong == 0
    if in_place:
        assert all(a is b for a, b in zip(outs, xs, strict=True))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 7),
    st.integers(1, 200),
    st.sampled_from(dtypes.REDUCIBLE),
    st.sampled_from(dtypes.OPERATORS),
    st.booleans(),
    st.booleans(),
)
def test_the_ring_is_right(
    tmp_path_factory: pytest.TempPathFactory, n: int, count: int, dtype: str, op: str, in_place: bool, general: bool
) -> None:
    run_ring(n, count, dtype, op, tmp_path_factory.mktemp("ring") / "ring", in_place, general)


def test_results_are_the_same_bits_every_time(ring: Path) -> None:
    c = rt.load(ring).manifest.collectives[0]
    inputs = random_inputs(c, 1000, "bf16", 1, op="sum", general=True)
    results = []
    for _ in range(2):
        with rt.load(ring).local("numpy") as g:
            results.append([x.tobytes() for x in g.all_reduce(inputs, dtype="bf16", variant="ring")])
    assert results[0] == results[1]
    assert len(set(results[0])) == 1


# Arithmetic: against Python's numbers, one element at a time.

VALUES: dict[str, list[int]] = {
    "i8": [-128, -127, -3, -1, 0, 1, 2, 100, 127],
    "u8": [0, 1, 2, 100, 254, 255],
    "i32": [-(2**31), -5, 0, 7, 2**31 - 1],
    "i64": [-(2**63), -5, 0, 7, 2**63 - 1],
}


def wrapped(value: int, dtype: str) -> int:
    bits = 8 * dtypes.named(dtype).item_bytes
    value %= 1 << bits
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("op", dtypes.OPERATORS)
@pytest.mark.parametrize("divisor", [1, 3, 300])
def test_integers(dtype: str, op: str, divisor: int) -> None:
    kind = dtypes.named(dtype)
    pairs = [(a, b) for a in VALUES[dtype] for b in VALUES[dtype]]
    operands = [np.array(column, kind.storage).view(np.uint8) for column in zip(*pairs, strict=True)]
    got = reduce_bytes(operands, kind, op, divisor).view(kind.storage).tolist()
    combine: dict[str, Callable[[int, int], int]] = {
        "sum": int.__add__,
        "avg": int.__add__,
        "prod": int.__mul__,
        "min": min,
        "max": max,
    }
    wanted = [wrapped(combine[op](a, b), dtype) for a, b in pairs]
    assert got == [int(Fraction(v, divisor)) for v in wanted]


def test_sixteen_bit_floats_are_rounded_once() -> None:
    kind = dtypes.named("bf16")
    ones = dtypes.f32_to_bf16(np.array([256.0, 1.0, 1.0], np.float32))
    operands = [ones[i : i + 1].view(np.uint8) for i in range(3)]
    total = dtypes.bf16_to_f32(reduce_bytes(operands, kind, "sum", 1).view(np.uint16))
    assert total[0] == 258.0  # 256 + 1 is 256 in bf16: rounding in between would lose both
    half = [np.array([v], np.float16).view(np.uint8) for v in (2048.0, 1.0, 1.0)]
    assert reduce_bytes(half, dtypes.named("f16"), "sum", 1).view(np.float16)[0] == 2050.0
    third = reduce_bytes(half[1:], dtypes.named("f16"), "avg", 3).view(np.float16)[0]
    assert third == np.float16(np.float32(2) / np.float32(3))


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_min_and_max_propagate_nan_and_keep_the_later_zero(op: str, dtype: str) -> None:
    kind = dtypes.named(dtype)
    left = np.array([np.nan, 1, 0.0, -0.0], kind.storage).view(np.uint8)
    right = np.array([1, np.nan, -0.0, 0.0], kind.storage).view(np.uint8)
    got = reduce_bytes([left, right], kind, op, 1).view(kind.storage)
    assert np.isnan(got[:2]).all()
    assert np.signbit(got[2:]).tolist() == [True, False]


def test_a_copy_keeps_every_bit() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.uint8)
    for dtype in ("f16", "bf16"):
        copied = reduce_bytes([patterns], dtypes.named(dtype), "sum", 1)
        assert np.array_equal(copied, patterns)
        assert copied is not patterns


# Programs that cannot run.


def broken(tmp_path: Path, change: Callable[[Program], Program]) -> str:
    """Run the ring with a changed program; return the error's text without the file's name."""
    c = collective("all_reduce")
    path = write_artefact(tmp_path / "broken", [(c, [Made("ring", change(ring_all_reduce(c)))])])
    with rt.load(path).local("numpy") as g, pytest.raises((DamagedFileError, DeadlockError)) as caught:
        g.all_reduce([np.ones(96, np.float32) for _ in range(3)])
    head, _, text = str(caught.value).partition(": ")
    assert head.endswith("program.json")
    return text


def with_operation(program: Program, rank: int, number: int, **changes: Any) -> Program:
    """The program with fields of one operation changed."""
    ranks = list(program.ranks)
    blocks = tuple(
        ProgramBlock(b.link, tuple(replace(o, **changes) if o.id == number else o for o in b.operations))
        for b in ranks[rank].blocks
    )
    ranks[rank] = replace(ranks[rank], blocks=blocks)
    return replace(program, ranks=tuple(ranks))


def test_a_deadlock_is_named(tmp_path: Path) -> None:
    # Rank 1's first send waits for its own last receive.
    text = broken(tmp_path, lambda p: with_operation(p, 1, 0, after=(103,)))
    assert text.startswith("every block waits:\n")
    assert (
        "  rank 1, block 1, step 0: the send of transfer 1 to rank 2 (channel 0) waits for operation 103 of its rank"
        in text.splitlines()
    )
    assert (
        "  rank 2, block 2, step 0: the receive of transfer 1 from rank 1 (channel 0) waits until rank 1 has sent "
        "message 0 to rank 2" in text.splitlines()
    )
    assert len(text.splitlines()) == 1 + 8  # all blocks but the local one of rank 1, which has ended


def test_a_group_can_be_used_after_a_deadlock(tmp_path: Path) -> None:
    c = collective("all_reduce")
    stuck = with_operation(ring_all_reduce(c), 1, 0, after=(103,))
    path = write_artefact(
        tmp_path / "both", [(c, [Made("stuck", stuck, 0, 64), Made("ring", ring_all_reduce(c), 64, None)])]
    )
    with rt.load(path).local("numpy") as g:
        xs = [np.ones(96, np.float32) for _ in range(3)]
        with pytest.raises(DeadlockError):
            g.all_reduce(xs, variant="stuck")
        assert (g.all_reduce(xs)[0] == 3).all()


def test_messages_out_of_order_wait_for_their_turn(tmp_path: Path) -> None:
    text = broken(tmp_path, lambda p: with_operation(with_operation(p, 0, 0, fifo=1), 0, 1, fifo=0))
    assert (
        "rank 0, block 1, step 0: the send of transfer 0 to rank 1 (channel 0) waits until rank 0 has sent message 0"
        in text
    )


@pytest.mark.parametrize(
    ("number", "changes", "text"),
    [
        (
            100,
            {"transfer": 9},
            "rank 0, step 0: the receive of transfer 9 from rank 2 (channel 0): message 0 of rank 2 is transfer 2",
        ),
        (
            100,
            {"target": Extent(Buffer.SCRATCH, 0, Fraction(0), Fraction(1))},
            "rank 0, step 0: the receive of transfer 2 from rank 2 (channel 0): "
            "its target is not as long as what is written",
        ),
        (
            1,
            {"after": ()},
            "rank 0, step 1: the send of transfer 3 to rank 1 (channel 0): slot 0 does not hold what it reads",
        ),
        (
            0,
            {
                "sources": (
                    Extent(Buffer.INPUT, 0, Fraction(0), Fraction(1, 3)),
                    Extent(Buffer.INPUT, 0, Fraction(0), Fraction(1)),
                )
            },
            "rank 0, step 0: the send of transfer 0 to rank 1 (channel 0): its sources have different lengths",
        ),
        (0, {"sources": ()}, "rank 0, operation 0: a send with 0 sources"),
        (
            0,
            {"target": Extent(Buffer.OUTPUT, 0, Fraction(0), Fraction(1))},
            "rank 0, operation 0: a send with a target",
        ),
        (200, {"target": None}, "rank 0, operation 200: a compute without a target"),
        (
            200,
            {"target": Extent(Buffer.INPUT, 0, Fraction(0), Fraction(1, 3))},
            "rank 0, operation 200: writes into the input",
        ),
        (0, {"peer": 3}, "rank 0, operation 0: no peer 3 in the group"),
        (0, {"peer": 0}, "rank 0, operation 0: no peer 0 in the group"),
        (0, {"after": (77,)}, "rank 0, operation 0: waits for operation 77, which does not exist"),
        (0, {"id": 1}, "rank 0: several operations have the same id"),
        (
            0,
            {"sources": (Extent(Buffer.INPUT, 1, Fraction(0), Fraction(1)),)},
            "rank 0, operation 0: in unit 1, [0, 1) is out of range",
        ),
        (
            0,
            {"sources": (Extent(Buffer.INPUT, 0, Fraction(1, 2), Fraction(3, 2)),)},
            "rank 0, operation 0: in unit 0, [1/2, 3/2) is out of range",
        ),
        (
            100,
            {"target": Extent(Buffer.SCRATCH, 2, Fraction(0), Fraction(1))},
            "rank 0, operation 100: scratch unit 2, [0, 1) is out of range",
        ),
    ],
)
def test_damaged_programs_are_refused(tmp_path: Path, number: int, changes: dict[str, Any], text: str) -> None:
    assert broken(tmp_path, lambda p: with_operation(p, 0, number, **changes)) == text


def test_a_program_of_another_collective_is_refused(tmp_path: Path) -> None:
    text = broken(tmp_path, lambda p: direct_program(collective("all_reduce", (0, 1, 5))))
    assert text == "its ranks are (0, 1, 5), the manifest's are (0, 1, 2)"


def test_a_missing_or_broken_program_file(ring: Path) -> None:
    xs = [np.ones(4, np.float32) for _ in range(3)]
    with rt.load(ring).local("numpy") as g:
        file = ring / "all_reduce" / "direct" / "program.json"
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        with pytest.raises(DamagedFileError, match=r"program\.json: not valid JSON"):
            g.all_reduce(xs)
        file.write_bytes(content.replace(b'"send"', b'"steal"'))
        with pytest.raises(DamagedFileError, match=r"Invalid enum value 'steal'"):
            g.all_reduce(xs)
        file.unlink()
        with pytest.raises(DamagedFileError, match=r"is missing: the numpy backend executes it; compile the artefact"):
            g.all_reduce(xs)
        file.write_bytes(content)
        assert (g.all_reduce(xs)[1] == 3).all()


def test_it_takes_no_options(ring: Path) -> None:
    with pytest.raises(ArgumentError, match="the numpy backend takes no options; it was given threads"):
        rt.load(ring).local("numpy", threads=2)


def test_a_receive_before_its_send_and_blocks_in_any_order(tmp_path: Path) -> None:
    """The result does not depend on the order in which blocks are listed."""
    c = collective("all_reduce")
    program = ring_all_reduce(c)
    shuffled = replace(program, ranks=tuple(replace(r, blocks=r.blocks[::-1]) for r in program.ranks))
    path = write_artefact(tmp_path / "orders", [(c, [Made("a", program), Made("b", shuffled, None, None)])])
    inputs = random_inputs(c, 77, "f32", 3, op="sum", general=True)
    with rt.load(path).local("numpy") as g:
        one = g.all_reduce(inputs, variant="a")
        other = g.all_reduce(inputs, variant="b")
    assert [x.tobytes() for x in one] == [x.tobytes() for x in other]
