"""From actions to blocks: one for each connection's end, two ends in one block where it can pass messages on.

A message that a rank sends on as it receives it never touches memory in between: ``rcs``, ``rrs``, ``rrcs``. That needs
both ends in one block. It also makes the sender before wait for the receiver behind, so blocks are split again where
the FIFOs cannot hold what would then be under way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from acclc.export.msccl.actions import Action
from acclc.ir.problem import Rank

End = tuple[Rank, int]
"""(peer, channel)."""


@dataclass(eq=False, slots=True)
class Step:
    """One step of a block: an action, or a receive with the send that passes it on."""

    first: Action
    passed: Action | None = None
    block: Block | None = None
    index: int = 0
    waits: list[Step] = field(default_factory=list)
    """Those of other blocks that it has to wait for itself."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """Both, or the one."""
        return (self.first,) if self.passed is None else (self.first, self.passed)

    @property
    def stores(self) -> bool:
        """Whether what it makes is needed in memory."""
        if self.first.target is None:
            return False
        others = [u for u in self.first.users if u is not self.passed]
        return self.passed is None or self.first.final or bool(others) or self.first.source is None


@dataclass(eq=False, slots=True)
class Block:
    """A thread block to be. A rank's local work without a message has a block without peers."""

    rank: Rank
    channel: int
    receive: Rank | None = None
    send: Rank | None = None
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ends:
    """The peer and channel of each message's two ends."""

    receive: dict[Action, End]
    send: dict[Action, End]


def make_blocks(actions: list[Action], ends: Ends, apart: Collection[tuple[Rank, End]]) -> list[Block]:
    """Return the blocks of all ranks, rank by rank. ``apart``: receiving ends whose block is not to send."""
    by_rank: dict[Rank, list[Action]] = {}
    for action in actions:
        by_rank.setdefault(action.rank, []).append(action)
    return [b for rank in sorted(by_rank) for b in _of_rank(rank, by_rank[rank], ends, apart)]


def _of_rank(rank: Rank, actions: list[Action], ends: Ends, apart: Collection[tuple[Rank, End]]) -> list[Block]:
    receives: dict[End, list[Action]] = {}
    sends: dict[End, list[Action]] = {}
    local: list[Action] = []
    for action in actions:
        if action.receives is not None:
            receives.setdefault(ends.receive[action], []).append(action)
        elif action.sends is not None:
            sends.setdefault(ends.send[action], []).append(action)
        else:
            local.append(action)
    pairs = _pair({e: a for e, a in receives.items() if (rank, e) not in apart}, sends, ends)
    blocks: list[Block] = []
    for end, arriving in sorted(receives.items()):
        other = pairs.get(end)
        block = Block(rank, end[1], end[0], other[0] if other else None)
        block.steps = _merge(arriving, sends[other] if other else [])
        blocks.append(block)
    taken = set(pairs.values())
    for end, leaving in sorted(sends.items()):
        if end not in taken:
            blocks.append(Block(rank, end[1], None, end[0], [Step(a) for a in leaving]))
    _add_local(rank, local, blocks)
    for block in blocks:
        for index, step in enumerate(block.steps):
            step.block, step.index = block, index
    return blocks


def _pair(receives: dict[End, list[Action]], sends: dict[End, list[Action]], ends: Ends) -> dict[End, End]:
    """Match receiving ends with sending ends of their channel, those first that pass most messages on."""
    weights: dict[tuple[End, End], int] = {}
    for end, arriving in receives.items():
        for action in arriving:
            for user in action.users:
                if user.sends is not None and ends.send[user][1] == end[1]:
                    key = (end, ends.send[user])
                    weights[key] = weights.get(key, 0) + 1
    pairs: dict[End, End] = {}
    for (receive, send), _ in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        if receive not in pairs and send not in pairs.values():
            pairs[receive] = send
    return pairs


def _merge(receives: list[Action], sends: list[Action]) -> list[Step]:
    """Join two ends' actions, each in its order; a receive is joined with the send of what it makes where that fits."""
    position = {action: i for i, action in enumerate(sends)}
    steps: list[Step] = []
    done = 0
    for receive in receives:
        fitting = [u for u in receive.users if position.get(u, -1) >= done]
        passed = min(fitting, key=lambda u: position[u], default=None)
        before = sends[done : position[passed]] if passed is not None else []
        if any(need.order > receive.order for send in before for need in send.needs):
            passed = None  # what goes out before it is made from what comes in after it
        if passed is None:
            while done < len(sends) and sends[done].order < receive.order:
                steps.append(Step(sends[done]))
                done += 1
            steps.append(Step(receive))
            continue
        steps += [Step(b) for b in before]
        steps.append(Step(receive, passed))
        done = position[passed] + 1
    return steps + [Step(a) for a in sends[done:]]


def _add_local(rank: Rank, local: list[Action], blocks: list[Block]) -> None:
    """Put local work into the block of what it waits for last, at its place in the order; else into one of its own.

    Not earlier than its place, even where it could be: what it still waits for would hold up what comes before that.
    """
    step_of = {a: (block, step) for block in blocks for step in block.steps for a in step.actions}
    alone = Block(rank, 0)
    for action in local:
        before = [step_of[n] for n in action.needs]
        block = max(before, key=lambda pair: pair[1].first.order)[0] if before else alone
        at = max((1 + block.steps.index(step) for other, step in before if other is block), default=0)
        while at < len(block.steps) and block.steps[at].first.order <= action.order:
            at += 1
        made = Step(action)
        block.steps.insert(at, made)
        step_of[action] = (block, made)
    if alone.steps:
        blocks.append(alone)
