"""KernelPlan: the flat values that the kernel template prints: names and numbers, nothing to decide.

Ranks are positions in the group from here on (the order of ``KernelProgram.ranks``), as the runtime passes memory;
global ranks occur in comments only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlanPart:
    """The part [begin/begin_of, end/end_of) of a count, under a name that the generated code uses."""

    name: str
    begin: int
    begin_of: int
    end: int
    end_of: int


@dataclass(frozen=True, slots=True)
class PlanCounter:
    """A counter: number ``slot`` in the memory of position ``home``, posted ``events`` times a slice (or call)."""

    name: str
    home: int
    slot: int
    events: int
    text: str


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """Where a piece lies: ``function`` is in, out, kept, slot or arrival; unit or slot ``number`` of the rank at
    ``position``. An arrival is a slot that is read by lines; ``edge``: the place of the counter that names its writer,
    ``transfer``: what it writes.

    ``kept`` is a target in an output from which its rank sends on or reduces: it is read again soon.
    """

    function: str
    position: int
    number: int
    edge: int = -1
    transfer: int = -1


@dataclass(frozen=True, slots=True)
class PlanStatement:
    """One line. ``kind``: title, await, post, await_entry, post_entry, put, put_final, lines, lines_final (puts that
    read or write lines) or barrier; some leave fields unused.
    """

    kind: str
    text: str = ""
    step: int = -1
    transfer: int = -1
    counter: str = ""
    index: int = 0
    lag: int = 0
    part: str = ""
    places: tuple[PlanPlace, ...] = ()
    """The sources of a put."""
    targets: tuple[PlanPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanBlock:
    """One generated function: what block ``index`` of the rank at ``position`` does."""

    name: str
    number: int
    """Among the blocks of all ranks."""
    position: int
    index: int
    text: str
    entry: tuple[PlanStatement, ...]
    body: tuple[PlanStatement, ...]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """Everything that one kernel.cu says beside the prelude."""

    name: str
    protocol: str
    ranks: tuple[int, ...]
    """Global ranks, by position."""
    contributors: int
    channels: int
    depth: int
    """Slices a scratch slot holds."""
    parts: tuple[PlanPart, ...]
    counters: tuple[PlanCounter, ...]
    blocks: tuple[PlanBlock, ...]
    first_blocks: tuple[int, ...]
    """By position: the number of the rank's block 0."""
    shards: int
    """How many counts go with a call, where they vary; 0: one for all."""
    units: int
    """Of the longest input or output, where counts vary; else 0."""
    layout: str
    """Digest of what the manifest must agree on: see ``acclc_runtime.layout``."""
    carried: bool = False
    """Slots and lags go on from call to call."""
