"""Depth of packings: the least there is on tiny machines (every packing is looked at), the diameter on known ones."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import a100, random_machine
from solve_cases import both, dgx1, full, hypercube, line, machine, relabelled, ring, torus, without_pair

from acclc.solve.packing.check import check_trees
from acclc.solve.packing.flows import Effort
from acclc.solve.packing.shallow import lowered
from acclc.solve.packing.solver import exact_scale, optimum, pack
from acclc.solve.packing.splitting import Scaled, logical_routes
from acclc.solve.packing.task import Task
from acclc.solve.packing.trees import pack_trees
from acclc.solve.protocol import Deadline


def all_gather(topology):
    return Task(topology, tuple(1 for _ in topology.ranks))


def depth(trees):
    return max(t.depth for t in trees)


def packed(scaled):
    """Edmonds' trees, the first that come."""
    return pack_trees(scaled, logical_routes(scaled, Effort()), Effort())


def out_trees(topology, root):
    """Yield (depth, links) of all spanning out-trees of a root on a machine without switches."""
    into = {r: [e for e in topology.links if e.dst == r] for r in topology.ranks if r != root}
    for chosen in product(*into.values()):
        parent = {int(e.dst): int(e.src) for e in chosen}
        levels = []
        for rank in parent:
            level, at = 0, rank
            while at != root and level <= len(parent):
                at, level = parent[at], level + 1
            levels.append(level)
        if max(levels) <= len(parent):
            yield max(levels), tuple(e.id for e in chosen)


def least_depth(scaled):
    """The least depth of any trees within the capacities: all of them are tried."""
    topology = scaled.task.topology
    roots = [r for r, w in zip(topology.ranks, scaled.task.weights, strict=True) for _ in range(w * scaled.k)]

    def fits(aim, room, number, first):
        if number == len(roots):
            return True
        again = number > 0 and roots[number] == roots[number - 1]
        for index, (levels, links) in enumerate(every[roots[number]]):
            if levels > aim or (again and index < first) or any(not room[e] for e in links):
                continue
            if fits(aim, [n - (e in links) for e, n in enumerate(room)], number + 1, index):
                return True
        return False

    every = {r: list(out_trees(topology, r)) for r in set(roots)}
    return next(d for d in range(1, len(topology.nodes)) if fits(d, list(scaled.capacity), 0, 0))


TINY = [
    ("ring", ring(4), (1, 1, 1, 1)),
    ("line", line(3), (1, 1, 1)),
    ("ring of five", ring(5), (1, 1, 1, 1, 1)),
    ("one root", full(4), (1, 0, 0, 0)),
    ("two shards", ring(4), (2, 0, 1, 0)),
    ("triangle", machine(3, both([(0, 1, 2), (1, 2, 1), (0, 2, 1)])), (1, 1, 1)),
    ("one way", machine(4, [(0, 1, 2), (1, 2, 2), (2, 3, 2), (3, 0, 2), (0, 2, 1), (2, 0, 1)]), (1, 1, 1, 1)),
]


@pytest.mark.parametrize(("topology", "weights"), [t[1:] for t in TINY], ids=[t[0] for t in TINY])
def test_tiny_machines_get_the_least_depth(topology, weights):
    task = Task(topology, weights)
    scaled = exact_scale(task, optimum(task))
    trees = lowered(scaled, packed(scaled), None, Effort())
    check_trees(scaled, trees)
    assert depth(trees) == least_depth(scaled)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 4))
def test_random_machines_get_the_least_depth(seed, gpus):
    """With capacities of one tree a root, which Edmonds' trees are sure to fill."""
    topology = random_machine(seed, gpus, 0, loops=2, counts=2)
    task = all_gather(topology)
    exact = exact_scale(task, optimum(task))
    scaled = Scaled(task, 1, tuple(-(-n // exact.k) for n in exact.capacity))
    trees = lowered(scaled, packed(scaled), None, Effort())
    check_trees(scaled, trees)
    assert depth(trees) == least_depth(scaled)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(0, 2))
def test_random_machines_keep_their_throughput(seed, gpus, switches):
    task = all_gather(random_machine(seed, gpus, switches))
    scaled = exact_scale(task, optimum(task))
    before = packed(scaled)
    trees = lowered(scaled, before, None, Effort())
    check_trees(scaled, trees)
    assert depth(trees) <= depth(before)
    assert trees == before or depth(trees) < depth(before)


@pytest.mark.parametrize(
    ("topology", "least"),
    [
        (dgx1(), 2),
        (without_pair(dgx1(), 0, 2), 3),
        (relabelled(dgx1(), 5), 2),
        (ring(8), 4),
        (torus(4, 4), 4),
        (hypercube(4), 4),
        (a100(2), 2),
    ],
    ids=["dgx1", "dgx1 without a link", "dgx1 relabelled", "ring", "torus", "hypercube", "a100 x2"],
)
def test_known_machines_get_the_least_depth(topology, least):
    packing = pack(all_gather(topology), Effort(), 64)
    assert packing.depth == least
    assert packing.loss == 0


def test_capacities_may_be_less_symmetric_than_the_machine():
    """One link of a ring carries nothing: turned round, the trees would use it."""
    topology = ring(4)
    task = Task(topology, (1, 1, 1, 1))
    scaled = Scaled(task, 1, tuple(0 if e.id == 0 else 4 for e in topology.links))
    trees = lowered(scaled, packed(scaled), None, Effort())
    check_trees(scaled, trees)
    assert depth(trees) == least_depth(scaled) == 3


def test_units_of_equal_trees_are_one_tree():
    topology = full(3)
    task = Task(topology, (2, 0, 0))
    around = Scaled(task, 2, tuple(4 if (e.src, e.dst) in ((0, 1), (1, 2)) else 0 for e in topology.links))
    (chain,) = packed(around)
    assert (chain.weight, chain.depth) == (4, 2)
    (tree,) = lowered(Scaled(task, 2, (4,) * len(topology.links)), (chain,), None, Effort())
    assert (tree.weight, tree.depth) == (4, 1)


def test_limits_are_kept():
    task = all_gather(dgx1())
    scaled = exact_scale(task, optimum(task))
    trees = packed(scaled)
    assert depth(trees) > 2
    assert lowered(scaled, trees, scaled.k - 1, Effort()) == trees
    assert lowered(scaled, trees, None, Effort(Deadline.after(0))) == trees
    assert lowered(scaled, trees, None, Effort(work=0)) == trees
    assert depth(lowered(scaled, trees, scaled.k, Effort())) == 2


def test_work_is_paid_for():
    task = all_gather(dgx1())
    scaled = exact_scale(task, optimum(task))
    effort = Effort()
    before = effort.work
    first = lowered(scaled, packed(scaled), None, effort)
    assert effort.work < before
    assert lowered(scaled, packed(scaled), None, Effort()) == first
