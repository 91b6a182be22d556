"""Whether blocks get to their end with FIFOs of little room: two loops, message by message, cell by cell."""

from __future__ import annotations

from acclc.export.msccl.blocks import Block, Step

ROOM = 2
"""Messages that a FIFO surely holds: NCCL's Simple protocol has least."""

Edge = tuple[int, int, int]
"""(sender, receiver, channel)."""


def stuck(blocks: list[Block]) -> list[Block]:
    """Return the blocks that cannot go on, in order; none if all end.

    Steps move cell by cell, as the engine cuts them at large sizes; a second loop follows each block's first.
    """
    runs = [_Run(block) for block in blocks]
    sent: dict[Edge, int] = {}
    received: dict[Edge, int] = {}
    passed: set[tuple[Step, int]] = set()
    moving = True
    while moving:
        moving = False
        for run in runs:
            while run.advance(sent, received, passed):
                moving = True
    return [run.block for run in runs if not run.ended]


class _Run:
    """Where a block is."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.loop, self.step, self.cell = 0, 0, 0

    @property
    def ended(self) -> bool:
        return self.loop == 2 or not self.block.steps

    def advance(self, sent: dict[Edge, int], received: dict[Edge, int], passed: set[tuple[Step, int]]) -> bool:
        """Move one cell; False where it has to wait."""
        if self.ended:
            return False
        block, step = self.block, self.block.steps[self.step]
        if self.cell == 0 and any((w, self.loop) not in passed for w in step.waits):
            return False
        into = out = None
        if step.first.receives is not None:
            assert block.receive is not None
            into = (block.receive, block.rank, block.channel)
            if received.get(into, 0) >= sent.get(into, 0):
                return False
        if step.first.sends is not None or step.passed is not None:
            assert block.send is not None
            out = (block.rank, block.send, block.channel)
            if sent.get(out, 0) - received.get(out, 0) >= ROOM:
                return False
        if into is not None:
            received[into] = received.get(into, 0) + 1
        if out is not None:
            sent[out] = sent.get(out, 0) + 1
        self._next(step, passed)
        return True

    def _next(self, step: Step, passed: set[tuple[Step, int]]) -> None:
        self.cell += 1
        if self.cell == step.first.piece.count:
            passed.add((step, self.loop))
            self.cell, self.step = 0, self.step + 1
            if self.step == len(self.block.steps):
                self.loop, self.step = self.loop + 1, 0
