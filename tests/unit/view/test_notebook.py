"""What a notebook shows: complete and well formed, without scripts or addresses, with the figures of the objects."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import acclc_runtime
from acclc import Artefact, compile_text, topologies
from acclc.ir.problem import Topology
from acclc.view.picture import MOST_NODES

TEXT = "all_gather on ring(3) as gathered { goal latency }\nall_reduce on ring(3) as sums { op sum, goal bandwidth }\n"


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    return compile_text(TEXT, "t")


def shown(thing: object) -> ET.Element:
    """Parse what IPython would take; it needs nothing from outside."""
    text = thing._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    assert "<script" not in text
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
    return ET.fromstring(text)


def cells(root: ET.Element) -> list[list[str]]:
    return [["".join(td.itertext()) for td in row] for row in root.iter("tr") if row.find("td") is not None]


def pictures(root: ET.Element) -> list[ET.Element]:
    return [e for e in root.iter() if e.tag.endswith("svg")]


def test_an_artefact_shows_its_machine_once_and_every_variant(artefact: Artefact) -> None:
    root = shown(artefact)
    assert len(pictures(root)) == 1
    assert [row[0] for row in cells(root)] == [v.id for c in artefact.collectives for v in c.variants]
    text = "".join(root.itertext())
    for c in artefact.collectives:
        assert c.name in text
        assert c.proof.bound.throughput.words in text


def test_a_loaded_artefact_shows_what_calls_take(artefact: Artefact, tmp_path: Path) -> None:
    loaded = acclc_runtime.load(artefact.save(tmp_path / "t"))
    assert [row[1] for row in cells(shown(loaded))] == [v.id for c in artefact.collectives for v in c.variants]


def load(name: str) -> Topology:
    (found,) = topologies.load(name)
    return found


def test_topologies_show_their_picture_and_classes() -> None:
    for name in ("dgx1", "mi250", "dgx2"):
        topology = load(name)
        root = shown(topology)
        assert [row[0] for row in cells(root)] == [c.name for c in topology.classes]
        assert sum(int(row[3]) for row in cells(root)) == sum(x.count for x in topology.links)
        (picture,) = pictures(root)
        assert {n.name for n in topology.nodes} <= {
            "".join(t.itertext()) for t in picture.iter() if t.tag.endswith("text")
        }


def test_a_large_machine_is_only_counted() -> None:
    root = shown(load(f"ring({MOST_NODES + 1})"))
    assert pictures(root) == []
    assert f"{MOST_NODES + 1} GPUs" in "".join(root.itertext())
