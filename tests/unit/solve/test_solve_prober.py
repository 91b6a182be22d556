from fractions import Fraction

import pytest
from packing_cases import mi250
from solve_cases import dgx1, problem, ring, simulate, star

from acclc.bounds import bound
from acclc.solve.cpsat import Answer
from acclc.solve.prober import Ledger, Prober, likely_vectors, round_vectors
from acclc.solve.protocol import Budget, Deadline, silent
from acclc.solve.search import Range, frontier


def prober(p, work=5.0, deadline=None):
    budget = Budget(deadline or Deadline(), work=work)
    return Prober(p, bound(p), Ledger(budget, silent, budget.granted))


def test_what_follows_from_an_excluded_point():
    asked = prober(problem(dgx1(), "all_gather"))
    asked.rate_in = lambda steps: Fraction(7, 6)  # no bound for given steps
    asked.answers[6, 2, 8] = Answer.INFEASIBLE
    assert asked.excluded_by(6, 2, 8) == "infeasible"
    assert asked.excluded_by(7, 2, 8) == "bound"  # 8 < 7 * 7/6
    assert asked.excluded_by(3, 2, 4) == "infeasible"  # twice a schedule of (3, 4) would be one of (6, 8)
    assert asked.excluded_by(5, 2, 7) is None
    assert asked.excluded_by(6, 2, 9) is None
    assert asked.excluded_by(6, 3, 8) is None
    assert asked.excluded_by(6, 2, 6) == "bound"


def test_an_unknown_answer_excludes_nothing_and_may_be_asked_again():
    asked = prober(problem(dgx1(), "all_gather"), work=1e-6)
    assert asked.probe(6, 3, 7, 1e-6) is Answer.UNKNOWN
    assert asked.excluded_by(6, 3, 7) is None
    asked.ledger.remaining = 5.0
    assert asked.probe(6, 3, 7, 5.0) is Answer.FOUND
    assert simulate(asked.problem, asked.schedules[6, 3, 7]) == (6, 3, 7)


def test_work_is_paid_for():
    asked = prober(problem(dgx1(), "all_gather"))
    before = asked.ledger.remaining
    asked.probe(2, 2, 3, 1.0)
    assert asked.ledger.remaining < before
    with asked.ledger.slice(0.5) as part:
        assert part.remaining == asked.ledger.remaining * 0.5
        part.remaining -= 1.0
    assert asked.ledger.remaining == pytest.approx(before - 1.0, abs=0.5)


def test_a_deadline_that_has_passed_asks_nothing():
    asked = prober(problem(dgx1(), "all_gather"), deadline=Deadline.after(0))
    assert asked.probe(2, 2, 3, 1.0) is Answer.UNKNOWN
    assert asked.ledger.clock_cut
    assert not frontier(asked, Range((1, 2), 2)).complete


@pytest.mark.parametrize("steps", range(1, 7))
@pytest.mark.parametrize("rounds", range(1, 16))
def test_rounds_are_dealt_evenly(steps, rounds):
    vectors = round_vectors(steps, rounds)
    assert bool(vectors) == (rounds >= steps > 1)
    assert len(set(vectors)) == len(vectors)
    for v in vectors:
        assert len(v) == steps
        assert sum(v) == rounds
        assert max(v) - min(v) <= 1


@pytest.mark.parametrize("steps", range(1, 7))
@pytest.mark.parametrize("rounds", range(1, 16))
def test_likely_rounds_taper_off(steps, rounds):
    vectors = likely_vectors(steps, rounds)
    assert bool(vectors) == (rounds >= steps > 1)
    assert len(set(vectors)) == len(vectors)
    assert set(vectors) >= set(round_vectors(steps, rounds))
    assert all(len(v) == steps and sum(v) == rounds and min(v) >= 1 for v in vectors)
    if vectors:
        assert list(vectors[0]) == sorted(vectors[0], reverse=True)
        assert vectors[0][::-1] in vectors


def test_tapered_rounds_of_known_schedules():
    assert likely_vectors(8, 17)[0] == (3, 3, 3, 2, 2, 2, 1, 1)
    assert likely_vectors(6, 10)[0] == (2, 2, 2, 2, 1, 1)


def test_a_point_alone_may_take_all_the_work():
    """Free rounds and the even ones do not find it in this work; with all of it, the tapered ones do."""
    asked = prober(problem(mi250(), "all_gather"), work=3.0)
    assert asked.probe(4, 6, 10, 0.2) is Answer.UNKNOWN
    assert asked.probe(4, 6, 10, asked.ledger.remaining, alone=True) is Answer.FOUND
    assert simulate(asked.problem, asked.schedules[4, 6, 10]) == (4, 6, 10)


def test_a_point_alone_that_is_not_found_ends():
    asked = prober(problem(mi250(), "all_gather"), work=0.3)
    assert asked.probe(3, 5, 8, 0.3, alone=True) is Answer.UNKNOWN
    assert asked.ledger.remaining < 0.1


def test_steps_that_distances_need():
    assert prober(problem(ring(7), "all_gather")).least_steps() == 3
    assert prober(problem(ring(7), "all_reduce")).least_steps() == 6
    assert prober(problem(star(4), "reduce")).least_steps() == 1


def test_a_frontier_within_a_range():
    asked = prober(problem(dgx1(), "all_gather"))
    found = frontier(asked, Range((1, 2, 3, 4), 2, 3))
    assert [simulate(asked.problem, s) for s in found.schedules] == [(2, 2, 3), (4, 3, 5)]
    assert found.complete
    assert {(e.chunks, e.rounds) for e in found.excluded if e.steps == 3} == {(1, 1), (2, 2), (3, 3), (4, 4)}
