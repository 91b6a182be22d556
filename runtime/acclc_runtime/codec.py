"""JSON of the file formats: ``{"format": ..., "version": ..., "value": ...}``; fractions are strings like "7/6".

Reading checks everything against the types and never executes anything.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from acclc_runtime.errors import DamagedFileError

T = TypeVar("T")
_FRACTION = re.compile(r"-?\d{1,60}(/[1-9]\d{0,59})?")


def _encode(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"cannot write a {type(value).__name__} to a file")


def _decode(kind: type, value: Any) -> Any:
    if kind is Fraction:
        if isinstance(value, str) and _FRACTION.fullmatch(value):
            return Fraction(value)
        raise ValueError(f'expected a fraction like "7/6", found {value!r}')
    raise NotImplementedError(kind)


def to_json(value: Any, format: str, version: int) -> bytes:
    """Return the file's bytes: deterministic, one line end at the end."""
    body = {"format": format, "version": version, "value": value}
    return msgspec.json.format(msgspec.json.encode(body, enc_hook=_encode), indent=1) + b"\n"


def from_json(data: bytes, kind: type[T], format: str, version: int, name: str) -> T:
    """Read what :func:`to_json` wrote.

    Raises:
        DamagedFileError: not JSON, another format or version, or a value that does not fit the type.
    """
    try:
        outer = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(f"{name}: not valid JSON: {error}") from None
    if not isinstance(outer, dict) or outer.get("format") != format:
        raise DamagedFileError(f"{name}: not a file of format {format!r}")
    if outer.get("version") != version:
        raise DamagedFileError(
            f"{name}: format {format!r} has version {outer.get('version')!r}; this acclc reads version {version}"
        )
    try:
        return msgspec.convert(outer.get("value"), kind, dec_hook=_decode, strict=True)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise DamagedFileError(f"{name}: {error}") from None
