"""The codes of the command line and the driver: about files, options and artefacts, not about a line of text."""

from __future__ import annotations

from acclc.diagnostics.entry import CatalogueEntry

COMMAND_CODES: tuple[CatalogueEntry, ...] = ()
