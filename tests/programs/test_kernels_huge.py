"""Offsets beyond 2^31 elements, without the memory: most of each buffer is one page range mapped over and over."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import make

from acclc_runtime.backends.base import ByteArray, Call
from acclc_runtime.backends.cpu import CpuBackend

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

TILE = 2**20
COUNT = 2**31 + 5 * TILE + 4099
OWN = (0, 1024, 2047, 2048, 2052, 2053)
"""Tiles that are memory of their own: at the start, the middle, around 2^31, and at the end."""

PROT_READ_WRITE, MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS, MAP_NORESERVE = 3, 1, 2, 0x10, 0x20, 0x4000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def mapped(address: int | None, size: int, flags: int, file: int = -1) -> int:
    found = LIBC.mmap(address, size, PROT_READ_WRITE, flags, file, 0)
    assert found not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    return int(found)


@pytest.fixture
def buffers() -> Iterator[list[ByteArray]]:
    tiles = -(-COUNT // TILE)
    file = os.memfd_create("tile")
    os.ftruncate(file, TILE)
    bases = []
    for _ in range(3):
        base = mapped(None, tiles * TILE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
        bases.append(base)
        for tile in sorted(set(range(tiles)) - set(OWN)):
            mapped(base + tile * TILE, TILE, MAP_SHARED | MAP_FIXED, file)
    yield [np.ctypeslib.as_array((ctypes.c_uint8 * COUNT).from_address(base)) for base in bases]
    for base in bases:
        LIBC.munmap(base, tiles * TILE)
    os.close(file)


def own_tiles(buffer: ByteArray) -> list[ByteArray]:
    return [buffer[tile * TILE : (tile + 1) * TILE] for tile in OWN]


def test_more_than_two_to_the_31_elements(tmp_path: Path, buffers: list[ByteArray]) -> None:
    made = make(tmp_path, "broadcast_ring2")
    rng = np.random.default_rng(8)
    source, *outputs = buffers
    for tile in own_tiles(source):
        tile[:] = rng.integers(0, 256, len(tile))
    inputs = [source if units else source[:0] for units in made.collective.input_units]
    backend = CpuBackend(tmp_path, slice_bytes=2**24)
    backend.run(Call(made.collective, made.variant, COUNT, "u8", None, inputs, outputs, False, 60.0))
    backend.close()
    for output in outputs:
        for found, wanted in zip(own_tiles(output), own_tiles(source), strict=True):
            np.testing.assert_array_equal(found, wanted)
