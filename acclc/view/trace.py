"""A trace that Perfetto and Chrome open: who sends what over which link when, and when it arrives.

Chrome's trace format (JSON). A process is a node (of a GPU: its rank). Each link direction is a track of its
source, and of its last node when that is another one: there the arrival is shown. Slices of a track never
overlap, since viewers drop those that do: a link that carries several transfers at the same moment has as many
lanes, each a track. Times are whole nanoseconds, printed in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from acclc.ir.problem import LinkId, Problem, Topology
from acclc.ir.schedule import OWN, Transfer
from acclc.view.figures import times_in_nanoseconds
from acclc.view.lanes import assign_lanes
from acclc.view.model import ViewCollective, ViewInput, ViewTimes, ViewVariant

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Slice:
    """One transfer on one link, as its source sends it or as its end receives it."""

    transfer: int
    link: LinkId
    receives: bool
    begin: int
    end: int


def chrome_trace(view: ViewInput, only: str | None = None, size: int = 0) -> dict[str, Any]:
    """Return the trace of one variant: ``only`` is NAME or NAME/VARIANT, by default the first of each.

    ``size`` is the index among the variant's times. The result is plain data for ``json.dumps``; it has neither
    NaN nor infinities and is deterministic.

    Raises:
        ValueError: there is no such collective, variant or size; the message lists what there is.
    """
    collective, variant = _choose(view, only)
    if not 0 <= size < len(variant.times):
        raise ValueError(f"variant {variant.name} has {len(variant.times)} sizes; there is no number {size}")
    problem, times = collective.problem, variant.times[size]
    slices = _slices(variant, times)
    events: list[Event] = [*_processes(problem.topology, slices)]
    tracks: dict[tuple[LinkId, bool], list[_Slice]] = {}
    for piece in slices:
        tracks.setdefault((piece.link, piece.receives), []).append(piece)
    flows: dict[tuple[int, bool], tuple[int, int, _Slice]] = {}
    for (link, receives), pieces in sorted(tracks.items()):
        lanes = assign_lanes([(p.begin, p.end) for p in pieces])
        for lane in sorted(set(lanes)):
            pid, tid = _track(problem.topology, link, receives, lane)
            events += _track_names(problem.topology, link, receives, lane, pid, tid)
        for piece, lane in zip(pieces, lanes, strict=True):
            pid, tid = _track(problem.topology, link, receives, lane)
            transfer = variant.schedule.transfers[piece.transfer]
            events.append(_slice_event(problem, variant, transfer, piece, pid, tid))
            if receives or link == transfer.path[0]:
                flows[piece.transfer, receives] = (pid, tid, piece)
    for number in range(len(variant.schedule.transfers)):
        events += _flow(number, flows[number, False], flows[number, True])
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "collective": problem.name,
            "topology": problem.topology.name,
            "variant": variant.name,
            "shard_bytes": times.shard_bytes,
            "times": "measured" if times.measured else "simulated",
        },
    }


def _choose(view: ViewInput, only: str | None) -> tuple[ViewCollective, ViewVariant]:
    name, _, wanted = (only or "").partition("/")
    for collective in view.collectives:
        if name not in ("", collective.problem.name):
            continue
        for variant in collective.variants:
            if wanted in ("", variant.name):
                return collective, variant
        if wanted:
            known = ", ".join(v.name for v in collective.variants) or "none"
            raise ValueError(f"{collective.problem.name} has no variant {wanted}; it has: {known}")
        if name:
            raise ValueError(f"{name} has no schedule")
    known = ", ".join(c.problem.name for c in view.collectives) or "none"
    raise ValueError(f"there is no collective {name} to trace; there are: {known}" if name else "nothing to trace")


def _slices(variant: ViewVariant, times: ViewTimes) -> list[_Slice]:
    """Each link of each transfer's path, and its arrival at the end, as long as the sending, later by the latency."""
    pieces = []
    for transfer, (start, sent, arrived) in zip(variant.schedule.transfers, times_in_nanoseconds(times), strict=True):
        pieces += [_Slice(transfer.id, link, False, start, sent) for link in transfer.path]
        pieces.append(_Slice(transfer.id, transfer.path[-1], True, start + arrived - sent, arrived))
    return pieces


def _track(topology: Topology, link: LinkId, receives: bool, lane: int) -> tuple[int, int]:
    """(pid, tid): links of a process are told apart by number, their directions and lanes too."""
    wire = topology.links[link]
    return (wire.dst if receives else wire.src), ((link * 2 + receives) << 10) + lane + 1


def _processes(topology: Topology, slices: list[_Slice]) -> list[Event]:
    used = {topology.links[p.link].dst if p.receives else topology.links[p.link].src for p in slices}
    events = []
    for pid in sorted(used):
        node = topology.nodes[pid]
        events.append(_meta("process_name", pid, 0, {"name": f"{node.name} ({node.kind})"}))
        events.append(_meta("process_sort_index", pid, 0, {"sort_index": pid}))
    return events


def _track_names(topology: Topology, link: LinkId, receives: bool, lane: int, pid: int, tid: int) -> list[Event]:
    wire = topology.links[link]
    name = f"from {topology.nodes[wire.src].name}" if receives else f"to {topology.nodes[wire.dst].name}"
    name += f" (link {link})" if lane == 0 else f" (link {link}, lane {lane + 1})"
    return [
        _meta("thread_name", pid, tid, {"name": name}),
        _meta("thread_sort_index", pid, tid, {"sort_index": tid}),
    ]


def _meta(name: str, pid: int, tid: int, arguments: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": arguments}


def _slice_event(
    problem: Problem, variant: ViewVariant, transfer: Transfer, piece: _Slice, pid: int, tid: int
) -> Event:
    schedule = variant.schedule
    chunk = schedule.chunks[transfer.chunk]
    nodes = problem.topology.nodes
    sources = [
        "own" if o == OWN else f"from {nodes[schedule.transfers[o].src].name}, step {schedule.transfers[o].step + 1}"
        for o in transfer.operands
    ]
    verb = "receive" if piece.receives else "reduce and send" if len(sources) > 1 else "send"
    return {
        "ph": "X",
        "cat": "receive" if piece.receives else "send",
        "name": f"{verb} {problem.shards[chunk.shard].name} #{chunk.index}",
        "pid": pid,
        "tid": tid,
        "ts": piece.begin / 1000,
        "dur": (piece.end - piece.begin) / 1000,
        "args": {
            "transfer": transfer.id,
            "step": transfer.step + 1,
            "part": f"{chunk.begin} to {chunk.end}",
            "from": nodes[transfer.src].name,
            "to": nodes[transfer.dst].name,
            "operands": sources,
        },
    }


def _flow(number: int, sent: tuple[int, int, _Slice], received: tuple[int, int, _Slice]) -> list[Event]:
    """An arrow from the slice that sends to the one that receives; both ends lie inside their slices."""
    pid, tid, piece = sent
    arrow = {"cat": "transfer", "name": "transfer", "id": number}
    begin: Event = {"ph": "s", **arrow, "pid": pid, "tid": tid, "ts": piece.begin / 1000}
    pid, tid, piece = received
    end: Event = {"ph": "f", "bp": "e", **arrow, "pid": pid, "tid": tid, "ts": piece.begin / 1000}
    return [begin, end]
