"""Pipelined schedules: what the packings become, verified and lowered; and when the portfolio takes them."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import a100, mi250, random_machine
from solve_cases import custom, dgx1, hypercube, line, problem, ring, star

from acclc.bounds import bound
from acclc.bounds.families import Family
from acclc.ir.problem import Goal, GoalKind, Hints, Rank
from acclc.ir.result import Status
from acclc.lower import lower_kernel, lower_program
from acclc.solve.cpsat import Answer
from acclc.solve.model import Reply
from acclc.solve.packing import packed_schedule
from acclc.solve.packing.task import optimum, tasks
from acclc.solve.pipelined import packings_of
from acclc.solve.portfolio import solve
from acclc.solve.protocol import Budget, Deadline, silent
from acclc.verify import check_kernel, check_program, check_schedule

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce")


def verified(task, schedule, lowered=True):
    """Return the verifier's facts; every level below is verified too."""
    report = check_schedule(task, schedule)
    assert report.ok, report.findings
    assert not report.findings
    if lowered:
        program = lower_program(task, schedule)
        assert check_program(task, schedule, program).ok
        assert check_kernel(task, schedule, lower_kernel(task, program)).ok
    return report.facts


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("topology", [dgx1(), star(4), hypercube(3)], ids=["dgx1", "star", "hypercube"])
def test_bounds_are_reached_by_every_collective(topology, collective):
    task = problem(topology, collective)
    schedule = packed_schedule(task).schedule
    facts = verified(task, schedule)
    assert facts.time_per_shard_byte == bound(task).throughput.time_per_byte
    assert facts.rounds_per_chunk == bound(task).rounds_per_chunk
    assert schedule.pipelined
    assert schedule.id == f"p{len(schedule.chunks)}d{schedule.steps}"


@pytest.mark.parametrize(
    ("topology", "rounds", "most_steps"),
    [(mi250(), Fraction(7, 3), 5), (a100(2), Fraction(15, 13), 2), (mi250(2), Fraction(15, 83), 22)],
    ids=["mi250", "a100 x2", "mi250 x2"],
)
def test_machines_of_the_table(topology, rounds, most_steps):
    """On a box of MI250 and on two of A100 there are no fewer levels: the farthest rank is so many hops away."""
    task = problem(topology, "all_gather")
    schedule = packed_schedule(task).schedule
    assert schedule.steps <= most_steps
    facts = verified(task, schedule, lowered=len(topology.ranks) < 32)
    assert facts.rounds_per_chunk == rounds == bound(task).rounds_per_chunk


def test_broadcast_on_dgx1_takes_six_trees():
    packed = packed_schedule(problem(dgx1(), "broadcast"))
    assert packed.schedule.id.startswith("p6d")
    assert packed.schedule.chunks_per_shard == 6


def test_all_reduce_goes_up_and_down_at_the_same_root():
    task = problem(dgx1(), "all_reduce")
    schedule = packed_schedule(task).schedule
    sums = [o for o in schedule.outputs if len(o.operands) > 1]
    assert len(sums) == len(schedule.chunks)
    weights = Counter()
    for o in sums:
        weights[o.rank] += schedule.chunks[o.chunk].weight
    assert weights == {r: Fraction(1, 8) for r in range(8)}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(0, 2), st.sampled_from(COLLECTIVES))
def test_random_machines(seed, gpus, switches, collective):
    """Links need no twin the other way: in- and out-trees of an all_reduce are then cut differently."""
    topology = random_machine(seed, gpus, switches)
    task = problem(topology, collective)
    packed = packed_schedule(task)
    facts = verified(task, packed.schedule)
    least = bound(task).throughput.time_per_byte
    if collective == "all_reduce":
        both_ways = sum((optimum(part) for part in tasks(task, Family.BOTH)), Fraction(0)) / gpus
        assert least <= facts.time_per_shard_byte <= both_ways
    else:
        assert facts.time_per_shard_byte == least


def test_roots_with_several_shards_and_with_none():
    everyone = [0, 1, 2, 3]
    task = custom(ring(4), [([0], everyone, False), ([0], everyone, False), ([2], everyone, False)])
    facts = verified(task, packed_schedule(task).schedule)
    assert facts.time_per_shard_byte == bound(task).throughput.time_per_byte
    back = custom(ring(4), [(everyone, [1], True), (everyone, [1], True)])
    facts = verified(back, packed_schedule(back).schedule)
    assert facts.time_per_shard_byte == bound(back).throughput.time_per_byte


def test_a_root_that_contributes_nothing():
    task = custom(ring(4), [([0, 1, 3], [2], True)])
    facts = verified(task, packed_schedule(task).schedule)
    assert facts.time_per_shard_byte == bound(task).throughput.time_per_byte


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (problem(ring(4), "all_to_all"), "all ranks"),
        (problem(ring(4), "all_gather", group=(0, 1, 2)), "all ranks"),
        (problem(ring(4), "all_gather", goal=Goal(hints=Hints(relays=(Rank(0),)))), "pass on"),
        (problem(ring(4), "all_gather", goal=Goal(steps=3)), "steps or rounds"),
        (problem(dgx1(), "all_gather", goal=Goal(chunks=1)), ""),
        (problem(dgx1(), "all_reduce", goal=Goal(chunks=3)), ""),
    ],
)
def test_where_there_is_none_the_reason_is_said(task, words):
    packed = packed_schedule(task)
    if words:
        assert packed.schedule is None
        assert words in packed.reason
    else:  # one tree a shard: 8/7 of the optimum would be two rounds a chunk
        facts = verified(task, packed.schedule)
        assert facts.chunks <= task.goal.chunks
        assert facts.rounds_per_chunk == bound(task).rounds_per_chunk * (1 + packed.loss)
        assert packed.loss > 0


def test_the_deadline_is_kept():
    packed = packed_schedule(problem(dgx1(), "all_gather"), Deadline.after(0))
    assert packed.schedule is None
    assert "deadline" in packed.reason


def test_the_portfolio_adds_what_is_strictly_better():
    task = problem(dgx1(), "broadcast", goal=Goal(chunks=6))
    result = solve(task)
    assert result.solutions[-1].schedule.pipelined
    assert "throughput" in result.solutions[-1].schedule.optimal
    assert not any(s.schedule.pipelined for s in result.solutions[:-1])
    alone = solve(replace(task, goal=Goal(GoalKind.BANDWIDTH, chunks=6)))
    assert [s.schedule.pipelined for s in alone.solutions] == [True]
    assert alone.status is Status.OPTIMAL


def test_a_shallow_packing_stands_beside_the_best():
    """Of two boxes one tree a shard costs a tenth and has two thirds of the levels."""
    task = problem(mi250(2), "all_gather", goal=Goal())
    simple, best = (p.schedule for p in packings_of(task, bound(task), [], Budget(), silent))
    assert 3 * simple.steps <= 2 * best.steps
    facts = [check_schedule(task, s).facts for s in (simple, best)]
    assert facts[1].rounds_per_chunk == Fraction(15, 83) == bound(task).rounds_per_chunk
    assert 1 < facts[0].rounds_per_chunk / facts[1].rounds_per_chunk < Fraction(9, 8)


def test_no_packing_stands_beside_one_that_is_as_shallow():
    task = problem(a100(2), "all_gather", goal=Goal())
    (best,) = (p.schedule for p in packings_of(task, bound(task), [], Budget(), silent))
    assert best.steps == 2
    assert check_schedule(task, best).facts.rounds_per_chunk == Fraction(15, 13)


def test_the_portfolio_leaves_it_out_where_steps_reach_the_bound():
    for topology, goal in ((star(4), Goal()), (line(3), Goal(GoalKind.BANDWIDTH)), (dgx1(), Goal(GoalKind.LATENCY))):
        result = solve(problem(topology, "all_gather", goal=goal))
        assert result.solutions
        assert not any(s.schedule.pipelined for s in result.solutions)


def test_the_same_twice():
    task = problem(a100(2), "all_reduce")
    assert packed_schedule(task) == packed_schedule(task)


def test_a_packing_that_the_clock_cut_says_so(monkeypatch):
    """The clock ends the search for less depth, not the packing: what there is stays, but another run may differ."""
    task = problem(dgx1(), "all_gather", goal=Goal(GoalKind.BANDWIDTH))
    whole = packed_schedule(task)
    assert not whole.cut
    monkeypatch.setattr("acclc.solve.packing.shallow.ask", lambda *_, **__: Reply(Answer.UNKNOWN, clock_cut=True))
    cut = packed_schedule(task, Deadline.after(100))
    assert cut.cut
    assert cut.time == whole.time
    assert cut.schedule.steps > whole.schedule.steps
