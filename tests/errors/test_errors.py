"""Exact texts of diagnostics: for every ``NAME.accl`` here, ``NAME.txt`` is what ``acclc check NAME.accl`` says.

``ACCLC_UPDATE_GOLDEN=1 pytest tests/errors`` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from acclc.diagnostics import CATALOGUE, DiagnosticError, render
from acclc.diagnostics.catalogue_import import IMPORT_CODES
from acclc.sema import analyse_text
from acclc.syntax import parse, source_of_bytes

HERE = Path(__file__).parent
TESTS = HERE.parent
CASES = sorted(path.stem for path in HERE.glob("*.accl"))

# Codes that no text of this folder can draw, with the test that draws them (its path below tests/).
ELSEWHERE: dict[str, str] = {
    "file-too-large": "unit/syntax/test_syntax_parser.py",
    "unreadable-file": "unit/syntax/test_syntax_parser.py",
    "unknown-setting": "unit/sema",
    "bad-degrade": "unit/cli/test_repair_command.py",
}

_HEAD = re.compile(r"^(?:error|warning)\[([a-z0-9-]+)\]: ", re.MULTILINE)


def said_of(name: str) -> str:
    """Return what is said of a file: its errors and warnings, or its warnings alone."""
    file = f"{name}.accl"
    try:
        source = source_of_bytes((HERE / file).read_bytes(), file)
        if name.startswith("syntax-"):
            parse(source)
            return ""
        return render(analyse_text(source.text, file).warnings)
    except DiagnosticError as error:
        return render(error.diagnostics)


@pytest.mark.parametrize("name", CASES)
def test_exact_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)  # imports are looked for beside the file, and messages name it as given
    said = said_of(name)
    golden = HERE / f"{name}.txt"
    if os.environ.get("ACCLC_UPDATE_GOLDEN") == "1":
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")
    # A part of an import cycle, or a file that another imports, may be right in itself.
    assert said or name.endswith("-imported")


def test_no_text_without_its_case() -> None:
    assert sorted(path.stem for path in HERE.glob("*.txt")) == CASES


def test_every_code_is_said_somewhere() -> None:
    said: set[str] = set()
    for path in HERE.glob("*.txt"):
        said.update(_HEAD.findall(path.read_text(encoding="utf-8")))
    assert said <= CATALOGUE.keys()
    # the importers' codes are drawn by files of other formats; their tests ask the same of them
    missing = CATALOGUE.keys() - said - ELSEWHERE.keys() - {entry.code for entry in IMPORT_CODES}
    assert not missing, f"no file in tests/errors draws {sorted(missing)}"


@pytest.mark.parametrize("code", sorted(ELSEWHERE))
def test_codes_without_text_are_tested_elsewhere(code: str) -> None:
    place = TESTS / ELSEWHERE[code]
    files = [place] if place.is_file() else sorted(place.rglob("test_*.py"))
    assert any(f'"{code}"' in file.read_text(encoding="utf-8") for file in files)
