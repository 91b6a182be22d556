"""What both builders need of lark's trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from lark import Token, Tree

from acclc.diagnostics import Diagnostic, Label
from acclc.source import Source, Span

Branch = Tree[Token]


class BranchReader:
    """Reads the branches of one source. ``errors`` is to be looked at afterwards."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.errors: list[Diagnostic] = []

    def span(self, tree: Branch | Token) -> Span:
        """Return the place of a tree that is not empty, or of a token."""
        if isinstance(tree, Token):
            return Span(self.source, offset_of(tree.start_pos), offset_of(tree.end_pos))
        return Span(self.source, tree.meta.start_pos, tree.meta.end_pos)

    def error(self, code: str, span: Span, message: str, label: str = "", help: str | None = None) -> None:
        """Collect an error."""
        self.errors.append(Diagnostic(code, message, (Label(span, label),), help=help))

    def build(self, tree: Branch) -> Any:
        """Return the node of any tree, by the name of its rule."""
        method = cast(Callable[[Branch], Any], getattr(self, f"_{tree.data}"))
        return method(tree)

    def all(self, tree: Branch, *rules: str) -> tuple[Any, ...]:
        """Return the nodes of the children that are no tokens, of these rules if any are named."""
        return tuple(self.build(child) for child in trees(tree) if not rules or child.data in rules)

    def optional(self, tree: Branch, rule: str) -> tuple[Any, ...]:
        """Return what the one child of this rule holds, or nothing if there is none."""
        found = next((child for child in trees(tree) if child.data == rule), None)
        return () if found is None else tuple(self.build(found))


def offset_of(position: int | None) -> int:
    """Return a position that lark always sets for what it has read."""
    if position is None:
        raise ValueError("a token of the parser without a position")
    return position


def trees(tree: Branch) -> Iterator[Branch]:
    """Yield the children that are no tokens."""
    return (child for child in tree.children if not isinstance(child, Token))


def tokens(tree: Branch) -> list[Token]:
    """Return the children that are tokens."""
    return [child for child in tree.children if isinstance(child, Token)]
