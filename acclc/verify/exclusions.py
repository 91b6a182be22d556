"""Which points (C, S, R) the certificates of a file exclude: recomputed, without a line of what found them.

Legend: C chunks a shard, S steps, R rounds; a unit is what one lane carries in a round. The definitions are those of
``LastStepSet`` and ``StepDual``; both speak of stepped schedules only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from acclc.ir.problem import NodeKind, Problem
from acclc.ir.result import Excluded, Exclusion, LastStepSet, StepDual
from acclc.verify.findings import Collector, Report

Kind = tuple[bool, tuple[int, ...], tuple[int, ...]]
"""Equal shards: reduced or not, the holders (reduced: the one target), the ends that a way leads to (from)."""

MOST_STEPS = 1_000
"""Of a dual that is looked at: a file cannot ask for endless work. Schedules of many chunks may have more steps than
the machine has nodes: chunk after chunk goes the same way."""


class NoProof(Exception):  # noqa: N818 (it says what a certificate lacks)
    """A certificate that proves nothing; the message says why."""


@dataclass(frozen=True, slots=True)
class ExclusionFacts:
    """How many points are excluded, how many of them the certificates prove, and what the others rest on."""

    points: int
    proven: int
    searched: int
    """By CP-SAT: exhaustive search, which no certificate in the file shows."""
    too_large: int
    """By a bound whose certificate was too large to be kept."""


@dataclass(frozen=True, slots=True)
class Certain:
    """What is proven: least steps, least R/C, least R/C within so many steps, and terms (load, lanes, ranks)."""

    steps: int
    rate: Fraction | None
    within: tuple[tuple[int, Fraction], ...] = ()
    last: tuple[tuple[int, Fraction, int], ...] = ()

    def excludes(self, chunks: int, steps: int, rounds: int) -> bool:
        """Whether no stepped schedule has this point."""
        if steps < self.steps or rounds < steps:
            return True
        rates = [rate for most, rate in self.within if steps <= most]
        if self.rate is not None:
            rates.append(self.rate)
        if any(rounds < rate * chunks for rate in rates):
            return True
        return any(rounds < ceil(chunks * load / lanes + 1 - Fraction(1, ranks)) for load, lanes, ranks in self.last)


def certain(problem: Problem, steps: int, time_per_byte: Fraction, exclusions: Iterable[Exclusion]) -> Report[Certain]:
    """Recompute what the certificates prove; ``steps`` and ``time_per_byte`` are what the bound's own prove."""
    found = Collector()
    unit = problem.topology.unit
    within: list[tuple[int, Fraction]] = []
    last: list[tuple[int, Fraction, int]] = []
    for number, exclusion in enumerate(exclusions):
        try:
            if isinstance(exclusion, StepDual):
                within.append((exclusion.steps, proven_rate(problem, exclusion)))
            else:
                last += last_step_terms(problem, exclusion)
        except NoProof as reason:
            found.error("exclusion.certificate", f"exclusion {number}", str(reason))
    rate = None if unit is None else time_per_byte * unit
    return found.report(Certain(steps, rate, tuple(within), tuple(last)))


def check_excluded(known: Certain, excluded: Iterable[Excluded]) -> Report[ExclusionFacts]:
    """Check that each point excluded by a bound is so by what is proven, and count what is not re-proven."""
    found = Collector()
    count = dict.fromkeys(("bound", "infeasible", "step_bound", "points"), 0)
    for e in excluded:
        where = f"chunks {e.chunks}, steps {e.steps}, rounds {e.rounds}"
        if e.chunks < 1 or e.steps < 1 or e.rounds < 0 or e.reason not in count or e.reason == "points":
            found.error("exclusion.form", where, f"is no point with a reason ({e.reason!r})")
            continue
        count["points"] += 1
        if known.excludes(e.chunks, e.steps, e.rounds):
            count["bound"] += 1
        elif e.reason == "bound":
            found.error("exclusion.bound", where, "is said to be excluded by a bound; no certificate here proves it")
        else:
            count[e.reason] += 1
    return found.report(ExclusionFacts(count["points"], count["bound"], count["infeasible"], count["step_bound"]))


# -- the last step ----------------------------------------------------------------------------------------------------


def last_step_terms(problem: Problem, claim: LastStepSet) -> list[tuple[int, Fraction, int]]:
    """Return (load, lanes, ranks) of a set, for what enters it and for what leaves it. Raises NoProof."""
    topology = problem.topology
    unit = topology.unit
    inside = {int(v) for v in claim.nodes}
    if unit is None or not inside or not all(0 <= v < len(topology.nodes) for v in inside):
        raise NoProof("it is no set of nodes")
    if any(_alters(problem, n.id) for n in topology.nodes):
        raise NoProof("a switch copies or reduces, of which the argument of the last step knows nothing")
    ranks = {r for r in topology.ranks if int(r) in inside}
    entering = sum((e.capacity for e in topology.links if e.dst in inside and e.src not in inside), Fraction(0))
    leaving = sum((e.capacity for e in topology.links if e.src in inside and e.dst not in inside), Fraction(0))
    wanted = given = 0
    for s in problem.shards:
        if s.reduced:
            given += ranks.issubset(s.sources) and ranks.isdisjoint(s.targets) and bool(s.targets)
        else:
            wanted += ranks.issubset(s.targets) and ranks.isdisjoint(s.sources)
    pairs = ((wanted, entering), (given, leaving))
    terms = [(load, capacity / unit, len(ranks)) for load, capacity in pairs if ranks and load and capacity]
    if not terms:
        raise NoProof("nothing must enter or leave the set for all of its ranks")
    return terms


def _alters(problem: Problem, node: int) -> bool:
    """Whether a node that is no GPU may send what it did not receive as it is."""
    n = problem.topology.nodes[node]
    if n.kind is NodeKind.GPU:
        return False
    reducing = n.can_reduce and any(s.reduced for s in problem.shards)
    return reducing or (n.can_multicast and any(len(s.targets) > 1 for s in problem.shards))


# -- the dual for so many steps ---------------------------------------------------------------------------------------


def proven_rate(problem: Problem, claim: StepDual) -> Fraction:
    """Return the least R/C within ``claim.steps`` steps that the dual proves. Raises NoProof."""
    topology = problem.topology
    if topology.unit is None or not 1 <= claim.steps <= MOST_STEPS:
        raise NoProof(f"no bound is meant for {claim.steps} steps here")
    kinds = _kinds(problem)
    lengths = _lengths(problem, claim, kinds)
    cost = _cost(problem, claim, kinds, lengths)
    if cost <= 0:
        raise NoProof("all its numbers are nought")
    total = Fraction(0)
    for first, ((reduced, holders, ends), shards) in kinds.items():
        for end in ends:
            sources, target = ((end,), holders[0]) if reduced else (holders, end)
            total += shards * _shortest(problem, claim.steps, sources, target, lengths.get((first, end), {}))
    return total / cost


def _kinds(problem: Problem) -> dict[int, tuple[Kind, int]]:
    """The kinds of shards that must move, by their first shard, with their number."""
    first: dict[Kind, int] = {}
    count: dict[Kind, int] = {}
    for s in problem.shards:
        if s.reduced and len(s.targets) != 1:
            raise NoProof("a shard is reduced into several ranks")
        holders, ends = (s.targets, s.sources) if s.reduced else (s.sources, s.targets)
        kind = (s.reduced, tuple(sorted(set(holders))), tuple(sorted(set(ends) - set(holders))))
        if kind[2] and not kind[1]:
            raise NoProof(f"nobody holds shard {s.name}")
        if kind[2]:
            first.setdefault(kind, s.id)
            count[kind] = count.get(kind, 0) + 1
    return {number: (kind, count[kind]) for kind, number in first.items()}


Lengths = dict[tuple[int, int], dict[tuple[int, int], Fraction]]
"""By kind and end: the length of a link in a step."""


def _lengths(problem: Problem, claim: StepDual, kinds: Mapping[int, tuple[Kind, int]]) -> Lengths:
    """The lengths, each given once and of a way that there is."""
    table: Lengths = {}
    for shard, end, link, step, length in claim.lengths:
        known = shard in kinds and end in kinds[shard][0][2] and 0 <= link < len(problem.topology.links)
        if not known or not 0 <= step < claim.steps or length < 0:
            raise NoProof(f"there is no length {length} of link {link} in step {step} for shard {shard}")
        way = table.setdefault((shard, end), {})
        if (link, step) in way:
            raise NoProof(f"link {link} in step {step} has two lengths")
        way[link, step] = length
    return table


def _cost(problem: Problem, claim: StepDual, kinds: Mapping[int, tuple[Kind, int]], lengths: Lengths) -> Fraction:
    """What the lanes of a step are worth at most, over all steps."""
    topology, unit = problem.topology, problem.topology.unit
    assert unit is not None, "asked before"
    potential: dict[tuple[int, int, int], Fraction] = {}
    for kind, node, step, pi in claim.potentials:
        inner = 0 <= node < len(topology.nodes) and topology.nodes[node].kind is not NodeKind.GPU
        if kind not in kinds or not inner or _alters(problem, node):
            raise NoProof(f"node {node} has a potential but does not conserve flow")
        potential[kind, node, step] = pi
    price: dict[tuple[int, int], Fraction] = {}
    for number, step, beta in claim.budget_prices:
        if not 0 <= number < len(topology.budgets) or beta < 0:
            raise NoProof(f"budget {number} has the price {beta}")
        price[number, step] = beta
    summed: dict[tuple[int, int, int], Fraction] = {}
    for (shard, _), way in lengths.items():
        for (link, step), z in way.items():
            summed[shard, link, step] = summed.get((shard, link, step), Fraction(0)) + z
    worst = Fraction(0)
    for step in range(claim.steps):
        betas = [price.get((b, step), Fraction(0)) for b in range(len(topology.budgets))]
        total = sum((beta * b.capacity for beta, b in zip(betas, topology.budgets, strict=True)), Fraction(0))
        for e in topology.links:
            relief = sum((betas[n] for n, b in enumerate(topology.budgets) if e.id in b.links), Fraction(0))
            gains = (
                summed.get((k, e.id, step), Fraction(0))
                + potential.get((k, e.dst, step), Fraction(0))
                - potential.get((k, e.src, step), Fraction(0))
                for k in kinds
            )
            total += e.capacity * max(Fraction(0), max(gains, default=Fraction(0)) - relief)
        worst = max(worst, total / unit)
    return worst


def _shortest(
    problem: Problem, steps: int, sources: Sequence[int], target: int, way: Mapping[tuple[int, int], Fraction]
) -> Fraction:
    """The shortest way from any source to the target in so many steps; a step leads from GPU to GPU."""
    topology = problem.topology
    gpu = [n.kind is NodeKind.GPU for n in topology.nodes]
    out: list[list[tuple[int, int]]] = [[] for _ in topology.nodes]
    for link in topology.links:
        out[link.src].append((link.dst, link.id))
    here: dict[int, Fraction] = dict.fromkeys(sources, Fraction(0))
    for step in range(steps):
        there = dict(here)
        passing: dict[int, Fraction] = {}
        wave = dict(here)
        while wave:
            following: dict[int, Fraction] = {}
            for v, d in wave.items():
                for w, e in out[v]:
                    reached = d + way.get((e, step), Fraction(0))
                    known = there if gpu[w] else passing
                    if w not in known or reached < known[w]:
                        known[w] = reached
                        if not gpu[w]:
                            following[w] = reached
            wave = following
        here = there
    if target not in here:
        raise NoProof(f"rank {target} is not in reach within {steps} steps")
    return here[target]
