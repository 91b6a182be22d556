"""What the panel says."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hand_built import dgx1, problem_of, topology
from view_cases import into_first, ring_all_gather, ring_reduce, star_all_gather

from acclc.ir.problem import Collective, Goal, GoalKind, Problem
from acclc.ir.result import Excluded, Status
from acclc.ir.schedule import Schedule
from acclc.simulate import step_time
from acclc.view.figures import link_utilisation, step_loads, step_seconds, time_per_byte
from acclc.view.model import ViewVariant
from acclc.view.words import (
    algbw,
    asked_words,
    exclusion_words,
    gap,
    gap_words,
    limit_words,
    range_words,
    size_words,
    status_words,
)


@pytest.mark.parametrize("case", [ring_all_gather(5), ring_reduce(4), star_all_gather(3)])
def test_figures_agree_with_the_simulator_and_with_each_other(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    assert time_per_byte(problem, schedule) == step_time(problem, schedule)[1] == sum(step_seconds(problem, schedule))
    carried = sum((w for load in step_loads(problem, schedule) for w in load.values()), Fraction(0))
    assert carried == sum((schedule.chunks[t.chunk].weight * len(t.path) for t in schedule.transfers), Fraction(0))
    total = sum(
        (b * x.capacity for b, x in zip(link_utilisation(problem, schedule), problem.topology.links, strict=True))
    )
    assert total * time_per_byte(problem, schedule) == carried


def test_a_budget_lengthens_a_step() -> None:
    problem, schedule = ring_all_gather(4)
    used = schedule.transfers[0].path + schedule.transfers[1].path
    shared = topology(4, [(x.src, x.dst, 1, 10) for x in problem.topology.links], budgets=[(used, 5)])
    assert time_per_byte(replace(problem, topology=shared), schedule) == 4 * time_per_byte(problem, schedule)


def test_the_gap_is_exact() -> None:
    problem, schedule = ring_all_gather(4)
    bound = into_first(problem, 2)
    assert gap(problem, schedule, bound) == 1
    assert gap_words(problem, schedule, bound) == "2 times the throughput bound; 1 step more than the fewest possible."
    met = replace(bound, throughput=replace(bound.throughput, time_per_byte=time_per_byte(problem, schedule)))
    assert gap_words(problem, schedule, met).startswith("Throughput is exactly the bound; ")
    near = replace(bound, throughput=replace(bound.throughput, time_per_byte=time_per_byte(problem, schedule) * 8 / 9))
    assert gap_words(problem, schedule, near).startswith("12.5 % above the throughput bound")
    wrong = replace(bound, throughput=replace(bound.throughput, time_per_byte=time_per_byte(problem, schedule) * 2))
    assert "cannot be" in gap_words(problem, schedule, wrong)
    nothing = replace(bound, throughput=replace(bound.throughput, time_per_byte=Fraction(0)))
    assert gap(problem, schedule, nothing) is None
    assert gap_words(problem, schedule, nothing).startswith("Nothing has to move")


def test_algbw_counts_the_size_of_the_collective() -> None:
    problem, schedule = ring_all_gather(4)
    assert algbw(problem, time_per_byte(problem, schedule)) == Fraction(4, 3) * 10 * 10**9
    assert algbw(problem, Fraction(0)) == 0


def test_what_limits_is_named_by_what_the_links_share() -> None:
    assert (
        limit_words(*star_all_gather(4))
        == "The whole schedule is limited by all 8 link directions: busy 100 % of the time."
    )
    problem, schedule = ring_all_gather(4)
    assert limit_words(problem, schedule) == (
        "The whole schedule is limited by g[0] → g[1], g[1] → g[2], g[2] → g[3] and 1 more: busy 100 % of the time. "
        "4 link directions of 8 carry nothing."
    )
    problem, schedule = star_all_gather(3)
    inward = tuple(t for t in schedule.transfers if t.dst == 0)
    words = limit_words(problem, replace(schedule, transfers=inward))
    assert words.startswith("The whole schedule is limited by the 1 link direction into g[0]: busy 100 %")
    assert limit_words(problem, replace(schedule, transfers=())) == "Nothing moves."


@pytest.mark.parametrize(
    "collective", [c for c in Collective if c not in ("custom", "together", "all_to_all_v", "send_recv")]
)
def test_every_collective_is_said_in_words(collective: Collective) -> None:
    words = asked_words(problem_of(dgx1(), collective, root=3))
    assert "{" not in words
    assert "8 ranks" in words
    rooted = collective in ("broadcast", "reduce", "gather", "scatter")
    assert ("g[3]" in words) == rooted
    assert ("Operator: sum." in words) == (collective in ("all_reduce", "reduce_scatter", "reduce"))
    assert words.endswith("Goal: the frontier between few steps and high throughput.")


def test_limits_and_sizes_of_the_goal_are_said() -> None:
    problem = problem_of(dgx1(), Collective.ALL_GATHER)
    point = replace(problem, goal=Goal(GoalKind.POINT, chunks=3, steps=2, rounds=1))
    assert asked_words(point).endswith("Goal: one point: 3 chunks, 2 steps, 1 round.")
    sizes = replace(problem, goal=Goal(GoalKind.SIZES, min_bytes=1024, max_bytes=1 << 30, steps=4))
    assert asked_words(sizes).endswith("range, at most 4 steps, from 1 KiB to 1 GiB.")


def test_several_demands_are_said_one_by_one() -> None:
    problem = problem_of(dgx1(), Collective.ALL_GATHER)
    demand = problem.demands[0]
    halves = (replace(demand, group=demand.group[:4]), replace(demand, group=demand.group[4:]))
    words = asked_words(replace(problem, collective=Collective.TOGETHER, demands=halves))
    assert "all_gather among g[0], g[1], g[2], g[3]: Each of the 4 ranks" in words
    assert "all_gather among g[4], g[5], g[6], g[7]: Each of the 4 ranks" in words


def test_statuses_exclusions_ranges_and_sizes() -> None:
    assert len({status_words(s) for s in Status}) == len(Status)
    assert exclusion_words(Excluded(1, 2, 3, "bound")) == "The lower bound forbids it."
    assert exclusion_words(Excluded(1, 2, 3, "infeasible", "seed 7")).endswith("no symmetry imposed. Seed 7.")
    schedule = ring_all_gather(3)[1]
    ranges = [(None, None), (0, 1 << 20), (1 << 20, None), (1 << 10, 1 << 20)]
    words = [range_words(ViewVariant(schedule, (), min_bytes=a, max_bytes=b)) for a, b in ranges]
    assert words == ["all sizes", "up to 1 MiB", "1 MiB and more", "1 KiB to 1 MiB"]
    assert [size_words(s) for s in (0, 1023, 1536, 64 << 20, 1 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "64 MiB",
        "1024 GiB",
    ]
