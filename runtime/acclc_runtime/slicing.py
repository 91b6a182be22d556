"""How many slices a call is cut into: a function of rank-uniform arguments only, so all ranks agree."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from acclc_runtime.partition import ALIGN, longest_piece

SLICE_BYTES = 64 * 1024
"""What a channel moves of one chunk in one slice, at most: enough to hide a signal, little enough for the cache."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """``slices`` a call; no piece of a chunk is longer than ``piece_elements``: the size of a scratch slot."""

    slices: int
    piece_elements: int


def plan_slices(
    count: int, item_bytes: int, longest_chunk: Fraction, channels: int, slice_bytes: int = SLICE_BYTES
) -> Slicing:
    """Return the slicing of a call on ``count`` elements of ``item_bytes`` each.

    ``longest_chunk`` is the largest weight of a chunk of the variant (a fraction of the count).
    """
    longest = min(count, -(-count * longest_chunk.numerator // longest_chunk.denominator) + ALIGN)
    slices = max(1, -(-longest * item_bytes // (slice_bytes * channels)))
    return Slicing(slices, longest_piece(longest, slices * channels))
