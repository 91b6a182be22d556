"""Program: *who* does what. Per rank, blocks of matched sends, receives and local reductions.

Engine-neutral: every engine and the exporters start from it. It lies in the runtime because engines execute
it; the compiler re-exports it as ``acclc.ir.program``. Offsets are expressions over the count: an
:class:`Extent` becomes elements only through :mod:`acclc_runtime.partition`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

PROGRAM_VERSION = 1


class Buffer(StrEnum):
    """A rank's memory: the user's input and output, and scratch that the runtime provides."""

    INPUT = "in"
    OUTPUT = "out"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Extent:
    """The part [begin, end) (fractions of the count) of one count-long unit of a buffer.

    ``unit`` counts units from the start of an input or output. In scratch it is a slot's number, and
    [begin, end) says which part of a unit the slot holds (so how long it is), not where in the slot.

    Where counts vary (all_to_all_v) each shard has a count of its own, and the units of a buffer lie one behind the
    other, each as long as its shard's count. ``shard`` then says whose count the fractions are of; else it is -1.
    """

    buffer: Buffer
    unit: int
    begin: Fraction
    end: Fraction
    shard: int = -1


class OperationKind(StrEnum):
    """send: reduce the sources, send the result. receive: into the target. compute: reduce into the target."""

    SEND = "send"
    RECEIVE = "receive"
    COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a block; blocks run theirs in order.

    Sources are reduced left to right; a single one is a copy. ``final``: this reduction is complete with it
    (avg divides here). A send matches the receive of the same ``transfer``: message number ``fifo`` of
    (sender, receiver, ``channel``). ``after``: operations of the same rank that must have ended before, beyond
    the block's own order (ids are unique in a rank).
    """

    id: int
    kind: OperationKind
    step: int
    sources: tuple[Extent, ...] = ()
    target: Extent | None = None
    transfer: int = -1
    peer: int = -1
    """Global rank."""
    channel: int = 0
    fifo: int = -1
    final: bool = False
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramBlock:
    """Operations in order. ``link`` is the first link of the sends' paths; -1 for receives and local work."""

    link: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class RankProgram:
    """What one rank does. Buffers are ``input_units`` and ``output_units`` counts long; ``slots`` scratch slots."""

    rank: int
    input_units: int
    output_units: int
    slots: int
    blocks: tuple[ProgramBlock, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """All ranks' programs. ``in_place`` as in ``acclc.ir.problem.InPlace``, with each rank's ``position`` in it."""

    name: str
    in_place: str
    positions: tuple[int, ...]
    """Group rank of each of ``ranks``: the unit at which its part lies in the shared buffer."""
    contributors: int
    """By how many contributions avg divides (1 where nothing is reduced)."""
    ranks: tuple[RankProgram, ...]
