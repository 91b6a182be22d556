"""The canonical text: the same tree, every comment, and nothing left to change."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
import syntax_trees
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.source import Source
from acclc.syntax import ast, format_file, format_tree, parse, printer
from acclc.syntax.scanner import scan

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("acclc/library/*.accl"), *ROOT.glob("examples/*.accl")])


def tree(text: str) -> ast.File:
    return parse(Source("<text>", text))


def formatted(text: str) -> str:
    return format_file(Source("<text>", text))


def comments(text: str) -> list[str]:
    return sorted(comment.text for comment in scan(text).comments)


def check(text: str) -> str:
    once = formatted(text)
    assert formatted(once) == once
    assert tree(once) == tree(text)
    assert comments(once) == comments(text)
    assert all(line == line.rstrip() for line in once.split("\n"))
    assert "\n\n\n" not in once
    return once


@given(syntax_trees.files)
@settings(max_examples=60, deadline=None)
def test_printed_trees_are_read_back(file: ast.File) -> None:
    text = format_tree(file)
    assert tree(text) == file
    assert formatted(text) == text or check(text)


@given(syntax_trees.expressions)
@settings(max_examples=100, deadline=None)
def test_printed_expressions_are_read_back(expression: ast.Expression) -> None:
    let = tree(f"topology t {{ let v = {printer.expression(expression)} }}").items[0].body[0]  # type: ignore[union-attr]
    assert let.value == expression  # type: ignore[union-attr]


_SPACES = st.sampled_from([" ", "\n", "\n\n", "\n\n\n", "\t", "  # c\n", "\n# d\n", "\n\n    # e e\n\n", " #\r\n"])
_TOKEN = re.compile(r'"[^"]*"|[A-Za-z_]\w*(?:/[A-Za-z]+)?|[0-9]+(?:\.[0-9]+)?|<->|->|\.\.<|\.\.|\*\*|\S')


@given(syntax_trees.files, st.data())
@settings(max_examples=60, deadline=None)
def test_comments_and_spaces_anywhere(file: ast.File, data: st.DataObject) -> None:
    tokens = _TOKEN.findall("".join(line for line in format_tree(file).splitlines(True) if line[:1] != "#"))
    # Neighbouring spaces are drawn from a short cycle: a draw for each token would be too slow.
    spaces = data.draw(st.lists(_SPACES, min_size=1, max_size=12))
    words = "".join(token + spaces[i % len(spaces)] for i, token in enumerate(tokens))
    text = re.sub(r"\b(up|both)\s(?:[^#]|#[^\n]*\n)*?(to|ways)\b", r"\1 \2", words)
    assert tree(text) == file
    check(text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_of_the_project(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    check(text)


CANONICAL = [
    "topology dgx1 {\n    link nvlink { 25 GB/s, 0.7 us }\n    gpu g[8]\n\n    g[0] <-> g[1] : 2 nvlink  # two\n}\n",
    "for_ on x\n",
    "all_gather on dgx1 { goal pareto, chunks up to 6 }\n",
    "all_gather on x {\n    goal pareto\n    chunks up to 6\n}\n",
    "topology p(n = 16) {\n    for b in 0..<n, r in 0..<8 { box[b].g[r] <-> rail[r] : (2 * n) ib }\n}\n",
    "emit {\n    types f32, bf16\n    ops sum\n}\n",
    "emit { types f32, bf16 }\n",
    "topology x = y(1, n = 3) without 1 of a <-> b, * -> c[0..3, 2 * n]\n",
    "together as tp {\n    all_reduce on d among g[0..3]\n} with { goal latency }\n",
    "# a\n\n# b\nimport x  # c\n# d\n",
    "import x            # a\nimport longer_name  # b\n",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text_stays(text: str) -> None:
    assert formatted(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("topology x{gpu g[8]switch s}", "topology x {\n    gpu g[8]\n    switch s\n}\n"),
        ("all_gather on x {  }", "all_gather on x\n"),
        ("a on x among g,h as y", "a on x among g, h as y\n"),
        ("a on x as y among g", "a on x among g as y\n"),
        ("a on x { channels up to 2 blocks 3 }", "a on x { channels 2, blocks up to 3 }\n"),
        ("a on x { goal rounds 4, chunks 2 }", "a on x { goal chunks 2, rounds 4 }\n"),
        ("topology t { let x = ((1 + (2)) * 3) ** 2 ** 3 }", "topology t {\n    let x = ((1 + 2) * 3) ** 2 ** 3\n}\n"),
        ("topology t { let x = 1 - (2 - 3) - 4 }", "topology t {\n    let x = 1 - (2 - 3) - 4\n}\n"),
        ("topology t { let x = -(2 ** 3) * (-2) ** 3 }", "topology t {\n    let x = -2 ** 3 * (-2) ** 3\n}\n"),
        ("topology t { link a { kind b 3.50 GB/s, } }", "topology t {\n    link a { kind b, 3.5 GB/s }\n}\n"),
        ("topology t { g # a\n <-> h : n }", "topology t {\n    # a\n    g <-> h : n\n}\n"),
        ("topology t # a\n { gpu g }", "topology t {  # a\n    gpu g\n}\n"),
        ("import a # b", "import a  # b\n"),
        ("\n\n# a\n\n\n\nimport a\n\n\n\nimport b", "# a\n\nimport a\n\nimport b\n"),
        ("import a\r\nimport b\r\n", "import a\nimport b\n"),
        ("", ""),
        ("# only", "# only\n"),
    ],
)
def test_made_canonical(text: str, expected: str) -> None:
    assert check(text) == expected


def test_long_braces_are_opened() -> None:
    relays = ", ".join(f"node_number_{i}" for i in range(12))
    assert check(f"all_gather on x {{ goal pareto, relays {relays} }}") == (
        f"all_gather on x {{\n    goal pareto\n    relays {relays}\n}}\n"
    )


def test_docs_are_printed_above_their_topology() -> None:
    file = tree("# One.\n#\n# Two.\ntopology a { gpu g }\nimport b\ntopology c { }\n")
    assert format_tree(file) == "# One.\n#\n# Two.\ntopology a {\n    gpu g\n}\n\nimport b\ntopology c {}\n"


def test_a_number_without_decimals_has_no_text() -> None:
    with pytest.raises(ValueError, match="no decimal"):
        printer.decimal(Fraction(1, 3))
    assert printer.decimal(Fraction(1, 2**20)) == "0.00000095367431640625"
