"""Bounds said to a person: names instead of numbers of nodes, the smaller side of a cut, rates with units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from acclc.bounds.loads import between, cut_load, leaving, part_numbers, partition_load, passing_nodes
from acclc.ir.problem import Collective, LinkId, NodeId, NodeKind, Problem, Topology
from acclc.ir.result import Certificate, Cut, CutSum, FlowDual, Partition, TreeDual

SHOWN = 4
"""Names listed before the rest is only counted."""

SHARD = {
    Collective.ALL_GATHER: "a shard is one rank's input",
    Collective.GATHER: "a shard is one rank's input",
    Collective.REDUCE_SCATTER: "a shard is one rank's output",
    Collective.SCATTER: "a shard is one rank's output",
    Collective.ALL_TO_ALL: "a shard is the block of one pair of ranks",
    Collective.ALL_REDUCE: "a shard is the whole vector",
    Collective.BROADCAST: "a shard is the whole vector",
    Collective.REDUCE: "a shard is the whole vector",
}


def rate_text(rate: Fraction) -> str:
    """Return a rate with a unit (``12.5 GB/s``)."""
    for unit, size in (("GB/s", 10**9), ("MB/s", 10**6), ("kB/s", 10**3)):
        if rate >= size:
            return f"{float(rate / size):g} {unit}"
    return f"{float(rate):g} B/s"


def seconds_text(seconds: Fraction) -> str:
    """Return a duration with a unit (``1.4 us``)."""
    for unit, size in (("s", Fraction(1)), ("ms", Fraction(1, 10**3)), ("us", Fraction(1, 10**6))):
        if seconds >= size:
            return f"{float(seconds / size):g} {unit}"
    return f"{float(seconds * 10**9):g} ns"


def names_text(topology: Topology, nodes: Sequence[NodeId]) -> str:
    """Return a node set in words: ``{g[14], g[15]}``; a long one by its first names and their number."""
    names = [topology.nodes[v].name for v in nodes]
    if len(names) <= SHOWN:
        return "{" + ", ".join(names) + "}"
    return "{" + ", ".join(names[: SHOWN - 1]) + f" and {len(names) - SHOWN + 1} more}}"


def links_text(topology: Topology, links: Iterable[LinkId]) -> str:
    """Return links by number and rate: ``6 links of 50 GB/s`` or ``4 links of 50 GB/s and 1 of 12.5 GB/s``."""
    tally: Counter[Fraction] = Counter()
    for e in links:
        tally[topology.links[e].cls.bandwidth] += topology.links[e].count
    parts: list[str] = []
    for rate, count in sorted(tally.items(), reverse=True):
        noun = ("link " if count == 1 else "links ") if not parts else ""
        parts.append(f"{count} {noun}of {rate_text(rate)}")
    return " and ".join(parts) if parts else "no link"


def certificate_words(problem: Problem, certificate: Certificate) -> str:
    """Return one sentence that says what a throughput certificate proves and why."""
    match certificate:
        case Cut():
            text = _cut_words(problem, certificate)
        case CutSum(cuts):
            text = _cut_sum_words(problem, cuts)
        case Partition(parts):
            text = _partition_words(problem, parts) + _within(problem, certificate)
        case FlowDual():
            text = _flow_words(problem, certificate, "shortest ways")
        case TreeDual():
            text = _flow_words(problem, certificate, "cheapest trees")
        case _:
            raise ValueError(f"{type(certificate).__name__} proves no throughput")
    shard = SHARD.get(problem.collective)
    return f"{text} ({shard})" if shard else text


def _cut_words(problem: Problem, cut: Cut) -> str:
    topology = problem.topology
    links = leaving(topology, cut.nodes)
    inside = set(cut.nodes)
    outside = tuple(n.id for n in topology.nodes if n.id not in inside)
    load = cut_load(problem.shards, cut.nodes)
    if load == 0:
        return "no data has to move"
    what = "1 shard" if load == 1 else f"{load} shards"
    # GPUs say most; passing nodes are named only where a side has nothing else or they are few.
    small_out = len(outside) <= len(cut.nodes)
    side = names_text(topology, outside if small_out else tuple(sorted(cut.nodes)))
    total = sum((topology.links[e].capacity for e in links), Fraction(0))
    rate = f"{links_text(topology, links)}"
    if len(links) > 1 or (links and topology.links[links[0]].count > 1):
        rate += f" ({rate_text(total)})"
    if small_out:
        senders = sum(1 for v in cut.nodes if topology.nodes[v].kind is NodeKind.GPU)
        who = "1 rank" if senders == 1 else f"{senders} ranks"
        return f"{who} must send {what} into {side} over {rate}"
    return f"{what} must leave {side} over {rate}"


def _within(problem: Problem, certificate: Partition) -> str:
    """What narrows the links between parts further."""
    budgets = [b.name for b, beta in zip(problem.topology.budgets, certificate.budget_prices, strict=False) if beta > 0]
    limits = [f"the budget {name}" for name in budgets]
    limits += [f"what can pass through {problem.topology.nodes[v].name}" for v, _ in certificate.potentials]
    return f", within {_some(limits)}" if limits else ""


def _some(limits: list[str]) -> str:
    """The first of some limits, and how many more there are."""
    more = len(limits) - 1
    return limits[0] if not more else f"{limits[0]} and {more} more limit{'s' if more > 1 else ''}"


def _cut_sum_words(problem: Problem, cuts: tuple[tuple[Fraction, Cut], ...]) -> str:
    topology = problem.topology
    heaviest = max(cuts, key=lambda x: (x[0], -len(x[1].nodes)))[1]
    inside = set(heaviest.nodes)
    outside = tuple(n.id for n in topology.nodes if n.id not in inside)
    if len(outside) <= len(heaviest.nodes):
        side = "into " + names_text(topology, outside)
    else:
        side = "out of " + names_text(topology, tuple(sorted(heaviest.nodes)))
    plural = "1 cut" if len(cuts) == 1 else f"{len(cuts)} weighted cuts"
    limits = [f"the budget {b.name}" for b in topology.budgets]
    limits += [f"what can pass through {topology.nodes[v].name}" for v in passing_nodes(problem)]
    return f"{plural} (the heaviest: {side}) share the links within {_some(limits)}, and no division of them is faster"


def _partition_words(problem: Problem, parts: tuple[tuple[NodeId, ...], ...]) -> str:
    topology = problem.topology
    part_of = part_numbers(problem, parts)
    links = between(topology, part_of)
    load = partition_load(problem.shards, part_of)
    total = sum((topology.links[e].capacity for e in links), Fraction(0))
    if all(len(p) == 1 for p in parts):
        who = f"{len(parts)} ranks"
    else:
        who = f"{len(parts)} groups of ranks ({names_text(topology, max(parts, key=len))} is one)"
    over = f"{links_text(topology, links)} ({rate_text(total)})"
    return f"between {who} {load} messages an element must pass, over {over}"


def _flow_words(problem: Problem, dual: FlowDual | TreeDual, what: str) -> str:
    topology = problem.topology
    priced = [(y, e) for e, y in dual.lengths if y > 0]
    budgets = [b.name for b, beta in zip(topology.budgets, dual.budget_prices, strict=False) if beta > 0]
    if not priced:
        scarce = f"the budget {budgets[0]}" if len(budgets) == 1 else f"the {len(budgets)} budgets"
        return (
            f"with budgets weighed by their scarcity, the {what} of all {len(problem.shards)} shards "
            f"together need {scarce} for at least this time"
        )
    top = max(y for y, _ in priced)
    tight = [e for y, e in priced if y == top]
    e = topology.links[tight[0]]
    example = f"{topology.nodes[e.src].name} -> {topology.nodes[e.dst].name}"
    return (
        f"with links weighed by their scarcity, the {what} of all {len(problem.shards)} shards together "
        f"need {len(priced)} links ({example} is one of the {len(tight)} scarcest) for at least this time"
    )
