"""Diagnostics as text: the one renderer."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from acclc.diagnostics.display import ELLIPSIS, cut, lay_out, visible
from acclc.diagnostics.entry import CatalogueEntry
from acclc.diagnostics.model import Diagnostic, Label
from acclc.source import Source

LINE_CELLS = 100
"""Source lines longer than this are cut around the span."""
_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "primary": "\x1b[1;31m",
    "secondary": "\x1b[1;34m",
    "gutter": "\x1b[1;34m",
    "help": "\x1b[1;32m",
    "bold": "\x1b[1m",
}


def render(diagnostics: Iterable[Diagnostic], *, colour: bool = False) -> str:
    """Return diagnostics as text, an empty line between two and a line end after the last.

    What cannot be seen in the source (control characters, direction marks, NUL) is shown escaped. With
    ``colour`` the text holds ANSI sequences.
    """
    return "\n".join("".join(f"{line}\n" for line in _Page(d, colour).lines()) for d in diagnostics)


def explain(entry: CatalogueEntry) -> str:
    """Return what ``acclc explain CODE`` prints."""
    parts = [f"{entry.code}: {entry.title}", textwrap.fill(entry.explanation, LINE_CELLS)]
    if entry.wrong:
        parts.append("Wrong:\n" + textwrap.indent(entry.wrong.strip("\n"), "    "))
    if entry.right:
        parts.append("Right:\n" + textwrap.indent(entry.right.strip("\n"), "    "))
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Mark:
    """Carets under the characters [start, end) of one line."""

    line: int
    start: int
    end: int
    text: str
    primary: bool


class _Page:
    """Renders one diagnostic."""

    def __init__(self, diagnostic: Diagnostic, colour: bool) -> None:
        self.diagnostic = diagnostic
        self.colour = colour
        marks = [self._marks(label, index == 0) for index, label in enumerate(diagnostic.labels)]
        self.sections: dict[Source, list[_Mark]] = {}
        for label, found in zip(diagnostic.labels, marks, strict=True):
            self.sections.setdefault(label.span.source, []).extend(found)
        self.width = max((len(str(mark.line)) for found in marks for mark in found), default=0)

    def lines(self) -> Iterator[str]:
        """Yield the lines, without line ends."""
        head = self._paint(f"{self.diagnostic.severity}[{self.diagnostic.code}]", self.diagnostic.severity)
        yield f"{head}: {self._paint(_one_line(self.diagnostic.message), 'bold')}"
        for source, marks in self.sections.items():
            yield from self._section(source, marks)
        for note in self.diagnostic.notes:
            yield from self._remark("note", note)
        if self.diagnostic.help is not None:
            yield from self._remark("help", self.diagnostic.help)

    def _paint(self, text: str, style: str) -> str:
        return f"{_STYLES[style]}{text}\x1b[0m" if self.colour and text else text

    def _remark(self, word: str, text: str) -> Iterator[str]:
        first, *rest = text.split("\n")
        yield f"{self._paint(word, 'help' if word == 'help' else 'bold')}: {visible(first)}"
        yield from (f"{' ' * (len(word) + 2)}{visible(line)}".rstrip() for line in rest)

    def _gutter(self, number: str, rest: str) -> str:
        return f"{self._paint(f' {number:>{self.width}} |', 'gutter')} {rest}".rstrip(" ")

    def _marks(self, label: Label, primary: bool) -> list[_Mark]:
        source, span = label.span.source, label.span
        line, column = source.position(span.start)
        last_line, last_column = source.position(max(span.start, span.end))
        if last_column == 1 and last_line > line:  # the span ends with a line end
            last_line -= 1
            last_column = len(source.line(last_line)) + 1
        if last_line == line:
            return [_Mark(line, column - 1, last_column - 1, label.text, primary)]
        last_text = source.line(last_line)
        indent = len(last_text) - len(last_text.lstrip())
        return [
            _Mark(line, column - 1, len(source.line(line)), "", primary),
            _Mark(last_line, min(indent, last_column - 1), last_column - 1, label.text, primary),
        ]

    def _section(self, source: Source, marks: list[_Mark]) -> Iterator[str]:
        first = marks[0]
        arrow = "-->" if first.primary else ":::"
        place = f"{visible(source.name)}:{first.line}:{first.start + 1}"
        yield f"{' ' * (self.width + 1)}{self._paint(arrow, 'gutter')} {place}"
        yield self._gutter("", "")
        previous: int | None = None
        for number in sorted({mark.line for mark in marks}):
            if previous is not None and number > previous + 1:
                yield self._paint(f" {ELLIPSIS}", "gutter")
            yield from self._line(source, number, [mark for mark in marks if mark.line == number])
            previous = number

    def _line(self, source: Source, number: int, marks: list[_Mark]) -> Iterator[str]:
        whole = source.line(number)
        shown, skipped = cut(whole, marks[0].start, marks[0].end, LINE_CELLS)
        layout = lay_out(shown)
        lead = ELLIPSIS if skipped else ""
        tail = ELLIPSIS if skipped + len(shown) < len(whole) else ""
        yield self._gutter(str(number), lead + layout.text + tail)
        for mark in marks:
            start = min(max(0, mark.start - skipped), len(shown))
            end = min(max(start, mark.end - skipped), len(shown))
            cell, count = layout.carets(start, end)
            style, sign = ("primary", "^") if mark.primary else ("secondary", "-")
            text = f"{sign * count} {_one_line(mark.text)}".rstrip()
            yield self._gutter("", " " * (len(lead) + cell) + self._paint(text, style))


def _one_line(text: str) -> str:
    return visible(text.replace("\n", " "))
