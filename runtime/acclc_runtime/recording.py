"""Records real calls put by put, with time stamps: what ``acclc run --trace`` and ``acclc trace --measured`` show.

Kernels are built once more for it, with time stamps in them (``ACCL_TRACE``); others have none, and take no time for
them. All ranks run in this process on the cpu backend, so there is one clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from acclc_runtime.call_buffers import buffers_of, copy_in
from acclc_runtime.dtypes import named
from acclc_runtime.errors import AcclcRuntimeError
from acclc_runtime.loader import load
from acclc_runtime.reference import check, random_counts, random_inputs
from acclc_runtime.selection import by_name, default_type, of_name, size_bytes, units_of_size
from acclc_runtime.slicing import plan_slices, slice_bytes_of

if TYPE_CHECKING:
    from acclc_runtime.backends.cpu import Event
    from acclc_runtime.communicator import LocalGroup
    from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant

CALLS = 5
"""Of these the one of median length is kept; one call before them builds the kernel."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One call of one variant, out of place and checked. ``size`` is S in bytes, ``count`` in elements."""

    collective: str
    variant: str
    dtype: str
    count: int
    size: int
    slices: int
    seconds: float
    """Through the public call, which takes longer than from the first event to the last."""
    mode: str
    events: tuple[Event, ...]


def record(
    artefact: str | Path,
    wanted: Sequence[tuple[str, str]],
    size: int,
    *,
    dtype: str | None = None,
    mode: str = "threads",
    calls: int = CALLS,
    seed: int = 0,
) -> Iterator[Recording]:
    """Run each (collective, variant) of ``wanted`` at S of about ``size`` bytes, and yield what happened.

    ``dtype``: f32, or the first type of an artefact that does not have it. ``mode``: threads, or fibres (one after the
    other, the same order each time). Where counts vary they are equal.

    Raises:
        ArgumentError: an unknown name, or a type that cannot be reduced.
        BackendUnavailableError: no C++ compiler.
        AcclcRuntimeError: a call failed, or its result was wrong.
    """
    loaded = load(artefact)
    with loaded.local("cpu", mode=mode, trace=True) as group:
        for name, variant in wanted:
            collective = of_name(loaded.manifest, name)
            typed, op = _type_and_operator(loaded.manifest, collective, dtype)
            yield _record(group, collective, by_name(collective, variant), size, typed, op, mode, calls, seed)


def _type_and_operator(manifest: Manifest, collective: ManifestCollective, dtype: str | None) -> tuple[str, str | None]:
    """What is run: what was asked for, what the source names, or what the artefact has."""
    typed = dtype if dtype is not None else default_type(manifest)
    if not collective.reduces:
        return typed, None
    wanted = collective.op or "sum"
    return typed, wanted if not manifest.ops or wanted in manifest.ops else manifest.ops[0]


def _record(
    group: LocalGroup,
    collective: ManifestCollective,
    variant: ManifestVariant,
    size: int,
    dtype: str,
    op: str | None,
    mode: str,
    calls: int,
    seed: int,
) -> Recording:
    kind = named(dtype)
    counts = random_counts(collective, "even", -(-size // kind.item_bytes), seed) if collective.varying else None
    count = counts[0][0] if counts else -(-size // (units_of_size(collective) * kind.item_bytes))
    inputs = random_inputs(collective, count, dtype, seed, op=op, counts=counts)
    pairs = [
        buffers_of(collective, n, count, False, lambda length: np.empty(length, kind.storage))
        for n in range(len(inputs))
    ]
    for (source, _), values in zip(pairs, inputs, strict=True):
        if source is not None and values is not None:
            copy_in(source, values)
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    found: list[tuple[float, tuple[Event, ...]]] = []
    for number in range(calls + 1):
        start = time.perf_counter()
        group.collective(collective.name, sources, targets, op, variant=variant.id, dtype=dtype, counts=counts)
        seconds = time.perf_counter() - start
        if number > 0:
            found.append((seconds, group.events()))
    if check(collective, inputs, targets, count, dtype, op, 1, counts).wrong:
        raise AcclcRuntimeError(f"{collective.name}/{variant.id}: the result of the recorded call is wrong")
    seconds, events = sorted(found, key=lambda each: each[0])[len(found) // 2]
    slicing = plan_slices(count, kind.item_bytes, variant.longest_chunk, variant.channels, slice_bytes_of(variant))
    nbytes = size_bytes(collective, count, kind.item_bytes)
    return Recording(collective.name, variant.id, kind.name, count, nbytes, slicing.slices, seconds, mode, events)
