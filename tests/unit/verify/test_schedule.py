from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from helpers import (
    Builder,
    all_gather_direct,
    all_gather_ring,
    all_reduce_direct,
    cases,
    full,
    problem,
    ring,
    star,
    topology,
)

from acclc.ir.problem import Budget, Collective, Goal, GoalKind, LinkId, Problem, Rank
from acclc.ir.schedule import OWN, Chunk, ChunkId, Output, Schedule, TransferId
from acclc.verify import check_schedule
from acclc.verify.schedule import time_per_shard_byte

GIGA = Fraction(1, 10**9)


def codes(what: Problem, schedule: Schedule) -> set[str]:
    return {f.code for f in check_schedule(what, schedule).errors}


def with_transfer(schedule: Schedule, number: int, **changes: object) -> Schedule:
    moves = list(schedule.transfers)
    moves[number] = replace(moves[number], **changes)
    return replace(schedule, transfers=tuple(moves))


@pytest.mark.parametrize("name", list(cases()))
def test_hand_made_schedules_verify(name: str) -> None:
    report = check_schedule(*cases()[name])
    assert report.findings == (), str(report)


def test_facts_of_a_ring() -> None:
    what, schedule = cases()["all_gather_ring4"]
    facts = check_schedule(what, schedule).facts
    assert facts is not None
    assert (facts.chunks, facts.steps, facts.rounds, facts.rounds_per_chunk) == (1, 3, 3, 3)
    assert facts.time_per_shard_byte == 3 * GIGA == time_per_shard_byte(what, schedule)
    assert facts.algbw == Fraction(4, 3) * 10**9
    assert facts.latency == Fraction(3, 10**6)
    assert facts.steps_used == (0, 1, 2)
    assert facts.link_loads == (3, 3, 3, 3, 0, 0, 0, 0)


def test_facts_through_a_switch_count_both_ports() -> None:
    what, schedule = cases()["all_reduce_star3"]
    facts = check_schedule(what, schedule).facts
    assert facts is not None
    assert facts.link_loads == (2, 2, 2, 2, 2, 2)
    assert (facts.rounds, facts.time_per_shard_byte, facts.latency) == (2, 2 * GIGA, Fraction(2, 10**6))


def test_unequal_chunks_and_budgets() -> None:
    """Two chunks of 1/4 and 3/4: C is 2, so the large one counts as 3/2 chunks."""
    graph = topology("pair", 2, [(0, 1), (1, 0)])
    what = problem(graph, Collective.BROADCAST)
    b = Builder(what, 2, 1)
    for c in (0, 1):
        b.end(0, c)
        b.end(1, c, (b.move(c, 0, 1, 0),))
    cut = (
        Chunk(ChunkId(0), what.shards[0].id, 0, Fraction(0), Fraction(1, 4)),
        Chunk(ChunkId(1), what.shards[0].id, 1, Fraction(1, 4), Fraction(1)),
    )
    schedule = replace(b.schedule(), chunks=cut, rounds=(2,))
    facts = check_schedule(what, schedule).facts
    assert facts is not None
    assert facts.time_per_shard_byte == GIGA
    assert codes(what, replace(schedule, rounds=(1,))) == {"schedule.capacity"}
    slow = replace(graph, budgets=(Budget("shared", (LinkId(0), LinkId(1)), Fraction(10**9, 2)),))
    half = replace(what, topology=slow)
    # the unit is now half a link: two lanes, and a budget of one
    assert codes(half, schedule) == set()
    assert codes(half, replace(schedule, rounds=(1,))) == {"schedule.capacity"}
    facts = check_schedule(half, schedule).facts
    assert facts is not None
    assert facts.time_per_shard_byte == 2 * GIGA


def test_capacity_counts_lanes() -> None:
    what, schedule = cases()["all_gather_full3"]
    assert codes(what, replace(schedule, rounds=(1,))) == {"schedule.capacity"}
    links = tuple(replace(x, count=2) if x.id else x for x in what.topology.links)
    wide = replace(what, topology=replace(what.topology, links=links))
    report = check_schedule(wide, replace(schedule, rounds=(1,)))
    assert [f.where for f in report.errors] == ["link 0 (g[0] -> g[1]), step 0"]
    assert "2 chunks" in report.errors[0].message


def test_order_and_availability() -> None:
    what, schedule = cases()["all_gather_ring3"]
    late = next(t for t in schedule.transfers if t.step == 1)
    feeding = schedule.transfers[late.operands[0]]
    assert codes(what, with_transfer(schedule, feeding.id, step=1)) & {"schedule.order", "schedule.steps"}
    assert "schedule.holder" in codes(what, with_transfer(schedule, late.id, operands=(OWN,)))
    other = next(t for t in schedule.transfers if t.step == 0 and t.id != feeding.id)
    assert "schedule.operands" in codes(what, with_transfer(schedule, late.id, operands=(other.id,)))
    assert "schedule.operands" in codes(what, with_transfer(schedule, late.id, operands=()))
    assert "schedule.steps" in codes(what, with_transfer(schedule, late.id, step=2))
    assert "schedule.ids" in codes(what, with_transfer(schedule, late.id, operands=(TransferId(77),)))


def test_paths() -> None:
    what, schedule = cases()["all_gather_star3"]
    first = schedule.transfers[0]
    assert "schedule.path" in codes(what, with_transfer(schedule, 0, path=first.path[:1]))
    assert "schedule.path" in codes(what, with_transfer(schedule, 0, path=first.path[::-1]))
    assert "schedule.path" in codes(what, with_transfer(schedule, 0, path=()))
    line = problem(topology("line", 3, [(0, 1), (1, 2), (2, 1), (1, 0)]), Collective.BROADCAST)
    b = Builder(line, 1, 1)
    b.end(0, 0)
    b.end(1, 0, (b.move(0, 0, 1, 0),))
    b.end(2, 0, (b.move(0, 0, 2, 0),))
    made = b.schedule()
    assert made.transfers[1].path == (LinkId(0), LinkId(1))
    report = check_schedule(line, made)
    assert {f.code for f in report.errors} == {"schedule.path"}
    assert "GPU g[1]" in report.errors[0].message


def test_reductions_are_complete_and_disjoint() -> None:
    what, schedule = cases()["all_reduce_full3"]
    outputs = schedule.outputs
    twice = replace(outputs[0], operands=(OWN, OWN, *outputs[0].operands[1:]))
    assert codes(what, replace(schedule, outputs=(twice, *outputs[1:]))) == {"schedule.reduction"}
    short = replace(outputs[0], operands=outputs[0].operands[:-1])
    assert "schedule.incomplete" in codes(what, replace(schedule, outputs=(short, *outputs[1:])))
    turned = replace(outputs[0], operands=outputs[0].operands[::-1])
    assert codes(what, replace(schedule, outputs=(turned, *outputs[1:]))) == {"schedule.tree"}
    gather, plain = cases()["all_gather_full3"]
    doubled = replace(plain.outputs[0], operands=(OWN, OWN))
    assert codes(gather, replace(plain, outputs=(doubled, *plain.outputs[1:]))) == {"schedule.reduction"}


def test_relays_do_not_change_a_tree() -> None:
    """One rank gets the sum over a relay, the others directly: the trees are equal."""
    what = problem(full(3), Collective.ALL_REDUCE)
    b = Builder(what, 1, 3)
    to_zero = tuple(b.move(0, s, 0, 0) for s in (1, 2))
    down = b.move(0, 0, 1, 1, (OWN, *to_zero))
    on = b.move(0, 1, 2, 2, (down,))
    b.end(0, 0, (OWN, *to_zero))
    b.end(1, 0, (down,))
    b.end(2, 0, (on,))
    report = check_schedule(what, b.schedule())
    assert report.findings == ()


def test_outputs_are_as_many_as_needed() -> None:
    what, schedule = cases()["all_gather_ring3"]
    assert codes(what, replace(schedule, outputs=schedule.outputs[1:])) == {"schedule.missing"}
    assert codes(what, replace(schedule, outputs=(*schedule.outputs, schedule.outputs[0]))) == {"schedule.spurious"}
    reduce, made = problem(full(3), Collective.REDUCE), cases()["all_reduce_full3"][1]
    assert codes(reduce, made) == {"schedule.spurious"}
    wrong = Output(Rank(1), ChunkId(0), (OWN,))
    assert "schedule.holder" in codes(what, replace(schedule, outputs=(*schedule.outputs, wrong)))


def test_chunks_tile_their_shards() -> None:
    what = problem(full(3), Collective.ALL_GATHER)
    schedule = all_gather_direct(what)
    chunks = schedule.chunks
    for changed in (
        replace(chunks[0], end=Fraction(1, 3)),
        replace(chunks[0], begin=Fraction(1, 3)),
        replace(chunks[0], shard=chunks[2].shard),
        replace(chunks[0], index=1),
        replace(chunks[0], id=ChunkId(4)),
    ):
        assert codes(what, replace(schedule, chunks=(changed, *chunks[1:]))) & {"schedule.tiling", "schedule.ids"}


def test_unused_transfers_and_limits_only_warn() -> None:
    what = problem(full(3), Collective.BROADCAST)
    b = Builder(what, 1, 2)
    b.end(0, 0)
    b.end(1, 0, (b.move(0, 0, 1, 0),))
    b.end(2, 0, (b.move(0, 0, 2, 0),))
    spare = b.move(0, 1, 2, 1, (0,))
    report = check_schedule(what, b.schedule())
    assert report.ok
    assert report.facts is not None
    assert report.facts.unused == (spare,)
    assert [f.code for f in report.findings] == ["schedule.unused"]
    limited = replace(what, goal=Goal(GoalKind.POINT, chunks=1, steps=1, rounds=1))
    assert {f.code for f in check_schedule(limited, b.schedule()).findings} == {"schedule.unused", "schedule.limit"}


def test_one_rank_needs_nothing() -> None:
    what = problem(topology("alone", 1, []), Collective.ALL_REDUCE)
    b = Builder(what, 1, 0)
    b.end(0, 0)
    report = check_schedule(what, b.schedule())
    assert report.ok
    assert report.facts is not None
    assert (report.facts.algbw, report.facts.time_per_shard_byte) == (None, 0)


@pytest.mark.parametrize("make", [all_gather_ring, all_gather_direct])
def test_a_schedule_of_another_problem_is_refused(make: object) -> None:
    graph = star(3) if make is all_gather_direct else ring(3)
    what = problem(graph, Collective.ALL_GATHER)
    other = problem(graph, Collective.ALL_REDUCE)
    schedule = make(what)  # type: ignore[operator]
    assert codes(what, schedule) == set()
    assert codes(other, schedule) & {"schedule.ids", "schedule.tiling"}
    assert codes(what, all_reduce_direct(problem(full(3), Collective.ALL_REDUCE)))


def test_ranks_outside_the_group_run_nothing() -> None:
    """Neither as a relay nor as a source or target: no program is made for them."""
    what = problem(full(4), Collective.BROADCAST, group=(0, 1, 3))
    b = Builder(what, 1, 2)
    b.end(0, 0)
    b.end(1, 0, (b.move(0, 0, 1, 0),))
    b.end(3, 0, (b.move(0, 2, 3, 1, (b.move(0, 0, 2, 0),)),))
    assert codes(what, b.schedule()) == {"schedule.group"}
    direct = Builder(what, 1, 1)
    direct.end(0, 0)
    for rank in (1, 3):
        direct.end(rank, 0, (direct.move(0, 0, rank, 0),))
    assert codes(what, direct.schedule()) == set()
