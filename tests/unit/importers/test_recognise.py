"""Naming the library topology that a machine is: found under any numbering, never where a link differs."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from importer_tools import FIXTURES as FOLDER

from acclc.importers import import_machine, source_of, text_of
from acclc.ir.problem import LinkClass, NodeId, Topology
from acclc.recognise import recognise
from acclc.sema import analyse_text, topology_named

CASES = (
    *("dgx1", "dgx2", "dgx_a100", "hgx_h100", "mi100", "mi250", "mi300x", "mi50_4p2h"),
    *("ring(7)", "full(5)", "line(6)", "star(4)", "mesh(2, 5)", "torus(3, 4)", "hypercube(4)", "ring(2)"),
)


def relabelled(topology: Topology, seed: int) -> Topology:
    """Shuffle the GPUs among themselves, and the other nodes."""
    dice = random.Random(seed)
    gpus = list(range(len(topology.ranks)))
    rest = list(range(len(gpus), len(topology.nodes)))
    dice.shuffle(gpus)
    dice.shuffle(rest)
    to = [*gpus, *rest]
    nodes = sorted((replace(n, id=NodeId(to[n.id])) for n in topology.nodes), key=lambda n: n.id)
    links = [replace(e, src=NodeId(to[e.src]), dst=NodeId(to[e.dst])) for e in topology.links]
    dice.shuffle(links)
    return replace(topology, nodes=tuple(nodes), links=tuple(links))


def capacities(topology: Topology, ranks: tuple[int, ...] | None = None) -> dict[tuple[int, int], Fraction]:
    """Of links between GPUs, by library rank."""
    back = {m: i for i, m in enumerate(ranks)} if ranks is not None else {r: int(r) for r in topology.ranks}
    total: dict[tuple[int, int], Fraction] = {}
    for e in topology.links:
        if e.src in back and e.dst in back:
            pair = (back[e.src], back[e.dst])
            total[pair] = total.get(pair, Fraction(0)) + e.capacity
    return total


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_relabelled_library_topology_is_recognised_with_a_valid_map(name: str, seed: int) -> None:
    library = topology_named(name)
    machine = relabelled(library, seed)
    matches = recognise(machine)
    assert library.name in {m.name for m in matches} or name in {m.name for m in matches}
    for match in matches:
        assert sorted(match.ranks) == list(machine.ranks)
        assert capacities(machine, match.ranks) == {
            pair: c * _scale(machine, match.name) for pair, c in capacities(topology_named(match.name)).items()
        }


def _scale(machine: Topology, name: str) -> Fraction:
    least = min(e.capacity for e in machine.links)
    other = min(e.capacity for e in topology_named(name).links)
    return least / other


@pytest.mark.parametrize("name", ["dgx1", "mi250", "torus(3, 4)", "mi100", "hypercube(4)"])
def test_a_machine_with_one_link_more_or_less_is_another(name: str) -> None:
    machine = relabelled(topology_named(name), 3)
    for links in (machine.links[1:], (replace(machine.links[0], count=machine.links[0].count + 1), *machine.links[1:])):
        changed = replace(machine, links=links)
        assert name not in {m.name for m in recognise(changed)}


def test_the_likeliest_name_comes_first() -> None:
    for name in ("dgx1", "dgx_a100", "hgx_h100", "mi300x", "dgx2"):
        assert recognise(topology_named(name))[0].name == name


def test_rates_may_differ_in_one_proportion_only() -> None:
    library = topology_named("dgx1")
    slower = LinkClass("nvlink", Fraction(20 * 10**9), Fraction(7, 10**7), kind="nvlink")
    effective = replace(library, links=tuple(replace(e, cls=slower) for e in library.links))
    assert recognise(effective)[0].name == "dgx1"
    assert not recognise(effective)[0].same_rates
    mixed = replace(library, links=(replace(library.links[0], cls=slower), *library.links[1:]))
    assert recognise(mixed) == ()


@pytest.mark.parametrize("name", ["topo-m-dgx1-relabelled.txt", "topo-m-dgx1-cards-any-order.txt"])
def test_a_pasted_dgx1_is_recognised_in_the_whole_machine_too(name: str) -> None:
    text = text_of(import_machine(source_of((FOLDER / name).read_bytes(), name)), "box", name)
    fast, whole = analyse_text(text, "box.accl").topologies
    library = capacities(topology_named("dgx1"))
    for topology, kinds in ((fast, ()), (whole, ("nvlink",))):
        match = recognise(topology)[0]
        assert (match.name, match.kinds) == ("dgx1", kinds)
        nvlink = replace(topology, links=tuple(e for e in topology.links if e.cls.kind == "nvlink"))
        assert capacities(nvlink, match.ranks) == {pair: c * 20 / 25 for pair, c in library.items()}


def test_what_is_too_small_or_like_nothing() -> None:
    assert recognise(topology_named("ring(1)")) == ()
    assert recognise(topology_named("mi50_4p2h"))[0].name == "mi50_4p2h"


FIXTURE_NAMES = {
    "rocm-smi-ring.txt": "ring(4)",
    "taccl-topo-dgx2-scaled.json": "dgx2",
    "taccl-topo-ndv2.json": "dgx1",
    "teccl-dgx1.json": "dgx1",
    "teccl-mesh.json": "mesh(3, 3)",
    "topo-m-nvswitch-quoted.txt": "hgx_h100",
    "topo-m-several.txt": "full(2)",
    "topo-m-without-header.txt": "full(4)",
    "rccl-mi100-three.xml": "full(3)",
    "msccl-tools-algorithm.json": "full(3)",
}
EXTRA_NAMES = {
    "astrasim-HGX-H100-validated.yml": "star(8)",
    "rccl-topo-topo_4p3l.xml": "full(4)",
    "rccl-topo-topo_8p6l.xml": "mi100",
    "rccl-topo-topo_8p_940.xml": "mi300x",
    "smi-topo-4xh100-nv6-spaces.txt": "full(4)",
    "smi-topo-8xa100-nvswitch-2hca-rst-indented.txt": "dgx_a100",
    "smi-topo-azure-ndv2-v100-8gpu-NODE.txt": "dgx1",
    "smi-topo-dgx1-v100-8gpu-4hca.txt": "dgx1",
    "smi-topo-v100-8gpu-cloud-permuted.txt": "dgx1",
    "taccl-topo-dgx2-1MB.json": "dgx2",
    "taccl-topo-ndv2-1MB.json": "dgx1",
    "teccl-mesh.json": "mesh(6, 6)",
}


def named(path: Path) -> str:
    text = text_of(import_machine(source_of(path.read_bytes(), path.name)), "box", path.name)
    return recognise(analyse_text(text, "box.accl").topologies[0])[0].name


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_an_import_is_the_library_topology_it_was_made_from(name: str) -> None:
    assert named(FOLDER / name) in (FIXTURE_NAMES[name], "ring(3)", "ring(2)")


def test_real_machines_are_recognised() -> None:
    folder = os.environ.get("ACCLC_EXTRA_INPUTS")
    for name, library in EXTRA_NAMES.items() if folder else ():
        assert named(Path(folder or "") / name) == library, name
