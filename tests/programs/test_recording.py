"""Calls recorded with time stamps: every byte of every transfer is there, in an order that the schedule allows."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from acclc import Artefact, compile_text
from acclc.artefact import CompiledCollective, Variant
from acclc.forecast import view_input
from acclc.ir.schedule import OWN
from acclc.measured import RecordingError, measured_puts, measured_times, with_measured
from acclc.view.trace import chrome_trace
from acclc.view.trace_measured import add_measured
from acclc_runtime.errors import BackendUnavailableError
from acclc_runtime.partition import extent
from acclc_runtime.recording import Recording, record

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

TEXT = """
all_reduce on ring(3) as sums { op sum, goal bandwidth }
all_gather on line(3) as gathered { goal latency, channels 2 }
broadcast on ring(4) as spread { root g[0], goal bandwidth }
all_gather on ring(3) as small { goal latency }
all_to_all_v on ring(3) as routed { goal latency }
"""
SIZES = (4, 100, 9_000, 900_000)
CASES = [(size, mode) for size in SIZES for mode in ("fibres", "threads")]


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    return compile_text(TEXT, "t")


@pytest.fixture(scope="module")
def folder(artefact: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artefact.save(tmp_path_factory.mktemp("artefacts") / "t")


def every(artefact: Artefact) -> list[tuple[CompiledCollective, Variant]]:
    return [(c, v) for c in artefact.collectives for v in c.variants]


def recorded(artefact: Artefact, folder: Path, size: int, mode: str) -> list[Recording]:
    return list(record(folder, [(c.name, v.id) for c, v in every(artefact)], size, mode=mode, calls=1))


def test_all_realisations_and_pipelines_are_among_the_cases(artefact: Artefact) -> None:
    assert {v.kernel.realisation.value for _, v in every(artefact)} == {"put", "eager", "direct"}
    assert {v.schedule.pipelined for _, v in every(artefact)} == {True, False}


@pytest.mark.parametrize(("size", "mode"), CASES)
def test_every_byte_of_every_transfer_moves_after_what_it_is_made_of(
    artefact: Artefact, folder: Path, size: int, mode: str
) -> None:
    found = recorded(artefact, folder, size, mode)
    assert any(r.slices > 1 for r in found) == (size == max(SIZES))
    for (_, variant), recording in zip(every(artefact), found, strict=True):
        puts = measured_puts(variant, recording)
        schedule = variant.schedule
        moved: Counter[int] = Counter()
        ends: dict[tuple[int, int, int], int] = {}
        for put in puts:
            assert put.begin_ns <= put.end_ns
            for t in put.transfers:
                moved[t] += put.bytes
                ends[t, put.slice, put.channel] = put.end_ns
        item = 4
        for t in schedule.transfers:
            chunk = schedule.chunks[t.chunk]
            first, last = extent(recording.count, chunk.begin, chunk.end)
            assert moved[t.id] == (last - first) * item
        for put in puts:
            for t in put.transfers:
                for operand in (o for o in schedule.transfers[t].operands if o != OWN):
                    key = (operand, put.slice, put.channel)
                    assert operand in put.transfers or ends[key] <= put.begin_ns


def test_a_transfer_lasts_from_its_first_piece_to_its_last(artefact: Artefact, folder: Path) -> None:
    for (_, variant), recording in zip(every(artefact), recorded(artefact, folder, 900_000, "fibres"), strict=True):
        puts = measured_puts(variant, recording)
        times = measured_times(variant.schedule, recording, puts)
        assert times.measured
        for t, start, sent, arrived in zip(
            variant.schedule.transfers, times.starts, times.sent, times.arrived, strict=True
        ):
            of = [p for p in puts if t.id in p.transfers]
            assert (start, sent) == (min(p.begin_ns for p in of) / 1e9, max(p.end_ns for p in of) / 1e9)
            assert arrived == sent


def test_what_moves_no_byte_has_happened_when_its_operands_have(artefact: Artefact, folder: Path) -> None:
    """A single element: most chunks are empty."""
    for (_, variant), recording in zip(every(artefact), recorded(artefact, folder, 4, "fibres"), strict=True):
        times = measured_times(variant.schedule, recording, measured_puts(variant, recording))
        for t in variant.schedule.transfers:
            assert all(times.sent[o] <= times.sent[t.id] for o in t.operands if o != OWN)


def test_a_recording_of_another_kernel_is_refused(artefact: Artefact, folder: Path) -> None:
    for (_, variant), recording in zip(every(artefact), recorded(artefact, folder, 9_000, "fibres"), strict=True):
        event = recording.events[0]
        for wrong in (
            recording.events[1:],
            (*recording.events, event),
            (replace(event, bytes=event.bytes + 4), *recording.events[1:]),
            (replace(event, step=event.step + 9), *recording.events[1:]),
            (replace(event, block=99), *recording.events[1:]),
        ):
            with pytest.raises(RecordingError):
                measured_puts(variant, replace(recording, events=wrong))


def test_the_trace_has_both_and_tracks_without_overlaps(artefact: Artefact, folder: Path) -> None:
    found = recorded(artefact, folder, 900_000, "threads")
    for (collective, variant), recording in zip(every(artefact), found, strict=True):
        view = view_input("t", [(collective, (variant,))], (recording.size,))
        simulated = chrome_trace(view)
        puts = measured_puts(variant, recording)
        both = json.loads(json.dumps(add_measured(simulated, collective.problem, variant.schedule, puts, "here")))
        assert both["traceEvents"][: len(simulated["traceEvents"])] == simulated["traceEvents"]
        tracks: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for e in (e for e in both["traceEvents"] if e["ph"] == "X"):
            begin = round(e["ts"] * 1000)
            tracks[e["pid"], e["tid"]].append((begin, begin + round(e["dur"] * 1000)))
        for slices in tracks.values():
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(slices)))
        assert sum(map(len, tracks.values())) == len(puts) + sum(e["ph"] == "X" for e in simulated["traceEvents"])
        names = {e["args"]["name"] for e in both["traceEvents"] if e["name"] == "process_name"}
        assert {f"g[{r}], measured" for r in {p.rank for p in puts}} <= names
        starts = [e for e in both["traceEvents"] if e["ph"] == "s"]
        finishes = {e["id"]: e for e in both["traceEvents"] if e["ph"] == "f"}
        assert len({e["id"] for e in starts}) == len(starts) == len(finishes)
        for e in starts:
            assert e["ts"] <= finishes[e["id"]]["ts"]
            for end in (e, finishes[e["id"]]):
                at = round(end["ts"] * 1000)
                assert any(a <= at <= b for a, b in tracks[end["pid"], end["tid"]])


def test_the_page_gets_measured_times_beside_the_simulated(artefact: Artefact, folder: Path) -> None:
    collective = artefact.collectives[0]
    variant = collective.schedules[0]
    (recording,) = record(folder, [(collective.name, variant.id)], 9_000, mode="fibres", calls=1)
    view = with_measured(view_input("t", [(collective, (variant,))], (9_000,)), [(collective, variant, recording)])
    (times,) = [v.times for c in view.collectives for v in c.variants]
    assert [t.measured for t in times] == [False, True]
    assert times[0].shard_bytes == times[1].shard_bytes


@pytest.mark.parametrize(
    ("emit", "dtype", "wanted"),
    [("", None, "f32"), ("", "bf16", "bf16"), ("emit { types f64, i8\n ops max }", None, "f64")],
)
def test_types_and_operators_are_those_of_the_artefact(
    tmp_path: Path, emit: str, dtype: str | None, wanted: str
) -> None:
    made = compile_text(f"all_reduce on ring(3) {{ goal latency }}\n{emit}\n", "typed")
    names = [(c.name, v.id) for c, v in every(made)]
    found = list(record(made.save(tmp_path / "typed"), names, 600, dtype=dtype, mode="fibres", calls=1))
    assert {r.dtype for r in found} == {wanted}
    for (_, variant), recording in zip(every(made), found, strict=True):
        assert measured_puts(variant, recording)


def test_a_kernel_that_is_not_traced_records_nothing(folder: Path) -> None:
    import numpy as np

    import acclc_runtime

    with acclc_runtime.load(folder).local("cpu", mode="fibres") as group:
        group.collective("sums", [np.ones(9, np.float32) for _ in range(3)])
        assert group.events() == ()


def test_without_a_compiler_it_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BackendUnavailableError):
        list(record(folder, [], 4))
