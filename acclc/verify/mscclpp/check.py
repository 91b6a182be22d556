"""What an execution plan does: signals meet waits, all ends, no race, and the result is the collective's.

Memory is seen in *parts* of chunks, as fine as any group of thread blocks cuts them. Two calls are run one after the
other, with nothing between ranks but what the plan has: a rank may be in the second while others are in the first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import lcm

from acclc.ir.mscclpp import Plan, PlanBuffer, PlanOp
from acclc.verify.chunk_layout import KNOWN, MULTIPLIED, ROOTED, Layout
from acclc.verify.findings import Collector, Report
from acclc.verify.mscclpp.machine import EXECUTED, Machine
from acclc.verify.mscclpp.rules import check_rules

MAX_PARTS = 5040
MAX_PLACES = 4_000_000
"""Parts of chunks that operations touch in all: more is not executed."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """Recomputed. ``root`` is the rank that a rooted collective is for; the file does not say it."""

    operations: int
    """Of the longest thread block."""
    blocks: int
    signals: int
    """Of all ranks, a call."""
    root: int | None


def check_plan(plan: Plan) -> Report[PlanFacts]:
    """Check a plan by its rules and by its meaning.

    Shows, for every interleaving: no thread block waits for ever; conflicting accesses are ordered, within and across
    two calls in a row; every output is the collective's, each contribution once.
    """
    found = Collector()
    for finding in check_rules(plan).findings:
        (found.warning if finding.warning else found.error)(finding.code, finding.where, finding.message)
    parts = _parts(plan, found)
    _check_known(plan, found)
    touched = sum(b.size for g in plan.gpus for t in g.threadblocks for o in t.ops for b in (*o.src_buff, *o.dst_buff))
    if touched * parts > MAX_PLACES:
        found.error("mscclpp.unknown", "plan", f"touches {touched * parts} parts of chunks: too many for this checker")
    if found.failed:
        return found.report()
    best: tuple[int, int, Collector] | None = None
    for root in range(len(plan.gpus)) if plan.collective in ROOTED else (-1,):
        layout = _layout(plan, root)
        if layout is None:
            continue
        trial = Collector()
        Machine(plan, layout, parts, trial).run(calls=2)
        wrong = sum(count for code, count in trial.counts.items() if any(f.code == code for f in trial.findings))
        if best is None or wrong < best[0]:
            best = (wrong, root, trial)
        if wrong == 0:
            break
    if best is None:
        found.error(
            "mscclpp.chunks", "plan", f"no rank's chunks are those of {plan.collective} on {len(plan.gpus)} ranks"
        )
        return found.report()
    for finding in best[2].findings:
        (found.warning if finding.warning else found.error)(finding.code, finding.where, finding.message)
    blocks = [b for g in plan.gpus for b in g.threadblocks]
    names = Counter(op.name for b in blocks for op in b.ops for _ in op.channel_ids)
    facts = PlanFacts(
        operations=max((len(b.ops) for b in blocks), default=0),
        blocks=max((len(g.threadblocks) for g in plan.gpus), default=0),
        signals=names["signal"] + names["rlxsignal"],
        root=best[1] if plan.collective in ROOTED else None,
    )
    return found.report(facts)


def _check_known(plan: Plan, found: Collector) -> None:
    if plan.collective not in KNOWN:
        found.error("mscclpp.collective", "plan", f"there is no definition of {plan.collective!r} to check by")
    if plan.reuse_resources:
        found.error("mscclpp.unknown", "plan", "scratch that is reused within a call is not executed by this checker")
    others = sorted({op.name for g in plan.gpus for b in g.threadblocks for op in b.ops} - EXECUTED)
    if others:
        found.error("mscclpp.unknown", "plan", f"{', '.join(others)}: not executed by this checker")
    kinds = sorted({op.channel_type for g in plan.gpus for b in g.threadblocks for op in b.ops if op.channel_type})
    if any(kind != "memory" for kind in kinds):
        found.error("mscclpp.unknown", "plan", f"{', '.join(kinds)}: only memory channels are executed by this checker")


def _parts(plan: Plan, found: Collector) -> int:
    """Return into how many parts a chunk is cut; all cuts within a chunk must be those of one kind of group."""
    parts = 1
    cuts: dict[tuple[int, str, int], tuple[int, int, int]] = {}
    for gpu in plan.gpus:
        for block in gpu.threadblocks:
            for op in block.ops:
                size = op.tbg_info.tbg_size if op.tbg_info is not None else 1
                if size < 1:
                    continue
                parts = min(MAX_PARTS, lcm(parts, size))
                for buffer in (*op.src_buff, *op.dst_buff):
                    _note_cuts(gpu.id, buffer, op, size, cuts, found)
    return parts


def _note_cuts(
    rank: int,
    buffer: PlanBuffer,
    op: PlanOp,
    size: int,
    cuts: dict[tuple[int, str, int], tuple[int, int, int]],
    found: Collector,
) -> None:
    """Where a group cuts inside a chunk depends on rounding, so two groups may not cut the same chunk differently."""
    if size == 1 or buffer.size % size == 0:
        return
    for chunk in range(buffer.index, buffer.index + min(buffer.size, 4096)):
        key = (rank, buffer.type or f"remote {buffer.buffer_id}", chunk)
        cut = (buffer.index, buffer.size, size)
        if cuts.setdefault(key, cut) != cut:
            words = f"cuts chunk {chunk} of {key[1]!r} otherwise than another op: where, depends on rounding"
            found.error("mscclpp.group", f"rank {rank}, {op.name}", words)


def _layout(plan: Plan, root: int) -> Layout | None:
    """Return the layout that every rank's chunks agree with; a buffer that a rank has not may have any length."""
    ranks = len(plan.gpus)
    first = plan.gpus[max(root, 0)]
    spread = plan.collective in ("reducescatter", "alltoall", "scatter")
    shard = first.input_chunks // ranks if spread else first.input_chunks
    layout = Layout(plan.collective, ranks, shard, root)
    for gpu in plan.gpus:
        wanted = (layout.input_chunks(gpu.id), layout.output_chunks(gpu.id))
        if wanted[0] not in (0, gpu.input_chunks) or wanted[1] not in (0, gpu.output_chunks):
            return None
    return layout if shard and (plan.collective not in MULTIPLIED or shard) else None
