"""The order in which an algorithm of MSCCL runs, as graphs over its smallest pieces.

The engine cuts a step of several chunks where the FIFO's buffer is too short for all of them, at large sizes down to
single chunks; so the smallest piece, an *event*, is one chunk of one step. Coarser cuts only merge events of a step,
and so keep every order that this graph has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from acclc.ir.msccl import MscclAlgorithm, MscclBlock, MscclStep
from acclc.verify.findings import Collector

Connection = tuple[int, int, int]
"""(sender, receiver, channel)."""

FIFO = {"Simple": 2, "LL": 8, "LL128": 8}
"""Messages that fit between a sender and its receiver: NCCL has 8 steps a buffer, of which Simple uses 4 a message."""


@dataclass(frozen=True, slots=True)
class Event:
    """Chunk ``unit`` of a step. ``block`` counts all blocks of all ranks."""

    rank: int
    block: int
    step: MscclStep
    unit: int
    name: str


@dataclass(slots=True)
class Graph:
    """All events of one loop, and what each must come after."""

    algorithm: MscclAlgorithm
    events: list[Event] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    """By blocks, dependencies and messages."""
    sender: dict[int, int] = field(default_factory=dict)
    """Receiving event -> the event that sends what it receives."""
    sends: dict[Connection, list[list[int]]] = field(default_factory=dict)
    receives: dict[Connection, list[list[int]]] = field(default_factory=dict)
    """Each message's events."""
    blocks: int = 0

    def order(self) -> list[int]:
        """Return an order that respects everything; shorter than the events where some wait for ever."""
        return topological(self.before)

    def cycle(self, order: list[int]) -> str:
        """Say what waits for what in a circle, given how far ``order`` came."""
        return waiting_circle(self.before, order, [e.name for e in self.events])


def build(algorithm: MscclAlgorithm, found: Collector) -> Graph:
    """Return the graph; findings where messages or dependencies do not match."""
    graph = Graph(algorithm)
    ends: dict[tuple[int, int, int], int] = {}
    for gpu in algorithm.gpus:
        for block in gpu.blocks:
            _add_block(graph, gpu.id, block, ends)
            graph.blocks += 1
    _add_waits(graph, ends, found)
    _add_messages(graph, found)
    return graph


def step_name(rank: int, block: int, step: MscclStep) -> str:
    """Return e.g. ``rank 0, block 2, step 5 (rrc)``."""
    return f"rank {rank}, block {block}, step {step.number} ({step.kind.value})"


def _add_block(graph: Graph, rank: int, block: MscclBlock, ends: dict[tuple[int, int, int], int]) -> None:
    last = -1
    for position, step in enumerate(block.steps):
        name = step_name(rank, block.id, step)
        message: list[int] = []
        for unit in range(max(1, step.count)):
            number = len(graph.events)
            graph.events.append(Event(rank, graph.blocks, step, unit, name))
            graph.before.append([last] if last >= 0 else [])
            message.append(number)
            last = number
        ends[(rank, block.id, position)] = last
        if step.kind.sends and block.send is not None:
            graph.sends.setdefault((rank, block.send, block.channel), []).append(message)
        if step.kind.receives and block.receive is not None:
            graph.receives.setdefault((block.receive, rank, block.channel), []).append(message)


def _add_waits(graph: Graph, ends: dict[tuple[int, int, int], int], found: Collector) -> None:
    """A step begins after the steps that it and the ``nop`` before it wait for."""
    for number, event in enumerate(graph.events):
        if event.unit or event.step.wait is None:
            continue
        block, step = event.step.wait
        end = ends.get((event.rank, block, step))
        if end is None:
            found.error("msccl.wait", event.name, f"waits for step {step} of block {block}, which does not exist")
            continue
        awaited = graph.events[end].step
        if not awaited.awaited or awaited.kind.value == "nop":
            found.error("msccl.wait", event.name, f"waits for {graph.events[end].name}, which never tells (hasdep)")
        graph.before[number].append(end)


def _add_messages(graph: Graph, found: Collector) -> None:
    for connection in sorted({*graph.sends, *graph.receives}):
        sends, receives = graph.sends.get(connection, []), graph.receives.get(connection, [])
        src, dst, channel = connection
        where = f"messages from rank {src} to rank {dst}, channel {channel}"
        if len(sends) != len(receives):
            found.error("msccl.match", where, f"{len(sends)} are sent and {len(receives)} received")
        for index, (send, receive) in enumerate(zip(sends, receives, strict=False)):
            if len(send) != len(receive):
                chunks = f"{len(send)} chunks are sent and {len(receive)} received"
                found.error("msccl.match", f"{where}, number {index}", chunks)
            for one, other in zip(send, receive, strict=False):
                graph.sender[other] = one
                graph.before[other].append(one)


def progress(graph: Graph, capacity: int, whole: bool) -> str | None:
    """Say who waits for whom in a circle if FIFOs hold ``capacity`` messages; None where all ends.

    Two loops are unrolled: the second begins in each block when its first has ended, and its messages queue behind.
    ``whole``: a message is a whole step, as at small sizes; else a single chunk, as at large ones.
    """
    groups = [e.step if whole else None for e in graph.events]
    number: list[int] = []
    for i, event in enumerate(graph.events):
        merged = whole and event.unit > 0 and groups[i] is groups[i - 1]
        number.append(number[-1] if merged else (number[-1] + 1 if number else 0))
    size = (number[-1] + 1) if number else 0
    before: list[list[int]] = [[] for _ in range(2 * size)]
    for i, others in enumerate(graph.before):
        for loop in (0, size):
            before[number[i] + loop] += [number[o] + loop for o in others if number[o] != number[i]]
    first, last = _block_ends(graph, number)
    for block, begin in first.items():
        before[begin + size].append(last[block])
    for connection, sends in graph.sends.items():
        out = list(_in_loops(sends, number, size))
        back = list(_in_loops(graph.receives.get(connection, []), number, size))
        for send, freeing in zip(out[capacity:], back, strict=False):
            before[send].append(freeing)
    order = topological(before)
    if len(order) == len(before):
        return None
    names = [""] * (2 * size)
    for i, event in enumerate(graph.events):
        names[number[i]] = event.name
        names[number[i] + size] = f"{event.name} of the next loop"
    return waiting_circle(before, order, names)


def _block_ends(graph: Graph, number: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, event in enumerate(graph.events):
        first.setdefault(event.block, number[i])
        last[event.block] = number[i]
    return first, last


def _in_loops(messages: list[list[int]], number: list[int], size: int) -> Iterator[int]:
    for loop in (0, size):
        previous = -1
        for message in messages:
            for event in message:
                if number[event] != previous:
                    yield number[event] + loop
                previous = number[event]


def topological(before: list[list[int]]) -> list[int]:
    """Return nodes in an order that respects ``before`` (Kahn); those on circles, and after them, are left out."""
    left = [len(b) for b in before]
    after: list[list[int]] = [[] for _ in before]
    for node, others in enumerate(before):
        for other in others:
            after[other].append(node)
    order = [n for n, count in enumerate(left) if count == 0]
    for node in order:
        for other in after[node]:
            left[other] -= 1
            if left[other] == 0:
                order.append(other)
    return order


def waiting_circle(before: list[list[int]], order: list[int], names: list[str]) -> str:
    """Follow what waits for what among the nodes that ``order`` does not reach, until it comes back."""
    done = set(order)
    node = next(n for n in range(len(before)) if n not in done)
    path: list[int] = []
    seen: set[int] = set()
    while node not in seen:
        path.append(node)
        seen.add(node)
        node = next(n for n in before[node] if n not in done)
    circle = list(dict.fromkeys(names[n] for n in path[path.index(node) :]))
    return " waits for ".join([*circle, circle[0]])
