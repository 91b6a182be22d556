"""From a schedule to what each rank does in each step: puts into other ranks' memory, sums and copies in its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from acclc.export.pieces import Grid, Piece
from acclc.ir.problem import Rank
from acclc.ir.schedule import OWN, ChunkId, Output, Transfer, TransferId

Operands = tuple[TransferId, ...]
MAX_SOURCES = 10
"""Sources of one reduction."""


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` chunks of a buffer of a rank, from ``index`` on."""

    buffer: str
    index: int
    count: int


@dataclass(frozen=True, slots=True)
class Put:
    """A message: from a run of the sender to a run of the receiver."""

    src: Rank
    dst: Rank
    source: Run
    target: Run


@dataclass(frozen=True, slots=True)
class Work:
    """Local: the sources are reduced left to right into the target (one source: a copy)."""

    sources: tuple[Run, ...]
    target: Run


@dataclass
class Moves:
    """What happens: puts by (rank, step); local work by (rank, step), before the step's puts."""

    grid: Grid
    aliased: bool
    """Whether the call is in place, so that inputs lie in outputs, or reversed."""
    puts: dict[tuple[Rank, int], list[Put]] = field(default_factory=dict)
    work: dict[tuple[Rank, int], list[Work]] = field(default_factory=dict)
    scratch: dict[Rank, int] = field(default_factory=dict)
    """Chunks of scratch of each rank."""

    def __post_init__(self) -> None:
        schedule = self.grid.schedule
        self.arrivals: dict[tuple[Rank, ChunkId], list[Transfer]] = {}
        self.departures: dict[tuple[Rank, ChunkId], list[Transfer]] = {}
        for t in schedule.transfers:
            self.arrivals.setdefault((t.dst, t.chunk), []).append(t)
            self.departures.setdefault((t.src, t.chunk), []).append(t)
        self.outputs: dict[tuple[Rank, ChunkId], Output] = {(o.rank, o.chunk): o for o in schedule.outputs}
        self.places: dict[tuple[Rank, int, Operands], Run] = {}
        pairs = [(rank, piece) for rank in self.grid.problem.group for piece in self.grid.pieces]
        for rank, piece in pairs:
            self._place(rank, piece)
        for rank, piece in pairs:
            self._local(rank, piece)
        for t in schedule.transfers:
            for piece in self.grid.of_chunk[t.chunk]:
                source = self.places[(t.src, piece.id, t.operands)]
                target = self.places[(t.dst, piece.id, (t.id,))]
                self.puts.setdefault((t.src, t.step), []).append(Put(t.src, t.dst, source, target))

    def _values(self, rank: Rank, piece: Piece) -> list[Operands]:
        """All that a rank has to hold of a piece, arrivals first, then sums from the shortest on."""
        key = (rank, piece.chunk)
        wanted = {t.operands for t in self.departures.get(key, [])}
        if key in self.outputs:
            wanted.add(self.outputs[key].operands)
        singles = {(t.id,) for t in self.arrivals.get(key, [])} | {(o,) for w in wanted for o in w}
        return sorted(wanted | singles, key=lambda v: (len(v), v))

    def _ready(self, operands: Operands) -> int:
        """The first step at whose begin a value's parts are there."""
        return max((self.grid.schedule.transfers[o].step + 1 for o in operands if o != OWN), default=0)

    def _place(self, rank: Rank, piece: Piece) -> None:
        """Give each value a place; the output's is the output where nothing that lies there is still needed."""
        output = self.outputs.get((rank, piece.chunk))
        own, out = self.grid.input_cell(rank, piece), self.grid.output_cell(rank, piece)
        for value in self._values(rank, piece):
            if value == (OWN,):
                assert own is not None
                run = Run("i", own, piece.count)
            elif output is not None and value == output.operands and self._free(rank, piece, value):
                assert out is not None
                run = Run("o", out, piece.count)
            else:
                run = Run("s", self.scratch.get(rank, 0), piece.count)
                self.scratch[rank] = run.index + piece.count
            self.places[(rank, piece.id, value)] = run

    def _free(self, rank: Rank, piece: Piece, value: Operands) -> bool:
        """Whether a value may be written to the output at once: in place, whoever reads the own input has done so.

        What another rank writes must come from those reads: it does not wait for others.
        """
        if not self.aliased:
            return True
        departing = self.departures.get((rank, piece.chunk), [])
        if len(value) == 1:
            before = self._ancestors(value[0])
            kept = {t.operands for t in departing if t.id in before}
            readers = [t.operands for t in departing if t.operands == (OWN,) and t.id not in before]
            return not readers and all(OWN not in v or v in kept for v in self._values(rank, piece) if len(v) > 1)
        when = self._ready(value)
        late = any(t.operands == (OWN,) and t.step >= when for t in departing)
        others = [v for v in self._values(rank, piece) if len(v) > 1 and OWN in v and v != value]
        inside = OWN not in value[MAX_SOURCES:]
        return inside and not late and all(self._ready(v) < when for v in others)

    def _ancestors(self, transfer: TransferId) -> set[TransferId]:
        found: set[TransferId] = set()
        stack = [transfer]
        while stack:
            for operand in self.grid.schedule.transfers[stack.pop()].operands:
                if operand != OWN and operand not in found:
                    found.add(operand)
                    stack.append(operand)
        return found

    def _local(self, rank: Rank, piece: Piece) -> None:
        """Sums of a piece at a rank, and what is copied to the output in the end."""
        values = self._values(rank, piece)
        for value in values:
            if len(value) > 1:
                made = [v for v in values if 1 < len(v) < len(value) and value[: len(v)] == v]
                base = made[-1] if made else value[:1]
                parts = [base, *((o,) for o in value[len(base) :])]
                sources = tuple(self.places[(rank, piece.id, p)] for p in parts)
                self._add(rank, self._ready(value), Work(sources, self.places[(rank, piece.id, value)]))
        output, out = self.outputs.get((rank, piece.chunk)), self.grid.output_cell(rank, piece)
        if output is None or out is None:
            return
        run, target = self.places[(rank, piece.id, output.operands)], Run("o", out, piece.count)
        if run == target or (self.aliased and output.operands == (OWN,)):
            return
        readers = [t.step + 1 for t in self.departures.get((rank, piece.chunk), []) if OWN in t.operands]
        readers += [self._ready(v) for v in values if OWN in v]
        self._add(rank, max([self._ready(output.operands), *readers]), Work((run,), target))

    def _add(self, rank: Rank, step: int, work: Work) -> None:
        self.work.setdefault((rank, step), []).append(work)

    def levels(self, rank: Rank, step: int) -> Iterator[list[Work]]:
        """Yield a step's local work in groups, none of which reads or overwrites what another of the group touches."""
        group: list[Work] = []
        for work in self.work.get((rank, step), []):
            if any(_touch(work, other) for other in group):
                yield group
                group = []
            group.append(work)
        if group:
            yield group


def _touch(one: Work, other: Work) -> bool:
    """Whether two pieces of work use memory that one of them writes; in place, an input may be an output."""
    for a, b in ((one, other), (other, one)):
        if a.target in (*b.sources, b.target):
            return True
        if a.target.buffer == "o" and any(source.buffer == "i" for source in b.sources):
            return True
    return False
