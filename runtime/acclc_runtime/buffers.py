"""The user's arrays as bytes, without a copy: NumPy, torch, CuPy, and what speaks DLPack or ``__array_interface__``.

Nothing of torch or CuPy is imported: their objects are told by what they can do.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acclc_runtime import dtypes
from acclc_runtime.backends import cuda_memory
from acclc_runtime.dtypes import DType
from acclc_runtime.errors import ArgumentError

HOST = "host memory"
"""The ``device`` of a buffer that the CPU can reach."""

_DLPACK_HOST = (1, 3, 11)
"""DLPack's device types CPU, CUDA pinned, ROCm pinned."""


@dataclass(frozen=True, slots=True)
class UserBuffer:
    """One array of a call. ``address`` and ``nbytes`` say where it lies, ``device`` on what."""

    owner: Any
    """The array as the user gave it; keeps the memory alive."""
    dtype: DType
    shape: tuple[int, ...]
    address: int
    nbytes: int
    device: str
    writable: bool
    contiguous: bool
    as_bytes: Callable[[], Any]
    """Returns the array as one-dimensional bytes that share its memory; only if it is contiguous."""
    empty: Callable[[tuple[int, ...], int | None], Any]
    """Allocates an array of the same library and type, of a shape, on the same device or on the CUDA device given."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.nbytes // self.dtype.item_bytes


def adapt(array: Any, dtype: str | None = None) -> UserBuffer:
    """Return a view of the user's array. ``dtype`` names the type where the array cannot (bf16 as uint16).

    Raises:
        ArgumentError: no array, or a type that cannot be moved. The message lacks the rank: the caller adds it.
    """
    kind = type(array)
    module = kind.__module__.partition(".")[0]
    if module == "torch" or (hasattr(array, "data_ptr") and hasattr(array, "element_size")):
        return _of_torch(array, dtype)
    if hasattr(array, "__cuda_array_interface__"):
        return _of_cupy(array, dtype)
    if isinstance(array, np.ndarray) or hasattr(array, "__array_interface__"):
        if isinstance(array, np.generic):
            raise ArgumentError(f"is a scalar ({kind.__name__}); an array is needed")
        return _of_numpy(array, np.asarray(array), dtype)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, dtype)
    raise ArgumentError(
        f"is of type {kind.__name__}; an array of NumPy, CuPy or torch is needed, "
        "or anything with DLPack or __array_interface__"
    )


def in_place_view(out: Any, position: int, count: int) -> Any:
    """Return the in-place buffer of rank ``position`` in ``out``: elements [position * count, (position + 1) * count).

    ``position`` is the rank in the group. Give the view as the input of all_gather and gather, or (with ``out``
    as the input) as the output of reduce_scatter and scatter.
    """
    return out.reshape(-1)[position * count : (position + 1) * count]


def _typed(found: Callable[[], DType], fallback_bytes: int, dtype: str | None) -> DType:
    """Return the named type where the caller named one, else the array's own."""
    try:
        own = found()
    except ArgumentError:
        if dtype is None or fallback_bytes not in (1, 2, 4, 8):
            raise
        own = dtypes.DTYPES[f"raw{fallback_bytes}"]
    return own if dtype is None else dtypes.explicit(dtype, own)


def _of_numpy(owner: Any, array: np.ndarray[Any, Any], dtype: str | None) -> UserBuffer:
    kind = _typed(lambda: dtypes.of_numpy(array.dtype), 0, dtype)
    return UserBuffer(
        owner=owner,
        dtype=kind,
        shape=array.shape,
        address=array.__array_interface__["data"][0],
        nbytes=array.nbytes,
        device=HOST,
        writable=array.flags.writeable,
        contiguous=array.flags.c_contiguous,
        as_bytes=lambda: array.reshape(-1).view(np.uint8),
        empty=lambda shape, _: np.empty(shape, array.dtype),
    )


def _of_torch(tensor: Any, dtype: str | None) -> UserBuffer:
    """Take a torch tensor by its pointer: NumPy lacks bfloat16, and DLPack of it crashes some libraries."""
    kind = _typed(lambda: dtypes.of_torch(tensor.dtype), tensor.element_size(), dtype)
    nbytes = tensor.numel() * tensor.element_size()
    address = tensor.data_ptr()
    on_host = tensor.device.type == "cpu"
    index = getattr(tensor.device, "index", None) or 0
    if getattr(tensor, "requires_grad", False):
        raise ArgumentError("is a tensor that requires a gradient; pass tensor.detach()")
    for lazy, resolve in (("is_conj", "resolve_conj"), ("is_neg", "resolve_neg")):
        if getattr(tensor, lazy, bool)():
            raise ArgumentError(f"is a view whose memory holds other values than it shows; pass tensor.{resolve}()")
    return UserBuffer(
        owner=tensor,
        dtype=kind,
        shape=tuple(tensor.shape),
        address=address,
        nbytes=nbytes,
        device=HOST if on_host else f"{tensor.device.type} {index}",
        writable=True,
        contiguous=bool(tensor.is_contiguous()),
        as_bytes=lambda: (
            _host_bytes(address, nbytes, tensor) if on_host else cuda_memory.wrap(address, nbytes, tensor, index)
        ),
        empty=lambda shape, other: (
            tensor.new_empty(shape) if on_host or other is None else tensor.new_empty(shape, device=f"cuda:{other}")
        ),
    )


def _of_cupy(array: Any, dtype: str | None) -> UserBuffer:
    """Take an array on a CUDA device by ``__cuda_array_interface__`` (CuPy, Numba and others)."""
    interface = array.__cuda_array_interface__
    element = np.dtype(interface["typestr"])
    kind = _typed(lambda: dtypes.of_numpy(getattr(array, "dtype", element)), 0, dtype)
    shape = tuple(interface["shape"])
    nbytes = int(np.prod(shape, dtype=np.int64)) * element.itemsize
    address, read_only = interface["data"]
    index = int(getattr(getattr(array, "device", None), "id", 0))
    dense = _dense_strides(shape, element.itemsize)
    strides = interface.get("strides")
    return UserBuffer(
        owner=array,
        dtype=kind,
        shape=shape,
        address=address,
        nbytes=nbytes,
        device=f"cuda {index}",
        writable=not read_only,
        contiguous=strides is None or nbytes == 0 or _same_strides(shape, tuple(strides), dense),
        as_bytes=lambda: cuda_memory.wrap(address, nbytes, array, index),
        empty=lambda shape, other: cuda_memory.empty(
            shape, getattr(array, "dtype", element), index if other is None else other
        ),
    )


def _of_dlpack(array: Any, dtype: str | None) -> UserBuffer:
    device_type, device_id = array.__dlpack_device__()
    if device_type not in _DLPACK_HOST:
        if device_type == 2 and "cupy" in sys.modules:
            return _of_cupy(sys.modules["cupy"].from_dlpack(array), dtype)
        raise ArgumentError(
            f"lies on a device that this process has no library for (DLPack device {device_type}:{device_id})"
        )
    try:
        view = np.from_dlpack(array)
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"cannot be taken by DLPack: {error}") from None
    if not view.flags.writeable and not _says_read_only(array):
        # NumPy marks what comes without a version as read-only because the old protocol cannot tell.
        raw = _host_bytes(view.__array_interface__["data"][0], view.nbytes, view)
        if view.flags.c_contiguous:
            view = raw.view(view.dtype).reshape(view.shape)
    return _of_numpy(array, view, dtype)


def _says_read_only(array: Any) -> bool:
    """Whether the producer speaks a DLPack that can say "read only", so that NumPy's flag is the truth."""
    try:
        return "versioned" in repr(array.__dlpack__(max_version=(1, 0)))
    except TypeError:
        return False


def _host_bytes(address: int, nbytes: int, owner: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if nbytes == 0:
        return np.empty(0, np.uint8)
    memory: Any = (ctypes.c_uint8 * nbytes).from_address(address)
    memory.owner = owner  # NumPy's base chain keeps the ctypes object, and with it the user's array
    view: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(memory, np.uint8)
    return view


def _dense_strides(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    strides = []
    step = item_bytes
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def _same_strides(shape: tuple[int, ...], strides: tuple[int, ...], dense: tuple[int, ...]) -> bool:
    return all(length == 1 or a == b for length, a, b in zip(shape, strides, dense, strict=True))
