"""A rank's memory on its GPU: one cudaMalloc that holds counters, scratch, state, staging and the symmetric heap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from acclc_runtime.backends.cuda_memory import wrap
from acclc_runtime.backends.kernel_file import COUNTER_STRIDE
from acclc_runtime.cuda_ranks.board import Key
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.tables import Tables

ALIGNMENT = 256
MEMBER_BYTES = 40
TABLES = 4096
"""Bindings of arrays to variants that a communicator keeps: graphs that were captured go on using them."""


@dataclass(frozen=True, slots=True)
class SlabLayout:
    """Offsets in every rank's slab. What others reach lies alike in all; a rank's own follows the longest of that."""

    staging: int
    heap: int
    state: dict[Key, int]
    table: int
    end: int
    staging_bytes: int
    heap_bytes: int

    @staticmethod
    def of(manifest: Manifest, tables: Tables, staging_bytes: int, heap_bytes: int) -> SlabLayout:
        """Lay out; ``manifest`` has the channels that kernels are built with."""
        end = max(tables.segment_bytes)
        state: dict[Key, int] = {}
        for c, collective in enumerate(manifest.collectives):
            for v, variant in enumerate(collective.variants):
                state[c, v] = end
                most = max(sum(b.rank == rank for b in variant.blocks) for rank in collective.ranks)
                end += most * variant.channels * COUNTER_STRIDE * 8
        table = _up(end)
        staging = _up(table + TABLES * MEMBER_BYTES * tables.world)
        heap = _up(staging + staging_bytes)
        return SlabLayout(staging, heap, state, table, _up(heap + heap_bytes), staging_bytes, heap_bytes)


class Slab:
    """The allocation; freed when the communicator has let go of it and no array lies in it."""

    def __init__(self, cupy: Any, device: int, layout: SlabLayout) -> None:
        self._cupy, self.device, self.layout = cupy, device, layout
        runtime = cupy.cuda.runtime
        with cupy.cuda.Device(device):
            try:
                self.base = int(runtime.malloc(layout.end))
            except runtime.CUDARuntimeError as error:
                raise AcclcRuntimeError(
                    f"device {device} gives no {layout.end} bytes for a rank: {error}; with less heap_bytes or "
                    "staging_bytes it needs less"
                ) from None
            runtime.memset(self.base, 0, layout.heap)
            runtime.deviceSynchronize()
        self.kept = False
        """Others may still use it: it is never freed."""
        self._used = 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return the next array of the symmetric heap.

        Raises:
            ArgumentError: the heap is full.
        """
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if self._used + nbytes > self.layout.heap_bytes:
            raise ArgumentError(
                f"empty: {nbytes} bytes are asked for, but {self.layout.heap_bytes - self._used} of the symmetric "
                f"heap's {self.layout.heap_bytes} are left; join with a larger heap_bytes"
            )
        at = self.base + self.layout.heap + self._used
        self._used += _up(nbytes)
        return wrap(at, nbytes, self, self.device).view(dtype).reshape(shape)

    def offset(self, address: int, nbytes: int) -> int:
        """Return where in the slab an array of the heap lies; 0: it is another array."""
        at = address - self.base
        return at if self.layout.heap <= at and at + nbytes <= self.layout.end else 0

    def __del__(self) -> None:
        base, self.base = getattr(self, "base", 0), 0
        if base and not self.kept:
            with self._cupy.cuda.Device(self.device):
                self._cupy.cuda.runtime.free(base)


def _up(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
