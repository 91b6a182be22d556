"""view.json: right, versioned, the same each time."""

from __future__ import annotations

import itertools
import json
import zlib
from base64 import b64decode
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest
from view_cases import (
    cluster_all_reduce,
    ring_all_gather,
    ring_reduce,
    star_all_gather,
    step_times,
    view_of,
    with_programs,
)

from acclc.ir.problem import Problem
from acclc.ir.program import Buffer, Extent
from acclc.ir.schedule import Schedule
from acclc.lower import lower_program
from acclc.verify import check_schedule
from acclc.view.kernel_lines import transfer_lines
from acclc.view.model import ViewTimes
from acclc.view.packed import extent_words, pack_program
from acclc.view.view_data import build_view, decode_view, encode_view
from acclc.view.view_format import VIEW_FORMAT, VIEW_VERSION, ProgramText

CASES = [ring_all_gather(4), ring_reduce(4), star_all_gather(3)]
KERNEL = "\n".join(
    [
        "// line 1",
        "    await(r, 7, 1, 0, 2, 5);",
        "        put(r, 2, 5, p0, out(1, 0), in(0, 0));",
        "        put_final<contributors>(r, 3, 12, p1, out(0, 0), in(0, 0), slot(0, 1));",
        "    await_entry(r, 3, 0, 4);",
        "    put(r, 4, -1, p0, out(0, 0), in(0, 0));",
        "void put(Run& r, int step) { put(r, step, transfer, part); }",
    ]
)


def test_what_is_written_is_read_back_and_is_the_same_each_time() -> None:
    view = build_view(view_of(*CASES, source=KERNEL))
    data = encode_view(view)
    assert decode_view(data) == view
    assert encode_view(build_view(view_of(*CASES, source=KERNEL))) == data
    plain = json.loads(data)
    assert (plain["format"], plain["version"]) == (VIEW_FORMAT, VIEW_VERSION)
    assert [c["collective"] for c in plain["collectives"]] == ["all_gather", "reduce", "all_gather"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"format": 1, "version": "x"}'])
def test_other_data_is_refused(damage: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_view(damage)


def test_equal_topologies_are_kept_once() -> None:
    view = build_view(view_of(ring_all_gather(4), ring_reduce(4), star_all_gather(3)))
    assert [t.name for t in view.topologies] == ["ring", "star"]
    assert [c.topology for c in view.collectives] == [0, 0, 1]


@pytest.mark.parametrize("case", CASES)
def test_columns_say_what_the_schedule_says(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    view = build_view(view_of(case))
    (variant,) = view.collectives[0].variants
    columns = variant.transfers
    for t in schedule.transfers:
        assert (columns.chunk[t.id], columns.src[t.id], columns.dst[t.id]) == (t.chunk, t.src, t.dst)
        assert (columns.path[t.id], columns.step[t.id], columns.operands[t.id]) == (t.path, t.step, t.operands)
    assert [Fraction(e) - Fraction(b) for b, e in zip(variant.chunks.begin, variant.chunks.end, strict=True)] == [
        c.weight for c in schedule.chunks
    ]
    assert sum(s.transfers for s in variant.step) == len(schedule.transfers)
    assert sum(s.share for s in variant.step) == pytest.approx(1, abs=1e-5)
    assert all(max(s.load) <= 1 for s in variant.step)
    links = view.topologies[0].links
    assert [(x.src, x.dst) for x in links] == [(x.src, x.dst) for x in problem.topology.links]
    assert all(a.bend == -b.bend for a in links for b in links if (a.src, a.dst) == (b.dst, b.src))


def test_figures_of_the_ring() -> None:
    collective = build_view(view_of(ring_all_gather(4))).collectives[0]
    (variant,) = collective.variants
    assert (variant.id, variant.chunks_per_shard, variant.steps, variant.rounds) == ("c1s3r3", 1, 3, 3)
    assert variant.rounds_per_chunk == "3"
    assert collective.bound.rounds_per_chunk == "3/2"
    assert variant.gap == 1
    assert variant.algbw_GBps == 13.3333
    assert collective.bound.algbw_GBps == 26.6667
    assert sorted(variant.utilisation) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert variant.sizes == "up to 1 MiB"
    assert next(e.reason for e in collective.excluded) == "The lower bound forbids it."
    large, small = variant.times
    assert large.total_ns == 3 * (100_000 + 1_000)
    assert (large.size, small.size) == ("3.815 MiB", "3.902 KiB")
    assert large.algbw_GBps == round(4_000_000 / 303_000, 4)


def test_chunks_of_unequal_weight_have_no_rounds_per_chunk() -> None:
    assert build_view(view_of(ring_reduce(4))).collectives[0].variants[0].rounds_per_chunk is None


def test_transfers_at_the_same_time_on_a_link_have_lanes() -> None:
    case = star_all_gather(4)
    times = build_view(view_of(case)).collectives[0].variants[0].times[0]
    taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for t in case[1].transfers:
        for place, link in enumerate(t.path):
            taken.setdefault((link, times.lanes[t.id][place]), []).append((times.start_ns[t.id], times.sent_ns[t.id]))
    assert {lane for _, lane in taken} == {0, 1, 2}
    for slices in taken.values():
        slices.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(slices))
    assert build_view(view_of(ring_all_gather(4))).collectives[0].variants[0].times[0].lanes == ()


def test_measured_times_may_be_floats() -> None:
    case = ring_all_gather(3)
    exact = step_times(*case)
    floats = ViewTimes(
        exact.shard_bytes,
        [float(t) for t in exact.starts],
        [float(t) for t in exact.sent],
        [float(t) for t in exact.arrived],
        True,
    )
    view = view_of(case)
    collective = view.collectives[0]
    measured = replace(collective, variants=(replace(collective.variants[0], times=(floats,)),))
    times = build_view(replace(view, collectives=(measured,))).collectives[0].variants[0].times[0]
    assert times.measured
    assert abs(times.total_ns - 2 * 101_000) <= 1


def test_colours_follow_who_has_or_needs_a_chunk() -> None:
    assert build_view(view_of(ring_all_gather(4))).collectives[0].variants[0].chunks.origin == (0, 1, 2, 3)
    assert build_view(view_of(ring_reduce(4))).collectives[0].variants[0].chunks.origin == (0, 1)


def test_the_kernel_is_packed_with_the_lines_of_transfers() -> None:
    assert transfer_lines(KERNEL) == ((2, 5), (3, 5), (4, 12))
    kernel = build_view(view_of(ring_all_gather(4), source=KERNEL)).collectives[0].variants[0].kernel
    assert kernel is not None
    assert zlib.decompress(b64decode(kernel.zlib)).decode() == KERNEL
    assert (kernel.lines, kernel.bytes) == (7, len(KERNEL))
    assert (kernel.line, kernel.transfer) == ((2, 3, 4), (5, 5, 12))
    assert build_view(view_of(ring_all_gather(4))).collectives[0].variants[0].kernel is None


def test_lines_of_a_really_generated_kernel_cover_every_transfer() -> None:
    from acclc.codegen import generate
    from acclc.lower import lower_kernel, lower_program

    problem, schedule = ring_all_gather(4)
    source = generate(lower_kernel(problem, lower_program(problem, schedule)))
    lines = transfer_lines(source)
    assert {t for _, t in lines} == {t.id for t in schedule.transfers}
    texts = source.split("\n")
    assert all("put" in texts[line - 1] or "await" in texts[line - 1] for line, _ in lines)


def test_a_collective_without_a_schedule_is_shown_with_its_bound() -> None:
    view = view_of(ring_all_gather(4))
    empty = replace(view, collectives=(replace(view.collectives[0], variants=()),))
    collective = build_view(empty).collectives[0]
    assert collective.variants == ()
    assert collective.bound.proof.sets[0].nodes == (0,)


def test_a_program_is_packed_with_every_operation_and_its_extents_in_words() -> None:
    problem, schedule = ring_reduce(4)
    program = lower_program(problem, schedule)
    data = pack_program(program)
    text = msgspec.json.decode(zlib.decompress(b64decode(data.zlib)), type=ProgramText)
    assert (data.blocks, data.operations) == (
        sum(len(r.blocks) for r in text.ranks),
        sum(len(b.operations.id) for r in text.ranks for b in r.blocks),
    )
    for rank, shown in zip(program.ranks, text.ranks, strict=True):
        assert (shown.rank, shown.slots) == (rank.rank, rank.slots)
        for block, columns in zip(rank.blocks, shown.blocks, strict=True):
            for i, operation in enumerate(block.operations):
                o = columns.operations
                assert (o.id[i], o.kind[i], o.step[i]) == (operation.id, operation.kind, operation.step)
                assert (o.transfer[i], o.peer[i], o.after[i]) == (operation.transfer, operation.peer, operation.after)
                assert tuple(text.extents[x] for x in o.sources[i]) == tuple(map(extent_words, operation.sources))
                assert (o.target[i] < 0) == (operation.target is None)


def test_extents_in_words() -> None:
    third = Fraction(1, 3)
    assert extent_words(Extent(Buffer.INPUT, 3, Fraction(0), Fraction(1))) == "in 3"
    assert extent_words(Extent(Buffer.OUTPUT, 0, third, Fraction(1))) == "out 0, 1/3 to 1"
    assert extent_words(Extent(Buffer.SCRATCH, 2, Fraction(0), third)) == "slot 2"


def test_headroom_and_solver_time_are_kept_and_what_is_not_chosen_says_so() -> None:
    view = with_programs(view_of(*CASES))
    first = view.collectives[0]
    unchosen = replace(first.variants[0], by_name=True, min_bytes=None, max_bytes=None)
    view = replace(view, collectives=(replace(first, variants=(*first.variants, unchosen)),))
    data = decode_view(encode_view(build_view(view))).collectives[0]
    assert [(h.bound_ns, h.names, h.ns) for h in data.headroom] == [(50_000, ("ring", "tree"), (700_000, 900_000))] * 2
    assert [h.shard_bytes for h in data.headroom] == [t.shard_bytes for t in data.variants[0].times]
    assert [(v.sizes, v.min_bytes, v.max_bytes) for v in data.variants] == [
        ("up to 1 MiB", 0, 1 << 20),
        ("by name only", None, None),
    ]
    assert data.variants[0].solve_seconds == 0.25


@pytest.mark.parametrize(("boxes", "per_box"), [(1, 2), (2, 4), (5, 3)])
def test_the_all_reduce_on_boxes_that_other_tests_draw_is_sound(boxes: int, per_box: int) -> None:
    assert check_schedule(*cluster_all_reduce(boxes, per_box)).errors == ()
