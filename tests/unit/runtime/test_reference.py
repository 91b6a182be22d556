"""The reference against definitions written out a second time, element by element, in Python's own numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from handmade import collective, custom
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc_runtime import dtypes
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestShard
from acclc_runtime.reference import check, definition, expected, random_inputs, tolerance

RANKS = (4, 1, 7)
ROOT = 1


def by_hand(kind: str, xs: list[Any], count: int, reduce: Any) -> list[Any]:
    """The collective on lists, in group order; the root is group rank 1."""
    n = len(xs)
    columns = [reduce([x[i] for x in xs]) for i in range(len(xs[0]))] if xs[0] is not None else []
    return {
        "all_gather": lambda: [[v for x in xs for v in x]] * n,
        "reduce_scatter": lambda: [columns[i * count : (i + 1) * count] for i in range(n)],
        "all_reduce": lambda: [columns] * n,
        "broadcast": lambda: [xs[1]] * n,
        "reduce": lambda: [None, columns, None],
        "gather": lambda: [None, [v for x in xs for v in x], None],
        "scatter": lambda: [xs[1][i * count : (i + 1) * count] for i in range(n)],
        "all_to_all": lambda: [[v for x in xs for v in x[j * count : (j + 1) * count]] for j in range(n)],
        "send_recv": lambda: [xs[-1], *xs[:-1]],
    }[kind]()


def wrap(value: int, dtype: str) -> int:
    bits = 8 * dtypes.named(dtype).item_bytes
    value %= 1 << bits
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


def reduce_integers(op: str, dtype: str) -> Any:
    def reduce(values: list[int]) -> int:
        values = [int(v) for v in values]
        if op == "min":
            return min(values)
        if op == "max":
            return max(values)
        total = 1 if op == "prod" else 0
        for v in values:
            total = total * v if op == "prod" else total + v
        total = wrap(total, dtype)
        return int(Fraction(total, len(values))) if op == "avg" else total  # int() rounds toward zero

    return reduce


@pytest.mark.parametrize(
    "kind",
    [
        "all_gather",
        "reduce_scatter",
        "all_reduce",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "all_to_all",
        "send_recv",
    ],
)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
def test_integers_are_exact(kind: str, dtype: str) -> None:
    c = collective(kind, RANKS, ROOT)
    for op in dtypes.OPERATORS if c.reduces else (None,):
        inputs = random_inputs(c, 40, dtype, 3, op=op)
        xs = [None if x is None else x.tolist() for x in inputs]
        wanted = by_hand(kind, xs, 40, reduce_integers(op or "sum", dtype))
        outputs = expected(c, inputs, 40, dtype, op)
        assert [None if y is None else y.tolist() for y in outputs] == wanted
        assert check(c, inputs, outputs, 40, dtype, op).wrong == 0


def test_avg_of_integers_wraps_first_and_rounds_toward_zero() -> None:
    c = collective("all_reduce", range(8))
    inputs: list[Any] = [np.array([100, -3 if r < 3 else 0, -1], np.int8) for r in range(8)]
    # 800 wraps to 32; -9 / 8 is -1; -8 / 8 is -1.
    assert expected(c, inputs, 3, "i8", "avg")[0].tolist() == [4, -1, -1]  # type: ignore[union-attr]
    low = np.iinfo(np.int64).min
    extreme: list[Any] = [np.array([low], np.int64), np.array([0], np.int64)]
    assert expected(collective("all_reduce", range(2)), extreme, 1, "i64", "avg")[0].tolist() == [low // 2]  # type: ignore[union-attr]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["f64", "f32", "f16", "bf16"]),
    st.sampled_from(["sum", "prod", "min", "max", "avg"]),
    st.integers(2, 9),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_any_order_of_reduction_passes_and_a_larger_error_does_not(
    dtype: str, op: str, n: int, seed: int, general: bool
) -> None:
    c = collective("all_reduce", range(n))
    count = 50
    inputs = random_inputs(c, count, dtype, seed, op=op, general=general)
    kind = dtypes.named(dtype)
    wide = [dtypes.bf16_to_f32(x) if dtype == "bf16" else x for x in inputs if x is not None]  # type: ignore[arg-type]
    order = np.random.default_rng(seed).permutation(n)
    work = np.float32 if kind.item_bytes == 2 else kind.storage
    total = wide[order[0]].astype(work)
    for index, rank in enumerate(order[1:]):
        right = wide[rank].astype(work)
        total = {
            "sum": lambda a, b: a + b,
            "avg": lambda a, b: a + b,
            "prod": lambda a, b: a * b,
            "min": np.minimum,
            "max": np.maximum,
        }[op](total, right)
        if kind.item_bytes == 2 and (index + seed) % 2 == 0 and index < n - 2:  # a hop: rounded to 16 bits on the way
            total = rounded(total, dtype).astype(np.float32)
    if op == "avg":
        total = total / work(n) if kind.item_bytes == 2 else (total / n).astype(work)
    result = stored(total, dtype)
    comparison = check(c, inputs, [result] * n, count, dtype, op)
    assert comparison.wrong == 0, comparison.mismatches
    if not general and op in ("sum", "prod"):
        assert np.array_equal(rounded(total, dtype).astype(np.float64), expected(c, inputs, count, dtype, op)[0])
    # One contribution left out is seen (where it matters).
    if op == "sum":
        missing = stored((total - wide[order[-1]].astype(work)).astype(work), dtype)
        significant = (
            np.abs(wide[order[-1]].astype(np.float64))
            > 2 * tolerance(dtype, op, n) * sum(np.abs(w.astype(np.float64)) for w in wide) + 1e-6
        )
        assert check(c, inputs, [missing] * n, count, dtype, op).wrong >= n * int(significant.sum())


def stored(values: Any, dtype: str) -> Any:
    return dtypes.f32_to_bf16(values) if dtype == "bf16" else values.astype(dtypes.named(dtype).storage)


def rounded(values: Any, dtype: str) -> Any:
    bits = stored(values, dtype)
    return dtypes.bf16_to_f32(bits) if dtype == "bf16" else bits


def test_nan_and_infinity() -> None:
    c = collective("all_reduce", range(2))
    inputs: list[Any] = [np.array([np.nan, 1, 60000], np.float16), np.array([1, np.nan, 60000], np.float16)]
    for op in ("min", "max", "sum"):
        assert np.isnan(expected(c, inputs, 3, "f16", op)[0][:2]).all()  # type: ignore[index]
    good = np.array([np.nan, np.nan, np.inf], np.float16)
    assert check(c, inputs, [good, good], 3, "f16", "sum").wrong == 0
    bad = np.array([1, np.nan, -np.inf], np.float16)
    found = check(c, inputs, [good, bad], 3, "f16", "sum")
    assert [(m.rank, m.element) for m in found.mismatches] == [(1, 0), (1, 2)]


def test_mismatches_name_rank_element_and_values() -> None:
    c = collective("all_gather", RANKS)
    inputs = random_inputs(c, 5, "i32", 1)
    outputs = expected(c, inputs, 5, "i32")
    assert outputs[2] is not None
    right = int(outputs[2][8])
    outputs[2][8] ^= 1
    found = check(c, inputs, outputs, 5, "i32")
    assert found.wrong == 1
    assert (found.mismatches[0].rank, found.mismatches[0].element) == (7, 8)
    assert (found.mismatches[0].expected, found.mismatches[0].got) == (right, right ^ 1)
    outputs[2][:] ^= 1
    limited = check(c, inputs, outputs, 5, "i32", limit=4)
    assert limited.wrong == 14
    assert len(limited.mismatches) == 4


def test_ranks_must_have_the_same_bits() -> None:
    c = collective("all_reduce", range(3))
    inputs = random_inputs(c, 100, "f32", 1, op="sum", general=True)
    value = expected(c, inputs, 100, "f32", "sum")[0].astype(np.float32)  # type: ignore[union-attr]
    other = np.nextafter(value, np.float32(np.inf), dtype=np.float32)
    assert check(c, inputs, [value, value, value], 100, "f32", "sum").wrong == 0
    assert check(c, inputs, [value, other, value], 100, "f32", "sum").wrong == 100


def test_moved_floats_are_compared_by_bits() -> None:
    c = collective("broadcast", range(2))
    inputs: list[Any] = [np.array([np.nan, -0.0], np.float32), None]
    assert check(c, inputs, [inputs[0].copy(), inputs[0].copy()], 2, "f32").wrong == 0
    assert check(c, inputs, [inputs[0].copy(), np.array([np.nan, 0.0], np.float32)], 2, "f32").wrong == 1


@pytest.mark.parametrize(
    "kind",
    ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "gather", "scatter", "all_to_all"],
)
def test_names_and_shards_say_the_same(kind: str) -> None:
    """The definition by name equals the one by shards, which only custom collectives use."""
    c = collective(kind, RANKS, ROOT)
    as_custom = custom("same", c.shards, RANKS)
    assert sorted(definition(c), key=str) == sorted(definition(as_custom), key=str)


def test_the_order_of_the_group_counts_not_that_of_the_list() -> None:
    from dataclasses import replace

    c = replace(collective("all_gather", RANKS), positions=(2, 0, 1))
    inputs: list[Any] = [np.array([v], np.int32) for v in (10, 20, 30)]
    assert [x.tolist() for x in expected(c, inputs, 1, "i32") if x is not None] == [[20, 30, 10]] * 3


def test_inputs_that_hold_the_same_data_are_equal() -> None:
    c = custom(
        "twice",
        (ManifestShard(((0, 0), (1, 1)), ((2, 0),), False), ManifestShard(((1, 0),), ((0, 0),), False)),
        range(3),
    )
    inputs = random_inputs(c, 16, "raw4", 5)
    assert inputs[2] is None
    assert np.array_equal(inputs[0], inputs[1][16:])  # type: ignore[arg-type, index]
    assert not np.array_equal(inputs[0], inputs[1][:16])  # type: ignore[arg-type, index]
    again = random_inputs(c, 16, "raw4", 5)
    assert all(a is b is None or np.array_equal(a, b) for a, b in zip(inputs, again, strict=True))  # type: ignore[arg-type]
    other = random_inputs(c, 16, "raw4", 6)
    assert not np.array_equal(inputs[0], other[0])  # type: ignore[arg-type]


def test_tolerance() -> None:
    assert tolerance("i32", "sum", 8) == tolerance("f32", "max", 8) == tolerance("f8e4m3", None, 1) == 0.0
    assert 8 * 2.0**-24 < tolerance("f32", "sum", 8) < 10 * 2.0**-24
    assert tolerance("f32", "sum", 16) > tolerance("f32", "sum", 8)
    assert tolerance("bf16", "avg", 500) == 1.0


def test_a_reduction_needs_an_operator_and_a_type() -> None:
    c = collective("all_reduce", range(2))
    inputs: list[Any] = [np.zeros(1, np.uint32)] * 2
    with pytest.raises(ArgumentError, match="a reduction needs an operator and a type that can be reduced"):
        expected(c, inputs, 1, "u32", "sum")
