"""Fused reductions in NumPy, bit for bit what the kernels compute.

Operands are reduced left to right. f32, f64 and integers are computed in their own type (integers wrap);
f16 and bf16 in f32, rounded to nearest even once at the end. The last reduction of a value divides for avg:
floats before that rounding, integers toward zero, after the sum has wrapped. min and max keep the later
operand on a tie (of zeros), and the first NaN. A single operand that is not divided is a copy of its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acclc_runtime.dtypes import DType, Kind, bf16_to_f32, f32_to_bf16
from acclc_runtime.errors import ArgumentError

Bytes = NDArray[np.uint8]
Values = NDArray[Any]


def reduce_bytes(operands: Sequence[Bytes], dtype: DType, op: str | None, divisor: int) -> Bytes:
    """Return the operands reduced left to right, then divided by ``divisor`` (1: not), as new bytes.

    Operands have equal lengths. ``op`` matters only with several of them.
    """
    if len(operands) == 1 and divisor == 1:
        return operands[0].copy()
    if op is None or not dtype.reducible:
        raise ArgumentError(f"the program reduces, but the call has op {op} and type {dtype.name}")
    with np.errstate(all="ignore"):
        total = _load(operands[0], dtype)
        for operand in operands[1:]:
            total = _combine(total, _load(operand, dtype), op)
        if divisor != 1:
            total = _divide(total, divisor, dtype)
        return _store(total, dtype)


BLOCK_BYTES = 64 << 10
"""Of several operands so much is reduced at a time, that the sum stays in a core's cache."""
_DIRECT = {"sum": np.add, "avg": np.add, "prod": np.multiply}


def reduce_into(target: Bytes, operands: Sequence[Bytes], dtype: DType, op: str | None, divisor: int) -> None:
    """Write what :func:`reduce_bytes` returns to ``target``, which may be one of the operands, or as long apart."""
    if len(operands) == 1 and divisor == 1:
        target[:] = operands[0]
        return
    function = _DIRECT.get(op or "") if dtype.name in ("f32", "f64") or (divisor == 1 and dtype.reducible) else None
    if function is None or dtype.name in ("f16", "bf16") or len(operands) < 2:
        target[:] = reduce_bytes(operands, dtype, op, divisor)
        return
    if any(np.may_share_memory(target, operand) for operand in operands[2:]):
        target[:] = reduce_bytes(operands, dtype, op, divisor)
        return
    whole = target.view(dtype.storage)
    first, second, *others = (operand.view(dtype.storage) for operand in operands)
    block = max(1, BLOCK_BYTES // dtype.item_bytes) if others else max(1, len(whole))
    with np.errstate(all="ignore"):
        for begin in range(0, len(whole), block):
            part = slice(begin, begin + block)
            total = whole[part]
            function(first[part], second[part], out=total)
            for operand in others:
                function(total, operand[part], out=total)
            if divisor != 1:
                np.divide(total, total.dtype.type(divisor), out=total)


def _load(operand: Bytes, dtype: DType) -> Values:
    values = operand.view(dtype.storage)
    if dtype.name == "bf16":
        return bf16_to_f32(values)
    wide: Values = values.astype(np.float32) if dtype.name == "f16" else values
    return wide


def _store(values: Values, dtype: DType) -> Bytes:
    if dtype.name == "bf16":
        values = f32_to_bf16(values)
    stored: Bytes = np.ascontiguousarray(values, dtype=dtype.storage).view(np.uint8)
    if dtype.name == "f16":
        stored.view(np.uint16)[np.isnan(values)] |= np.uint16(0x0200)  # every NaN is stored as a quiet one
    return stored


def _combine(left: Values, right: Values, op: str) -> Values:
    if op in ("sum", "avg"):
        total: Values = left + right
        return total
    if op == "prod":
        product: Values = left * right
        return product
    kept = left < right if op == "min" else left > right
    chosen: Values = np.where(kept | (left != left), left, right)
    return chosen


def _divide(values: Values, divisor: int, dtype: DType) -> Values:
    """Divide; integers toward zero. The divisor need not fit the type (200 contributions of i8)."""
    if dtype.kind is Kind.FLOAT:
        quotient: Values = values / values.dtype.type(divisor)
        return quotient
    wide = values.astype(np.int64)
    whole: Values = wide // divisor + ((wide < 0) & (wide % divisor != 0))
    return whole
