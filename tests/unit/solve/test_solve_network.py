from fractions import Fraction

from solve_cases import CLASS, both, line, machine, problem, ring, star

from acclc.ir.problem import Goal, Hints, LinkClass, Rank
from acclc.solve import network


def test_every_pair_on_one_switch_has_one_edge_of_two_links():
    net = network.of_topology(star(4))
    assert sorted((e.src, e.dst) for e in net.edges) == [(u, v) for u in range(4) for v in range(4) if u != v]
    assert all(len(e.path) == 2 and len(e.rows) == 2 for e in net.edges)
    assert not net.truncated


def test_gpus_do_not_pass_on_within_a_step():
    net = network.of_topology(line(3))
    assert sorted((e.src, e.dst) for e in net.edges) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def test_two_switches_give_two_ways_and_those_over_both_are_longer():
    links = both([(0, 2, 1), (1, 2, 1), (0, 3, 1), (1, 3, 1), (2, 3, 1)])
    net = network.of_topology(machine(2, links, switches=2))
    lengths = sorted(len(e.path) for e in net.outgoing[Rank(0)])
    assert lengths == [2, 2, 3, 3]


def test_a_budget_is_a_row_that_a_path_loads_as_often_as_it_crosses_it():
    net = network.of_topology(machine(2, both([(0, 2, 3), (1, 2, 3)]), switches=1, budgets=[((0, 1, 2, 3), 2)]))
    assert net.capacity == (3, 3, 3, 3, 2)
    assert all(dict(e.rows)[4] == 2 for e in net.edges)


def test_lanes_are_whole_multiples_of_the_unit():
    half = LinkClass("half", CLASS.bandwidth / 2, Fraction(0))
    topology = machine(2, [(0, 1, 1)])
    slow = machine(2, [(1, 0, 3)], cls=half)
    from dataclasses import replace

    mixed = replace(topology, links=(topology.links[0], replace(slow.links[0], id=1)))
    assert network.of_topology(mixed).capacity == (2, 3)


def test_hops_respect_relays():
    everyone = network.of_topology(ring(6))
    assert everyone.hops((Rank(0),)) == {0: 0, 1: 1, 5: 1, 2: 2, 4: 2, 3: 3}
    hinted = problem(ring(6), "all_gather", goal=Goal(hints=Hints(relays=(Rank(1), Rank(2)))))
    assert network.of_problem(hinted).hops((Rank(0),)) == {0: 0, 1: 1, 5: 1, 2: 2, 3: 3}


def test_hops_backward_follow_edges_against_their_direction():
    net = network.of_topology(machine(3, [(0, 1, 1), (1, 2, 1)]))
    assert net.hops((Rank(2),), backward=True) == {2: 0, 1: 1, 0: 2}


def test_more_paths_than_looked_at_are_noted():
    many = 20
    links = both([(g, 2 + s, 1) for g in range(2) for s in range(many)])
    net = network.of_topology(machine(2, links, switches=many))
    assert net.truncated
    assert len(net.edges) == 2 * network.PATHS_PER_PAIR
