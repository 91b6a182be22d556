from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import random_machine
from solve_cases import (
    DGX1_PAIRS,
    both,
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

from acclc.solve import network
from acclc.solve.cpsat import Answer
from acclc.solve.items import assemble, formulate
from acclc.solve.model import Question, ask
from acclc.solve.protocol import Deadline
from acclc.solve.symmetry import Symmetries, automorphisms

MACHINES = {
    "dgx1": dgx1(),
    "torus": torus(3, 4),
    "cube": hypercube(3),
    "star": star(5),
    "lame": without_pair(dgx1(), 0, 3),
    "shared": machine(4, both([(i, (i + 1) % 4, 1) for i in range(4)]), budgets=[((0, 2), 1), ((4, 6), 1)]),
}


def rates(topology):
    return Counter((x.src, x.dst, x.capacity) for x in topology.links)


@pytest.mark.parametrize("name", MACHINES)
def test_automorphisms_keep_links_kinds_and_budgets(name):
    topology = MACHINES[name]
    found = automorphisms(topology)
    assert found[0].nodes == tuple(range(len(topology.nodes)))
    assert len({a.nodes for a in found}) == len(found)
    for a in found:
        assert sorted(a.nodes) == list(range(len(topology.nodes)))
        assert all(topology.nodes[i].kind is topology.nodes[n].kind for n, i in enumerate(a.nodes))
        assert Counter((a.nodes[u], a.nodes[v], c) for (u, v, c) in rates(topology).elements()) == rates(topology)
        for link in topology.links:
            image = topology.links[a.links[link.id]]
            assert (image.src, image.dst, image.capacity) == (a.nodes[link.src], a.nodes[link.dst], link.capacity)
        for b, k in zip(topology.budgets, a.budgets, strict=True):
            assert {a.links[x] for x in b.links} == set(topology.budgets[k].links)
            assert b.capacity == topology.budgets[k].capacity


@pytest.mark.parametrize(
    ("topology", "count"),
    [(dgx1(), 4), (ring(7), 14), (hypercube(3), 48), (line(4), 2), (torus(3, 4), 48), (without_pair(dgx1(), 0, 3), 1)],
)
def test_small_machines_have_all_their_automorphisms(topology, count):
    import networkx as nx
    from networkx.algorithms.isomorphism import DiGraphMatcher, numerical_edge_match

    graph = nx.DiGraph()
    graph.add_weighted_edges_from((x.src, x.dst, x.count) for x in topology.links)
    every = list(DiGraphMatcher(graph, graph, edge_match=numerical_edge_match("weight", 0)).isomorphisms_iter())
    assert len(every) == count
    assert {tuple(m[n] for n in range(len(m))) for m in every} == {a.nodes for a in automorphisms(topology)}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(0, 2))
def test_permutations_that_keep_every_rate(seed, gpus, switches):
    topology = random_machine(seed, gpus, switches, loops=1, counts=1)
    rate = {(x.src, x.dst): x.count for x in topology.links}
    nodes = range(len(topology.nodes))
    kept = set()
    for front in permutations(range(gpus)):
        for back in permutations(range(gpus, len(nodes))):
            image = (*front, *back)
            if all(rate.get((image[u], image[v])) == rate.get((u, v)) for u in nodes for v in nodes):
                kept.add(image)
    assert {a.nodes for a in automorphisms(topology)} == kept


def symmetries(p, chunks=1):
    net = network.of_problem(p)
    items = formulate(p, net, chunks)
    return net, items, Symmetries(net, items)


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize(
    ("topology", "order"),
    [(torus(4, 4), 16), (hypercube(4), 16), (ring(7), 7), (dgx1(), 4), (torus(3, 3), 9), (full(6), 6)],
)
def test_the_largest_free_group_is_found_however_gpus_are_numbered(topology, order, seed):
    p = problem(topology if seed is None else relabelled(topology, seed), "all_gather")
    assert symmetries(p)[2].orders[0] == order


@pytest.mark.parametrize("collective", ["all_gather", "all_to_all", "reduce_scatter", "all_reduce"])
@pytest.mark.parametrize("topology", [dgx1(), torus(3, 3), star(4)], ids=lambda t: len(t.nodes))
def test_groups_are_groups_that_move_every_item(topology, collective):
    p = problem(topology, collective)
    chunks = len(topology.ranks) if collective == "all_reduce" else 2
    net, items, found = symmetries(p, chunks)
    for action in found.actions(items):
        assert action.order > 1
        assert action.items[0] == tuple(range(len(items)))
        assert {tuple(g[h[k]] for k in range(len(items))) for g in action.items for h in action.items} == set(
            action.items
        )
        for g in action.items[1:]:
            moved = [i for i in items if i.sources != i.targets]  # what stays at its rank is fixed by nothing, too
            assert all(g[i.id] != i.id for i in moved)
        for row, orbit in enumerate(action.orbit_of_row):
            assert net.capacity[row] == net.capacity[orbit]


def test_a_root_leaves_no_free_group():
    assert symmetries(problem(ring(6), "broadcast"))[2].orders == ()


def test_a_group_of_ranks_must_be_kept():
    found = symmetries(problem(ring(6), "all_gather", group=[0, 1, 2]))[2]
    assert found.orders == ()
    assert symmetries(problem(ring(6), "all_gather", group=[0, 2, 4]))[2].orders[0] == 3


@pytest.mark.parametrize(
    ("collective", "point"),
    [("all_gather", (6, 3, 7)), ("all_to_all", (3, 2, 8)), ("reduce_scatter", (2, 2, 3)), ("all_reduce", (8, 4, 4))],
)
def test_what_is_found_with_symmetry_is_right(collective, point):
    p = problem(dgx1(), collective)
    chunks, steps, rounds = point
    net, items, found = symmetries(p, chunks)
    action = found.actions(items)[0]
    reply = ask(Question(net, items, steps, rounds, action), work=20.0, deadline=Deadline())
    assert reply.answer is Answer.FOUND
    assert simulate(p, assemble(p, chunks, items, reply.moves, reply.rounds, "exact")) == point


def test_the_wiring_of_the_tests_is_a_hybrid_cube_mesh():
    assert sorted(Counter(g for u, v, c in DGX1_PAIRS for g in (u, v) for _ in range(c)).values()) == [6] * 8
