"""Semantic analysis: from the program as written to the problems that it states."""

from __future__ import annotations

from acclc.sema.analysis import Analysis, analyse, analyse_text, library_names, topology_named
from acclc.sema.damage import Damaged, Degraded, damage, parse_degraded
from acclc.sema.emit import EmitSettings

__all__ = [
    "Analysis",
    "Damaged",
    "Degraded",
    "EmitSettings",
    "analyse",
    "analyse_text",
    "damage",
    "library_names",
    "parse_degraded",
    "topology_named",
]
