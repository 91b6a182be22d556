"""Each command's job, its exit code, and its --json."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Invoke

from acclc import __version__
from acclc.artefact import load_artefact
from acclc.cli import COMMANDS
from acclc.cli.progress import ProgressLine
from acclc.cli.tables import print_summary, print_table
from acclc.driver import Options, analyse
from acclc.source import Source


def test_version_and_help(acclc: Invoke) -> None:
    assert acclc("--version").out == f"acclc, version {__version__}\n"
    text = acclc("--help").out
    for name, words in COMMANDS.items():
        assert name in text
        assert words.split(":")[0].split(",")[0] in text
        assert acclc(name, "--help").code == 0


def test_help_and_version_import_nothing_heavy() -> None:
    script = (
        "import sys\nfrom acclc.cli import main_group\n"
        "try:\n    main_group.main(['--help'], standalone_mode=False)\nexcept SystemExit: pass\n"
        "heavy = {'ortools', 'lark', 'networkx', 'numpy', 'rich', 'jinja2', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_an_unknown_command_is_a_usage_error_with_a_suggestion(acclc: Invoke) -> None:
    done = acclc("complie")
    assert done.code == 2
    assert "did you mean 'compile'" in done.err


def test_compile_writes_what_json_says(acclc: Invoke, source: Path, tmp_path: Path) -> None:
    done = acclc("compile", source, "-o", tmp_path / "out", "--json")
    assert done.code == 0
    summary = json.loads(done.out)
    assert summary["artefact"] == str(tmp_path / "out")
    assert summary["topology"] == {"name": "ring(3)", "ranks": 3, "switches": 0, "links": 6}
    assert summary["verified"] is True
    assert summary["reproducible"] is True
    first, second = summary["collectives"]
    assert (first["name"], first["collective"], second["name"]) == ("gathered", "all_gather", "summed")
    assert (first["goal"], first["status"]) == ("latency", "optimal")
    assert first["bound"]["rounds_per_chunk"] == "1"
    assert first["bound"]["steps"] == 1
    assert [v["realisation"] for v in first["variants"]] == ["put", "eager", "eager", "direct"]
    for variant in first["variants"]:
        assert (variant["chunks"], variant["steps"], variant["rounds"], variant["gap"]) == (1, 1, 1, "0")
        assert (tmp_path / "out" / "gathered" / variant["id"] / "kernel.cu").is_file()


def test_the_same_input_gives_the_same_bytes(acclc: Invoke, source: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert acclc("compile", source, "-o", tmp_path / name).code == 0
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(tmp_path / "two") for p in (tmp_path / "two").rglob("*") if p.is_file())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_page_of_a_compilation_says_how_long_each_search_took(acclc: Invoke, source: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert acclc("compile", source, "-o", tmp_path / "out", "--page", page).code == 0
    assert re.search(r'"solve_seconds":\d', page.read_text())
    assert acclc("show", tmp_path / "out", "-o", page).code == 0
    assert not re.search(r'"solve_seconds":\d', page.read_text())
    assert acclc("compile", source, "--emit", "bound", "--page", page).code == 2


def test_an_existing_folder_is_refused_without_force(acclc: Invoke, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert acclc("compile", source, "-o", out).code == 0
    refused = acclc("compile", source, "-o", out)
    assert refused.code == 1
    assert "--force" in refused.err
    assert acclc("compile", source, "-o", out, "--force").code == 0
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_force_does_not_replace_what_is_no_artefact(acclc: Invoke, source: Path, tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.txt").write_text("years of work")
    done = acclc("compile", source, "-o", precious, "--force")
    assert done.code == 1
    assert "is not an artefact" in done.err
    assert (precious / "chapter1.txt").read_text() == "years of work"


@pytest.mark.parametrize(("name", "better"), [("dgx-1", "dgx_1"), ("4ranks", "a_4ranks"), ("class", "class_")])
def test_a_folder_that_could_not_be_imported_is_refused(
    acclc: Invoke, source: Path, tmp_path: Path, name: str, better: str
) -> None:
    done = acclc("compile", source, "-o", tmp_path / name)
    assert done.code == 1
    assert f"try -o {str(tmp_path / better)!r}" in done.err


def test_a_failed_write_leaves_nothing_behind(
    acclc: Invoke, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes
    written: list[Path] = []

    def full_disk(self: Path, data: bytes) -> int:
        if len(written) == 5:
            raise OSError(28, "No space left on device")
        written.append(self)
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    done = acclc("compile", source, "-o", tmp_path / "out")
    assert done.code == 1
    assert "No space left" in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["small.accl"]


@pytest.mark.parametrize("level", ["problem", "bound", "schedule", "program", "kernel", "source"])
def test_emit_prints_a_level_and_writes_nothing(acclc: Invoke, source: Path, tmp_path: Path, level: str) -> None:
    done = acclc("compile", source, "--emit", level)
    assert done.code == 0
    word = {"problem": "shard 0", "bound": "bound of", "schedule": "step 0", "program": "send t0",
            "kernel": "post entry", "source": "extern \"C\""}[level]  # fmt: skip
    assert word in done.out
    assert not (tmp_path / "build").exists()


def test_impossible_limits_exit_3_with_the_proof(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "hard.accl"
    path.write_text("all_gather on ring(4) { goal chunks 1, steps 1, rounds 1 }")
    done = acclc("compile", path, "-o", tmp_path / "out", "--json")
    assert done.code == 3
    assert "infeasible" in done.err
    answer = json.loads(done.out)
    assert (answer["artefact"], answer["verified"], answer["status"]) == (None, False, "infeasible")
    (collective,) = answer["collectives"]
    assert (collective["goal"], collective["variants"]) == ("chunks 1, steps 1, rounds 1", [])
    assert collective["excluded"][0]["reason"] == "bound"
    assert "excluded: chunks 1, steps 1, rounds 1, by a bound: " in done.err
    assert not (tmp_path / "out").exists()


def test_a_wrong_text_exits_1_with_every_error_and_its_place(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "wrong.accl"
    path.write_text("all_gather on rang(4)\nall_reduce on ring(4) { op plus }\n")
    done = acclc("compile", path)
    assert done.code == 1
    assert f"{path}:1:15" in done.err
    assert f"{path}:2:25" in done.err
    found = json.loads(acclc("check", path, "--json").out)
    assert [d["line"] for d in found["diagnostics"]] == [1, 2]
    assert acclc("check", path).code == 1


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\x00", b"{"])
def test_bytes_that_are_no_program(acclc: Invoke, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.accl"
    path.write_bytes(content)
    assert acclc("check", path).code == 1
    assert acclc("check", tmp_path / "absent.accl").code == 1
    assert acclc("check", tmp_path).code == 1


def test_settings_and_without(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "set.accl"
    path.write_text("topology t(n = 3) {\n link l { 1 GB/s }\n gpu g[n]\n"
                    " for i in 0..<n { g[i] <-> g[(i + 1) % n] : l }\n}\nbroadcast on t\n")  # fmt: skip
    assert "4 ranks" in acclc("check", path, "--set", "n=4").out
    assert acclc("check", path, "--set", "m=4").code == 1
    assert acclc("check", path, "--set", "n").code == 2
    done = acclc("compile", path, "--emit", "problem", "--without", "g[0] <-> g[1]")
    assert "g[0] -> g[1]" not in done.out
    assert "g[1] -> g[2]" in done.out


def test_fmt(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "messy.accl"
    path.write_text("# kept\nall_gather   on ring( 3 )   {goal latency}\n")
    assert acclc("fmt", path, "--check").code == 1
    canonical = acclc("fmt", path).out
    assert canonical.startswith("# kept\n")
    assert acclc("fmt", path, "--write").code == 0
    assert path.read_text() == canonical
    assert acclc("fmt", path, "--check").code == 0


def test_explain(acclc: Invoke) -> None:
    codes = [line.split()[0] for line in acclc("explain").out.splitlines()]
    for code in codes:
        assert code in acclc("explain", code).out
    wrong = acclc("explain", codes[0][:-1])
    assert wrong.code == 2
    assert "did you mean" in wrong.err


def test_bound_prints_the_headroom(acclc: Invoke, source: Path) -> None:
    text = acclc("bound", source).out
    assert "1 round a chunk" in text
    assert "ring" in text
    (first, _) = json.loads(acclc("bound", source, "--json").out)["collectives"]
    assert first["bound"]["certificate"] == "cut"
    assert all(h["times_the_bound"] >= 1 for h in first["headroom"])


def test_verify_run_simulate_show_trace(acclc: Invoke, compiled: Path, tmp_path: Path) -> None:
    assert acclc("verify", compiled).out.endswith("verified\n")
    assert json.loads(acclc("verify", compiled, "--json").out)["verified"] is True
    ran = acclc("run", compiled, "--backend", "numpy", "--size", "100", "--json")
    assert json.loads(ran.out)["ok"] is True
    rows = json.loads(acclc("simulate", compiled, "--size", "1MiB", "--only", "summed", "--json").out)["rows"]
    assert {r["collective"] for r in rows} == {"summed"}
    assert all(r["time_us"] >= r["bound_us"] > 0 for r in rows)
    assert acclc("show", compiled, "-o", tmp_path / "p.html").code == 0
    table = acclc("show", compiled, "--text").out
    assert all(f"{name}/" in table for name in ("gathered", "summed"))
    assert acclc("show", compiled, "--text", "-o", tmp_path / "p.txt").out == ""
    assert (tmp_path / "p.txt").read_text() == table
    assert "<html" in (tmp_path / "p.html").read_text()
    assert acclc("show", compiled, compiled, "-o", tmp_path / "two.html").code == 0
    assert (tmp_path / "two.html").read_text().count(f'"artefact":"{compiled}"') == 4
    assert acclc("show", compiled, compiled, compiled, "-o", tmp_path / "no.html").code == 2
    assert acclc("trace", compiled, "-o", tmp_path / "t.json", "--only", "gathered").code == 0
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_real_times_are_traced_and_drawn(acclc: Invoke, compiled: Path, tmp_path: Path) -> None:
    """By ``run`` and by ``trace`` into the same files; by ``show`` beside the simulated sizes."""
    done = acclc("run", compiled, "--trace", tmp_path / "run", "--size", "1KiB", "--json")
    assert json.loads(done.out)["ok"] is True
    assert acclc("trace", compiled, "--measured", "--mode", "fibres", "-o", tmp_path / "trace").code == 0
    names = [sorted(p.name for p in (tmp_path / folder).iterdir()) for folder in ("run", "trace")]
    assert names[0] == names[1]
    assert len(names[0]) > 1
    for path in (*(tmp_path / "run").iterdir(), *(tmp_path / "trace").iterdir()):
        trace = json.loads(path.read_text())
        assert trace["otherData"]["measured_us"] > 0
        assert {e["cat"] for e in trace["traceEvents"] if e["ph"] == "X"} >= {"send", "receive", "put"}
    assert acclc("show", compiled, "--measured", "--size", "1KiB", "-o", tmp_path / "p.html").code == 0
    assert '"measured":true' in (tmp_path / "p.html").read_text()
    assert acclc("run", compiled, "--trace", tmp_path / "t", "--backend", "numpy").code == 2
    assert acclc("run", compiled, "--trace", "-").code == 2


def test_only_names_what_there_is(acclc: Invoke, compiled: Path) -> None:
    wrong = acclc("simulate", compiled, "--only", "gatherd")
    assert wrong.code == 2
    assert "gathered, summed" in wrong.err
    assert acclc("simulate", compiled, "--only", "gathered/c9s9r9").code == 2
    assert acclc("run", compiled, "--only", "gatherd", "--backend", "numpy").code in (1, 2)


def test_a_tampered_or_truncated_artefact_is_refused(acclc: Invoke, compiled: Path, tmp_path: Path) -> None:
    files = sorted(p.relative_to(compiled) for p in compiled.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    assert len(files) >= 12
    for name in files:
        for damage in ("truncate", "remove", "alter"):
            copy = tmp_path / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(compiled, copy)
            path = copy / name
            data = path.read_bytes()
            if damage == "truncate":
                path.write_bytes(data[: len(data) // 2])
            elif damage == "remove":
                path.unlink()
            else:
                path.write_bytes(data.replace(b"1", b"2", 1) if b"1" in data else data + b"\n")
            assert acclc("verify", copy).code == 1, f"{damage} {name} was not noticed"


def test_the_topologies_are_listed_and_shown(acclc: Invoke) -> None:
    assert "dgx1" in acclc("topo", "list").out
    assert "8 ranks" in acclc("topo", "show", "dgx1").out
    assert acclc("topo", "show", "dgx11").code == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compile", "WRONG"), 1),
        (("compile", "ABSENT"), 1),
        (("compile", "NOTHING"), 1),
        (("compile", "SOURCE", "-o", "TAKEN"), 1),
        (("compile", "SOURCE", "-o", "NEW", "--set", "n"), 2),
        (("compile", "SOURCE", "--emit", "bound"), 2),
        (("check", "WRONG"), 1),
        (("bound", "WRONG"), 1),
        (("verify", "ABSENT"), 1),
        (("verify", "SOURCE"), 1),
        (("run", "TAKEN"), 1),
        (("run", "ABSENT", "--backend", "numpy"), 1),
        (("simulate", "ABSENT"), 1),
        (("simulate", "COMPILED", "--only", "absent"), 2),
        (("simulate", "COMPILED", "--slice", "0"), 2),
    ],
)
def test_json_is_one_object_after_a_failure_too(
    acclc: Invoke, source: Path, compiled: Path, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    (tmp_path / "wrong.accl").write_text("all_gather on rang(4)\n")
    (tmp_path / "nothing.accl").write_text("topology t { link l { 1 GB/s } gpu g[2] g[0] <-> g[1] : l }\n")
    (tmp_path / "taken").mkdir()
    places = {
        "WRONG": tmp_path / "wrong.accl",
        "NOTHING": tmp_path / "nothing.accl",
        "ABSENT": tmp_path / "absent",
        "TAKEN": tmp_path / "taken",
        "NEW": tmp_path / "new",
        "SOURCE": source,
        "COMPILED": compiled,
    }
    done = acclc(*(places.get(word, word) for word in words), "--json")
    answer = json.loads(done.out)
    assert done.code == code
    assert answer["ok"] is False
    assert answer.get("error") or answer["diagnostics"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", ["verify", "run", "simulate", "show", "trace -o t.json"])
def test_what_is_no_artefact_is_the_inputs_fault(acclc: Invoke, tmp_path: Path, source: Path, words: str) -> None:
    for place in (tmp_path, tmp_path / "absent", source):
        command, *options = words.split()
        done = acclc(command, place, *options)
        assert done.code == 1
        assert str(place) in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["small.accl"]


def test_the_places_that_cannot_be_written_are_refused_before_any_work(
    acclc: Invoke, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acclc import driver

    def worked(*_: object, **__: object) -> None:
        raise AssertionError("it compiled first")

    monkeypatch.setattr(driver, "compile_source", worked)
    monkeypatch.chdir(source.parent)
    assert "is a file, not a folder" in acclc("compile", source, "-o", source / "below").err
    assert "exists and is not an artefact" in acclc("compile", source, "-o", ".").err
    assert "exists and is not an artefact" in acclc("compile", source, "-o", source.parent).err


def test_a_reader_that_stops_and_outputs_that_are_closed_or_full(source: Path) -> None:
    acclc = shlex.quote(sys.executable) + " -m acclc"
    cases = [
        (f"{acclc} explain | head -1", 0, 0),
        (f"{acclc} check {shlex.quote(str(source))} >&-", 0, 0),
        (f"{acclc} check {shlex.quote(str(source))}x 2>&-", 1, 0),
        (f"{acclc} topo list > /dev/full", 1, 1),
    ]
    for line, code, lines in cases:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, (line, done.stderr)
        assert len(done.stderr.splitlines()) == lines, done.stderr


def test_tables_lose_nothing_where_the_terminal_is_narrow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, sentence = "123.456789 GB/s", "a long chain of transfers over many links"
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    for width in ("20", "80", "400"):
        monkeypatch.setenv("COLUMNS", width)
        print_table(("name", "x" * 40, "limited by"), [("[g[0]]", figure, sentence)])
        out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert "…" not in out
        assert figure in out
        assert "[g[0]]" in out
        assert set(sentence.split()) <= set(out.split())


def test_the_summary_says_goal_and_notes(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "dgx.accl"
    path.write_text("all_gather on dgx1 { goal pareto }")
    done = acclc("compile", path, "-o", tmp_path / "out", "--time-limit", "0.001")
    assert done.code == 0
    assert "all_gather: all_gather on dgx1, 8 ranks; goal pareto: fallback\n" in done.out
    assert "\n  the deadline cut the search\n" in done.out
    assert "better schedules may exist" in done.out
    assert all(line == line.rstrip() for line in done.out.splitlines())


def test_an_interrupt_keeps_the_best_so_far_and_says_so(
    acclc: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acclc.solve import prober

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prober.Prober, "probe", interrupted)
    path = tmp_path / "dgx.accl"
    path.write_text("all_gather on dgx1 { goal pareto }")
    done = acclc("compile", path, "-o", tmp_path / "out")
    assert done.code == 0
    assert "interrupted: the best so far is kept" in done.out
    assert "not reproducible" in done.out
    assert acclc("verify", tmp_path / "out").code == 0


def test_a_log_gets_a_line_every_ten_seconds_at_most() -> None:
    now = [0.0]
    stream = io.StringIO()
    problem = analyse(Source("<t>", "all_gather on ring(3)"), Options()).problems[0]
    with ProgressLine(stream, lambda: now[0]) as line:
        for seconds, stage in ((3, "a"), (9.9, "b"), (10, "c"), (12, "d"), (25, "e")):
            now[0] = seconds
            line.stage(problem, stage)
    assert stream.getvalue() == "all_gather: c\nall_gather: e\n"


def test_run_takes_the_types_and_operators_that_there_are(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "few.accl"
    path.write_text("all_reduce on ring(2) { op max, goal latency }\nemit { types f64, i32 ops min, max }\n")
    assert acclc("compile", path, "-o", tmp_path / "few").code == 0
    rows = json.loads(acclc("run", tmp_path / "few", "--backend", "numpy", "--size", "64", "--json").out)["rows"]
    assert {(r["dtype"], r["op"]) for r in rows} == {("f64", "max")}


def test_traces_go_into_a_folder_and_a_page_does_not(acclc: Invoke, compiled: Path, tmp_path: Path) -> None:
    assert acclc("trace", compiled, "-o", tmp_path, "--only", "gathered").code == 0
    assert acclc("trace", compiled, "-o", tmp_path / "all").code == 0
    (one,) = tmp_path.glob("*.json")
    assert one.name in {p.name for p in (tmp_path / "all").iterdir()}
    refused = acclc("show", compiled, "-o", tmp_path)
    assert refused.code == 1
    assert f"{tmp_path}: is a folder" in refused.err
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["all", one.name])


def test_the_progress_line_keeps_to_one_line_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    problem = analyse(Source("<t>", "all_gather on ring(3)"), Options()).problems[0]
    monkeypatch.setenv("COLUMNS", "40")
    with ProgressLine(stream) as line:
        line.stage(problem, "x" * 200)
    start = "\r\x1b[K"
    assert stream.getvalue().split(start) == ["", ("all_gather: " + "x" * 200)[:39], ""]


def test_bound_says_which_shapes_are_left_out(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "line.accl"
    path.write_text(
        "topology oneway { link l { 1 GB/s } gpu g[3] g[0] -> g[1] : l g[1] -> g[2] : l }\nbroadcast on oneway\n"
    )
    assert re.search(r"\n    ring +left out: ", acclc("bound", path).out)
    path.write_text("topology t { link l { 1 GB/s } gpu g[2] g[0] <-> g[1] : l }\n")
    done = acclc("bound", path)
    assert (done.code, done.out) == (0, "")
    assert "declares no collective" in done.err


def test_an_interrupt_is_not_a_traceback(acclc: Invoke, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from acclc import driver

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "compile_source", interrupted)
    assert acclc("compile", source, "-o", source.parent / "out").code == 130


def test_a_bug_of_ours_says_so(acclc: Invoke, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from acclc import driver

    def broken(*_: object, **__: object) -> None:
        raise driver.InternalError("the schedule of 'x' does not verify")

    monkeypatch.setattr(driver, "compile_source", broken)
    done = acclc("compile", source, "-o", source.parent / "out")
    assert done.code == 70
    assert "bug of acclc" in done.err


def test_the_summary_ends_with_a_line_a_collective(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artefact = load_artefact(compiled)
    print_summary(artefact, "build/small", 1.5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("verified, written to build/small in 1.5 s")
    head = next(n for n, line in enumerate(lines) if line.strip().startswith("in sum"))
    digest = [line.split()[0] for line in lines[head + 2 : -2]]
    assert digest == [c.name for c in artefact.collectives]
    one = replace(artefact, collectives=artefact.collectives[:1])
    print_summary(one, "build/small", 1.5)
    assert "in sum" not in capsys.readouterr().out
