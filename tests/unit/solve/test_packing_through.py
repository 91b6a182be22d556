"""Trees through switches that multicast and reduce."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from packing_cases import random_machine
from solve_cases import both, machine, problem

from acclc.bounds import bound
from acclc.bounds.families import Family
from acclc.solve.packing import through
from acclc.solve.packing.flows import Effort
from acclc.solve.packing.task import tasks


def able(topology, *, multicast=True, reduce=True, only=None):
    """Give the switches (or one of them) their abilities."""
    gpus = len(topology.ranks)
    chosen = range(gpus, len(topology.nodes)) if only is None else (only,)
    nodes = (replace(n, can_multicast=multicast, can_reduce=reduce) if n.id in chosen else n for n in topology.nodes)
    return replace(topology, nodes=tuple(nodes))


def star(gpus, capacity=2):
    return machine(gpus, both([(g, gpus, capacity) for g in range(gpus)]), switches=1)


@pytest.mark.parametrize(
    ("collective", "without", "reached"),
    [("all_reduce", Fraction(7, 8), Fraction(1, 2)), ("broadcast", Fraction(1, 2), Fraction(1, 2))]
    + [(c, Fraction(7, 2), Fraction(7, 2)) for c in ("all_gather", "reduce_scatter")],
)
def test_one_switch(collective, without, reached):
    """An all_reduce sends and receives the vector once a rank: 7/4 of that without the switch's help."""
    task = problem(able(star(8)), collective)
    found = through.through_switches(task)
    unit = 10**9
    assert found.time_per_byte * unit == reached == bound(task).throughput.time_per_byte * unit
    assert bound(through.without_abilities(task)).throughput.time_per_byte * unit == without
    assert found.switches == ("s[0]",)


def test_where_no_switch_helps_there_is_nothing_to_say():
    assert through.through_switches(problem(star(4), "all_reduce")) is None
    assert through.through_switches(problem(able(star(4)), "all_to_all")) is None
    only_reduces = problem(able(star(4), multicast=False), "broadcast")
    assert through.through_switches(only_reduces).time_per_byte == bound(only_reduces).throughput.time_per_byte


@pytest.mark.parametrize("seed", range(30))
def test_the_trees_span_and_keep_to_the_links(seed):
    """Counted anew: every GPU is reached once, over links that follow each other, in no more time than is said."""
    topology = able(random_machine(seed, 2 + seed % 4, 2), only=2 + seed % 4)
    gpus = len(topology.ranks)
    task = problem(topology, ("all_gather", "broadcast")[seed % 2])
    spread = tasks(task, Family.SPREAD)[1]
    switch = [n.id for n in topology.nodes if n.can_multicast]
    packing = through._pack(spread, switch, Effort())
    renumbered = through._with_ranks(topology, tuple(switch))
    load, units = Counter(), Counter()
    for tree in packing.trees:
        at = {tree.root}
        for hop in tree.hops:
            here = hop.parent
            assert here in at
            for e in hop.path:
                assert renumbered.links[e].src == here
                here = renumbered.links[e].dst
                load[e] += tree.weight
            assert here == hop.child
            assert hop.child not in at
            at.add(hop.child)
        assert set(range(gpus)) <= at
        assert all(v < gpus or any(h.parent == v for h in tree.hops) for v in at)
        units[tree.root] += tree.weight
    assert dict(units) == {r: w * packing.k for r, w in enumerate(spread.weights) if w}
    time = max(Fraction(n, packing.k) / topology.links[e].capacity for e, n in load.items())
    assert through.through_switches(task).time_per_byte == time
    assert bound(task).throughput.time_per_byte <= time
