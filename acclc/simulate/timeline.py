"""``simulate``: a schedule's timeline for one size, how busy each link is, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, Problem
from acclc.ir.schedule import OWN, Schedule, Transfer, TransferId
from acclc.simulate.events import TransferTime
from acclc.simulate.slices import sliced_times
from acclc_runtime.slicing import SLICE_BYTES


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What one link carried, and the fraction of its capacity times the total time that this is."""

    link: LinkId
    bytes: Fraction
    busy: Fraction


@dataclass(frozen=True, slots=True)
class Timeline:
    """A simulated run: seconds in total, each transfer's times in the schedule's order, each link's use."""

    shard_bytes: int
    seconds: Fraction
    transfers: tuple[TransferTime, ...]
    links: tuple[LinkUse, ...]
    critical: tuple[TransferId, ...]
    """A chain of transfers, each waiting for the one before it, that lasts from the start to the end; none where
    transfers are pipelined: they overlap with what they wait for."""
    limiting: str
    """What the time is spent on, in words."""


def simulate(
    problem: Problem,
    schedule: Schedule,
    shard_bytes: int,
    *,
    overhead: Fraction = Fraction(0),
    slice_bytes: int = SLICE_BYTES,
) -> Timeline:
    """Run a schedule for shards of ``shard_bytes`` and return its timeline; exact (see ``events``).

    ``overhead``: seconds a block needs to begin each transfer. ``slice_bytes``: what a pipelined schedule moves of a
    chunk at a time, at most: smaller ones fill a pipeline sooner, and the model has no cost of a slice.
    Raises StuckError for a schedule that cannot run.
    """
    topology = problem.topology
    times = sliced_times(problem, schedule, shard_bytes, overhead, slice_bytes)
    seconds = max((t.arrived for t in times), default=Fraction(0))
    weights = {c.id: c.weight for c in schedule.chunks}
    carried = [Fraction(0)] * len(topology.links)
    for t in schedule.transfers:
        for e in t.path:
            carried[e] += weights[t.chunk] * shard_bytes
    uses = tuple(
        LinkUse(e.id, carried[e.id], carried[e.id] / (e.capacity * seconds) if seconds else Fraction(0))
        for e in topology.links
    )
    if schedule.pipelined:
        return Timeline(shard_bytes, seconds, times, uses, (), _pipeline_limit(problem, schedule, uses))
    critical = _critical(schedule, times)
    limiting = _limiting(problem, schedule, times, uses, critical, seconds, overhead)
    return Timeline(shard_bytes, seconds, times, uses, critical, limiting)


def _critical(schedule: Schedule, times: tuple[TransferTime, ...]) -> tuple[TransferId, ...]:
    """Walk back from the last arrival: to the operand, or the block's transfer before, that it waited for."""
    if not times:
        return ()
    when = {t.id: x for t, x in zip(schedule.transfers, times, strict=True)}
    before: dict[TransferId, TransferId] = {}
    last: dict[LinkId, TransferId] = {}
    for t in schedule.transfers:
        if t.path[0] in last:
            before[t.id] = last[t.path[0]]
        last[t.path[0]] = t.id
    by_id = {t.id: t for t in schedule.transfers}
    current = max(schedule.transfers, key=lambda t: (when[t.id].arrived, -t.id)).id
    chain = [current]
    while when[current].start > 0:
        start = when[current].start
        reasons = [o for o in by_id[current].operands if o != OWN and when[o].arrived == start]
        if not reasons:
            reasons = [before[current]]
        current = reasons[0]
        chain.append(current)
    return tuple(reversed(chain))


def _limiting(
    problem: Problem,
    schedule: Schedule,
    times: tuple[TransferTime, ...],
    uses: tuple[LinkUse, ...],
    critical: tuple[TransferId, ...],
    seconds: Fraction,
    overhead: Fraction,
) -> str:
    """Say whether links, latency or waiting takes the time: the busiest link, and the critical chain's shares."""
    if not critical or not seconds:
        return "nothing moves"
    topology = problem.topology
    by_id = {t.id: t for t in schedule.transfers}
    busiest = max(uses, key=lambda u: (u.busy, -u.link))
    e = topology.links[busiest.link]
    link = f"link {topology.nodes[e.src].name} -> {topology.nodes[e.dst].name}"
    if busiest.busy >= Fraction(9, 10):
        return f"bandwidth: {link} is busy {_percent(busiest.busy)} of the time"
    delay = _chain_latency(problem, [by_id[t] for t in critical], times, schedule) + overhead * len(critical)
    if delay * 2 >= seconds:
        chain = f"{len(critical)} transfer{'s' if len(critical) > 1 else ''}"
        return f"latency: {_percent(delay / seconds)} of the time on a chain of {chain}"
    return (
        f"dependencies: a chain of {len(critical)} transfers, {_percent(delay / seconds)} of it latency; "
        f"the busiest, {link}, works {_percent(busiest.busy)} of the time"
    )


def _pipeline_limit(problem: Problem, schedule: Schedule, uses: tuple[LinkUse, ...]) -> str:
    """Say how busy the busiest link is: what it lacks is the pipeline's fill, and waiting."""
    topology = problem.topology
    busiest = max(uses, key=lambda u: (u.busy, -u.link))
    e = topology.links[busiest.link]
    link = f"link {topology.nodes[e.src].name} -> {topology.nodes[e.dst].name}"
    kind = "bandwidth" if busiest.busy >= Fraction(9, 10) else f"a pipeline of {schedule.steps} levels fills"
    return f"{kind}: {link} is busy {_percent(busiest.busy)} of the time"


def _chain_latency(
    problem: Problem, chain: list[Transfer], times: tuple[TransferTime, ...], schedule: Schedule
) -> Fraction:
    """Seconds of link latency on a chain; a transfer that waits only for its block waits for no latency."""
    when = {t.id: x for t, x in zip(schedule.transfers, times, strict=True)}
    total = Fraction(0)
    for t, following in zip(chain, [*chain[1:], None], strict=True):
        if following is None or t.id in following.operands:
            total += when[t.id].arrived - when[t.id].sent
    return total


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):.3g} %"
