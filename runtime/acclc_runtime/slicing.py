"""How many slices a call is cut into: a function of rank-uniform arguments only, so all ranks agree."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from acclc_runtime.manifest import ManifestVariant
from acclc_runtime.partition import ALIGN, longest_piece

SLICE_BYTES = 64 * 1024
"""What a channel moves of one chunk in one slice, at most: enough to hide a signal, little enough for the cache."""

EAGER_SLICE_BYTES = 16 * 1024
"""The same where scratch belongs to one variant alone: it is chosen for calls of one slice, as a rule."""

SLOT_ALIGN = 64
"""A slot's size is a multiple of so many bytes: a line of the caches."""

WHOLE = 2**62
"""The same where nothing lies in between: a chunk is moved in one piece."""


def slice_bytes_of(variant: ManifestVariant, slice_bytes: int = SLICE_BYTES) -> int:
    """Return what one slice of a variant moves of a chunk, at most, where others move ``slice_bytes``."""
    if variant.realisation == "direct":
        return WHOLE
    return min(slice_bytes, EAGER_SLICE_BYTES) if variant.realisation == "eager" else slice_bytes


def slot_bytes_of(variant: ManifestVariant, piece_bytes: int) -> int:
    """Return how long a slot for pieces of ``piece_bytes`` is: by LL twice that, and never nothing."""
    held = max(1, -(-piece_bytes // 8)) * 16 if variant.protocol == "ll" else piece_bytes
    return -(-held // SLOT_ALIGN) * SLOT_ALIGN


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
