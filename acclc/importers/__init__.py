"""Foreign descriptions of machines -> text of the language: one module a family of formats, all pure functions.

The way: bytes -> :func:`source_of` -> :func:`import_text` (which finds out the format) -> :class:`Imported` ->
:func:`text_of`. Nothing is guessed in silence: what was read, concluded and assumed stands in the text as comments.
"""

from __future__ import annotations

from dataclasses import replace

from acclc.diagnostics import Diagnostic, DiagnosticError
from acclc.importers.detect import FORMATS, import_text
from acclc.importers.emit import text_of, topology_name
from acclc.importers.model import Evidence, Imported, Note
from acclc.importers.settings import Settings
from acclc.source import Source

__all__ = [
    "FORMATS",
    "Evidence",
    "Imported",
    "Note",
    "Settings",
    "import_machine",
    "source_of",
    "text_of",
    "topology_name",
]

MAX_BYTES = 64 * 2**20


def import_machine(
    source: Source, settings: tuple[str, ...] = (), format: str = "auto", with_: Source | None = None
) -> Imported:
    """Import a machine and warn of settings that had nothing to act on.

    Raises:
        DiagnosticError: with all that is wrong with the file or the settings.
    """
    known = Settings(settings)
    imported = import_text(source, known, format, with_)
    unused = known.unused()
    return replace(imported, warnings=(*imported.warnings, unused)) if unused else imported


def source_of(data: bytes, name: str) -> Source:
    """Return the text of a file: UTF-8 or UTF-16 with a mark (as PowerShell writes), Latin-1 as the last resort.

    Raises:
        DiagnosticError: the file is too large.
    """
    if len(data) > MAX_BYTES:
        message = f"`{name}` is larger than {MAX_BYTES // 2**20} MiB"
        raise DiagnosticError(Diagnostic("import-too-large", message))
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", errors="replace")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    return Source(name, text.replace("\r\n", "\n").replace("\r", "\n"))
