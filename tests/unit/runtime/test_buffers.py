from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from acclc_runtime.buffers import HOST, adapt, in_place_view
from acclc_runtime.errors import ArgumentError


class FakeTensor:
    """What acclc uses of a torch CPU tensor, over NumPy memory."""

    __module__ = "torch"

    def __init__(
        self, array: np.ndarray[Any, Any], dtype: str, device: str = "cpu", requires_grad: bool = False
    ) -> None:
        self.array, self.name = array, dtype
        self.dtype = SimpleNamespace(__str__=lambda: dtype)
        self.shape = array.shape
        self.device = SimpleNamespace(type=device, index=0)
        self.requires_grad = requires_grad

    def __getattribute__(self, name: str) -> Any:
        if name == "dtype":
            return object.__getattribute__(self, "name")
        return object.__getattribute__(self, name)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return self.array.itemsize

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def new_empty(self, shape: tuple[int, ...]) -> FakeTensor:
        return FakeTensor(np.empty(shape, self.array.dtype), self.name)


class Interface:
    """Speaks __array_interface__ only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.__array_interface__ = array.__array_interface__
        self.keep = array


class Foreign:
    """Speaks DLPack only; without versions, as older libraries do, unless ``versioned``."""

    def __init__(self, array: np.ndarray[Any, Any], versioned: bool = False, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.versioned, self.device = array, versioned, device

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versioned and options.keys() - {"stream"}:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def test_numpy_is_taken_without_a_copy() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    buffer = adapt(array)
    assert (buffer.dtype.name, buffer.shape, buffer.elements, buffer.nbytes) == ("f32", (3, 4), 12, 48)
    assert (buffer.device, buffer.writable, buffer.contiguous) == (HOST, True, True)
    assert buffer.owner is array
    buffer.as_bytes()[:4] = np.array([9.0], np.float32).view(np.uint8)
    assert array[0, 0] == 9.0


def test_numpy_flags_are_seen() -> None:
    array = np.zeros((4, 4))
    assert not adapt(array[:, ::2]).contiguous
    assert not adapt(array.T[:2]).contiguous
    array.flags.writeable = False
    assert not adapt(array).writable
    assert adapt(np.array(3.0)).shape == ()


def test_unaligned_arrays_are_taken() -> None:
    raw = np.zeros(41, np.uint8)
    array = raw[1:].view(np.float32)
    adapt(array).as_bytes()[:] = 1
    assert raw[0] == 0
    assert (raw[1:] == 1).all()


@pytest.mark.parametrize(
    ("name", "storage", "expected"),
    [
        ("torch.float32", np.float32, "f32"),
        ("torch.bfloat16", np.uint16, "bf16"),
        ("torch.float8_e4m3fn", np.uint8, "f8e4m3"),
    ],
)
def test_torch_is_taken_by_its_pointer(name: str, storage: type, expected: str) -> None:
    tensor = FakeTensor(np.zeros((2, 3), storage), name)
    buffer = adapt(tensor)
    assert (buffer.dtype.name, buffer.shape, buffer.device) == (expected, (2, 3), HOST)
    buffer.as_bytes()[:] = 7
    assert (tensor.array.view(np.uint8) == 7).all()
    fresh = buffer.empty((5,), None)
    assert isinstance(fresh, FakeTensor)
    assert fresh.shape == (5,)
    assert adapt(FakeTensor(np.zeros(0, storage), name)).as_bytes().size == 0


def test_torch_on_a_gpu_or_with_a_gradient_is_seen() -> None:
    assert adapt(FakeTensor(np.zeros(3), "torch.float64", "cuda")).device == "cuda 0"
    with pytest.raises(ArgumentError, match=r"requires a gradient; pass tensor\.detach\(\)"):
        adapt(FakeTensor(np.zeros(3), "torch.float64", requires_grad=True))
    for lazy in ("conj", "neg"):
        view = FakeTensor(np.zeros(3, np.complex64), "torch.complex64")
        setattr(view, f"is_{lazy}", lambda: True)
        with pytest.raises(ArgumentError, match=rf"other values than it shows; pass tensor\.resolve_{lazy}\(\)"):
            adapt(view)
    with pytest.raises(ArgumentError, match=r"no element type 'torch\.qint7'"):
        adapt(FakeTensor(np.zeros(3), "torch.qint7"))


def test_array_interface_is_taken_without_a_copy() -> None:
    array = np.arange(6, dtype=np.int32)
    buffer = adapt(Interface(array))
    assert buffer.address == array.ctypes.data
    assert buffer.dtype.name == "i32"
    assert isinstance(buffer.owner, Interface)


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_is_taken_without_a_copy_and_can_be_written(versioned: bool) -> None:
    array = np.arange(6, dtype=np.int32)
    buffer = adapt(Foreign(array, versioned))
    assert buffer.address == array.ctypes.data
    assert buffer.writable
    view = buffer.as_bytes()
    del buffer
    gc.collect()
    view[:] = 0
    assert (array == 0).all()


def test_dlpack_that_says_read_only_stays_read_only() -> None:
    array = np.arange(6, dtype=np.int32)
    array.flags.writeable = False
    assert not adapt(Foreign(array, versioned=True)).writable


def test_dlpack_on_an_unknown_device_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"no library for \(DLPack device 7:1\)"):
        adapt(Foreign(np.zeros(3), device=(7, 1)))


def test_a_cuda_array_interface_is_described_without_a_gpu() -> None:
    interface = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "strides": None, "version": 3}
    buffer = adapt(SimpleNamespace(__cuda_array_interface__=interface))
    assert (buffer.dtype.name, buffer.nbytes, buffer.address, buffer.device) == ("f32", 24, 4096, "cuda 0")
    assert buffer.contiguous
    dense = SimpleNamespace(__cuda_array_interface__={**interface, "strides": (12, 4)})
    apart = SimpleNamespace(__cuda_array_interface__={**interface, "strides": (24, 4), "data": (4096, True)})
    assert adapt(dense).contiguous
    assert not adapt(apart).contiguous
    assert not adapt(apart).writable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            [1.0, 2.0],
            "is of type list; an array of NumPy, CuPy or torch is needed, "
            "or anything with DLPack or __array_interface__",
        ),
        (np.float32(1), r"is a scalar (float32); an array is needed"),
        (None, "is of type NoneType"),
        (np.array([object()]), "elements of type object cannot be moved"),
    ],
)
def test_what_is_no_array_is_refused(value: Any, text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        adapt(value)
    assert text in str(caught.value)


def test_an_explicit_type_names_the_bits() -> None:
    assert adapt(np.zeros(4, np.uint16), "bf16").dtype.name == "bf16"
    with pytest.raises(ArgumentError, match="dtype='bf16' does not fit elements of type f32"):
        adapt(np.zeros(4, np.float32), "bf16")


def test_in_place_view_is_a_view() -> None:
    out = np.zeros((6, 2))
    view = in_place_view(out, 1, 4)
    view[:] = 1
    assert np.flatnonzero(out.reshape(-1)).tolist() == [4, 5, 6, 7]


def test_cuda_memory_is_wrapped_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a CuPy that only records: the address, the length, the owner and the device are passed on."""
    seen: list[Any] = []

    class Device:
        def __init__(self, index: int) -> None:
            seen.append(("device", index))

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    cuda = SimpleNamespace(
        UnownedMemory=lambda *arguments: ("memory", *arguments),
        MemoryPointer=lambda memory, offset: (memory, offset),
        Device=Device,
    )
    cupy = SimpleNamespace(
        cuda=cuda,
        uint8="u1",
        ndarray=lambda shape, dtype, pointer: (shape, dtype, pointer),
        empty=lambda shape, dtype: ("empty", shape, dtype),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    interface = {"shape": (5,), "typestr": "<f4", "data": (4096, False), "version": 3}
    array = SimpleNamespace(__cuda_array_interface__=interface, device=SimpleNamespace(id=1))
    buffer = adapt(array)
    assert buffer.as_bytes() == ((20,), "u1", (("memory", 4096, 20, array, 1), 0))
    assert buffer.empty((7,), None) == ("empty", (7,), np.dtype("float32"))
    assert buffer.empty((7,), 3) == ("empty", (7,), np.dtype("float32"))
    assert seen == [("device", 1), ("device", 3)]
    tensor = FakeTensor(np.zeros(3), "torch.float64", "cuda")
    assert adapt(tensor).as_bytes() == ((24,), "u1", (("memory", tensor.data_ptr(), 24, tensor, 0), 0))
