from fractions import Fraction

import pytest
from solve_cases import both, custom, dgx1, full, line, machine, problem, relabelled, ring, simulate, star, torus

from acclc.ir.problem import Goal, GoalKind
from acclc.solve import network, portfolio, shared
from acclc.solve.frontier import rounds_per_chunk
from acclc.solve.greedy import Variant, schedule, schedules_of
from acclc.solve.items import Shared, formulate, hub, meeting_ranks
from acclc.solve.mirror import reduction_of, twins
from acclc.solve.protocol import Budget, silent


def points(p, work=0.5):
    result = portfolio.Portfolio().solve(p, Budget(work=work), silent)
    return result, {simulate(p, s.schedule) for s in result.solutions}


@pytest.mark.parametrize("seed", [0, 1])
def test_ring_of_five_is_optimal_in_steps_and_in_throughput(seed):
    result, found = points(problem(relabelled(ring(5), seed), "all_reduce"))
    assert found == {(1, 2, 2), (5, 4, 4)}
    assert result.bound.rounds_per_chunk == Fraction(4, 5)
    assert "steps" in result.solutions[0].schedule.optimal
    assert "throughput" in result.solutions[-1].schedule.optimal


@pytest.mark.parametrize("n", [2, 3, 6, 7])
def test_other_numbers_of_ranks(n):
    result, found = points(problem(ring(n), "all_reduce"))
    fewest = min(found, key=lambda f: f[1])
    best = min(Fraction(r, c) for c, _, r in found)
    assert fewest[1] == n // 2
    assert best == result.bound.rounds_per_chunk == Fraction(2 * (n - 1), n * min(2, n - 1))


def test_dgx1_goes_from_gathering_to_the_bound():
    result, found = points(problem(dgx1(), "all_reduce"), work=1.5)
    assert {(2, 2, 3), (6, 3, 7), (16, 4, 6)} <= found
    assert min(Fraction(r, c) for c, _, r in found) == result.bound.rounds_per_chunk == Fraction(7, 24)


def test_gathered_results_are_reduced_in_one_order_everywhere():
    p = problem(full(4), "all_reduce", goal=Goal(GoalKind.LATENCY))
    result, found = points(p)
    assert found == {(1, 1, 1)}
    (only,) = result.solutions
    assert only.schedule.strategy in ("gathered", "greedy")


def test_up_and_down_at_the_same_time_at_a_hub_beats_one_after_the_other():
    # one GPU with ten times the lanes of the seven others, on one switch
    links = both([(0, 8, 10), *((i, 8, 1) for i in range(1, 8))])
    p = problem(machine(8, links, switches=1), "all_reduce")
    _, found = points(p)
    best = min(Fraction(r, c) for c, _, r in found)
    assert best <= Fraction(9, 8)  # pipelined; reducing and then gathering takes 7/4
    p_net = network.of_problem(p)
    assert hub(p_net, p_net.ranks) == 0
    assert {i.root for i in formulate(p, p_net, 3, Shared.HUB)} == {0}


def test_a_reduction_that_some_other_ranks_need():
    p = custom(line(5), [((0, 4), (1, 3), True), ((1, 2, 3), (0, 4), True)])
    _, found = points(p)
    assert found
    for s in schedules_of(p):
        simulate(p, s)


def test_reductions_and_copies_at_the_same_time():
    p = custom(ring(4), [((0, 1, 2, 3), (0, 1, 2, 3), True), ((0,), (2,), False), ((1, 3), (2,), True)])
    _, found = points(p)
    assert found


def test_no_target_is_a_source():
    p = custom(full(4), [((0, 1), (2, 3), True)])
    _, found = points(p)
    assert min(s for _, s, _ in found) == 1


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_scaling_a_schedule_multiplies_chunks_and_rounds(factor):
    p = problem(torus(3, 3), "reduce_scatter")
    net = network.of_problem(p)
    s = schedule(p, net, Variant(1, 1.0))
    c, steps, r = simulate(p, s)
    assert simulate(p, shared.scaled(s, factor)) == (c * factor, steps, r * factor)


def test_composing_schedules_with_different_chunks():
    p = problem(ring(4), "all_reduce")
    net = network.of_problem(p)
    roots = {s.id: meeting_ranks(net, s.sources, s.targets) for s in p.shards}
    scatter, gather = shared.piece_problems(p, 4, roots)
    a = schedule(scatter, net, Variant(2, 1.0))
    b = schedule(gather, net, Variant(3, 1.0))
    whole = shared.compose(p, 4, a, b)
    assert simulate(p, whole) == (24, a.steps + b.steps, a.total_rounds * 3 + b.total_rounds * 2)


@pytest.mark.parametrize("topology", [dgx1(), star(5), torus(3, 4)], ids=lambda t: len(t.nodes))
def test_an_all_gather_read_backward_is_a_reduce_scatter(topology):
    net = network.of_topology(topology)
    copies = schedule(problem(topology, "all_gather"), net, Variant(2, 1.0))
    p = problem(topology, "reduce_scatter")
    backward = reduction_of(copies, p, net)
    assert simulate(p, backward) == (2, copies.steps, copies.total_rounds)
    assert backward.rounds == copies.rounds[::-1]


def test_a_machine_that_is_not_the_same_both_ways_has_no_twins():
    assert twins(machine(3, [(0, 1, 1), (1, 2, 1), (2, 0, 1)])) is None
    assert twins(machine(2, [(0, 1, 1), (1, 0, 2)])) is None
    assert twins(machine(2, both([(0, 1, 1)]), budgets=[((0,), 1)])) is None
    assert twins(machine(2, both([(0, 1, 1)]), budgets=[((0, 1), 1)])) == (1, 0)


def test_one_way_machines_are_searched_both_ways():
    p = problem(machine(3, [(0, 1, 1), (1, 2, 1), (2, 0, 1)]), "all_reduce")
    result, found = points(p)
    assert min(Fraction(r, c) for c, _, r in found) == result.bound.rounds_per_chunk == Fraction(4, 3)
    assert all(rounds_per_chunk(s.schedule) >= Fraction(4, 3) for s in result.solutions)
