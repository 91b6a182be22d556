"""Every diagnostic code there is, one entry each."""

from __future__ import annotations

from collections.abc import Iterable

from acclc.diagnostics.catalogue_command import COMMAND_CODES
from acclc.diagnostics.catalogue_import import IMPORT_CODES
from acclc.diagnostics.catalogue_sema import SEMA_CODES
from acclc.diagnostics.catalogue_syntax import SYNTAX_CODES
from acclc.diagnostics.entry import CatalogueEntry


def _merge(*groups: Iterable[CatalogueEntry]) -> dict[str, CatalogueEntry]:
    merged: dict[str, CatalogueEntry] = {}
    for group in groups:
        for entry in group:
            if entry.code in merged:
                raise ValueError(f"diagnostic code {entry.code!r} is in the catalogue twice")
            merged[entry.code] = entry
    return merged


CATALOGUE: dict[str, CatalogueEntry] = _merge(SYNTAX_CODES, SEMA_CODES, IMPORT_CODES, COMMAND_CODES)
