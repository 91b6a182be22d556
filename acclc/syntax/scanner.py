"""A quick look at a text before and beside the parser: its comments, and which bracket closes which."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

_INTERESTING = re.compile(r'#[^\n]*|"[^"\n]*"?|[][(){}]')
_CLOSES = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Comment:
    """``text`` starts with ``#`` and ends before the line end; trailing white space is cut."""

    start: int
    text: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What the scanner saw.

    ``partner`` maps the offset of each bracket to that of its partner; brackets without one are not in it.
    ``deepest`` is the greatest nesting and ``deepest_at`` the offset of the bracket that first reaches it.
    ``unclosed`` are the offsets of opening brackets without a partner, ``unopened`` of closing ones.
    """

    comments: tuple[Comment, ...]
    brackets: tuple[int, ...]
    partner: dict[int, int]
    deepest: int
    deepest_at: int
    unclosed: tuple[int, ...]
    unopened: tuple[int, ...]

    def enclosing(self, text: str, offset: int) -> int | None:
        """Return the offset of the innermost bracket that is open just before ``offset``, or None."""
        depth = 0
        for position in reversed(self.brackets[: bisect_left(self.brackets, offset)]):
            if text[position] in _CLOSES:
                depth += 1
            elif depth:
                depth -= 1
            else:
                return position
        return None


def scan(text: str) -> Scan:
    """Scan a text in one pass. A closing bracket closes the innermost open one if it is of its kind."""
    comments: list[Comment] = []
    brackets: list[int] = []
    partner: dict[int, int] = {}
    stack: list[int] = []
    unopened: list[int] = []
    deepest, deepest_at = 0, 0
    for match in _INTERESTING.finditer(text):
        sign, start = match[0], match.start()
        if sign[0] == "#":
            comments.append(Comment(start, sign.rstrip()))
        elif sign in "([{":
            brackets.append(start)
            stack.append(start)
            if len(stack) > deepest:
                deepest, deepest_at = len(stack), start
        elif sign in ")]}":
            brackets.append(start)
            if stack and text[stack[-1]] == _CLOSES[sign]:
                partner[start] = stack[-1]
                partner[stack.pop()] = start
            else:
                unopened.append(start)
    return Scan(tuple(comments), tuple(brackets), partner, deepest, deepest_at, tuple(stack), tuple(unopened))
