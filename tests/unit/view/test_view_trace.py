"""The trace: strict JSON, tracks without overlaps, every send with its receive."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from view_cases import into_first, ring_all_gather, ring_reduce, star_all_gather, view_of

from acclc.ir.problem import Problem
from acclc.ir.schedule import Schedule
from acclc.simulate import simulate
from acclc.view.model import ViewCollective, ViewInput, ViewTimes, ViewVariant
from acclc.view.trace import chrome_trace

CASES = [ring_all_gather(4), ring_reduce(4), star_all_gather(4)]


def simulated(case: tuple[Problem, Schedule], shard_bytes: int) -> ViewInput:
    problem, schedule = case
    timeline = simulate(problem, schedule, shard_bytes)
    variant = ViewVariant(schedule, (ViewTimes.of(shard_bytes, timeline.transfers),))
    return ViewInput("t", (ViewCollective(problem, into_first(problem, 1), "feasible", (variant,)),))  # type: ignore[arg-type]


def nanoseconds(microseconds: float) -> int:
    value = round(microseconds * 1000)
    assert abs(value - microseconds * 1000) < 1e-3  # whole nanoseconds
    return value


def tracks(trace: dict[str, Any]) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            begin = nanoseconds(e["ts"])
            found.setdefault((e["pid"], e["tid"]), []).append(
                (begin, begin + nanoseconds(e["dur"]), e["args"]["transfer"])
            )
    return found


@pytest.mark.parametrize("shard_bytes", [0, 1, 12345, 10**7])
@pytest.mark.parametrize("case", CASES)
def test_slices_of_a_track_never_overlap(case: tuple[Problem, Schedule], shard_bytes: int) -> None:
    trace = chrome_trace(simulated(case, shard_bytes))
    for slices in tracks(trace).values():
        slices.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(slices))


@pytest.mark.parametrize("case", CASES)
def test_every_send_has_its_receive_and_an_arrow_that_starts_and_ends_inside_them(
    case: tuple[Problem, Schedule],
) -> None:
    _problem, schedule = case
    trace = chrome_trace(view_of(case))
    events = trace["traceEvents"]
    sends = [e for e in events if e["ph"] == "X" and e["cat"] == "send"]
    receives = [e for e in events if e["ph"] == "X" and e["cat"] == "receive"]
    assert len(sends) == sum(len(t.path) for t in schedule.transfers)
    assert sorted(e["args"]["transfer"] for e in receives) == [t.id for t in schedule.transfers]
    by_track = tracks(trace)
    for t in schedule.transfers:
        (begin,) = [e for e in events if e["ph"] == "s" and e["id"] == t.id]
        (end,) = [e for e in events if e["ph"] == "f" and e["id"] == t.id]
        assert (begin["pid"], end["pid"]) == (t.src, t.dst)
        assert end["bp"] == "e"
        assert begin["ts"] <= end["ts"]
        for arrow in (begin, end):
            at = nanoseconds(arrow["ts"])
            assert any(a <= at <= b and n == t.id for a, b, n in by_track[arrow["pid"], arrow["tid"]])


@pytest.mark.parametrize("case", CASES)
def test_it_is_strict_json_with_names_and_the_same_each_time(case: tuple[Problem, Schedule]) -> None:
    trace = chrome_trace(view_of(case))
    text = json.dumps(trace, allow_nan=False)
    assert json.dumps(chrome_trace(view_of(case)), allow_nan=False) == text
    assert trace["displayTimeUnit"] == "ns"
    names = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    assert names == set(tracks(trace))
    processes = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert set(processes) == {pid for pid, _ in names}
    nodes = case[0].topology.nodes
    assert all(processes[pid] == f"{nodes[pid].name} ({nodes[pid].kind})" for pid in processes)
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in trace["traceEvents"] if e["ph"] == "X")


def test_transfers_at_the_same_time_get_lanes_of_their_own() -> None:
    case = star_all_gather(4)
    names = [e["args"]["name"] for e in chrome_trace(view_of(case))["traceEvents"] if e["name"] == "thread_name"]
    assert "to s[0] (link 0)" in names
    assert "to s[0] (link 0, lane 3)" in names
    assert "from s[0] (link 1, lane 3)" in names


def test_one_variant_is_chosen_by_name_or_refused_with_what_there_is() -> None:
    view = view_of(*CASES)
    assert chrome_trace(view)["otherData"]["collective"] == "all_gather_0"
    assert chrome_trace(view, "reduce_1")["otherData"]["variant"] == "c2s4r4"
    assert chrome_trace(view, "reduce_1/c2s4r4", size=1)["otherData"]["shard_bytes"] == 999
    with pytest.raises(
        ValueError, match="no collective halo to trace; there are: all_gather_0, reduce_1, all_gather_2"
    ):
        chrome_trace(view, "halo")
    with pytest.raises(ValueError, match="reduce_1 has no variant c9; it has: c2s4r4"):
        chrome_trace(view, "reduce_1/c9")
    with pytest.raises(ValueError, match="has 2 sizes; there is no number 2"):
        chrome_trace(view, "reduce_1", size=2)
    with pytest.raises(ValueError, match="nothing to trace"):
        chrome_trace(ViewInput("empty", ()))
