"""Diagnostics: the model, the catalogue of codes, and the one renderer."""

from __future__ import annotations

from acclc.diagnostics.catalogue import CATALOGUE
from acclc.diagnostics.entry import CatalogueEntry
from acclc.diagnostics.model import Diagnostic, DiagnosticError, Label, Severity
from acclc.diagnostics.rendering import explain, render
from acclc.diagnostics.suggestion import suggest

__all__ = [
    "CATALOGUE",
    "CatalogueEntry",
    "Diagnostic",
    "DiagnosticError",
    "Label",
    "Severity",
    "explain",
    "render",
    "suggest",
]
