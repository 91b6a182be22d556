"""Mutations of files as people damage them, and what must hold of any import and of any text of the language."""

from __future__ import annotations

import random

from acclc.diagnostics import DiagnosticError, render
from acclc.importers import import_machine, source_of, text_of, topology_name
from acclc.sema import analyse_text
from acclc.source import Source
from acclc.syntax import format_file, source_of_bytes

PIECES = (
    *(
        "GPU0",
        "GPU7",
        "NV4",
        "NV18",
        "NV99999",
        "PIX",
        "SYS",
        "X",
        "OK",
        "N/A",
        "\t",
        " ",
        "\n",
        "\r\n",
        "\x1b[4m",
        "\x00",
    ),
    *(
        "<",
        ">",
        "/>",
        "</gpu>",
        '"',
        "&lt;",
        "<!DOCTYPE a>",
        "count=",
        "0",
        "-1",
        "1e400",
        "1e-400",
        "99999999999999999999",
    ),
    *("{", "}", "[", "]", ",", ":", "null", "true", "NaN", '""', "[[]]", "#", "tbd", "- ", "topology:", "é", "\u202e"),
    *(
        "CPU Affinity",
        "NUMA Affinity",
        "0-31",
        "XGMI",
        "PCIE",
        "rank=",
        "host_hash=",
        "GB/s",
        "µ",
        "link",
        "all_reduce",
    ),
)


LONGEST_TEXT = 50_000
"""Characters of an imported machine that are read back: 2,000 GPUs take the parser seconds, and show no more."""
LANGUAGE_PIECES = (
    *("{", "}", "[", "]", "(", ")", ",", ";", "=", "+", "-", "*", "/", "%", "..", "..<", "->", "<->", "<-", "\n", " "),
    *("0", "1", "2", "7", "63", "100000", "99999999999999999999", "1.5", "1e9", "GB/s", "Gbit/s", "us", "MiB", "x"),
    *("for", "in", "if", "topology", "gpu g", "switch s", "host h", "nic n", "link", "budget", "without", "import"),
    *("all_reduce", "all_to_all_v", "together", "goal", "emit", "chunks", "steps", "pareto", "root", "among", "é", "#"),
)


def mutated(data: bytes, other: bytes, seed: int, pieces: tuple[str, ...] = PIECES) -> bytes:
    """Return a file with one to five mutations; what is put in is of ``pieces`` or of the file ``other``."""
    dice = random.Random(seed)
    text = data.decode("utf-8", errors="replace")
    rest = other.decode("utf-8", errors="replace")
    for _ in range(dice.choice((1, 1, 1, 2, 2, 5))):
        text = _one(text, rest, dice, pieces)
    return text.encode("utf-8", errors="replace")


def _one(text: str, rest: str, dice: random.Random, pieces: tuple[str, ...]) -> str:
    at = dice.randint(0, len(text))
    end = min(len(text), at + dice.choice((1, 1, 1, 2, 5, 20, 200)))
    lines = text.split("\n")
    row = dice.randrange(len(lines))
    match dice.randrange(9):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:at] + dice.choice(pieces) + text[at:]
        case 2:
            return text[:at] + dice.choice(pieces) + text[end:]
        case 3:
            return text[:at] if dice.random() < 0.2 else text[:at] + text[end:]
        case 4:
            return "\n".join(lines[:row] + lines[row + 1 :])
        case 5:
            return "\n".join(lines[:row] + [lines[row]] * 2 + lines[row + 1 :])
        case 6:
            start = dice.randint(0, len(rest))
            return text[:at] + rest[start : start + dice.choice((3, 40, 400))] + text[at:]
        case 7:
            other_row = dice.randrange(len(lines))
            lines[row], lines[other_row] = lines[other_row], lines[row]
            return "\n".join(lines)
        case _:
            return text[:at] + text[at:end][::-1] + text[end:]


def check(data: bytes, whole: bool = True) -> str:
    """Import bytes; whatever they are, only a diagnostic may come of it, or a text that the language takes.

    Returns ``imported`` or the code of the first error.
    """
    try:
        imported = import_machine(source_of(data, "fuzz.txt"))
    except DiagnosticError as error:
        if not render(error.diagnostics):
            raise AssertionError("nothing was said") from error
        return error.diagnostics[0].code
    text = text_of(imported, topology_name("fuzz"), "fuzz.txt")
    assert not any(d.severity == "error" for d in imported.warnings)
    assert render(imported.warnings) or not imported.warnings
    if whole and len(text) <= LONGEST_TEXT:
        assert format_file(Source("fuzz.accl", text)) == text
        assert analyse_text(text, "fuzz.accl").topologies
    return "imported"


def check_language(data: bytes) -> str:
    """Analyse bytes as a file of the language: only a diagnostic may come of it, or problems.

    Returns ``analysed`` or the code of the first error.
    """
    try:
        analyse_text(source_of_bytes(data, "fuzz.accl").text, "fuzz.accl")
    except DiagnosticError as error:
        if not render(error.diagnostics):
            raise AssertionError("nothing was said") from error
        return error.diagnostics[0].code
    return "analysed"
