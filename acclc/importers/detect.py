"""What a file is: by its first sign, then by its keys; also what it is when it is no topology."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from acclc.diagnostics import Diagnostic, DiagnosticError, Label, suggest
from acclc.importers import astra, json_reader, matrix, msccl, nccl, p2p, rocm, smi, taccl, teccl
from acclc.importers.model import Imported
from acclc.importers.settings import Settings
from acclc.source import Source, Span

TEXT_FORMATS: dict[str, Callable[[Source, Settings], Imported]] = {
    "nvidia-smi": smi.import_topo_m,
    "nvidia-smi-p2p": p2p.import_p2p,
    "rocm-smi": rocm.import_showtopo,
    "nccl": nccl.import_xml,
    "rccl": nccl.import_xml,
    "astra-sim": astra.import_yaml,
}
JSON_FORMATS: dict[str, Callable[[Source, Settings, Any], Imported]] = {
    "taccl": taccl.import_topology,
    "taccl-sketch": taccl.import_sketch,
    "te-ccl": teccl.import_json,
    "msccl-tools": msccl.import_json,
}
FORMATS = (*TEXT_FORMATS, *JSON_FORMATS)
"""What ``--format`` takes beside ``auto``."""


def import_text(source: Source, settings: Settings, format: str = "auto", with_: Source | None = None) -> Imported:
    """Return the machine of a text. ``with_``: TACCL's topology, for a sketch.

    Raises:
        DiagnosticError: with all that is wrong.
    """
    if format not in ("auto", *FORMATS):
        near = suggest(format, FORMATS)
        help = f"did you mean `{near}`?" if near else f"there are {', '.join(FORMATS)}"
        raise DiagnosticError(Diagnostic("import-unknown-format", f"there is no format `{format}`", help=help))
    root = None
    if format == "auto":
        format, root = _detect(source)
    if format == "taccl-sketch":
        return taccl.import_sketch(source, settings, root, with_)
    if with_ is not None:
        message = "only a sketch of TACCL takes a second file"
        raise DiagnosticError(Diagnostic("import-setting", f"--with: {message}, and this is {format}"))
    if format in JSON_FORMATS:
        return JSON_FORMATS[format](source, settings, root)
    return TEXT_FORMATS[format](source, settings)


def _detect(source: Source) -> tuple[str, Any]:
    text = source.text.lstrip("\ufeff \t\r\n")
    if not text.strip("\0"):
        raise _unknown(source, "the file is empty")
    if text.startswith("<"):
        return "nccl", None
    if re.match(r"\{|\[\s*[\[{\"\]]", text):
        root = json_reader.read(source)
        return _json_format(source, root), root
    folded = source.text.lower()
    if any(title in folded for title in rocm.TITLES.values()):
        return "rocm-smi", None
    _refuse_other_text(source)
    matrices = matrix.find(source)
    if any(smi_like(m) for m in matrices):
        return "nvidia-smi", None
    if any(p2p.is_p2p(m) for m in matrix.find(source, matrix.P2P_CELL)):
        return "nvidia-smi-p2p", None
    if matrices:
        return "nvidia-smi", None
    if re.search(r"^\s*(?:topology|npus_count|npus-count)\s*:", source.text, re.MULTILINE):
        return "astra-sim", None
    if re.search(r"^[\s>|]*GPU0\b", source.text, re.MULTILINE):
        return "nvidia-smi", None
    raise _unknown(source, "the format of this file is not known")


def smi_like(found: matrix.Matrix) -> bool:
    """Whether a matrix has a cell of ``topo -m`` beside the X of the diagonal."""
    return any(matrix.CELL.match(t.text) and t.text.upper() != "X" for row in found.rows for t in row.cells)


def _json_format(source: Source, root: Any) -> str:
    if not isinstance(root, dict):
        raise _unknown(source, "a topology in JSON is an object")
    keys = set(root)
    if "msccl_type" in keys:
        kind = root["msccl_type"]
        if kind == "topology" or (kind == "algorithm" and isinstance(root.get("topology"), dict)):
            return "msccl-tools"
        raise _not_a_topology(source, ["msccl_type"], f"a {kind} of msccl-tools")
    if "TopologyParams" in keys:
        return "te-ccl"
    if "nnodes" in keys or "intranode_sketch" in keys or "internode_sketch" in keys:
        return "taccl-sketch"
    if "gpus_per_node" in keys or "node_betas_list" in keys:
        return "taccl"
    if isinstance(root.get("gpus"), list) and keys & {"collective", "protocol", "inplace"}:
        raise _not_a_topology(source, ["gpus"], "an execution plan of MSCCL++, which is a schedule")
    if "logical-dims" in keys:
        raise _not_a_topology(
            source, ["logical-dims"], "the logical topology of ASTRA-sim's ns-3 back end, which has no links or rates"
        )
    if {"links", "switches"} <= keys or ("links" in keys and "name" in keys):
        return "msccl-tools"
    raise _unknown(source, "the keys of this JSON are those of no known format")


def _refuse_other_text(source: Source) -> None:
    if re.match(r"\s*Nodes\s+\d+\s*\n\s*Tiers\s+\d+", source.text):
        raise _not_a_topology(source, [], "a fat tree of the htsim back end, a format that is not read")
    if re.search(r"^\s*topology\s+\w+\s*[({=]", source.text, re.MULTILINE):
        raise _not_a_topology(source, [], "a file in the language of acclc already")


def _not_a_topology(source: Source, path: list[str | int], what: str) -> DiagnosticError:
    span = json_reader.locate(source, path) if path else _first_line(source)
    help = "a topology file says what links there are; `acclc explain import-not-a-topology` lists what is read"
    if "language of acclc" in what:
        help = "`acclc topo show FILE` shows it, `acclc compile FILE` compiles it"
    return DiagnosticError(Diagnostic("import-not-a-topology", f"this is {what}", (Label(span),), help=help))


def _unknown(source: Source, message: str) -> DiagnosticError:
    help = f"`--format` names one: {', '.join(FORMATS)}"
    return DiagnosticError(Diagnostic("import-unknown-format", message, (Label(_first_line(source)),), help=help))


def _first_line(source: Source) -> Span:
    for _, start, text in matrix.lines(source):
        if text.strip():
            lead = len(text) - len(text.lstrip())
            return Span(source, start + lead, start + max(lead + 1, min(len(text.rstrip()), lead + 60)))
    return Span(source, 0, 0)
