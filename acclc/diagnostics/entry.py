"""What the catalogue knows of one diagnostic code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One code of a diagnostic, at length: what ``acclc explain CODE`` prints.

    ``wrong`` is a minimal text that draws the diagnostic and ``right`` the same text mended. Both are empty
    for a code that no text can draw (a code of the command line, a file that is not text).
    """

    code: str
    title: str
    explanation: str
    wrong: str = ""
    right: str = ""
