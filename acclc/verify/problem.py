"""Problem: ids, names and rates are sound, shards are what the collective's name means, and it can be done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from acclc.ir.problem import Collective, Demand, InPlace, NodeKind, Place, Problem, Shard
from acclc.verify.findings import Collector, Report
from acclc.verify.named import IN_PLACE, REDUCING, ROOTED, Placed, expected_shards, placed
from acclc.verify.names import link_name, node_name, rank_name, shard_name


@dataclass(frozen=True, slots=True)
class ProblemFacts:
    """Sizes of a problem that is sound."""

    ranks: int
    switches: int
    links: int
    shards: int
    group: int
    """Ranks that take part."""


def check_problem(problem: Problem) -> Report[ProblemFacts]:
    """Check a problem by itself."""
    found = Collector()
    _check_topology(problem, found)
    if found.failed:
        return found.report()
    _check_demands(problem, found)
    _check_shards(problem, found)
    if found.failed:
        return found.report()
    _check_names_meaning(problem, found)
    _check_reachable(problem, found)
    nodes = problem.topology.nodes
    return found.report(
        ProblemFacts(
            ranks=len(problem.topology.ranks),
            switches=sum(n.kind is NodeKind.SWITCH for n in nodes),
            links=len(problem.topology.links),
            shards=len(problem.shards),
            group=len(problem.group),
        )
    )


def _check_topology(problem: Problem, found: Collector) -> None:
    """Ids are positions, GPUs come first, names are unique, rates are positive, budgets name links."""
    topology = problem.topology
    names = Counter(n.name for n in topology.nodes)
    gpus = len(topology.ranks)
    for position, node in enumerate(topology.nodes):
        if node.id != position:
            found.error("problem.ids", f"node {node.name}", f"has id {node.id} at position {position}")
        if names[node.name] > 1 or not node.name:
            found.error("problem.names", f"node {position}", f"the name {node.name!r} is empty or used twice")
        if (node.kind is NodeKind.GPU) != (position < gpus):
            found.error("problem.ids", f"node {node.name}", "GPUs must come first, so that ranks are node ids")
        if node.kind is not NodeKind.SWITCH and (node.can_multicast or node.can_reduce):
            found.error(
                "problem.nodes", f"node {node.name}", f"a {node.kind.value} is no switch that multicasts or reduces"
            )
    if not gpus:
        found.error("problem.nodes", topology.name, "has no GPUs")
    for position, link in enumerate(topology.links):
        where = link_name(problem, position)
        if link.id != position:
            found.error("problem.ids", where, f"has id {link.id} at position {position}")
        if not (0 <= link.src < len(topology.nodes) and 0 <= link.dst < len(topology.nodes)) or link.src == link.dst:
            found.error("problem.links", where, f"joins node {link.src} and node {link.dst}")
        if link.count < 1 or link.cls.bandwidth <= 0 or link.cls.latency < 0:
            message = f"{link.count} links of {link.cls.bandwidth} B/s and {link.cls.latency} s"
            found.error("problem.links", where, message)
    for budget in topology.budgets:
        where = f"budget {budget.name!r}"
        if budget.capacity <= 0 or not budget.links or len(set(budget.links)) != len(budget.links):
            found.error("problem.budgets", where, f"{budget.capacity} B/s over links {budget.links}")
        if any(not 0 <= k < len(topology.links) for k in budget.links):
            found.error("problem.budgets", where, f"lists links {budget.links}, not all of which exist")


def _check_demands(problem: Problem, found: Collector) -> None:
    """Groups are disjoint sets of ranks; root, operator and pairs are there exactly where they mean something."""
    seen: set[int] = set()
    if not problem.demands:
        found.error("problem.demands", problem.name, "has no demand")
    for number, demand in enumerate(problem.demands):
        where = f"demand {number} ({demand.collective.value})"
        if not demand.group or len(set(demand.group)) != len(demand.group):
            found.error("problem.groups", where, f"its group {demand.group} is empty or names a rank twice")
        if any(r not in problem.topology.ranks for r in demand.group):
            found.error("problem.groups", where, f"its group {demand.group} names what is no rank")
        shared = seen & set(demand.group)
        if shared:
            found.error("problem.groups", where, f"shares ranks {sorted(shared)} with another demand")
        seen |= set(demand.group)
        _check_fields(demand, where, problem.collective is Collective.TOGETHER, found)
    together = problem.collective is Collective.TOGETHER
    if len(problem.demands) == 1 and not together and problem.collective is not problem.demands[0].collective:
        found.error("problem.demands", problem.name, f"is called {problem.collective.value}, its demand is not")
    if len(problem.demands) > 1 and not together:
        found.error("problem.demands", problem.name, f"several demands are together, not {problem.collective.value}")


def _check_fields(demand: Demand, where: str, together: bool, found: Collector) -> None:
    custom = demand.collective is Collective.CUSTOM
    if demand.collective is Collective.TOGETHER:
        found.error("problem.demands", where, "together is no collective of one demand")
        return
    if (demand.root is not None) != (demand.collective in ROOTED) or (
        demand.root is not None and demand.root not in demand.group
    ):
        found.error("problem.demands", where, f"root {demand.root} does not fit")
    if not custom and (demand.op is not None) != (demand.collective in REDUCING):
        found.error("problem.demands", where, f"operator {demand.op} does not fit")
    if bool(demand.pairs) != (demand.collective is Collective.SEND_RECV):
        found.error("problem.demands", where, "pairs belong to send_recv, which needs some")
    may_weigh = together and demand.collective not in (Collective.CUSTOM, Collective.ALL_TO_ALL_V)
    if demand.weight < 1 or (demand.weight > 1 and not may_weigh):
        found.error("problem.demands", where, f"weight {demand.weight} is for named collectives inside `together`")
    allowed = {IN_PLACE.get(demand.collective, InPlace.NONE)}
    if demand.weight > 1 and InPlace.SAME not in allowed:
        allowed = {InPlace.NONE}  # a rank's part is not at its position times the count
    if demand.in_place not in allowed:
        found.error("problem.in_place", where, f"in place as {demand.in_place.value!r} is not what the definitions say")


def _check_shards(problem: Problem, found: Collector) -> None:
    """Each shard has inputs and outputs in its demand's group; no two shards share a place; units have no gap."""
    used: dict[tuple[str, int, int], str] = {}
    names = Counter((s.demand, s.name) for s in problem.shards)
    for position, shard in enumerate(problem.shards):
        where = shard_name(problem, position)
        if shard.id != position:
            found.error("problem.ids", where, f"has id {shard.id} at position {position}")
        if not 0 <= shard.demand < len(problem.demands):
            found.error("problem.ids", where, f"belongs to demand {shard.demand}, which does not exist")
            continue
        # the pairs of a send_recv may repeat, and so may their names
        repeats = problem.demands[shard.demand].collective is Collective.SEND_RECV
        if not shard.name or (names[(shard.demand, shard.name)] > 1 and not repeats):
            found.error("problem.names", where, "its name is empty or used twice in its demand")
        if not shard.inputs or not shard.outputs:
            found.error("problem.shards", where, "nobody holds it, or nobody needs it")
        if len(set(shard.sources)) != len(shard.inputs):
            found.error("problem.shards", where, "a rank holds it, or contributes to it, twice")
        if shard.reduced and problem.demands[shard.demand].op is None:
            found.error("problem.shards", where, "is reduced, but its demand has no operator")
        _check_places(problem, shard, "input", shard.inputs, used, found)
        _check_places(problem, shard, "output", shard.outputs, used, found)
    for kind in ("input", "output"):
        for rank in problem.topology.ranks:
            units = sorted(u for (k, r, u) in used if (k, r) == (kind, rank))
            if units != list(range(len(units))):
                found.error("problem.places", rank_name(problem, rank), f"its {kind} has gaps: units {units}")


def _check_places(
    problem: Problem,
    shard: Shard,
    kind: str,
    places: tuple[Place, ...],
    used: dict[tuple[str, int, int], str],
    found: Collector,
) -> None:
    where = shard_name(problem, shard.id)
    group = problem.demands[shard.demand].group
    for place in places:
        if place.rank not in group:
            found.error("problem.places", where, f"{kind} at {rank_name(problem, place.rank)}, outside its group")
        if place.unit < 0:
            found.error("problem.places", where, f"{kind} at unit {place.unit}")
        key = (kind, int(place.rank), place.unit)
        if key in used:
            name = f"unit {place.unit} of the {kind} of {rank_name(problem, place.rank)}"
            found.error("problem.places", where, f"shares {name} with {used[key]}")
        used[key] = where


def _check_names_meaning(problem: Problem, found: Collector) -> None:
    """The shards of a named collective are those of the definitions, no more and no fewer."""
    for number, demand in enumerate(problem.demands):
        shards = [s for s in problem.shards if s.demand == number]
        expected = expected_shards(demand, shards)
        if expected is None:
            continue
        where = f"demand {number} ({demand.collective.value})"
        actual = Counter(placed(s) for s in shards)
        for extra in sorted((actual - expected).elements()):
            found.error("problem.meaning", where, f"has a shard that the name does not mean: {_text(extra)}")
        for missing in sorted((expected - actual).elements()):
            found.error("problem.meaning", where, f"lacks a shard that the name means: {_text(missing)}")


def _text(shard: Placed) -> str:
    inputs, outputs, reduced = shard
    places = [", ".join(f"rank {r} unit {u}" for r, u in side) for side in (inputs, outputs)]
    return f"{places[0]} {'reduced ' if reduced else ''}to {places[1]}"


def _check_reachable(problem: Problem, found: Collector) -> None:
    """Whoever needs a shard can be reached from a holder; for a reduced one, from every contributor."""
    successors: dict[int, list[int]] = {n.id: [] for n in problem.topology.nodes}
    for link in problem.topology.links:
        successors[link.src].append(link.dst)
    reach = {rank: _reach(successors, rank) for rank in problem.topology.ranks}
    for shard in problem.shards:
        for target in dict.fromkeys(shard.targets):
            missing = [s for s in shard.sources if target not in reach[s]]
            if missing and (shard.reduced or len(missing) == len(shard.sources)):
                names = ", ".join(node_name(problem, s) for s in missing)
                message = f"no path leads from {names} to {node_name(problem, target)}"
                found.error("problem.reach", shard_name(problem, shard.id), message)


def _reach(successors: dict[int, list[int]], start: int) -> set[int]:
    seen, stack = {start}, [start]
    while stack:
        for following in successors[stack.pop()]:
            if following not in seen:
                seen.add(following)
                stack.append(following)
    return seen
