import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solve_cases import both, custom, dgx1, full, machine, problem, ring, simulate, star, torus

from acclc.ir.problem import Goal, Hints, Rank
from acclc.solve import greedy
from acclc.solve.frontier import Unreachable, non_dominated

COLLECTIVES = (
    "all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "gather", "scatter", "all_to_all",
)  # fmt: skip


@st.composite
def strongly_connected(draw):
    """A cycle through all ranks in some order, and some more links; counts 1 to 3; perhaps a budget."""
    n = draw(st.integers(2, 6))
    order = draw(st.permutations(range(n)))
    links = {(order[i], order[(i + 1) % n]): draw(st.integers(1, 3)) for i in range(n)}
    for u, v in draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8)):
        if u != v:
            links.setdefault((u, v), draw(st.integers(1, 3)))
    triples = [(u, v, c) for (u, v), c in links.items()]
    shared = draw(st.lists(st.integers(0, len(triples) - 1), max_size=3, unique=True))
    return machine(n, triples, budgets=[(tuple(shared), draw(st.integers(1, 3)))] if shared else [])


@settings(max_examples=60, deadline=None)
@given(strongly_connected(), st.sampled_from(COLLECTIVES), st.data())
def test_every_schedule_on_a_strongly_connected_graph_is_right(topology, collective, data):
    size = data.draw(st.integers(1, len(topology.ranks)))
    group = data.draw(st.permutations(topology.ranks))[:size]
    p = problem(topology, collective, group=group)
    schedules = greedy.schedules_of(p)
    assert schedules
    for s in schedules:
        simulate(p, s)


@settings(max_examples=40, deadline=None)
@given(strongly_connected(), st.data())
def test_custom_shards_of_every_kind_at_once(topology, data):
    some = st.lists(st.sampled_from(topology.ranks), min_size=1, max_size=4, unique=True)
    p = custom(topology, data.draw(st.lists(st.tuples(some, some, st.booleans()), min_size=1, max_size=4)))
    for s in greedy.schedules_of(p):
        simulate(p, s)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("topology", [dgx1(), star(6), torus(3, 3), full(5), ring(7)], ids=lambda t: len(t.nodes))
def test_machines(topology, collective):
    p = problem(topology, collective)
    for s in greedy.schedules_of(p):
        simulate(p, s)


def test_switches_with_a_budget_that_one_path_crosses_twice():
    p = problem(
        machine(3, both([(i, 3, 2) for i in range(3)]), switches=1, budgets=[((0, 1, 2, 3, 4, 5), 1)]), "all_gather"
    )
    for s in greedy.schedules_of(p):
        assert simulate(p, s)[2] >= 12 * s.chunks_per_shard


def test_it_reaches_the_bound_where_that_is_easy():
    p = problem(ring(5), "all_reduce")
    points = {simulate(p, s) for s in non_dominated(greedy.schedules_of(p))}
    assert points == {(1, 2, 2), (5, 4, 4)}


def test_chunks_keep_the_limit():
    for most in (1, 2, 3):
        p = problem(dgx1(), "broadcast", goal=Goal(chunks=most))
        assert {s.chunks_per_shard for s in greedy.schedules_of(p)} == set(range(1, most + 1)) - {3}


def test_only_hinted_relays_pass_data_on():
    p = problem(ring(6), "broadcast", goal=Goal(hints=Hints(relays=(Rank(1), Rank(2), Rank(3), Rank(4)))))
    for s in greedy.schedules_of(p):
        simulate(p, s)
        assert {t.src for t in s.transfers} <= {0, 1, 2, 3, 4}


def test_no_way_is_said_with_the_ranks():
    p = problem(machine(3, [(0, 1, 1), (1, 0, 1), (2, 0, 1)]), "all_gather")
    with pytest.raises(Unreachable, match="no path from ranks 0 to 2"):
        greedy.schedules_of(p)


def test_one_rank_moves_nothing():
    p = problem(machine(1, []), "all_reduce")
    (s, *_) = greedy.schedules_of(p)
    assert simulate(p, s) == (1, 0, 0)
    assert s.transfers == ()


def test_the_same_problem_gives_the_same_schedules():
    assert greedy.schedules_of(problem(torus(3, 4), "all_to_all")) == greedy.schedules_of(
        problem(torus(3, 4), "all_to_all")
    )
