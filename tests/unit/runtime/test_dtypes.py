from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc_runtime import dtypes
from acclc_runtime.errors import ArgumentError


def test_the_reducible_types_are_those_of_the_contract() -> None:
    assert dtypes.REDUCIBLE == ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8")
    assert dtypes.OPERATORS == ("sum", "prod", "min", "max", "avg")


@pytest.mark.parametrize("dtype", dtypes.DTYPES.values(), ids=lambda d: d.name)
def test_storage_has_the_size_of_the_item(dtype: dtypes.DType) -> None:
    assert dtype.storage.itemsize == dtype.item_bytes
    assert dtypes.named(dtype.name) is dtype


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("float", "f32"),
        ("half", "f16"),
        ("bfloat16", "bf16"),
        ("double", "f64"),
        ("int8", "i8"),
        ("int32", "i32"),
        ("int64", "i64"),
        ("uint8", "u8"),
        ("uint32", "u32"),
        ("torch.bfloat16", "bf16"),
        ("float8_e4m3fn", "f8e4m3"),
        ("torch.float8_e5m2", "f8e5m2"),
        ("float16", "f16"),
    ],
)
def test_names_of_other_projects_are_aliases(alias: str, name: str) -> None:
    assert dtypes.named(alias).name == name


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(ArgumentError, match=r"no element type 'f128'; there are f64, f32, f16, bf16, i64, i32, i8, u8"):
        dtypes.named("f128")


@pytest.mark.parametrize(
    ("numpy_name", "name"),
    [
        ("float64", "f64"),
        ("float32", "f32"),
        ("float16", "f16"),
        ("int64", "i64"),
        ("int32", "i32"),
        ("int16", "i16"),
        ("int8", "i8"),
        ("uint8", "u8"),
        ("uint16", "u16"),
        ("uint64", "u64"),
        ("bool", "bool"),
        ("complex64", "c64"),
        ("datetime64[ns]", "raw8"),
        ("V4", "raw4"),
        ("S1", "raw1"),
    ],
)
def test_of_numpy(numpy_name: str, name: str) -> None:
    assert dtypes.of_numpy(np.dtype(numpy_name)).name == name


def test_of_numpy_knows_the_types_that_ml_dtypes_registers() -> None:
    # ml_dtypes is not needed: its types are told by name and size.
    fake = SimpleNamespace(hasobject=False, isnative=True, name="bfloat16", itemsize=2)
    assert dtypes.of_numpy(fake).name == "bf16"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("numpy_name", "text"),
    [
        ("object", "elements of type object cannot be moved: they are Python references"),
        (">f4", "elements of type >f4 are in a foreign byte order; convert them with .astype"),
        ("complex128", "elements of type complex128 are 16 bytes long; items of 1, 2, 4 or 8 bytes can be moved"),
        ("S3", "3 bytes long"),
    ],
)
def test_of_numpy_refuses(numpy_name: str, text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        dtypes.of_numpy(np.dtype(numpy_name))
    assert text in str(caught.value)


def test_explicit_names_reinterpret_unsigned_integers_only() -> None:
    assert dtypes.explicit("bf16", dtypes.named("u16")).name == "bf16"
    assert dtypes.explicit("f8e4m3", dtypes.named("u8")).name == "f8e4m3"
    assert dtypes.explicit("float", dtypes.named("f32")).name == "f32"
    for name, found in (("bf16", "f16"), ("bf16", "u32"), ("i32", "f32")):
        with pytest.raises(ArgumentError, match=f"dtype='{name}' does not fit elements of type {found}"):
            dtypes.explicit(name, dtypes.named(found))


def test_every_bf16_survives_the_way_to_f32_and_back() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    back = dtypes.f32_to_bf16(dtypes.bf16_to_f32(bits))
    nan = np.isnan(dtypes.bf16_to_f32(bits))
    assert np.array_equal(bits[~nan], back[~nan])
    assert np.isnan(dtypes.bf16_to_f32(back[nan])).all()
    assert np.array_equal(back[nan], bits[nan] | 0x40)


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_nan=False))
def test_bf16_rounds_to_the_nearest_even(value: float) -> None:
    got = int(dtypes.f32_to_bf16(np.array([value], np.float32))[0])
    # By neighbours: the bf16 below and above in magnitude, compared exactly as f64.
    below = struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    if below & 0x7FFF == 0x7F80:
        assert got == below  # infinity
        return
    low, high = (float(dtypes.bf16_to_f32(np.array([b], np.uint16))[0]) for b in (below, below + 1))
    if np.isinf(high):
        high = float(np.copysign(2.0**128, value))
    gaps = abs(value - low), abs(high - value)
    expected = below if gaps[0] < gaps[1] or (gaps[0] == gaps[1] and below % 2 == 0) else below + 1
    assert got == expected
