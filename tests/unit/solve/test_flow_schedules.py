"""Flows as pipelined schedules: the bars, limits on chunks, lowering, and when the portfolio takes them."""

from dataclasses import replace
from fractions import Fraction

import pytest
from packing_cases import a100, mi250
from solve_cases import custom, dgx1, hypercube, line, machine, problem, relabelled, ring, star, torus, without_pair

from acclc.bounds import bound
from acclc.bounds import flow as flow_bounds
from acclc.ir.problem import Goal, GoalKind, Hints, Rank
from acclc.ir.result import Status
from acclc.ir.schedule import OWN
from acclc.lower import lower_kernel, lower_program
from acclc.solve.flow import flow_schedule
from acclc.solve.pipelined import packings_of, with_packings
from acclc.solve.portfolio import solve
from acclc.solve.protocol import Budget, Deadline, silent
from acclc.verify import check_kernel, check_program, check_schedule
from acclc.verify.certificate import check_certificate


def verified(task, schedule, lowered=False):
    """Return the verifier's facts; every level below is verified too."""
    report = check_schedule(task, schedule)
    assert report.ok, report.findings
    assert not report.findings
    assert schedule.strategy == "flow"
    if lowered:
        program = lower_program(task, schedule)
        assert check_program(task, schedule, program).ok
        assert check_kernel(task, schedule, lower_kernel(task, program)).ok
    return report.facts


@pytest.mark.parametrize(
    ("topology", "rounds", "depth"),
    [
        (dgx1(), Fraction(8, 3), 2),
        (ring(8), Fraction(8), 4),
        (torus(4, 4), Fraction(8), 4),
        (hypercube(4), Fraction(8), 4),
        (mi250(), Fraction(32, 3), 5),
        (a100(2), Fraction(8), 2),
    ],
    ids=["dgx1", "ring", "torus", "hypercube", "mi250", "a100 x2"],
)
def test_all_to_all_at_the_optimum_of_the_tables(topology, rounds, depth):
    task = problem(topology, "all_to_all")
    least = bound(task)
    flow = flow_schedule(task, bound=least.throughput.time_per_byte)
    facts = verified(task, flow.schedule, lowered=True)
    assert facts.rounds_per_chunk == least.rounds_per_chunk == rounds
    assert flow.schedule.steps == depth
    assert (flow.loss, flow.time) == (0, facts.time_per_shard_byte)


@pytest.mark.parametrize(("topology", "rounds"), [(torus(4, 8), 32), (hypercube(5), 16)], ids=["torus", "hypercube"])
def test_machines_with_many_symmetries(topology, rounds):
    """By their symmetries, whatever the numbers of the ranks; no shard is cut."""
    task = problem(relabelled(topology, 1), "all_to_all")
    flow = flow_schedule(task, bound=rounds / topology.unit)
    facts = verified(task, flow.schedule)
    assert (facts.rounds_per_chunk, facts.chunks) == (rounds, 1)


@pytest.mark.parametrize("collective", ["gather", "scatter", "send_recv", "all_to_all"])
@pytest.mark.parametrize("topology", [dgx1(), star(5), ring(5)], ids=["dgx1", "star", "ring"])
def test_every_collective_and_a_broken_link(topology, collective):
    ranks = len(topology.ranks)
    broken = [without_pair(topology, 0, 1)] if topology.links[0].dst < ranks else []
    for machine_ in (topology, *broken):
        task = problem(machine_, collective, pairs=[(r, (r + 2) % ranks) for r in range(ranks)], root=2)
        facts = verified(task, flow_schedule(task).schedule, lowered=True)
        assert facts.rounds_per_chunk == bound(task).rounds_per_chunk


def test_shards_with_the_same_ends_share_the_ways():
    """Three shards of equal ends over two ways: 3/2 rounds, and only one of them is cut."""
    topology = machine(4, [(0, 1, 1), (1, 3, 1), (0, 2, 1), (2, 3, 1), (3, 0, 1)])
    task = custom(topology, [([0], [3], False)] * 3)
    flow = flow_schedule(task)
    facts = verified(task, flow.schedule, lowered=True)
    assert facts.rounds_per_chunk == bound(task).rounds_per_chunk == Fraction(3, 2)
    assert sorted(c.weight for c in flow.schedule.chunks) == [Fraction(1, 2), Fraction(1, 2), 1, 1]


def test_holders_share_what_they_send():
    task = custom(line(4), [([0, 3], [1], False), ([0, 3], [2], False), ([1], [1], False), ([2], [], False)])
    facts = verified(task, flow_schedule(task).schedule, lowered=True)
    assert facts.rounds_per_chunk == 1
    assert facts.steps == 1


def test_a_reduction_of_one_contribution_is_a_copy():
    task = custom(line(3), [([0], [2], True), ([2], [0], True), ([1], [1], True)])
    facts = verified(task, flow_schedule(task).schedule, lowered=True)
    assert facts.rounds_per_chunk == bound(task).rounds_per_chunk == 1


@pytest.mark.parametrize(("chunks", "rounds"), [(1, 3), (2, Fraction(8, 3)), (64, Fraction(8, 3))])
def test_chunks_may_be_limited(chunks, rounds):
    """On DGX-1 two chunks a shard do; without a cut no link can carry 8/3 of a shard."""
    task = problem(dgx1(), "all_to_all", goal=Goal(chunks=chunks))
    flow = flow_schedule(task)
    facts = verified(task, flow.schedule)
    assert facts.chunks <= chunks
    assert facts.rounds_per_chunk == rounds
    assert flow.loss == rounds / Fraction(8, 3) - 1


def test_only_relays_pass_on():
    """Without 3, all that goes between 0 and 2 goes past 1, and the links there are full."""
    task = problem(ring(4), "all_to_all", goal=Goal(hints=Hints(relays=(Rank(0), Rank(1), Rank(2)))))
    flow = flow_schedule(task)
    facts = verified(task, flow.schedule, lowered=True)
    assert all(t.src != 3 for t in flow.schedule.transfers if t.operands != (OWN,))
    assert bound(task).rounds_per_chunk == 2
    assert facts.rounds_per_chunk == flow.optimum * task.topology.unit == Fraction(5, 2)
    assert flow.loss == 0


def test_a_group_of_some_ranks_relays_itself():
    task = problem(ring(5), "all_to_all", group=(0, 1, 2))
    flow = flow_schedule(task)
    verified(task, flow.schedule, lowered=True)
    assert {r for t in flow.schedule.transfers for r in (t.src, t.dst)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (problem(ring(4), "all_gather"), "several ranks"),
        (problem(ring(4), "all_to_all", goal=Goal(steps=3)), "steps"),
        (problem(ring(4), "all_to_all", goal=Goal(chunks=0)), "no chunk"),
        (problem(line(3), "all_to_all", goal=Goal(hints=Hints(relays=()))), "no way"),
        (problem(machine(1, []), "all_to_all"), "nothing moves"),
    ],
)
def test_where_there_is_none_the_reason_is_said(task, words):
    flow = flow_schedule(task, bound=Fraction(0))
    assert flow.schedule is None
    assert words in flow.reason
    assert not flow.cut


def test_the_deadline_is_kept():
    flow = flow_schedule(problem(dgx1(), "all_to_all"), Deadline.after(0))
    assert flow.schedule is None
    assert flow.cut
    assert "deadline" in flow.reason


def test_the_same_twice():
    task = problem(mi250(), "all_to_all")
    assert flow_schedule(task) == flow_schedule(task)


def test_the_portfolio_adds_what_is_strictly_better():
    """The bound takes three chunks a shard; steps with at most two lie above it, a flow cuts some shards only."""
    task = problem(dgx1(), "all_to_all", goal=Goal(GoalKind.BANDWIDTH, chunks=2))
    result = solve(task)
    (solution,) = result.solutions
    assert solution.schedule.pipelined
    assert solution.schedule.optimal == ("throughput",)
    assert (result.status, result.complete, result.reproducible, result.notes) == (Status.OPTIMAL, True, True, ())
    frontier = solve(replace(task, goal=Goal(chunks=2)))
    *steps, last = (s.schedule for s in frontier.solutions)
    assert steps
    assert last == solution.schedule
    assert not any(s.pipelined for s in steps)


def test_a_bound_that_is_too_low_is_raised(monkeypatch):
    """Where the program of the bounds would be too large, the smaller one by symmetries proves as much."""
    task = problem(hypercube(4), "all_to_all", goal=Goal(GoalKind.BANDWIDTH))
    best = bound(task)
    monkeypatch.setattr(flow_bounds, "ROW_LIMIT", 0)
    low = bound(task)
    assert low.rounds_per_chunk < best.rounds_per_chunk == 8
    result = solve(task)
    assert result.status is Status.OPTIMAL
    assert result.bound.rounds_per_chunk == 8
    assert check_certificate(task, result.bound).ok


def test_the_loss_is_noted():
    task = problem(dgx1(), "all_to_all", goal=Goal(chunks=1))
    least = bound(task)
    found = packings_of(task, least, [], Budget(), silent)
    empty = replace(solve(problem(line(2), "all_to_all")), bound=least, solutions=(), notes=())
    result = with_packings(task, empty, found)
    (note,) = result.notes
    assert note.startswith("flow: the optimum takes k = 3 units a shard; ")
    assert note.endswith("k = 1 was taken, which costs 12.5 %")
    assert not result.solutions[-1].schedule.optimal


def test_the_portfolio_leaves_it_out_where_steps_reach_the_bound():
    for topology, goal in ((star(4), Goal()), (line(3), Goal(GoalKind.BANDWIDTH)), (dgx1(), Goal(GoalKind.LATENCY))):
        result = solve(problem(topology, "all_to_all", goal=goal))
        assert result.solutions
        assert not any(s.schedule.pipelined for s in result.solutions)


def test_packings_are_kept_for_what_goes_to_all():
    for collective in ("all_gather", "broadcast"):
        task = problem(dgx1(), collective, goal=Goal(GoalKind.BANDWIDTH))
        assert {p.kind for p in packings_of(task, bound(task), [], Budget(), silent)} == {"packing of trees"}
