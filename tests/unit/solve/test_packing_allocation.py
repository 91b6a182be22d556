"""Shares of links: the optimum where budgets, uneven switches or an all_reduce ask for them."""

from dataclasses import replace
from fractions import Fraction

import pytest
from packing_cases import a100, mi250
from solve_cases import both, dgx1, machine, problem, ring

from acclc.bounds import bound
from acclc.bounds.families import Family
from acclc.bounds.rates import rate
from acclc.ir.problem import Collective, Demand, Goal, Op, Problem, Rank
from acclc.solve.packing import packed_schedule
from acclc.solve.packing.allocation import allocations
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.protocol import Deadline
from acclc.verify import check_schedule


def star(*capacities):
    """GPUs at one switch, each with its own capacity."""
    return machine(len(capacities), both([(g, len(capacities), c) for g, c in enumerate(capacities)]), switches=1)


def boxes(*ports):
    """Four GPUs a box at a switch of its own; each GPU also at a common switch, with its box's capacity."""
    gpus = 4 * len(ports)
    pairs = [(g, gpus + g // 4, ports[g // 4][0]) for g in range(gpus)]
    pairs += [(g, gpus + len(ports), ports[g // 4][1]) for g in range(gpus)]
    return machine(gpus, both(pairs), switches=len(ports) + 1)


def verified_time(task, schedule):
    report = check_schedule(task, schedule)
    assert report.ok, report.findings
    return report.facts.time_per_shard_byte


@pytest.mark.parametrize(
    ("topology", "in_turn", "overlapped"),
    [
        (star(100, *[10] * 7), Fraction(175, 1000), Fraction(1, 10)),
        (star(40, *[10] * 7), Fraction(175, 1000), Fraction(14, 110)),
        (star(20, 20, *[10] * 6), Fraction(175, 1000), Fraction(14, 100)),
        (boxes((300, 50), (300, 25), (100, 12)), Fraction(1, 36), Fraction(1, 48)),
    ],
)
def test_an_all_reduce_that_collects_and_spreads_at_the_same_time(topology, in_turn, overlapped):
    """methods.md 6 has the figures: seconds for each unit of size, halves in turn against overlapped ones."""
    task = problem(topology, "all_reduce")
    packed = packed_schedule(task)
    unit = 10**9
    assert verified_time(task, packed.schedule) * unit == overlapped
    assert bound(task).throughput.time_per_byte * unit == overlapped
    halves = [bound(problem(topology, c)).throughput.time_per_byte for c in ("all_gather", "reduce_scatter")]
    assert sum(halves) * unit / len(topology.ranks) == in_turn


@pytest.mark.parametrize("topology", [dgx1(), mi250(), a100(2), ring(5)])
def test_the_program_agrees_with_the_bound_where_halves_in_turn_are_optimal(topology):
    task = problem(topology, "all_reduce")
    assert rate(task, Family.BOTH) * float(bound(task).throughput.time_per_byte) == pytest.approx(1)


def test_allocations_are_whole_and_keep_to_links_budgets_and_switches():
    budgets = [((0, 2), 3), ((1, 4, 5), 4)]
    topology = machine(4, both([(0, 4, 2), (1, 4, 3), (2, 4, 2), (3, 4, 1), (0, 1, 1)]), switches=1, budgets=budgets)
    task = problem(topology, "all_reduce")
    least = bound(task).throughput.time_per_byte
    first = next(allocations(task, Family.BOTH, least, Effort(), 64))
    assert first.time == first.optimum == least
    assert sum(first.roots) == first.k
    room = first.k * first.time * 10**9
    load = [a + b for a, b in zip(first.gather, first.spread, strict=True)]
    assert all(n <= room * e.count for n, e in zip(load, topology.links, strict=True))
    assert all(sum(load[e] for e in of) <= room * most for of, most in budgets)
    for amounts in (first.gather, first.spread):
        into = sum(n for n, e in zip(amounts, topology.links, strict=True) if e.dst == 4)
        assert into == sum(n for n, e in zip(amounts, topology.links, strict=True) if e.src == 4)


def test_two_all_reduces_at_the_same_time_take_twice_as_long():
    topology = star(40, *[10] * 3)
    one = problem(topology, "all_reduce")
    group = tuple(Rank(r) for r in range(4))
    demand = Demand(Collective.ALL_REDUCE, group, op=Op.SUM)
    shards = tuple(s for n in range(2) for s in one.shards)
    numbered = tuple(
        replace(s, id=n, demand=n, inputs=tuple(replace(p, unit=n) for p in s.inputs),
                outputs=tuple(replace(p, unit=n) for p in s.outputs))
        for n, s in enumerate(shards)
    )  # fmt: skip
    two = Problem("two", topology, Collective.TOGETHER, (demand, demand), numbered, Goal())
    assert verified_time(two, packed_schedule(two).schedule) == 2 * verified_time(one, packed_schedule(one).schedule)


def test_few_chunks_cost_a_stated_loss():
    task = problem(star(40, *[10] * 7), "all_reduce", goal=Goal(chunks=2))
    packed = packed_schedule(task)
    assert packed.schedule.chunks_per_shard <= 2
    time = verified_time(task, packed.schedule)
    assert packed.loss == time / bound(task).throughput.time_per_byte - 1 > 0


def test_the_deadline_ends_it():
    topology = machine(4, both([(0, 1, 2), (1, 2, 3), (2, 3, 1)]), budgets=[((0, 2), 1)])
    task = problem(topology, "all_gather")
    with pytest.raises(TimeUp):
        list(allocations(task, Family.SPREAD, Fraction(1), Effort(Deadline.after(0)), 8))
    assert packed_schedule(task, Deadline.after(0)).cut
