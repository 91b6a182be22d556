"""Machines of boxes: divided, packed by parts, and at the same optimum as if packed whole."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import a100, mi250
from solve_cases import both, dgx1, machine, relabelled, ring, torus, without_pair

from acclc.solve.packing.check import check_trees, task_seconds
from acclc.solve.packing.flows import Effort
from acclc.solve.packing.levels import composed_trees, levels
from acclc.solve.packing.solver import pack
from acclc.solve.packing.task import Task, optimum, reversed_topology


def all_gather(topology, weight=1):
    return Task(topology, tuple(weight for _ in topology.ranks))


def composed(task):
    return composed_trees(task, optimum(task), lambda part: pack(part, Effort()))


def boxes_of(boxes, size, inner, ports, seed=None):
    """Boxes of GPUs joined in each by ``inner`` lanes (a full mesh), and by one switch with ``ports`` lanes a GPU."""
    pairs = [
        (size * b + u, size * b + v, inner) for b in range(boxes) for u in range(size) for v in range(size) if u < v
    ]
    pairs += [(g, boxes * size, ports) for g in range(boxes * size)]
    topology = machine(boxes * size, both(pairs), switches=1)
    return topology if seed is None else relabelled(topology, seed)


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("machine_of", [lambda: a100(4), lambda: a100(4, rails=False), lambda: mi250(4)])
def test_boxes_are_found_in_whatever_order_they_are_numbered(machine_of, seed):
    topology = machine_of() if seed is None else relabelled(machine_of(), seed)
    level = next(levels(topology))
    assert len(level.boxes) == 4
    size = len(topology.ranks) // 4
    assert len(level.rails) == size
    for parts in (level.boxes, level.rails):
        assert sorted(r for part in parts for r in part.ranks) == list(topology.ranks)
        assert {len(part.ranks) for part in parts} == {size if parts is level.boxes else 4}
    held = Counter(e for part in (*level.boxes, *level.rails) for e in part.links)
    assert set(held) <= {e.id for e in topology.links}
    assert max(held.values()) == 1
    for rail in level.rails:
        for box in level.boxes:
            assert len(set(rail.ranks) & set(box.ranks)) == 1


def test_parts_are_the_machine_they_were_cut_from():
    topology = relabelled(mi250(4), 3)
    level = next(levels(topology))
    for part in (*level.boxes, *level.rails):
        for link, original in zip(part.machine.links, (topology.links[e] for e in part.links), strict=True):
            assert link.capacity == original.capacity
            for here, there in ((link.src, original.src), (link.dst, original.dst)):
                kinds = part.machine.nodes[here].kind, topology.nodes[there].kind
                assert kinds[0] is kinds[1]
                if here < len(part.ranks):
                    assert part.ranks[here] == there


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 4), st.integers(2, 3), st.integers(1, 12), st.integers(1, 6), st.integers(0, 9), st.integers(1, 2)
)
def test_what_is_composed_is_at_the_optimum_of_the_whole(boxes, size, inner, ports, seed, weight):
    """Where the parts' optima fit, the trees reach the optimum; where they do not, the general packing does."""
    task = all_gather(boxes_of(boxes, size, inner, ports, seed), weight)
    best = optimum(task)
    found = composed(task)
    if found is not None:
        scaled, trees = found
        check_trees(scaled, trees)
        assert task_seconds(task, scaled.k, trees) <= best
    packing = pack(task, Effort())
    assert packing.achieved == packing.optimum == best


def test_fast_boxes_are_composed_and_slow_ones_are_not():
    assert composed(all_gather(boxes_of(3, 3, 12, 1))) is not None
    assert composed(all_gather(boxes_of(3, 3, 1, 12))) is None
    assert composed(all_gather(a100(3))) is not None
    assert composed(all_gather(a100(2))) is None


@pytest.mark.parametrize("topology", [dgx1(), ring(6), torus(4, 4), mi250()])
def test_single_boxes_have_no_levels_that_would_do(topology):
    assert composed(all_gather(topology)) is None


def test_boxes_may_differ_inside():
    pairs = [(0, 1, 9), (1, 2, 9), (0, 2, 9), (3, 4, 20), (4, 5, 20), *((g, 6, 1) for g in range(6))]
    task = all_gather(machine(6, both(pairs), switches=1))
    scaled, trees = composed(task)
    check_trees(scaled, trees)
    assert task_seconds(task, scaled.k, trees) == optimum(task)


@pytest.mark.parametrize("lost", [(0, 36), (0, 32)], ids=["its port between boxes", "its port in the box"])
def test_a_lost_link_leaves_it_to_the_general_packing(lost):
    topology = without_pair(a100(4), *lost)
    assert composed(all_gather(topology)) is None
    packing = pack(all_gather(topology), Effort())
    assert packing.achieved == packing.optimum


def test_boxes_of_boxes_are_divided_again():
    """Four GPUs a box, two boxes a pod, two pods; each level slower than the one inside."""
    pairs = [(4 * b + u, 4 * b + v, 40) for b in range(4) for u in range(4) for v in range(4) if u < v]
    pairs += [(8 * p + g, 16 + p, 8) for p in range(2) for g in range(8)]
    pairs += [(g, 18, 1) for g in range(16)]
    topology = relabelled(machine(16, both(pairs), switches=3), 5)
    packing = pack(all_gather(topology), Effort())
    assert packing.achieved == packing.optimum == Fraction(8, 8 * 10**9)
    assert max(tree.depth for tree in composed(all_gather(topology))[1]) == 3
    assert packing.depth == 2  # looked for once more over the whole machine


def test_a_spine_is_shared_evenly_by_the_rails():
    """GPUs at two leaves a pod, the leaves at one spine: the rails share the links between switches."""
    pairs = [(2 * b, 2 * b + 1, 50) for b in range(4)]
    pairs += [(g, 8 + g // 4, 2) for g in range(8)]
    pairs += [(8, 10, 8), (9, 10, 8)]
    task = all_gather(machine(8, both(pairs), switches=3))
    scaled, trees = composed(task)
    check_trees(scaled, trees)
    assert task_seconds(task, scaled.k, trees) == optimum(task)


def test_collecting_trees_are_those_of_the_reversed_machine():
    task = Task(reversed_topology(a100(3)), (1,) * 24)
    packing = pack(task, Effort())
    assert packing.achieved == packing.optimum
    assert packing.depth == 2


def test_unequal_weights_are_left_to_the_general_packing():
    topology = a100(3)
    one_root = Task(topology, (1, *(0 for _ in topology.ranks[1:])))
    assert composed(one_root) is None
    assert composed(replace(one_root, weights=(2, *(1 for _ in topology.ranks[1:])))) is None


@pytest.mark.parametrize(
    ("topology", "depth"), [(a100(3), 2), (a100(8), 2), (relabelled(a100(8), 4), 2), (mi250(8), 12)]
)
def test_large_machines_take_little_work_and_few_levels(topology, depth):
    effort = Effort(work=2 * 10**6)
    packing = pack(all_gather(topology), effort)
    assert packing.achieved == packing.optimum
    assert packing.depth <= depth
    assert packing.most_trees() <= 3
