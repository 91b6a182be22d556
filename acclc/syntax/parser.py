"""Text to syntax tree: lark reads, :mod:`.builder` builds, :mod:`.mistakes` explains."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from lark import Lark, Token
from lark.exceptions import UnexpectedInput, UnexpectedToken

from acclc import resources
from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.source import Source, Span
from acclc.syntax import ast
from acclc.syntax.branches import Branch
from acclc.syntax.builder import Builder
from acclc.syntax.mistakes import explain_mistake
from acclc.syntax.scanner import scan
from acclc.syntax.situation import Situation

MAXIMUM_BYTES = 2**20
"""Of one file; a line of its own for each of 30,000 links fits."""
MAXIMUM_NESTING = 64
"""Of brackets of every kind."""
MAXIMUM_ERRORS = 10
"""After so many syntax errors the rest of a file is not read."""

# Where reading starts again after an error: an item that begins a line.
_ITEM_START = re.compile(
    r"^(?:(?:topology|collective|together|emit|import)\b|(?:goal[ \t]+)?[A-Za-z_]\w*[ \t]+on\b)",
    re.MULTILINE | re.ASCII,
)
_INK = re.compile(r"[^\n]")


def parse(source: Source) -> ast.File:
    """Return the tree of a file.

    Raises:
        DiagnosticError: with every error found. After a syntax error reading goes on at the next line that
            begins with an item.
    """
    _check_size(source)
    errors: list[Diagnostic] = []
    begin, mistakes = 0, 0
    while True:
        text = _INK.sub(" ", source.text[:begin]) + source.text[begin:]
        try:
            tree = _read(text, "start")
        except UnexpectedInput as caught:
            situation = _situation(caught, text, "start", source)
            errors += _errors_before(source, begin, situation.offset)
            errors.append(explain_mistake(situation))
            mistakes += 1
            again = _ITEM_START.search(source.text, _restart(situation, errors[-1].code))
            if again is None or mistakes >= MAXIMUM_ERRORS:
                break
            begin = again.start()
        else:
            builder = Builder(source)
            file = builder.file(tree)
            errors += builder.errors
            if not errors:
                return file
            break
    raise DiagnosticError(sorted(errors, key=lambda error: error.labels[0].span.start))


def parse_link_ref(source: Source) -> ast.LinkRef:
    """Return one reference to links, as ``without`` takes it: ``g[0] <-> g[1]``, ``2 of a -> b``.

    Raises:
        DiagnosticError: the text is anything else.
    """
    _check_size(source)
    try:
        tree = _read(source.text, "link_ref_only")
    except UnexpectedInput as caught:
        situation = _situation(caught, source.text, "link_ref_only", source)
        raise DiagnosticError(explain_mistake(situation)) from None
    builder = Builder(source)
    reference = builder.link_ref(tree)
    if builder.errors:
        raise DiagnosticError(builder.errors)
    return reference


def read_source(path: Path, name: str | None = None) -> Source:
    """Return the text of a file as a Source named ``name`` (default: the path as given).

    Raises:
        DiagnosticError: there is no such file, it cannot be read, is too large or is not UTF-8 text.
    """
    shown = str(path) if name is None else name
    try:
        with path.open("rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    except (OSError, ValueError) as caught:
        reason = caught.strerror if isinstance(caught, OSError) and caught.strerror else str(caught)
        message = f"cannot read `{shown}`: {reason}"
        raise DiagnosticError(Diagnostic("unreadable-file", message)) from None
    return source_of_bytes(data, shown)


def source_of_bytes(data: bytes, name: str) -> Source:
    """Return UTF-8 text as a Source; a byte order mark is dropped.

    Raises:
        DiagnosticError: too large, or not UTF-8.
    """
    if len(data) > MAXIMUM_BYTES:
        raise DiagnosticError(_too_large(name))
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as caught:
        readable = Source(name, data.decode("utf-8-sig", errors="replace"))
        start = len(data[: caught.start].decode("utf-8-sig", errors="replace"))
        label = Label(Span(readable, start, start + 1), f"the byte 0x{data[caught.start]:02x}")
        message = f"`{name}` is not text in UTF-8"
        raise DiagnosticError(Diagnostic("not-text", message, (label,))) from None


def _check_size(source: Source) -> None:
    if len(source.text) > MAXIMUM_BYTES:
        raise DiagnosticError(_too_large(source.name))
    scanned = scan(source.text)
    if scanned.deepest > MAXIMUM_NESTING:
        place = Span(source, scanned.deepest_at, scanned.deepest_at + 1)
        message = f"brackets nested {scanned.deepest} deep"
        label = Label(place, f"at most {MAXIMUM_NESTING} may be open at once")
        raise DiagnosticError(Diagnostic("too-deep", message, (label,)))


def _too_large(name: str) -> Diagnostic:
    return Diagnostic(
        "file-too-large",
        f"`{name}` is larger than {MAXIMUM_BYTES // 2**20} MiB",
        help="say repeated parts with `for`, with parameters or with replicas of a topology",
    )


def _read(text: str, start: str) -> Branch:
    return _lark().parse(text, start=start)


def _situation(caught: UnexpectedInput, text: str, start: str, source: Source) -> Situation:
    """Read again up to the place of an error.

    What the first reading left behind is not enough: on its way to the error the parser may already have
    given up some of what it could have accepted.
    """
    kind = caught.token.type if isinstance(caught, UnexpectedToken) else None
    stop = len(text) if kind == "$END" else caught.pos_in_stream or 0
    parser = _lark().parse_interactive(text, start=start)
    tokens: list[Token] = []
    try:
        for token in parser.lexer_thread.lex(parser.parser_state):  # type: ignore[no-untyped-call]
            if token.start_pos is None or token.start_pos >= stop:
                break
            parser.feed_token(token)
            tokens.append(token)
    except UnexpectedInput:
        pass  # the lexer's own error, at the same place
    offset = (tokens[-1].end_pos or 0) if kind == "$END" and tokens else stop
    if kind == "$END" and not tokens:
        offset = 0
    accepted = frozenset(parser.accepts())  # type: ignore[no-untyped-call]
    return Situation(source, scan(text), parser, tuple(tokens), accepted, offset, kind)


def _errors_before(source: Source, begin: int, offset: int) -> list[Diagnostic]:
    """Return the errors of the items between ``begin`` and the one that holds the syntax error at ``offset``."""
    starts = [match.start() for match in _ITEM_START.finditer(source.text, begin, offset)]
    if not starts or starts[-1] <= begin:
        return []
    builder = Builder(source)
    try:
        builder.file(_read(_INK.sub(" ", source.text[:begin]) + source.text[begin : starts[-1]], "start"))
    except UnexpectedInput:
        return []  # what begins a line was no item: the syntax error says enough
    return builder.errors


def _restart(situation: Situation, code: str) -> int:
    """Return where to look for the next item: its line may be the very one that showed a bracket open."""
    if code == "unclosed-bracket" and situation.kind != "$END":
        return situation.source.text.rfind("\n", 0, situation.offset) + 1
    return situation.offset + 1


@cache
def _lark() -> Lark:
    grammar = (resources.folder("grammar") / "acclc.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["start", "link_ref_only"],
        propagate_positions=True,
        maybe_placeholders=False,
    )
