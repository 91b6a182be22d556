"""What every verifier returns: a list of findings and the facts it recomputed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (or, with ``warning``, merely odd).

    ``code`` is stable and made of the level and a word (``schedule.capacity``); ``where`` is the narrowest
    place: a transfer, a rank and block, a counter, a link and step.
    """

    code: str
    message: str
    where: str = ""
    warning: bool = False

    def __str__(self) -> str:
        place = f" [{self.where}]" if self.where else ""
        return f"{'warning' if self.warning else 'error'} {self.code}{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Report(Generic[F]):
    """Findings in a deterministic order, and the facts (None where the findings made them meaningless)."""

    findings: tuple[Finding, ...]
    facts: F | None = None

    @property
    def ok(self) -> bool:
        """No finding but warnings."""
        return all(f.warning for f in self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that fail the check."""
        return tuple(f for f in self.findings if not f.warning)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "no findings"


@dataclass(slots=True)
class Collector:
    """Findings as they are found. At most ``limit`` of one code are kept: the first ones tell the story."""

    limit: int = 20
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def error(self, code: str, where: str, message: str) -> None:
        """Note something wrong."""
        self._add(Finding(code, message, where))

    def warning(self, code: str, where: str, message: str) -> None:
        """Note something odd that does not fail the check."""
        self._add(Finding(code, message, where, warning=True))

    def _add(self, finding: Finding) -> None:
        count = self.counts.get(finding.code, 0) + 1
        self.counts[finding.code] = count
        if count <= self.limit:
            self.findings.append(finding)

    @property
    def failed(self) -> bool:
        """Whether an error was noted."""
        return any(not f.warning for f in self.findings)

    def report(self, facts: F | None = None) -> Report[F]:
        """Return what was found; says how many findings of a code were left out."""
        more: Iterable[Finding] = (
            Finding(code, f"{count - self.limit} more findings of this kind", warning=True)
            for code, count in self.counts.items()
            if count > self.limit
        )
        return Report((*self.findings, *more), facts)
