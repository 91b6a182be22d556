"""The model, the catalogue and the suggestions."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.diagnostics import CATALOGUE, CatalogueEntry, Diagnostic, DiagnosticError, Label, render, suggest
from acclc.diagnostics import catalogue as catalogue_module
from acclc.sema import analyse_text
from acclc.source import Source, Span
from acclc.syntax import parse


def test_an_unknown_code_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="not in the catalogue"):
        Diagnostic("no-such-code", "m")


def test_a_code_belongs_to_one_entry() -> None:
    entry = CatalogueEntry("a", "b", "c")
    with pytest.raises(ValueError, match="twice"):
        catalogue_module._merge([entry], [entry])


def test_error_carries_and_prints_its_diagnostics() -> None:
    first, second = Diagnostic("unexpected", "m"), Diagnostic("unexpected", "n", severity="warning")
    error = DiagnosticError([first, second])
    assert error.diagnostics == (first, second)
    assert str(error) == render([first, second])
    assert DiagnosticError(first).diagnostics == (first,)
    for nothing_wrong in ([], [second]):
        with pytest.raises(ValueError, match="at least one error"):
            DiagnosticError(nothing_wrong)


def test_dictionary_form() -> None:
    source = Source("a.accl", "ab\ncdef\ng")
    label = Label(Span(source, 4, 9), "text")
    diagnostic = Diagnostic("unexpected", "m", (label,), ("n",), "h")
    expected = {
        "file": "a.accl",
        "line": 2,
        "column": 2,
        "endLine": 3,
        "endColumn": 2,
        "severity": "error",
        "code": "unexpected",
        "message": "m",
        "notes": ["n"],
        "help": "h",
    }
    assert json.loads(json.dumps(diagnostic.to_dict())) == expected
    bare = Diagnostic("unexpected", "m").to_dict()
    assert [bare[key] for key in ("file", "line", "column", "endLine", "endColumn", "help")] == [None] * 6


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.code)
def test_catalogue_entries_are_whole(entry: CatalogueEntry) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.code)
    assert entry.title
    assert not entry.title.endswith(".")
    assert entry.explanation.endswith((".", ")"))
    assert bool(entry.wrong) == bool(entry.right)


@pytest.mark.parametrize("entry", [entry for entry in CATALOGUE.values() if entry.wrong], ids=lambda entry: entry.code)
def test_wrong_examples_are_wrong_and_right_ones_right(entry: CatalogueEntry) -> None:
    assert entry.code in said_of(entry.wrong)
    parse(Source("example.accl", entry.right))
    assert entry.code not in said_of(entry.right)


def said_of(text: str) -> set[str]:
    def read(target: str, importer: Source) -> Source:
        if target != importer.name:
            raise FileNotFoundError(2, "no such file", target)
        return importer

    try:
        return {d.code for d in analyse_text(text, "example.accl", read_import=read).warnings}
    except DiagnosticError as error:
        return {d.code for d in error.diagnostics}


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        ("all_gahter", ["all_gather", "all_reduce"], "all_gather"),
        ("allgather", ["all_gather", "gather"], "all_gather"),
        ("AllGather", ["all_gather", "gather"], "all_gather"),
        ("GBs", ["GB/s", "MB/s"], "GB/s"),
        ("nvlnk", ["nvlink", "ib"], "nvlink"),
        ("reduce_scater", ["reduce", "reduce_scatter", "scatter"], "reduce_scatter"),
        ("bandw", ["bandwidth", "latency"], "bandwidth"),
        ("re", ["reduce", "relays"], None),
        ("x", ["g"], None),
        ("zebra", ["nvlink", "ib"], None),
        ("", ["a"], None),
        ("a", [], None),
        ("ab" * 500, ["ab" * 499 + "ba"], None),
    ],
)
def test_suggestions(word: str, candidates: list[str], expected: str | None) -> None:
    assert suggest(word, candidates) == expected


@given(st.text("abcd_", max_size=8), st.lists(st.text("abcd_", max_size=8), max_size=6))
@settings(max_examples=150, deadline=None)
def test_suggestions_do_not_depend_on_order(word: str, candidates: list[str]) -> None:
    found = suggest(word, candidates)
    assert found == suggest(word, candidates[::-1])
    assert found is None or found in candidates
    if word in candidates:
        assert found is not None
