"""What the page and the trace are made from: a neutral structure that the driver fills.

It holds the types of the compiler as they are. Whoever has a problem, a bound, schedules and the times of
their transfers can draw them; nothing here knows how they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from acclc.ir.problem import Problem
from acclc.ir.program import Program
from acclc.ir.result import Bound, Excluded, Status
from acclc.ir.schedule import Schedule, TransferId


class TransferTimes(Protocol):
    """The times of one transfer in seconds, as ``acclc.simulate.TransferTime`` has them."""

    @property
    def start(self) -> Fraction:
        """When it began to occupy its links."""

    @property
    def sent(self) -> Fraction:
        """When its last byte was sent."""

    @property
    def arrived(self) -> Fraction:
        """When it can be used at its destination."""


@dataclass(frozen=True, slots=True)
class ViewTimes:
    """When each transfer of a schedule happened, in seconds from the start, for one size.

    The three sequences are indexed by transfer. From ``starts`` to ``sent`` the transfer occupies its links;
    at ``arrived`` (later by the latency of the path) its data may be used.
    """

    shard_bytes: int
    starts: Sequence[Fraction | float]
    sent: Sequence[Fraction | float]
    arrived: Sequence[Fraction | float]
    measured: bool = False
    """Measured on a machine, not simulated."""

    @classmethod
    def of(cls, shard_bytes: int, times: Sequence[TransferTimes], *, measured: bool = False) -> ViewTimes:
        """Make it from times in the schedule's order: ``ViewTimes.of(t.shard_bytes, t.transfers)`` of a Timeline."""
        return cls(
            shard_bytes,
            tuple(t.start for t in times),
            tuple(t.sent for t in times),
            tuple(t.arrived for t in times),
            measured,
        )


@dataclass(frozen=True, slots=True)
class MeasuredPut:
    """What one block of a kernel did with one piece of data in a call that was measured; ns since the call began.

    ``transfers``: those that it made, none for local work. A call is cut into slices, and these among channels.
    """

    rank: int
    block: int
    channel: int
    slice: int
    step: int
    transfers: tuple[TransferId, ...]
    bytes: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class ViewVariant:
    """One schedule, with its times for one size or several, and the kernel that was generated for it.

    ``min_bytes`` and ``max_bytes`` are the sizes S (None: no limit) for which it is chosen. ``kernel_lines``
    pairs lines of ``kernel_source`` (from 1) with the transfer that each performs; where it is empty, the lines are
    found by the form of their statements.
    """

    schedule: Schedule
    times: tuple[ViewTimes, ...]
    id: str = ""
    """Defaults to the schedule's (C, S, R) name."""
    kernel_source: str = ""
    kernel_lines: tuple[tuple[int, int], ...] = ()
    min_bytes: int | None = None
    max_bytes: int | None = None
    by_name: bool = False
    """No call chooses it: it is there for whoever names it."""
    program: Program | None = None
    solve_seconds: float | None = None
    """How long the search for it took, where that is known: an artefact that was read back does not say."""

    @property
    def name(self) -> str:
        """The id that is shown."""
        return self.id or self.schedule.id


@dataclass(frozen=True, slots=True)
class ViewHeadroom:
    """What to compare with at one size: no schedule is faster than ``bound_seconds``, and what known shapes take."""

    shard_bytes: int
    bound_seconds: Fraction
    others: tuple[tuple[str, Fraction], ...] = ()
    """(name, seconds), as ``ring`` or ``tree``; empty where the topology has none of them."""


@dataclass(frozen=True, slots=True)
class ViewCollective:
    """One collective: the question, the bound, what was excluded, and the schedules that answer it."""

    problem: Problem
    bound: Bound
    status: Status
    variants: tuple[ViewVariant, ...]
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()
    headroom: tuple[ViewHeadroom, ...] = ()
    artefact: str = ""
    """Where it comes from, if several are shown side by side."""


@dataclass(frozen=True, slots=True)
class ViewInput:
    """All that one page or trace shows."""

    name: str
    collectives: tuple[ViewCollective, ...]
