"""What an unrolled kernel program is made of: calls, resolved puts, what memory and slots hold, where blocks are."""

from __future__ import annotations

from dataclasses import dataclass, field

from acclc.verify.clocks import Vector
from acclc.verify.expressions import Expression
from acclc.verify.intent import Part
from acclc.verify.memory import Cells, Location, Memory


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the sequence."""

    slices: int
    aliased: bool


@dataclass(frozen=True, slots=True)
class ResolvedPlace:
    """A source or a target: its cell, where that lies, and the transfer that the access makes (-1: none)."""

    cell: int
    location: Location
    rank: int
    transfer: int
    same: bool
    """A target that is the one source, as an in-place call's own part is: nothing is accessed."""


@dataclass(frozen=True, slots=True)
class ResolvedPut:
    """A put with its places resolved for one aliasing."""

    sources: tuple[ResolvedPlace, ...]
    targets: tuple[ResolvedPlace, ...]
    part: Part
    final: bool
    no_op: bool
    """All targets are the one source."""


@dataclass(slots=True)
class Mode:
    """What depends on whether a call is in place."""

    memory: Memory
    cells: Cells
    initial: dict[Location, Expression]
    puts: list[list[ResolvedPut | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Held:
    """A value in memory; scratch also remembers what it belongs to."""

    value: Expression | None
    part: Part
    call: int
    slice: int


@dataclass(frozen=True, slots=True)
class Label:
    """Names an executed instruction, for messages."""

    block: int
    position: int
    call: int
    slice: int


@dataclass(frozen=True, slots=True)
class Lines:
    """The last lines in a slot: of which slice, counted over calls; who wrote them when; what they prove."""

    number: int
    block: int
    time: int
    proves: Vector


@dataclass(slots=True)
class Thread:
    """Where a block is. ``slice`` -1 is ``entry``; ``time`` counts its barriers."""

    call: int = 0
    slice: int = -1
    position: int = 0
    time: int = 1
    waits: tuple[int, int] | None = None
    """(counter, value) it stands at; an arrival by lines: as if it were posted once a slice."""
