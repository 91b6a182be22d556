"""Parts that are equal but for their numbers."""

import random
from dataclasses import replace

import pytest
from packing_cases import mi250, random_machine

from acclc.ir.problem import LinkId, Rank
from acclc.solve.packing.alike import Part, alike


def renumbered(topology, rng):
    """The same machine with other numbers of GPUs, of switches, and of links; and which node is which."""
    gpus, nodes = len(topology.ranks), len(topology.nodes)
    new = [*rng.sample(range(gpus), gpus), *rng.sample(range(gpus, nodes), nodes - gpus)]
    order = rng.sample(range(len(topology.links)), len(topology.links))
    links = [topology.links[e] for e in order]
    links = tuple(replace(e, id=LinkId(n), src=new[e.src], dst=new[e.dst]) for n, e in enumerate(links))
    moved = {new[n.id]: n for n in topology.nodes}
    return replace(topology, links=links, nodes=tuple(replace(moved[v], id=v) for v in range(nodes)))


def part(machine, offset):
    return Part(
        machine,
        tuple(Rank(offset + r) for r in machine.ranks),
        tuple(LinkId(offset + e.id) for e in machine.links),
    )


@pytest.mark.parametrize("topology", [mi250(), *(random_machine(seed, 5, 2) for seed in range(8))])
def test_a_renumbered_copy_is_told_in_the_numbers_of_the_first(topology):
    rng = random.Random(1)
    copy = renumbered(topology, rng)
    first, second = alike([part(topology, 0), part(copy, 100)])
    assert first.machine == second.machine == topology
    assert sorted(second.ranks) == [100 + r for r in topology.ranks]
    node = dict(zip(topology.ranks, (r - 100 for r in second.ranks), strict=True))
    for mine, theirs in zip(second.links, topology.links, strict=True):
        own = copy.links[mine - 100]
        assert own.capacity == theirs.capacity
        for end, other in ((theirs.src, own.src), (theirs.dst, own.dst)):
            assert node.setdefault(end, other) == other
    assert len(set(node.values())) == len(node)


def test_other_machines_stay_as_they_are():
    """As many links of each rate around every node, and yet another machine."""
    six = random_machine(3, 6, 0)
    first = six.links[0]
    wider = replace(six, links=(replace(first, count=first.count + 1), *six.links[1:]))
    parts = [part(six, 0), part(wider, 100)]
    assert alike(parts) == tuple(parts)
