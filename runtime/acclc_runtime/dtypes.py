"""Element types: one name each for every library's type, what can be reduced, and bf16 in NumPy.

Reducible: f64 f32 f16 bf16 i64 i32 i8 u8. Every other item of 1, 2, 4 or 8 bytes can be moved, not reduced.
Names of nccl-tests (float, half, bfloat16, ...), NumPy and torch are understood as aliases.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acclc_runtime.errors import ArgumentError


class Kind(StrEnum):
    """What arithmetic a type has: floating point, signed or unsigned integers, or none (movement only)."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: its name in acclc, the size of an item in bytes, and its arithmetic."""

    name: str
    item_bytes: int
    kind: Kind

    @property
    def reducible(self) -> bool:
        """Whether reductions of this type exist; if not, it can only be moved."""
        return self.kind is not Kind.MOVED

    @property
    def storage(self) -> np.dtype[Any]:
        """The NumPy type that holds an item; for types that NumPy lacks, an unsigned integer of the same size."""
        return np.dtype(_STORAGE.get(self.name, f"u{self.item_bytes}"))


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("f64", 8, Kind.FLOAT),
        DType("f32", 4, Kind.FLOAT),
        DType("f16", 2, Kind.FLOAT),
        DType("bf16", 2, Kind.FLOAT),
        DType("i64", 8, Kind.SIGNED),
        DType("i32", 4, Kind.SIGNED),
        DType("i8", 1, Kind.SIGNED),
        DType("u8", 1, Kind.UNSIGNED),
        DType("f8e4m3", 1, Kind.MOVED),
        DType("f8e5m2", 1, Kind.MOVED),
        DType("bool", 1, Kind.MOVED),
        DType("i16", 2, Kind.MOVED),
        DType("u16", 2, Kind.MOVED),
        DType("u32", 4, Kind.MOVED),
        DType("u64", 8, Kind.MOVED),
        DType("c64", 8, Kind.MOVED),
        DType("raw1", 1, Kind.MOVED),
        DType("raw2", 2, Kind.MOVED),
        DType("raw4", 4, Kind.MOVED),
        DType("raw8", 8, Kind.MOVED),
    )
}
"""Every type by its name. ``rawN`` is any other item of N bytes (dates, small records)."""

REDUCIBLE: tuple[str, ...] = tuple(d.name for d in DTYPES.values() if d.reducible)
"""The names of the types that can be reduced."""

OPERATORS: tuple[str, ...] = ("sum", "prod", "min", "max", "avg")
"""Reduction operators; all exist for every reducible type."""

_STORAGE = {
    "f64": "f8",
    "f32": "f4",
    "f16": "f2",
    "i64": "i8",
    "i32": "i4",
    "i16": "i2",
    "i8": "i1",
    "c64": "c8",
    "bool": "?",
}

_ALIASES = {
    "double": "f64",
    "float64": "f64",
    "float": "f32",
    "float32": "f32",
    "half": "f16",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "long": "i64",
    "int32": "i32",
    "int": "i32",
    "int16": "i16",
    "short": "i16",
    "int8": "i8",
    "char": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "complex64": "c64",
    "float8_e4m3": "f8e4m3",
    "float8_e4m3fn": "f8e4m3",
    "fp8_e4m3": "f8e4m3",
    "f8e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "fp8_e5m2": "f8e5m2",
}


def named(name: str) -> DType:
    """Return the type of a name of acclc, nccl-tests, NumPy or torch.

    Raises:
        ArgumentError: no such type; the message lists the names.
    """
    text = name.removeprefix("torch.")
    found = DTYPES.get(_ALIASES.get(text, text))
    if found is None:
        raise ArgumentError(f"no element type {name!r}; there are {', '.join(DTYPES)} (and names like float, half)")
    return found


def of_numpy(dtype: np.dtype[Any]) -> DType:
    """Return the type of a NumPy type; also of ``ml_dtypes``, which registers bfloat16 and the float8 types.

    Raises:
        ArgumentError: Python objects, a foreign byte order, or an item that is not 1, 2, 4 or 8 bytes long.
    """
    return _kept(dtype) if isinstance(dtype, np.dtype) else _of_numpy(dtype)


@lru_cache(maxsize=256)
def _kept(dtype: np.dtype[Any]) -> DType:
    return _of_numpy(dtype)  # NumPy makes a type's name anew each time, which takes longer than all the rest


def _of_numpy(dtype: np.dtype[Any]) -> DType:
    if dtype.hasobject:
        raise ArgumentError("elements of type object cannot be moved: they are Python references")
    if not dtype.isnative:
        raise ArgumentError(f"elements of type {dtype.str} are in a foreign byte order; convert them with .astype")
    known = DTYPES.get(_ALIASES.get(dtype.name, dtype.name))
    if known is not None and known.item_bytes == dtype.itemsize:
        return known
    if dtype.itemsize not in (1, 2, 4, 8):
        raise ArgumentError(
            f"elements of type {dtype} are {dtype.itemsize} bytes long; items of 1, 2, 4 or 8 bytes can be moved: "
            "view them as one of these"
        )
    return DTYPES[f"raw{dtype.itemsize}"]


def of_torch(dtype: object) -> DType:
    """Return the type of a torch type, by its text (``torch.bfloat16``): torch itself is not needed.

    Raises:
        ArgumentError: a type that acclc does not know.
    """
    return named(str(dtype))


def explicit(name: str, found: DType) -> DType:
    """Return the type that the caller named for a buffer whose own type is ``found``.

    Bits in an unsigned integer or raw buffer can be named anything of their size (uint16 as "bf16").

    Raises:
        ArgumentError: another size, or a buffer that has a different type of its own.
    """
    wanted = named(name)
    carrier = found.kind is Kind.UNSIGNED or found.name in ("u16", "u32", "u64") or found.name.startswith("raw")
    if wanted != found and not (carrier and wanted.item_bytes == found.item_bytes):
        raise ArgumentError(
            f"dtype={name!r} does not fit elements of type {found.name}; only unsigned integers of the same size "
            "can be taken for another type"
        )
    return wanted


def bf16_to_f32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the values of bf16 bit patterns: exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bf16 bit patterns nearest to ``values``, ties to even; a NaN stays a (quiet) NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + (np.uint32(0x7FFF) + odd)) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x0040)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)
