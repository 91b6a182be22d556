"""Source lines as a terminal shows them: cells, tabs, wide and invisible characters, cut lines."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from dataclasses import dataclass

TAB = 4
"""Cells to the next multiple of which a tab goes."""
ELLIPSIS = "..."


def visible(text: str) -> str:
    """Return a text with everything that would not be seen, or would move the cursor, as an escape."""
    return "".join(character if _is_plain(character) else _escape(character) for character in text)


@dataclass(frozen=True, slots=True)
class DisplayLine:
    """A source line as shown. ``cells[i]`` is where character i begins; the last entry is where the line ends."""

    text: str
    cells: tuple[int, ...]

    def carets(self, start: int, end: int) -> tuple[int, int]:
        """Return (first cell, number of cells) of the characters [start, end): at least one cell."""
        last = len(self.cells) - 1
        first = self.cells[min(start, last)]
        return first, max(1, self.cells[min(end, last)] - first)


def lay_out(line: str) -> DisplayLine:
    """Return how a line is shown in full."""
    shown: list[str] = []
    cells = [0]
    cell = 0
    for character in line:
        if character == "\t":
            piece = " " * (TAB - cell % TAB)
            width = len(piece)
        elif _is_plain(character):
            piece, width = character, _width(character)
        else:
            piece = _escape(character)
            width = len(piece)
        shown.append(piece)
        cell += width
        cells.append(cell)
    return DisplayLine("".join(shown), tuple(cells))


def cut(line: str, start: int, end: int, cells: int) -> tuple[str, int]:
    """Return the part of a line around the characters [start, end), and how many characters it leaves out before.

    The part takes about ``cells`` cells; the start of the span always lies in it.
    """
    if len(line) <= cells // 2 or lay_out(line).cells[-1] <= cells:
        return line, 0
    # Positions are found in a window of characters, so that a line of megabytes costs no more than a short one.
    span = min(max(1, end - start), cells // 2)
    first = max(0, start - (cells - span) // 2)
    window = line[first : first + cells]
    layout = lay_out(window)
    last = bisect_left(layout.cells, cells)
    while last <= start - first and first < start:  # wide characters: begin later
        first += 1
        window = line[first : first + cells]
        layout = lay_out(window)
        last = bisect_left(layout.cells, cells)
    return window[:last], first


def _is_plain(character: str) -> bool:
    if " " <= character <= "~":
        return True
    return character.isprintable()


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _width(character: str) -> int:
    if character <= "~":
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
