"""Every file has the meaning that the committed tables say: nothing is merely empty, nothing is guessed anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from importer_tools import FIXTURES as FOLDER
from importer_tools import meaning
from meanings import EXTRA, FIXTURES

from acclc.diagnostics import DiagnosticError
from acclc.importers import Settings, import_machine, source_of
from acclc.importers.matrix import find
from acclc.importers.model import Draft, Imported
from acclc.importers.smi_table import Table, read_table
from acclc.ir.problem import NodeKind


@pytest.mark.parametrize("name", FIXTURES)
def test_a_fixture_means_what_the_table_says(name: str) -> None:
    if os.environ.get("ACCLC_UPDATE_GOLDEN"):
        lines = [f"{p.name}: {meaning(p)}\n" for p in sorted(FOLDER.iterdir())]
        (Path(__file__).parent / "meanings_fixtures.txt").write_text("".join(lines))
        return
    assert meaning(FOLDER / name) == FIXTURES[name]


def test_every_fixture_is_in_the_table_and_every_bad_one_is_refused() -> None:
    assert {p.name for p in FOLDER.iterdir()} == set(FIXTURES)
    for name, text in FIXTURES.items():
        assert text.startswith("error import-") == name.startswith("bad-"), name
        assert text.startswith(("error", "g ")), name


def extra_files() -> list[Path]:
    folder = os.environ.get("ACCLC_EXTRA_INPUTS")
    if not folder:
        return []
    return [p for p in sorted(Path(folder).iterdir()) if p.is_file() and p.name not in ("INDEX.md", "EXPECTED.json")]


def test_extra_inputs_mean_what_the_table_says_and_others_do_no_harm() -> None:
    for path in extra_files():
        found = meaning(path)
        assert found == EXTRA.get(path.name, found), path.name


def test_extra_matrices_are_what_their_judge_expects() -> None:
    """EXPECTED.json beside the extra inputs: GPUs, cards, NVLinks of pairs, other pairs by class, kind of machine."""
    for path in extra_files():
        judge = path.parent / "EXPECTED.json"
        expected = json.loads(judge.read_text()).get(path.name) if judge.is_file() else None
        if expected is None:
            continue
        source = source_of(path.read_bytes(), path.name)
        table = read_table(Draft(source), find(source)[0])
        imported = import_machine(source)
        assert table is not None
        assert judged(table, imported) == expected, path.name


def judged(table: Table, imported: Imported) -> dict[str, object]:
    links = table.links()
    others: dict[str, int] = {}
    for (a, b), token in sorted(table.cells.items()):
        if b < table.gpus and (a, b) not in links:
            word = "SYS" if token.text == "SOC" else token.text
            others[word] = others.get(word, 0) + 1
    sums = [sum(n for pair, n in links.items() if gpu in pair) for gpu in range(table.gpus)]
    return {
        "gpus": len(imported.of(NodeKind.GPU)),
        "nics": len(imported.of(NodeKind.NIC)),
        "nvlinks": {f"{a}-{b}": n for (a, b), n in sorted(links.items())},
        "other_pairs": others,
        "nv_per_gpu": sums,
        "kind": kind(imported, links, table.gpus),
    }


def kind(imported: Imported, links: dict[tuple[int, int], int], gpus: int) -> str:
    """From the machine, not from the numbers: what the importer concluded."""
    if any(w.code == "import-impossible" for w in imported.warnings):
        return "warn-impossible"
    if any(n.array == "nvswitch" for n in imported.nodes):
        return "switch"
    direct = {(x.a, x.b): x.count for x in imported.links if imported.kind_of(x) == "nvlink"}
    assert direct == links
    if not direct:
        return "pcie"
    return "mesh" if len(direct) == gpus * (gpus - 1) // 2 else "mesh+pcie"


def test_the_judge_sees_the_kinds_in_the_fixtures_too() -> None:
    kinds = {}
    for name in ("dgx1-relabelled", "nvswitch-quoted", "asymmetric-4", "impossible", "pcie-chain-wrapped"):
        source = source_of((FOLDER / f"topo-m-{name}.txt").read_bytes(), name)
        table = read_table(Draft(source), find(source)[0])
        assert table is not None
        kinds[name] = judged(table, import_machine(source))["kind"]
    assert kinds == {
        "dgx1-relabelled": "mesh+pcie",
        "nvswitch-quoted": "switch",
        "asymmetric-4": "mesh",
        "impossible": "warn-impossible",
        "pcie-chain-wrapped": "pcie",
    }


def test_a_sketch_takes_the_topology_of_its_box() -> None:
    sketch = source_of((FOLDER / "bad-taccl-sketch-alone.json").read_bytes(), "sketch")
    box = source_of((FOLDER / "taccl-topo-ndv2.json").read_bytes(), "box")
    imported = import_machine(sketch, with_=box)
    assert len(imported.of(NodeKind.GPU)) == 16
    assert sum(x.count for x in imported.links if x.cls == "nvlink") == 48
    assert [n.array for n in imported.nodes].count("network") == 1
    with pytest.raises(DiagnosticError, match="only a sketch of TACCL takes a second file"):
        import_machine(box, with_=sketch)


def test_a_paste_of_several_matrices_can_be_chosen_from() -> None:
    source = source_of((FOLDER / "topo-m-several.txt").read_bytes(), "paste")
    first, second = import_machine(source), import_machine(source, ("matrix=2",))
    assert (len(first.of(NodeKind.GPU)), len(second.of(NodeKind.GPU))) == (2, 4)
    assert any("the same one again" in n.text for n in first.notes)
    assert any("peer access works between all pairs" in n.text for n in first.notes)
    assert any("A100" in n.text and n.evidence.value == "read" for n in first.notes)
    with pytest.raises(DiagnosticError, match="a whole number from 1 to 3"):
        import_machine(source, ("matrix=4",))


def test_the_format_may_be_named() -> None:
    source = source_of((FOLDER / "taccl-topo-ndv2.json").read_bytes(), "x")
    assert import_machine(source, format="taccl") == import_machine(source)
    with pytest.raises(DiagnosticError, match="did you mean `taccl`"):
        import_machine(source, format="tacl")
    with pytest.raises(DiagnosticError):
        import_machine(source, format="nvidia-smi")
    assert Settings().unused() is None
