"""The best cut against all cuts, on random small graphs."""

from fractions import Fraction
from itertools import combinations

import pytest
from hand_built import custom, problem_of, shard, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.bounds import UnreachableError, bound
from acclc.bounds.loads import cut_load, leaving, partition_load, value
from acclc.ir.problem import Collective, NodeId, Problem, Topology
from acclc.ir.result import Cut, Partition
from acclc.verify.certificate import check_certificate

C = Collective


@st.composite
def machines(draw: st.DrawFn, most_ranks: int = 5, switches: int = 1) -> Topology:
    """Strongly connected: a cycle through all nodes (switches between ranks, as much in as out), and chords."""
    ranks = draw(st.integers(2, most_ranks))
    passing = draw(st.integers(0, switches))
    rates = st.integers(1, 4)
    wires = [(i, (i + 1) % ranks, 1, draw(rates)) for i in range(ranks)]
    for s in range(passing):
        for r in draw(st.lists(st.integers(0, ranks - 1), unique=True, max_size=ranks)):
            port = draw(rates)
            wires += [(r, ranks + s, 1, port), (ranks + s, r, 1, port)]
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    for a, b in draw(st.lists(st.sampled_from(pairs), max_size=6, unique=True)):
        wires.append((a, b, draw(st.integers(1, 2)), draw(rates)))
    return topology(ranks, wires, passing)


def strongest_cut(problem: Problem) -> Fraction:
    """Seconds per byte, over every node set."""
    nodes = [n.id for n in problem.topology.nodes]
    best = Fraction(0)
    for size in range(1, len(nodes)):
        for chosen in combinations(nodes, size):
            load = cut_load(problem.shards, chosen)
            if load:
                room = sum(problem.topology.links[e].capacity for e in leaving(problem.topology, chosen))
                best = max(best, Fraction(load) / room)
    return best


@settings(max_examples=60, deadline=None)
@given(
    machines(),
    st.sampled_from([C.ALL_GATHER, C.REDUCE_SCATTER, C.BROADCAST, C.REDUCE, C.GATHER, C.SCATTER]),
)
def test_cut_is_the_strongest_of_all(machine: Topology, collective: Collective) -> None:
    problem = problem_of(machine, collective)
    found = bound(problem)
    assert isinstance(found.throughput.certificate, Cut)
    assert found.throughput.time_per_byte == strongest_cut(problem)
    assert check_certificate(problem, found).ok


@settings(max_examples=40, deadline=None)
@given(machines(most_ranks=5), st.data())
def test_multicast_bound_is_no_weaker_than_any_target_alone(machine: Topology, data: st.DataObject) -> None:
    """Custom shards with several holders: for one target the best cut is found, and no bound beats all cuts."""
    ranks = list(machine.ranks)
    holders = st.lists(st.sampled_from(ranks), min_size=1, max_size=3, unique=True)
    target = data.draw(st.sampled_from(ranks))
    shards = [shard(i, data.draw(holders), [target]) for i in range(4)]
    problem = custom(machine, shards)
    assert bound(problem).throughput.time_per_byte == strongest_cut(problem)


@settings(max_examples=40, deadline=None)
@given(machines())
def test_all_reduce_bound_is_at_least_every_cut_and_at_most_the_best_partition(machine: Topology) -> None:
    problem = problem_of(machine, C.ALL_REDUCE)
    found = bound(problem)
    cut = strongest_cut(problem)
    ranks = [NodeId(r) for r in machine.ranks]
    partitions = [Partition(p) for p in _partitions(ranks)]
    best = max(value(problem, p) for p in partitions if partition_load(problem.shards, _labels(p)))
    assert cut <= found.throughput.time_per_byte
    assert found.throughput.time_per_byte >= value(problem, Partition(tuple((r,) for r in ranks)))
    if len(machine.nodes) == len(ranks):
        assert found.throughput.time_per_byte <= max(cut, best)
    assert check_certificate(problem, found).ok


def _labels(partition: Partition) -> dict[int, int]:
    return {v: i for i, part in enumerate(partition.parts) for v in part}


def _partitions(items: list[NodeId]) -> list[tuple[tuple[NodeId, ...], ...]]:
    if not items:
        return [()]
    first, *rest = items
    found = []
    for smaller in _partitions(rest):
        found.append(((first,), *smaller))
        found += [(*smaller[:i], (first, *part), *smaller[i + 1 :]) for i, part in enumerate(smaller)]
    return found


def test_partition_counts_messages_of_relays_too() -> None:
    """A star whose hub is a GPU outside the group: the hub may add up, so every rank sends and receives once."""
    wires = [w for r in range(4) for w in ((r, 4, 1, 1), (4, r, 1, 1))]
    machine = topology(5, wires)
    problem = problem_of(machine, C.ALL_REDUCE, group=[0, 1, 2, 3])
    assert bound(problem).throughput.time_per_byte == Fraction(1, 10**9)


def test_together_adds_up_loads() -> None:
    """Two all_gathers on the same ranks take twice the time of one."""
    machine = topology(3, [(0, 1, 1, 1), (1, 2, 1, 1), (2, 0, 1, 1)])
    one = [shard(i, [i], [0, 1, 2]) for i in range(3)]
    two = one + [shard(3 + i, [i], [0, 1, 2]) for i in range(3)]
    assert (
        bound(custom(machine, two)).throughput.time_per_byte == 2 * bound(custom(machine, one)).throughput.time_per_byte
    )


def test_unreachable_rank_is_named() -> None:
    machine = topology(3, [(0, 1, 1, 1), (1, 0, 1, 1), (2, 0, 1, 1)])
    with pytest.raises(UnreachableError, match=r"from g\[[01]\] to g\[2\]"):
        bound(problem_of(machine, C.ALL_GATHER))


def test_rates_too_fine_for_64_bits_still_give_a_valid_bound() -> None:
    machine = topology(3, [(0, 1, 1, 10**9), (1, 2, 1, 10**9 + 7), (2, 0, 1, 10**9 + 9)])
    huge = Topology(
        "huge",
        machine.nodes,
        tuple(
            type(e)(
                e.id,
                e.src,
                e.dst,
                e.count,
                type(e.cls)(e.cls.name, e.cls.bandwidth + Fraction(1, 3 + e.id), e.cls.latency),
            )
            for e in machine.links
        ),
    )
    problem = problem_of(huge, C.ALL_GATHER)
    found = bound(problem)
    assert found.throughput.time_per_byte == strongest_cut(problem)
    assert check_certificate(problem, found).ok
