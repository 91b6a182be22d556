"""Bounds checked from their certificates: true ones pass, and every kind of false claim is found."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hand_built import both, dgx1, mi250, problem_of, ring, topology
from msgspec import structs

from acclc.bounds import bound
from acclc.ir.problem import Collective, LinkId, NodeId, Problem, Rank
from acclc.ir.result import Bound, Cut, CutSum, FlowDual, LongestPath, Partition
from acclc.verify.certificate import check_certificate

C = Collective
BUDGETED = topology(4, both([(i, (i + 1) % 4, 1, 10) for i in range(4)]), budgets=[((0, 1), 12), ((4, 5), 8)])


def claim(problem: Problem, certificate: Any, time: Fraction) -> Bound:
    """A bound of the problem with another throughput certificate."""
    true = bound(problem)
    unit = problem.topology.unit
    assert unit is not None
    return replace(
        true,
        throughput=replace(true.throughput, certificate=certificate, time_per_byte=time),
        rounds_per_chunk=time * unit,
    )


def codes(problem: Problem, made: Bound) -> list[str]:
    return [f.code for f in check_certificate(problem, made).errors]


def test_bounds_of_every_kind_pass() -> None:
    kinds = set()
    for machine in (dgx1(), ring(5), BUDGETED):
        for collective in (C.ALL_GATHER, C.REDUCE_SCATTER, C.ALL_REDUCE, C.ALL_TO_ALL, C.BROADCAST):
            problem = problem_of(machine, collective)
            found = bound(problem)
            report = check_certificate(problem, found)
            assert report.ok, str(report)
            assert report.facts is not None
            assert report.facts.time_per_byte == found.throughput.time_per_byte
            assert (report.facts.steps, report.facts.seconds) == (found.latency.steps, found.latency.seconds)
            kinds.add(type(found.throughput.certificate))
    assert {Cut, CutSum, Partition} <= kinds


def test_a_higher_claim_than_the_cut_proves() -> None:
    problem = problem_of(dgx1(), C.ALL_GATHER)
    true = bound(problem).throughput
    assert codes(problem, claim(problem, true.certificate, true.time_per_byte * 2)) == ["bound.throughput"]
    assert codes(problem, replace(bound(problem), rounds_per_chunk=Fraction(5, 4))) == ["bound.rounds"]


@pytest.mark.parametrize(
    ("certificate", "code"),
    [
        (Cut((NodeId(0),), Fraction(2)), "bound.load"),
        (Cut((NodeId(99),), Fraction(1)), "bound.certificate"),
        (CutSum(((Fraction(-1), Cut((NodeId(0),), Fraction(1))),)), "bound.certificate"),
        (CutSum(((Fraction(1), Cut((NodeId(0),), Fraction(3))),)), "bound.load"),
        (CutSum(((Fraction(1), Cut((NodeId(0),), Fraction(1))),), ((NodeId(0), Fraction(1)),)), "bound.certificate"),
        (CutSum(((Fraction(1), Cut((NodeId(0),), Fraction(1))),), (), (Fraction(1),)), "bound.certificate"),
        (Partition(((NodeId(0), NodeId(1)), (NodeId(1), NodeId(2)))), "bound.certificate"),
        (FlowDual(((LinkId(0), Fraction(-1)),)), "bound.certificate"),
        (FlowDual(((LinkId(999), Fraction(1)),)), "bound.certificate"),
        (LongestPath(Rank(0), Rank(1), ()), "bound.certificate"),
    ],
)
def test_false_certificates(certificate: Any, code: str) -> None:
    problem = problem_of(dgx1(), C.ALL_GATHER)
    assert code in codes(problem, claim(problem, certificate, Fraction(1)))


def test_a_weaker_cut_proves_only_what_it_does() -> None:
    problem = problem_of(mi250(), C.ALL_GATHER)
    single = Cut(tuple(NodeId(v) for v in range(15)), Fraction(15))
    assert codes(problem, claim(problem, single, Fraction(15, 7 * 50 * 10**9))) == []
    assert codes(problem, claim(problem, single, Fraction(7, 3 * 50 * 10**9))) == ["bound.throughput"]


def test_a_negative_budget_price_is_refused() -> None:
    problem = problem_of(BUDGETED, C.ALL_GATHER)
    true = bound(problem).throughput
    assert isinstance(true.certificate, CutSum)
    bad = structs.replace(true.certificate, budget_prices=(Fraction(-1), Fraction(0)))
    assert "bound.certificate" in codes(problem, claim(problem, bad, true.time_per_byte))


def test_forgetting_budget_prices_weakens_the_proof() -> None:
    problem = problem_of(BUDGETED, C.ALL_GATHER)
    true = bound(problem).throughput
    assert isinstance(true.certificate, CutSum)
    bare = structs.replace(true.certificate, budget_prices=())
    assert codes(problem, claim(problem, bare, true.time_per_byte)) == ["bound.throughput"]


def test_ranks_left_out_of_a_partition_are_parts_of_their_own() -> None:
    """Else leaving out relays would make 2(p - 1) messages appear where the relay adds up."""
    wires = both((r, 4, 1, 1) for r in range(4))
    problem = problem_of(topology(5, wires), C.ALL_REDUCE, group=[0, 1, 2, 3])
    parts = Partition(tuple((NodeId(r),) for r in range(4)))
    assert codes(problem, claim(problem, parts, Fraction(6, 8 * 10**9))) == []
    assert codes(problem, claim(problem, parts, Fraction(6, 4 * 10**9))) == ["bound.throughput"]


def test_false_latency_claims() -> None:
    problem = problem_of(dgx1(latency_us=1), C.ALL_GATHER)
    true = bound(problem)
    late = true.latency
    assert codes(problem, replace(true, latency=replace(late, steps=3))) == ["bound.steps"]
    assert codes(problem, replace(true, latency=replace(late, seconds=Fraction(1)))) == ["bound.seconds"]
    assert codes(problem, replace(true, latency=replace(late, steps_certificate=None))) == ["bound.steps"]
    assert late.steps_certificate is not None
    broken = structs.replace(late.steps_certificate, path=late.steps_certificate.path[1:])
    assert codes(problem, replace(true, latency=replace(late, steps_certificate=broken))) == ["bound.path"]


def test_a_detour_proves_no_distance() -> None:
    """A path of three hops to a neighbour is a path, but not the shortest."""
    machine = ring(4)
    problem = problem_of(machine, C.ALL_GATHER)
    true = bound(problem)
    by_ends = {(e.src, e.dst): e.id for e in machine.links}
    detour = LongestPath(Rank(0), Rank(1), (by_ends[0, 3], by_ends[3, 2], by_ends[2, 1]))  # type: ignore[index]
    made = replace(true, latency=replace(true.latency, steps=3, steps_certificate=detour))
    assert codes(problem, made) == ["bound.steps"]


def test_the_nearest_holder_counts() -> None:
    """A shard that two ranks hold is not far from a rank beside one of them, whatever the other's distance."""
    from hand_built import custom, shard

    chain = topology(4, both((i, i + 1, 1, 1) for i in range(3)))
    problem = custom(chain, [shard(0, [0, 2], [3])])
    true = bound(problem)
    far = LongestPath(Rank(0), Rank(3), tuple(e.id for e in chain.links if e.dst == e.src + 1))
    made = replace(true, latency=replace(true.latency, steps=3, steps_certificate=far))
    assert codes(problem, made) == ["bound.steps"]
