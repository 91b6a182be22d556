"""The bound on R/C at a given number of steps."""

from fractions import Fraction

import pytest
from hand_built import custom, dgx1, mi250, problem_of, ring, shard, star, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.bounds.step_bound import VARIABLE_LIMIT, last_step, step_certificate
from acclc.ir.problem import Collective, Problem
from acclc.simulate.baselines import schedules
from acclc.verify.exclusions import proven_rate

C = Collective


def steps_lower_bound(problem: Problem, steps: int, size_limit: int = VARIABLE_LIMIT) -> Fraction | None:
    """The bound, which verification finds in its certificate, too."""
    found = step_certificate(problem, steps, size_limit)
    if found is None:
        return None
    assert proven_rate(problem, found[1]) == found[0]
    return found[0]


@pytest.mark.parametrize("collective", [C.ALL_GATHER, C.REDUCE_SCATTER])
def test_dgx1_in_two_steps_needs_three_halves(collective: Collective) -> None:
    """So (2, 2, 3) is optimal in two steps for every C; with three steps the throughput bound 7/6 is free."""
    problem = problem_of(dgx1(), collective)
    assert steps_lower_bound(problem, 2) == Fraction(3, 2)
    assert steps_lower_bound(problem, 3) == Fraction(7, 6)
    assert steps_lower_bound(problem, 1) is None


def test_other_known_points() -> None:
    assert steps_lower_bound(problem_of(dgx1(), C.ALL_TO_ALL), 2) == Fraction(8, 3)
    assert steps_lower_bound(problem_of(dgx1(), C.BROADCAST), 2) == 1
    assert steps_lower_bound(problem_of(star([1] * 6), C.ALL_GATHER), 1) == 5
    assert steps_lower_bound(problem_of(ring(4), C.ALL_GATHER), 2) == Fraction(3, 2)


def test_broadcast_down_a_chain_pays_for_every_step() -> None:
    """On a chain of n links each step but moves what is at hand: R/C = n in n steps."""
    machine = topology(4, [(0, 1, 1, 1), (1, 2, 1, 1), (2, 3, 1, 1)])
    problem = custom(machine, [shard(0, [0], [1, 2, 3])])
    assert steps_lower_bound(problem, 3) == 3
    assert steps_lower_bound(problem, 4) == 2
    assert steps_lower_bound(problem, 2) is None


def test_a_budget_counts() -> None:
    machine = topology(2, [(0, 1, 1, 2), (1, 0, 1, 2)], budgets=[((0, 1), 2)])
    assert steps_lower_bound(problem_of(machine, C.ALL_GATHER), 1) == 2


def test_what_it_does_not_cover_gives_none() -> None:
    assert steps_lower_bound(problem_of(dgx1(), C.ALL_REDUCE), 2) is None
    assert steps_lower_bound(problem_of(dgx1(), C.ALL_GATHER), 2, size_limit=100) is None


def test_mi250_last_step() -> None:
    """(3, S, 7) cannot exist: R >= (14 C + 3) / 6 for a package of two."""
    problem = problem_of(mi250(), C.ALL_GATHER)
    assert [last_step(problem).rounds(c) for c in (3, 4, 6, 7)] == [8, 10, 15, 17]
    mirrored = problem_of(mi250(), C.REDUCE_SCATTER)
    assert [last_step(mirrored).rounds(c) for c in (3, 4, 6, 7)] == [8, 10, 15, 17]


def test_what_the_last_step_says_of_the_rounds_of_each() -> None:
    """6 R - 3 r >= 14 C, r being the rounds of the last step; of the first one for reductions."""
    gather, scatter = last_step(problem_of(mi250(), C.ALL_GATHER)), last_step(problem_of(mi250(), C.REDUCE_SCATTER))
    for chunks, rounds in [(4, (2, 2, 2, 2, 1, 1)), (7, (3, 3, 3, 2, 2, 2, 1, 1)), (3, (2, 1, 1, 1, 1, 2))]:
        assert gather.allows(chunks, rounds)
        assert scatter.allows(chunks, rounds[::-1])
    for chunks, rounds in [(4, (1, 2, 2, 2, 1, 2)), (7, (1, 2, 2, 2, 2, 2, 3, 3)), (3, (1, 1, 1, 1, 1, 3))]:
        assert not gather.allows(chunks, rounds)
        assert gather.allows(chunks, rounds[::-1])
        assert not scatter.allows(chunks, rounds[::-1])
        assert sum(rounds) >= gather.rounds(chunks)


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 4), st.data())
def test_no_schedule_beats_it(ranks: int, data: st.DataObject) -> None:
    rate = st.integers(1, 3)
    wires = [
        w
        for i in range(ranks)
        for w in ((i, (i + 1) % ranks, 1, data.draw(rate)), ((i + 1) % ranks, i, 1, data.draw(rate)))
    ]
    problem = problem_of(
        topology(ranks, wires), data.draw(st.sampled_from([C.ALL_GATHER, C.REDUCE_SCATTER, C.ALL_TO_ALL]))
    )
    for schedule in schedules(problem, 1):
        least = steps_lower_bound(problem, schedule.steps)
        assert least is not None
        assert 0 < least <= Fraction(schedule.total_rounds, schedule.chunks_per_shard)
        if problem.collective is not C.ALL_TO_ALL:
            assert last_step(problem).rounds(schedule.chunks_per_shard) <= schedule.total_rounds
            assert last_step(problem).allows(schedule.chunks_per_shard, schedule.rounds)
