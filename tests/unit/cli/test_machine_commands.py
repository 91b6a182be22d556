"""``acclc topo discover`` and ``probe``, and ``acclc doctor``, on the machine that runs the tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Invoke


def test_discover_writes_a_machine_that_compiles(acclc: Invoke, tmp_path: Path) -> None:
    done = acclc("topo", "discover", "--cores", "-o", tmp_path / "here.accl")
    assert done.code == 0
    assert acclc("check", tmp_path / "here.accl").code == 0
    assert acclc("topo", "show", tmp_path / "here.accl").code == 0
    found = json.loads(acclc("topo", "discover", "--cores", "--json").out)
    assert found["ok"] is True
    assert found["ranks"] >= 1
    assert found["text"].startswith("# Imported from the machine ")
    assert acclc("topo", "discover", "--cores", "-o", tmp_path / "here.accl").code == 2
    assert acclc("topo", "discover", "--cores", "--set", "lane=x").code == 1


def test_probe_measures_a_machine_that_compiles(acclc: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "fast.accl"
    done = acclc(
        "topo", "probe", "--ranks", 2, "--size", "64KiB", "--repeats", 3, "-o", path, "--name", "fast", "--json"
    )
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["ranks"], found["links"], found["name"]) == (2, 1 if "<->" in path.read_text() else 2, "fast")
    assert isinstance(found["outliers"], list)
    assert acclc("check", path).code == 0
    assert acclc("topo", "show", path, "-o", tmp_path / "fast.svg").code == 0
    assert acclc("topo", "probe", "--size", "8").code == 2


def test_probe_says_what_an_engine_lacks(acclc: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    done = acclc("topo", "probe", "--engine", "cupy")
    assert done.code == 1
    assert done.err.startswith("error: the engine cupy needs cupy")


def test_doctor_says_how_everything_is(acclc: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from acclc.machines import doctor

    monkeypatch.setattr(doctor, "LIMIT_S", 20)
    done = acclc("doctor", "--json")
    found = json.loads(done.out)
    assert found["ok"] == (done.code == 0)
    assert {c["state"] for c in found["checks"]} <= {"ok", "warning", "broken"}
    assert all(c["help"] for c in found["checks"] if c["state"] != "ok")
    words = acclc("doctor").out
    assert f"{len(found['checks'])} checks, " in words
