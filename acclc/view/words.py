"""The panel of the page in words: what was asked, what is proven, what was achieved, what limits it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from acclc.ir.problem import Collective, Demand, GoalKind, Link, NodeId, Problem
from acclc.ir.result import Bound, Excluded, Status
from acclc.ir.schedule import Schedule
from acclc.simulate import size_factor
from acclc.view.figures import link_utilisation, time_per_byte
from acclc.view.model import ViewVariant

_ASKED = {
    Collective.ALL_GATHER: "Each of the {n} ranks has one shard. In the end every rank has all {n} shards.",
    Collective.REDUCE_SCATTER: "Each of the {n} ranks has {n} shards. In the end rank i has shard i, reduced over "
    "all ranks.",
    Collective.ALL_REDUCE: "Each of the {n} ranks has a vector. In the end every rank has their reduction.",
    Collective.BROADCAST: "{root} has a vector. In the end each of the {n} ranks has it.",
    Collective.REDUCE: "Each of the {n} ranks has a vector. In the end {root} has their reduction.",
    Collective.GATHER: "Each of the {n} ranks has one shard. In the end {root} has all {n} shards.",
    Collective.SCATTER: "{root} has {n} shards. In the end each of the {n} ranks has its own.",
    Collective.ALL_TO_ALL: "Each of the {n} ranks has a block for every other. In the end each has the {n} blocks "
    "that are for it.",
    Collective.ALL_TO_ALL_V: "Each of the {n} ranks has a block of its own size for every other. In the end each has "
    "the blocks that are for it.",
    Collective.SEND_RECV: "{pairs} ranks each send one vector to their partner.",
    Collective.CUSTOM: "{shards} shards, each from the ranks that have it to the ranks that need it.",
    Collective.TOGETHER: "{shards} shards, each from the ranks that have it to the ranks that need it.",
}

_GOALS = {
    GoalKind.LATENCY: "the least number of steps",
    GoalKind.BANDWIDTH: "the highest throughput",
    GoalKind.PARETO: "the frontier between few steps and high throughput",
    GoalKind.SIZES: "the best schedule for each size in a range",
    GoalKind.POINT: "one point",
}

_STATUS = {
    Status.OPTIMAL: "Proven optimal.",
    Status.FEASIBLE: "The best schedule found; how far it is from the bound is stated with each variant.",
    Status.FALLBACK: "Constructed without search; how far it is from the bound is stated with each variant.",
    Status.INFEASIBLE: "Proven not to exist within the limits that were set.",
    Status.UNKNOWN: "Neither found nor excluded within the time that was allowed.",
}


def plural(count: int | Fraction, noun: str) -> str:
    """``1 link``, ``2 links``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size_words(size: int) -> str:
    """A size in bytes as people write it: ``64 KiB`` where that is exact, else rounded."""
    value = Fraction(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value} {unit}" if value.denominator == 1 else f"{float(value):.4g} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def asked_words(problem: Problem) -> str:
    """What was asked: the collective of each demand, and the goal with its limits."""
    many = len(problem.demands) > 1
    parts = [_demand_words(problem, demand, name=many) for demand in problem.demands]
    if problem.collective in (Collective.CUSTOM, Collective.TOGETHER) and not many:
        parts = [_ASKED[problem.collective].format(shards=len(problem.shards))]
    goal = problem.goal
    limits = [
        plural(value, noun)
        for value, noun in ((goal.chunks, "chunk"), (goal.steps, "step"), (goal.rounds, "round"))
        if value is not None
    ]
    text = f"Goal: {_GOALS[goal.kind]}"
    if limits:
        text += (": " if goal.kind is GoalKind.POINT else ", at most ") + ", ".join(limits)
    if goal.min_bytes is not None and goal.max_bytes is not None:
        text += f", from {size_words(goal.min_bytes)} to {size_words(goal.max_bytes)}"
    return " ".join([*parts, text + "."])


def _demand_words(problem: Problem, demand: Demand, *, name: bool) -> str:
    nodes = problem.topology.nodes
    text = _ASKED[demand.collective].format(
        n=len(demand.group),
        root=nodes[demand.root].name if demand.root is not None else "the root",
        pairs=len(demand.pairs),
        shards=len(problem.shards),
    )
    if demand.op is not None:
        text += f" Operator: {demand.op}."
    if demand.weight > 1:
        text += f" Weight {demand.weight}: vectors of {demand.weight} counts."
    if name:
        members = ", ".join(nodes[r].name for r in demand.group)
        text = f"{demand.collective} among {members}: {text}"
    return text


def status_words(status: Status) -> str:
    """The end of the search in a sentence."""
    return _STATUS[status]


def exclusion_words(excluded: Excluded) -> str:
    """Why there is no schedule at this point."""
    reason = {
        "bound": "The lower bound forbids it.",
        "step_bound": "A lower bound for this number of steps forbids it.",
        "infeasible": "Proven infeasible by exhaustive search, no symmetry imposed.",
    }.get(excluded.reason, excluded.reason)
    detail = excluded.detail.strip()
    if detail:
        detail = f" {detail[0].upper()}{detail[1:]}" + ("" if detail.endswith(".") else ".")
    return reason + detail


def algbw(problem: Problem, seconds_per_byte: Fraction) -> Fraction:
    """S / time in bytes per second (0 for a collective that moves nothing)."""
    return size_factor(problem) / seconds_per_byte if seconds_per_byte else Fraction(0)


def rate_words(bytes_per_second: Fraction) -> str:
    """A bandwidth in GB/s (1e9 bytes)."""
    return f"{float(bytes_per_second / 10**9):.4g} GB/s"


def gap(problem: Problem, schedule: Schedule, bound: Bound) -> Fraction | None:
    """How much longer than the throughput bound a schedule takes, as a fraction of the bound; None without one."""
    least = bound.throughput.time_per_byte
    return time_per_byte(problem, schedule) / least - 1 if least else None


def gap_words(problem: Problem, schedule: Schedule, bound: Bound) -> str:
    """The gap in words; also against the bound on steps."""
    over = gap(problem, schedule, bound)
    if over is None:
        throughput = "Nothing has to move"
    elif over == 0:
        throughput = "Throughput is exactly the bound"
    elif over >= 1:
        throughput = f"{float(over + 1):.3g} times the throughput bound"
    elif over > 0:
        throughput = f"{float(over * 100):.3g} % above the throughput bound"
    else:
        throughput = "Below the throughput bound, which cannot be: please report this"
    if schedule.pipelined:
        return f"{throughput}; a pipeline of {plural(schedule.steps, 'level')}."
    fewest = bound.latency.steps
    more = schedule.steps - fewest
    steps = "the fewest steps possible" if more == 0 else f"{plural(more, 'step')} more than the fewest possible"
    return f"{throughput}; {steps}."


def range_words(variant: ViewVariant) -> str:
    """For which sizes a variant is chosen."""
    if variant.by_name:
        return "by name only"
    low, high = variant.min_bytes or 0, variant.max_bytes
    if low == 0 and high is None:
        return "all sizes"
    if high is None:
        return f"{size_words(low)} and more"
    return f"up to {size_words(high)}" if low == 0 else f"{size_words(low)} to {size_words(high)}"


def limit_words(problem: Problem, schedule: Schedule) -> str:
    """Which links are busiest, and what they have in common."""
    if not schedule.transfers:
        return "Nothing moves."
    topology = problem.topology
    busy = link_utilisation(problem, schedule)
    most = max(busy)
    fullest = [x for x in topology.links if busy[x.id] == most]
    used = sum(b > 0 for b in busy)
    percent = f"{float(most * 100):.4g} %"
    who = _common_end(problem, fullest)
    if who is None:
        names = [f"{topology.nodes[x.src].name} → {topology.nodes[x.dst].name}" for x in fullest[:3]]
        rest = len(fullest) - len(names)
        who = ", ".join(names) + (f" and {rest} more" if rest else "")
    what = "The whole schedule is limited by" if most == 1 else "No link is always busy; the busiest are"
    idle = len(busy) - used
    tail = f" {plural(idle, 'link direction')} of {len(busy)} carry nothing." if idle else ""
    return f"{what} {who}: busy {percent} of the time.{tail}"


def _common_end(problem: Problem, links: list[Link]) -> str | None:
    """Name a set of links by what they share: all links of the machine, or all that meet one node in one way."""
    topology = problem.topology
    if len(links) == len(topology.links):
        return f"all {len(links)} link directions"
    chosen = {x.id for x in links}
    ways: tuple[tuple[str, Callable[[Link], tuple[NodeId, ...]]], ...] = (
        ("into", lambda x: (x.dst,)),
        ("out of", lambda x: (x.src,)),
        ("at", lambda x: (x.src, x.dst)),
    )
    for word, ends in ways:
        for node in ends(links[0]):
            if {x.id for x in topology.links if node in ends(x)} == chosen:
                return f"the {plural(len(links), 'link direction')} {word} {topology.nodes[node].name}"
    return None
