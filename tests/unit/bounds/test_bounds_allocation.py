"""Budgets and uneven switches against an exact linear program over all cuts (its own simplex, in fractions)."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

from hand_built import both, problem_of, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.bounds import bound
from acclc.bounds.allocation import uneven
from acclc.bounds.loads import cut_load, leaving, passing_nodes
from acclc.ir.problem import Collective, Problem, Topology
from acclc.ir.result import CutSum, Partition
from acclc.verify.certificate import check_certificate

C = Collective


def simplex(objective: Sequence[int], rows: Sequence[tuple[Sequence[Fraction], Fraction]]) -> Fraction:
    """max objective x, rows x <= right sides >= 0, x >= 0; Bland's rule."""
    width = len(objective)
    table = [
        [*map(Fraction, row), *(Fraction(int(i == k)) for k in range(len(rows))), Fraction(right)]
        for i, (row, right) in enumerate(rows)
    ]
    cost = [*(-Fraction(c) for c in objective), *(Fraction(0) for _ in rows), Fraction(0)]
    basis = [width + i for i in range(len(rows))]
    while True:
        entering = next((j for j, c in enumerate(cost[:-1]) if c < 0), None)
        if entering is None:
            return cost[-1]
        ratios = [(r[-1] / r[entering], basis[i], i) for i, r in enumerate(table) if r[entering] > 0]
        _, _, pivot = min(ratios)
        scale = table[pivot][entering]
        table[pivot] = [v / scale for v in table[pivot]]
        for i, row in enumerate(table):
            if i != pivot and row[entering]:
                table[i] = [v - row[entering] * p for v, p in zip(row, table[pivot], strict=True)]
        cost = [v - cost[entering] * p for v, p in zip(cost, table[pivot], strict=True)]
        basis[pivot] = entering


def exact_time(problem: Problem) -> Fraction:
    """1 / max x over allocations: every cut, every budget, every balance."""
    t = problem.topology
    n = len(t.links)
    rows: list[tuple[list[Fraction], Fraction]] = []
    for e in t.links:
        rows.append(([Fraction(int(k == e.id)) for k in range(n)] + [Fraction(0)], e.capacity))
    for b in t.budgets:
        rows.append(([Fraction(int(k in b.links)) for k in range(n)] + [Fraction(0)], b.capacity))
    for v in passing_nodes(problem):
        balance = [Fraction(int(e.dst == v) - int(e.src == v)) for e in t.links] + [Fraction(0)]
        rows += [(balance, Fraction(0)), ([-x for x in balance], Fraction(0))]
    nodes = [x.id for x in t.nodes]
    for size in range(1, len(nodes)):
        for chosen in combinations(nodes, size):
            load = cut_load(problem.shards, chosen)
            if load:
                out = set(leaving(t, chosen))
                rows.append(([Fraction(-int(k in out)) for k in range(n)] + [Fraction(load)], Fraction(0)))
    return 1 / simplex([0] * n + [1], rows)


@st.composite
def budgeted(draw: st.DrawFn) -> Topology:
    ranks = draw(st.integers(2, 4))
    wires = [(i, (i + 1) % ranks, 1, draw(st.integers(1, 5))) for i in range(ranks)]
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    wires += [(a, b, 1, draw(st.integers(1, 5))) for a, b in draw(st.lists(st.sampled_from(pairs), max_size=4))]
    members = st.lists(st.integers(0, len(wires) - 1), min_size=1, max_size=4, unique=True)
    budgets = [(tuple(draw(members)), draw(st.integers(1, 6))) for _ in range(draw(st.integers(1, 2)))]
    return topology(ranks, wires, budgets=budgets)


@settings(max_examples=40, deadline=None)
@given(budgeted(), st.sampled_from([C.ALL_GATHER, C.REDUCE_SCATTER, C.BROADCAST]))
def test_budgets_exactly(machine: Topology, collective: Collective) -> None:
    problem = problem_of(machine, collective)
    found = bound(problem)
    assert found.throughput.time_per_byte == exact_time(problem)
    assert check_certificate(problem, found).ok


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.data())
def test_uneven_switches_exactly(ranks: int, data: st.DataObject) -> None:
    rate = st.integers(1, 5)
    wires = [w for r in range(ranks) for w in ((r, ranks, 1, data.draw(rate)), (ranks, r, 1, data.draw(rate)))]
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    wires += [(a, b, 1, data.draw(rate)) for a, b in data.draw(st.lists(st.sampled_from(pairs), max_size=3))]
    problem = problem_of(topology(ranks, wires, 1), data.draw(st.sampled_from([C.ALL_GATHER, C.REDUCE_SCATTER])))
    found = bound(problem)
    assert found.throughput.time_per_byte == exact_time(problem)
    assert check_certificate(problem, found).ok


def test_a_switch_with_little_in_and_much_out_cannot_copy() -> None:
    """One rank sends 1 GB/s into the switch, which has 10 GB/s to each of three others: 1 GB/s arrives in all."""
    wires = [(0, 4, 1, 1), *((4, r, 1, 10) for r in (1, 2, 3)), *((r, 4, 1, 1) for r in (1, 2, 3)), (4, 0, 1, 10)]
    machine = topology(4, wires, 1)
    problem = problem_of(machine, C.ALL_GATHER)
    assert uneven(problem) == (4,)
    found = bound(problem)
    assert found.throughput.time_per_byte == Fraction(3, 10**9)  # 4 shards into 3 others over 4 GB/s in all
    assert isinstance(found.throughput.certificate, CutSum)
    multicast = topology(4, wires, 1, multicast=True)
    assert bound(problem_of(multicast, C.ALL_GATHER)).throughput.time_per_byte == Fraction(1, 10**9)


def test_all_reduce_within_a_budget() -> None:
    """All eight links share 20 GB/s: 2(p - 1) = 6 messages an element over it."""
    machine = topology(4, both([(i, (i + 1) % 4, 1, 10) for i in range(4)]), budgets=[(tuple(range(8)), 20)])
    problem = problem_of(machine, C.ALL_REDUCE)
    found = bound(problem)
    assert found.throughput.time_per_byte == Fraction(6, 20 * 10**9)
    assert isinstance(found.throughput.certificate, Partition)
    assert "within the budget b0" in found.throughput.words
    assert check_certificate(problem, found).ok
