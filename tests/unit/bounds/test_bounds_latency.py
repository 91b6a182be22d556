"""Steps and seconds of latency."""

from fractions import Fraction

from hand_built import custom, problem_of, shard, switched, topology

from acclc.bounds import bound
from acclc.ir.problem import Collective, Node, NodeId, NodeKind, Topology
from acclc.ir.result import LongestPath

C = Collective


def test_a_passage_through_switches_is_one_step() -> None:
    found = bound(problem_of(switched(2, 300), C.ALL_GATHER)).latency
    assert found.steps == 1
    assert found.steps_certificate is not None
    assert len(found.steps_certificate.path) == 2


def test_steps_and_seconds_may_take_different_ways() -> None:
    """Directly one slow step; around two fast ones."""
    machine = topology(3, [(0, 1, 1, 1), (0, 2, 1, 1), (2, 1, 1, 1), (1, 0, 1, 1)], latency_us=1)
    slow = tuple(
        type(e)(
            e.id,
            e.src,
            e.dst,
            e.count,
            type(e.cls)(e.cls.name, e.cls.bandwidth, Fraction(5, 10**6) if e.id == 0 else e.cls.latency),
        )
        for e in machine.links
    )
    problem = custom(Topology("t", machine.nodes, slow), [shard(0, [0], [1])])
    found = bound(problem).latency
    assert (found.steps, found.seconds) == (1, Fraction(2, 10**6))
    assert found.steps_certificate == LongestPath(0, 1, (0,))
    assert found.seconds_certificate == LongestPath(0, 1, (1, 2))
    assert found.words == "from g[0] to g[1]: 1 step and 2 us of link latency"


def test_copies_come_from_the_nearest_holder_and_reductions_from_all() -> None:
    chain = topology(4, [w for i in range(3) for w in ((i, i + 1, 1, 1), (i + 1, i, 1, 1))])
    assert bound(custom(chain, [shard(0, [0, 2], [3])])).latency.steps == 1
    assert bound(custom(chain, [shard(0, [0, 2], [3], reduced=True)])).latency.steps == 3


def test_hosts_and_nics_lie_within_a_step() -> None:
    machine = topology(2, [(0, 2, 1, 1), (2, 3, 1, 1), (3, 1, 1, 1)], 2, latency_us=1)
    nodes = (*machine.nodes[:2], Node(NodeId(2), "h", NodeKind.HOST), Node(NodeId(3), "n", NodeKind.NIC))
    found = bound(custom(Topology("t", nodes, machine.links), [shard(0, [0], [1])])).latency
    assert (found.steps, found.seconds) == (1, Fraction(3, 10**6))


def test_steps_count_where_links_take_no_time_and_the_target_contributes() -> None:
    machine = topology(2, [(0, 1, 1, 1), (1, 0, 1, 1)])
    found = bound(custom(machine, [shard(0, [0, 1], [0], reduced=True)])).latency
    assert (found.steps, found.steps_certificate) == (1, LongestPath(1, 0, (1,)))
