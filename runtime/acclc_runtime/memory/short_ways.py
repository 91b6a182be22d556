"""Short ways of calls that are like earlier ones: the methods of a communicator, run without Python code.

See native/accl_join_python.cpp. They are methods of a class derived from the communicator's, whose own methods are the
long ways.
"""

from __future__ import annotations

import ctypes
import inspect
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from acclc_runtime.memory.native import MethodDef, native_library

if TYPE_CHECKING:
    from acclc_runtime.memory.communicator import Communicator

_WORDS = ("x", "out", "name", "op", "root", "variant", "dtype", "stream", "async_op")
"""What a parameter says: Word of the native file."""
_WORD_OF = {"inputs": "x", "outputs": "out"}
METHODS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "send_recv",
    "collective",
)
_LETTERS = "fdeBbHhIiLlQq?"
_METH_FASTCALL_KEYWORDS = 0x82
_MAKING = threading.Lock()


def said(method: str, **words: Any) -> tuple[int, list[Any]]:
    """Return what a call says, for ``NativeComm.way``: the method's number, then a value a word."""
    return METHODS.index(method), [words.get(word) for word in _WORDS]


def with_short_ways(kind: type[Communicator]) -> type[Communicator]:
    """Return a class like ``kind`` in which the collectives first try the short way.

    An attribute ``_short`` of its objects is the address by which that knows the calls; 0: there are none.
    """
    with _MAKING:  # threads may join at the same time
        return _with_short_ways(kind)


@cache
def _with_short_ways(kind: type[Communicator]) -> type[Communicator]:
    library = native_library()
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    made: Any = type(kind.__name__, (kind,), {"__module__": kind.__module__, "__doc__": kind.__doc__})
    for number, name in enumerate(METHODS):
        slow: Callable[..., Any] = getattr(kind, name)
        signature = inspect.signature(slow)
        known = [p for p in list(signature.parameters)[1:] if _WORD_OF.get(p, p) in _WORDS]
        function = library.accl_method(
            number,
            slow,
            len(known),
            (ctypes.c_char_p * len(known))(*(p.encode() for p in known)),
            (ctypes.c_int * len(known))(*(_WORDS.index(_WORD_OF.get(p, p)) for p in known)),
        )
        definition = MethodDef(name.encode(), function, _METH_FASTCALL_KEYWORDS, _text(name, signature, slow.__doc__))
        _KEPT.append(definition)
        setattr(made, name, make(made, ctypes.addressof(definition)))
    _tell_arrays(library)
    return made  # type: ignore[no-any-return]


_KEPT: list[Any] = []
"""The descriptors point to it."""


def _text(name: str, signature: inspect.Signature, doc: str | None) -> bytes:
    """Return a docstring in the form from which Python reads the signature of a function in C."""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    words = str(inspect.Signature(plain)).replace("(self", "($self", 1)
    return f"{name}{words}\n--\n\n{doc or ''}".encode()


def _tell_arrays(library: ctypes.CDLL) -> None:
    """Let arrays be read without the buffer protocol, if they lie in memory as the native side has it."""
    if not _arrays_are_as_declared():
        return
    types = [np.dtype(letter) for letter in _LETTERS]
    library.accl_arrays(
        id(np.ndarray),
        id(str),
        len(types),
        (ctypes.c_void_p * len(types))(*(id(t) for t in types)),
        (ctypes.c_uint32 * len(types))(*map(ord, _LETTERS)),
        (ctypes.c_uint32 * len(types))(*(t.itemsize for t in types)),
    )
    _KEPT.extend(types)


class _Array(ctypes.Structure):
    """The begin of a NumPy array: Array of the native file."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("at", ctypes.c_void_p),
        ("dimensions", ctypes.c_int),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("element", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def _arrays_are_as_declared() -> bool:
    """Look at a few arrays that differ in everything that is read."""
    if object.__basicsize__ != 2 * ctypes.sizeof(ctypes.c_void_p):
        return False
    whole = np.zeros((3, 5), np.int16)
    fixed = np.zeros(7, np.float64)
    fixed.flags.writeable = False
    for array in (whole, fixed, whole[1:, ::2], whole[0]):
        raw = _Array.from_address(id(array))
        if (raw.type, raw.at, raw.dimensions) != (id(np.ndarray), array.ctypes.data, array.ndim):
            return False
        shape = (ctypes.c_ssize_t * array.ndim).from_address(raw.shape or 0)
        strides = (ctypes.c_ssize_t * array.ndim).from_address(raw.strides or 0)
        if tuple(shape) != array.shape or tuple(strides) != array.strides:
            return False
        if raw.element != id(array.dtype) or (raw.flags ^ array.flags.num) & 0x401:
            return False
    return bool(_Array.from_address(id("text")).type == id(str))
