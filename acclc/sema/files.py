"""Which topologies a file can name: its own, those of the files it imports, and the library's."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from acclc import library
from acclc.diagnostics import DiagnosticError, Label, suggest
from acclc.sema.limits import MAX_DEPTH
from acclc.sema.report import Report
from acclc.source import Source, Span
from acclc.syntax import ast
from acclc.syntax.parser import MAXIMUM_BYTES, parse, source_of_bytes

ReadImport = Callable[[str, Source], Source]
"""(path as written, the importing text) -> the text.

Raises OSError or ValueError with a reason for people, or DiagnosticError for what is no text.
"""


def read_beside(target: str, importer: Source) -> Source:
    """Read ``target`` relative to the folder of the importing file.

    Raises:
        OSError: it cannot be read. ValueError: it is no regular file. DiagnosticError: it is too large, or no text.
    """
    path = Path(os.path.normpath(Path(importer.name).parent / target))
    if not stat.S_ISREG(path.stat().st_mode):  # asked before opening: a pipe would block
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        return source_of_bytes(file.read(MAXIMUM_BYTES + 1), str(path))


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration and the file whose names it may use."""

    item: ast.TopologyDecl | ast.TopologyAlias
    home: FileScope


@dataclass(eq=False, slots=True)
class FileScope:
    """The topologies of one file. None: declared with an error that is reported."""

    own: dict[str, Declared] = field(default_factory=dict)
    imported: dict[str, Declared] = field(default_factory=dict)
    is_complete: bool = True
    """False if an import failed: a name that is missing may have been there."""


@lru_cache(maxsize=64)
def _parsed_library(name: str) -> ast.File:
    return parse(library.source(name))


class Loader:
    """Reads imports and the library, each once."""

    def __init__(self, report: Report, read_import: ReadImport) -> None:
        self._report = report
        self._read = read_import
        self._files: dict[str, FileScope | None] = {}
        self._library: dict[str, Declared] = {}

    def find(self, name: str, home: FileScope) -> Declared | None:
        """Return the declaration of ``name`` as seen from ``home``, or None. The library comes last."""
        found = home.own.get(name) or home.imported.get(name) or self._library.get(name)
        if found is None and name in library.names():
            scope = FileScope()
            for item in _parsed_library(name).items:
                if isinstance(item, ast.TopologyDecl | ast.TopologyAlias):
                    scope.own[item.name] = Declared(item, scope)
            found = self._library[name] = scope.own[name]
        return found

    def all_names(self, home: FileScope) -> list[str]:
        """Return every name that ``find`` knows."""
        return list(dict.fromkeys([*home.own, *home.imported, *library.names()]))

    def load(self, file: ast.File, trail: tuple[str, ...]) -> FileScope:
        """Return the scope of a file; ``trail`` holds the names of the files that led here, itself last."""
        scope = FileScope()
        places: dict[str, Span] = {}
        for item in file.items:
            if isinstance(item, ast.Import):
                self._import(item, scope, places, trail)
        for item in file.items:
            if isinstance(item, ast.TopologyDecl | ast.TopologyAlias) and self._claim(
                item.name, item.name_span, places
            ):
                scope.own[item.name] = Declared(item, scope)
        return scope

    def _claim(self, name: str, span: Span, places: dict[str, Span]) -> bool:
        if name in places:
            self._report.error(
                "duplicate-name",
                f"there are two topologies `{name}`",
                span,
                others=(Label(places[name], "the first one"),),
                help="give one of them another name",
            )
            return False
        places[name] = span
        return True

    def _import(self, item: ast.Import, scope: FileScope, places: dict[str, Span], trail: tuple[str, ...]) -> None:
        if not item.is_path:
            if item.target not in library.names():
                near = suggest(item.target, library.names())
                self._report.error(
                    "unknown-topology",
                    f"the library has no topology `{item.target}`",
                    item.span,
                    help=f"did you mean `{near}`?"
                    if near
                    else f'a file is imported by its path: `import "{item.target}.accl"`',
                )
                scope.is_complete = False
            elif self._claim(item.target, item.span, places):
                found = self.find(item.target, FileScope())
                assert found is not None
                scope.imported[item.target] = found
            return
        imported = self._file(item, trail)
        if imported is None:
            scope.is_complete = False
            return
        scope.is_complete &= imported.is_complete
        for name, declared in imported.own.items():
            if self._claim(name, item.span, places):
                scope.imported[name] = declared

    def _file(self, item: ast.Import, trail: tuple[str, ...]) -> FileScope | None:
        """Return the scope of an imported file; None after an error."""
        try:
            source = self._read(item.target, item.span.source)
        except (OSError, ValueError) as error:
            reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            self._report.error(
                "import-failed",
                f'cannot read "{item.target}": {reason}',
                item.span,
                help="the path is relative to the folder of this file",
            )
            return None
        except DiagnosticError as error:
            self._report.take(error)
            return None
        if source.name in trail:
            around = " -> ".join((*trail[trail.index(source.name) :], source.name))
            self._report.error(
                "import-cycle", f"these files import each other: {around}", item.span, help="take one import away"
            )
            return None
        if len(trail) > MAX_DEPTH:
            self._report.error(
                "nested-too-deep",
                f"imports are nested more than {MAX_DEPTH} deep",
                item.span,
                help="import fewer levels",
            )
            return None
        if source.name not in self._files:
            self._report.meet(source)
            try:
                self._files[source.name] = self.load(parse(source), (*trail, source.name))
            except DiagnosticError as error:
                self._report.take(error)
                self._files[source.name] = None
        return self._files[source.name]
