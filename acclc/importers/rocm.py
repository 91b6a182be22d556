"""``rocm-smi --showtopo``: matrices of weights, hops and link types, and the NUMA nodes."""

from __future__ import annotations

import re

from acclc.diagnostics import Label
from acclc.importers import classes, matrix, pcie
from acclc.importers.hosts import join_hosts
from acclc.importers.matrix import Matrix, Token
from acclc.importers.model import Draft, Imported
from acclc.importers.rates import PCIE_GT, XGMI
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind
from acclc.source import Source, Span

CELL = re.compile(r"(?:\d{1,6}|XGMI|PCIE|N/A|X|True|False)$", re.IGNORECASE)
_NUMA = re.compile(r"GPU\[(\d{1,6})\]\s*:\s*\(Topology\) Numa Node:\s*(-?\d{1,4})")
_GFX = re.compile(r"\bgfx(9[0-9a-f]{2})\b")
_NAMES = (
    ("MI300", "mi300"),
    ("MI325", "mi300"),
    ("MI250", "mi200"),
    ("MI210", "mi200"),
    ("MI100", "vega"),
    ("MI50", "vega"),
)
TITLES = {"weight": "weight between two gpus", "hops": "hops between two gpus", "types": "link type between two gpus"}
Pair = tuple[int, int]


def import_showtopo(source: Source, settings: Settings) -> Imported:
    """Return the machine of a paste. Raises DiagnosticError."""
    draft = Draft(source)
    found = _find(source)
    if "types" not in found:
        draft.fail(
            "import-missing",
            "the matrix `Link Type between two GPUs` is not in this text",
            Span(source, 0, 0),
            help="paste the whole output of `rocm-smi --showtopo`",
        )
    types = _cells(draft, found["types"])
    hops = _cells(draft, found["hops"]) if "hops" in found else {}
    draft.check()
    names = found["types"].names
    draft.read(f"{len(names)} GPUs")
    gpus = [draft.node(NodeKind.GPU, "g", name) for name in names]
    linked = _xgmi(draft, settings, gpus, types, hops)
    _pcie(draft, settings, gpus, linked, types)
    return draft.finish("the output of `rocm-smi --showtopo`")


def _find(source: Source) -> dict[str, Matrix]:
    found: dict[str, Matrix] = {}
    for m in _matrices(source):
        title = " ".join(m.title_before.strip("= *").lower().split())
        for word, text in TITLES.items():
            if title.startswith(text):
                found.setdefault(word, m)
    return found


def _matrices(source: Source) -> tuple[Matrix, ...]:
    return matrix.find(source, CELL)


def _cells(draft: Draft, found: Matrix) -> dict[Pair, Token]:
    """Return the cell of each pair, complaining of what is missing or asymmetric."""
    names = found.names
    number = {name: i for i, name in enumerate(names)}
    said: dict[Pair, Token] = {}
    for row in found.rows:
        at = number.get(row.name.text)
        if at is None or len(row.cells) != len(names):
            draft.error("import-damaged", f"{len(row.cells)} cells for {len(names)} columns", row.name.span)
            continue
        said.update({(at, column): token for column, token in enumerate(row.cells) if column != at})
    for (a, b), token in said.items():
        back = said.get((b, a))
        if back is None:
            draft.error("import-missing", f"there is no row of {names[b]}", token.span)
            break
        if a < b and back.text.upper() != token.text.upper():
            draft.error(
                "import-contradiction",
                f"{names[a]} to {names[b]} is {token.text}, but {names[b]} to {names[a]} is {back.text}",
                token.span,
                Label(back.span, "the other way"),
            )
    return {pair: token for pair, token in said.items() if pair[0] < pair[1]}


def _xgmi(
    draft: Draft, settings: Settings, gpus: list[int], types: dict[Pair, Token], hops: dict[Pair, Token]
) -> set[Pair]:
    direct = []
    for pair, token in sorted(types.items()):
        if token.text.upper() != "XGMI":
            continue
        far = hops.get(pair)
        if far is not None and far.text != "1":
            continue
        direct.append((pair, token))
    if not direct:
        return set()
    cls = classes.xgmi(draft, settings, _generation(draft, settings, len(gpus), len(direct)))
    for (a, b), token in direct:
        line, column = draft.source.position(token.span.start)
        draft.link(gpus[a], gpus[b], 1, cls, f"line {line}, column {column}: XGMI, one hop")
    draft.assume("one link for each pair that xGMI joins in one hop: this output does not count them")
    return {pair for pair, _ in direct}


def _generation(draft: Draft, settings: Settings, gpus: int, links: int) -> str:
    word = settings.word("gpu")
    if word in XGMI:
        return word
    for number, _, text in matrix.lines(draft.source):
        gfx = _GFX.search(text)
        found = next((w for name, w in _NAMES if name in text), None)
        if gfx:
            found = "mi300" if gfx.group(1).startswith("94") else "mi200" if gfx.group(1) == "90a" else "vega"
        if found:
            draft.read(f"{XGMI[found][0]}: by line {number}")
            return found
    if gpus == 8 and links == 28:
        draft.assume("MI300, since every two of eight GPUs are joined; `--set gpu=mi200` says otherwise")
        return "mi300"
    draft.assume("MI200, since nothing names the GPUs; `--set gpu=...` says otherwise (vega, mi200, mi300)")
    return "mi200"


def _pcie(draft: Draft, settings: Settings, gpus: list[int], linked: set[Pair], types: dict[Pair, Token]) -> None:
    numa = {int(m.group(1)): m.group(2) for m in _NUMA.finditer(draft.source.text)}
    if not numa and not any(t.text.upper() == "PCIE" for t in types.values()):
        draft.conclude("PCIe is left out: nothing says where the GPUs are")
        return
    places = [f"NUMA {numa[i]}" if numa.get(i, "-1") != "-1" else "" for i in range(len(gpus))]
    tree = pcie.infer(len(gpus), {}, places)
    number = settings.whole("pcie-generation", 1, 6) or 4
    draft.assume(f"PCIe {number} with 16 lanes from each GPU to the CPU of its NUMA node")
    cls = classes.pcie(draft, settings, PCIE_GT[number], 16, f"PCIe {number} x16, NCCL's effective rate", "pcie")
    hosts = [
        draft.node(NodeKind.HOST, "cpu", ", ".join(dict.fromkeys(places[m] for m in ms if places[m])))
        for ms in tree.hosts
    ]
    for device, host in sorted(tree.on_host.items()):
        draft.link(gpus[device], hosts[host], 1, cls)
    join_hosts(draft, settings, hosts, "amd")
    if len(hosts) > 1:
        draft.assume("the sockets are AMD's; `--set cpu=...` says otherwise")
    assert linked is not None
