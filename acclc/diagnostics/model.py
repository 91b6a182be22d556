"""Diagnostics: what is said about a text, where, and what to do. Printing is :mod:`.rendering`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from acclc.diagnostics.catalogue import CATALOGUE
from acclc.source import Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Label:
    """A place in a text, with the words that stand beside its carets (may be empty)."""

    span: Span
    text: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning. The first label is the primary one: the place that is printed after ``-->``.

    ``labels`` is empty only where there is no place at all (a missing file, an option of the command line).

    Raises:
        ValueError: ``code`` is not in the catalogue. That is a mistake in the compiler, never the user's.
    """

    code: str
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    severity: Severity = "error"

    def __post_init__(self) -> None:
        if self.code not in CATALOGUE:
            raise ValueError(f"diagnostic code {self.code!r} is not in the catalogue")

    def to_dict(self) -> dict[str, object]:
        """Return what ``--json`` prints of it: lines and columns from 1, the end column exclusive.

        The five places are None where the diagnostic has no label.
        """
        places: dict[str, object] = dict.fromkeys(("file", "line", "column", "endLine", "endColumn"))
        if self.labels:
            span = self.labels[0].span
            line, column = span.source.position(span.start)
            end_line, end_column = span.source.position(max(span.start, span.end))
            places = {
                "file": span.source.name,
                "line": line,
                "column": column,
                "endLine": end_line,
                "endColumn": end_column,
            }
        return {
            **places,
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "notes": list(self.notes),
            "help": self.help,
        }


class DiagnosticError(Exception):
    """A user's mistake: carries every diagnostic found, at least one of them an error, in the order to print."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        if not any(d.severity == "error" for d in self.diagnostics):
            raise ValueError("a DiagnosticError needs at least one error")
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        from acclc.diagnostics.rendering import render

        return render(self.diagnostics)
