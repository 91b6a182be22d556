"""Which steps of other blocks a step has to wait for: those that nothing else orders before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acclc.export.msccl.actions import Message
from acclc.export.msccl.blocks import Block, Step

Clock = NDArray[np.int32]


def add_all_waits(blocks: list[Block]) -> None:
    """Fill in every wait on another block of the rank, implied ones too."""
    step_of = {a: step for block in blocks for step in block.steps for a in step.actions}
    for block in blocks:
        for step in block.steps:
            needed = dict.fromkeys(step_of[n] for a in step.actions for n in a.needs)
            step.waits = [n for n in needed if n.block is not block]


def drop_implied_waits(blocks: list[Block]) -> None:
    """Keep of a step's waits those that no other order implies: of its block, of messages, of waits that are kept.

    By vector clocks over all blocks of all ranks; the last step of a block implies those before it.
    """
    number = {block: i for i, block in enumerate(blocks)}
    order = _order(blocks)
    sender = _senders(blocks)
    clocks: dict[Step, Clock] = {}
    place = {step: i for i, step in enumerate(order)}
    for step in order:
        assert step.block is not None
        clock: Clock = np.zeros(len(blocks), dtype=np.int32)
        before = [step.block.steps[step.index - 1]] if step.index else []
        before += [sender[step]] if step in sender else []
        for other in before:
            np.maximum(clock, clocks[other], out=clock)
        kept: list[Step] = []
        for wait in sorted(step.waits, key=lambda w: -place[w]):
            assert wait.block is not None
            if clock[number[wait.block]] <= wait.index:
                kept.append(wait)
                np.maximum(clock, clocks[wait], out=clock)
        step.waits = sorted(kept, key=lambda w: place[w])
        clock[number[step.block]] = step.index + 1
        clocks[step] = clock


def _senders(blocks: list[Block]) -> dict[Step, Step]:
    """Receiving step -> the step that sends its message."""
    sends: dict[Message, Step] = {}
    for block in blocks:
        for step in block.steps:
            for action in step.actions:
                if action.sends is not None:
                    sends[action.sends] = step
    receives = {step: step.first.receives for block in blocks for step in block.steps}
    return {step: sends[message] for step, message in receives.items() if message is not None}


def _order(blocks: list[Block]) -> list[Step]:
    """Return all steps in an order that respects blocks, messages and waits."""
    sender = _senders(blocks)
    before: dict[Step, list[Step]] = {}
    for block in blocks:
        for step in block.steps:
            before[step] = [*step.waits, *block.steps[step.index - 1 : step.index]]
            if step in sender:
                before[step].append(sender[step])
    left = {step: len(others) for step, others in before.items()}
    after: dict[Step, list[Step]] = {step: [] for step in before}
    for step, others in before.items():
        for other in others:
            after[other].append(step)
    order = [step for step, count in left.items() if count == 0]
    for step in order:
        for other in after[step]:
            left[other] -= 1
            if left[other] == 0:
                order.append(other)
    return order
