"""Point-to-point bounds: where ways are unique the optimum is the fullest link, and no routing beats the bound."""

from collections import Counter
from fractions import Fraction

from hand_built import both, custom, problem_of, shard, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.bounds import bound
from acclc.bounds.flow import best_flow_dual
from acclc.bounds.loads import value
from acclc.ir.problem import Collective, Rank, Topology
from acclc.ir.result import FlowDual
from acclc.simulate.routes import Routes
from acclc.verify.certificate import check_certificate


@st.composite
def trees(draw: st.DrawFn) -> Topology:
    ranks = draw(st.integers(2, 6))
    pairs = [(draw(st.integers(0, v - 1)), v) for v in range(1, ranks)]
    wires = [(a, b, 1, draw(st.integers(1, 5))) for a, b in pairs]
    return topology(ranks, [w for a, b, n, r in wires for w in ((a, b, n, r), (b, a, n, draw(st.integers(1, 5))))])


@settings(max_examples=40, deadline=None)
@given(trees(), st.data())
def test_on_a_tree_the_fullest_link_is_the_optimum(machine: Topology, data: st.DataObject) -> None:
    ranks = list(machine.ranks)
    ends = data.draw(st.lists(st.tuples(st.sampled_from(ranks), st.sampled_from(ranks)), min_size=1, max_size=8))
    problem = custom(machine, [shard(i, [a], [b]) for i, (a, b) in enumerate(ends)])
    load: Counter[int] = Counter()
    for a, b in ends:
        for hop in Routes(machine).route(Rank(a), Rank(b)) or ():
            load.update(hop.path)
    busiest = max((Fraction(n) / machine.links[e].capacity for e, n in load.items()), default=Fraction(0))
    found = bound(problem)
    assert found.throughput.time_per_byte == busiest
    assert check_certificate(problem, found).ok


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 6), st.data())
def test_shortest_way_routing_never_beats_the_bound(ranks: int, data: st.DataObject) -> None:
    rate = st.integers(1, 5)
    chords = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and (a + 1) % ranks != b]
    wires = [(i, (i + 1) % ranks, 1, data.draw(rate)) for i in range(ranks)]
    wires += [
        (a, b, 1, data.draw(rate)) for a, b in data.draw(st.lists(st.sampled_from(chords), max_size=6, unique=True))
    ]
    machine = topology(ranks, wires)
    problem = problem_of(machine, Collective.ALL_TO_ALL)
    load: Counter[int] = Counter()
    for s in problem.shards:
        for hop in Routes(machine).route(s.sources[0], s.targets[0]) or ():
            load.update(hop.path)
    routed = max(Fraction(n) / machine.links[e].capacity for e, n in load.items())
    found = bound(problem)
    assert 0 < found.throughput.time_per_byte <= routed
    assert check_certificate(problem, found).ok


def test_several_ways_are_used_at_once() -> None:
    """One pair over a direct link and a detour: 1 / (3 + 2), which no single way reaches."""
    machine = topology(3, [(0, 1, 1, 3), (0, 2, 1, 2), (2, 1, 1, 4)])
    problem = custom(machine, [shard(0, [0], [1])])
    assert bound(problem).throughput.time_per_byte == Fraction(1, 5 * 10**9)


def test_a_budget_on_both_directions_doubles_the_time() -> None:
    machine = topology(2, both([(0, 1, 1, 10)]), budgets=[((0, 1), 10)])
    problem = problem_of(machine, Collective.ALL_TO_ALL)
    found = bound(problem)
    assert found.throughput.time_per_byte == Fraction(2, 10 * 10**9)
    assert isinstance(found.throughput.certificate, FlowDual)
    assert "budget" in found.throughput.words
    assert check_certificate(problem, found).ok


def test_where_no_cut_is_tight_the_lengths_prove_more() -> None:
    """K(2,3) with four terminals: a known gap between cuts and flows (Okamura-Seymour without planarity)."""
    machine = topology(5, both([(a, b, 1, 1) for a in (0, 1) for b in (2, 3, 4)]))
    ends = [(0, 1), (2, 3), (3, 4), (2, 4)]
    problem = custom(machine, [shard(i, [a], [b]) for i, (a, b) in enumerate(ends + [(b, a) for a, b in ends])])
    dual = best_flow_dual(problem)
    assert dual is not None
    assert value(problem, dual) == Fraction(16, 12 * 10**9)
    assert bound(problem).throughput.time_per_byte == Fraction(4, 3 * 10**9)
