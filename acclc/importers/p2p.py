"""``nvidia-smi topo -p2p r|w|n``: between which GPUs peer access (reads, writes, NVLink) works."""

from __future__ import annotations

from acclc.importers import classes, matrix
from acclc.importers.matrix import DEVICE, Matrix
from acclc.importers.model import Draft, Imported
from acclc.importers.rates import PCIE_GT
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind
from acclc.source import Source, Span

MEANING = {
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "DR": "disabled by a registry key",
    "U": "unknown",
    "N/A": "unknown",
}


def is_p2p(found: Matrix) -> bool:
    """Whether a matrix is one of peer access: at least one cell says OK or why not."""
    return any(t.text.upper() in ("OK", *MEANING) for row in found.rows for t in row.cells)


def import_p2p(source: Source, settings: Settings) -> Imported:
    """Return what little this output says of a machine. Raises DiagnosticError."""
    draft = Draft(source)
    found = [m for m in matrix.find(source, matrix.P2P_CELL) if is_p2p(m)]
    if not found:
        draft.fail("import-missing", "no matrix of `nvidia-smi topo -p2p` was found in this text", Span(source, 0, 0))
    first = found[0]
    names = [n for n in first.names if DEVICE.match(n)]
    seen = {row.name.text for row in first.rows}
    missing = [n for n in names if n not in seen]
    if missing or len(names) != len(set(names)):
        what = f"there is no row of {missing[0]}" if missing else "two columns of one name"
        draft.fail("import-missing" if missing else "import-contradiction", what, first.rows[-1].name.span)
    gpus = [draft.node(NodeKind.GPU, "g", name) for name in names]
    draft.read(f"{len(gpus)} GPUs")
    for m in found:
        _say_pairs(draft, m)
    host = draft.node(NodeKind.HOST, "cpu", "not in the file")
    number = settings.whole("pcie-generation", 1, 6) or 3
    cls = classes.pcie(
        draft, settings, PCIE_GT[number], 16, f"PCIe {number} x16 is assumed, NCCL's effective rate", "pcie"
    )
    for gpu in gpus:
        draft.link(gpu, host, 1, cls)
    draft.assume(f"each GPU has PCIe {number} with 16 lanes to one CPU: this output says nothing of links")
    draft.warn(
        "import-partial",
        "`topo -p2p` says between whom peer access works, not what joins the GPUs",
        first.rows[0].name.span,
        help="import the output of `nvidia-smi topo -m`",
    )
    return draft.finish("the output of `nvidia-smi topo -p2p`")


def _say_pairs(draft: Draft, found: Matrix) -> None:
    names = found.names
    refused = [
        (row.name.text, names[i], t)
        for row in found.rows
        for i, t in enumerate(row.cells[: len(names)])
        if t.text.upper() not in ("X", "OK")
    ]
    if not refused:
        draft.read(f"peer access works between all pairs (line {found.line})")
        return
    a, b, token = refused[0]
    more = f", and {len(refused) - 1} more" if refused[1:] else ""
    draft.warn(
        "import-partial",
        f"no peer access from {a} to {b}: {MEANING.get(token.text.upper(), token.text)}{more}",
        token.span,
        help="such pairs go through host memory, at the rate of two PCIe links at best",
    )
