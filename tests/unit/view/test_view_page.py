"""The page: one file that needs nothing else, with every text of the user's kept as text, and a script that works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hand_built import dgx1
from view_cases import cluster_view, ring_all_gather, ring_reduce, star_all_gather, view_of, with_programs

from acclc.resources import folder
from acclc.view.page import join_modules, render_page
from acclc.view.view_data import build_view, decode_view, encode_view

PAGES = folder("templates") / "page"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not on PATH")
CASES = [ring_all_gather(4), ring_reduce(4), star_all_gather(3)]
EVIL = "</script><script>document.title='owned'</script><!--"


class Parts(HTMLParser):
    """Tags with attributes, and the text directly inside elements, by id or tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.open: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self.open = None

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open] = self.texts.get(self.open, "") + data


def data_of(page: str) -> bytes:
    return Parts(page).texts["view"].encode()


def test_it_is_one_file_that_loads_nothing() -> None:
    page = render_page(view_of(*CASES))
    for tag, attributes in Parts(page).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "href", "srcset", "action", "data"} & set(attributes), tag
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}  # the name of a namespace
    assert "@import" not in page
    assert "url(" not in page
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|importScripts)\b", page)
    assert "default-src 'none'" in page


def test_the_script_never_makes_markup_from_text() -> None:
    script = join_modules(PAGES)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)


def test_its_data_is_view_json() -> None:
    view = view_of(*CASES)
    assert decode_view(data_of(render_page(view))) == build_view(view)


def test_it_is_the_same_each_time() -> None:
    assert render_page(view_of(*CASES)) == render_page(view_of(*CASES))


def test_names_of_the_user_stay_text() -> None:
    problem, schedule = ring_all_gather(4, name="<script>alert(1)</script>")
    topology = replace(problem.topology, nodes=tuple(replace(n, name=f"{EVIL}{n.id}") for n in problem.topology.nodes))
    view = view_of((replace(problem, topology=topology), schedule), name=EVIL, source=EVIL)
    view = replace(view, collectives=(replace(view.collectives[0], notes=(EVIL,)),))
    page = render_page(view)
    parts = Parts(page)
    assert [a.get("type") for tag, a in parts.tags if tag == "script"] == ["application/json", None]
    assert parts.texts["title"] == f"{EVIL} · acclc"
    assert parts.texts["h1"] == EVIL
    assert "<" not in data_of(page).decode()
    read = decode_view(data_of(page))
    assert read.topologies[0].name == "<script>alert(1)</script>"
    assert read.topologies[0].nodes[2].name == f"{EVIL}2"


def test_a_dgx1_with_large_kernels_stays_small() -> None:
    from hand_built import problem_of

    from acclc.ir.problem import Collective
    from acclc.solve.greedy import schedules_of

    cases = []
    for collective in (Collective.ALL_GATHER, Collective.ALL_REDUCE, Collective.ALL_TO_ALL):
        problem = problem_of(dgx1(), collective)
        cases += [(problem, schedule) for schedule in schedules_of(problem)[:2]]
    lines = "\n".join(
        f"    put(r, {i % 7}, {i}, p{i % 6}, out({i % 8}, {i * 37 % 64}), in(0, 0));" for i in range(4000)
    )
    page = render_page(view_of(*cases, source=lines))
    assert len(lines) > 180_000
    assert len(page.encode()) < 1_000_000


def write(folder_: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (folder_ / f"{name}.mjs").write_text(text)
    return folder_


def test_modules_are_joined_after_what_they_import(tmp_path: Path) -> None:
    pages = write(
        tmp_path,
        app='import { a, b } from "./one.mjs";\nimport { c } from "./two.mjs";\nconsole.log(a + b + c);\n',
        one='import { c } from "./two.mjs";\nexport const a = c;\nexport function b() {}\n',
        two="export const c = 1;\n",
    )
    assert join_modules(pages) == (
        "// ---- two.mjs\nconst c = 1;\n"
        "// ---- one.mjs\nconst a = c;\nfunction b() {}\n"
        "// ---- app.mjs\nconsole.log(a + b + c);\n"
    )


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"app": 'import { a } from "./one.mjs";\nconst a = 1;\n', "one": "export const a = 2;\n"}, "both declare 'a'"),
        ({"app": 'import { a } from "./one.mjs";\n', "one": 'import { b } from "./app.mjs";\n'}, "imports itself"),
        ({"app": 'import * as x from "./one.mjs";\n'}, "cannot be joined"),
        ({"app": "export default 1;\n"}, "cannot be joined"),
        ({"app": 'const x = "</script>";\n'}, "cannot be joined"),
    ],
)
def test_modules_that_cannot_be_joined_are_refused(tmp_path: Path, modules: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        join_modules(write(tmp_path, **modules))


def test_every_module_of_the_page_is_part_of_the_script() -> None:
    script = join_modules(PAGES)
    for module in sorted(PAGES.glob("*.mjs")):
        assert f"// ---- {module.name}\n" in script


@needs_node
def test_the_functions_of_the_modules(tmp_path: Path) -> None:
    view = with_programs(view_of(*CASES, source="// kernel\n"))
    view = replace(view, collectives=view.collectives + cluster_view(20, 8).collectives)
    (tmp_path / "view.json").write_bytes(encode_view(build_view(view)))
    done = subprocess.run(
        [str(NODE), "--test", str(Path(__file__).with_name("page_modules.test.mjs"))],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PAGES": PAGES.as_uri(), "VIEW": str(tmp_path / "view.json")},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"^# pass 0$", done.stdout, re.MULTILINE)


@needs_node
def test_the_joined_script_is_valid(tmp_path: Path) -> None:
    script = tmp_path / "page.js"
    script.write_text(f'(() => {{\n"use strict";\n{join_modules(PAGES)}\n}})();\n')
    done = subprocess.run([str(NODE), "--check", str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
