"""The canonical text of a file: ``acclc fmt``.

One statement a line, four spaces a level, single blank lines where the author left any, every comment kept.
Braces that the author wrote on one line stay there if they fit and hold no comment. A comment in the middle
of a statement moves above it; one between a header and its ``{`` moves behind the ``{``.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acclc.source import Source
from acclc.syntax import ast, printer
from acclc.syntax.parser import parse
from acclc.syntax.scanner import Comment, Scan, scan

WIDTH = 100
"""Beyond this, braces are not kept on one line."""
_INDENT = "    "
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_KIND = re.compile(r"\bkind\s+[A-Za-z_]")

_Statement = ast.Item | ast.TopologyStatement | ast.CustomStatement | ast.Option | ast.EmitEntry
_Block = ast.TopologyDecl | ast.For | ast.CustomCollective | ast.Together


def format_file(source: Source) -> str:
    """Return the canonical text of a source. Formatting it again changes nothing; its tree is the same.

    Raises:
        DiagnosticError: the source does not parse.
    """
    file = parse(source)
    writer = _Writer(source)
    writer.pieces([_statement(writer, item) for item in file.items], 0, len(source.text))
    return writer.text()


def format_tree(file: ast.File) -> str:
    """Return the canonical text of a tree that was not read from a text; it has the docs, and no other comments."""
    writer = _Writer(None)
    for item in file.items:
        before = len(writer.lines)
        if isinstance(item, ast.TopologyDecl):
            writer.lines += [_Line(writer.level, f"# {line}".rstrip()) for line in item.doc.split("\n") if item.doc]
        writer.pieces([_statement(writer, item)], 0, 0)
        if before and (len(writer.lines) - before > 1 or writer.lines[before - 1].text.startswith("}")):
            writer.lines.insert(before, _Line(0, ""))
    return writer.text()


@dataclass(slots=True)
class _Line:
    """A line to print; an empty ``text`` is a blank line."""

    level: int
    text: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A statement or entry: its place in the source, and how to write it."""

    start: int
    end: int
    write: Callable[[], None]


class _Writer:
    """Collects lines. Comments are taken in the order of the source, each exactly once."""

    def __init__(self, source: Source | None) -> None:
        self.source = source
        self.scan: Scan = scan(source.text if source else "")
        self.lines: list[_Line] = []
        self.level = 0
        self._next = 0

    # --- lines

    def text(self) -> str:
        """Return what was written, trailing comments of neighbouring lines below each other."""
        out: list[str] = []
        column = 0
        for number, line in enumerate(self.lines):
            text = _INDENT * line.level + line.text if line.text else ""
            if line.comment:
                if number == 0 or not self._aligned(self.lines[number - 1], line):
                    column = self._comment_column(number)
                text = f"{text:<{column}}  {line.comment}"
            out.append(text)
        return "".join(f"{line}\n" for line in out)

    @staticmethod
    def _aligned(above: _Line, line: _Line) -> bool:
        """Whether the trailing comments of two neighbouring lines stand below each other: not around braces."""
        braces = any(text.startswith("}") or text.endswith("{") for text in (above.text, line.text))
        return bool(above.comment and line.comment) and above.level == line.level and not braces

    def _comment_column(self, number: int) -> int:
        widths = [len(_INDENT) * self.lines[number].level + len(self.lines[number].text)]
        while number + 1 < len(self.lines) and self._aligned(self.lines[number], self.lines[number + 1]):
            number += 1
            widths.append(len(_INDENT) * self.lines[number].level + len(self.lines[number].text))
        return max(widths) if max(widths) <= WIDTH else 0

    def line(self, text: str) -> None:
        """Write one line."""
        self.lines.append(_Line(self.level, text))

    # --- comments

    def take(self, end: int) -> list[Comment]:
        """Return the comments not yet taken that begin before ``end``."""
        first = self._next
        while self._next < len(self.scan.comments) and self.scan.comments[self._next].start < end:
            self._next += 1
        return list(self.scan.comments[first : self._next])

    def has_comment(self, end: int) -> bool:
        """Whether a comment that is not yet taken begins before ``end``."""
        return self._next < len(self.scan.comments) and self.scan.comments[self._next].start < end

    def trailing(self, start: int, end: int) -> int:
        """Put a comment that follows ``start`` on its line, before ``end``, behind the last line written.

        Returns where what was written ends in the source.
        """
        if self.source is None or not self.has_comment(end):
            return start
        comment = self.scan.comments[self._next]
        if "\n" in self.source.text[start : comment.start] or self.lines[-1].comment:
            return start
        self._next += 1
        self.lines[-1].comment = comment.text
        return comment.start + len(comment.text)

    # --- statements

    def pieces(self, pieces: Sequence[_Piece], start: int, end: int) -> None:
        """Write the pieces of a block that lies in [start, end) of the source, with the comments around them."""
        position: int | None = None
        for number, piece in enumerate(pieces):
            position = self.comments(self.take(piece.start), position)
            self.blank(position, piece.start)
            piece.write()
            following = pieces[number + 1].start if number + 1 < len(pieces) else end
            position = self.trailing(piece.end, following)
        self.comments(self.take(end), position)

    def comments(self, comments: Sequence[Comment], position: int | None) -> int | None:
        """Write comments on lines of their own; return where the last ends."""
        for comment in comments:
            self.blank(position, comment.start)
            self.line(comment.text)
            position = comment.start + len(comment.text)
        return position

    def blank(self, position: int | None, start: int) -> None:
        """Write a blank line if the source has one between what was written last and ``start``."""
        if position is None or self.source is None:
            return
        if _BLANK_LINE.search(self.source.text, position, start):
            self.lines.append(_Line(0, ""))

    def simple(self, text: str, end: int) -> None:
        """Write a statement of one line; comments within it, above."""
        for comment in self.take(end):
            self.line(comment.text)
        self.line(text)

    # --- braces

    def braces(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the places of the outermost ``{`` and ``}`` in [start, end) of the source."""
        found: list[tuple[int, int]] = []
        if self.source is None:
            return found
        brackets = self.scan.brackets
        number = bisect_left(brackets, start)
        while number < len(brackets) and brackets[number] < end:
            opening = brackets[number]
            closing = self.scan.partner[opening]
            if self.source.text[opening] == "{":
                found.append((opening, closing))
            number = bisect_left(brackets, closing) + 1
        return found

    def on_one_line(self, brace: tuple[int, int] | None) -> bool:
        """Whether the author wrote these braces on one line and no comment is in or before them."""
        if self.source is None or brace is None:
            return True
        return "\n" not in self.source.text[brace[0] : brace[1]] and not self.has_comment(brace[1])

    def fits(self, text: str) -> bool:
        """Whether a line of this text is short enough here."""
        return len(_INDENT) * self.level + len(text) <= WIDTH

    def block(self, header: str, pieces: Sequence[_Piece], brace: tuple[int, int] | None) -> None:
        """Write ``header {``, the pieces on lines of their own, and ``}``."""
        opening, closing = brace if brace is not None else (0, 0)
        before = self.take(opening)
        self.line(f"{header} {{")
        if before:
            self.lines[-1].comment = before.pop(0).text
        self.trailing(opening + 1, min([closing, *(piece.start for piece in pieces)]))
        self.level += 1
        self.comments(before, None)
        self.pieces(pieces, opening + 1, closing)
        self.level -= 1
        self.line("}")

    def listed(self, header: str, entries: Sequence[tuple[str, int, int]], brace: tuple[int, int] | None) -> None:
        """Write entries in braces: on one line if they may stand there, else each on its own."""
        line = f"{header} {{ {', '.join(text for text, _, _ in entries)} }}"
        if self.on_one_line(brace) and self.fits(line):
            self.line(line)
            return
        self.block(header, [self.entry(*entry) for entry in entries], brace)

    def entry(self, text: str, start: int, end: int) -> _Piece:
        """Return a piece of one line."""
        return _Piece(start, end, lambda: self.simple(text, end))


def _statement(writer: _Writer, node: _Statement) -> _Piece:
    return _Piece(node.span.start, node.span.end, lambda: _write(writer, node))


def _write(writer: _Writer, node: _Statement) -> None:
    match node:
        case ast.TopologyDecl() | ast.For() | ast.CustomCollective() | ast.Together():
            _write_block(writer, node)
        case ast.CollectiveUse() | ast.SetUse() if node.options:
            _write_options(writer, printer.header(node), node.options, node.span.start, node.span.end)
        case ast.CollectiveUse() | ast.SetUse():
            writer.simple(printer.header(node), node.span.end)
        case ast.Emit():
            _write_emit(writer, node)
        case ast.LinkClassDecl():
            _write_link_class(writer, node)
        case ast.EmitEntry():
            writer.simple(printer.emit_entry(node), node.span.end)
        case (
            ast.GoalOption()
            | ast.LimitOption()
            | ast.DeadlineOption()
            | ast.RootOption()
            | ast.OpOption()
            | ast.RelaysOption()
            | ast.WeightOption()
            | ast.SymmetryOption()
            | ast.PairsOption()
        ):
            writer.simple(printer.option(node), node.span.end)
        case _:
            writer.simple(printer.simple(node), node.span.end)


def _write_block(writer: _Writer, node: _Block) -> None:
    header = printer.header(node)
    body: Sequence[_Statement] = node.uses if isinstance(node, ast.Together) else node.body
    braces = writer.braces(node.span.start, node.span.end)
    brace = braces[0] if braces else None
    options = node.options if isinstance(node, ast.CustomCollective | ast.Together) else ()
    if brace is not None and not options:
        brace = (brace[0], node.span.end - 1)  # of an empty `with { }` only the comments stay
    line = _one_line(writer, header, node, brace)
    if line is not None:
        writer.line(line)
    else:
        writer.block(header, [_statement(writer, statement) for statement in body], brace)
    if options:
        head = f"{writer.lines.pop().text} with"
        start = braces[0][1] + 1 if braces else 0
        _write_options(writer, head, options, start, node.span.end)


def _one_line(writer: _Writer, header: str, node: _Block, brace: tuple[int, int] | None) -> str | None:
    """Return an empty block, or a loop over one short statement, if it may stand on one line."""
    body: Sequence[_Statement] = node.uses if isinstance(node, ast.Together) else node.body
    if brace is not None and writer.has_comment(brace[1]):
        return None
    if not body:
        return f"{header} {{}}"
    if not isinstance(node, ast.For) or len(body) > 1 or not writer.on_one_line(brace):
        return None
    match body[0]:
        case (
            ast.NodesDecl()
            | ast.ReplicaDecl()
            | ast.LinkDecl()
            | ast.Let()
            | ast.ChunkStatement()
            | ast.ReduceStatement()
            | ast.NeedStatement() as statement
        ):
            line = f"{header} {{ {printer.simple(statement)} }}"
            return line if writer.fits(line) else None
    return None


def _write_options(writer: _Writer, header: str, options: Sequence[ast.Option], start: int, end: int) -> None:
    braces = writer.braces(start, end)
    entries = [(printer.option(option), option.span.start, option.span.end) for option in options]
    writer.listed(header, entries, braces[-1] if braces else None)


def _write_emit(writer: _Writer, node: ast.Emit) -> None:
    braces = writer.braces(node.span.start, node.span.end)
    brace = braces[0] if braces else None
    if len(node.entries) > 1 or (brace is not None and writer.has_comment(brace[1])):
        writer.block("emit", [_statement(writer, entry) for entry in node.entries], brace)
    else:
        writer.line(f"emit {{ {printer.emit_entry(node.entries[0])} }}" if node.entries else "emit {}")


def _write_link_class(writer: _Writer, node: ast.LinkClassDecl) -> None:
    braces = writer.braces(node.span.start, node.span.end)
    places = [(span.start, span.end) for q in (node.bandwidth, node.latency, node.nominal) if q for span in (q.span,)]
    if node.kind is not None:
        places.append(_kind_place(writer, node))
    texts = printer.link_class_entries(node)
    entries = [(text, start, end) for text, (start, end) in zip(texts, places, strict=True)]
    if writer.source is not None:
        entries.sort(key=lambda entry: entry[1])
    writer.listed(f"link {node.name}", entries, braces[0] if braces else None)


def _kind_place(writer: _Writer, node: ast.LinkClassDecl) -> tuple[int, int]:
    """Return where ``kind`` stands; the tree has no place for it."""
    if writer.source is None:
        return 0, 0
    for match in _KIND.finditer(writer.source.text, node.span.start, node.span.end):
        inside = any(c.start < match.start() < c.start + len(c.text) for c in writer.scan.comments)
        if not inside:
            return match.start(), match.end()
    return node.span.end - 1, node.span.end - 1
