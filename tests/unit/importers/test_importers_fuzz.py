"""Whatever is in a file, of the language too: a diagnostic or something that is taken; never a traceback."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from fuzzing import LANGUAGE_PIECES, check, check_language, mutated
from hypothesis import given, settings
from hypothesis import strategies as st
from importer_tools import FIXTURES as FOLDER

from acclc.diagnostics import DiagnosticError
from acclc.importers import FORMATS, import_machine, source_of

ROOT = Path(__file__).parents[3]
TEXTS = [p.read_bytes() for folder in ("examples", "acclc/library") for p in sorted((ROOT / folder).glob("*.accl"))]
FILES = [p.read_bytes() for p in sorted(FOLDER.iterdir()) if p.stat().st_size < 6000]


@settings(max_examples=250, deadline=None)
@given(st.integers(0, len(FILES) - 1), st.integers(0, len(FILES) - 1), st.integers(0, 2**32))
def test_mutated_files(one: int, other: int, seed: int) -> None:
    check(mutated(FILES[one], FILES[other], seed), whole=seed % 4 == 0)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, len(TEXTS) - 1), st.integers(0, len(TEXTS) - 1), st.integers(0, 2**32))
def test_mutated_texts_of_the_language(one: int, other: int, seed: int) -> None:
    check_language(mutated(TEXTS[one], TEXTS[other], seed, LANGUAGE_PIECES))


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode("utf-8", errors="replace"))))
def test_anything(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("path", [p for p in sorted(FOLDER.iterdir()) if p.stat().st_size < 6000], ids=lambda p: p.name)
def test_numbers_that_nothing_has(path: Path) -> None:
    """What is taken from a file and put into the text stays within what the language takes."""
    data = path.read_bytes()
    numbers = list(re.finditer(rb"(?<![\w.+-])\d+(\.\d+)?(e[+-]?\d+)?(?![\w.])", data))
    for number in numbers[:: len(numbers) // 10 + 1]:
        for other in (b"0", b"1e-15", b"1.3e6", b"999999999999", b"1e15"):
            check(data[: number.start()] + other + data[number.end() :])


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_refuses_every_other_file_with_a_diagnostic(format: str) -> None:
    for path in sorted(FOLDER.iterdir()):
        with contextlib.suppress(DiagnosticError):
            import_machine(source_of(path.read_bytes(), path.name), format=format)
