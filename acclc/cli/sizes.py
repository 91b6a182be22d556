"""Sizes on the command line: ``8``, ``64K``, ``1.5MiB`` (K, M, G are powers of 1024, as in nccl-tests)."""

from __future__ import annotations

import re
from fractions import Fraction

import click

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
        if match is None:
            self.fail(f"{value!r} is not a size; write for example 64, 64K or 1MiB", param, ctx)
        return int(Fraction(match[1]) * 1024 ** _POWERS[match[2].upper()])


SIZE = _Size()
"""A click type: bytes."""
PAGE_SIZES = (64 << 10, 64 << 20)
"""S for which a page has times, where nothing else is asked for."""
