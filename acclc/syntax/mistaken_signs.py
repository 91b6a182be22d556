"""Readings of a syntax error: other signs for links and ranges."""

from __future__ import annotations

from acclc.diagnostics import Diagnostic, Label
from acclc.source import Span
from acclc.syntax.situation import Situation

_ARROW_SIGNS = "<>-=~\u2014\u2013\u2192\u2194\u21d2\u21d4\u27f6\u27f7"


def arrow(situation: Situation) -> Diagnostic | None:
    """Read what was found as a link in another notation (``--``, ``<-``, ``=>``)."""
    text = situation.source.text
    start = end = situation.offset
    while start and text[start - 1] in _ARROW_SIGNS:
        start -= 1
    while end < len(text) and text[end] in _ARROW_SIGNS:
        end += 1
    sign = text[start:end]
    expected = bool(situation.accepted & {"BOTH", "FORWARD"})
    if not sign and "OF" in situation.accepted:
        return _minus_for_arrow(situation)
    if sign in ("", "=") or not (expected or (sign[-1] in ">\u2192\u2194" and len(sign) > 1)):
        return None
    label = Label(Span(situation.source, start, end))
    if sign == "<->" and situation.accepted & {"BOTH", "FORWARD"} == {"FORWARD"}:
        message = "a pair goes from one node to another"
        return Diagnostic("arrow", message, (label,), help="write `a -> b`, and `b -> a` for the way back")
    if sign in ("<->", "->"):
        return None
    pointing = [s for s in "<>\u2192\u21d2\u27f6" if s in sign]
    if pointing == ["<"]:
        help = "turn it round: `a <- b` is written `b -> a`; both directions are `a <-> b`"
    elif pointing and pointing != ["<", ">"]:
        help = "did you mean `->`? It is the link in one direction, `<->` in both"
    else:
        help = "did you mean `<->`? It is the link in both directions, `->` in one"
    return Diagnostic("arrow", f"`{sign}` is no link", (label,), help=help)


def _minus_for_arrow(situation: Situation) -> Diagnostic | None:
    """``without a -- b`` reads as a count, a minus (-b), until its ``of`` fails to come."""
    minuses = [token for token in situation.tokens[-12:] if token.type == "MINUS"]
    if not minuses or situation.before(1) in minuses:
        return None
    sign = "--" if len(minuses) > 1 and minuses[0].end_pos == minuses[1].start_pos else "-"
    start = minuses[0].start_pos or 0
    label = Label(Span(situation.source, start, start + len(sign)))
    help = "did you mean `<->`? It is the link in both directions, `->` in one"
    return Diagnostic("arrow", f"`{sign}` is no link", (label,), help=help)


def range_(situation: Situation) -> Diagnostic | None:
    """Read what was found as a range in another notation, or as the lack of one."""
    previous = situation.before(1)
    misspelt = previous is not None and previous.type.startswith("RANGE") and situation.found in (".", "=", "<")
    if previous is not None and misspelt and previous.end_pos == situation.offset:
        sign = previous + situation.found
        help = "`0..7` includes the last, `0..<8` does not"
        if sign == "..<":
            help = "both ends of a range of sizes are included: write `1 KiB .. 1 GiB`"
        label = Label(Span(situation.source, previous.start_pos or 0, situation.offset + 1))
        return Diagnostic("range", f"`{sign}` is no range here", (label,), help=help)
    ranges = situation.accepted & {"RANGE_INCLUSIVE", "RANGE_EXCLUSIVE"}
    if ranges == {"RANGE_INCLUSIVE"}:
        help = "write `goal size 1 KiB .. 1 GiB`; both ends are included"
        found = situation.found_in_words if situation.found else "the end"
        return situation.error("range", f"a range of sizes needs `..` here, not {found}", help=help)
    if not ranges or situation.kind == "$END":
        return None
    if "COMMA" not in situation.accepted and "RSQB" not in situation.accepted:
        help = "for example `for x in 0..<8 { ... }`: from 0 to 7"
        return situation.error("range", "a loop runs over a range", "expected `..<` or `..` before this", help)
    if situation.found == ":":
        help = "`0..7` includes the last, `0..<8` does not"
        return situation.error("range", "`:` is no range", help=help)
    return None
