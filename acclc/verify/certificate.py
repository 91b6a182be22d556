"""Check a bound from its certificate alone: what does the cut, partition or dual prove, and is it as claimed?

Written from the definitions, without a line of the code that found the bound. It proves that no schedule
can be faster; not that the bound is the best one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import NodeKind, Problem, Shard
from acclc.ir.result import Bound, Certificate, Cut, CutSum, FlowDual, LatencyBound, LongestPath, Partition, TreeDual
from acclc.verify.findings import Collector, Report


@dataclass(frozen=True, slots=True)
class BoundFacts:
    """What the certificates prove: seconds per byte of shard, steps, seconds of latency."""

    time_per_byte: Fraction
    steps: int
    seconds: Fraction


def check_certificate(problem: Problem, bound: Bound) -> Report[BoundFacts]:
    """Recompute a bound from its certificates; findings say where it claims another value than they prove."""
    found = Collector()
    time = _proven_time(problem, bound.throughput.certificate, found)
    if time is not None and bound.throughput.time_per_byte != time:
        claim = f"{bound.throughput.time_per_byte} s a byte is claimed, the certificate proves {time}"
        found.error("bound.throughput", "throughput", claim)
    unit = problem.topology.unit
    rounds = None if unit is None else bound.throughput.time_per_byte * unit
    if bound.rounds_per_chunk != rounds:
        found.error("bound.rounds", "rounds_per_chunk", f"{bound.rounds_per_chunk} is claimed, it is {rounds}")
    steps = _check_steps(problem, bound.latency, found)
    seconds = _check_seconds(problem, bound.latency, found)
    if found.failed or time is None:
        return found.report()
    return found.report(BoundFacts(time, int(steps), seconds))


def _proven_time(problem: Problem, certificate: Certificate, found: Collector) -> Fraction | None:
    """Seconds per byte of shard that a certificate proves; None where it is no valid certificate."""
    match certificate:
        case Cut():
            amounts = _cut(problem, certificate, found)
        case CutSum():
            amounts = _cut_sum(problem, certificate, found)
        case Partition():
            amounts = _partition(problem, certificate, found)
        case FlowDual():
            amounts = _flow_dual(problem, certificate, found)
        case TreeDual():
            amounts = _tree_dual(problem, certificate, found)
        case _:
            found.error("bound.certificate", "throughput", f"{type(certificate).__name__} proves no throughput")
            return None
    if amounts is None:
        return None
    load, capacity = amounts
    if load == 0:
        return Fraction(0)
    if capacity <= 0:
        found.error("bound.certificate", "throughput", "there is a load but no capacity: the problem has no schedule")
        return None
    return load / capacity


def _must_leave(shard: Shard, nodes: frozenset[int]) -> bool:
    """Whether a shard, or a contribution to it, is only inside while someone outside needs it."""
    needed_outside = not nodes.issuperset(shard.targets)
    if shard.reduced:
        return needed_outside and not nodes.isdisjoint(shard.sources)
    return needed_outside and len(shard.sources) > 0 and nodes.issuperset(shard.sources)


def _known(problem: Problem, nodes: Iterable[int], found: Collector) -> bool:
    count = len(problem.topology.nodes)
    unknown = [v for v in nodes if not 0 <= v < count]
    if unknown:
        found.error("bound.certificate", "throughput", f"there is no node {unknown[0]}")
    return not unknown


def _cut_claim(problem: Problem, cut: Cut, found: Collector) -> Fraction | None:
    """The cut's load, if it is as it says."""
    if not _known(problem, cut.nodes, found):
        return None
    nodes = frozenset(int(v) for v in cut.nodes)
    load = Fraction(sum(1 for s in problem.shards if _must_leave(s, nodes)))
    if load != cut.load:
        found.error("bound.load", "throughput", f"{cut.load} shards are said to leave the cut, it is {load}")
        return None
    return load


def _cut(problem: Problem, cut: Cut, found: Collector) -> tuple[Fraction, Fraction] | None:
    load = _cut_claim(problem, cut, found)
    if load is None:
        return None
    nodes = set(cut.nodes)
    out = (e.capacity for e in problem.topology.links if e.src in nodes and e.dst not in nodes)
    return load, sum(out, Fraction(0))


def _cut_sum(problem: Problem, claim: CutSum, found: Collector) -> tuple[Fraction, Fraction] | None:
    load = Fraction(0)
    counts = [Fraction(0)] * len(problem.topology.links)
    for weight, cut in claim.cuts:
        part = _cut_claim(problem, cut, found)
        if part is None:
            return None
        if weight < 0:
            found.error("bound.certificate", "throughput", f"a cut has the negative weight {weight}")
            return None
        load += weight * part
        nodes = set(cut.nodes)
        for e in problem.topology.links:
            if e.src in nodes and e.dst not in nodes:
                counts[e.id] += weight
    capacity = _most_carried(problem, counts, dict(claim.potentials), claim.budget_prices, found)
    return None if capacity is None else (load, capacity)


def _partition(problem: Problem, claim: Partition, found: Collector) -> tuple[Fraction, Fraction] | None:
    """Messages between parts against the links that leave one; every node that computes is in some part."""
    if not _known(problem, (v for part in claim.parts for v in part), found):
        return None
    label: dict[int, int] = {}
    for number, part in enumerate(claim.parts):
        for v in part:
            if v in label:
                found.error("bound.certificate", "throughput", f"node {v} lies in two parts")
                return None
            label[v] = number
    for n in problem.topology.nodes:
        if not _only_passes(problem, n.id):
            label.setdefault(n.id, -1 - n.id)
    load = Fraction(sum(_messages(s, label) for s in problem.shards))
    counts = [Fraction(int(e.src in label and label.get(e.dst) != label[e.src])) for e in problem.topology.links]
    capacity = _most_carried(problem, counts, dict(claim.potentials), claim.budget_prices, found)
    return None if capacity is None else (load, capacity)


def _messages(shard: Shard, label: Mapping[int, int]) -> int:
    """How often one element of a shard must pass from part to part.

    Reduced: every contributing part but one must send before any part knows the sum (every one, if the part that
    first knows it contributes nothing); after that it enters every other part that needs it.
    """
    having, needing = {label[r] for r in shard.sources}, {label[r] for r in shard.targets}
    if not having or not needing:
        return 0
    if not shard.reduced:
        return len(needing - having)
    return len(having) + len(needing) - 1 - bool(having & needing)


def _only_passes(problem: Problem, node: int) -> bool:
    """Whether a node hands on exactly what it gets: no GPU, and no switch whose copying or reducing helps here."""
    n = problem.topology.nodes[node]
    if n.kind is NodeKind.GPU:
        return False
    reducing = n.can_reduce and any(s.reduced for s in problem.shards)
    copying = n.can_multicast and any(len(s.targets) > 1 for s in problem.shards)
    return not reducing and not copying


def _most_carried(
    problem: Problem,
    counts: Sequence[Fraction],
    potentials: Mapping[int, Fraction],
    prices: Sequence[Fraction],
    found: Collector,
) -> Fraction | None:
    """The most that links, counted so often, carry within budgets and conservation: the dual's value."""
    topology = problem.topology
    wrong = [v for v in potentials if not 0 <= v < len(topology.nodes) or not _only_passes(problem, v)]
    if wrong:
        found.error("bound.certificate", "throughput", f"node {wrong[0]} has a potential but does not conserve flow")
        return None
    if any(p < 0 for p in prices) or len(prices) > len(topology.budgets):
        found.error("bound.certificate", "throughput", "the prices of budgets are not theirs, or negative")
        return None
    total = Fraction(0)
    relief = [Fraction(0)] * len(topology.links)
    for price, budget in zip(prices, topology.budgets, strict=False):
        total += price * budget.capacity
        for e in budget.links:
            relief[e] += price
    for link in topology.links:
        gain = counts[link.id] - relief[link.id]
        gain += potentials.get(link.dst, Fraction(0)) - potentials.get(link.src, Fraction(0))
        total += max(Fraction(0), gain) * link.capacity
    return total


def _lengths(problem: Problem, claim: FlowDual | TreeDual, found: Collector) -> tuple[list[Fraction], Fraction] | None:
    """Each link's length with its budgets' prices, and the sum of capacity times length."""
    topology = problem.topology
    lengths = [Fraction(0)] * len(topology.links)
    for e, y in claim.lengths:
        if not 0 <= e < len(lengths) or y < 0:
            found.error("bound.certificate", "throughput", f"link {e} has the length {y}")
            return None
        lengths[e] = y
    capacity = sum((e.capacity * lengths[e.id] for e in topology.links), Fraction(0))
    if any(p < 0 for p in claim.budget_prices) or len(claim.budget_prices) > len(topology.budgets):
        found.error("bound.certificate", "throughput", "the prices of budgets are not theirs, or negative")
        return None
    for price, budget in zip(claim.budget_prices, topology.budgets, strict=False):
        capacity += price * budget.capacity
        for e in budget.links:
            lengths[e] += price
    return lengths, capacity


def _flow_dual(problem: Problem, claim: FlowDual, found: Collector) -> tuple[Fraction, Fraction] | None:
    priced = _lengths(problem, claim, found)
    if priced is None:
        return None
    load = Fraction(0)
    table: dict[int, list[Fraction | None]] = {}
    for shard in problem.shards:
        way = _farthest(problem, shard, priced[0], table, found)
        if way is None:
            return None
        load += way
    return load, priced[1]


def _farthest(
    problem: Problem,
    shard: Shard,
    lengths: Sequence[Fraction],
    table: dict[int, list[Fraction | None]],
    found: Collector,
) -> Fraction | None:
    """The distance to the target that is farthest away; None, and a finding, where one cannot be reached."""
    ways = [_travel(problem, shard, target, lengths, table) for target in shard.targets if shard.sources]
    if any(w is None for w in ways):
        found.error("bound.certificate", "throughput", f"shard {shard.name} cannot reach all who need it")
        return None
    return max((w for w in ways if w is not None), default=Fraction(0))


def _tree_dual(problem: Problem, claim: TreeDual, found: Collector) -> tuple[Fraction, Fraction] | None:
    """What each shard needs at least, see the certificate; a link that enters a node that computes ends a hop."""
    priced = _lengths(problem, claim, found)
    if priced is None:
        return None
    ends = [int(n.id) for n in problem.topology.nodes if not _only_passes(problem, n.id)]
    onward = {u: _next_ends(problem, priced[0], u) for u in ends}
    arriving = {v: min((hop[v] for hop in onward.values() if v in hop), default=Fraction(0)) for v in ends}
    leaving = {u: min(hop.values(), default=Fraction(0)) for u, hop in onward.items()}
    least = min((cost for hop in onward.values() for cost in hop.values()), default=Fraction(0))
    alone = {int(r): int(r) for r in problem.topology.ranks}
    load = Fraction(0)
    table: dict[int, list[Fraction | None]] = {}
    for shard in problem.shards:
        way = _farthest(problem, shard, priced[0], table, found)
        if way is None:
            return None
        givers, takers = set(shard.sources), set(shard.targets)
        if not givers or not takers:
            continue
        sums = shard.reduced and len(givers) > 1
        inward = [arriving[t] for t in takers if sums or t not in givers]
        outward = [leaving[g] for g in givers if sums and takers != {g}]
        load += max(way, sum(inward, Fraction(0)), sum(outward, Fraction(0)), _messages(shard, alone) * least)
    return load, priced[1]


def _next_ends(problem: Problem, lengths: Sequence[Fraction], start: int) -> dict[int, Fraction]:
    """The nodes that compute and can be reached through none that does, with the least length of a way there."""
    out: dict[int, list[int]] = {}
    for link in problem.topology.links:
        out.setdefault(link.src, []).append(link.id)
    best: dict[int, Fraction] = {}
    wave = {start: Fraction(0)}
    while wave:
        improved: dict[int, Fraction] = {}
        for v, here in wave.items():
            for e in out.get(v, ()):
                w, there = problem.topology.links[e].dst, here + lengths[e]
                if w != start and there < best.get(w, there + 1):
                    best[w] = there
                    if _only_passes(problem, w):
                        improved[w] = there
        wave = improved
    return {v: cost for v, cost in best.items() if not _only_passes(problem, v)}


def _travel(
    problem: Problem,
    shard: Shard,
    target: int,
    lengths: Sequence[Fraction],
    table: dict[int, list[Fraction | None]],
) -> Fraction | None:
    """The least distance to a target: from the nearest holder, or (reduced) from the farthest contribution."""
    ways: list[Fraction | None] = []
    for source in shard.sources:
        if source not in table:
            table[source] = _from(problem, lengths, source)
        ways.append(table[source][target])
    reached = [w for w in ways if w is not None]
    if shard.reduced:
        return max(reached) if len(reached) == len(ways) else None
    return min(reached, default=None)


def _from(problem: Problem, lengths: Sequence[Fraction], source: int) -> list[Fraction | None]:
    """Distances from a node by label correcting: slower than the search's method, and unlike it."""
    topology = problem.topology
    out: list[list[int]] = [[] for _ in topology.nodes]
    for link in topology.links:
        out[link.src].append(link.id)
    best: list[Fraction | None] = [None] * len(topology.nodes)
    best[source] = Fraction(0)
    wave = [source]
    while wave:
        improved: dict[int, None] = {}
        for v in wave:
            here = best[v]
            assert here is not None, "only reached nodes are in a wave"
            for e in out[v]:
                w = topology.links[e].dst
                there = best[w]
                if there is None or here + lengths[e] < there:
                    best[w] = here + lengths[e]
                    improved[w] = None
        wave = list(improved)
    return best


def _check_steps(problem: Problem, claim: LatencyBound, found: Collector) -> Fraction:
    """A step ends at a GPU: count the GPUs that a way enters."""
    nodes = problem.topology.nodes
    hops = [Fraction(int(nodes[e.dst].kind is NodeKind.GPU)) for e in problem.topology.links]
    return _check_path(problem, "steps", Fraction(claim.steps), claim.steps_certificate, hops, found)


def _check_seconds(problem: Problem, claim: LatencyBound, found: Collector) -> Fraction:
    delays = [e.cls.latency for e in problem.topology.links]
    return _check_path(problem, "seconds", claim.seconds, claim.seconds_certificate, delays, found)


def _check_path(
    problem: Problem,
    what: str,
    claim: Fraction,
    path: LongestPath | None,
    lengths: Sequence[Fraction],
    found: Collector,
) -> Fraction:
    """Some shard must travel from ``path.src`` to ``path.dst``, by no shorter way than the one shown."""
    if path is None:
        if claim != 0:
            found.error(f"bound.{what}", "latency", f"{claim} is claimed without a path that proves it")
        return Fraction(0)
    if not _is_chain(problem, path):
        found.error("bound.path", "latency", f"the links shown are no path from {path.src} to {path.dst}")
        return Fraction(0)
    shown = sum((lengths[e] for e in path.path), Fraction(0))
    table: dict[int, list[Fraction | None]] = {}
    proven = Fraction(0)
    for shard in problem.shards:
        if path.dst in shard.targets and path.src in shard.sources:
            if shard.reduced:
                table.setdefault(path.src, _from(problem, lengths, path.src))
                way = table[path.src][path.dst]
            else:
                way = _travel(problem, shard, path.dst, lengths, table)
            proven = max(proven, way if way is not None else Fraction(0))
    if shown != claim or proven != claim:
        found.error(f"bound.{what}", "latency", f"{claim} is claimed; the path takes {shown}, {proven} is needed")
    return proven


def _is_chain(problem: Problem, path: LongestPath) -> bool:
    here: int = path.src
    for e in path.path:
        if not 0 <= e < len(problem.topology.links) or problem.topology.links[e].src != here:
            return False
        here = problem.topology.links[e].dst
    return here == path.dst
