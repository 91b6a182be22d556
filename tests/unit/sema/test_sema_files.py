"""Imports, limits, and the catalogue's own examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from sema_helpers import PAIR, codes_of, files

from acclc.diagnostics import DiagnosticError
from acclc.diagnostics.catalogue_sema import SEMA_CODES
from acclc.ir.problem import Problem
from acclc.sema import analyse, analyse_text
from acclc.sema.report import Report
from acclc.source import Source, Span
from acclc.syntax import ast, parse

EXAMPLES = [entry for entry in SEMA_CODES if entry.wrong]


@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: entry.code)
def test_examples_of_the_catalogue(entry: object) -> None:
    assert isinstance(entry, type(SEMA_CODES[0]))
    assert codes_of(entry.wrong, name="example.accl", read_import=files(example=entry.wrong)) == [entry.code]
    assert codes_of(entry.right, name="example.accl", read_import=files(example=entry.right)) == []


def test_every_code_is_explained() -> None:
    for entry in SEMA_CODES:
        assert entry.explanation.endswith((".", ")"))
        assert entry.title
        assert bool(entry.wrong) == bool(entry.right) == (entry.code != "unknown-setting")


def test_imports(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "box.accl").write_text(
        'import "../base.accl"\ntopology box = base(4)\nall_gather on nowhere\n', encoding="utf-8"
    )
    (tmp_path / "base.accl").write_text("topology base(n = 2) = ring(n)\n", encoding="utf-8")
    main = tmp_path / "main.accl"
    main.write_text('import "parts/box.accl"\nimport dgx1\nall_gather on box\nall_reduce on dgx1\n', encoding="utf-8")
    analysis = analyse(parse(Source(str(main), main.read_text(encoding="utf-8"))))
    # Only topologies are taken from an import, and only its own: `base` is not known here.
    assert [(p.name, len(p.topology.ranks)) for p in analysis.problems] == [("all_gather", 4), ("all_reduce", 8)]
    main.write_text('import "parts/box.accl"\nall_gather on base\n', encoding="utf-8")
    assert codes_of(main.read_text(encoding="utf-8"), name=str(main)) == ["unknown-topology"]


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, "import-failed", "No such file"),
        (b"\xff\xfe", "not-text", "UTF-8"),
        (b"topology {", "unexpected", ""),
        ("folder", "import-failed", "not a regular file"),
    ],
)
def test_imports_that_fail(tmp_path: Path, content: bytes | str | None, code: str, words: str) -> None:
    target = tmp_path / "other.accl"
    if content == "folder":
        target.mkdir()
    elif isinstance(content, bytes):
        target.write_bytes(content)
    with pytest.raises(DiagnosticError) as caught:
        analyse_text('import "other.accl"\nall_gather on lost\n', str(tmp_path / "main.accl"))
    # The name that the import would have brought is not reported as unknown.
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert words in caught.value.diagnostics[0].message


def test_an_import_is_read_once() -> None:
    reads: list[str] = []

    def read(target: str, importer: Source) -> Source:
        reads.append(target)
        texts = {
            "a.accl": 'import "c.accl"\ntopology a = c\n',
            "b.accl": 'import "c.accl"\ntopology b = c\n',
            "c.accl": "topology c { gpu g[0] }\n",
        }
        return Source(target, texts[target])

    with pytest.raises(DiagnosticError) as caught:
        analyse_text('import "a.accl"\nimport "b.accl"\nall_gather on a\nall_gather on b\n', read_import=read)
    assert [d.code for d in caught.value.diagnostics] == ["bad-dimension"]
    assert sorted(reads) == ["a.accl", "b.accl", "c.accl", "c.accl"]


def test_two_imports_of_one_name() -> None:
    reader = files(a="topology x = ring(2)\n", b="topology x = ring(3)\n")
    assert codes_of('import "a.accl"\nimport "b.accl"\nall_gather on x\n', read_import=reader) == ["duplicate-name"]
    assert codes_of("import dgx1\ntopology dgx1 = ring\n") == ["duplicate-name"]


def test_imports_end_somewhere() -> None:
    reader = files(**{f"f{i}": f'import "f{i + 1}.accl"\n' for i in range(100)})
    assert codes_of('import "f0.accl"\ntopology x = ring\n', read_import=reader) == ["nested-too-deep"]


def test_aliases_end_somewhere() -> None:
    chain = "".join(f"topology t{i} = t{i + 1}\n" for i in range(500)) + "topology t500 = ring\n"
    assert set(codes_of(chain)) == {"nested-too-deep"}
    loop = "topology a = b\ntopology b = c\ntopology c = a\n"
    assert "recursive-topology" in codes_of(loop)


@pytest.mark.parametrize(
    "text",
    [
        "topology x { gpu g[999999999] }",
        "topology x { gpu g[1000, 1000, 1000] }",
        "topology x { gpu g[60000]  gpu h[60000] }",
        "topology y { dgx1 box[100000] }",
        "topology x { gpu g[2]  for a in 0..10 ** 9 { let b = a } }",
        "topology x {\n    link l { 1 GB/s }\n    gpu g[3000]\n    gpu h[3000]\n    g -> h : l\n}",
        "all_gather on ring(3000)",
        "all_to_all on ring(2000)",
    ],
)
def test_too_large(text: str) -> None:
    assert codes_of(text) == ["too-large"]


def test_a_loop_full_of_errors_ends() -> None:
    text = "topology x {\n" + PAIR + "    for a in 0..<1000, b in 0..<1000 { g[a] <-> h[b] : l }\n}\n"
    assert codes_of(text) == ["unknown-node", "unknown-node"]


@pytest.mark.parametrize(("first", "last"), [("", ["division-by-zero"]), ("gpu h[2 ** 70]  ", ["number-too-large"])])
def test_long_loops_end_early_after_an_error_elsewhere(first: str, last: list[str]) -> None:
    loop = "for a in 0..<30000 { let b = 1 / (25000 - a) }"
    assert codes_of("topology x {\n" + PAIR + f"    {first}{loop}\n}}\n") == last


def test_errors_come_in_order_of_place_and_with_warnings() -> None:
    text = "topology x(a = 1, n = m) {\n" + PAIR + "    g[5] <-> g[6] : k\n}\nall_gather on x\nall_gatherr on y\n"
    with pytest.raises(DiagnosticError) as caught:
        analyse_text(text)
    places = [d.labels[0].span.start for d in caught.value.diagnostics]
    assert places == sorted(places)
    assert {d.severity for d in caught.value.diagnostics} == {"error"}  # unused ones are not said beside errors


def test_warnings() -> None:
    text = (
        "topology x(n = 3, spare = 2) {\n    link l { 1 GB/s }\n    link m { 1 GB/s }\n    gpu g[n]\n    switch s\n"
        "    g[0] <-> g[1] : l\n}\n"
    )
    analysis = analyse_text(text)
    assert [(d.code, d.severity) for d in analysis.warnings] == [
        ("unused-parameter", "warning"),
        ("unused-link-class", "warning"),
        ("unused-node", "warning"),
        ("unused-node", "warning"),
    ]
    assert analysis.warnings[2].message == "no link touches the GPU `g[2]`"


def test_a_class_that_only_a_parent_uses_is_used() -> None:
    text = (
        "topology box { link up { 1 GB/s }  gpu g[2] }\ntopology pod {\n    box b[2]\n    b[0].g <-> b[1].g : b.up\n}\n"
    )
    assert codes_of(text) == ["unused-node"]


def test_trees_made_by_hand() -> None:
    source = Source("<made>", "made by hand")
    span = Span(source, 0, 4)
    call = ast.TopologyCall("ring", (ast.Argument(None, ast.Number(3, span), span),), (), span, span)
    use = ast.CollectiveUse("all_gather", call, (), "gathered", (), span, span)
    (problem,) = analyse(ast.File((use,), span)).problems
    assert isinstance(problem, Problem)
    assert (problem.name, len(problem.shards)) == ("gathered", 3)
    star = ast.NodeRef((), span)
    wrong = ast.CollectiveUse("all_gather", call, (star,), None, (), span, span)
    with pytest.raises(DiagnosticError, match="does not stand for nodes"):
        analyse(ast.File((wrong,), span))
    need = ast.NeedStatement("a", (), (star,), span)
    decl = ast.TopologyDecl("t", (), (ast.For((), (need,), span),), "", span, span)
    with pytest.raises(TypeError, match="no statement of a topology"):
        analyse(ast.File((decl,), span))


def test_report_keeps_one_of_each_place() -> None:
    source = Source("<made>", "made by hand")
    report = Report()
    for _ in range(3):
        report.error("self-link", "said", Span(source, 1, 2))
    report.warning("unused-node", "late", Span(source, 3, 4))
    report.error("self-link", "first", Span(source, 0, 1))
    assert report.attempts == 4
    with pytest.raises(DiagnosticError) as caught:
        report.finish()
    assert [d.message for d in caught.value.diagnostics] == ["first", "said", "late"]
