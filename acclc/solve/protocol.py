"""What every solver is: one method, one budget, one way to report. The registry lists them by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from acclc.ir.problem import Problem
from acclc.ir.result import Result


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment by the wall clock (``seconds`` after it was made), or none.

    It is a safety net: what limits a search by default is counted work (``Budget.work``), which gives the same
    bytes on every machine. A search that this clock did cut says that it cannot be reproduced.
    """

    seconds: float | None = None
    start: float = field(default_factory=time.monotonic)

    @classmethod
    def after(cls, seconds: float | Fraction | None) -> Deadline:
        """Return the deadline so many seconds from now; None: none."""
        return cls(None if seconds is None else float(seconds))

    def remaining(self) -> float | None:
        """Seconds left (never negative); None without a deadline."""
        if self.seconds is None:
            return None
        return max(0.0, self.seconds - (time.monotonic() - self.start))

    @property
    def expired(self) -> bool:
        """Whether the moment has passed."""
        return self.remaining() == 0.0


DEFAULT_WORK = 4.0
"""Work units of a search without a deadline of the user's. A unit is one or two seconds on one core."""
WORK_PER_SECOND = 0.35
"""Work units granted for each second of a user's deadline."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a solver may spend. ``work`` is in CP-SAT's deterministic time units; None: the default."""

    deadline: Deadline = field(default_factory=Deadline)
    work: float | None = None
    seed: int = 0
    workers: int = 1

    @property
    def by_default(self) -> bool:
        """Whether the user set no limit."""
        return self.work is None and self.deadline.seconds is None

    @property
    def granted(self) -> float:
        """Work units that may be spent."""
        if self.work is not None:
            return self.work
        seconds = self.deadline.seconds
        return DEFAULT_WORK if seconds is None else seconds * WORK_PER_SECOND


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of a running search. ``best`` and ``bound`` are rounds a chunk (R/C)."""

    message: str
    best: Fraction | None = None
    bound: Fraction | None = None

    @property
    def gap(self) -> Fraction | None:
        """(best - bound) / bound; None where either is unknown or the bound is nought."""
        if self.best is None or self.bound is None or self.bound == 0:
            return None
        return self.best / self.bound - 1


Report = Callable[[Progress], None]
"""What a solver calls as it goes."""


def silent(_progress: Progress) -> None:
    """Report to nobody."""


class Solver(Protocol):
    """A way to find schedules. It returns what it found at the deadline or an interrupt; it never raises for time."""

    name: str

    def solve(self, problem: Problem, budget: Budget, report: Report) -> Result:
        """Return the schedules found, with what is proven of them."""
