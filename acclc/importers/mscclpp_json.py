"""MSCCL++'s execution plans in JSON, read into their type."""

from __future__ import annotations

import re

import msgspec

from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.importers import json_reader
from acclc.ir.mscclpp import Plan
from acclc.source import Source


def read_plan(source: Source) -> Plan:
    """Return the plan of a text. Keys that are not known are left out; what is there must be of its type.

    Raises:
        DiagnosticError: no JSON, a key is missing, or a value is of another type.
    """
    value = json_reader.read(source)
    try:
        return msgspec.convert(value, Plan)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at ")
        place = json_reader.locate(source, _path(path))
        code = "import-missing" if "missing required" in words else "import-value"
        raise DiagnosticError(
            Diagnostic(code, f"no execution plan of MSCCL++: {words[:1].lower()}{words[1:]}", (Label(place),))
        ) from None


def _path(text: str) -> list[str | int]:
    """Read msgspec's ``$.gpus[0].id``; where it says ``[...]``, the path ends."""
    path: list[str | int] = []
    for key, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", text):
        if index == "...":
            break
        path.append(key or int(index))
    return path
