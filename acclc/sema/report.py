"""Collecting what is wrong: every error once, in the order of its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.source import Source, Span


class Report:
    """Gathers diagnostics. The same code at the same place is reported once: a loop body fails many times.

    ``attempts`` counts also what was not reported again, so that a pass can tell whether its work is whole.
    """

    def __init__(self) -> None:
        self.attempts = 0
        self._found: dict[tuple[str, Span | str], Diagnostic] = {}
        self._sources: dict[Source, int] = {}
        self._context: list[str] = []

    def known(self, code: str, span: Span) -> bool:
        """Say whether this was reported, counting the attempt: for callers whose message is costly to make."""
        if (code, span) not in self._found:
            return False
        self.attempts += 1
        return True

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        label: str = "",
        *,
        help: str | None = None,
        notes: Sequence[str] = (),
        others: Sequence[Label] = (),
    ) -> None:
        """Add an error at ``span`` (None: it has no place); ``others`` are further places that explain it."""
        self.attempts += 1
        key = (code, span if span is not None else message)
        if key in self._found:
            return
        labels = () if span is None else (Label(span, label), *others)
        self._meet(span)
        self._found[key] = Diagnostic(code, message, labels, (*notes, *self._context[-1:]), help)

    def warning(self, code: str, message: str, span: Span, label: str = "", *, help: str | None = None) -> None:
        """Add a warning at ``span``."""
        if (code, span) in self._found:
            return
        self._meet(span)
        self._found[code, span] = Diagnostic(code, message, (Label(span, label),), (), help, "warning")

    def take(self, error: DiagnosticError) -> None:
        """Add what another pass (the parser) found."""
        self.attempts += 1
        for diagnostic in error.diagnostics:
            span = diagnostic.labels[0].span if diagnostic.labels else None
            self._meet(span)
            self._found.setdefault((diagnostic.code, span or diagnostic.message), diagnostic)

    @contextmanager
    def within(self, note: str) -> Iterator[None]:
        """Add ``note`` to every error reported inside: where a topology was used that is declared elsewhere."""
        self._context.append(note)
        try:
            yield
        finally:
            self._context.pop()

    def _meet(self, span: Span | None) -> None:
        if span is not None:
            self._sources.setdefault(span.source, len(self._sources))

    def meet(self, source: Source) -> None:
        """Fix the place of ``source`` in the order of texts: those met first come first."""
        self._sources.setdefault(source, len(self._sources))

    def finish(self) -> tuple[Diagnostic, ...]:
        """Return the warnings, in order of place.

        Raises:
            DiagnosticError: there are errors; it carries these and the warnings, in order of place.
        """

        def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
            if not diagnostic.labels:
                return (-1, 0, 0)
            span = diagnostic.labels[0].span
            return (self._sources[span.source], span.start, span.end)

        ordered = sorted(self._found.values(), key=place)
        if any(d.severity == "error" for d in ordered):
            raise DiagnosticError(ordered)
        return tuple(ordered)
