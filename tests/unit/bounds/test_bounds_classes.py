"""Loads by classes and distances by tables, against the definitions shard by shard."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hand_built import custom, shard, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.bounds import UnreachableError
from acclc.bounds.classes import shard_classes
from acclc.bounds.cuts import CutFinder, best_cut
from acclc.bounds.latency import latency_bound
from acclc.bounds.loads import cut_load, partition_load
from acclc.ir.problem import LinkClass, Problem, Shard

RANKS = 4


@st.composite
def shards(draw: st.DrawFn) -> tuple[Shard, ...]:
    """Some of which are equal but for the order of their ranks."""
    some = st.lists(st.integers(0, RANKS - 1), min_size=1, max_size=RANKS, unique=True)
    return tuple(shard(i, draw(some), draw(some), reduced=draw(st.booleans())) for i in range(draw(st.integers(1, 6))))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Any links, of any delays: some ranks may be out of reach. One passing node."""
    ends = st.tuples(st.integers(0, RANKS), st.integers(0, RANKS)).filter(lambda e: e[0] != e[1])
    wires = [(a, b, 1, draw(st.integers(1, 3))) for a, b in draw(st.lists(ends, min_size=4, max_size=14))]
    machine = topology(RANKS, wires, 1)
    delay = st.sampled_from([Fraction(0), Fraction(1, 10**6), Fraction(5, 7), Fraction(2**40, 3**50 + 1)])
    links = tuple(replace(e, cls=LinkClass(e.cls.name, e.cls.bandwidth, draw(delay))) for e in machine.links)
    return custom(replace(machine, links=links), list(draw(shards())))


def must_leave(one: Shard, inside: set[int]) -> bool:
    held = [s in inside for s in one.sources]
    return any(t not in inside for t in one.targets) and (any(held) if one.reduced else all(held))


@settings(max_examples=60, deadline=None)
@given(shards())
def test_loads_are_those_of_the_shards_one_by_one(some: tuple[Shard, ...]) -> None:
    assert sum(c.count for c in shard_classes(some)) == len(some)
    for size in range(RANKS + 1):
        for inside in combinations(range(RANKS), size):
            assert cut_load(some, inside) == sum(must_leave(s, set(inside)) for s in some)


@settings(max_examples=60, deadline=None)
@given(shards(), st.lists(st.integers(0, 2), min_size=RANKS, max_size=RANKS))
def test_messages_between_parts_add_up_over_the_shards(some: tuple[Shard, ...], parts: list[int]) -> None:
    label = dict(enumerate(parts))
    assert partition_load(some, label) == sum(partition_load((s,), label) for s in some)


def test_shards_that_differ_only_in_order_are_one_class() -> None:
    some = [shard(0, [0, 1], [2, 3]), shard(1, [1, 0], [3, 2]), shard(2, [0, 1], [2, 3], reduced=True)]
    assert [(c.count, c.reduced) for c in shard_classes(some)] == [(2, False), (1, True)]


def test_other_shards_are_not_taken_for_those_asked_before() -> None:
    first, second = (shard(0, [0], [1]),), (shard(0, [0], [1]), shard(1, [0], [1]))
    assert [cut_load(s, [0]) for s in (first, second, first)] == [1, 2, 1]
    growing = list(first)
    assert cut_load(growing, [0]) == 1
    growing.append(second[1])
    assert cut_load(growing, [0]) == 2


def _shortest(problem: Problem, lengths: list[Fraction]) -> list[list[Fraction | None]]:
    """Floyd and Warshall."""
    nodes = range(len(problem.topology.nodes))
    way: list[list[Fraction | None]] = [[Fraction(0) if a == b else None for b in nodes] for a in nodes]
    for e in problem.topology.links:
        here = way[e.src][e.dst]
        way[e.src][e.dst] = lengths[e.id] if here is None else min(here, lengths[e.id])
    for k in nodes:
        for a in nodes:
            for b in nodes:
                first, second, here = way[a][k], way[k][b], way[a][b]
                if first is not None and second is not None and (here is None or first + second < here):
                    way[a][b] = first + second
    return way


def _farthest(problem: Problem, lengths: list[Fraction]) -> Fraction | None:
    """The definition; None where some data cannot arrive."""
    way, far = _shortest(problem, lengths), Fraction(0)
    for one in problem.shards:
        for target in one.targets:
            ways = [way[s][target] for s in one.sources]
            there = [w for w in ways if w is not None]
            if not there or (one.reduced and len(there) < len(ways)):
                return None
            far = max(far, max(there) if one.reduced else min(there))
    return far


@settings(max_examples=80, deadline=None)
@given(problems())
def test_distances_are_the_shortest(problem: Problem) -> None:
    gpus = set(problem.topology.ranks)
    steps = _farthest(problem, [Fraction(int(e.dst in gpus)) for e in problem.topology.links])
    seconds = _farthest(problem, [e.cls.latency for e in problem.topology.links])
    if steps is None:
        with pytest.raises(UnreachableError):
            latency_bound(problem)
        return
    found = latency_bound(problem)
    assert (found.steps, found.seconds) == (steps, seconds)
    for path, lengths in ((found.steps_certificate, None), (found.seconds_certificate, seconds)):
        if path is not None:
            ends = [problem.topology.links[e] for e in path.path]
            assert [e.src for e in ends[1:]] == [e.dst for e in ends[:-1]]
            if lengths is not None:
                assert sum((e.cls.latency for e in ends), Fraction(0)) == lengths


@settings(max_examples=80, deadline=None)
@given(problems(), st.booleans())
def test_the_best_cut_is_no_weaker_than_what_one_rank_must_get_or_give(problem: Problem, reduced: bool) -> None:
    """Whoever holds the shards together: queries and their groups are counted right, or such a cut would be missed."""
    links, nodes = problem.topology.links, [n.id for n in problem.topology.nodes]
    if reduced:  # into one rank each: a contributor's side of the cut is it alone
        kept = [replace(s, outputs=s.outputs[:1]) for s in problem.shards if s.reduced]
        cuts = [(r,) for r in range(RANKS)]
    else:
        kept = [s for s in problem.shards if not s.reduced]
        cuts = [tuple(v for v in nodes if v != r) for r in range(RANKS)]
    problem = custom(problem.topology, kept)

    def room(inside: tuple[int, ...]) -> Fraction:
        return sum((e.capacity for e in links if e.src in inside and e.dst not in inside), Fraction(0))

    loaded = [inside for inside in cuts if cut_load(kept, inside)]
    try:
        best = best_cut(problem, CutFinder(problem))
    except UnreachableError:
        return
    assert (best is None) == (not loaded)
    if best is not None:
        strongest = Fraction(cut_load(kept, best)) / room(best)
        assert all(Fraction(cut_load(kept, inside)) / room(inside) <= strongest for inside in loaded)
