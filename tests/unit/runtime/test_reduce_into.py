"""Reductions into memory that is there are bit for bit those that make new memory, blocks and aliases included."""

from __future__ import annotations

import numpy as np
import pytest

from acclc_runtime.backends import arithmetic
from acclc_runtime.dtypes import OPERATORS, REDUCIBLE, named


@pytest.mark.parametrize("dtype", REDUCIBLE)
@pytest.mark.parametrize("op", OPERATORS)
def test_as_reduce_bytes(dtype: str, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "BLOCK_BYTES", 64)
    kind = named(dtype)
    rng = np.random.default_rng(3)
    for number in (1, 2, 3, 5):
        for divisor in (1, number) if op == "avg" else (1,):
            operands = [rng.integers(0, 256, 37 * kind.item_bytes, np.uint8) for _ in range(number)]
            wanted = arithmetic.reduce_bytes(operands, kind, op, divisor)
            for place in (-1, *range(number)):  # -1: memory of its own; else that of an operand
                given = [operand.copy() for operand in operands]
                target = np.zeros_like(wanted) if place < 0 else given[place]
                arithmetic.reduce_into(target, given, kind, op, divisor)
                assert target.tobytes() == wanted.tobytes(), (number, divisor, place)
