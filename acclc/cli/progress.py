"""The progress line: what is being compiled, with bound, best and gap, on a terminal only."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from acclc.ir.problem import Problem
    from acclc.solve.protocol import Progress


class ProgressLine:
    """An observer that rewrites one line of a terminal; silent where the output is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = False
        self._live = stream.isatty()

    def stage(self, problem: Problem, name: str) -> None:
        """Show the stage that begins."""
        self._show(f"{problem.name}: {name}")

    def progress(self, problem: Problem, progress: Progress) -> None:
        """Show the solver's news."""
        parts = [f"{problem.name}: {progress.message}"]
        if progress.bound is not None:
            parts.append(f"bound {progress.bound}")
        if progress.best is not None:
            parts.append(f"best {progress.best}")
        if progress.gap is not None:
            parts.append(f"gap {float(progress.gap):.1%}")
        self._show("  ".join(parts))

    def _show(self, text: str) -> None:
        if self._live:
            self._stream.write(f"\r\x1b[K{text[:100]}")
            self._stream.flush()
            self._shown = True

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
