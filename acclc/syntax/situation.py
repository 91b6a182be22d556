"""The place where reading stopped, and what can be asked of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lark import Token
from lark.parsers.lalr_interactive_parser import InteractiveParser

from acclc.diagnostics import Diagnostic, Label
from acclc.source import Source, Span
from acclc.syntax.scanner import Scan
from acclc.syntax.words import RESERVED

_FOUND = re.compile(r'[A-Za-z_]\w*|[0-9]+(?:\.[0-9]+)?|"[^"\n]*"?|\.\.<?|<->|->|\*\*|.', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Situation:
    """The place where reading stopped.

    ``tokens`` are all that were read, ``accepted`` the terminals that could follow them. ``kind`` is the
    terminal that was found instead: ``$END`` at the end, None for a sign that no terminal begins with.
    """

    source: Source
    scan: Scan
    parser: InteractiveParser
    tokens: tuple[Token, ...]
    accepted: frozenset[str]
    offset: int
    kind: str | None

    @property
    def found(self) -> str:
        """The word or sign that was found; empty at the end."""
        match = _FOUND.match(self.source.text, self.offset)
        return match[0] if match and self.kind != "$END" else ""

    @property
    def is_word(self) -> bool:
        """Whether a name or a word of the language was found."""
        return self.found[:1].isalpha() or self.found[:1] == "_"

    @property
    def found_in_words(self) -> str:
        """What was found, as messages name it."""
        if self.found in ("\n", "\r"):
            return "the end of the line"
        if self.is_word and self.found in RESERVED:
            return f"the word `{self.found}`"
        return f"`{self.found}`"

    def span(self, text: str | None = None) -> Span:
        """Return the place of what was found (or of ``text`` there)."""
        length = len(self.found if text is None else text)
        return Span(self.source, self.offset, self.offset + max(1, length))

    def before(self, back: int) -> Token | None:
        """Return the ``back``-th token before the place, counted from 1, or None."""
        return self.tokens[-back] if back <= len(self.tokens) else None

    def kinds(self, count: int) -> tuple[str, ...]:
        """Return the terminals of the last ``count`` tokens, in order."""
        return tuple(token.type for token in self.tokens[-count:])

    def could_follow(self, terminal: str) -> bool:
        """Whether what was found could stand here if ``terminal`` stood before it."""
        if terminal not in self.accepted or self.kind in (None, "$END"):
            return False
        copy = self.parser.copy()  # type: ignore[no-untyped-call]
        copy.feed_token(Token(terminal, ""))
        return self.kind in copy.accepts()

    def error(
        self, code: str, message: str, label: str = "", help: str | None = None, text: str | None = None
    ) -> Diagnostic:
        """Return a diagnostic at what was found."""
        return Diagnostic(code, message, (Label(self.span(text), label),), help=help)

    def place(self, token: Token) -> Span:
        """Return the place of a token."""
        return Span(self.source, token.start_pos or 0, token.end_pos or 0)
