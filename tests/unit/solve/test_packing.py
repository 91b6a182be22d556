"""Packings: at the optimum of the best cut on every machine, each looked at again by the rules of trees."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import a100, best_ratio, mi250, random_machine
from solve_cases import both, dgx1, full, hypercube, line, machine, relabelled, ring, star, torus, without_pair

from acclc.ir.problem import NodeKind
from acclc.solve.packing.check import check_trees
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.packing.solver import exact_scale, optimum, pack, rounded_scale
from acclc.solve.packing.splitting import logical_routes
from acclc.solve.packing.task import Task, packable
from acclc.solve.packing.trees import Hop, Tree
from acclc.solve.protocol import Deadline


def all_gather(topology):
    return Task(topology, tuple(1 for _ in topology.ranks))


def rate(packing):
    """Rounds a chunk that links really carry, counted here."""
    topology = packing.task.topology
    load = Counter()
    for tree in packing.trees:
        for hop in tree.hops:
            for link in hop.path:
                load[link] += Fraction(tree.weight, packing.k)
    return max(n / topology.lanes(topology.links[e]) for e, n in load.items())


def spans(packing):
    """Every tree reaches every rank once; the units of every root add up."""
    topology, units = packing.task.topology, Counter()
    for tree in packing.trees:
        depth = {tree.root: 0}
        for hop in tree.hops:
            assert hop.parent in depth
            assert hop.child not in depth
            depth[hop.child] = depth[hop.parent] + 1
            ends = [topology.links[e] for e in hop.path]
            assert (ends[0].src, ends[-1].dst) == (hop.parent, hop.child)
            assert all(topology.nodes[e.dst].kind is not NodeKind.GPU for e in ends[:-1])
        assert len(depth) == len(topology.ranks)
        assert tree.depth == max(depth.values())
        units[tree.root] += tree.weight
    return units == Counter({r: w * packing.k for r, w in enumerate(packing.task.weights) if w})


MACHINES = [
    ("dgx1", dgx1(), Fraction(7, 6), 6),
    ("ring 8", ring(8), Fraction(7, 2), 2),
    ("ring of 2", ring(2), Fraction(1), 1),
    ("line 3", line(3), Fraction(2), 1),
    ("full 5", full(5), Fraction(1), 1),
    ("torus", torus(4, 4), Fraction(15, 4), 4),
    ("hypercube 8", hypercube(3), Fraction(7, 3), 3),
    ("hypercube 16", hypercube(4), Fraction(15, 4), 4),
    ("star", star(8), Fraction(7), 1),
    ("mi250", mi250(), Fraction(7, 3), 3),
    ("a100 x2", a100(2), Fraction(15, 13), 13),
    ("a100 x2, one fabric", a100(2, rails=False), Fraction(15, 13), 13),
    ("a100 x4", a100(4), Fraction(3), 1),
    ("mi250 x2", mi250(2), Fraction(15, 83), 83),
    ("dgx1 relabelled", relabelled(dgx1(), 5), Fraction(7, 6), 6),
    ("a100 x2 relabelled", relabelled(a100(2), 6), Fraction(15, 13), 13),
]


@pytest.mark.parametrize(("topology", "rounds", "k"), [m[1:] for m in MACHINES], ids=[m[0] for m in MACHINES])
def test_known_optima_are_reached(topology, rounds, k):
    packing = pack(all_gather(topology), Effort())
    assert packing.k == k
    assert packing.optimum * topology.unit == rounds
    assert packing.achieved == packing.optimum
    assert packing.loss == 0
    assert rate(packing) == packing.optimum * topology.unit
    assert spans(packing)


def test_depth_of_uniform_boxes_is_two():
    """Root to the same rail of every box, then its switch: the circulant split finds it."""
    assert pack(all_gather(a100(4)), Effort()).depth == 2
    assert pack(all_gather(star(8)), Effort()).depth == 1


def test_a_missing_link_is_no_obstacle():
    for u, v in ((0, 1), (3, 7), (2, 6)):
        packing = pack(all_gather(without_pair(dgx1(), u, v)), Effort())
        assert packing.achieved == packing.optimum
        assert spans(packing)


def test_one_root_uses_all_disjoint_trees():
    packing = pack(Task(dgx1(), (1, 0, 0, 0, 0, 0, 0, 0)), Effort())
    assert (packing.k, packing.achieved * dgx1().unit) == (6, Fraction(1, 6))
    assert {t.root for t in packing.trees} == {0}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(0, 3))
def test_random_machines_reach_the_best_of_all_cuts(seed, gpus, switches):
    topology = random_machine(seed, gpus, switches)
    task = all_gather(topology)
    packing = pack(task, Effort())
    assert packable(topology) == ""
    assert packing.achieved * topology.unit == best_ratio(topology, task.weights)
    assert rate(packing) == packing.achieved * topology.unit
    assert spans(packing)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 3), min_size=2, max_size=4).filter(any))
def test_random_weights_reach_the_best_of_all_cuts(seed, weights):
    topology = random_machine(seed, len(weights), 2, counts=5)
    packing = pack(Task(topology, tuple(weights)), Effort())
    assert packing.achieved * topology.unit == best_ratio(topology, weights)
    assert spans(packing)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 8))
def test_few_trees_lose_what_they_say(seed, most):
    topology = random_machine(seed, 4, 1, counts=97)
    packing = pack(all_gather(topology), Effort(), max_trees=most)
    if packing is None:  # rounding made the switch uneven for every k
        return
    assert packing.most_trees() <= most
    assert spans(packing)
    assert rate(packing) == packing.achieved * topology.unit
    assert packing.loss == packing.achieved / packing.optimum - 1
    assert packing.loss >= 0


def test_few_trees_on_a_machine_without_switches():
    """k = 97 would be needed; with four trees a shard the least time is the best of the few k."""
    topology = machine(3, both([(0, 1, 89), (1, 2, 97), (0, 2, 101)]))
    exact = pack(all_gather(topology), Effort())
    assert exact.k > 90
    few = pack(all_gather(topology), Effort(), max_trees=1)
    assert few.most_trees() == 1
    assert few.achieved > exact.achieved
    assert few.loss == few.achieved / exact.achieved - 1


def test_rounded_times_are_the_least_for_their_k():
    task = all_gather(mi250(2))
    best = optimum(task)
    for k in (1, 2):
        time, scaled = rounded_scale(task, best, k, Effort())
        assert scaled.k == k
        assert time >= best * task.topology.unit
    assert time / (best * task.topology.unit) < Fraction(12, 10)


def test_capacities_of_a_split_machine_stay_within_the_links():
    task = all_gather(a100(2))
    scaled = exact_scale(task, optimum(task))
    load = Counter()
    for paths in logical_routes(scaled, Effort()).paths.values():
        for path, units in paths.items():
            for link in path:
                load[link] += units
    assert all(load[e] <= scaled.capacity[e] for e in load)


def test_switches_behind_switches():
    """Two tiers: paths that come back to a switch are made straight."""
    pairs = [(g, 6 + g // 2, 2) for g in range(6)] + [(6, 9, 2), (7, 9, 2), (8, 9, 2), (6, 7, 1), (7, 8, 1)]
    topology = machine(6, both(pairs), switches=4)
    task = all_gather(topology)
    packing = pack(task, Effort())
    assert packing.achieved * topology.unit == best_ratio(topology, task.weights)
    assert spans(packing)


def test_what_cannot_be_packed_says_so():
    shared = machine(2, both([(0, 1, 2)]), budgets=[((0, 1), 3)])
    assert "budgets" in packable(shared)
    uneven = machine(2, [(0, 2, 2), (2, 1, 1), (1, 2, 1), (2, 0, 1), (0, 1, 1)], switches=1)
    assert "s[0]" in packable(uneven)
    assert pack(all_gather(shared), Effort()) is None


def test_the_deadline_and_the_work_are_kept():
    with pytest.raises(TimeUp):
        pack(all_gather(dgx1()), Effort(Deadline.after(0)))
    with pytest.raises(TimeUp):
        pack(all_gather(dgx1()), Effort(work=100))


def test_the_check_refuses_what_is_wrong():
    task = all_gather(ring(2))
    scaled = exact_scale(task, optimum(task))
    good = pack(task, Effort()).trees
    check_trees(scaled, good)
    with pytest.raises(AssertionError, match="units"):
        check_trees(scaled, good[:1])
    with pytest.raises(AssertionError, match="span"):
        check_trees(scaled, (Tree(0, 1, ()), *good[1:]))
    with pytest.raises(AssertionError, match="join"):
        check_trees(scaled, (Tree(0, 1, (Hop(0, 1, good[1].hops[0].path),)), *good[1:]))


def test_the_check_counts_what_links_carry():
    task = all_gather(full(3))
    scaled = exact_scale(task, optimum(task))
    first, *others = pack(task, Effort()).trees
    direct = next(h for t in others for h in t.hops if (h.parent, h.child) == (1, 2))
    chain = Tree(0, first.weight, (next(h for h in first.hops if h.child == 1), direct))
    with pytest.raises(AssertionError, match="carries 2 units of 1"):
        check_trees(scaled, (chain, *others))
