"""Files of schedules: what is wrong with one is said with its place, and a right one becomes a schedule."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from acclc.diagnostics import DiagnosticError
from acclc.foreign import artefact_of
from acclc.importers.msccl_xml import read_algorithm
from acclc.importers.mscclpp_json import read_plan
from acclc.sema import topology_named
from acclc.source import Source
from acclc.verify import check_schedule

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "verify"))
from msccl_files import relay_text, ring_text


def refused(text: str) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as caught:
        read_algorithm(Source("x.xml", text))
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "code", "marked"),
    [
        ('srcbuf="i"', 'srcbuf="q"', "import-value", "q"),
        ('type="rrc"', 'type="rrx"', "import-value", "rrx"),
        ('cnt="1"', 'cnt="many"', "import-value", "many"),
        ('cnt="1"', 'cnt="-4"', "import-value", "-4"),
        ('hasdep="0"', 'hasdep="2"', "import-value", "2"),
        (' cnt="1"', "", "import-missing", "step"),
        (' ngpus="3"', "", "import-missing", "algo"),
        ("<algo", "<system", "import-damaged", ""),
        ("<!-- a ring -->", '<!DOCTYPE x [<!ENTITY a "b">]>', "import-damaged", ""),
    ],
)
def test_what_is_wrong_is_said_with_its_place(old: str, new: str, code: str, marked: str) -> None:
    text = ring_text(3)
    assert old in text
    (found,) = refused(text.replace(old, new, 1)).diagnostics
    assert found.code == code
    if marked:
        span = found.labels[0].span
        assert span.source.text[span.start : span.end] == marked


def test_another_file_in_xml_is_no_algorithm() -> None:
    assert refused("<system version='1'/>").diagnostics[0].code == "import-unknown-format"


def test_numbers_beyond_all_measure_are_refused() -> None:
    for name in ("cnt", "nchunksperloop", "ngpus"):
        text = ring_text(3)
        at = text.index(f' {name}="') + len(name) + 3
        (found,) = refused(f"{text[:at]}999999999{text[at:]}").diagnostics
        assert found.code == "import-value"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "import-damaged"),
        ('{"name": "x"}', "import-missing"),
        ('{"name": 1}', "import-value"),
        ('{"name": "x", "collective": "allgather", "protocol": "LL", "inplace": true, "gpus": [7]}', "import-value"),
    ],
)
def test_a_plan_that_is_none(text: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        read_plan(Source("x.json", text))
    assert caught.value.diagnostics[0].code == code


def test_an_algorithm_becomes_a_schedule(tmp_path: Path) -> None:
    path = tmp_path / "my ring.xml"
    path.write_text(ring_text(4))
    artefact = artefact_of(path, None)
    (collective,) = artefact.collectives
    (variant,) = collective.variants
    assert artefact.name == "my_ring"
    assert check_schedule(collective.problem, variant.schedule).ok
    assert (variant.schedule.chunks_per_shard, variant.schedule.steps, len(variant.schedule.transfers)) == (4, 6, 24)


@pytest.mark.parametrize("topology", ["ring(4)", "full(4)", "star(4)"])
def test_it_runs_over_the_links_and_switches_of_a_machine(topology: str, tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_text(4))
    (collective,) = artefact_of(path, topology_named(topology)).collectives
    assert check_schedule(collective.problem, collective.variants[0].schedule).ok
    assert collective.problem.topology.name == topology


@pytest.mark.parametrize(("topology", "words"), [("ring(5)", "5"), ("line(4)", "no link or switch")])
def test_a_machine_that_does_not_fit(topology: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_text(4))
    with pytest.raises(DiagnosticError) as caught:
        artefact_of(path, topology_named(topology))
    assert words in caught.value.diagnostics[0].message


def test_a_rooted_algorithm_is_for_the_root_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "relay.xml"
    path.write_text(relay_text())
    (collective,) = artefact_of(path, None).collectives
    assert collective.problem.demands[0].root == 0


def test_a_wrong_algorithm_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    path.write_text(ring_text(4).replace('type="rrc"', 'type="r"', 1))
    with pytest.raises(DiagnosticError) as caught:
        artefact_of(path, None)
    assert "acclc verify" in caught.value.diagnostics[0].message
