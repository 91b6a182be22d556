"""Pipelines of trees for any demand: several collectives at the same time, groups of ranks, hints on who passes on.

Packings of spanning trees are optimal where all ranks take part alike; here every chunk has a tree of its own, to those
who need it and over those who may pass on, laid at prices of load alone (as the multiplicative weights of Garg and
Koenemann, 1998, with each chunk laid anew a few times). All trees share the links: those that reduce and those that
copy, of all groups. What that loses beside the bound is said, not hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from acclc.ir.problem import Problem, Rank
from acclc.ir.result import FlowDual
from acclc.ir.schedule import Schedule
from acclc.solve import network as networks
from acclc.solve.items import Item as Demanded
from acclc.solve.items import Kind, Moves, assemble, formulate, meeting_ranks, needs_meeting
from acclc.solve.limits import chunks_at_most
from acclc.solve.network import Edge, Network
from acclc.solve.packing.check import seconds_per_byte
from acclc.solve.protocol import Deadline
from acclc.solve.timed.machine import TICKS, TimedMachine
from acclc.solve.timed.routes import Item, Loads, Router, Tariff, Tree
from acclc.solve.timed.spending import Spending

STRATEGY = "trees"
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Chunks a shard, or times as many as it has ranks to meet at."""
MOST_CHUNKS = 64
STEEPNESS = (16.0, 256.0)
SWEEPS = 4
LARGE = 2**34
"""Bytes of a shard at which latency is no matter."""
MOST_MOVES = 40_000
WORK = 3_000_000
"""Ways that may be looked at (as of ``Spending``)."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A schedule, or why there is none. ``time``: seconds a byte of shard."""

    schedule: Schedule | None
    reason: str = ""
    cut: bool = False
    time: Fraction = Fraction(0)
    certificate: FlowDual | None = None
    k: int = 0
    exact_k: int = 0

    @property
    def kind(self) -> str:
        """What it is, for reports."""
        return "trees"

    @property
    def of_all(self) -> str:
        """Nothing is proven but the bound."""
        return ""

    @property
    def loss(self) -> Fraction:
        """Beside an optimum that is not known: nought."""
        return Fraction(0)


def laid_schedule(problem: Problem, deadline: Deadline, bound: Fraction) -> Laid:
    """Return the pipeline of which the fullest link takes the least time, of those found; or why there is none.

    ``bound``: seconds a byte, proven; one that reaches it ends the search.
    """
    goal = problem.goal
    if goal.steps is not None or goal.rounds is not None:
        return Laid(None, "steps or rounds are limited, which a pipeline does not have")
    if problem.topology.unit is None or bound <= 0:
        return Laid(None, "nothing moves")
    if sum(max(len(s.sources), len(s.targets)) for s in problem.shards) > MOST_MOVES:
        return Laid(None, f"its trees would have more than {MOST_MOVES} moves")
    spending = Spending(WORK, deadline)
    best: Schedule | None = None
    time = Fraction(0)
    for schedule in _pipelines(problem, networks.of_problem(problem), bound, spending):
        took = seconds_per_byte(problem, schedule)
        if best is None or (took, schedule.steps) < (time, best.steps):
            best, time = schedule, took
        if time == bound:
            break
    if best is None:
        return Laid(None, "no trees were found within the limits", cut=spending.clock_cut)
    return Laid(best, cut=spending.clock_cut, time=time, k=best.chunks_per_shard)


def _pipelines(problem: Problem, network: Network, bound: Fraction, spending: Spending) -> Iterator[Schedule]:
    for chunks in _chunk_counts(problem, network):
        items = formulate(problem, network, chunks)
        if any(i.origin is not None for i in items):
            return  # nowhere can a reduction meet
        for steepness in STEEPNESS:
            laying = _Laying(network, items, chunks, bound, steepness)
            if not spending.affords(laying.cost):
                return
            moves = laying.moves()
            if moves is None:
                return
            schedule = assemble(problem, chunks, items, moves, (), STRATEGY)
            if not schedule.transfers:
                return
            yield schedule


def _chunk_counts(problem: Problem, network: Network) -> Iterator[int]:
    """Counts such that every rank where reductions may meet has as many chunks, where that can be."""
    roots = [len(meeting_ranks(network, s.sources, s.targets)) for s in problem.shards if needs_meeting(s)]
    base = lcm(*(max(1, r) for r in roots))
    most = chunks_at_most(problem, MOST_CHUNKS)
    if base > most:
        base = 1
    for times in CHUNKS:
        if base * times <= most:
            yield base * times


class _Laying:
    """The trees of items: inward ones are laid from their root on the machine seen backward."""

    def __init__(
        self, network: Network, items: Sequence[Demanded], chunks: int, bound: Fraction, steepness: float
    ) -> None:
        self._items = items
        size = Fraction(LARGE, chunks)
        forward, backward = TimedMachine(network, size, False), TimedMachine(network, size, True)
        loads = Loads(len(forward.capacity), Tariff(max(1, int(bound * LARGE * TICKS)), steepness))
        self._loads = loads
        into = [i for i in items if i.root is not None]
        out = [i for i in items if i.kind is not Kind.REDUCE]
        self._in_place = {i.id: n for n, i in enumerate(into)}
        self._out_place = {i.id: n for n, i in enumerate(out)}
        self._into = Router(backward, [Item(i.shard, i.chunk, (_root(i),), i.sources) for i in into], loads)
        starts = [i.sources if i.root is None else (i.root,) for i in out]
        self._out = Router(
            forward, [Item(i.shard, i.chunk, s, i.targets) for i, s in zip(out, starts, strict=True)], loads
        )
        self.cost = SWEEPS * len(network.edges) * (len(into) + len(out))

    def moves(self) -> list[Moves] | None:
        """Return the trees of the sweep with the least load, levels for steps; None: an end is out of reach."""
        best: tuple[int, list[Tree], list[Tree]] | None = None
        for _ in range(SWEEPS):
            if not (self._into.sweep() and self._out.sweep()):
                return None
            most = max(self._loads.load)
            if best is None or most < best[0]:
                best = (most, list(self._into.trees), list(self._out.trees))
        assert best is not None, "there is a sweep"
        return [self._moves_of(item, best[1], best[2]) for item in self._items]

    def _moves_of(self, item: Demanded, into: Sequence[Tree], out: Sequence[Tree]) -> Moves:
        inward: list[tuple[Edge, int]] = []
        outward: list[tuple[Edge, int]] = []
        if item.id in self._in_place:
            inward = _inward(into[self._in_place[item.id]])
        first = max((level + 1 for _, level in inward), default=0)
        if item.id in self._out_place:
            outward = _outward(out[self._out_place[item.id]], first)
        return Moves(tuple(inward), tuple(outward))


def _root(item: Demanded) -> Rank:
    assert item.root is not None
    return item.root


def _inward(tree: Tree) -> list[tuple[Edge, int]]:
    """The moves of a tree that was grown from its root: what is farthest goes first."""
    levels = [0] * len(tree)
    for number in range(len(tree) - 1, -1, -1):
        before = tree[number].before
        if before >= 0:
            levels[before] = max(levels[before], levels[number] + 1)
    return [(hop.way.edge, level) for hop, level in zip(tree, levels, strict=True)]


def _outward(tree: Tree, first: int) -> list[tuple[Edge, int]]:
    levels: list[int] = []
    for hop in tree:
        levels.append(first if hop.before < 0 else levels[hop.before] + 1)
    return [(hop.way.edge, level) for hop, level in zip(tree, levels, strict=True)]
