"""JSON with places: values by the standard reader, places looked up only when something is said about them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.importers.model import Draft
from acclc.source import Source, Span

Path = Sequence[str | int]
_BLANK = re.compile(r"[ \t\r\n]*")
MAX_NUMBER = 10**15


def read(source: Source) -> Any:
    """Return the value of a text in strict JSON (no NaN); decimals are exact fractions.

    Raises:
        DiagnosticError: the text is no JSON, is nested too deep, or holds a number too long.
    """
    text = source.text.lstrip("\ufeff")
    shift = len(source.text) - len(text)
    try:
        return json.loads(text, parse_float=_exact, parse_int=_whole, parse_constant=_refuse)
    except json.JSONDecodeError as caught:
        at = min(caught.pos + shift, len(source.text))
        words = caught.msg[:1].lower() + caught.msg[1:]
        raise DiagnosticError(_damaged(source, at, f"not well-formed JSON: {words}")) from None
    except (RecursionError, ValueError) as caught:
        words = "nested too deep" if isinstance(caught, RecursionError) else str(caught)
        raise DiagnosticError(_damaged(source, 0, f"not well-formed JSON: {words}")) from None


def _exact(text: str) -> Fraction:
    exponent = re.search(r"[eE]([+-]?\d+)$", text)
    if len(text) > 64 or (exponent and abs(int(exponent.group(1))) > 30):
        raise ValueError(f"the number {text[:24]} is out of range")
    return Fraction(text)


def _whole(text: str) -> int:
    if len(text) > 64:
        raise ValueError(f"the number {text[:24]}... is out of range")
    return int(text)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _damaged(source: Source, at: int, message: str) -> Diagnostic:
    return Diagnostic("import-damaged", message, (Label(Span(source, at, min(at + 1, len(source.text)))),))


def locate(source: Source, path: Path) -> Span:
    """Return the place of the value at a path of keys and indices; the nearest one around it that there is."""
    at, found = _skip(source.text, 0), (0, 1)
    decoder = json.JSONDecoder()
    try:
        found = (at, at + 1)
        for step in path:
            at = _enter(source.text, at, step, decoder)
            found = (at, at + 1)
        _, end = decoder.raw_decode(source.text, at)
        found = (at, min(end, at + 40) if "\n" in source.text[at:end] else end)
    except (ValueError, IndexError, KeyError, RecursionError):
        pass
    start, end = found
    line_end = source.text.find("\n", start)
    return Span(source, start, max(start + 1, min(end, line_end if line_end >= 0 else end)))


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _enter(text: str, at: int, step: str | int, decoder: json.JSONDecoder) -> int:
    """Return the offset of a member of the object or list at an offset."""
    opening = text[at]
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "]}":
        key: str | int = index
        if opening == "{":
            key, at = scanstring(text, at + 1, True)
            at = _skip(text, _skip(text, at) + 1)
        if key == step:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1
    raise KeyError(step)


class Reader:
    """Takes values out of JSON, complaining with the place of what is wrong."""

    def __init__(self, draft: Draft, root: Any) -> None:
        self.draft = draft
        self.root = root

    def value(self, path: Path) -> Any:
        """Return the value at a path; None where there is none."""
        found = self.root
        for step in path:
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and isinstance(step, int) and step < len(found):
                found = found[step]
            else:
                return None
        return found

    def place(self, path: Path) -> Span:
        """The place of a value."""
        return locate(self.draft.source, path)

    def wrong(self, path: Path, what: str) -> None:
        """Report a value that is not what it has to be. Raises DiagnosticError."""
        value = self.value(path)
        name = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in path).lstrip(".")
        if value is None:
            self.draft.fail("import-missing", f"`{name}` is missing: {what}", self.place(path))
        shown = json.dumps(value, default=str)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        self.draft.fail("import-value", f"`{name}` is {shown}: {what}", self.place(path))

    def number(self, path: Path, what: str, *, zero: bool = False) -> Fraction:
        """Return a number above 0 (or 0 too). Raises DiagnosticError."""
        value = self.value(path)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | Fraction)
            or value > MAX_NUMBER
            or value < 0
            or (value == 0 and not zero)
        ):
            self.wrong(path, what)
        return Fraction(value)

    def whole(self, path: Path, what: str, low: int, high: int) -> int:
        """Return a whole number of a range. Raises DiagnosticError."""
        value = self.value(path)
        if isinstance(value, Fraction) and value.denominator == 1:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(path, what)
        return int(value)

    def items(self, path: Path, what: str, length: int | None = None) -> list[Any]:
        """Return a list, of some length. Raises DiagnosticError."""
        value = self.value(path)
        if not isinstance(value, list) or (length is not None and len(value) != length):
            self.wrong(path, what)
        assert isinstance(value, list)
        return value

    def text(self, path: Path, what: str) -> str:
        """Return a text. Raises DiagnosticError."""
        value = self.value(path)
        if not isinstance(value, str):
            self.wrong(path, what)
        return str(value)

    def matrix(self, path: Path, size: int) -> list[list[Fraction]]:
        """Return a square matrix of numbers from 0. Raises DiagnosticError."""
        rows = self.items(path, f"a matrix of {size} rows is needed", size)
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != size:
                self.wrong([*path, i], f"a row of {size} numbers is needed")
            for j, value in enumerate(row):
                if isinstance(value, bool) or not isinstance(value, int | Fraction) or not 0 <= value <= MAX_NUMBER:
                    self.wrong([*path, i, j], "a number from 0 is needed")
        return rows
