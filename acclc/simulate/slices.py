"""Pipelined schedules: how long they take when every chunk is cut into slices, as the runtime cuts it.

Slice g of every chunk is sent before slice g + 1 of any, so that a chain of transfers is passed slice by slice. The
closed form has the latencies of the longest chain, a slice's time on each of its transfers (the fill), and for each
byte what the fullest link or budget takes. The event-driven time runs the slices one by one; of more than it is worth
running, the others take what the later half of those that ran took, and no less than the fullest link needs.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

from acclc.ir.problem import LinkId, Problem
from acclc.ir.schedule import OWN, Schedule, Transfer, TransferId
from acclc.simulate.events import TransferTime, transfer_times
from acclc_runtime.slicing import SLICE_BYTES

MOST_EVENTS = 2000
"""Transfers of slices that are run one by one; at least ``FEWEST`` slices are."""
FEWEST = 4


def pipeline_time(problem: Problem, schedule: Schedule) -> tuple[Fraction, Fraction]:
    """Return (seconds fixed, seconds per byte of shard) of a pipelined schedule."""
    topology = problem.topology
    longest = max(c.weight for c in schedule.chunks)
    ready: list[Fraction] = []
    load: dict[LinkId, Fraction] = {}
    for t in schedule.transfers:
        weight = schedule.chunks[t.chunk].weight
        start = max((ready[o] for o in t.operands if o != OWN), default=Fraction(0))
        fill = SLICE_BYTES * weight / longest / min(topology.links[e].capacity for e in t.path)
        ready.append(start + fill + sum((topology.links[e].cls.latency for e in t.path), Fraction(0)))
        for e in t.path:
            load[e] = load.get(e, Fraction(0)) + weight
    shares = [w / topology.links[e].capacity for e, w in load.items()]
    shares += [sum((load.get(e, Fraction(0)) for e in b.links), Fraction(0)) / b.capacity for b in topology.budgets]
    return max(ready, default=Fraction(0)), max(shares, default=Fraction(0))


def chain_latency(problem: Problem, schedule: Schedule) -> Fraction:
    """Return the seconds of latency on the longest chain of transfers: what an empty message takes, pipelined."""
    links = problem.topology.links
    ready: list[Fraction] = []
    for t in schedule.transfers:
        start = max((ready[o] for o in t.operands if o != OWN), default=Fraction(0))
        ready.append(start + sum((links[e].cls.latency for e in t.path), Fraction(0)))
    return max(ready, default=Fraction(0))


def sliced_times(
    problem: Problem,
    schedule: Schedule,
    shard_bytes: int,
    overhead: Fraction = Fraction(0),
    slice_bytes: int = SLICE_BYTES,
) -> tuple[TransferTime, ...]:
    """Return every transfer's times: of its first slice's start, and of its last slice's end and arrival.

    What is not pipelined runs whole. ``slice_bytes``: of a chunk, at most.
    Raises StuckError for a schedule that cannot run.
    """
    if not schedule.pipelined:
        return transfer_times(problem, schedule, shard_bytes, overhead)
    longest = max(c.weight for c in schedule.chunks)
    slices = max(1, ceil(longest * shard_bytes / slice_bytes))
    run = min(slices, max(FEWEST, MOST_EVENTS // len(schedule.transfers)))
    order = sorted((g, t.id) for g in range(run) for t in schedule.transfers)
    times = transfer_times(problem, _cut(schedule, slices, order), shard_bytes, overhead)
    of = dict(zip(order, times, strict=True))
    rest = Fraction(0)
    if slices > run:
        half = run // 2
        ends = [max(of[g, t.id].sent for t in schedule.transfers for g in range(n)) for n in (half, run)]
        least = pipeline_time(problem, schedule)[1] * shard_bytes / slices
        rest = max(least, (ends[1] - ends[0]) / (run - half)) * (slices - run)
    return tuple(
        TransferTime(of[0, t.id].start, of[run - 1, t.id].sent + rest, of[run - 1, t.id].arrived + rest)
        for t in schedule.transfers
    )


def _cut(schedule: Schedule, slices: int, order: list[tuple[int, TransferId]]) -> Schedule:
    """Return the transfers of the slices in ``order``, each of a chunk cut into so many."""
    number = {key: TransferId(n) for n, key in enumerate(order)}

    def of_slice(g: int, t: Transfer) -> Transfer:
        operands = tuple(OWN if o == OWN else number[g, o] for o in t.operands)
        return replace(t, id=number[g, t.id], operands=operands)

    chunks = tuple(replace(c, begin=c.begin / slices, end=c.end / slices) for c in schedule.chunks)
    return replace(schedule, chunks=chunks, transfers=tuple(of_slice(g, schedule.transfers[t]) for g, t in order))
