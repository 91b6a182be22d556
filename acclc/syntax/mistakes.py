"""What a syntax error most likely is, and what to do about it.

The parser stops at the first sign that cannot go on from what stands before. A list of readings is tried on
that :class:`.situation.Situation` in order, from the particular to the general.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from lark import Token

from acclc.diagnostics import Diagnostic, Label, suggest
from acclc.source import Span
from acclc.syntax import mistaken_signs, units, words
from acclc.syntax.builder import IN_BRACES, PURPOSES
from acclc.syntax.quantities import unit_mistake
from acclc.syntax.situation import Situation
from acclc.syntax.words import RESERVED

_USE = re.compile(r"[A-Za-z_]\w*[ \t]+on\b")
_SET_USE = re.compile(r"goal[ \t]+\w+[ \t]+on\b")
_CLOSERS = {")": "(", "]": "[", "}": "{"}


def explain_mistake(situation: Situation) -> Diagnostic:
    """Return the diagnostic of a syntax error."""
    for reading in _READINGS:
        diagnostic = reading(situation)
        if diagnostic is not None:
            return diagnostic
    return _anything(situation)


# --- readings: each returns a diagnostic, or None when it is something else ----------------------------------


def _semicolon(situation: Situation) -> Diagnostic | None:
    if situation.found != ";":
        return None
    help = "a statement ends where the next one begins: leave the `;` out"
    return situation.error("semicolon", "`;` is not a sign of the language", help=help)


def _foreign_comment(situation: Situation) -> Diagnostic | None:
    opening = situation.source.text[situation.offset : situation.offset + 2]
    if opening not in ("//", "/*"):
        return None
    help = "a comment begins with `#` and goes to the end of the line"
    return situation.error("foreign-comment", f"`{opening}` does not begin a comment", help=help, text="//")


def _unclosed_before_item(situation: Situation) -> Diagnostic | None:
    starts_use = _USE.match(situation.source.text, situation.offset) and "NAME" not in situation.accepted
    starts_set = _SET_USE.match(situation.source.text, situation.offset)
    starts_word = situation.found in words.ITEM_WORDS and situation.found != "goal"  # most often an option
    starts_item = situation.kind == "ON" or starts_word or starts_use or starts_set
    opening = situation.scan.enclosing(situation.source.text, situation.offset)
    if not starts_item or opening is None:
        return None
    if situation.source.text[opening] == "{" and "RBRACE" not in situation.accepted and situation.kind != "ON":
        return None
    token = situation.before(1)
    place = situation.place(token) if situation.kind == "ON" and token else situation.span()
    bracket = situation.source.text[opening]
    labels = (
        Label(Span(situation.source, opening, opening + 1), f"this `{bracket}` is still open"),
        Label(place, "a new item begins here"),
    )
    closing = {"{": "}", "(": ")", "[": "]"}[bracket]
    help = f"close it with `{closing}`; topologies, imports and collectives stand outside of all brackets"
    return Diagnostic("unclosed-bracket", f"`{bracket}` is not closed before the next item", labels, help=help)


def _unclosed_before_line(situation: Situation) -> Diagnostic | None:
    opening = situation.scan.enclosing(situation.source.text, situation.offset)
    last = situation.before(1)
    if opening is None or last is None or situation.kind == "$END":
        return None
    bracket = situation.source.text[opening]
    closing, terminal = {"(": (")", "RPAR"), "[": ("]", "RSQB"), "{": ("}", "RBRACE")}[bracket]
    new_line = "\n" in situation.source.text[last.end_pos or 0 : situation.offset]
    if bracket == "{" or not new_line or terminal not in situation.accepted or situation.found in _CLOSERS:
        return None
    end = last.end_pos or 0
    labels = (
        Label(Span(situation.source, opening, opening + 1), "opened here"),
        Label(Span(situation.source, end, end), f"expected `{closing}` here"),
    )
    return Diagnostic("unclosed-bracket", f"`{bracket}` is not closed", labels)


def _end(situation: Situation) -> Diagnostic | None:
    if situation.kind != "$END":
        return None
    expected = f"expected {words.in_words(situation.accepted)}"
    place = Label(Span(situation.source, situation.offset, situation.offset), f"the text ends here: {expected}")
    opening = situation.scan.enclosing(situation.source.text, len(situation.source.text))
    help = None
    if [token.type for token in situation.tokens[-4:-1]] == ["COLLECTIVE", "NAME", "ON"]:
        help = _known_collective_help(situation)
    elif situation.accepted == {"ON"} and situation.kinds(2) == ("GOAL", "NAME"):
        help = _set_help(situation)
    if opening is None:
        return Diagnostic("unexpected-end", "the text ends too early", (place,), help=help)
    bracket = situation.source.text[opening]
    label = Label(Span(situation.source, opening, opening + 1), "opened here")
    return Diagnostic("unclosed-bracket", f"`{bracket}` is never closed", (label, place), help=help)


def _known_collective_help(situation: Situation) -> str:
    name, topology = situation.tokens[-3], situation.tokens[-1]
    return (
        "`collective` defines a new collective by its chunks; a known one is used without that word:"
        f" `{name} on {topology}`"
    )


def _set_help(situation: Situation) -> str:
    purpose = situation.before(1)
    if purpose in PURPOSES:
        return f"say on which topology: `goal {purpose} on full(4)`"
    return f"a goal stands in the braces of its collective: {IN_BRACES}"


def _in_set(situation: Situation) -> bool:
    """Say whether the item that is being read, in no braces so far, is a ``goal torch on ...``."""
    kinds = [token.type for token in situation.tokens]
    at = max((number for number, kind in enumerate(kinds) if kind == "ON"), default=0)
    return kinds[at - 2 : at] == ["GOAL", "NAME"] and "RBRACE" not in kinds[at:]


def _brackets(situation: Situation) -> Diagnostic | None:
    if situation.found not in _CLOSERS or situation.offset in situation.scan.partner:
        return None
    opening = situation.scan.enclosing(situation.source.text, situation.offset)
    if opening is None:
        return situation.error("mismatched-bracket", f"`{situation.found}` closes nothing")
    bracket = situation.source.text[opening]
    labels = (
        Label(situation.span(), f"this cannot close `{bracket}`"),
        Label(Span(situation.source, opening, opening + 1), "this one is open"),
    )
    message = f"`{situation.found}` stands where `{bracket}` is to be closed"
    return Diagnostic("mismatched-bracket", message, labels)


def _reserved(situation: Situation) -> Diagnostic | None:
    starts_statement = situation.accepted & {"LET", "TOPOLOGY", "RBRACE"}
    if situation.found not in RESERVED or "NAME" not in situation.accepted or starts_statement:
        return None
    previous = situation.before(1)
    short = {"gpu": "g", "switch": "sw", "host": "cpu", "nic": "n", "link": "nvlink"}.get(situation.found)
    help = "choose another name"
    if short and previous is not None and previous == situation.found:
        help += f", for example `{previous} {short}`"
    message = f"`{situation.found}` is a word of the language and cannot be a name"
    return situation.error("reserved-word", message, help=help)


def _missing_unit(situation: Situation) -> Diagnostic | None:
    number = situation.before(1)
    if "UNIT" not in situation.accepted or number is None:
        return None
    kind = _quantity_kind(situation)
    example = next(iter(units.UNITS[kind]))
    label = Label(situation.place(number))
    help = f"for example `{number} {example}`"
    return Diagnostic("missing-unit", f"`{number}` needs a unit of {kind}", (label,), help=help)


def _wrong_unit(situation: Situation) -> Diagnostic | None:
    number, unit = situation.before(2), situation.before(1)
    if number is None or unit is None or unit.type != "UNIT" or units.kind_of(unit) is not None:
        return None
    return unit_mistake(situation.source, number, unit, _quantity_kind(situation, 3))


def _empty_link_class(situation: Situation) -> Diagnostic | None:
    name = situation.before(2)
    if situation.found != "}" or name is None or situation.kinds(3) != ("LINK", "NAME", "LBRACE"):
        return None
    help = f"the rate stands first: `link {name} {{ 25 GB/s, 0.7 us }}`"
    return situation.error("missing-bandwidth", f"the link class `{name}` states no bandwidth", help=help)


def _inline_rate(situation: Situation) -> Diagnostic | None:
    number = situation.before(2)
    if situation.found != "/" or number is None or situation.kinds(3) != ("COLON", "NUMBER", "NAME"):
        return None
    message = "a link names its class; the rate stands in the class"
    help = f"write `link nvlink {{ {number} GB/s }}` once, and here `: nvlink`"
    label = Label(Span(situation.source, number.start_pos or 0, situation.offset + 1))
    return Diagnostic("inline-rate", message, (label,), help=help)


def _quantity_kind(situation: Situation, back: int = 2) -> str:
    """Return what the quantity whose number is ``back - 1`` tokens before the place measures."""
    earlier = situation.kinds(back + 2)[: 1 - back]
    if earlier[-1:] == ("WITHIN",):
        return units.TIME
    if earlier[-2:] == ("GOAL", "NAME") or earlier[-1:] == ("RANGE_INCLUSIVE",):
        return units.SIZE
    if earlier[-1:] in (("LBRACE",), ("NOMINAL",)):
        return units.BANDWIDTH
    return units.LATENCY


def _count_order(situation: Situation) -> Diagnostic | None:
    last, before = situation.before(1), situation.before(2)
    if last is None or before is None:
        return None
    if situation.kind == "NUMBER" and situation.kinds(2) == ("COLON", "NAME"):
        span = Span(situation.source, last.start_pos or 0, situation.span().end)
        help = f"write `{situation.found} {last}`"
        label = Label(span)
        return Diagnostic("count-order", "the number of links stands before their class", (label,), help=help)
    if situation.found in ("*", "x") and situation.kinds(2) == ("COLON", "NUMBER"):
        help = f"write `{last} nvlink`, without a sign between; a count that is calculated: `(2 * n) nvlink`"
        return situation.error("count-order", "the class follows the number of links directly", help=help)
    return _named_count(situation)


def _named_count(situation: Situation) -> Diagnostic | None:
    """``a <-> b : n nvlink`` reads as a class ``n`` and then, some way on, as nothing."""
    tokens = situation.tokens[-40:]
    for colon, count, link_class in reversed(list(zip(tokens, tokens[1:], tokens[2:], strict=False))):
        one_line = colon.line == count.line == link_class.line
        if (colon.type, count.type, link_class.type) == ("COLON", "NAME", "NAME") and one_line:
            label = Label(situation.place(count))
            help = f"write `({count}) {link_class}`"
            message = "a number of links that is not written as a number stands in parentheses"
            return Diagnostic("count-order", message, (label,), help=help)
    return None


def _missing_comma(situation: Situation) -> Diagnostic | None:
    last = situation.before(1)
    if last is None or situation.kind in ("COMMA", "RBRACE"):
        return None
    if situation.kinds(2) == ("NAME", "NAME") and situation.kind in ("BOTH", "FORWARD", "DOT"):
        label = Label(situation.place(last))
        return Diagnostic("missing-comma", f"a comma is missing before `{last}`", (label,))
    if not situation.could_follow("COMMA"):
        return None
    if "\n" in situation.source.text[last.end_pos or 0 : situation.offset] and "DOT" in situation.accepted:
        return None
    message = f"a comma is missing before {situation.found_in_words}"
    return situation.error("missing-comma", message, f"expected {words.in_words(situation.accepted)}")


def _unknown_word(situation: Situation) -> Diagnostic | None:
    if not situation.is_word:
        return None
    for terminals, known, code, place in (
        ({"GOAL", "WITHIN"}, words.OPTION_WORDS, "unknown-option", "a collective has no option"),
        ({"TYPES", "ARCH"}, words.EMIT_WORDS, "unknown-option", "`emit` has no entry"),
        ({"CHUNK", "NEED"}, words.CUSTOM_WORDS, "unknown-statement", "a collective has no statement"),
    ):
        if situation.accepted >= terminals:
            near = suggest(situation.found, known)
            if near is None and situation.could_follow("COMMA"):
                return None
            listed = words.one_of([f"`{word}`" for word in known])
            help = f"did you mean `{near}`?" if near else f"there are {listed}".replace(" or ", " and ")
            return situation.error(code, f"{place} `{situation.found}`", help=help)
    return None


def _misspelt_start(situation: Situation) -> Diagnostic | None:
    """A misspelt first word is a name to the parser, which stops one or two words later."""
    at_item = situation.accepted == {"ON"}
    what, known = ("item", words.ITEM_WORDS) if at_item else ("statement", words.TOPOLOGY_WORDS)
    start = situation.before(1) if at_item else _statement_start(situation)
    near = suggest(start, known) if start is not None and start.type == "NAME" else None
    if start is None or near is None:
        return None
    label = Label(situation.place(start))
    message = f"there is no {what} that begins with `{start}`"
    return Diagnostic(f"unknown-{what}", message, (label,), help=f"did you mean `{near}`?")


def _statement_start(situation: Situation) -> Token | None:
    """Return A if the statement so far reads ``A b``, ``A b[...]`` or ``A "text"``."""
    for first, second in ((1, None), (2, 1)):
        start, name = situation.before(first), situation.before(second) if second else None
        if start is None or start.type != "NAME":
            continue
        if second is None and situation.kind == "STRING":
            return start
        if name is not None and name.type == "NAME" and name.line == start.line:
            return start
    return None


def _limit(situation: Situation) -> Diagnostic | None:
    what = situation.before(1)
    if "UP_TO" not in situation.accepted:
        if situation.kind != "NUMBER" or what is None or what not in ("upto", "max", "at_most", "up"):
            return None
        what = situation.before(2)
    if what is None or what.type not in ("CHUNKS", "STEPS", "ROUNDS", "CHANNELS", "BLOCKS"):
        return None
    number = re.search(r"[0-9]+", situation.source.text[situation.offset : situation.offset + 20])
    help = f"write `{what} up to {number[0] if number else 6}`"
    return situation.error("limit", f"a limit of {what} is written with `up to`", help=help)


def _unterminated_text(situation: Situation) -> Diagnostic | None:
    if not situation.found.startswith('"'):
        return None
    if len(situation.found) < 2 or not situation.found.endswith('"'):
        message = "this text is not closed on its line"
        return situation.error("unterminated-text", message, help='a text ends with `"` on the line it begins')
    if situation.kind is None:
        return situation.error("unexpected-character", "a text cannot hold control characters")
    return None


def _unknown_character(situation: Situation) -> Diagnostic | None:
    if situation.kind is not None:
        return None
    sign = situation.found
    help = None
    if sign in "'\u2018\u2019\u201c\u201d":
        help = 'a text stands in double quotes: `"CPU memory"`'
    elif sign.isspace() or sign in "\u200b\ufeff":
        help = "only plain spaces, tabs and line ends may separate words"
    elif sign.isalpha():
        help = "names are made of the letters A to Z and a to z, digits and `_`"
    shown = f"`{sign}`" if sign.isprintable() and not sign.isspace() else f"the character U+{ord(sign[0]):04X}"
    return situation.error("unexpected-character", f"{shown} is not a sign of the language", help=help)


def _anything(situation: Situation) -> Diagnostic:
    expected = words.in_words(situation.accepted)
    message = f"{situation.found_in_words} cannot stand here"
    return situation.error("unexpected", message, f"expected {expected}", help=_hint(situation))


def _hint(situation: Situation) -> str | None:
    last = situation.before(1)
    if situation.found == "," and situation.accepted & {"RBRACE", "TOPOLOGY"}:
        declared = [t for t in situation.tokens[-16:] if t.type in ("GPU", "SWITCH", "HOST", "NIC")]
        if last is not None and declared and declared[-1].line == last.line:
            return f"each name is declared on its own: `{declared[-1]} ...` again"
        return "no comma stands between statements: the next one may follow directly"
    if situation.found in (":", "=") and last is not None and last.lower() in words.OPTION_WORDS:
        return f"the value follows directly: `{last} ...`"
    if situation.accepted == {"ON"} and situation.kinds(2) == ("GOAL", "NAME"):
        return _set_help(situation)
    if situation.found in ("among", "as") and _in_set(situation):
        return "`goal torch` is for all GPUs of its topology, and its collectives have their own names: leave it out"
    if situation.found == "-" and "NUMBER" in situation.accepted and "MINUS" not in situation.accepted:
        return "rates, latencies and sizes are never negative; a link that carries nothing is left out"
    if situation.kind == "WITH" and "AMONG" in situation.accepted:
        return "the options of a known collective follow directly: `all_gather on dgx1 { goal pareto }`"
    return None


_READINGS: tuple[Callable[[Situation], Diagnostic | None], ...] = (
    _semicolon,
    _foreign_comment,
    _unterminated_text,
    mistaken_signs.arrow,
    _unclosed_before_item,
    _unclosed_before_line,
    _end,
    _brackets,
    mistaken_signs.range_,
    _limit,
    _reserved,
    _missing_unit,
    _wrong_unit,
    _empty_link_class,
    _inline_rate,
    _count_order,
    _unknown_word,
    _misspelt_start,
    _missing_comma,
    _unknown_character,
)
