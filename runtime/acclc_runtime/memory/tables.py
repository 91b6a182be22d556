"""Where everything lies in the segments of the ranks: computed alike by all from the manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from acclc_runtime.backends.kernel_file import COUNTER_STRIDE, counters_at
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant
from acclc_runtime.partition import ALIGN
from acclc_runtime.slicing import slice_bytes_of, slot_bytes_of
from acclc_runtime.tuning import FILE as TUNING_FILE
from acclc_runtime.tuning import manifest_digest

HEAD_BYTES = 4096
PAGE = 4096
_LINE = 64
_LARGEST_ITEM = 8


@dataclass(frozen=True, slots=True)
class VariantPlace:
    """Of one variant, for each rank of its group: where its counters and its scratch lie in the rank's segment."""

    counters: tuple[int, ...]
    scratch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """The segments of a world: bytes of each rank's, and each variant's places by (collective, variant) index.

    ``scratch`` is shared by all variants whose slots are written only between a rank's entry to a call and its end;
    eager ones have their own.
    """

    world: int
    segment_bytes: tuple[int, ...]
    places: dict[tuple[int, int], VariantPlace]
    groups: tuple[tuple[int, ...], ...]
    neighbours: tuple[frozenset[int], ...]
    """For each rank, those whose memory its blocks write or that write its own."""
    boards: dict[int, tuple[int, ...]]
    """Of each collective with varying counts, for each rank of its group: where its rows of counts are exchanged."""


def world_of(manifest: Manifest) -> int:
    """Return for how many ranks an artefact was compiled: all GPUs of its machine.

    Raises:
        ArgumentError: its collectives are for machines of different sizes.
    """
    sizes = {
        max(sum(kind == "gpu" for kind in topology.kinds), max(collective.ranks) + 1): collective.name
        for topology, collective in zip(manifest.topologies, manifest.collectives, strict=True)
    }
    if len(sizes) > 1:
        told = ", ".join(f"{name} for {size} ranks" for size, name in sorted(sizes.items()))
        raise ArgumentError(
            f"{manifest.name} holds collectives of different worlds ({told}); compile one file for each"
        )
    return next(iter(sizes))


def slot_bytes_at_most(slice_bytes: int) -> int:
    """Return the longest piece of a slice: a slot's size. See :func:`acclc_runtime.slicing.plan_slices`."""
    return -(-(slice_bytes + ALIGN * _LARGEST_ITEM) // _LINE) * _LINE


def lay_out(manifest: Manifest, slice_bytes: int, lines: bool = False) -> Tables:
    """Return the places of everything, for slices of ``slice_bytes``.

    ``lines``: whether kernels with lines (protocol LL) are run, too; else their slots have no place.
    """
    world = world_of(manifest)
    ends = [HEAD_BYTES] * world
    counters: dict[tuple[int, int], tuple[int, ...]] = {}
    for key, collective, variant in _variants(manifest):
        starts = []
        for rank, here in zip(collective.ranks, counters_at(collective, variant), strict=True):
            starts.append(ends[rank])
            ends[rank] += max(1, len(here)) * COUNTER_STRIDE * 8 * variant.channels
        counters[key] = tuple(starts)
    boards: dict[int, tuple[int, ...]] = {}
    for c, collective in enumerate(manifest.collectives):
        if collective.varying:
            boards[c] = tuple(ends[rank] for rank in collective.ranks)
            for rank in collective.ranks:
                ends[rank] += 8 * board_words(len(collective.ranks))
    scratch_at = [-(-end // PAGE) * PAGE for end in ends]
    scratch = [0] * world
    neighbours: list[set[int]] = [set() for _ in range(world)]
    own_at: dict[tuple[int, int], tuple[int, ...]] = {}
    for key, collective, variant in _variants(manifest):
        slot = slot_bytes_of(variant, slot_bytes_at_most(slice_bytes_of(variant, slice_bytes)))
        if variant.protocol == "ll" and not lines:
            slot = 0
        sizes = [slots * variant.channels * variant.slot_depth * slot for slots in variant.slots]
        if variant.realisation == "eager":
            own_at[key] = tuple(scratch_at[rank] for rank in collective.ranks)
            for rank, size in zip(collective.ranks, sizes, strict=True):
                scratch_at[rank] += -(-size // PAGE) * PAGE
        else:
            for rank, size in zip(collective.ranks, sizes, strict=True):
                scratch[rank] = max(scratch[rank], size)
        for counter in variant.counters:
            neighbours[counter.src].add(counter.dst)
            neighbours[counter.dst].add(counter.src)
    for c in boards:
        for rank in manifest.collectives[c].ranks:
            neighbours[rank].update(manifest.collectives[c].ranks)
    return Tables(
        world,
        tuple(-(-(at + size + 1) // PAGE) * PAGE for at, size in zip(scratch_at, scratch, strict=True)),
        {
            key: VariantPlace(counters[key], own_at.get(key) or tuple(scratch_at[rank] for rank in collective.ranks))
            for key, collective, _ in _variants(manifest)
        },
        tuple(dict.fromkeys(collective.ranks for collective in manifest.collectives)),
        tuple(frozenset(found - {rank}) for rank, found in enumerate(neighbours)),
        boards,
    )


def board_words(ranks: int) -> int:
    """Return the words of a board: two halves, each a line and a row (``exchange_rows`` of accl_join.cpp)."""
    return 2 * (8 + -(-ranks // 8) * 8)


def artefact_digest(folder: Path) -> str:
    """Return a digest of what ranks must have alike: the manifest, which holds those of the kernels, and the tuning."""
    tuning = folder / TUNING_FILE
    measured = tuning.read_bytes() if tuning.is_file() else b""
    return hashlib.sha256(manifest_digest(folder).encode() + measured).hexdigest()


def _variants(manifest: Manifest) -> list[tuple[tuple[int, int], ManifestCollective, ManifestVariant]]:
    return [
        ((c, v), collective, variant)
        for c, collective in enumerate(manifest.collectives)
        for v, variant in enumerate(collective.variants)
    ]
