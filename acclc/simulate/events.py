"""The event-driven alpha-beta time of a schedule for one size, in exact fractions.

The model ("The cost model" of the execution rules): a transfer holds its rate on every link of its path and
on their budgets, not the whole of a port; it is usable at its destination when its last byte was sent plus the
latencies of the path. The first link of a path is a block (in a pipelined schedule each path and level is one): it
runs its transfers one after another, in order of the schedule, each when its operands have arrived. Links of a count
move at their whole capacity. Active transfers share links and budgets max-min fairly, newly at each start and end.
Processor time is not modelled, but for ``overhead``, a fixed time a block needs to begin a transfer.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, Problem
from acclc.ir.schedule import OWN, Lane, Schedule, Transfer, TransferId

GRID = 10**21
"""Where times no longer have short denominators, they are rounded up to 1/GRID of a second."""


class StuckError(ValueError):
    """The schedule cannot run to its end: transfers wait for each other."""


@dataclass(frozen=True, slots=True)
class TransferTime:
    """Seconds: when a transfer began, when its last byte was sent, and when it can be used at its destination."""

    start: Fraction
    sent: Fraction
    arrived: Fraction


class Run:
    """One simulation. Resources are links (by id) and budgets (numbered after the links)."""

    def __init__(self, problem: Problem, schedule: Schedule, shard_bytes: int, overhead: Fraction) -> None:
        topology = problem.topology
        self._links = topology.links
        self._overhead = overhead
        self._transfers = schedule.transfers
        weights = {c.id: c.weight for c in schedule.chunks}
        self._size = {t.id: weights[t.chunk] * shard_bytes for t in schedule.transfers}
        self._capacity = [e.capacity for e in topology.links] + [b.capacity for b in topology.budgets]
        budgets_of: dict[LinkId, list[int]] = {}
        for number, budget in enumerate(topology.budgets):
            for link in budget.links:
                budgets_of.setdefault(link, []).append(len(topology.links) + number)
        self._uses: dict[TransferId, tuple[tuple[int, int], ...]] = {}
        for t in schedule.transfers:
            used: dict[int, int] = {}
            for e in t.path:
                for resource in (int(e), *budgets_of.get(e, ())):
                    used[resource] = used.get(resource, 0) + 1
            self._uses[t.id] = tuple(used.items())
        self._active: list[dict[TransferId, int]] = [{} for _ in self._capacity]
        self._rate: dict[TransferId, Fraction] = {}
        self._left: dict[TransferId, tuple[Fraction, Fraction]] = {}
        """Bytes left at a time."""
        self._version: dict[TransferId, int] = {}
        self._events: list[tuple[Fraction, int, int, int]] = []
        """(time, kind, transfer, version): kind 0 sent, 1 arrived, 2 begin (after the block's overhead)."""
        self._start: dict[TransferId, Fraction] = {}
        self._sent: dict[TransferId, Fraction] = {}
        self._arrived: dict[TransferId, Fraction] = {}
        self._waits: dict[TransferId, int] = {}
        self._wakes: dict[TransferId, list[Transfer]] = {}
        self._block = schedule.lane
        self._blocks: dict[Lane, deque[Transfer]] = {}
        self._busy: set[Lane] = set()
        for t in schedule.transfers:
            self._blocks.setdefault(self._block(t), deque()).append(t)
            needed = [o for o in t.operands if o != OWN]
            self._waits[t.id] = len(needed)
            for operand in needed:
                self._wakes.setdefault(operand, []).append(t)

    def times(self) -> tuple[TransferTime, ...]:
        """Run to the end and return every transfer's times, in the schedule's order.

        Raises StuckError where transfers wait for each other.
        """
        now = Fraction(0)
        self._changed: dict[TransferId, None] = {}
        for block in self._blocks:
            self._try(block, now)
        self._share(now)
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, kind, number, version = heapq.heappop(self._events)
                self._handle(kind, self._transfers[number], version, now)
            self._share(now)
        if len(self._arrived) < len(self._transfers):
            stuck = next(t for t in self._transfers if t.id not in self._arrived)
            raise StuckError(f"transfer {stuck.id} never starts: it waits for one that waits for it")
        return tuple(TransferTime(self._start[t.id], self._sent[t.id], self._arrived[t.id]) for t in self._transfers)

    def _try(self, block: Lane, now: Fraction) -> None:
        queue = self._blocks[block]
        if block in self._busy or not queue or self._waits[queue[0].id] > 0:
            return
        t = queue.popleft()
        self._busy.add(block)
        self._start[t.id] = now
        if self._overhead:
            heapq.heappush(self._events, (now + self._overhead, 2, t.id, 0))
        else:
            self._begin(t, now)

    def _begin(self, t: Transfer, now: Fraction) -> None:
        self._left[t.id] = (self._size[t.id], now)
        self._version[t.id] = 0
        for resource, times in self._uses[t.id]:
            self._active[resource][t.id] = times
        self._changed[t.id] = None

    def _handle(self, kind: int, t: Transfer, version: int, now: Fraction) -> None:
        if kind == 2:
            self._begin(t, now)
        elif kind == 1:
            self._arrived[t.id] = now
            for waiting in self._wakes.get(t.id, ()):
                self._waits[waiting.id] -= 1
                self._try(self._block(waiting), now)
        elif version == self._version.get(t.id):
            self._sent[t.id] = now
            del self._version[t.id], self._left[t.id]
            self._rate.pop(t.id, None)
            self._changed.pop(t.id, None)
            for resource, _ in self._uses[t.id]:
                del self._active[resource][t.id]
                self._changed.update(dict.fromkeys(self._active[resource]))
            delay = sum((self._links[e].cls.latency for e in t.path), Fraction(0))
            heapq.heappush(self._events, (now + delay, 1, t.id, 0))
            self._busy.discard(self._block(t))
            self._try(self._block(t), now)

    def _share(self, now: Fraction) -> None:
        """Give new rates to every transfer that a start or an end may have touched."""
        done: set[TransferId] = set()
        for first in self._changed:
            if first in done or first not in self._version:
                continue
            group = self._connected(first)
            done.update(group)
            for t, rate in self._fair(group).items():
                if self._rate.get(t) != rate:
                    self._pace(t, rate, now)
        self._changed.clear()

    def _connected(self, first: TransferId) -> dict[TransferId, None]:
        """The active transfers that share a resource with it, directly or through others."""
        group, pending = {first: None}, [first]
        while pending:
            for resource, _ in self._uses[pending.pop()]:
                for other in self._active[resource]:
                    if other not in group:
                        group[other] = None
                        pending.append(other)
        return group

    def _fair(self, group: dict[TransferId, None]) -> dict[TransferId, Fraction]:
        """Max-min fair rates: the scarcest resource's equal share is fixed for its transfers, and so on."""
        room: dict[int, Fraction] = {}
        users: dict[int, dict[TransferId, int]] = {}
        for t in group:
            for resource, _ in self._uses[t]:
                if resource not in users:
                    users[resource] = dict(self._active[resource])
                    room[resource] = self._capacity[resource]
        rates: dict[TransferId, Fraction] = {}
        while len(rates) < len(group):
            share, scarcest = min((room[r] / sum(u.values()), r) for r, u in users.items() if u)
            for t in list(users[scarcest]):
                rates[t] = share
                for resource, times in self._uses[t]:
                    room[resource] -= share * times
                    del users[resource][t]
        return rates

    def _pace(self, t: TransferId, rate: Fraction, now: Fraction) -> None:
        """Let a transfer go on at a new rate, and foresee its end."""
        left, since = self._left[t]
        if t in self._rate:
            left = max(Fraction(0), left - self._rate[t] * (now - since))
        self._left[t] = (left, now)
        self._rate[t] = rate
        self._version[t] += 1
        end = now + left / rate
        if end.denominator > GRID:
            end = Fraction(-(-end.numerator * GRID // end.denominator), GRID)
        heapq.heappush(self._events, (end, 0, t, self._version[t]))


def transfer_times(
    problem: Problem, schedule: Schedule, shard_bytes: int, overhead: Fraction = Fraction(0)
) -> tuple[TransferTime, ...]:
    """Return the times of every transfer. Raises StuckError for a schedule that cannot run."""
    return Run(problem, schedule, shard_bytes, overhead).times()
