"""Excluded points from their certificates: what proves is believed, what is changed a little is found out."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hand_built import both, custom, dgx1, mi250, problem_of, ring, shard, switched, topology
from msgspec import structs

from acclc.bounds import bound
from acclc.bounds.step_bound import last_step, step_certificate
from acclc.ir.problem import Collective, LinkId, NodeId, Problem, Rank, ShardId
from acclc.ir.result import Excluded, Exclusion, LastStepSet, StepDual
from acclc.simulate.baselines import schedules
from acclc.verify.exclusions import Certain, NoProof, certain, check_excluded, last_step_terms, proven_rate

C = Collective


def known(problem: Problem, *exclusions: Exclusion) -> Certain:
    found = bound(problem)
    report = certain(problem, found.latency.steps, found.throughput.time_per_byte, exclusions)
    assert report.ok, str(report)
    assert report.facts is not None
    return report.facts


def dual(problem: Problem, steps: int) -> StepDual:
    found = step_certificate(problem, steps)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("collective", [C.ALL_GATHER, C.REDUCE_SCATTER])
def test_a_package_of_two_excludes_what_the_last_step_cannot_carry(collective: Collective) -> None:
    """MI250: R >= (14 C + 3) / 6, so (3, S, 7) does not exist though 7/3 is the throughput bound."""
    problem = problem_of(mi250(), collective)
    certificate = LastStepSet(last_step(problem).strongest(3))
    assert last_step_terms(problem, certificate) == [(14, Fraction(6), 2)]
    with_it = known(problem, certificate)
    assert with_it.excludes(3, 6, 7)
    assert not with_it.excludes(3, 6, 8)
    assert with_it.excludes(6, 8, 14)
    assert not known(problem).excludes(3, 6, 7)


def test_a_set_that_proves_nothing() -> None:
    problem = problem_of(mi250(), C.ALL_GATHER)
    everything = tuple(n.id for n in problem.topology.nodes)
    for nodes in ((), (NodeId(99),), (NodeId(-1),), everything):
        with pytest.raises(NoProof):
            last_step_terms(problem, LastStepSet(nodes))
    report = certain(problem, 5, Fraction(1), [LastStepSet(())])
    assert [f.code for f in report.errors] == ["exclusion.certificate"]


@pytest.mark.parametrize("collective", [C.ALL_GATHER, C.REDUCE_SCATTER, C.GATHER, C.SCATTER, C.ALL_TO_ALL])
def test_duals_prove_what_the_search_says(collective: Collective) -> None:
    """Reversed for reductions, through switches, with budgets: two implementations, one figure."""
    budgeted = topology(4, both([(i, (i + 1) % 4, 1, 10) for i in range(4)]), budgets=[((0, 1), 12), ((4, 5), 8)])
    for machine in (dgx1(), ring(5), switched(2, 3, 1, per_box=2), budgeted):
        problem = problem_of(machine, collective)
        least = bound(problem).latency.steps
        for steps in (least, least + 1):
            found = step_certificate(problem, steps)
            assert found is not None
            assert proven_rate(problem, found[1]) == found[0]


def test_steps_may_be_many() -> None:
    """Chunks follow each other on the way around: more steps than the machine has nodes and links."""
    problem = problem_of(ring(3), C.ALL_GATHER)
    steps = len(problem.topology.nodes) + len(problem.topology.links) + 5
    found = step_certificate(problem, steps)
    assert found is not None
    assert proven_rate(problem, found[1]) == found[0]


def test_no_dual_excludes_a_schedule_that_there_is() -> None:
    """Any numbers are a valid dual: also those that no solver made."""
    problem = problem_of(ring(4), C.ALL_GATHER)
    made = schedules(problem, 1)
    for seed in range(30):
        lengths = tuple(
            (s.id, Rank(t), e.id, step, Fraction((seed * 7 + 3 * e.id + 5 * step + s.id * t) % 4, 2))
            for s in problem.shards
            for t in problem.topology.ranks
            if t not in s.sources
            for e in problem.topology.links
            for step in range(3)
        )
        rate = proven_rate(problem, StepDual(3, lengths))
        for schedule in made:
            if schedule.steps <= 3:
                assert rate <= Fraction(schedule.total_rounds, schedule.chunks_per_shard)


def test_a_dual_that_was_touched() -> None:
    problem = problem_of(dgx1(), C.ALL_GATHER)
    true = dual(problem, 2)
    assert proven_rate(problem, true) == Fraction(3, 2)
    k, t, e, s, z = true.lengths[0]
    for wrong in (
        (k, t, e, 2, z),
        (k, t, e, -1, z),
        (k, t, LinkId(999), s, z),
        (k, t, LinkId(-1), s, z),
        (ShardId(99), t, e, s, z),
        (k, Rank(k), e, s, z),
        (k, t, e, s, -z),
        true.lengths[1],
    ):
        with pytest.raises(NoProof):
            proven_rate(problem, structs.replace(true, lengths=(wrong, *true.lengths[1:])))
    with pytest.raises(NoProof):
        proven_rate(problem, structs.replace(true, potentials=((k, NodeId(0), 0, Fraction(1)),)))
    with pytest.raises(NoProof):
        proven_rate(problem, structs.replace(true, budget_prices=((0, 0, Fraction(1)),)))
    for steps in (0, 1, 10**9):
        with pytest.raises(NoProof):
            proven_rate(problem, structs.replace(true, steps=steps))
    one_step = tuple(x for x in true.lengths if x[3] == 0)
    assert proven_rate(problem, structs.replace(true, lengths=one_step)) < Fraction(3, 2)


def test_a_dual_says_nothing_of_reductions_into_several_ranks() -> None:
    lengths = ((ShardId(0), Rank(1), LinkId(0), 0, Fraction(1)),)
    with pytest.raises(NoProof, match="several"):
        proven_rate(problem_of(ring(3), C.ALL_REDUCE), StepDual(2, lengths))
    nobody = custom(ring(3), [shard(0, [], [1])])
    with pytest.raises(NoProof, match="nobody"):
        proven_rate(nobody, StepDual(2, lengths))


def test_points_are_believed_only_with_a_proof() -> None:
    problem = problem_of(dgx1(), C.ALL_GATHER)
    five = Excluded(5, 2, 7, "bound", "bound for 2 steps")
    found = check_excluded(known(problem), [five])
    assert [f.code for f in found.errors] == ["exclusion.bound"]
    assert check_excluded(known(problem, dual(problem, 2)), [five]).ok
    assert not check_excluded(known(problem, dual(problem, 2)), [Excluded(5, 3, 7, "bound")]).ok
    assert not check_excluded(known(problem, dual(problem, 2)), [Excluded(4, 2, 6, "bound")]).ok


def test_what_is_not_re_proven_is_counted() -> None:
    problem = problem_of(dgx1(), C.ALL_GATHER)
    points = (
        Excluded(1, 1, 5, "bound"),
        Excluded(6, 3, 6, "infeasible"),
        Excluded(5, 2, 7, "infeasible"),
        Excluded(5, 2, 7, "step_bound"),
    )
    report = check_excluded(known(problem), points)
    assert report.ok, str(report)
    facts = report.facts
    assert facts is not None
    assert (facts.points, facts.proven, facts.searched, facts.too_large) == (4, 2, 1, 1)
    for wrong in (Excluded(0, 1, 1, "bound"), Excluded(1, 1, 1, "magic"), Excluded(1, 1, 1, "points")):
        assert [f.code for f in check_excluded(known(problem), [wrong]).errors] == ["exclusion.form"]
