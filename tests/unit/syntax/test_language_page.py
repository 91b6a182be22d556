"""Every example of grammar/README.md is a complete, right file in canonical form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from acclc.sema import analyse_text, library_names
from acclc.source import Source
from acclc.syntax import format_file
from acclc.syntax.words import RESERVED

PAGE = (Path(__file__).parents[3] / "grammar" / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```accl\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_are_found() -> None:
    assert len(EXAMPLES) >= 8
    assert PAGE.count("```") == 2 * len(EXAMPLES)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_is_right_and_canonical(text: str) -> None:
    assert format_file(Source("<page>", text)) == text
    analysis = analyse_text(text, "<page>")
    assert analysis.problems
    assert not analysis.warnings


def test_lists_of_the_page_are_complete() -> None:
    listed = re.search(r"These words cannot be names: `([^`]*)`", PAGE)
    assert listed is not None
    assert set(listed[1].split()) == RESERVED
    library = re.search(r"The library has `([^`]*)`", PAGE)
    assert library is not None
    assert sorted(library[1].split()) == sorted(library_names())
