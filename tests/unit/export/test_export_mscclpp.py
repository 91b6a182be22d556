"""Export to MSCCL++: every schedule runs, in and out of place, and comes back equal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schedules import flood
from written import OF_ALL_RANKS as COLLECTIVES
from written import problem

from acclc.export.errors import ExportError
from acclc.export.mscclpp import PlanOptions, export_plan, text_of
from acclc.importers.mscclpp_json import read_plan
from acclc.ir.mscclpp import Plan
from acclc.ir.problem import InPlace, Problem
from acclc.ir.schedule import Schedule
from acclc.solve import greedy
from acclc.source import Source
from acclc.verify.mscclpp import check_plan


def check_all(p: Problem, schedule: Schedule, in_place: bool, blocks: int) -> Plan:
    """Export, read back, and check by everything there is; warnings fail too."""
    plan = export_plan(p, schedule, PlanOptions(in_place=in_place, blocks=blocks))
    assert read_plan(Source("x", text_of(plan))) == plan
    report = check_plan(plan)
    assert not report.findings, (p.topology.name, p.collective, schedule.id, str(report))
    return plan


def fits(p: Problem, schedule: Schedule, in_place: bool, blocks: int) -> bool:
    """Whether it fits, and then it is right; the number of operations is the only limit that is expected."""
    try:
        check_all(p, schedule, in_place, blocks)
    except ExportError as refused:
        if refused.limit != "operations":
            raise
        return False
    return True


@pytest.mark.parametrize("topology", ["ring(3)", "star(4)", "line(3)", "ring(2)"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_exported_and_right(collective: str, topology: str) -> None:
    p = problem(f"{collective} on {topology}")
    done = 0
    for schedule in greedy.schedules_of(p):
        for in_place in (False, True) if p.demands[0].in_place is not InPlace.NONE else (False,):
            done += fits(p, schedule, in_place, blocks=2)
    assert done


@settings(max_examples=12, deadline=None)
@given(
    topology=st.sampled_from(["mesh(2, 3)", "full(5)", "hypercube(3)", "star(5)", "ring(5)"]),
    collective=st.sampled_from(COLLECTIVES),
    blocks=st.integers(1, 4),
    in_place=st.booleans(),
)
def test_larger_machines(topology: str, collective: str, blocks: int, in_place: bool) -> None:
    p = problem(f"{collective} on {topology}")
    if in_place and p.demands[0].in_place is InPlace.NONE:
        return
    fits(p, greedy.schedules_of(p)[0], in_place, blocks)


@settings(max_examples=15, deadline=None)
@given(ranks=st.integers(2, 5), seed=st.integers(0, 10**6), in_place=st.booleans())
def test_sums_of_what_arrives_anywhere_in_any_order(ranks: int, seed: int, in_place: bool) -> None:
    p = problem(f"all_reduce on full({ranks})")
    fits(p, flood(p, seed), in_place, blocks=1)


def test_the_json_has_the_keys_that_the_parser_looks_for() -> None:
    p = problem("all_gather on full(2)")
    made = json.loads(text_of(check_all(p, greedy.schedules_of(p)[0], False, 1)))
    for key in ("name", "collective", "protocol", "inplace", "gpus"):
        assert key in made
    for gpu in made["gpus"]:
        for key in ("id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks", "channels"):
            assert key in gpu
        assert gpu["remote_buffers"]
        assert "semaphores" in gpu
        for block in gpu["threadblocks"]:
            assert {"id", "ops", "channels"} <= set(block)


def test_buffers_that_a_rank_has_not_are_not_nought_chunks() -> None:
    p = problem("gather on full(3)")
    plan = check_all(p, greedy.schedules_of(p)[0], False, 1)
    assert all(g.input_chunks and g.output_chunks for g in plan.gpus)


def test_what_does_not_fit_names_the_limit() -> None:
    p = problem("all_gather on full(18)")
    with pytest.raises(ExportError) as caught:
        export_plan(p, greedy.schedules_of(p)[0], PlanOptions())
    assert caught.value.limit == "channels"
    p = problem("all_to_all on full(3)")
    with pytest.raises(ExportError) as caught:
        export_plan(p, greedy.schedules_of(p)[0], PlanOptions(in_place=True))
    assert caught.value.limit == "in place"
