"""Pipelined schedules: no steps to keep, but every other rule; the time is the fullest link's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from helpers import problem, ring, topology

from acclc.ir.problem import Budget, Collective, Goal, LinkId, Problem, Rank
from acclc.ir.schedule import OWN, Chunk, ChunkId, Output, Schedule, Transfer, TransferId
from acclc.verify import check_schedule

GIGA = Fraction(1, 10**9)


def broadcast() -> tuple[Problem, Schedule]:
    """Three quarters of the vector go 0 -> 1 -> 2, a quarter goes 0 -> 2 -> 1."""
    what = problem(ring(3), Collective.BROADCAST)
    links = {(e.src, e.dst): e.id for e in what.topology.links}
    shard = what.shards[0].id
    chunks = (
        Chunk(ChunkId(0), shard, 0, Fraction(0), Fraction(3, 4)),
        Chunk(ChunkId(1), shard, 1, Fraction(3, 4), Fraction(1)),
    )
    moves = [(0, 0, 1, 0, OWN), (1, 0, 2, 0, OWN), (0, 1, 2, 1, 0), (1, 2, 1, 1, 1)]
    transfers = tuple(
        Transfer(TransferId(n), ChunkId(c), Rank(u), Rank(v), (links[u, v],), level, (TransferId(o),))
        for n, (c, u, v, level, o) in enumerate(moves)
    )
    ends = [(0, 0, OWN), (0, 1, OWN), (1, 0, 0), (2, 0, 2), (2, 1, 1), (1, 1, 3)]
    outputs = tuple(Output(Rank(r), ChunkId(c), (TransferId(o),)) for r, c, o in ends)
    return what, Schedule(chunks, transfers, outputs, (), "by hand")


def codes(what: Problem, schedule: Schedule) -> set[str]:
    return {f.code for f in check_schedule(what, schedule).errors}


def test_the_facts_are_of_the_fullest_link_and_the_longest_chain() -> None:
    what, schedule = broadcast()
    report = check_schedule(what, schedule)
    facts = report.facts
    assert report.findings == ()
    assert facts is not None
    assert schedule.pipelined
    assert schedule.id == "p2d2"
    assert (facts.chunks, facts.steps, facts.rounds) == (2, 2, 0)
    assert facts.time_per_shard_byte == Fraction(3, 4) * GIGA
    assert facts.rounds_per_chunk == Fraction(3, 4)
    assert facts.algbw == Fraction(4, 3) * 10**9
    assert facts.latency == Fraction(2, 10**6)


def test_a_budget_may_be_the_fullest() -> None:
    what, schedule = broadcast()
    leaving = tuple(e.id for e in what.topology.links if e.src == 0)
    budget = Budget("root", leaving, Fraction(10**9))
    facts = check_schedule(replace(what, topology=replace(what.topology, budgets=(budget,))), schedule).facts
    assert facts is not None
    assert facts.time_per_shard_byte == GIGA


def test_shards_may_differ_in_their_number_of_chunks() -> None:
    what = problem(topology("pair", 2, [(0, 1), (1, 0)]), Collective.ALL_GATHER)
    first, second = (s.id for s in what.shards)
    half = Fraction(1, 2)
    chunks = (
        Chunk(ChunkId(0), first, 0, Fraction(0), half),
        Chunk(ChunkId(1), first, 1, half, Fraction(1)),
        Chunk(ChunkId(2), second, 0, Fraction(0), Fraction(1)),
    )
    moves = [(0, 0, 1), (1, 0, 1), (2, 1, 0)]
    transfers = tuple(
        Transfer(TransferId(n), ChunkId(c), Rank(u), Rank(v), (LinkId(u),), 0, (OWN,))
        for n, (c, u, v) in enumerate(moves)
    )
    outputs = tuple(Output(Rank(u), ChunkId(c), (OWN,)) for c, u, _ in moves)
    outputs += tuple(Output(Rank(v), ChunkId(c), (TransferId(n),)) for n, (c, _, v) in enumerate(moves))
    schedule = Schedule(chunks, transfers, outputs, (), "by hand")
    assert check_schedule(what, schedule).findings == ()
    assert codes(what, replace(schedule, rounds=(2,))) >= {"schedule.tiling"}


@pytest.mark.parametrize(
    ("number", "changes", "code"),
    [
        (2, {"step": 0}, "schedule.order"),
        (3, {"step": 9}, "schedule.steps"),
        (0, {"step": -1}, "schedule.steps"),
        (0, {"step": 1}, "schedule.steps"),
        (2, {"operands": (OWN,)}, "schedule.holder"),
        (2, {"operands": (TransferId(1),)}, "schedule.operands"),
    ],
)
def test_levels_are_kept(number: int, changes: dict[str, object], code: str) -> None:
    what, schedule = broadcast()
    moves = list(schedule.transfers)
    moves[number] = replace(moves[number], **changes)  # type: ignore[arg-type]
    assert code in codes(what, replace(schedule, transfers=tuple(moves)))


def test_the_last_level_is_no_larger_than_there_are_transfers() -> None:
    what, schedule = broadcast()
    last = replace(schedule.transfers[-1], step=10**15)
    assert codes(what, replace(schedule, transfers=(*schedule.transfers[:-1], last))) == {"schedule.steps"}


def test_chunks_tile_and_outputs_are_all_there() -> None:
    what, schedule = broadcast()
    short = replace(schedule.chunks[1], end=Fraction(7, 8))
    assert codes(what, replace(schedule, chunks=(schedule.chunks[0], short))) == {"schedule.tiling"}
    assert codes(what, replace(schedule, outputs=schedule.outputs[:-1])) == {"schedule.missing"}


def test_limits_are_warned_of() -> None:
    what, schedule = broadcast()
    report = check_schedule(replace(what, goal=Goal(chunks=1, steps=1)), schedule)
    assert [f.code for f in report.findings] == ["schedule.limit", "schedule.limit"]
