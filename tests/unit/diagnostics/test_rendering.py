"""The exact shape of rendered diagnostics."""

from __future__ import annotations

import dataclasses
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.diagnostics import CATALOGUE, CatalogueEntry, Diagnostic, Label, explain, render
from acclc.diagnostics.display import cut, lay_out, visible
from acclc.source import Source, Span

CODE = "unexpected"


def at(text: str, start: int, end: int, label: str = "", **more: object) -> str:
    source = Source("box.accl", text)
    diagnostic = Diagnostic(CODE, "a message", (Label(Span(source, start, end), label),))
    return render([dataclasses.replace(diagnostic, **more)])


def place_of(text: str, part: str) -> tuple[int, int]:
    return text.index(part), text.index(part) + len(part)


def test_the_sample_of_the_design() -> None:
    lines = [""] * 8 + ["    g[8] <-> g[1] : 2 nvlink"]
    source = Source("dgx1.accl", "\n".join(lines))
    span = Span(source, *place_of(source.text, "g[8]"))
    label = Label(span, "`gpu g[8]` declares g[0] to g[7]")
    diagnostic = Diagnostic("unknown-node", "no node `g[8]` in topology `dgx1`", (label,), help="the last one is g[7]")
    assert render([diagnostic]) == (
        "error[unknown-node]: no node `g[8]` in topology `dgx1`\n"
        "  --> dgx1.accl:9:5\n"
        "   |\n"
        " 9 |     g[8] <-> g[1] : 2 nvlink\n"
        "   |     ^^^^ `gpu g[8]` declares g[0] to g[7]\n"
        "help: the last one is g[7]\n"
    )


def test_gutter_grows_with_the_line_number() -> None:
    text = "\n" * 99 + "gpu g"
    assert at(text, 99, 102) == (
        f"error[{CODE}]: a message\n    --> box.accl:100:1\n     |\n 100 | gpu g\n     | ^^^\n"
    )


def test_empty_text_and_place_behind_the_end() -> None:
    expected = f"error[{CODE}]: a message\n  --> box.accl:1:1\n   |\n 1 |\n   | ^ here\n"
    assert at("", 0, 0, "here") == expected
    assert at("", 5, 9, "here") == expected
    assert at("ab", 2, 2).endswith(" 1 | ab\n   |   ^\n")


def test_tabs_go_to_the_next_stop() -> None:
    assert at("\ta\tb", 3, 4).endswith(" 1 |     a   b\n   |         ^\n")
    assert at("\ta\tb", 2, 3).endswith(" 1 |     a   b\n   |      ^^^\n")


def test_wide_and_combining_characters_take_their_cells() -> None:
    assert at("帯域 x", 3, 4).endswith(" 1 | 帯域 x\n   |      ^\n")
    assert at("帯域 x", 0, 2).endswith("   | ^^^^\n")
    assert at("e\u0301 x", 3, 4).endswith(" 1 | e\u0301 x\n   |   ^\n")


def test_what_cannot_be_seen_is_escaped() -> None:
    assert at("a\x00\x1b[1m", 1, 2).endswith(" 1 | a\\x00\\x1b[1m\n   |  ^^^^\n")
    rendered = at("\u202e\ud800\U000e0001x", 3, 4)
    assert rendered.endswith(" 1 | \\u202e\\ud800\\U000e0001x\n   | " + " " * 22 + "^\n")
    source = Source("a\nb\x1b.accl", "x")
    text = render([Diagnostic(CODE, "a\x07\nb", (Label(Span(source, 0, 1), "\x1b"),), ("n\x00",), "h\x00\ni")])
    assert text == (
        f"error[{CODE}]: a\\x07 b\n  --> a\\x0ab\\x1b.accl:1:1\n   |\n 1 | x\n   | ^ \\x1b\n"
        "note: n\\x00\nhelp: h\\x00\n      i\n"
    )


def test_carriage_returns_do_not_show() -> None:
    assert at("gpu g\r\nx", 4, 5).endswith(" 1 | gpu g\n   |     ^\n")
    assert at("gpu g\r\nx", 0, 7).endswith(" 1 | gpu g\n   | ^^^^^\n")


def test_several_lines() -> None:
    text = "for {\n    a\n    b\n    c\n}\n"
    assert at(text, 4, 25, "all of this").endswith(" 1 | for {\n   |     ^\n ...\n 5 | }\n   | ^ all of this\n")
    assert at(text, 10, 17, "two").endswith(" 2 |     a\n   |     ^\n 3 |     b\n   |     ^ two\n")
    # A span that ends with a line end ends on that line.
    assert at(text, 4, 6, "x").endswith(" 1 | for {\n   |     ^ x\n")


def test_several_labels() -> None:
    text = "gpu g[8]\nswitch s\n\n\ng[8] <-> s : nv\n"
    source = Source("box.accl", text)
    labels = (
        Label(Span(source, *place_of(text, "g[8] <")), "this one"),
        Label(Span(source, 0, 8), "declared here"),
        Label(Span(source, *place_of(text, ": nv")), "and this"),
    )
    assert render([Diagnostic(CODE, "m", labels, ("first", "second"))]) == (
        f"error[{CODE}]: m\n"
        "  --> box.accl:5:1\n"
        "   |\n"
        " 1 | gpu g[8]\n"
        "   | -------- declared here\n"
        " ...\n"
        " 5 | g[8] <-> s : nv\n"
        "   | ^^^^^^ this one\n"
        "   |            ---- and this\n"
        "note: first\n"
        "note: second\n"
    )


def test_labels_in_another_file() -> None:
    here, there = Source("a.accl", "use"), Source("b.accl", "x\ndeclared")
    labels = (Label(Span(here, 0, 3), ""), Label(Span(there, 2, 10), "here"))
    assert render([Diagnostic(CODE, "m", labels, severity="warning")]) == (
        f"warning[{CODE}]: m\n  --> a.accl:1:1\n   |\n 1 | use\n   | ^^^\n"
        "  ::: b.accl:2:1\n   |\n 2 | declared\n   | -------- here\n"
    )


def test_no_place_at_all() -> None:
    assert render([Diagnostic(CODE, "m", (), help="h")]) == f"error[{CODE}]: m\nhelp: h\n"


def test_diagnostics_stand_apart() -> None:
    diagnostic = Diagnostic(CODE, "m")
    assert render([diagnostic, diagnostic]) == f"error[{CODE}]: m\n\nerror[{CODE}]: m\n"
    assert render([]) == ""


def test_long_lines_are_cut_around_the_place() -> None:
    text = "x" * 5000 + "HERE" + "y" * 5000
    shown, carets = at(text, 5000, 5004, "look").split("\n")[3:5]
    assert shown.startswith(" 1 | ...xxx")
    assert shown.endswith("yyy...")
    assert len(shown) <= 5 + 106
    assert shown[carets.index("^") :].startswith("HERE")
    assert carets.endswith("^^^^ look")
    # A place longer than the line that is shown: carets to its end.
    shown, carets = at(text, 0, 9000).split("\n")[3:5]
    assert carets.strip(" |") == "^" * 100
    assert shown == f" 1 | {'x' * 100}..."


def test_colour_adds_nothing_but_sequences() -> None:
    source = Source("box.accl", "gpu g")
    diagnostic = Diagnostic(CODE, "m", (Label(Span(source, 0, 3), "l"), Label(Span(source, 4, 5))), ("n",), "h")
    coloured = render([diagnostic], colour=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render([diagnostic])


@given(st.text(max_size=40), st.integers(-1, 45), st.integers(-1, 45), st.text(max_size=5))
@settings(max_examples=300, deadline=None)
def test_any_text_and_place(text: str, start: int, end: int, label: str) -> None:
    rendered = at(text, max(0, start), max(0, end), label)
    assert all(character == "\n" or character.isprintable() for character in rendered)
    assert "^" in rendered


@given(st.text("ab\t帯\x00e\u0301", max_size=400), st.integers(0, 400), st.integers(0, 20), st.integers(20, 100))
@settings(max_examples=200, deadline=None)
def test_cut_keeps_the_start_of_the_place(line: str, start: int, length: int, cells: int) -> None:
    start = min(start, len(line))
    shown, skipped = cut(line, start, start + length, cells)
    assert line[skipped : skipped + len(shown)] == shown
    assert skipped <= start <= skipped + len(shown)
    assert start < skipped + len(shown) or start == len(line)
    assert lay_out(shown).cells[-1] <= max(cells, 2) + 10


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_visible_text_stays(text: str) -> None:
    once = visible(text)
    assert visible(once) == once
    assert len(once) >= len(text)


def test_explanations() -> None:
    entry = CatalogueEntry("a-code", "a title", "word " * 40, "wrong\nlines", "right")
    text = explain(entry)
    assert text.startswith("a-code: a title\n\nword word")
    assert text.endswith("\n\nWrong:\n    wrong\n    lines\n\nRight:\n    right\n")
    assert max(map(len, text.split("\n"))) <= 100
    assert all(explain(entry).startswith(f"{code}: ") for code, entry in CATALOGUE.items())
