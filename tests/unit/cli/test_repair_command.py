"""``acclc repair`` and ``--degrade``: what holds is kept, the rest is made anew, and both are said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Invoke

from acclc import compile_text
from acclc.audit import audit

BOARDS = """
all_gather on dgx1 among g[0..3] as left { goal latency }
all_gather on dgx1 among g[4..7] as right { goal latency }
send_recv on ring(4) as pair { pairs g[0] -> g[1], goal bandwidth }
"""


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(BOARDS, "boards").save(tmp_path_factory.mktemp("boards") / "boards")


def test_only_what_uses_a_lost_link_is_made_anew(acclc: Invoke, boards: Path, tmp_path: Path) -> None:
    done = acclc("repair", boards, "--without", "g[1] <-> g[2]", "-o", tmp_path / "mended", "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["verified"], found["without"], found["degrade"]) == (True, ["g[1] <-> g[2]"], [])
    left, right, pair = found["collectives"]
    assert left["searched"] is True
    assert [v["fate"] for v in left["before"]["variants"]] == ["lost"]
    assert left["before"]["variants"][0]["lost_links"] == ["g[1] -> g[2]", "g[2] -> g[1]"]
    assert left["topology"] == "dgx1 without g[1] <-> g[2]"
    assert not any(v["kept"] for v in left["variants"])
    # no link of the second group's machine is gone; the third's transfer goes elsewhere
    assert (right["searched"], right["topology"]) == (False, "dgx1")
    assert (pair["searched"], pair["topology"]) == (True, "ring(4) without g[1] <-> g[2]")
    assert [v["fate"] for v in pair["before"]["variants"]] == ["lost"]
    assert all(row.ok for row in audit(tmp_path / "mended"))


def test_a_schedule_that_loses_nothing_is_kept_with_its_kernel(acclc: Invoke, tmp_path: Path) -> None:
    text = "broadcast on line(4) among g[0..2] as b { goal latency }"
    folder = compile_text(text, "line").save(tmp_path / "line")
    done = acclc("repair", folder, "--without", "g[2] -> g[1]", "--json")
    found = json.loads(done.out)["collectives"][0]
    assert found["searched"] is False
    assert [v["same_kernel"] for v in found["variants"]] == [True]
    assert all(row.ok for row in audit(tmp_path / "line_repaired"))
    words = acclc("repair", folder, "--without", "g[2] -> g[1]", "--force").out
    assert "b: every schedule holds as it was\n" in words
    assert "are the same to the byte" in words


def test_slower_links_count_rounds_anew(acclc: Invoke, compiled: Path, tmp_path: Path) -> None:
    done = acclc("repair", compiled, "--degrade", "g[0] <-> g[1] = 10 GB/s", "-o", tmp_path / "slow", "--json")
    assert done.code == 0
    for entry in json.loads(done.out)["collectives"]:
        assert [v["fate"] for v in entry["before"]["variants"]] == ["slower"]
        assert entry["topology"] == "ring(3) with g[0] <-> g[1] at 10 GB/s"
    assert all(row.ok for row in audit(tmp_path / "slow"))


def test_lanes_that_are_slow_are_links_of_their_own(acclc: Invoke, tmp_path: Path) -> None:
    (tmp_path / "x.accl").write_text("all_gather on dgx1 { goal chunks 1, steps 2 }\n")
    degrade = ("--degrade", "1 of g[0] -> g[1] = 12.5 GB/s")
    assert acclc("check", tmp_path / "x.accl", *degrade).code == 0
    done = acclc("compile", tmp_path / "x.accl", *degrade, "--emit", "problem")
    assert "nvlink at 12.5 GB/s" in done.out
    assert json.loads(acclc("bound", tmp_path / "x.accl", *degrade, "--json").out)["collectives"]


def test_what_cannot_be_repaired_is_said(acclc: Invoke, compiled: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "out")
    assert acclc("repair", compiled, *out).code == 2
    for wrong, code in (
        ("g[0] <-> g[1]", "bad-degrade"),
        ("g[0] <-> g[1] = 10", "bad-degrade"),
        ("g[0] <-> g[1] = 10 GHz", "bad-degrade"),
        ("g[0] <-> g[1] = 0 GB/s", "bad-rate"),
        ("g[0] <-> g[1] = 90000 GB/s", "bad-degrade"),
        ("g[0] <-> = 9 GB/s", "unexpected"),
        ("g[0] <-> g[9] = 9 GB/s", "unknown-node"),
    ):
        done = acclc("repair", compiled, "--degrade", wrong, *out)
        assert done.code == 1, wrong
        assert done.err.startswith(f"error[{code}"), done.err
    done = acclc("repair", compiled, "--without", "g[0] <-> *", *out)
    assert done.code == 1
    assert "error[not-connected]: data of `g[0]` cannot reach `g[1]`" in done.err
    assert acclc("repair", tmp_path / "none", "--without", "g[0] <-> g[1]", *out).code == 1
    assert acclc("repair", compiled, "--without", "g[0] <-> g[1]", "-o", compiled).code == 1
    assert not (tmp_path / "out").exists()


def test_a_limit_that_cannot_be_met_any_more_is_no_schedule(acclc: Invoke, tmp_path: Path) -> None:
    folder = compile_text("all_gather on ring(4) { goal steps 2 }", "ring").save(tmp_path / "ring")
    done = acclc("repair", folder, "--without", "g[0] <-> g[1]", "--json")
    assert done.code == 3
    assert json.loads(done.out)["status"] == "infeasible"
