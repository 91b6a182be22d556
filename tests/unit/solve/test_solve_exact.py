from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from packing_cases import mi250
from solve_cases import (
    custom,
    dgx1,
    full,
    hypercube,
    line,
    machine,
    problem,
    relabelled,
    ring,
    simulate,
    star,
    torus,
    without_pair,
)

from acclc.bounds import UnreachableError
from acclc.ir.problem import Goal, GoalKind, Hints, Rank
from acclc.ir.result import Status
from acclc.solve import cpsat, network, portfolio, registry
from acclc.solve.items import formulate
from acclc.solve.model import Question, ask
from acclc.solve.protocol import Budget, Deadline, silent


def solved(p, **options):
    result = portfolio.solve(p, **options)
    return result, [simulate(p, s.schedule) for s in result.solutions if not s.schedule.pipelined]


def at(chunks=None, steps=None, rounds=None):
    return Goal(GoalKind.POINT, chunks=chunks, steps=steps, rounds=rounds)


def assert_excluded_below(result, chunks):
    """Every smaller R/C, at the steps of each solution up to those of the next, is in the list for each C."""
    frontier = [s.schedule for s in result.solutions]
    said = {(e.chunks, e.steps): e.rounds for e in result.excluded}
    for s, after in zip(frontier, [*frontier[1:], None], strict=True):
        for steps in range(s.steps, after.steps if after else s.steps + 1):
            for c in range(1, chunks + 1):
                rounds = ceil(Fraction(s.total_rounds, s.chunks_per_shard) * c) - 1
                assert rounds == 0 or said[c, steps] >= rounds


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_dgx1_all_gather_frontier(seed):
    topology = dgx1() if seed is None else relabelled(dgx1(), seed)
    result, points = solved(problem(topology, "all_gather"))
    assert points == [(2, 2, 3), (6, 3, 7)]
    assert result.status is Status.OPTIMAL
    assert result.complete
    assert result.reproducible
    assert_excluded_below(result, 8)
    assert {e.reason for e in result.excluded} <= {"bound", "infeasible"}
    assert result.solutions[0].schedule.optimal == ("steps", "rounds")
    assert "throughput" in result.solutions[1].schedule.optimal


def test_the_same_by_search_alone(monkeypatch):
    """Without the bound for given steps CP-SAT has to exclude what is below (2, 2, 3)."""
    monkeypatch.setattr("acclc.solve.prober.step_certificate", lambda problem, steps: None)
    result, points = solved(problem(dgx1(), "all_gather"))
    assert points == [(2, 2, 3), (6, 3, 7)]
    assert result.complete
    assert_excluded_below(result, 8)
    at_two = {e.chunks: e for e in result.excluded if e.steps == 2}
    assert at_two[6].rounds == 8
    assert at_two[6].reason == "infeasible"
    assert at_two[6].detail == "CP-SAT, no symmetry imposed, seed 0"


@pytest.mark.parametrize("point", [(3, 2, 4), (5, 2, 7), (6, 2, 7), (7, 2, 10), (8, 2, 11), (4, 2, 5)])
@pytest.mark.parametrize("bounds", [True, False])
def test_points_that_dgx1_does_not_have(point, bounds, monkeypatch):
    if not bounds:
        monkeypatch.setattr("acclc.solve.prober.step_certificate", lambda problem, steps: None)
    result, points = solved(problem(dgx1(), "all_gather", goal=at(*point)))
    assert result.status is Status.INFEASIBLE
    assert points == []
    ((c, s, r),) = [(e.chunks, e.steps, e.rounds) for e in result.excluded]
    assert (c, s, r) == point
    reasons = {e.reason for e in result.excluded}
    assert reasons <= {"bound"} if bounds else reasons <= {"bound", "infeasible"}


@pytest.mark.parametrize(
    ("topology", "collective", "point"),
    [
        (dgx1(), "all_gather", (2, 2, 3)),
        (dgx1(), "all_gather", (6, 3, 7)),
        (relabelled(dgx1(), 4), "all_gather", (3, 3, 4)),
        (dgx1(), "all_to_all", (3, 2, 8)),
        (relabelled(dgx1(), 5), "all_to_all", (3, 2, 8)),
        (star(16), "all_gather", (1, 1, 15)),
        (hypercube(4), "all_gather", (4, 4, 15)),
        (torus(4, 4), "all_gather", (4, 4, 15)),
        (relabelled(torus(4, 4), 5), "all_gather", (4, 4, 15)),
        (relabelled(hypercube(4), 6), "all_gather", (4, 4, 15)),
        (torus(4, 4), "all_to_all", (1, 4, 8)),
        (ring(8), "all_gather", (2, 4, 7)),
        (ring(5), "all_reduce", (5, 4, 4)),
        (ring(5), "all_reduce", (1, 2, 2)),
        (dgx1(), "all_reduce", (16, 4, 6)),
    ],
)
def test_points_that_there_are(topology, collective, point):
    chunks, steps, rounds = point
    result, points = solved(problem(topology, collective, goal=at(chunks, steps, rounds)))
    assert points == [point]
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)


@pytest.mark.parametrize(
    ("topology", "points"),
    [(star(16), [(1, 1, 15)]), (hypercube(4), [(4, 4, 15)]), (relabelled(torus(4, 4), 7), [(4, 4, 15)])],
)
def test_frontiers_that_are_one_point(topology, points):
    result, found = solved(problem(topology, "all_gather"))
    assert found == points
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("pair", [(0, 2), (0, 3), (4, 5)])
def test_a_link_removed_has_another_optimum_that_meets_the_bound(pair):
    result, points = solved(problem(without_pair(dgx1(), *pair), "all_gather"))
    assert Fraction(points[-1][2], points[-1][0]) == result.bound.rounds_per_chunk > Fraction(7, 6)
    assert points[0][1] == result.bound.latency.steps
    assert result.status is Status.OPTIMAL
    assert_excluded_below(result, 8)


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("collective", ["all_gather", "all_to_all", "reduce_scatter", "broadcast"])
def test_any_number_of_ranks(n, collective):
    for topology in (ring(n), star(n)):
        cap = 2 if collective == "broadcast" else 4
        result, points = solved(problem(topology, collective, goal=Goal(chunks=cap)))
        assert points
        assert points[0][1] == result.bound.latency.steps
        assert result.status in (Status.OPTIMAL, Status.FEASIBLE)


@pytest.mark.parametrize(
    ("goal", "points"),
    [
        (at(2, 2), [(2, 2, 3)]),  # the least rounds
        (at(6, None, 7), [(6, 3, 7)]),  # the fewest steps
        (at(None, 3, 7), [(6, 3, 7)]),  # the most chunks
        (at(None, 2, 3), [(2, 2, 3)]),
        (at(None, 2), [(2, 2, 3)]),
        (at(3), [(3, 2, 5)]),
        (at(None, None, 4), [(2, 2, 4)]),
        (at(), [(2, 2, 3)]),
        (Goal(GoalKind.LATENCY), [(2, 2, 3)]),
        (Goal(GoalKind.BANDWIDTH), [(6, 3, 7)]),
        (Goal(GoalKind.SIZES), [(2, 2, 3), (6, 3, 7)]),
        (Goal(chunks=5), [(2, 2, 3), (5, 3, 6)]),
        (Goal(steps=2), [(2, 2, 3)]),
        (Goal(rounds=4), [(2, 2, 3), (3, 3, 4)]),
    ],
)
def test_goals_and_limits(goal, points):
    result, found = solved(problem(dgx1(), "all_gather", goal=goal))
    assert found == points
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("point", [(1, 5, 5), (2, 5, 6), (3, 6, 8), (4, 6, 10), (7, 8, 17)])
def test_points_of_an_mi250_box_are_found_and_optimal(point):
    """By default, and R - 1 is excluded by a bound at their C and S."""
    chunks, steps, rounds = point
    result, found = solved(problem(mi250(), "all_gather", goal=at(*point)))
    assert found == [point]
    assert result.status is Status.OPTIMAL
    assert [(e.chunks, e.steps, e.rounds, e.reason) for e in result.excluded] == [(chunks, steps, rounds - 1, "bound")]
    assert "rounds" in result.solutions[0].schedule.optimal


@pytest.mark.parametrize(
    ("point", "reasons"),
    [((2, 2, 3), ["bound"]), ((6, 3, 7), ["bound"]), ((1, 2, 2), ["bound"]), ((2, 2, 4), [])],
)
def test_a_point_that_is_found_says_what_is_excluded_below_it(point, reasons):
    result, found = solved(problem(dgx1(), "all_gather", goal=at(*point)))
    assert found == [point]
    assert [e.reason for e in result.excluded] == reasons
    assert ("rounds" in result.solutions[0].schedule.optimal) == bool(reasons)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (Goal(steps=1), "1 step asked for"),
        (at(2, 1, 8), "1 step asked for"),
        (at(6, 3, 6), "6 rounds for 6 chunks"),
        (Goal(rounds=1), "1 rounds cannot fill 2 steps"),
        (at(1, 5, 4), "4 rounds cannot fill 5 steps"),
    ],
)
def test_limits_that_a_bound_refuses(goal, words):
    result, points = solved(problem(dgx1(), "all_gather", goal=goal))
    assert result.status is Status.INFEASIBLE
    assert points == []
    assert [e.reason for e in result.excluded] == ["bound"]
    assert words in result.excluded[0].detail


def test_all_reduce_points_are_not_excluded_by_search():
    result, points = solved(problem(ring(4), "all_reduce", goal=at(2, 2, 2)))
    assert points == []
    assert result.status is Status.UNKNOWN


def test_hinted_relays_are_kept_and_prove_nothing():
    relays = (Rank(0), Rank(1), Rank(2), Rank(4), Rank(7))
    result, points = solved(problem(dgx1(), "all_gather", goal=Goal(hints=Hints(relays=relays), chunks=2)))
    assert points
    for s in result.solutions:
        relaying = {t.src for t in s.schedule.transfers if t.operands != (-1,)}
        assert relaying <= set(relays)
    assert all(e.reason == "bound" for e in result.excluded)
    assert any("relays" in n for n in result.notes)


def test_a_hint_on_relays_that_leaves_no_way_is_unknown_not_infeasible():
    result, points = solved(problem(ring(6), "all_gather", goal=Goal(hints=Hints(relays=(Rank(1),)))))
    assert points == []
    assert result.status is Status.UNKNOWN


def test_symmetry_can_be_switched_off():
    p = problem(dgx1(), "all_gather", goal=replace(at(2, 2, 3), hints=Hints(symmetry=False)))
    assert solved(p)[1] == [(2, 2, 3)]


def test_the_same_problem_gives_the_same_result():
    p = problem(without_pair(dgx1(), 0, 2), "all_gather")
    assert portfolio.solve(p) == portfolio.solve(p)


def test_an_expired_deadline_gives_the_fallback():
    p = problem(torus(4, 4), "all_gather")
    result, points = solved(p, deadline=Deadline.after(0))
    assert points
    assert result.status is Status.FALLBACK
    assert not result.complete
    assert not result.reproducible
    assert any("deadline" in n for n in result.notes)


def test_an_expired_deadline_with_limits_is_unknown():
    result, points = solved(problem(dgx1(), "all_gather", goal=at(6, 3, 7)), deadline=Deadline.after(0))
    assert points == []
    assert result.status is Status.UNKNOWN


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("collective", ["all_gather", "all_reduce"])
def test_an_interrupt_keeps_the_best_so_far(collective, after, monkeypatch):
    calls = []
    real = cpsat.run

    def interrupted(model, **options):
        calls.append(model)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(model, **options)

    monkeypatch.setattr("acclc.solve.model.run", interrupted)
    result, points = solved(problem(dgx1(), collective))
    assert len(calls) == after + 1
    assert points
    assert not result.complete
    assert not result.reproducible
    assert any("interrupted" in n for n in result.notes)


def test_an_interrupt_stops_a_running_search():
    """The main thread is interrupted by a signal while CP-SAT runs: the search ends, the interrupt is raised."""
    import os
    import signal
    import threading

    p = problem(hypercube(4), "all_gather")
    net = network.of_problem(p)
    question = Question(net, formulate(p, net, 4), 4, 15)  # without symmetry: minutes without an answer
    timer = threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ask(question, work=1e6, deadline=Deadline.after(120))
    timer.join()


def test_progress_says_best_bound_and_gap():
    news = []
    portfolio.solve(problem(dgx1(), "all_gather"), report=news.append)
    assert {p.bound for p in news} == {Fraction(7, 6)}
    assert news[-1].best == Fraction(7, 6)
    assert news[-1].gap == 0
    assert news[0].message.startswith("greedy")
    assert news[0].gap > 0
    assert any("(6, 3, 7): found" in p.message for p in news)


def test_what_cannot_be_reached_is_an_error_with_the_ranks():
    with pytest.raises(UnreachableError):
        portfolio.solve(problem(machine(3, [(0, 1, 1), (1, 0, 1), (2, 0, 1)]), "all_gather"))


def test_nothing_to_move():
    result, points = solved(problem(machine(1, []), "all_gather"))
    assert points == [(1, 0, 0)]
    assert result.status is Status.OPTIMAL
    result, points = solved(custom(full(3), [((0, 1, 2), (1, 2), False)]))
    assert points == [(1, 0, 0)]
    assert result.status is Status.OPTIMAL


def test_many_lanes_are_left_to_the_constructive_solver():
    links = [(0, 1, 100), (1, 0, 100), (1, 2, 99), (2, 1, 99)]
    result, points = solved(problem(machine(3, links), "all_gather"))
    assert points
    assert result.status is Status.FEASIBLE
    assert result.solutions[-1].schedule.pipelined
    assert any("no common unit" in n for n in result.notes)


def test_every_solver_of_the_registry_keeps_the_protocol():
    p = problem(line(3), "all_gather")
    for name in registry.SOLVERS:
        solver = registry.solver(name)
        assert solver.name == name
        result = solver.solve(p, Budget(), silent)
        assert all(simulate(p, s.schedule) for s in result.solutions)
        assert result.solutions
    with pytest.raises(KeyError, match="exact, greedy, portfolio"):
        registry.solver("magic")


def test_solving_loads_no_solver_before_it_is_asked_to():
    import subprocess
    import sys

    modules = "acclc.solve, acclc.solve.portfolio, acclc.solve.registry, acclc.solve.protocol"
    code = f"import sys, {modules}; print('ortools' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
