"""Schedules for sizes, and trees for any demand: right, timed as the simulator times them, within hints and limits."""

from dataclasses import replace
from fractions import Fraction

import pytest
from solve_cases import custom, dgx1, machine, problem, ring, torus

from acclc import sema
from acclc.bounds import bound
from acclc.bounds.relays import bound_of_hint
from acclc.ir.problem import Goal, GoalKind, Hints, Rank
from acclc.ir.result import Status
from acclc.ir.schedule import OWN
from acclc.lower import lower_kernel, lower_program
from acclc.simulate import best_within, shard_bytes, simulate
from acclc.simulate.ranges import ABOUT
from acclc.solve.pipelined import packings_of, with_packings
from acclc.solve.policy import FEW, LARGE, MANY, NO_NEED, NO_STEPS, SHORT_WORK, step_search
from acclc.solve.portfolio import Portfolio, solve
from acclc.solve.protocol import Budget, Deadline, silent
from acclc.solve.sized import schedules_for_sizes
from acclc.solve.timed import Spending, laid_schedule, timed_schedules
from acclc.source import Source
from acclc.syntax import parse
from acclc.verify import check_kernel, check_program, check_schedule
from acclc.verify.certificate import check_certificate

STAR = machine(4, [(g, 4, 1 + g % 2) for g in range(4)] + [(4, g, 2) for g in range(4)], switches=1)
SHARED = machine(4, [(a, (a + 1) % 4, 2) for a in range(4)] + [(0, 2, 1)], budgets=[((0, 1), 3)])
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "gather", "scatter", "all_to_all")


def written(text):
    """The one problem of a text."""
    (found,) = sema.analyse(parse(Source("<test>", text))).problems
    return found


def plenty(work=1e6):
    return Spending(work, Deadline())


def verified(task, schedule, lowered=True):
    """Return the verifier's facts; the levels below are verified too."""
    report = check_schedule(task, schedule)
    assert report.ok, report.findings
    if not lowered:
        return report.facts
    program = lower_program(task, schedule)
    assert check_program(task, schedule, program).ok
    assert check_kernel(task, schedule, lower_kernel(task, program)).ok
    return report.facts


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("topology", [ring(5), STAR, SHARED, dgx1()], ids=["ring", "star", "budget", "dgx1"])
def test_every_collective_at_sizes_from_small_to_large(topology, collective):
    task = problem(topology, collective)
    least = bound(task)
    for shard in (1, 5000, 10**7):
        found = timed_schedules(task, shard, least.throughput.time_per_byte, plenty(60_000))
        assert found
        for timed in found[-1:]:
            facts = verified(task, timed.schedule, lowered=shard == 5000)
            assert facts.time_per_shard_byte >= least.throughput.time_per_byte
            seconds = simulate(task, timed.schedule, shard).seconds
            load = shard * least.throughput.time_per_byte
            assert seconds >= max(load, least.latency.seconds)
            if collective not in ("reduce_scatter", "all_reduce", "reduce"):  # these are read backward, or joined
                assert abs(seconds / timed.seconds - 1) < Fraction(1, 10**6)


def test_a_small_and_a_large_size_get_different_schedules_each_the_better_one_there():
    task = written("all_gather on torus(4, 4)\n")
    least = bound(task).throughput.time_per_byte
    small, large = (timed_schedules(task, b, least, plenty())[-1].schedule for b in (4096, 2**26))
    assert small != large
    at = {b: [simulate(task, s, b).seconds for s in (small, large)] for b in (4096, 2**26)}
    assert at[4096][0] < at[4096][1]
    assert at[2**26][1] < at[2**26][0]


def test_two_boxes_as_the_published_schedule_or_better():
    """TE-CCL's NDv2 x2 all_gather at 1 MB takes 48.75 us."""
    text = """
    topology pair {
        link ib { 12.5 GB/s, 2.6 us }
        dgx1 box[2]
        box[0].g[0] -> box[1].g[1] : ib
        box[1].g[0] -> box[0].g[1] : ib
    }
    all_gather on pair
    """
    task = written(text)
    shard = shard_bytes(task, 10**6)
    best = timed_schedules(task, shard, bound(task).throughput.time_per_byte, plenty())[-1]
    verified(task, best.schedule)
    assert simulate(task, best.schedule, shard).seconds < Fraction(4875, 10**8)


def test_the_trees_of_a_pipeline_are_timed_too():
    task = written("all_gather on torus(4, 4)\n")
    least = bound(task)
    budget = Budget(Deadline())
    goal = Goal(GoalKind.BANDWIDTH)
    pipelines = [p.schedule for p in packings_of(replace(task, goal=goal), least, [], budget, silent)]
    spending = Spending(0.0, Deadline())
    assert timed_schedules(task, 4096, least.throughput.time_per_byte, spending, pipelines) == []
    spending = Spending(200_000, Deadline())
    found = timed_schedules(task, 4096, least.throughput.time_per_byte, spending, pipelines)
    assert found
    assert all(check_schedule(task, t.schedule).ok for t in found)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "all_to_all"])
def test_chunks_keep_the_limit(most, collective):
    task = problem(dgx1(), collective, goal=Goal(chunks=most))
    least = bound(task).throughput.time_per_byte
    found = [t.schedule for t in timed_schedules(task, 10**6, least, plenty())]
    laid = laid_schedule(task, Deadline(), least)
    for schedule in [*found, *([laid.schedule] if laid.schedule else [])]:
        assert schedule.chunks_per_shard <= most
    assert found or laid.schedule


def passes_on(task, schedule):
    """The ranks that send what is not their own."""
    sources = {s.id: set(s.sources) for s in task.shards}
    found = set()
    for t in schedule.transfers:
        own = t.operands == (OWN,) and t.src in sources[schedule.chunks[t.chunk].shard]
        found |= set() if own else {t.src}
    return found


RELAYS = tuple(map(Rank, (0, 1, 4, 5, 7)))


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_to_all", "broadcast", "gather"])
def test_only_hinted_relays_pass_data_on_whatever_makes_the_schedule(collective):
    for kind in (GoalKind.BANDWIDTH, GoalKind.SIZES):
        sizes = (1024, 2**26) if kind is GoalKind.SIZES else (None, None)
        goal = Goal(kind, *sizes, hints=Hints(relays=RELAYS))
        task = problem(dgx1(), collective, goal=goal)
        result = Budgeted(task, 0.05).result
        assert result.solutions
        for solution in result.solutions:
            assert check_schedule(task, solution.schedule).ok
            assert passes_on(task, solution.schedule) <= set(RELAYS), solution.schedule.strategy


class Budgeted:
    """What the portfolio finds with little work."""

    def __init__(self, task, work=0.5):
        self.result = Portfolio().solve(task, Budget(Deadline(), work=work), silent)


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("all_gather on ring(6) { relays g[0..4] }", 4),
        ("all_gather on dgx1 { relays g[0], g[1], g[4], g[5], g[7] }", Fraction(5, 2)),
        ("all_to_all on dgx1 { relays g[0..3] }", 4),
        ("reduce on dgx1 { relays g[0..5] }", Fraction(1, 3)),
    ],
)
def test_what_a_hint_costs_is_proven_and_reached(text, rounds):
    task = written(text + "\n")
    task = replace(task, goal=replace(task.goal, kind=GoalKind.BANDWIDTH))
    unit = task.topology.unit
    assert bound_of_hint(task) * unit == rounds
    without = replace(task, goal=Goal(GoalKind.BANDWIDTH))
    assert bound_of_hint(without) is None
    assert bound(task).rounds_per_chunk == bound(without).rounds_per_chunk < rounds
    result = Budgeted(task, 0.05).result
    facts = check_schedule(task, result.solutions[-1].schedule).facts
    assert facts.time_per_shard_byte * unit == rounds
    assert any(f"fewer than {rounds} rounds a chunk" in note for note in result.notes)


def test_a_hint_that_takes_nobody_away_costs_nothing():
    everyone = tuple(dgx1().ranks)
    assert bound_of_hint(problem(dgx1(), "all_gather", goal=Goal(hints=Hints(relays=everyone)))) is None


TOGETHER = [
    ("all_gather on dgx1 among g[0..3]", "all_gather on dgx1 among g[4..7]", Fraction(3, 4), 1),
    ("all_to_all on dgx1 among g[0..3]", "all_gather on dgx1 among g[4..7]", Fraction(3, 4), 1),
    ("reduce_scatter on mi250 among g[0..7]", "reduce_scatter on mi250 among g[8..15]", Fraction(3, 2), 1),
    ("reduce_scatter on dgx1 among g[0..3]", "all_gather on dgx1 among g[4..7]", Fraction(3, 5), Fraction(8, 7)),
    ("all_reduce on dgx1 among g[0..3]", "all_reduce on dgx1 among g[4..7]", Fraction(1, 3), Fraction(8, 7)),
]


@pytest.mark.parametrize(("first", "second", "rounds", "factor"), TOGETHER)
def test_groups_at_the_same_time_share_links_near_their_common_bound(first, second, rounds, factor):
    task = written(f"together {{\n {first}\n {second}\n}} with {{ goal bandwidth }}\n")
    least = bound(task)
    assert check_certificate(task, least).ok
    assert least.rounds_per_chunk == rounds
    (laid,) = packings_of(task, least, [], Budget(Deadline()), silent)
    facts = verified(task, laid.schedule)
    assert facts.time_per_shard_byte == laid.time
    assert laid.time <= least.throughput.time_per_byte * factor


def test_rows_of_a_torus_reduce_at_the_same_time_at_the_bound():
    uses = "\n".join(f"all_reduce on torus(4, 4) among g[{x}, 0..3]" for x in range(4))
    task = written(f"together {{\n{uses}\n}} with {{ goal bandwidth }}\n")
    least = bound(task)
    laid = laid_schedule(task, Deadline(), least.throughput.time_per_byte)
    verified(task, laid.schedule)
    assert laid.time == least.throughput.time_per_byte


@pytest.mark.parametrize(
    "shards",
    [
        [((0,), (1, 3), False), ((0, 1, 2), (3,), True), ((2,), (0,), False)],
        [((0, 1, 2, 3), (1, 2), True), ((3,), (0, 1), False)],
        [((0, 1), (2, 3), False)],
    ],
)
@pytest.mark.parametrize("topology", [ring(4), STAR, SHARED], ids=["ring", "star", "budget"])
def test_any_demand_has_trees(topology, shards):
    task = custom(topology, shards)
    laid = laid_schedule(task, Deadline(), bound(task).throughput.time_per_byte)
    verified(task, laid.schedule)


def test_steps_and_rounds_are_no_limits_of_pipelines():
    task = problem(dgx1(), "all_gather", goal=Goal(steps=2))
    assert laid_schedule(task, Deadline(), Fraction(1)).schedule is None


def test_schedules_for_sizes_stand_beside_the_others_and_claim_nothing():
    goal = Goal(GoalKind.SIZES, 64 * 1024, 2**30)
    task = problem(dgx1(), "all_gather", goal=goal)
    result = Budgeted(task).result
    steps = [s.schedule.steps for s in result.solutions if not s.schedule.pipelined]
    assert steps == sorted(steps)
    timed = [s.schedule for s in result.solutions if s.schedule.strategy == "timed"]
    assert timed
    assert not any(s.optimal for s in timed)
    assert result.status is Status.FEASIBLE
    assert not result.complete
    assert len({s.schedule.id for s in result.solutions}) == len(result.solutions)
    assert any(best_within(task, [s.schedule for s in result.solutions]))
    again = Budgeted(task).result
    assert [s.schedule for s in again.solutions] == [s.schedule for s in result.solutions]


def test_a_goal_without_sizes_has_no_schedules_for_sizes():
    task = problem(dgx1(), "all_gather")
    assert schedules_for_sizes(task, bound(task), [], Budget(Deadline()), silent).schedules == ()


def test_of_about_equal_times_the_shortest_schedule_is_taken():
    task = problem(torus(4, 4), "all_gather", goal=Goal(GoalKind.SIZES, 2**20, 2**20))
    least, shard = bound(task).throughput.time_per_byte, 2**16
    schedules = [t.schedule for t in timed_schedules(replace(task, goal=Goal()), shard, least, plenty())]
    times = [simulate(task, s, shard).seconds for s in schedules]
    near = [s for s, t in zip(schedules, times, strict=True) if t <= min(times) * (1 + ABOUT)]
    (chosen,) = [s for s, wanted in zip(schedules, best_within(task, schedules), strict=True) if wanted]
    assert len(schedules) > 1
    assert len(chosen.transfers) == min(len(s.transfers) for s in near)


def found_by(task):
    return packings_of(task, bound(task), [], Budget(Deadline()), silent)


def test_steps_are_searched_for_where_they_may_bring_something():
    task = problem(dgx1(), "all_gather")
    packings = found_by(task)
    assert packings[-1].time == bound(task).throughput.time_per_byte
    assert step_search(task, bound(task), packings).work is None  # fewer steps are worth something
    assert step_search(task, bound(task), []).work is None
    bandwidth = replace(task, goal=Goal(GoalKind.BANDWIDTH))
    assert step_search(bandwidth, bound(task), packings).work == SHORT_WORK
    assert step_search(bandwidth, bound(task), []).work is None
    more = bound(task).throughput.time_per_byte * 2
    assert step_search(bandwidth, bound(task), packings, least=more).work is None
    large = replace(task, shards=task.shards * (MANY // (len(task.shards) * len(task.topology.links)) + 1))
    assert step_search(large, bound(task), packings).work == SHORT_WORK


def test_no_search_that_would_take_minutes_to_set_up():
    task = problem(torus(4, 4), "all_to_all")
    flow = found_by(task)
    copies = -(-LARGE // (len(task.shards) * len(task.topology.links)))
    huge = replace(task, shards=task.shards * (copies + 1))
    search = step_search(huge, bound(task), flow)
    assert (search.wanted, search.note) == (False, NO_STEPS)
    assert step_search(huge, bound(task), []).wanted


def test_beside_schedules_for_sizes_only_small_machines_are_searched():
    task = problem(dgx1(), "all_gather")
    made = [p.schedule for p in found_by(task)]
    assert step_search(task, bound(task), [], made).wanted
    more = replace(task, shards=task.shards * (FEW // (len(task.shards) * len(task.topology.links)) + 1))
    assert step_search(more, bound(task), [], made).note == NO_NEED
    assert step_search(more, bound(task), []).wanted


def test_no_pipeline_is_added_where_it_is_no_better():
    task = written("together {\n all_gather on dgx1 among g[0..3]\n all_gather on dgx1 among g[4..7]\n}\n")
    task = replace(task, goal=Goal(GoalKind.BANDWIDTH))
    result = solve(task)
    assert result.status is Status.OPTIMAL
    assert with_packings(task, result, found_by(task)).solutions == result.solutions
