"""The states in which people paste a matrix: each gives the same machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from importer_tools import FIXTURES as FOLDER

from acclc.importers import Imported, import_machine, source_of
from acclc.ir.problem import NodeKind

NAMES = ("topo-m-dgx1-cards-any-order.txt", "topo-m-asymmetric-4.txt", "topo-m-dgx1-relabelled.txt")


def plain(name: str) -> str:
    return (FOLDER / name).read_text()


def bare(text: str) -> Imported:
    """A machine without where its values came from."""
    imported = import_machine(source_of(text.encode(), "x"))
    links = tuple(replace(x, origin="") for x in imported.links)
    return replace(imported, links=links, notes=(), warnings=())


def blanks(text: str) -> str:
    return "\n".join("".join(f"{cell.strip():<9}" for cell in line.split("\t")) for line in text.split("\n"))


def without_lead(text: str) -> str:
    return re.sub(r"^\tGPU0", "GPU0", text, flags=re.MULTILINE)


def wrapped(text: str) -> str:
    """Cut rows after their fourth column, as a narrow terminal does."""
    lines = []
    for line in text.split("\n"):
        cells = line.split("\t")
        cut = len(cells) > 5 and not line.startswith("\t")
        lines += ["\t".join(cells[:5]), "\t".join(cells[5:])] if cut else [line]
    return "\n".join(lines)


def wrapped_header(text: str) -> str:
    return re.sub(r"^(\tGPU0\tGPU1)\t(.*)$", r"\1\n\2", text, flags=re.MULTILINE)


STATES: dict[str, Callable[[str], str]] = {
    "as it is": lambda t: t,
    "blanks for tabs": blanks,
    "indented": lambda t: "\n".join(f"        {line}" for line in t.split("\n")),
    "quoted": lambda t: "\n".join(f"> {line}" for line in t.split("\n")),
    "in a table": lambda t: "\n".join("| " + line.replace("\t", " | ") + " |" for line in t.split("\n")),
    "Windows line ends": lambda t: t.replace("\n", "\r\n"),
    "colour": lambda t: t.replace("\tGPU0\tGPU1", "\x1b[4m\tGPU0\tGPU1", 1),
    "colour without its escape sign": lambda t: t.replace("\tGPU0\tGPU1", "[4m\tGPU0\tGPU1", 1),
    "no legend": lambda t: t.split("\nLegend:")[0],
    "no tab before the header": without_lead,
    "a prompt": lambda t: "me@host:~/work$ nvidia-smi topo -m\n" + t + "me@host:~/work$ exit\n",
    "words around": lambda t: "Hi all,\n\nthis is GPU0 to GPU7:\n\n" + t + "\nAny idea why GPU0 is slow?\n",
    "rows wrapped": wrapped,
    "the header wrapped": wrapped_header,
    "twice": lambda t: t + "\nand again\n" + t,
    "lower case classes": lambda t: t.replace("SYS", "sys").replace("PIX", "pix"),
    "blank lines": lambda t: t.replace("\nGPU", "\n\nGPU"),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", NAMES)
def test_a_paste_gives_the_same_machine(name: str, state: str) -> None:
    text = plain(name)
    assert bare(STATES[state](text)) == bare(text)


def test_rows_of_cards_may_be_missing_or_short() -> None:
    text = plain("topo-m-dgx1-cards-any-order.txt")
    lost = re.sub(r"^mlx5_1\t.*\n", "", text, flags=re.MULTILINE)
    short = re.sub(r"^(mlx5_1(?:\t\S+){5}).*$", r"\1", text, flags=re.MULTILINE)
    assert bare(lost).links == bare(text).links
    assert bare(short).links == bare(text).links


def test_the_order_of_columns_is_free() -> None:
    one = "\tGPU0\tGPU1\tGPU2\tmlx5_0\nGPU0\tX\tNV4\tPIX\tPIX\nGPU1\tNV4\tX\tSYS\tSYS\nGPU2\tPIX\tSYS\tX\tPIX\n"
    one += "mlx5_0\tPIX\tSYS\tPIX\tX\n"
    two = "\tGPU1\tmlx5_0\tGPU2\tGPU0\nmlx5_0\tSYS\tX\tPIX\tPIX\nGPU2\tSYS\tPIX\tX\tPIX\nGPU0\tNV4\tPIX\tPIX\tX\n"
    two += "GPU1\tX\tSYS\tSYS\tNV4\n"
    assert bare(one) == bare(two)


def test_utf16_and_marks_are_read() -> None:
    text = plain("topo-m-asymmetric-4.txt")
    for data in (text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode(), text.encode() + b"\xff"):
        imported = import_machine(source_of(data, "x"))
        assert len(imported.links) == 6


@settings(max_examples=80, deadline=None)
@given(
    st.integers(2, 8),
    st.dictionaries(st.tuples(st.integers(0, 7), st.integers(0, 7)), st.integers(1, 2)),
    st.sampled_from(sorted(STATES)),
    st.sampled_from(sorted(set(STATES) - {"twice"})),
)
def test_any_mesh_in_any_two_states_is_read_cell_by_cell(
    count: int, drawn: dict[tuple[int, int], int], one: str, two: str
) -> None:
    links = {(min(p), max(p)): n for p, n in drawn.items() if p[0] != p[1] and max(p) < count}

    def cell(a: int, b: int) -> str:
        return " X " if a == b else f"NV{links[min(a, b), max(a, b)]}" if (min(a, b), max(a, b)) in links else "SYS"

    rows = ["\t" + "\t".join(f"GPU{i}" for i in range(count)) + "\tCPU Affinity"]
    rows += [f"GPU{a}\t" + "\t".join(cell(a, b) for b in range(count)) + "\t0-7" for a in range(count)]
    imported = bare(STATES[one](STATES[two]("\n".join(rows) + "\n\nLegend:\n\n  X    = Self\n")))
    assert len(imported.of(NodeKind.GPU)) == count
    assert {(x.a, x.b): x.count for x in imported.links if x.cls == "nvlink"} == links


def test_cards_are_called_as_the_legend_calls_them() -> None:
    text = "\tGPU0\tNIC0\nGPU0\tX\tPIX\nNIC0\tPIX\tX\n\nNIC Legend:\n\n  NIC0: mlx5_7\n"
    (card,) = (n for n in bare(text).nodes if n.kind is NodeKind.NIC)
    assert card.label == "NIC0 mlx5_7"
