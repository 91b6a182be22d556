"""A measured call as events of a trace, beside the simulated ones: a process a rank, a track a block and channel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from acclc.ir.problem import Problem
from acclc.ir.schedule import OWN, Schedule
from acclc.view.model import MeasuredPut

Event = dict[str, Any]

CHANNEL_BITS = 10


def add_measured(
    trace: dict[str, Any], problem: Problem, schedule: Schedule, puts: Sequence[MeasuredPut], how: str
) -> dict[str, Any]:
    """Return the trace with a measured call in it.

    Its processes come after the simulated ones and say so in their names; arrows lead from the put that makes a
    transfer to those that use what arrived. ``how`` says in words what ran, for the trace's data.
    """
    first = len(problem.topology.nodes)
    events = [*_tracks(problem, puts, first)]
    for put in puts:
        events.append(_slice(problem, schedule, put, first))
    arrows = max((e["id"] + 1 for e in trace["traceEvents"] if e["ph"] == "s"), default=0)
    events += _arrows(schedule, puts, first, arrows)
    span = max((p.end_ns for p in puts), default=0)
    said = {"times": "simulated, and measured beside", "measured": how, "measured_us": span / 1000}
    return {
        **trace,
        "traceEvents": [*trace["traceEvents"], *events],
        "otherData": {**trace["otherData"], **said},
    }


def _place(put: MeasuredPut, first: int) -> dict[str, int]:
    return {"pid": first + put.rank, "tid": (put.block << CHANNEL_BITS) + put.channel + 1}


def _tracks(problem: Problem, puts: Iterable[MeasuredPut], first: int) -> list[Event]:
    events: list[Event] = []
    named: set[int] = set()
    for rank, block, channel in sorted({(p.rank, p.block, p.channel) for p in puts}):
        pid, tid = first + rank, (block << CHANNEL_BITS) + channel + 1
        if pid not in named:
            named.add(pid)
            name = f"{problem.topology.nodes[rank].name}, measured"
            events.append(_meta("process_name", pid, 0, {"name": name}))
            events.append(_meta("process_sort_index", pid, 0, {"sort_index": pid}))
        name = f"block {block}" + (f", channel {channel}" if channel else "")
        events.append(_meta("thread_name", pid, tid, {"name": name}))
        events.append(_meta("thread_sort_index", pid, tid, {"sort_index": tid}))
    return events


def _meta(name: str, pid: int, tid: int, arguments: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": arguments}


def _slice(problem: Problem, schedule: Schedule, put: MeasuredPut, first: int) -> Event:
    words = []
    for number in put.transfers:
        t = schedule.transfers[number]
        chunk = schedule.chunks[t.chunk]
        src, dst = (problem.topology.nodes[n].name for n in (t.src, t.dst))
        words.append(f"{src} -> {dst}: {problem.shards[chunk.shard].name} #{chunk.index}")
    return {
        "ph": "X",
        "cat": "put" if put.transfers else "local",
        "name": words[0] + (f" and {len(words) - 1} more" if len(words) > 1 else "") if words else "local work",
        **_place(put, first),
        "ts": put.begin_ns / 1000,
        "dur": (put.end_ns - put.begin_ns) / 1000,
        "args": {
            "transfers": words,
            "numbers": list(put.transfers),
            "step": put.step + 1,
            "slice": put.slice,
            "bytes": put.bytes,
        },
    }


def _arrows(schedule: Schedule, puts: Sequence[MeasuredPut], first: int, number: int) -> list[Event]:
    """From a put that makes a transfer to each put of the same piece that uses it."""
    users: defaultdict[tuple[int, int, int], list[MeasuredPut]] = defaultdict(list)
    for put in puts:
        for transfer in put.transfers:
            for operand in schedule.transfers[transfer].operands:
                if operand != OWN:
                    users[operand, put.slice, put.channel].append(put)
    events: list[Event] = []
    for put in puts:
        for transfer in put.transfers:
            for user in users[transfer, put.slice, put.channel]:
                if user is put:
                    continue
                arrow = {"cat": "transfer", "name": "transfer", "id": number}
                events.append({"ph": "s", **arrow, **_place(put, first), "ts": put.begin_ns / 1000})
                events.append({"ph": "f", "bp": "e", **arrow, **_place(user, first), "ts": user.begin_ns / 1000})
                number += 1
    return events
