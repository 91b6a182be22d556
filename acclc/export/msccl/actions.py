"""From a schedule to what each rank does, before blocks: receives, sends and local work, and where values lie.

A value at a rank is a *prefix*: the first operands of a reduction, reduced left to right. An arrival that is only
added to something that is there before it is reduced as it is received, and never stored by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from acclc.export.pieces import Grid, Piece
from acclc.ir.problem import Rank
from acclc.ir.schedule import OWN, Transfer, TransferId

Prefix = tuple[TransferId, ...]
Order = tuple[int, int, int, int]
"""(step, transfer, piece, phase): one order of all that happens. Each message is sent and received at one place of it,
so blocks that keep to it never wait in a circle, however little a FIFO holds."""
SEND, RECEIVE, LOCAL = 0, 1, 2
FIRST: Order = (-1, -1, -1, LOCAL)
Message = tuple[TransferId, int]
"""(transfer, piece)."""


@dataclass(frozen=True, slots=True)
class Place:
    """A run of cells: ``i``, ``o`` at an offset; or ``s`` with a number of its own, laid out in the end."""

    buffer: str
    offset: int


@dataclass(eq=False, slots=True)
class Action:
    """One thing that a rank does with a piece, and the value that it makes or sends."""

    rank: Rank
    piece: Piece
    order: Order
    prefix: Prefix
    receives: Message | None = None
    sends: Message | None = None
    source: Place | None = None
    target: Place | None = None
    accumulates: bool = False
    """Local only: the target becomes target + source."""
    reads: tuple[Prefix, ...] = ()
    needs: list[Action] = field(default_factory=list)
    """What must have ended before, at the same rank."""
    users: list[Action] = field(default_factory=list)
    """What reads the value that it makes."""
    final: bool = False
    """Whether it leaves its value in the output."""


@dataclass
class _Part:
    """One piece at one rank."""

    grid: Grid
    rank: Rank
    piece: Piece
    aliased: bool
    """Whether the own input may lie in the output."""
    arrivals: list[Transfer]
    departures: list[Transfer]
    output: Prefix | None
    scratch: list[Place]

    actions: list[Action] = field(default_factory=list)
    places: dict[Prefix, Place] = field(default_factory=dict)
    makers: dict[Prefix, Action] = field(default_factory=dict)
    users: dict[Prefix, list[tuple[str, Prefix]]] = field(default_factory=dict)
    """Of each value: who uses it, and for which (``base`` and ``right`` are the two sides of a sum)."""

    def __post_init__(self) -> None:
        self.orders = {t.id: self._order(t, RECEIVE) for t in self.arrivals}
        for t in self.arrivals:
            self.users[(t.id,)] = []
        for t in self.departures:
            self._note(t.operands)
            self.users[t.operands].append(("send", t.operands))
        if self.output is not None:
            self._note(self.output)
            self.users[self.output].append(("output", self.output))
        self.merged = self._merged()

    def _order(self, transfer: Transfer, phase: int) -> Order:
        return (transfer.step, transfer.id, self.piece.id, phase)

    def _note(self, operands: Prefix) -> None:
        """Note operands, all that they are made from, and who uses which."""
        self.users.setdefault(operands[:1], [])
        for end in range(2, len(operands) + 1):
            prefix = operands[:end]
            if prefix not in self.users:
                self.users[prefix] = []
                self.users[prefix[:-1]].append(("base", prefix))
                self.users.setdefault(prefix[-1:], []).append(("right", prefix))

    def _ready(self, prefix: Prefix) -> Order:
        """When a value is there."""
        return max((self.orders[o] for o in prefix if o != OWN), default=FIRST)

    def _merged(self) -> dict[TransferId, tuple[Prefix, Prefix]]:
        """Arrivals that are reduced as they are received: -> (value they are added to, value that results)."""
        found: dict[TransferId, tuple[Prefix, Prefix]] = {}
        for t in self.arrivals:
            users = self.users[(t.id,)]
            if len(users) != 1 or users[0][0] not in ("base", "right"):
                continue
            side, result = users[0]
            other = result[:-1] if side == "right" else result[-1:]
            taken = any(r == result for _, r in found.values())
            if not taken and self._ready(other) < self.orders[t.id]:
                found[t.id] = (other, result)
        return found

    def _own_readers(self) -> list[Order]:
        """When the rank's own input of the piece is read."""
        orders = [self._order(t, SEND) for t in self.departures if t.operands == (OWN,)]
        return orders + [self._ready(p) for use, p in self.users.get((OWN,), []) if use in ("base", "right")]

    def _safe(self, prefix: Prefix) -> bool:
        """Whether a value may be written to the output as soon as it is there: in place, the own input lies there.

        Whoever reads the input must have done so, or must be what makes the value.
        """
        if not self.aliased:
            return True
        ready = self._ready(prefix)
        if any(t.operands == (OWN,) and self._order(t, SEND) > ready for t in self.departures):
            return False
        for side, result in self.users.get((OWN,), []):
            inside = result == prefix[: len(result)] and (side == "base" or len(result) == 2)
            if side in ("base", "right") and not inside and self._ready(result) >= ready:
                return False
        return True

    def _place_all(self) -> None:
        """Give each value that is stored a place: the output's in the output, where that is safe."""
        own, out = self.grid.input_cell(self.rank, self.piece), self.grid.output_cell(self.rank, self.piece)
        for prefix in sorted(self.users, key=lambda p: (-len(p), p)):
            if prefix == (OWN,):
                assert own is not None
                self.places[prefix] = Place("i", own)
            elif prefix[0] in self.merged and len(prefix) == 1:
                continue
            elif prefix == self.output and self._safe(prefix):
                assert out is not None
                self.places[prefix] = Place("o", out)
            else:
                self.places[prefix] = self._growing(prefix) or self._new()

    def _growing(self, prefix: Prefix) -> Place | None:
        """The place of the sum that this value goes into, if it goes into nothing else: it grows there."""
        users = self.users[prefix]
        if len(users) != 1 or users[0][0] != "base":
            return None
        place = self.places[users[0][1]]
        return place if place.buffer == "s" or self._safe(prefix) else None

    def _new(self) -> Place:
        place = Place("s", len(self.scratch))
        self.scratch.append(place)
        return place

    def build(self) -> list[Action]:
        """Return the actions; what they need is filled in."""
        self._place_all()
        for t in self.arrivals:
            other, result = self.merged.get(t.id, (None, (t.id,)))
            action = self._add(self.orders[t.id], result, () if other is None else (other,), self.places[result])
            action.receives = (t.id, self.piece.id)
            action.source = None if other is None else self.places[other]
        for prefix in sorted(self.users, key=lambda p: (len(p), p)):
            if len(prefix) > 1 and prefix not in self.makers:
                self._reduce(prefix)
        for t in self.departures:
            action = self._add(self._order(t, SEND), t.operands, (t.operands,), None)
            action.sends, action.source = (t.id, self.piece.id), self.places[t.operands]
        self._copy_output()
        self._link()
        return self.actions

    def _add(self, order: Order, prefix: Prefix, reads: tuple[Prefix, ...], target: Place | None) -> Action:
        action = Action(self.rank, self.piece, order, prefix, target=target, reads=reads)
        self.actions.append(action)
        if target is not None:
            self.makers[prefix] = action
            action.final = prefix == self.output and target.buffer == "o"
        return action

    def _reduce(self, prefix: Prefix) -> None:
        """Local: copy the first part there, where it is not there already, then add the second."""
        base, right, target = prefix[:-1], prefix[-1:], self.places[prefix]
        if len(prefix) == 2 and right == (OWN,):
            base, right = right, base  # in place, the copy of the own input is none, and must not come too late
        order = (*self._ready(prefix)[:3], LOCAL)
        copy = None
        if self.places[base] != target:
            copy = self._add(order, prefix, (base,), target)
            copy.source = self.places[base]
        add = self._add(order, prefix, (right,) if copy else (base, right), target)
        add.source, add.accumulates = self.places[right], True
        if copy is not None:
            add.needs.append(copy)

    def _copy_output(self) -> None:
        """Copy to the output what does not lie there."""
        cell = self.grid.output_cell(self.rank, self.piece)
        if self.output is None or cell is None or self.places[self.output] == Place("o", cell):
            return
        order = max([self._ready(self.output), *self._own_readers()])
        copy = Action(self.rank, self.piece, (*order[:3], LOCAL), self.output, reads=(self.output,), final=True)
        copy.source, copy.target = self.places[self.output], Place("o", cell)
        self.actions.append(copy)

    def _link(self) -> None:
        """Fill in what each action needs: the makers of what it reads; and over the own input, those who read it."""
        readers = [a for a in self.actions if (OWN,) in a.reads]
        for action in self.actions:
            for prefix in action.reads:
                maker = self.makers.get(prefix)
                if maker is not None:
                    action.needs.append(maker)
                    maker.users.append(action)
            to_output = action.target is not None and action.target.buffer == "o"
            onto_itself = action.receives is None and action.reads == ((OWN,),) and not action.accumulates
            if self.aliased and to_output and not onto_itself:
                action.needs += [r for r in readers if r is not action]


def actions_of(grid: Grid, aliased: bool) -> list[Action]:
    """Return the actions of all ranks in their order. ``aliased``: inputs may lie in outputs, or reversed."""
    schedule = grid.schedule
    outputs = {(o.rank, o.chunk): o.operands for o in schedule.outputs}
    arrivals: dict[tuple[Rank, int], list[Transfer]] = {}
    departures: dict[tuple[Rank, int], list[Transfer]] = {}
    for t in schedule.transfers:
        arrivals.setdefault((t.dst, t.chunk), []).append(t)
        departures.setdefault((t.src, t.chunk), []).append(t)
    found: list[Action] = []
    for rank in grid.problem.group:
        scratch: list[Place] = []
        for piece in grid.pieces:
            key = (rank, piece.chunk)
            arriving, departing = arrivals.get(key, []), departures.get(key, [])
            found += _Part(grid, rank, piece, aliased, arriving, departing, outputs.get(key), scratch).build()
    return sorted(found, key=lambda a: (a.order, a.rank))
