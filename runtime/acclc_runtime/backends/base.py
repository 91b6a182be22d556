"""What a backend is: it runs one variant of a collective on the buffers of all ranks of a local group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from acclc_runtime.counts import Lengths
from acclc_runtime.manifest import ManifestCollective, ManifestVariant

ByteArray = np.ndarray[tuple[int], np.dtype[np.uint8]]
"""One-dimensional contiguous bytes: units * count * item size, or as ``Call.lengths`` says. On a GPU: of cupy."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, checked: every buffer has its size, and they overlap only as ``in_place`` says.

    ``inputs`` and ``outputs`` are in the order of the collective's ranks; with ``in_place`` a rank's input and
    output alias as the manifest's ``in_place`` and ``positions`` say. ``op`` is None where nothing is reduced.
    """

    collective: ManifestCollective
    variant: ManifestVariant
    count: int
    dtype: str
    """A name of ``acclc_runtime.dtypes``: f64 f32 f16 bf16 i64 i32 i8 u8 (data movement also f8e4m3, f8e5m2 ...)."""
    op: str | None
    inputs: Sequence[ByteArray]
    outputs: Sequence[ByteArray]
    in_place: bool
    timeout_s: float
    lengths: Lengths | None = None
    """Where counts vary; ``count`` is then the largest."""


class Backend(Protocol):
    """A backend of a local group. Built for one artefact folder; keeps compiled kernels, scratch and counters."""

    name: str

    def __init__(self, artefact: Path, **options: object) -> None:
        """Raise BackendUnavailableError, with what is missing, where it cannot run."""

    def run(self, call: Call) -> None:
        """Run to the end. Raises CollectiveTimeoutError, DeadlockError, BuildError; the group can be used again."""

    def describe(self) -> str:
        """One line: what runs the kernels (compiler, threads, device)."""

    def close(self) -> None:
        """Free everything."""
