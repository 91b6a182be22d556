"""``acclc tune``: what is measured, written and said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Invoke

from acclc import compile_text

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def two_variants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = "all_reduce on full(3)\nbroadcast on line(4) { root g[0], goal bandwidth }"
    return compile_text(text, "tuned").save(tmp_path_factory.mktemp("tune") / "tuned")


def test_figures_become_ranges(acclc: Invoke, two_variants: Path, tmp_path: Path) -> None:
    artefact = Path(shutil.copytree(two_variants, tmp_path / "tuned"))
    options = ("--transport", "cpu", "--min", 64, "--max", "4K", "--rounds", 1)
    done = acclc("tune", artefact, *options, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [c["name"] for c in told["collectives"]] == ["all_reduce"]  # the other has one variant
    found = told["collectives"][0]
    assert [m["bytes"] for m in found["measured"]] == [64, 256, 1024, 4096]
    assert all(len(m["seconds"]) >= 2 for m in found["measured"])
    assert found["ranges"][0]["min_bytes"] == 0
    written = json.loads((artefact / "tuning.json").read_text())["value"]["tunings"][0]
    assert written["collectives"] == [{"name": "all_reduce", "ranges": found["ranges"]}]
    assert acclc("verify", artefact).code == 0
    assert acclc("run", artefact, "--size", 4096).code == 0


def test_a_dry_run_leaves_the_artefact(acclc: Invoke, two_variants: Path) -> None:
    done = acclc("tune", two_variants, "--transport", "cpu", "--max", 64, "--rounds", 1, "--dry-run")
    assert done.code == 0, done.err
    assert "*" in done.out
    assert "is not written" in done.out
    assert not (two_variants / "tuning.json").exists()


def test_mistakes_are_said(acclc: Invoke, two_variants: Path, tmp_path: Path) -> None:
    assert acclc("tune", two_variants, "--min", "1M", "--max", 8).code == 2
    done = acclc("tune", two_variants, "--only", "nothing")
    assert (done.code, "no collective 'nothing'" in done.err) == (1, True)
    assert acclc("tune", tmp_path / "none").code == 1
    done = acclc("tune", two_variants, "--only", "broadcast")
    assert (done.code, "nothing to tune" in done.err) == (1, True)
