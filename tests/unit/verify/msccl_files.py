"""Algorithms of MSCCL as other people write them, and damaged copies of any."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from acclc.ir.msccl import MscclAlgorithm, MscclStep, StepKind


def ring_text(n: int, more: str = 'outofplace="0" minBytes="0" maxBytes="0"') -> str:
    """An in-place ring all-reduce with one block a rank, in the manner of msccl-tools."""
    lines = [
        "<!-- a ring -->",
        f'<algo name="ring" proto="LL128" nchannels="1" nchunksperloop="{n}" ngpus="{n}" coll="allreduce" inplace="1"'
        f"{' ' + more if more else ''}>",
    ]
    for r in range(n):
        lines.append(f'  <gpu id="{r}" i_chunks="{n}" o_chunks="0" s_chunks="0">')
        lines.append(f'    <tb id="0" send="{(r + 1) % n}" recv="{(r - 1) % n}" chan="0">')
        steps = [("s", r)]
        steps += [("rrc" if k < n - 1 else "rrcs", (r - k) % n) for k in range(1, n)]
        flat: list[tuple[str, int]] = [steps[0]]
        for kind, chunk in steps[1:]:
            flat += [(kind, chunk), ("s", chunk)] if kind == "rrc" else [(kind, chunk)]
        for k in range(n - 1):
            chunk = (r - k) % n
            flat += [("r", chunk), ("s", chunk)] if k < n - 2 else [("r", chunk)]
        for s, (kind, chunk) in enumerate(flat):
            lines.append(
                f'      <step s="{s}" type="{kind}" srcbuf="i" srcoff="{chunk}" dstbuf="i" dstoff="{chunk}" cnt="1"'
                ' depid="-1" deps="-1" hasdep="0"/>'
            )
        lines += ["    </tb>", "  </gpu>"]
    return "\n".join([*lines, "</algo>"]) + "\n"


def relay_text() -> str:
    """A broadcast over rank 1, whose receive and send are in different blocks: a dependency."""
    head = 'name="relay" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="3" coll="broadcast" inplace="0"'

    def step(s: int, kind: str, source: str, wait: str = 'depid="-1" deps="-1"', told: int = 0) -> str:
        places = f'srcbuf="{source}" srcoff="0" dstbuf="o" dstoff="0" cnt="2"'
        return f'<step s="{s}" type="{kind}" {places} {wait} hasdep="{told}"/>'

    return f"""<algo {head} outofplace="1" minBytes="0" maxBytes="0">
<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0">
<tb id="0" send="1" recv="-1" chan="0">{step(0, "s", "i")}</tb>
<tb id="1" send="-1" recv="-1" chan="0">{step(0, "cpy", "i")}</tb>
</gpu>
<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
<tb id="0" send="-1" recv="0" chan="0">{step(0, "r", "o", told=1)}</tb>
<tb id="1" send="2" recv="-1" chan="0">{step(0, "s", "o", 'depid="0" deps="0"')}</tb>
</gpu>
<gpu id="2" i_chunks="2" o_chunks="2" s_chunks="0">
<tb id="0" send="-1" recv="1" chan="0">{step(0, "r", "o")}</tb>
</gpu>
</algo>
"""


def _each(algorithm: MscclAlgorithm) -> Iterator[tuple[int, int, int, MscclStep]]:
    for g, gpu in enumerate(algorithm.gpus):
        for b, block in enumerate(gpu.blocks):
            for s, step in enumerate(block.steps):
                yield g, b, s, step


def with_steps(algorithm: MscclAlgorithm, g: int, b: int, steps: tuple[MscclStep, ...]) -> MscclAlgorithm:
    """Return a copy in which one block has other steps."""
    gpu = algorithm.gpus[g]
    blocks = (*gpu.blocks[:b], replace(gpu.blocks[b], steps=steps), *gpu.blocks[b + 1 :])
    return replace(algorithm, gpus=(*algorithm.gpus[:g], replace(gpu, blocks=blocks), *algorithm.gpus[g + 1 :]))


def without_a_step(algorithm: MscclAlgorithm, renumber: bool) -> Iterator[MscclAlgorithm]:
    """Each copy lacks a step; those after it, and waits for them, are renumbered or not."""
    for g, b, s, _ in _each(algorithm):
        block = algorithm.gpus[g].blocks[b]
        steps = (*block.steps[:s], *block.steps[s + 1 :])
        if not renumber:
            yield with_steps(algorithm, g, b, steps)
            continue
        copy = with_steps(algorithm, g, b, tuple(replace(x, number=i) for i, x in enumerate(steps)))
        for other, _ in enumerate(copy.gpus[g].blocks):
            moved = tuple(
                replace(x, wait=(block.id, x.wait[1] - 1))
                if x.wait is not None and x.wait[0] == block.id and x.wait[1] > s
                else x
                for x in copy.gpus[g].blocks[other].steps
            )
            copy = with_steps(copy, g, other, moved)
        yield copy


def without_a_wait(algorithm: MscclAlgorithm) -> Iterator[MscclAlgorithm]:
    """Each copy lacks a dependency (a ``nop`` goes with it)."""
    for g, b, s, step in _each(algorithm):
        if step.wait is not None and step.kind is not StepKind.NOP:
            steps = algorithm.gpus[g].blocks[b].steps
            yield with_steps(algorithm, g, b, (*steps[:s], replace(step, wait=None), *steps[s + 1 :]))


def with_another_count(algorithm: MscclAlgorithm) -> Iterator[MscclAlgorithm]:
    """In each copy a step moves a chunk more."""
    for g, b, s, step in _each(algorithm):
        if step.kind is not StepKind.NOP:
            steps = algorithm.gpus[g].blocks[b].steps
            yield with_steps(algorithm, g, b, (*steps[:s], replace(step, count=step.count + 1), *steps[s + 1 :]))


def sums_at_random(algorithm: MscclAlgorithm, seed: int) -> bool:
    """Run an in-place all-reduce, choosing the next block at random; say whether every rank has the sums."""
    chance, chunks = random.Random(seed), algorithm.chunks_per_loop
    memory = {(g.id, c): (g.id + 2) ** 9 + c for g in algorithm.gpus for c in range(chunks)}
    scratch: dict[tuple[int, int], int] = {}
    expected = [sum((g.id + 2) ** 9 + c for g in algorithm.gpus) for c in range(chunks)]
    queues: dict[tuple[int, int, int], list[int]] = {}
    blocks = [(g.id, b) for g in algorithm.gpus for b in g.blocks]
    done = dict.fromkeys(((rank, b.id) for rank, b in blocks), 0)
    while any(done[rank, b.id] < len(b.steps) for rank, b in blocks):
        rank, block = chance.choice(blocks)
        if done[rank, block.id] == len(block.steps):
            continue
        step = block.steps[done[rank, block.id]]
        queue = queues.setdefault((-1 if block.receive is None else block.receive, rank, block.channel), [])
        waits = step.wait is not None and done[rank, step.wait[0]] <= step.wait[1]
        if waits or (step.kind.receives and not queue):
            continue
        for unit in range(step.count):
            value = queue.pop(0) if step.kind.receives else 0
            for place, used in ((step.source, step.kind.reads), (step.target, step.kind is StepKind.REDUCE)):
                if used:
                    held = scratch if place.buffer == "s" else memory
                    value += held[rank, place.offset + unit]
            if step.kind.writes:
                (scratch if step.target.buffer == "s" else memory)[rank, step.target.offset + unit] = value
            if step.kind.sends:
                queues.setdefault((rank, block.send or 0, block.channel), []).append(value)
        done[rank, block.id] += 1
    return all(memory[g.id, c] == expected[c] for g in algorithm.gpus for c in range(chunks))
