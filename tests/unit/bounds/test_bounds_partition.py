"""The search for partitions, against the same search written plainly."""

from collections.abc import Iterator
from fractions import Fraction

from hand_built import problem_of, switched
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bounds_cuts import machines

from acclc.bounds.loads import between, part_numbers, partition_load, passing_nodes, value
from acclc.bounds.partition import best_partition, merging
from acclc.ir.problem import Collective, Problem, Topology
from acclc.ir.result import Partition

Parts = tuple[tuple[int, ...], ...]


def ratio(problem: Problem, parts: Parts) -> Fraction:
    label = part_numbers(problem, parts)
    room = sum((problem.topology.links[e].capacity for e in between(problem.topology, label)), Fraction(0))
    load = partition_load(problem.shards, label)
    return load / room if load and room else Fraction(0)


def join(parts: Parts, chosen: set[int], extra: tuple[int, ...] = ()) -> Parts:
    joined = tuple(sorted({v for i in chosen for v in parts[i]} | set(extra)))
    return tuple(joined if i == min(chosen) else p for i, p in enumerate(parts) if i not in chosen or i == min(chosen))


def options(problem: Problem, parts: Parts) -> Iterator[Parts]:
    """The closest pair; then what is around each passing node that is in no part yet."""
    links, label = problem.topology.links, {v: i for i, part in enumerate(parts) for v in part}
    joint: dict[tuple[int, int], Fraction] = {}
    for e in links:
        if e.src in label and e.dst in label and label[e.src] != label[e.dst]:
            a, b = sorted((label[e.src], label[e.dst]))
            joint[a, b] = joint.get((a, b), Fraction(0)) + e.capacity
    if joint:
        yield join(parts, set(max(sorted(joint), key=lambda pair: joint[pair])))
    for hub in passing_nodes(problem):
        near = {label[e.src] for e in links if e.dst == hub and e.src in label}
        near |= {label[e.dst] for e in links if e.src == hub and e.dst in label}
        if hub not in label and near and len(parts) - len(near) + 1 >= 2:
            yield join(parts, near, (hub,))


def plainly(problem: Problem) -> Iterator[Parts]:
    parts: Parts = tuple((r,) for r in problem.topology.ranks)
    yield parts
    while len(parts) > 2:
        found = list(options(problem, parts))
        if not found:
            return
        parts = max(found, key=lambda p: ratio(problem, p))
        yield parts


@settings(max_examples=80, deadline=None)
@given(machines(6, 3), st.sampled_from([Collective.ALL_REDUCE, Collective.ALL_GATHER]))
def test_merging_is_that_of_the_definition(machine: Topology, collective: Collective) -> None:
    problem = problem_of(machine, collective)
    stages = list(plainly(problem))
    assert list(merging(problem)) == stages
    best = best_partition(problem)
    assert best == max(stages, key=lambda p: ratio(problem, p))


def test_boxes_are_merged_around_their_switches() -> None:
    problem = problem_of(switched(4, 300), Collective.ALL_REDUCE)
    parts = best_partition(problem)
    assert parts == tuple((*range(8 * b, 8 * b + 8), 32 + b) for b in range(4))
    assert value(problem, Partition(parts)) == Fraction(2 * 3, 32 * 25 * 10**9)
