"""Matrices between devices as people paste them: found in any text, cell by cell, each with its place.

What is put up with: prompts and other lines around, indentation, spaces for tabs, colour codes (with the escape sign or
without it), ``>`` and ``|`` of quotations and tables, rows wrapped by a terminal, a lost header or its lost first tab,
rows that end early, Windows line ends, several matrices in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from acclc.source import Source, Span

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|(?<![^\s\ufffd])\[(?:0|4|4m|0m|1m|24m|m)(?=\s|GPU|$)")
_TOKEN = re.compile(r"[^\s|]+")
DEVICE = re.compile(r"GPU\d{1,6}$", re.IGNORECASE)
CELL = re.compile(r"(?:X|NV\d{1,6}|PIX|PXB|PHB|NODE|SYS|SOC|C2C|DIS)$", re.IGNORECASE)
P2P_CELL = re.compile(r"(?:X|OK|CNS|GNS|TNS|NS|DR|U|N/A)$", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*$")
_AFFINITY_RANGE = re.compile(r"(?:\d+(?:-\d+)?)(?:,\d+(?:-\d+)?)*,?$")
_WORDS_AFTER = ("CPU", "NUMA", "GPU", "Affinity", "CPUAffinity", "NUMAAffinity")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a line and its place."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the device, its cells, and what stands behind them (affinities; empty columns are ``""``)."""

    name: Token
    cells: tuple[Token, ...]
    rest: tuple[Token, ...]
    columns: tuple[str, ...]
    """The text behind the cells split at tabs, for files whose columns are separated by them."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix. ``header`` is empty where the text has none; ``titles``: what stands behind the devices in it."""

    header: tuple[Token, ...]
    titles: tuple[str, ...]
    rows: tuple[Row, ...]
    line: int
    """Of the header, or of the first row."""
    title_before: str = ""
    """The last line with words above it: rocm-smi's matrices are told apart by it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the devices, in the order of the columns."""
        return tuple(t.text for t in (self.header or tuple(r.name for r in self.rows)))


@dataclass(slots=True)
class _Line:
    number: int
    tokens: list[Token]
    raw: str


@dataclass(slots=True)
class _Open:
    """A matrix being read."""

    header: list[Token]
    titles: list[str]
    line: int
    before: str
    rows: list[tuple[Token, list[Token], list[Token], str]] = field(default_factory=list)


@lru_cache(maxsize=4)
def find(source: Source, cell: re.Pattern[str] = CELL) -> tuple[Matrix, ...]:
    """Return the matrices of a text whose cells are as ``cell`` says, in order."""
    found: list[Matrix] = []
    current: _Open | None = None
    before = ""
    for line in _lines(source):
        tokens = line.tokens
        if not tokens:
            continue
        if current is not None and _take(current, line, cell):
            continue
        header = _header(tokens, cell)
        row = header is None and _is_row(tokens, cell)
        if header is None and not row:
            if not _is_legend(tokens):
                before = line.raw.strip()
            _close(current, found)
            current = None
            continue
        _close(current, found)
        current = _Open(*(header or ([], [])), line.number, before)
        if row:
            _take(current, line, cell)
    _close(current, found)
    return tuple(found)


def lines(source: Source) -> Iterator[tuple[int, int, str]]:
    """Yield (number from 1, offset, text without its line end) of each line."""
    start = 0
    for number, text in enumerate(source.text.split("\n"), 1):
        yield number, start, text
        start += len(text) + 1


def without_colour(text: str) -> str:
    """Return a text of the same length with blanks for its colour codes."""
    if "[" not in text:
        return text
    return _COLOUR.sub(lambda m: " " * len(m.group()), text)


def _lines(source: Source) -> Iterator[_Line]:
    for number, start, text in lines(source):
        plain = without_colour(text)
        tokens = [Token(m.group(), Span(source, start + m.start(), start + m.end())) for m in _TOKEN.finditer(plain)]
        while tokens and not tokens[0].text.strip(">*`'\""):
            tokens.pop(0)
        yield _Line(number, tokens, plain)


def _header(tokens: list[Token], cell: re.Pattern[str]) -> tuple[list[Token], list[str]] | None:
    """Return (devices, titles) of a header line, or None."""
    if not DEVICE.match(tokens[0].text):
        return None
    devices: list[Token] = []
    for i, token in enumerate(tokens):
        if token.text in _WORDS_AFTER and not DEVICE.match(token.text):
            return devices, _titles(tokens[i:])
        if cell.match(token.text) or not _NAME.match(token.text):
            return None
        devices.append(token)
    return devices, []


def _titles(tokens: list[Token]) -> list[str]:
    text = " ".join(t.text for t in tokens)
    return re.findall(r"CPU ?Affinity|NUMA ?Affinity|GPU NUMA ID", text)


def _is_row(tokens: list[Token], cell: re.Pattern[str]) -> bool:
    if not DEVICE.match(tokens[0].text) or len(tokens) < 2:
        return False
    return any(t.text.upper() == "X" for t in tokens[1:]) and bool(cell.match(tokens[1].text))


def _is_legend(tokens: list[Token]) -> bool:
    return len(tokens) > 1 and tokens[1].text == "="


def _take(current: _Open, line: _Line, cell: re.Pattern[str]) -> bool:
    """Add a line to the matrix if it belongs to it: a row, or the rest of a wrapped header or row."""
    tokens = line.tokens
    if _is_legend(tokens):
        return False
    names = {t.text for t in current.header}
    first = tokens[0].text
    width = len(current.header) or None
    begins = len(tokens) > 1 and (first in names or (width is None and _NAME.match(first)))
    if begins and (cell.match(tokens[1].text) or (first in names and not _all_devices(tokens, names))):
        cells = [t for t in tokens[1 : None if width is None else width + 1] if width or cell.match(t.text)]
        cells = _until_affinity(cells, cell)
        rest = tokens[1 + len(cells) :]
        current.rows.append((tokens[0], cells, rest, _behind(line.raw, tokens, len(cells))))
        return True
    if not current.rows and current.header and not cell.match(first) and not current.titles:
        more = _wrapped_header(tokens, cell)
        if more is not None:
            current.header += more[0]
            current.titles += more[1]
            return True
    if current.rows and width is not None and len(current.rows[-1][1]) < width and cell.match(first):
        name, cells, _, _ = current.rows.pop()
        added = _until_affinity(tokens[: width - len(cells)], cell)
        rest = tokens[len(added) :]
        current.rows.append((name, cells + added, rest, _behind(line.raw, tokens, len(added) - 1)))
        return True
    if current.rows and not current.rows[-1][2] and all(map(_is_affinity, tokens)):  # wrapped right behind the cells
        name, cells, _, _ = current.rows.pop()
        current.rows.append((name, cells, tokens, "\t" + line.raw))
        return True
    return False


def _all_devices(tokens: list[Token], names: set[str]) -> bool:
    return all(t.text in names for t in tokens[1:])


def _wrapped_header(tokens: list[Token], cell: re.Pattern[str]) -> tuple[list[Token], list[str]] | None:
    devices: list[Token] = []
    for i, token in enumerate(tokens):
        if token.text in ("CPU", "NUMA", "GPU"):
            return devices, _titles(tokens[i:])
        if cell.match(token.text) or not _NAME.match(token.text):
            return None
        devices.append(token)
    return devices, []


def _until_affinity(cells: list[Token], cell: re.Pattern[str]) -> list[Token]:
    """Cut cells where the affinities begin: a row may end before its last cell."""
    for i, token in enumerate(cells):
        if not cell.match(token.text) and _is_affinity(token):
            return cells[:i]
    return cells


def _is_affinity(token: Token) -> bool:
    return bool(_AFFINITY_RANGE.match(token.text)) or token.text == "N/A"


def _behind(raw: str, tokens: list[Token], cells: int) -> str:
    """Return the text behind the cells of a line."""
    if cells < 0 or cells >= len(tokens):
        return ""
    start = tokens[0].span.start
    lead = raw.find(tokens[0].text)
    return raw[tokens[cells].span.end - start + lead :]


def _close(current: _Open | None, found: list[Matrix]) -> None:
    if current is None or not current.rows:
        return
    rows = tuple(
        Row(name, tuple(cells), tuple(rest), tuple(part.strip() for part in behind.split("\t")[1:]))
        for name, cells, rest, behind in current.rows
    )
    found.append(Matrix(tuple(current.header), tuple(current.titles), rows, current.line, current.before))
