"""A source text and places in it. Everything a user wrote is traced to a :class:`Span`."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Source:
    """A named text. ``name`` is what messages print: a path as given, or ``<text>``, ``<library>/dgx1.accl``."""

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        starts += [i + 1 for i, c in enumerate(self.text) if c == "\n"]
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Return (line, column), both from 1, of a character offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of line ``number`` (from 1) without its line end."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [start, end) of a source. Two spans are equal only in the same source."""

    source: Source
    start: int
    end: int

    def __repr__(self) -> str:
        line, column = self.source.position(self.start)
        return f"<{self.source.name}:{line}:{column}>"
