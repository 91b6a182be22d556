"""The checker of MSCCL++'s plans: right ones pass, damaged ones are found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from acclc.importers import source_of
from acclc.importers.mscclpp_json import read_plan
from acclc.ir.mscclpp import (
    BlockBuffers,
    BlockChannels,
    Plan,
    PlanBlock,
    PlanBuffer,
    PlanChannel,
    PlanGpu,
    PlanOp,
    RemoteBuffer,
    Semaphore,
)
from acclc.verify.mscclpp import check_plan, check_rules


def signal(name: str) -> PlanOp:
    return PlanOp(name, (0,), "memory")


def exchange(blocks: int = 1) -> Plan:
    """An all_gather of two ranks, in the manner of MSCCL++'s own examples."""
    gpus = []
    for rank in range(2):
        own = PlanBuffer(rank, 1, type="o")
        ops = (
            PlanOp("copy", src_buff=(PlanBuffer(0, 1, type="i"),), dst_buff=(own,)),
            signal("rlxsignal"),
            signal("rlxwait"),
            PlanOp("nop"),
            PlanOp("put", (), "memory", src_buff=(own,), dst_buff=(PlanBuffer(rank, 1, buffer_id=0),)),
            PlanOp("nop"),
            signal("signal"),
            signal("wait"),
        )
        made = PlanBlock(0, ops, (BlockChannels("memory", (0,)),), (BlockBuffers("memory", (0,)),))
        remote = (RemoteBuffer(1 - rank, "o", ("memory",)),)
        gpus.append(PlanGpu(rank, 1, 2, 0, (made,), (PlanChannel("memory", (1 - rank,)),), remote))
    return Plan("exchange", "allgather", "Simple", False, tuple(gpus))


def codes(plan: Plan) -> set[str]:
    return {f.code for f in check_plan(plan).errors}


def with_ops(plan: Plan, rank: int, ops: tuple[PlanOp, ...]) -> Plan:
    gpu = plan.gpus[rank]
    made = replace(gpu, threadblocks=(replace(gpu.threadblocks[0], ops=ops), *gpu.threadblocks[1:]))
    return replace(plan, gpus=(*plan.gpus[:rank], made, *plan.gpus[rank + 1 :]))


def damaged(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Each copy lacks an operation of rank 0, or moves a chunk more, or to another place."""
    ops = plan.gpus[0].threadblocks[0].ops
    for i, op in enumerate(ops):
        yield f"without {i} {op.name}", with_ops(plan, 0, (*ops[:i], *ops[i + 1 :]))
        for side in ("src_buff", "dst_buff"):
            for change in ({"size": 2}, {"index": 1}):
                buffers = getattr(op, side)
                if buffers and all(getattr(buffers[0], k) != v for k, v in change.items()):
                    other = replace(op, **{side: (replace(buffers[0], **change),)})
                    yield f"{i} {op.name}: {side} {change}", with_ops(plan, 0, (*ops[:i], other, *ops[i + 1 :]))


def extra() -> list[Path]:
    folder = os.environ.get("ACCLC_EXTRA_INPUTS")
    return [Path(folder) / "mscclpp-plan-allreduce.json"] if folder else []


PLANS = [exchange(), *(read_plan(source_of(p.read_bytes(), p.name)) for p in extra())]


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.name)
def test_right_plans_are_right(plan: Plan) -> None:
    report = check_plan(plan)
    assert not report.findings, str(report)


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.name)
def test_damage_is_found(plan: Plan) -> None:
    for what, copy in damaged(plan):
        assert codes(copy), what


def test_what_is_missing_shows_as_what_it_guards() -> None:
    plan = exchange()
    ops = plan.gpus[0].threadblocks[0].ops

    def without(name: str, rank: int = 0) -> set[str]:
        return codes(with_ops(plan, rank, tuple(o for o in ops if o.name != name)))

    assert "mscclpp.deadlock" in without("signal")
    assert "mscclpp.race" in without("nop")
    assert {"mscclpp.race", "mscclpp.signals"} & without("wait")
    assert "mscclpp.race" in without("rlxwait"), "it could write to a rank that is still in the call before"


def test_a_relaxed_signal_publishes_no_data() -> None:
    plan = exchange()
    ops = plan.gpus[0].threadblocks[0].ops
    relaxed = tuple(replace(o, name="rlxsignal") if o.name == "signal" else o for o in ops)
    assert "mscclpp.race" in codes(with_ops(plan, 0, relaxed))


def two_blocks(order: str) -> Plan:
    """Rank 0 copies in one block and puts in another, ordered by a semaphore, by a barrier, or by nothing."""
    plan = exchange()
    gpu = plan.gpus[0]
    (block,) = gpu.threadblocks
    wait, tell = {
        "semaphore": (PlanOp("sem_acquire", semaphore_ids=(0,)), PlanOp("sem_release", semaphore_ids=(0,))),
        "barrier": (PlanOp("barrier", barrier_id=0, num_threadblocks=2),) * 2,
        "nothing": (PlanOp("nop"), PlanOp("nop")),
    }[order]
    first = PlanBlock(0, (wait, PlanOp("nop"), *block.ops[1:]), block.channels, block.remote_buffer_refs)
    second = PlanBlock(1, (block.ops[0], PlanOp("nop"), tell))
    made = replace(gpu, threadblocks=(first, second), semaphores=(Semaphore(0),))
    return replace(plan, gpus=(made, plan.gpus[1]))


@pytest.mark.parametrize("order", ["semaphore", "barrier"])
def test_blocks_that_are_ordered(order: str) -> None:
    assert not check_plan(two_blocks(order)).findings


def test_blocks_that_are_not_ordered() -> None:
    assert {"mscclpp.race", "mscclpp.value"} & codes(two_blocks("nothing"))


def test_the_tables_have_an_end() -> None:
    plan = exchange()
    ops = plan.gpus[0].threadblocks[0].ops
    assert "mscclpp.ops" in codes(with_ops(plan, 0, (*ops, *[PlanOp("nop")] * 60)))
    nine = replace(ops[1], channel_ids=(0,) * 9)
    assert "mscclpp.channels" in codes(with_ops(plan, 0, (nine,)))
    wide = replace(ops[4], src_buff=ops[4].src_buff * 11, dst_buff=ops[4].dst_buff * 11)
    assert "mscclpp.buffers" in codes(with_ops(plan, 0, (wide,)))
    assert "mscclpp.name" in codes(with_ops(plan, 0, (PlanOp("glre"),)))
    mixed = (PlanBuffer(0, 1, type="o"), PlanBuffer(0, 1, type="i"))
    uneven = replace(ops[4], src_buff=mixed, dst_buff=ops[4].dst_buff * 2)
    assert "mscclpp.form" in codes(with_ops(plan, 0, (uneven,)))
    none = replace(plan, gpus=(replace(plan.gpus[0], output_chunks=0), plan.gpus[1]))
    assert "mscclpp.chunks" in codes(none)


def test_rules_hold_for_plans_that_are_not_executed() -> None:
    """Packets, ports and switches: the form is checked, and that the rest is not is said."""
    plan = exchange()
    ops = plan.gpus[0].threadblocks[0].ops
    packet = with_ops(plan, 0, (replace(ops[4], name="ppkt"), *ops[5:]))
    assert check_rules(packet).ok
    assert "mscclpp.unknown" in codes(packet)
