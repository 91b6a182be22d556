"""From an imported box to a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from importer_tools import FIXTURES as FOLDER

from acclc.diagnostics import DiagnosticError
from acclc.driver import Options, analyse
from acclc.importers import import_machine, source_of, text_of
from acclc.importers.join import choose, join_text
from acclc.ir.problem import NodeKind, Topology
from acclc.sema import topology_named
from acclc.source import Source
from acclc.syntax import format_file, read_source


def box_file(folder: Path, name: str) -> Path:
    path = folder / "box.accl"
    path.write_text(text_of(import_machine(source_of((FOLDER / name).read_bytes(), name)), "box", name))
    return path


def cluster(folder: Path, name: str, hosts: int, fabric: str, *settings: str, use: int | None = None) -> Topology:
    path = box_file(folder, name)
    boxes = analyse(read_source(path), Options()).topologies
    text = join_text(choose(boxes, None, [t.name for t in boxes]), "box.accl", hosts, fabric, settings)
    assert format_file(Source("cluster.accl", text)) == text
    (folder / "cluster.accl").write_text(text)
    options = Options(settings={"hosts": use} if use else {})
    (problem,) = analyse(read_source(folder / "cluster.accl"), options).problems
    return problem.topology


def test_rails_join_card_r_of_every_host(tmp_path: Path) -> None:
    found = cluster(tmp_path, "topo-m-dgx1-cards-any-order.txt", 4, "rail")
    assert len(found.ranks) == 32
    names = [n.name for n in found.nodes]
    for rail in range(4):
        node = names.index(f"rail[{rail}]")
        near = {names[e.src] for e in found.links if e.dst == node}
        assert near == {f"node[{h}].card[{rail}]" for h in range(4)}


def test_a_switch_joins_all_cards_and_the_number_of_hosts_stays_free(tmp_path: Path) -> None:
    found = cluster(tmp_path, "topo-m-dgx1-cards-any-order.txt", 2, "switch", use=3)
    assert len(found.ranks) == 24
    names = [n.name for n in found.nodes]
    fabric = names.index("fabric")
    assert sum(e.dst == fabric for e in found.links) == 12


def test_the_rate_is_that_of_the_card_or_set(tmp_path: Path) -> None:
    found = cluster(tmp_path, "nccl-vm-hints.xml", 2, "rail")
    assert {c.bandwidth for c in found.classes if c.name == "wire"} == {12 * 10**9}
    found = cluster(tmp_path, "nccl-vm-hints.xml", 2, "rail", "net=400 Gbit/s", "net=2 us")
    (wire,) = (c for c in found.classes if c.name == "wire")
    assert (wire.bandwidth, wire.latency * 10**6) == (50 * 10**9, 2)


def test_a_box_without_cards_gets_one_for_each_gpu(tmp_path: Path) -> None:
    found = cluster(tmp_path, "topo-m-asymmetric-4.txt", 3, "rail")
    assert len(found.ranks) == 12
    assert sum(n.kind is NodeKind.SWITCH for n in found.nodes) == 4
    assert "Assumed: a network card for each GPU" in (tmp_path / "cluster.accl").read_text()


def test_grids_and_single_nodes_are_joined_one_by_one() -> None:
    text = join_text(topology_named("torus(2, 2)"), "x.accl", 2, "rail")
    assert text.count("for b in 0..<hosts {") == 4


def test_cards_of_different_rates_get_a_class_each(tmp_path: Path) -> None:
    path = tmp_path / "x.accl"
    path.write_text(
        "topology x {\n    link a { 1 GB/s }\n    link b { 2 GB/s }\n    gpu g[2]\n    nic c[3]\n"
        "    g <-> c[0] : a\n    g[0] <-> c[1..2] : b\n}\n"
    )
    (box,) = analyse(read_source(path), Options()).topologies
    text = join_text(box, "x.accl", 2, "switch")
    assert "wire2" in text
    assert "for b in 0..<hosts, r in 1..<3 { node[b].c[r] <-> fabric : wire2 }" in text
    (tmp_path / "y.accl").write_text(text)
    assert len(analyse(read_source(tmp_path / "y.accl"), Options()).problems) == 1


@pytest.mark.parametrize(
    ("hosts", "fabric", "settings", "words"),
    [
        (1, "rail", (), "1 hosts: 2 to 4096 can be joined"),
        (2, "rails", (), "did you mean `rail`"),
        (2, "rail", ("pcie=3",), "nothing in this file takes the setting `pcie`"),
    ],
)
def test_what_cannot_be_joined(hosts: int, fabric: str, settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(DiagnosticError, match=words):
        join_text(topology_named("ring(4)"), "x.accl", hosts, fabric, settings)


def test_which_topology_of_a_file_is_the_box() -> None:
    ring, dgx1 = topology_named("ring(3)"), topology_named("dgx1")
    assert choose([ring, dgx1], None, [ring.name, "dgx1"]) is dgx1
    assert choose([ring, dgx1], ring.name, [ring.name, "dgx1"]) is ring
    with pytest.raises(DiagnosticError, match="declares no topology"):
        choose([ring], "dgx1", [ring.name])
    with pytest.raises(DiagnosticError, match="declares no topology"):
        choose([ring], None, [])
