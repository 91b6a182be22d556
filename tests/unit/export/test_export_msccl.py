"""Export to MSCCL: every schedule runs, in and out of place, within the limits, and comes back equal."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_schedules import flood
from written import OF_ALL_RANKS as COLLECTIVES
from written import problem

from acclc.export.errors import ExportError
from acclc.export.msccl import ENGINES, MscclOptions, export_msccl, safe_name, text_of
from acclc.export.msccl.actions import actions_of
from acclc.export.msccl.blocks import Ends, make_blocks
from acclc.export.msccl.progress import stuck
from acclc.export.msccl.waits import add_all_waits
from acclc.export.pieces import Grid
from acclc.importers.msccl_xml import read_algorithm
from acclc.ir.msccl import MscclAlgorithm, StepKind
from acclc.ir.problem import Problem
from acclc.ir.schedule import Chunk, ChunkId, Output, Schedule, TransferId
from acclc.solve import greedy
from acclc.source import Source
from acclc.verify import check_schedule
from acclc.verify.chunk_layout import Layout
from acclc.verify.msccl import TARGETS, check_algorithm, check_limits, check_text, interpret


def check_all(p: Problem, schedule: Schedule, target: str = "executor") -> MscclAlgorithm:
    """Export and check by everything there is; warnings fail too."""
    algorithm = export_msccl(p, schedule, MscclOptions(target=target))
    text = text_of(algorithm)
    assert read_algorithm(Source("x", text)) == algorithm
    for report in (check_text(text), check_limits(algorithm, TARGETS[target]), check_algorithm(algorithm)):
        assert not report.findings, (p.topology.name, p.collective, schedule.id, str(report))
    return algorithm


def numbers(algorithm: MscclAlgorithm, in_place: bool) -> None:
    """Run it on numbers and compare with the definition."""
    facts = check_algorithm(algorithm).facts
    assert facts is not None
    layout = Layout.of(algorithm, -1 if facts.root is None else facts.root)
    assert layout is not None
    random = np.random.default_rng(1)
    inputs = {r: random.integers(-99, 99, (layout.input_chunks(r), 2)) for r in range(algorithm.ranks)}
    outputs = interpret(algorithm, inputs, layout.root, in_place)
    assert set(outputs) == {r for r in range(algorithm.ranks) if layout.output_chunks(r)}
    for rank, found in outputs.items():
        expected = [sum(inputs[r][c] for r, c in layout.origins(rank, i)) for i in range(layout.output_chunks(rank))]
        np.testing.assert_array_equal(found, np.stack(expected))


@pytest.mark.parametrize("topology", ["ring(3)", "ring(4)", "full(3)", "star(4)", "line(3)", "mesh(2, 3)", "ring(2)"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_exported_and_right(collective: str, topology: str) -> None:
    p = problem(f"{collective} on {topology}")
    for schedule in greedy.schedules_of(p)[:6]:
        algorithm = check_all(p, schedule)
        numbers(algorithm, in_place=False)
        if algorithm.in_place:
            numbers(algorithm, in_place=True)


@st.composite
def machines(draw: st.DrawFn) -> str:
    """A random strongly connected machine of 2 to 5 ranks, with links of one or two lanes."""
    n = draw(st.integers(2, 5))
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    extra = draw(st.lists(st.sampled_from(pairs), max_size=6, unique=True))
    ring = [(i, (i + 1) % n) for i in range(n)]
    lanes = draw(st.lists(st.integers(1, 2), min_size=n + len(extra), max_size=n + len(extra)))
    links = [f"g[{a}] -> g[{b}] : {c} l" for (a, b), c in zip(ring + extra, lanes, strict=True)]
    return "\n".join(["topology t {", "link l { 10 GB/s, 1 us }", f"gpu g[{n}]", *links, "}"])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(machine=machines(), collective=st.sampled_from(COLLECTIVES), target=st.sampled_from(sorted(ENGINES)))
def test_random_machines(machine: str, collective: str, target: str) -> None:
    p = problem(f"{machine}\n{collective} on t")
    for schedule in greedy.schedules_of(p)[:2]:
        assert check_schedule(p, schedule).ok
        check_all(p, schedule, target)


@settings(max_examples=25, deadline=None)
@given(ranks=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_sums_of_what_arrives_anywhere_in_any_order(ranks: int, seed: int) -> None:
    p = problem(f"all_reduce on full({ranks})")
    schedule = flood(p, seed)
    assert check_schedule(p, schedule).ok, check_schedule(p, schedule)
    check_all(p, schedule)


@settings(max_examples=20, deadline=None)
@given(ranks=st.integers(2, 8), seed=st.integers(0, 10**6))
def test_blocks_with_one_end_keep_to_one_order(ranks: int, seed: int) -> None:
    """That is why they never wait in a circle, and why taking blocks apart ends."""
    p = problem(f"all_reduce on full({ranks})")
    schedule = flood(p, seed)
    actions = actions_of(Grid(p, schedule, 71), aliased=True)
    transfers = schedule.transfers
    receive = {a: (transfers[a.receives[0]].src, 0) for a in actions if a.receives is not None}
    send = {a: (transfers[a.sends[0]].dst, 0) for a in actions if a.sends is not None}
    blocks = make_blocks(actions, Ends(receive, send), {(a.rank, end) for a, end in receive.items()})
    for block in blocks:
        orders = [step.first.order for step in block.steps]
        assert orders == sorted(orders)
    add_all_waits(blocks)
    assert not stuck(blocks)


def test_a_message_that_is_passed_on_never_touches_memory() -> None:
    p = problem("reduce on line(4)")
    algorithm = check_all(p, greedy.schedules_of(p)[0])
    kinds = [s.kind for g in algorithm.gpus for b in g.blocks for s in b.steps]
    assert StepKind.RECEIVE_REDUCE_SEND in kinds
    assert all(g.scratch_chunks == 0 for g in algorithm.gpus)


def test_a_group_is_numbered_by_its_order() -> None:
    p = problem("all_gather on full(5) among g[4], g[1], g[3]")
    algorithm = check_all(p, greedy.schedules_of(p)[0])
    assert [g.id for g in algorithm.gpus] == [0, 1, 2]
    numbers(algorithm, in_place=True)


def test_no_wait_is_there_that_others_imply() -> None:
    """Without any one of them there is a race: so the checker sees each, and none is wasted."""
    p = problem("all_reduce on mesh(2, 3)")
    for schedule in greedy.schedules_of(p)[:4]:
        algorithm = check_all(p, schedule)
        for g, gpu in enumerate(algorithm.gpus):
            for b, block in enumerate(gpu.blocks):
                for s, step in enumerate(block.steps):
                    if step.wait is None or step.kind is StepKind.NOP:
                        continue
                    if s and block.steps[s - 1].kind is StepKind.NOP:
                        continue
                    steps = (*block.steps[:s], replace(step, wait=None), *block.steps[s + 1 :])
                    blocks = (*gpu.blocks[:b], replace(block, steps=steps), *gpu.blocks[b + 1 :])
                    gpus = (*algorithm.gpus[:g], replace(gpu, blocks=blocks), *algorithm.gpus[g + 1 :])
                    report = check_algorithm(replace(algorithm, gpus=gpus))
                    assert "msccl.race" in {f.code for f in report.errors}


def test_long_messages_are_cut_so_that_a_step_moves_fewer_than_72_chunks() -> None:
    p = problem("broadcast on line(2)")
    schedule = greedy.schedules_of(p)[0]
    # a hundredth and the rest: 99 of 100 cells move at once
    (transfer,) = schedule.transfers[:1]
    chunks = (
        Chunk(ChunkId(0), p.shards[0].id, 0, Fraction(0), Fraction(99, 100)),
        Chunk(ChunkId(1), p.shards[0].id, 1, Fraction(99, 100), Fraction(1)),
    )
    transfers = tuple(replace(transfer, id=TransferId(i), chunk=ChunkId(i)) for i in range(2))
    outputs = tuple(
        Output(rank, ChunkId(i), (TransferId(i),) if rank else transfer.operands) for rank in p.group for i in range(2)
    )
    uneven = Schedule(chunks, transfers, outputs, (), "by hand")
    assert check_schedule(p, uneven).ok, check_schedule(p, uneven)
    algorithm = check_all(p, uneven)
    counts = [s.count for g in algorithm.gpus for b in g.blocks for s in b.steps]
    assert max(counts) < 72
    assert algorithm.chunks_per_loop == 100


def test_what_does_not_fit_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    p = problem("all_to_all on full(4)")
    schedule = greedy.schedules_of(p)[0]
    for limit, engine in (
        ("blocks", replace(ENGINES["rccl"], blocks=3)),
        ("steps", replace(ENGINES["rccl"], steps=0)),
    ):
        monkeypatch.setitem(ENGINES, "rccl", engine)
        with pytest.raises(ExportError) as caught:
            export_msccl(p, schedule, MscclOptions(target="rccl"))
        assert caught.value.limit == limit
        assert "RCCL" in str(caught.value)


def test_a_collective_that_msccl_lacks_is_refused() -> None:
    p = problem("send_recv on full(3)")
    with pytest.raises(ExportError) as caught:
        export_msccl(p, greedy.schedules_of(p)[0], MscclOptions())
    assert caught.value.limit == "collective"


def test_names_have_no_sign_that_would_end_a_value() -> None:
    assert safe_name('a"b <c> é') == "a_b__c___"
    assert len(safe_name("x" * 999)) < 255
