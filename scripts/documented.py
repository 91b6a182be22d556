"""The commands and files of the documentation: what its fenced blocks say, for the tests and benchmarks that run them.

A block is, by its language:

    bash      commands, run as they stand; after a first line ``# not run by the tests: REASON`` they are only shown
    console   commands after ``$``, with the output that they give below
    accl      a file of the language; a first line ``# NAME.accl: ...`` or ``# NAME.accl`` names it, and makes it a file
    text      anything that is no command
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/tutorial.md",
    "docs/seeing.md",
    "docs/solvers.md",
    "docs/importers.md",
    "docs/machines.md",
    "docs/engines.md",
    "docs/torch.md",
    "docs/gpus.md",
    "docs/mpi.md",
    "docs/nccl.md",
    "docs/msccl.md",
    "docs/extend.md",
    "docs/gallery.md",
    "docs/architecture.md",
    "docs/api.md",
    "docs/language.md",
    "grammar/README.md",
    "CONTRIBUTING.md",
)
"""In the order in which their commands run, in one folder: later pages use what the earlier ones have made."""

_BLOCK = re.compile(r"^( *)```([a-z]*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"# not run by the tests: (.+)")
_FILE = re.compile(r"# (\w+\.accl)\b")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a reader does. ``kind``: ``run`` a script, ``write`` the file ``name``, or ``show`` (why not run).

    ``output`` is what the page says that it prints; None: nothing is said.
    """

    page: str
    line: int
    kind: str
    text: str
    name: str = ""
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block with its language and the line on which it begins."""

    line: int
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, m.start()) + 1, m[2], re.sub(rf"^{m[1]}", "", m[3], flags=re.MULTILINE))
        for m in _BLOCK.finditer(text)
    ]


def steps(page: str) -> Iterator[Step]:
    """Yield what a reader of the page does, in order."""
    for block in blocks(page):
        first = block.text.partition("\n")[0]
        if block.language == "bash":
            reason = _NOT_RUN.fullmatch(first)
            if reason:
                yield Step(page, block.line, "show", block.text, reason[1])
            else:
                yield Step(page, block.line, "run", block.text)
        elif block.language == "console":
            for command, output in _commands(block.text):
                yield Step(page, block.line, "run", command, output=output)
        elif block.language == "accl" and _FILE.match(first):
            yield Step(page, block.line, "write", block.text, _FILE.match(first)[1])  # type: ignore[index]


def _commands(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    for part in parts[1:]:
        command, _, output = part.partition("\n")
        yield command, output
