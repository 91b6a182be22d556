"""Tensors of torch as NumPy arrays of the same memory, and torch's names for types and operators."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from acclc_runtime.dtypes import of_torch

_CARRIED = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
"""Types that NumPy lacks, and what carries their bits."""

_OPERATORS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}


def array_of(tensor: Any) -> Any:
    """Return a contiguous CPU tensor as a flat array of the same memory; bf16 and fp8 as unsigned integers."""
    flat = tensor.detach().reshape(-1)
    carrier = _CARRIED.get(tensor.dtype)
    if carrier is None:
        return flat.numpy()
    array = flat.view(carrier).numpy()
    return array.view(f"u{array.itemsize}")


def type_name(dtype: Any, exact: bool = False) -> str | None:
    """Return acclc's name of a type where the array does not say it, or (``exact``) in any case.

    Raises:
        ArgumentError: a type that acclc does not know.
    """
    found = of_torch(dtype).name
    return found if exact or dtype in _CARRIED else None


def op_of(op: Any) -> str | None:
    """Return acclc's name of an operator; None for one that it does not have (bitwise ones, premultiplied sums)."""
    for known, name in _OPERATORS.items():
        if op == known:
            return name
    return None
