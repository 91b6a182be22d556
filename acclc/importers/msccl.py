"""msccl-tools' topology in JSON: a matrix of link counts, and switches as sums that are limited."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from acclc.importers import classes, json_reader
from acclc.importers.json_reader import Reader
from acclc.importers.model import Budget, Draft, Imported
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind
from acclc.source import Source

MAX_RANKS = 4096
LANE_GBPS, LANE_US = Fraction(25), Fraction(7, 10)
"""Of one link, which the format counts but does not measure: NVLink 2 and TE-CCL's latency."""


def import_json(source: Source, settings: Settings, root: Any = None) -> Imported:
    """Return the machine of a topology, or of the topology within an algorithm. Raises DiagnosticError."""
    draft = Draft(source)
    reader = Reader(draft, json_reader.read(source) if root is None else root)
    path: list[str | int] = []
    if isinstance(reader.root, dict) and reader.root.get("msccl_type") == "algorithm":
        path = ["topology"]
        draft.read("the file is a schedule of msccl-tools; its topology was taken")
    rows = reader.items([*path, "links"], "the matrix of link counts, `links[destination][source]`")
    size = len(rows)
    if not 0 < size <= MAX_RANKS:
        reader.wrong([*path, "links"], f"1 to {MAX_RANKS} ranks are needed")
    counts = reader.matrix([*path, "links"], size)
    name = reader.value([*path, "name"])
    draft.read(f"{size} ranks" + (f" of {name}" if isinstance(name, str) else ""))
    for _ in range(size):
        draft.node(NodeKind.GPU, "g")
    origin = "one link of the matrix: the file counts links and gives no rate, 25 GB/s is assumed"
    cls = classes.make(draft, settings, "lane", "", LANE_GBPS, LANE_US, origin)
    draft.assume("25 GB/s and 0.7 us for one link; `--set lane=...` says otherwise")
    _links(reader, [*path, "links"], counts, cls)
    _switches(reader, path, counts, draft.classes[cls].rate)
    return draft.finish("a topology of msccl-tools")


def _links(reader: Reader, path: list[str | int], counts: list[list[Fraction]], cls: str) -> None:
    """links[d][s] is the number of links from s to d."""
    size = len(counts)
    for s in range(size):
        for d in range(size):
            there, back = counts[d][s], counts[s][d]
            if there == 0:
                continue
            if s == d:
                reader.draft.error(
                    "import-contradiction", f"a link from rank {s} to itself", reader.place([*path, s, s])
                )
                continue
            if Fraction(there).denominator != 1 or there > 10**6:
                reader.wrong([*path, d, s], "a whole number of links is needed")
            if there == back and s < d:
                reader.draft.link(s, d, int(there), cls)
            elif there != back:
                reader.draft.link(s, d, int(there), cls, both=False)


def _switches(reader: Reader, path: list[str | int], counts: list[list[Fraction]], lane: Fraction) -> None:
    """A switch is [sources, destinations, links, name]: all that goes between them together is limited."""
    if reader.value([*path, "switches"]) is None:
        return
    size = len(counts)
    for i, entry in enumerate(reader.items([*path, "switches"], "a list of switches is needed")):
        at = [*path, "switches", i]
        if not isinstance(entry, list) or len(entry) != 4:
            reader.wrong(at, "a switch is [sources, destinations, links, name]")
        sources = [reader.whole([*at, 0, k], "a rank is needed", 0, size - 1) for k in range(_length(reader, [*at, 0]))]
        targets = [reader.whole([*at, 1, k], "a rank is needed", 0, size - 1) for k in range(_length(reader, [*at, 1]))]
        limit = reader.number([*at, 2], "a number of links above 0 is needed")
        pairs = tuple(dict.fromkeys((s, d) for s in sources for d in targets if s != d and counts[d][s] > 0))
        if pairs:
            name = entry[3] if isinstance(entry[3], str) and entry[3].strip() else f"switch {i}"
            reader.draft.budgets.append(Budget(f"{name}"[:60], limit * lane, pairs))
    if reader.draft.budgets:
        reader.draft.conclude("switches of msccl-tools are limits on sums of links: budgets of the language")


def _length(reader: Reader, path: list[str | int]) -> int:
    return len(reader.items(path, "a list of ranks is needed"))
