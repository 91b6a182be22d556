"""Whatever the text, the parser returns a tree or raises DiagnosticError with places in the text."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.diagnostics import DiagnosticError, render
from acclc.source import Source
from acclc.syntax import format_file, parse, parse_link_ref, source_of_bytes

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "grammar" / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```accl\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
WORDS = sorted(
    set(re.findall(r"[A-Za-z_]\w*|[0-9.]+|\S", "\n".join(EXAMPLES))) | {";", "--", "<-", "=>", "//", "'", "é"}
)


def read(text: str) -> None:
    try:
        parse(Source("fuzz.accl", text))
    except DiagnosticError as error:
        check(error, text)
    else:
        once = format_file(Source("fuzz.accl", text))
        assert format_file(Source("fuzz.accl", once)) == once


def check(error: DiagnosticError, text: str) -> None:
    for diagnostic in error.diagnostics:
        for label in diagnostic.labels:
            assert 0 <= label.span.start <= label.span.end <= len(text) + 1
            assert label.span.start <= len(text)
    places = [d.labels[0].span.start for d in error.diagnostics if d.labels]
    assert places == sorted(places)
    assert render(error.diagnostics)


@given(st.text(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text(text: str) -> None:
    read(text)
    try:
        parse_link_ref(Source("--without", text))
    except DiagnosticError as error:
        check(error, text)


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_bytes(data: bytes) -> None:
    try:
        source = source_of_bytes(data, "fuzz.accl")
    except DiagnosticError as error:
        (diagnostic,) = error.diagnostics
        check(error, diagnostic.labels[0].span.source.text)
    else:
        read(source.text)


@given(st.lists(st.sampled_from(WORDS), max_size=30), st.sampled_from([" ", "\n", ""]))
@settings(max_examples=200, deadline=None)
def test_any_words(words: list[str], between: str) -> None:
    read(between.join(words))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_mutated_examples(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(EXAMPLES))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.sampled_from([0, 0, 1, 1, 2, 5, 40])))
        put = data.draw(st.sampled_from(["", "", " ", "\n", *WORDS]))
        text = text[:start] + put + text[end:]
    read(text)


@given(st.sampled_from(EXAMPLES), st.integers(0, 2000))
@settings(max_examples=60, deadline=None)
def test_unfinished_examples(text: str, length: int) -> None:
    read(text[:length])
