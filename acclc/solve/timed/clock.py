"""When chunks go: a list schedule of trees under the model of ``simulate.events``, the longest way before it first.

A link that starts paths sends one chunk after another, and never waits while it has one to send; chunks that meet on
a link further on, or in a budget, share it max-min fairly. So a link had better send where nobody else sends just now:
of the chunks it could send it takes the one with the longest way still before it, less what it would have to share.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from acclc.ir.problem import Rank
from acclc.solve.timed.machine import TimedMachine, Way
from acclc.solve.timed.routes import Tree

SHARING = 64.0
"""What a chunk that is on the same link counts, in times of sending."""


@dataclass(slots=True)
class Move:
    """A hop of an item that is to be timed. ``before``: the move whose arrival it waits for, -1 for none."""

    item: int
    hop: int
    way: Way
    before: int
    after: list[int] = field(default_factory=list)
    rest: int = 0
    """Ticks from its start to the last arrival that waits for it, if nothing else were on the links."""
    start: float = -1.0
    arrival: float = -1.0

    @property
    def src(self) -> Rank:
        """Who sends it in the schedule (of a machine seen backward: who gets it here)."""
        return self.way.edge.src

    @property
    def first_link(self) -> int:
        """What it is sent over first, likewise."""
        return self.way.edge.path[0]


def moves_of(trees: Sequence[Tree]) -> list[Move]:
    """Return the moves of all trees, with what each still has before it."""
    moves: list[Move] = []
    for item, tree in enumerate(trees):
        first = len(moves)
        for number, hop in enumerate(tree):
            before = -1 if hop.before < 0 else first + hop.before
            moves.append(Move(item, number, hop.way, before))
            if before >= 0:
                moves[before].after.append(len(moves) - 1)
    for move in reversed(moves):
        move.rest = move.way.sending + move.way.delay + _rest(moves, move.after)
    return moves


def _rest(moves: Sequence[Move], after: Sequence[int]) -> int:
    """How long what follows takes: moves of one lane one after another, the longest first."""
    lanes: dict[int, int] = {}
    longest = 0
    for number in sorted(after, key=lambda n: -moves[n].rest):
        move = moves[number]
        begin = lanes.get(move.way.lane, 0)
        longest = max(longest, begin + move.rest)
        lanes[move.way.lane] = begin + move.way.sending
    return longest


class Clock:
    """Runs moves. Times are ticks as floats: they decide an order, which the simulator then judges exactly."""

    def __init__(self, machine: TimedMachine, moves: Sequence[Move]) -> None:
        self._moves = moves
        self._capacity = machine.capacity
        self._active: list[dict[int, int]] = [{} for _ in machine.capacity]
        """By row: the moves on it, and how often each crosses it."""
        self._lane_busy: set[int] = set()
        self._ready: dict[int, list[tuple[int, int]]] = {}
        """By lane: heap of (-rest, move)."""
        self._rate: dict[int, float] = {}
        self._left: dict[int, tuple[float, float]] = {}
        """The part of a chunk left at a time."""
        self._version = [0] * len(moves)
        self._events: list[tuple[float, int, int, int]] = []
        """(time, 0: sent, 1: arrived; move; version)."""

    def run(self) -> float:
        """Give every move its start and arrival; return the last arrival."""
        for number, move in enumerate(self._moves):
            if move.before < 0:
                self._await(number)
        now = 0.0
        self._serve(dict.fromkeys(self._ready), now)
        while self._events:
            now = self._events[0][0]
            lanes: dict[int, None] = {}
            changed: dict[int, None] = {}
            while self._events and self._events[0][0] == now:
                _, kind, number, version = heapq.heappop(self._events)
                move = self._moves[number]
                if kind == 1:
                    for later in move.after:
                        self._await(later)
                        lanes[self._moves[later].way.lane] = None
                elif version == self._version[number]:
                    self._sent(number, now, changed)
                    lanes[move.way.lane] = None
            self._serve(lanes, now, changed)
        return now

    def _await(self, number: int) -> None:
        move = self._moves[number]
        heapq.heappush(self._ready.setdefault(move.way.lane, []), (-move.rest, number))

    def _sent(self, number: int, now: float, changed: dict[int, None]) -> None:
        move = self._moves[number]
        self._version[number] += 1
        del self._rate[number], self._left[number]
        changed.pop(number, None)
        for row, _ in move.way.uses:
            del self._active[row][number]
            changed.update(dict.fromkeys(self._active[row]))
        self._lane_busy.discard(move.way.lane)
        move.arrival = now + move.way.delay
        heapq.heappush(self._events, (move.arrival, 1, number, 0))

    def _serve(self, lanes: dict[int, None], now: float, changed: dict[int, None] | None = None) -> None:
        """Let lanes that are free begin what they have, the most urgent first; then give new rates."""
        changed = {} if changed is None else changed
        free = [(self._ready[lane][0], lane) for lane in lanes if lane not in self._lane_busy and self._ready.get(lane)]
        for _, lane in sorted(free):
            number = self._choice(self._ready[lane])
            move = self._moves[number]
            move.start = now
            self._lane_busy.add(lane)
            self._left[number] = (1.0, now)
            for row, times in move.way.uses:
                self._active[row][number] = times
            changed[number] = None
        self._share(changed, now)

    def _choice(self, ready: list[tuple[int, int]]) -> int:
        """Take the move with the most rest, less what it would share, out of a lane's heap."""
        passed: list[tuple[int, int]] = []
        best: tuple[float, int] | None = None
        while ready:
            entry = heapq.heappop(ready)
            way = self._moves[entry[1]].way
            if best is not None and entry[0] >= best[0]:  # even with its links to itself it is no more urgent
                passed.append(entry)
                break
            sharers = max((sum(self._active[row].values()) for row, _ in way.uses[1:]), default=0)
            score = entry[0] + SHARING * sharers * way.sending
            passed.append(entry)
            if best is None or score < best[0]:
                best = (score, entry[1])
        assert best is not None, "a lane is served when it has moves"
        for entry in passed:
            if entry[1] != best[1]:
                heapq.heappush(ready, entry)
        return best[1]

    def _share(self, changed: dict[int, None], now: float) -> None:
        """Give new rates to every move that a start or an end may have touched."""
        done: set[int] = set()
        for first in changed:
            if first in done:
                continue
            group = self._connected(first)
            done.update(group)
            for number, rate in self._fair(group).items():
                if self._rate.get(number) != rate:
                    self._pace(number, rate, now)

    def _connected(self, first: int) -> dict[int, None]:
        group, pending = {first: None}, [first]
        while pending:
            for row, _ in self._moves[pending.pop()].way.uses:
                for other in self._active[row]:
                    if other not in group:
                        group[other] = None
                        pending.append(other)
        return group

    def _fair(self, group: dict[int, None]) -> dict[int, float]:
        """Max-min fair rates, in chunks a tick."""
        if len(group) == 1:
            (number,) = group
            return {number: min(self._capacity[row] / times for row, times in self._moves[number].way.uses)}
        users: dict[int, dict[int, int]] = {}
        for number in group:
            for row, _ in self._moves[number].way.uses:
                if row not in users:
                    users[row] = dict(self._active[row])
        room = {row: self._capacity[row] for row in users}
        rates: dict[int, float] = {}
        while len(rates) < len(group):
            share, scarcest = min((room[r] / sum(u.values()), r) for r, u in users.items() if u)
            for number in list(users[scarcest]):
                rates[number] = share
                for row, times in self._moves[number].way.uses:
                    room[row] = max(0.0, room[row] - share * times)
                    del users[row][number]
        return rates

    def _pace(self, number: int, rate: float, now: float) -> None:
        """Let a move go on at a new rate, and foresee its end."""
        left, since = self._left[number]
        left = max(0.0, left - self._rate.get(number, 0.0) * (now - since))
        self._left[number] = (left, now)
        self._rate[number] = rate
        self._version[number] += 1
        heapq.heappush(self._events, (now + left / rate, 0, number, self._version[number]))
