"""Arrays on a GPU for the parts of the runtime that are not a backend. Imports cupy when called, not before."""

from __future__ import annotations

from typing import Any


def wrap(address: int, nbytes: int, owner: Any, device: int) -> Any:
    """Return memory of ``device`` as an array of bytes; ``owner`` is kept alive by it."""
    import cupy

    memory = cupy.cuda.UnownedMemory(address, nbytes, owner, device)
    return cupy.ndarray((nbytes,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))


def empty(shape: int | tuple[int, ...], dtype: Any, device: int) -> Any:
    """Return a new array on ``device``."""
    import cupy

    with cupy.cuda.Device(device):
        return cupy.empty(shape, dtype)
