"""The text that an import becomes: canonical, accepted by the language, and good for a bound."""

from __future__ import annotations

from fractions import Fraction

import pytest
from importer_tools import FIXTURES as FOLDER
from meanings import FIXTURES

from acclc.bounds import bound
from acclc.importers import import_machine, source_of, text_of, topology_name
from acclc.importers.emit import latency_text, rate_text
from acclc.ir.problem import NodeKind
from acclc.sema import Analysis, analyse_text
from acclc.source import Source
from acclc.syntax import format_file

GOOD = [name for name, text in FIXTURES.items() if not text.startswith("error")]


def text_for(name: str, *settings: str) -> str:
    source = source_of((FOLDER / name).read_bytes(), name)
    return text_of(import_machine(source, settings), "machine", name)


def analysed(name: str, *settings: str) -> Analysis:
    return analyse_text(text_for(name, *settings), "machine.accl")


@pytest.mark.parametrize("name", GOOD)
def test_the_text_is_canonical_and_means_what_was_imported(name: str) -> None:
    text = text_for(name)
    assert format_file(Source("machine.accl", text)) == text
    analysis = analyse_text(text, "machine.accl")
    assert analysis.warnings == ()
    imported = import_machine(source_of((FOLDER / name).read_bytes(), name))
    whole = analysis.topologies[-1]
    assert whole.name == "machine"
    assert len(whole.nodes) == len(imported.nodes)
    assert sum(e.count for e in whole.links) == sum(x.count * (1 + x.both) for x in imported.links)
    assert [n.name for n in whole.nodes if n.kind is NodeKind.GPU] == [
        n.name for n in whole.nodes[: len(imported.of(NodeKind.GPU))]
    ]
    assert len(analysis.problems) == 1


@pytest.mark.parametrize("name", [n for n in GOOD if n.startswith(("topo-m", "nccl", "rocm"))])
def test_bounds_work_on_it(name: str) -> None:
    (problem,) = analysed(name).problems
    assert bound(problem).throughput.time_per_byte > 0


def test_a_machine_whose_fast_links_join_all_is_written_in_two_parts() -> None:
    fast, whole = analysed("topo-m-dgx1-cards-any-order.txt").topologies
    assert (fast.name, len(fast.nodes)) == ("machine_nvlink", 8)
    assert (whole.name, len(whole.nodes)) == ("machine", 18)
    assert {c.kind for c in fast.classes} == {"nvlink"}
    assert {c.kind for c in whole.classes} == {"nvlink", "pcie", "net", "host"}
    text = text_for("topo-m-dgx1-cards-any-order.txt")
    assert "g[0] <-> g[2] : 2 nvlink  # line 2, column 14: NV2" in text
    assert "card[0] <-> plx[2] : net  # mlx5_3, row of line 10" in text
    assert "# Assumed: V100 (NVLink 2), since the sum of 6 links a GPU fits it" in text


def test_settings_replace_rates_and_say_so() -> None:
    settings = ("nvlink=22 GB/s", "nvlink=900 ns", "pcie=160 Gbit/s", "cpu=amd")
    _, whole = analysed("topo-m-dgx1-cards-any-order.txt", *settings).topologies
    rates = {c.name.rpartition(".")[2]: (c.bandwidth, c.latency) for c in whole.classes}
    assert rates["nvlink"] == (22 * 10**9, Fraction(9, 10**7))
    assert rates["pcie"][0] == 20 * 10**9
    assert rates["smp"][0] == 16 * 10**9
    assert "# rate by --set nvlink; latency by --set nvlink" in text_for("topo-m-dgx1-cards-any-order.txt", *settings)


def test_the_generation_may_be_set() -> None:
    text = text_for("topo-m-nvswitch-quoted.txt", "gpu=b200")
    assert "nvlink { 40.1 GB/s, 0.35 us, nominal 50 GB/s" in text
    assert "switch nvswitch[1] { multicast, reduce }" in text
    assert "multicast" not in text_for("topo-m-dgx1-relabelled.txt")


def test_numbers_are_written_exactly_or_rounded_in_a_known_way() -> None:
    assert rate_text(Fraction(206 * 10**8)) == "20.6 GB/s"
    assert rate_text(Fraction(10**9, 3)) == "0.333 GB/s"
    assert rate_text(Fraction(1000)) == "1000 B/s"
    assert rate_text(Fraction(1, 3)) == "1 B/s"
    assert latency_text(Fraction(7, 10**7)) == "0.7 us"
    assert latency_text(Fraction(0)) == "0 us"


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("topo", "topo"),
        ("8-gpus", "m_8_gpus"),
        ("dgx1", "dgx1_box"),
        ("host", "host_box"),
        ("é", "machine"),
        ("a b.c", "a_b_c"),
    ],
)
def test_names(stem: str, name: str) -> None:
    assert topology_name(stem, ("dgx1",)) == name


def test_what_a_file_calls_things_cannot_break_out_of_a_comment() -> None:
    xml = (
        '<system version="1"><cpu numaid="0&#10;gpu x"><pci busid="a&#10;b" class="0x030200"/>'
        '<pci busid="b&#x202e;c" class="0x030200"/></cpu></system>'
    )
    text = text_of(import_machine(Source("x", xml)), "machine", "evil\nname.xml")
    assert format_file(Source("machine.accl", text)) == text
    assert "\u202e" not in text
    assert len(analyse_text(text, "machine.accl").topologies[0].ranks) == 2
