"""The ``emit`` block: for which types, operators, architectures and protocols code is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from acclc.diagnostics import Label, suggest
from acclc.ir.problem import Op
from acclc.sema.limits import MAX_CHANNELS
from acclc.sema.references import listed
from acclc.sema.report import Report
from acclc.source import Span
from acclc.syntax import ast

TYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "f8e4m3", "f8e5m2")
"""Data types; those of 8-bit floats only where nothing is reduced."""
PROTOCOLS = ("simple",)
ARCHITECTURES = (
    "sm_70",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_100a",
    "sm_103",
    "sm_120",
)


@dataclass(frozen=True, slots=True)
class EmitSettings:
    """What the file asks code for. The defaults: everything, made when it is first needed."""

    types: tuple[str, ...] = TYPES
    ops: tuple[Op, ...] = tuple(Op)
    arch: tuple[str, ...] = ("sm_80", "sm_90", "sm_100")
    protocols: tuple[str, ...] = ("simple",)
    channels: int | None = None
    """Of every collective that does not say it itself; None: one."""


_KNOWN = {"types": TYPES, "ops": tuple(op.value for op in Op), "arch": ARCHITECTURES, "protocols": PROTOCOLS}


def read_emit(blocks: Sequence[ast.Emit], report: Report) -> EmitSettings:
    """Return the settings of all ``emit`` blocks of a file; errors are reported."""
    settings = EmitSettings()
    places: dict[str, Span] = {}
    for entry in (entry for block in blocks for entry in block.entries):
        if entry.what in places:
            report.error(
                "duplicate-option",
                f"`{entry.what}` is said twice",
                entry.span,
                others=(Label(places[entry.what], "the first one"),),
                help="list all values in one place",
            )
            continue
        places[entry.what] = entry.span
        settings = _with_entry(settings, entry, report)
    return settings


def _with_entry(settings: EmitSettings, entry: ast.EmitEntry, report: Report) -> EmitSettings:
    if entry.what == "channels":
        channels = _channels(entry, report)
        return settings if channels is None else replace(settings, channels=channels)
    known = _KNOWN[entry.what]
    for value in entry.values:
        if value in known or (entry.what == "arch" and re.fullmatch(r"sm_[0-9]{2,3}[af]?", value)):
            continue
        near = suggest(value, known)
        report.error(
            "unknown-emit-value",
            f"`{value}` is none of the {_PEOPLE[entry.what]}",
            entry.span,
            help=f"did you mean `{near}`?" if near else f"there are {listed(known, 16)}",
        )
        return settings
    values = tuple(dict.fromkeys(entry.values))
    match entry.what:
        case "types":
            return replace(settings, types=values)
        case "ops":
            return replace(settings, ops=tuple(Op(value) for value in values))
        case "arch":
            return replace(settings, arch=values)
        case _:
            return replace(settings, protocols=values)


_PEOPLE = {"types": "data types", "ops": "operators", "arch": "architectures", "protocols": "protocols"}


def _channels(entry: ast.EmitEntry, report: Report) -> int | None:
    values = entry.values
    if len(values) == 1 and values[0].isdecimal() and 1 <= int(values[0]) <= MAX_CHANNELS:
        return int(values[0])
    report.error(
        "bad-limit",
        f"`channels` cannot be {', '.join(values)}",
        entry.span,
        help=f"it is one whole number from 1 to {MAX_CHANNELS}",
    )
    return None
