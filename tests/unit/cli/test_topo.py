"""``acclc topo import``, ``show`` and ``join``: what people type."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import Invoke

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "importers"
BOX = FOLDER / "topo-m-dgx1-cards-any-order.txt"


@pytest.fixture
def box(acclc: Invoke, tmp_path: Path) -> Path:
    done = acclc("topo", "import", BOX, "-o", tmp_path / "box.accl", "--name", "box")
    assert done.code == 0
    return tmp_path / "box.accl"


def test_import_writes_a_file_that_the_other_commands_take(acclc: Invoke, box: Path) -> None:
    assert acclc("check", box).out == "all_reduce: all_reduce on box_nvlink, 8 ranks\n"
    assert acclc("fmt", "--check", box).code == 0
    done = acclc("bound", box, "--json")
    assert json.loads(done.out)["collectives"][0]["bound"]["rounds_per_chunk"] == "7/24"


def test_import_prints_to_standard_output_and_reads_standard_input(
    acclc: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((FOLDER / "topo-m-asymmetric-4.txt").read_bytes())))
    done = acclc("topo", "import", "-")
    assert done.code == 0
    assert done.out.startswith("# Imported from standard input: the output of `nvidia-smi topo -m`.\n")
    assert "topology machine {" in done.out


def test_import_says_what_it_did_and_warns(acclc: Invoke, tmp_path: Path) -> None:
    done = acclc("topo", "import", FOLDER / "nccl-vm-hints.xml", "-o", tmp_path / "x.accl")
    assert done.out.endswith(f"2 GPUs, 2 switches, 2 network cards (NCCL's topology XML) -> {tmp_path / 'x.accl'}\n")
    assert "warning[import-partial]" in done.err
    assert acclc("topo", "import", BOX, "-o", tmp_path / "x.accl").code == 2
    assert acclc("topo", "import", BOX, "-o", tmp_path / "x.accl", "--force").code == 0


def test_import_as_json(acclc: Invoke, tmp_path: Path) -> None:
    done = acclc("topo", "import", BOX, "-o", tmp_path / "x.accl", "--json")
    found = json.loads(done.out)
    assert (found["ranks"], found["switches"], found["hosts"], found["nics"], found["links"]) == (8, 4, 2, 4, 41)
    assert {n["evidence"] for n in found["notes"]} == {"read", "concluded", "assumed"}
    assert json.loads(acclc("topo", "import", BOX, "--json").out)["text"].startswith("# Imported from ")
    bad = json.loads(acclc("topo", "import", FOLDER / "bad-astra-tbd.yml", "--json").out)
    assert (bad["ok"], bad["diagnostics"][0]["line"], bad["diagnostics"][0]["column"]) == (False, 3, 19)


@pytest.mark.parametrize("name", ["bad-empty.txt", "bad-nccl-graph-dump.xml", "bad-topo-m-cell.txt"])
def test_a_bad_file_is_the_inputs_fault(acclc: Invoke, name: str) -> None:
    done = acclc("topo", "import", FOLDER / name)
    assert done.code == 1
    assert done.err.startswith("error[import-")
    assert done.out == ""


def test_files_that_are_not_there_and_settings_that_are_wrong(acclc: Invoke, tmp_path: Path) -> None:
    assert acclc("topo", "import", tmp_path / "none.txt").code == 1
    assert "there is no setting `nvlik`" in acclc("topo", "import", BOX, "--set", "nvlik=3").err
    assert "nvlink { 22 GB/s" in acclc("topo", "import", BOX, "--set", "nvlink=22").out


def test_show_names_the_library_topology_with_the_map(acclc: Invoke, box: Path) -> None:
    done = acclc("topo", "show", box)
    assert "topology box_nvlink" in done.out
    assert "  it is the library's dgx1, at other rates\n    ranks 0 to 7 of dgx1 are g[" in done.out
    assert "  its nvlink links are the library's dgx1, at other rates\n" in done.out
    assert "# Concluded: GPU0 to GPU7 are wired directly" in done.out
    assert "nic card[0]: plx[2] (net)" in done.out
    found = json.loads(acclc("topo", "show", box, "--json").out)["topologies"]
    assert [t["name"] for t in found] == ["box_nvlink", "box"]
    assert found[0]["library"][0]["name"] == "dgx1"
    assert sorted(found[0]["library"][0]["ranks"]) == list(range(8))


def test_show_draws_and_warns(acclc: Invoke, tmp_path: Path) -> None:
    acclc("topo", "import", FOLDER / "topo-m-asymmetric-4.txt", "-o", tmp_path / "x.accl")
    done = acclc("topo", "show", tmp_path / "x.accl")
    assert "g[0]  X  2  1  1\n" in done.out
    assert "warning: GPUs differ in what they can send: " in done.out
    assert "no topology of the library is like it" in done.out
    assert acclc("topo", "show", tmp_path / "x.accl", "--topology", "y").code == 2
    assert acclc("topo", "show", tmp_path / "none.accl").code == 1


def test_show_draws_a_picture(acclc: Invoke, box: Path, tmp_path: Path) -> None:
    assert acclc("topo", "show", box, "-o", tmp_path / "box.svg").code == 0
    picture = (tmp_path / "box.svg").read_text()
    root = ElementTree.fromstring(picture)
    shapes = [e.tag.rpartition("}")[2] for e in root]
    assert (shapes.count("circle"), shapes.count("rect")) == (8, 1 + 10)
    assert shapes.count("path") == 16 + 12 + 4 + 1 + 4  # NVLink, PCIe, cards, sockets, and the legend
    assert picture == acclc("topo", "show", box, "--topology", "box", "-o", "-").out
    assert acclc("topo", "show", box, "-o", tmp_path / "box.svg").code == 2


def test_show_takes_the_library_too(acclc: Invoke) -> None:
    done = acclc("topo", "show", "torus(2, 3)")
    assert done.code == 0
    assert "it is the library's torus(2, 3)" in done.out
    assert acclc("topo", "show", "nonsense").code == 1


def test_show_tells_of_shared_uplinks(acclc: Invoke) -> None:
    done = acclc("topo", "show", FOLDER / "topo-m-pcie-chain-wrapped.txt")
    assert "  the 3 GPUs of plx[1] share 12 GB/s beyond it, of 36 GB/s that they can send\n" in done.out


def test_show_takes_a_foreign_file_as_it_is(acclc: Invoke) -> None:
    done = acclc("topo", "show", FOLDER / "rocm-smi-ring.txt")
    assert done.code == 0
    assert "its xgmi links are the library's " in done.out
    assert acclc("topo", "show", FOLDER / "bad-prose.txt").code == 1


def test_join_makes_a_cluster_of_the_box(acclc: Invoke, box: Path, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    done = acclc("topo", "join", box, "--hosts", 4, "--fabric", "rail", "-o", tmp_path / "deep" / "cluster.accl")
    assert done.code == 0
    assert 'import "../box.accl"' in (tmp_path / "deep" / "cluster.accl").read_text()
    assert acclc("check", tmp_path / "deep" / "cluster.accl").out == "all_reduce: all_reduce on cluster, 32 ranks\n"
    small = acclc(
        "topo", "join", box, "--hosts", 2, "--fabric", "switch", "--topology", "box_nvlink", "--set", "net=25"
    )
    assert "Assumed: a network card for each GPU" in small.out
    assert "link wire { 25 GB/s" in small.out
    assert acclc("topo", "join", box, "--hosts", 2, "--fabric", "ring").code == 1
    assert acclc("topo", "join", box, "--hosts", 0).code == 1


def test_from_a_pasted_matrix_to_a_schedule_in_three_commands(acclc: Invoke, tmp_path: Path) -> None:
    paste = tmp_path / "topo.txt"
    paste.write_bytes((FOLDER / "topo-m-without-header.txt").read_bytes())
    assert acclc("topo", "import", paste, "-o", tmp_path / "box.accl").code == 0
    done = acclc("compile", tmp_path / "box.accl", "-o", tmp_path / "build", "--time-limit", 20, "--json")
    assert done.code == 0
    summary = json.loads(done.out)
    assert summary["verified"] is True
    assert acclc("show", tmp_path / "build", "-o", tmp_path / "box.html").code == 0
    assert "<script" in (tmp_path / "box.html").read_text()


def test_map_says_which_gpu_plays_each_rank(acclc: Invoke, box: Path, tmp_path: Path) -> None:
    (tmp_path / "x.accl").write_text("all_gather on dgx1 { goal latency }\n")
    assert acclc("compile", tmp_path / "x.accl", "-o", tmp_path / "x").code == 0
    done = acclc("topo", "map", tmp_path / "x", box, "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["wanted"], found["machine"], found["how"]) == ("dgx1", "box", "same")
    assert sorted(found["devices"]) == list(range(8))
    assert acclc("topo", "show", box, "--machine", tmp_path / "box.json").code == 0
    again = acclc("topo", "map", tmp_path / "x", tmp_path / "box.json")
    assert again.out.startswith("box is dgx1; ranks: 0 on fast.g[")
    other = acclc("topo", "map", tmp_path / "x", "ring(8)")
    assert other.code == 1
    assert "error: ring(8) " in other.err
