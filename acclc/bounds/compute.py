"""``bound``: both lower bounds of a problem, each with what proves it.

Candidates come from max-flows (cuts), merging (partitions) and linear programs (flows, allocations); every
one is evaluated exactly by :mod:`acclc.bounds.loads`, and the largest counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from acclc.bounds.latency import latency_bound
from acclc.bounds.loads import cut_load, value
from acclc.bounds.words import certificate_words
from acclc.ir.problem import Problem
from acclc.ir.result import Bound, Certificate, Cut, Partition, ThroughputBound


def bound(problem: Problem) -> Bound:
    """Return the lower bounds on time per byte of shard, on steps and on latency.

    Raises UnreachableError (a ValueError with names) where data cannot get to a rank that needs it.
    """
    latency = latency_bound(problem)
    throughput = throughput_bound(problem)
    unit = problem.topology.unit
    return Bound(throughput, latency, None if unit is None else throughput.time_per_byte * unit)


def throughput_bound(problem: Problem) -> ThroughputBound:
    """Return the best proven time per byte of shard; among equal ones the simplest certificate."""
    best: Certificate = Cut((), Fraction(0))
    time = Fraction(0)
    if problem.topology.links:
        for certificate in candidates(problem):
            proven = value(problem, certificate)
            if proven > time:
                best, time = certificate, proven
    return ThroughputBound(time, best, certificate_words(problem, best))


def candidates(problem: Problem) -> Iterator[Certificate]:
    """Yield certificates, simple ones first."""
    from acclc.bounds.allocation import best_cut_sum, needed, priced_partition
    from acclc.bounds.cuts import CutFinder, best_cut
    from acclc.bounds.flow import as_cut, best_flow_dual, simple, traffic
    from acclc.bounds.groups import group_candidates
    from acclc.bounds.partition import best_partition, merging
    from acclc.bounds.suggested import suggested

    finder = CutFinder(problem)
    nodes = best_cut(problem, finder)
    if nodes is None:
        return
    yield Cut(nodes, Fraction(cut_load(problem.shards, nodes)))
    if any(s.reduced and len(s.targets) > 1 for s in problem.shards):
        parts = best_partition(problem)
        if parts is not None:
            yield Partition(parts)
        if needed(problem):
            partition = priced_partition(problem, merging(problem))
            if partition is not None:
                yield partition
        partitions = tuple(suggested(problem))
        yield from map(Partition, partitions)
        if needed(problem) and partitions:
            partition = priced_partition(problem, partitions)
            if partition is not None:
                yield partition
    yield from group_candidates(problem)
    flows = traffic(problem)
    if flows and not simple(problem, flows):
        dual = best_flow_dual(problem)
        if dual is not None:
            cut = as_cut(problem, dual)
            yield dual if cut is None else cut
    if needed(problem) and sum(map(sum, (c.values() for c in flows.values()))) < len(problem.shards):
        cuts = best_cut_sum(problem, finder, nodes)
        if cuts is not None:
            yield cuts
