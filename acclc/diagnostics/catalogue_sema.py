"""The codes of semantic analysis: what a text means cannot be, or is most likely not meant."""

from __future__ import annotations

from acclc.diagnostics.catalogue_sema_collective import COLLECTIVE_CODES
from acclc.diagnostics.catalogue_sema_names import NAME_CODES
from acclc.diagnostics.catalogue_sema_topology import TOPOLOGY_CODES
from acclc.diagnostics.entry import CatalogueEntry

SEMA_CODES: tuple[CatalogueEntry, ...] = (*NAME_CODES, *TOPOLOGY_CODES, *COLLECTIVE_CODES)
