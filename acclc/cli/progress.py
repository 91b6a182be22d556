"""The progress line: what is being compiled, with bound, best and gap."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from acclc.ir.problem import Problem
    from acclc.solve.protocol import Progress


SECONDS_BETWEEN_LINES = 10.0


class ProgressLine:
    """An observer that rewrites one line of a terminal; into a log it writes a line every ten seconds at most."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last = clock()
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
            width = shutil.get_terminal_size().columns - 1  # a line that wraps could not be taken back
            self._stream.write(f"\r\x1b[K{text[:width]}")
            self._stream.flush()
            self._shown = True
        elif self._clock() - self._last >= SECONDS_BETWEEN_LINES:
            self._stream.write(f"{text}\n")
            self._stream.flush()
            self._last = self._clock()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
