"""Every command of the documentation runs, in order, and prints what the page says; the site builds, and is whole."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acclc.cli import COMMANDS, main_group
from acclc.cli.failures import run

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from documented import PAGES, Step, blocks, steps  # noqa: E402

pytestmark = pytest.mark.xdist_group("docs")

FIRST = "README.md"
"""Its commands make build/dgx1, which other pages use."""
TUTORIAL = "docs/tutorial.md"
LONGEST_S = 240
"""Of one command: a safety net; how long they take is measured by benchmarks/first_steps.py."""
MATRIX = next(s.text for s in steps(TUTORIAL)).partition("END'\n")[2].partition("END\n")[0]
"""What the README's reader has saved as topo.txt."""
NOT_RUN = {
    "README.md": ["it makes the environment in which the tests run"],
    "docs/torch.md": ["it measures this machine for a minute or two", "it needs torch and a script of yours"],
    "docs/mpi.md": ["it installs", "they start eight ranks of MPI in a test of their own"],
    "docs/nccl.md": ["it installs"],
    "docs/index.md": ["it makes the environment in which the tests run"],
    "docs/gallery.md": ["it compiles the whole library"],
}
"""What is only shown, and why; each is marked so on its page."""


class Workplace:
    """A folder in which a reader follows the pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
        (folder / "scripts").symlink_to(ROOT / "scripts")
        (folder / "topo.txt").write_text(MATRIX)
        (folder / "bin").mkdir()
        command = folder / "bin" / "acclc"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m acclc "$@"\n')
        command.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")]),
            "ACCLC_CACHE_DIR": str(folder / "cache"),
            "COLUMNS": "100",
        }
        self.done: set[str] = set()

    def follow(self, page: str, *, processes: bool = False) -> None:
        """Do what a page says; with ``processes`` each command has one of its own, as it has for a reader."""
        if page in self.done:
            return
        self.done.add(page)
        for step in steps(page):
            where = f"{step.page}:{step.line}"
            if step.kind == "write":
                (self.folder / step.name).write_text(step.text)
            elif step.kind == "run":
                words = None if processes else _plain(step.text)
                output = self._in_shell(step.text, where) if words is None else self._here(words, where)
                if step.output is not None:
                    said = [line for line in map(_plain_words, step.output.splitlines()) if line not in ("", "...")]
                    missing = [line for line in said if line not in _plain_words(output)]
                    assert not missing, f"{where}: {step.text} does not print what it says: {missing[0]}"

    def _in_shell(self, text: str, where: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", text], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=LONGEST_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{where}:\n{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _here(self, commands: list[list[str]], where: str) -> str:
        """Run plain commands within this process: Python and the solver are started once for all."""
        import contextlib
        import io

        out, err = io.StringIO(), io.StringIO()
        before, cwd = dict(os.environ), Path.cwd()
        try:
            os.environ.update(self.environment)
            os.chdir(self.folder)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                for words in commands:
                    code = run(lambda words=words, **how: main_group.main(words, **how))
                    assert code == 0, f"{where}: acclc {shlex.join(words)}: {code}\n{out.getvalue()}{err.getvalue()}"
        finally:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(before)
        return out.getvalue()


def _plain(text: str) -> list[list[str]] | None:
    """The words of each command, where all are of acclc and need no shell."""
    commands = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)
        if not words:
            continue
        unquoted = re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", line)
        if words[0] != "acclc" or set(unquoted) & set("|&;<>$*?`"):
            return None
        commands.append(words[1:])
    return commands


def _plain_words(output: str) -> str:
    """An output without its times and the widths of its columns. In a page ``...`` stands for what is left out."""
    return re.sub(r"\d+\.\d+ s\b", "N s", " ".join(output.split()))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """One who begins with the tutorial, in an empty folder."""
    place = Workplace(tmp_path_factory.mktemp("newcomer"))
    place.follow(TUTORIAL, processes=True)
    return place


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@needs_compiler
@pytest.mark.parametrize("page", [p for p in PAGES if p != TUTORIAL and any(s.kind == "run" for s in steps(p))])
def test_the_commands_of_a_page_run(workplace: Workplace, page: str) -> None:
    workplace.follow(FIRST)
    workplace.follow(page)


@needs_compiler
def test_a_new_user_gets_from_a_pasted_matrix_to_files_of_other_engines(newcomer: Workplace) -> None:
    """The tutorial holds the whole path, each command a process of its own, and leaves behind what it promises."""
    words = {line.split()[1] for s in steps(TUTORIAL) for line in s.text.splitlines() if line.startswith("acclc ")}
    assert {"topo", "bound", "compile", "verify", "run", "show", "trace", "plot", "simulate", "export"} <= words
    for name in ("box.accl", "build/box/manifest.json", "box.html", "box.svg", "box.pdf"):
        assert (newcomer.folder / name).stat().st_size > 0, name
    for folder, suffix in (("traces", "json"), ("algorithms", "xml"), ("plans", "json")):
        assert list((newcomer.folder / folder).glob(f"*.{suffix}")), folder


def test_what_is_only_shown_is_listed_with_its_reason() -> None:
    shown = {page: [s.name for s in steps(page) if s.kind == "show"] for page in PAGES}
    assert {page: reasons for page, reasons in shown.items() if reasons} == NOT_RUN


def test_every_page_is_walked_and_every_block_says_what_it_is() -> None:
    pages = {str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")}
    assert pages <= set(PAGES)
    for page in PAGES:
        for block in blocks(page):
            where = f"{page}:{block.line}"
            assert block.language in {"bash", "console", "accl", "python", "text", "json", "xml"}, where
            if block.language in ("text", "json", "xml"):
                assert not re.search(r"^\$ ", block.text, re.MULTILINE), f"{where}: commands in a block of text"


def test_the_commands_of_the_tool_are_all_in_the_docs() -> None:
    everything = "\n".join((ROOT / page).read_text() for page in PAGES)
    assert {name for name in COMMANDS if f"acclc {name}" not in everything} == set()


def test_a_page_that_prints_something_else_is_noticed(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    import documented

    def wrong(page: str) -> Iterator[Step]:
        yield Step(page, 1, "run", "acclc --version", output="acclc, version 99\n")

    monkeypatch.setattr(sys.modules[__name__], "steps", wrong)
    assert documented.steps is not wrong
    with pytest.raises(AssertionError, match="does not print what it says"):
        workplace.follow("somewhere")


def test_the_site_builds_strictly_and_shows_itself_without_a_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len([p for p in PAGES if p.startswith("docs/")])
    loaded: set[Any] = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", text)
        loaded |= {
            m for tag in tags for m in re.findall(r"(?:src|href)=\"?([a-z]+:[^\"\s>]+)", tag) if m[:5] != "data:"
        }
    for style in (tmp_path / "site").rglob("*.css"):
        loaded |= set(re.findall(r"url\([\"']?(https?:[^)]+)", style.read_text(encoding="utf-8")))
    assert loaded == set()
