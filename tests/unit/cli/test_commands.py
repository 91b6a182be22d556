"""Each command's job, its exit code, and its --json."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Invoke

from acclc import __version__
from acclc.cli import COMMANDS


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
    assert first["bound"]["rounds_per_chunk"] == "1"
    assert first["bound"]["steps"] == 1
    (variant,) = first["variants"]
    assert (variant["chunks"], variant["steps"], variant["rounds"], variant["gap"]) == (1, 1, 1, "0")
    assert (tmp_path / "out" / "gathered" / variant["id"] / "kernel.cu").is_file()


def test_the_same_input_gives_the_same_bytes(acclc: Invoke, source: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert acclc("compile", source, "-o", tmp_path / name).code == 0
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(tmp_path / "two") for p in (tmp_path / "two").rglob("*") if p.is_file())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


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
    assert repr(better) in done.err


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
    assert json.loads(done.out)["status"] == "infeasible"
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
    assert "1 rounds a chunk" in text
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
    assert "<html" in (tmp_path / "p.html").read_text()
    assert acclc("trace", compiled, "-o", tmp_path / "t.json", "--only", "gathered").code == 0
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


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
