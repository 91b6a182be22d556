"""Cuts and partitions of several groups: never above the strongest of all cuts, and as strong where it matters."""

from fractions import Fraction
from itertools import combinations

import pytest
from hand_built import custom, problem_of, shard, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc import sema
from acclc.bounds import bound
from acclc.bounds.groups import group_candidates
from acclc.bounds.loads import UnreachableError, cut_load, leaving, value
from acclc.ir.problem import Collective, Problem
from acclc.ir.result import Cut
from acclc.source import Source
from acclc.syntax import parse
from acclc.verify.certificate import check_certificate


def written(text: str) -> Problem:
    (found,) = sema.analyse(parse(Source("<test>", text))).problems
    return found


def strongest_cut(problem: Problem) -> Fraction:
    """Seconds a byte, over every set of nodes."""
    nodes = [n.id for n in problem.topology.nodes]
    best = Fraction(0)
    for size in range(1, len(nodes)):
        for inside in combinations(nodes, size):
            load = cut_load(problem.shards, inside)
            room = sum((problem.topology.links[e].capacity for e in leaving(problem.topology, inside)), Fraction(0))
            if load:
                best = max(best, load / room)
    return best


@st.composite
def groups(draw: st.DrawFn) -> Problem:
    """A cycle of six with chords; two groups that gather, reduce or both."""
    rates = st.integers(1, 3)
    wires = [(i, (i + 1) % 6, 1, draw(rates)) for i in range(6)]
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b]
    wires += [(a, b, 1, draw(rates)) for a, b in draw(st.lists(st.sampled_from(pairs), max_size=8, unique=True))]
    order = draw(st.permutations(range(6)))
    first = draw(st.integers(2, 4))
    shards = []
    for group in (order[:first], order[first:]):
        reduced = draw(st.booleans())
        for r in group:
            sources, targets = (group, [r]) if reduced else ([r], group)
            shards.append(shard(len(shards), sources, targets, reduced))
    return custom(topology(6, wires), shards)


@settings(max_examples=60, deadline=None)
@given(groups())
def test_grown_cuts_are_cuts_and_their_loads_are_so(problem: Problem) -> None:
    most = strongest_cut(problem)
    found = bound(problem)
    assert check_certificate(problem, found).ok
    for certificate in group_candidates(problem):
        if isinstance(certificate, Cut):
            assert certificate.load == cut_load(problem.shards, certificate.nodes)
            assert 0 < value(problem, certificate) <= most
        assert value(problem, certificate) <= found.throughput.time_per_byte


@pytest.mark.parametrize(
    ("collective", "rounds"),
    [("all_gather", Fraction(3, 2)), ("reduce_scatter", Fraction(3, 2)), ("all_reduce", Fraction(3, 4))],
)
def test_rows_of_a_torus_are_limited_by_its_columns(collective: str, rounds: Fraction) -> None:
    """A column has a member of each row: twelve shards enter over eight links."""
    uses = "\n".join(f"{collective} on torus(4, 4) among g[{x}, 0..3]" for x in range(4))
    found = bound(written(f"together {{\n{uses}\n}}\n"))
    assert found.rounds_per_chunk == rounds


def test_where_all_ranks_take_part_alike_nothing_is_grown() -> None:
    machine = topology(4, [(i, (i + 1) % 4, 1, 1) for i in range(4)])
    assert list(group_candidates(problem_of(machine, Collective.ALL_GATHER))) == []


def test_a_machine_that_is_not_connected_is_still_refused() -> None:
    machine = topology(3, [(0, 1, 1, 1), (1, 0, 1, 1)])
    with pytest.raises(UnreachableError):
        bound(custom(machine, [shard(0, [0], [1, 2]), shard(1, [1], [0])]))
