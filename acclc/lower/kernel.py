"""Pass 3: how. Sends become puts into the receiver's memory; receives become counters that others await.

The receive blocks of the Program vanish: whoever needs an arrival awaits the edge's counter itself. Local work
is block 0 of a rank; it also opens the rank's memory to its senders (entry) and is the one that stays until
everything that is sent to the rank has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from acclc.ir.kernel_program import (
    Counter,
    CounterKind,
    Instruction,
    InstructionKind,
    KernelBlock,
    KernelProgram,
    KernelRank,
    Realisation,
)
from acclc.ir.problem import Problem
from acclc.ir.program import Buffer, Extent, Operation, OperationKind, Program, RankProgram

SLOT_DEPTH = 2
"""Slices a scratch slot holds: one is read while the next arrives."""

Edge = tuple[int, int, int]
"""(src, dst, channel) of a FIFO."""
BlockKey = tuple[int, int]
"""(rank, block index)."""


def lower_kernel(problem: Problem, program: Program, slot_depth: int = SLOT_DEPTH) -> KernelProgram:
    """Return the one-sided realisation of a verified Program.

    Honours the goal's ``channels`` and ``blocks`` (at least two a rank: local work and sends). Redundant waits
    are left out: a counter that a block has awaited in this slice is not awaited again for less.
    """
    ranks = {r.rank: _RankView.of(r, problem.goal.blocks) for r in program.ranks}
    counters = _Counters()
    _number_counters(ranks, counters)
    blocks = tuple(
        _block(ranks, counters, view, index, slot_depth) for view in ranks.values() for index in range(view.size)
    )
    return kernel_of(problem, program, slot_depth, blocks, counters.table)


def kernel_of(
    problem: Problem,
    program: Program,
    slot_depth: int,
    blocks: tuple[KernelBlock, ...],
    counters: Sequence[Counter],
    realisation: Realisation = Realisation.PUT,
) -> KernelProgram:
    """Return a realisation of a Program, with its memory, from what its blocks do."""
    return KernelProgram(
        name=program.name,
        in_place=program.in_place,
        positions=program.positions,
        contributors=program.contributors,
        slot_depth=slot_depth,
        channels=problem.goal.channels,
        ranks=tuple(KernelRank(r.rank, r.input_units, r.output_units, r.slots) for r in program.ranks),
        blocks=blocks,
        counters=tuple(counters),
        realisation=realisation,
    )


@dataclass(frozen=True)
class _RankView:
    """One rank's operations, found by id; its kernel blocks: 0 is local, the others send."""

    program: RankProgram
    operations: dict[int, Operation]
    computes: tuple[Operation, ...]
    sends: tuple[tuple[int, tuple[Operation, ...]], ...]
    """(link, operations) of block 1, 2, ..."""
    block_of: dict[int, int]
    """Operation id (compute or send) -> kernel block."""
    receives: dict[int, Operation]
    """Transfer -> its receive."""

    @staticmethod
    def of(program: RankProgram, limit: int | None) -> _RankView:
        operations = {o.id: o for b in program.blocks for o in b.operations}
        sends = _share_blocks([(b.link, b.operations) for b in program.blocks if b.link >= 0], limit)
        computes = tuple(o for o in operations.values() if o.kind is OperationKind.COMPUTE)
        block_of = {o.id: 0 for o in computes}
        block_of |= {o.id: n for n, (_, block) in enumerate(sends, start=1) for o in block}
        receives = {o.transfer: o for o in operations.values() if o.kind is OperationKind.RECEIVE}
        return _RankView(program, operations, computes, sends, block_of, receives)

    @property
    def size(self) -> int:
        return 1 + len(self.sends)

    def work(self, block: int) -> tuple[Operation, ...]:
        return self.computes if block == 0 else self.sends[block - 1][1]

    def needs_signal(self) -> set[int]:
        """Operations that another block of this rank waits for."""
        waited: set[int] = set()
        for id, block in self.block_of.items():
            waited |= {d for d in self.operations[id].after if self.block_of.get(d, block) != block}
        return waited


def _share_blocks(
    blocks: list[tuple[int, tuple[Operation, ...]]], limit: int | None
) -> tuple[tuple[int, tuple[Operation, ...]], ...]:
    """Where blocks are scarce several links share one, in order of (step, transfer): no wait can become circular."""
    most = len(blocks) if limit is None else max(1, limit - 1)
    if len(blocks) <= most:
        return tuple(blocks)
    shared: list[list[tuple[int, tuple[Operation, ...]]]] = [blocks[i::most] for i in range(most)]
    return tuple(
        (part[0][0], tuple(sorted((o for _, ops in part for o in ops), key=lambda o: (o.step, o.transfer))))
        for part in shared
    )


@dataclass
class _Counters:
    """The table of counters, and where to find one."""

    table: list[Counter] = field(default_factory=list)
    entry: dict[Edge, int] = field(default_factory=dict)
    arrival: dict[Edge, int] = field(default_factory=dict)
    credit: dict[tuple[Edge, int], int] = field(default_factory=dict)
    """(edge, consuming block of the receiver)."""
    credits_of: dict[Edge, list[int]] = field(default_factory=dict)
    local: dict[BlockKey, int] = field(default_factory=dict)
    local_index: dict[tuple[int, int], int] = field(default_factory=dict)
    """(rank, operation) -> its number among the block's local posts, from 1."""

    def add(self, kind: CounterKind, home: int, writer: BlockKey, events: int, src: int, dst: int) -> int:
        number = len(self.table)
        self.table.append(Counter(number, kind, home, writer[0], writer[1], events, src, dst))
        return number


def _edges(view: _RankView) -> dict[Edge, tuple[int, int]]:
    """The rank's outgoing edges: edge -> (its block, number of transfers)."""
    edges: dict[Edge, tuple[int, int]] = {}
    for block in range(1, view.size):
        for o in view.work(block):
            edge = (view.program.rank, o.peer, o.channel)
            edges[edge] = (block, edges.get(edge, (block, 0))[1] + 1)
    return edges


def _number_counters(ranks: dict[int, _RankView], counters: _Counters) -> None:
    for rank, view in ranks.items():
        for edge, (block, transfers) in _edges(view).items():
            src, dst, _ = edge
            counters.entry[edge] = counters.add(CounterKind.ENTRY, src, (dst, 0), 1, src, dst)
            counters.arrival[edge] = counters.add(CounterKind.ARRIVAL, dst, (rank, block), transfers, src, dst)
        signalled = view.needs_signal()
        for block in range(view.size):
            posts = [o.id for o in view.work(block) if o.id in signalled]
            if posts:
                counters.local[(rank, block)] = counters.add(
                    CounterKind.LOCAL, rank, (rank, block), len(posts), rank, rank
                )
                counters.local_index |= {(rank, id): n for n, id in enumerate(posts, start=1)}
    for rank, view in ranks.items():
        for block in range(view.size):
            for edge in dict.fromkeys(e for o in view.work(block) for e in _slot_edges(view, o)):
                counter = counters.add(CounterKind.CREDIT, edge[0], (rank, block), 1, edge[0], edge[1])
                counters.credit[(edge, block)] = counter
                counters.credits_of.setdefault(edge, []).append(counter)


def _slot_edges(view: _RankView, operation: Operation) -> tuple[Edge, ...]:
    """The incoming edges whose scratch slots an operation reads."""
    return tuple(
        (r.peer, view.program.rank, r.channel)
        for r in (view.operations[d] for d in operation.after)
        if r.kind is OperationKind.RECEIVE and r.target in operation.sources and _is_slot(r.target)
    )


def _is_slot(extent: Extent | None) -> bool:
    return extent is not None and extent.buffer is Buffer.SCRATCH


def _block(
    ranks: dict[int, _RankView], counters: _Counters, view: _RankView, index: int, slot_depth: int
) -> KernelBlock:
    """One block: what it does once a call, and for each slice."""
    rank = view.program.rank
    body = _Body(ranks, counters, view, index, slot_depth)
    for operation in view.work(index):
        body.add(operation)
    if index == 0:
        body.await_all_arrivals()
        opened = [n for edge, n in counters.entry.items() if edge[1] == rank]
        entry = [Instruction(InstructionKind.POST, counter=n) for n in opened]
        link = -1
    else:
        used = dict.fromkeys((rank, o.peer, o.channel) for o in view.work(index))
        entry = [Instruction(InstructionKind.AWAIT, counter=counters.entry[e]) for e in used]
        link = view.sends[index - 1][0]
    return KernelBlock(rank, index, link, tuple(entry), tuple(body.instructions))


@dataclass
class _Body:
    """Builds the instructions a block runs for each slice."""

    ranks: dict[int, _RankView]
    counters: _Counters
    view: _RankView
    index: int
    slot_depth: int
    instructions: list[Instruction] = field(default_factory=list)
    awaited: dict[int, int] = field(default_factory=dict)
    """Counter -> the largest index awaited so far in this slice."""

    def __post_init__(self) -> None:
        edges = [(n, e) for n, o in enumerate(self.view.work(self.index)) for e in _slot_edges(self.view, o)]
        self.last_read: dict[Edge, int] = {e: n for n, e in edges}
        self.position = 0

    def add(self, operation: Operation) -> None:
        """Waits, the put, and the posts of one operation."""
        rank = self.view.program.rank
        for dependency in operation.after:
            self._await_dependency(self.view.operations[dependency], operation)
        if operation.kind is OperationKind.SEND:
            self._send(operation)
        else:
            self._put(operation, operation.target, rank)
        if (rank, operation.id) in self.counters.local_index:
            index = self.counters.local_index[(rank, operation.id)]
            self._post(self.counters.local[(rank, self.index)], index, operation)
        for edge in dict.fromkeys(_slot_edges(self.view, operation)):
            if self.last_read[edge] == self.position:
                self._post(self.counters.credit[(edge, self.index)], 1, operation)
        self.position += 1

    def await_all_arrivals(self) -> None:
        """A rank returns only when everything that is sent to it has arrived."""
        rank = self.view.program.rank
        for edge, counter in self.counters.arrival.items():
            if edge[1] == rank:
                last = max(
                    (r for r in self.view.receives.values() if (r.peer, rank, r.channel) == edge), key=lambda r: r.fifo
                )
                self._await(counter, last.fifo + 1, last)

    def _send(self, operation: Operation) -> None:
        rank = self.view.program.rank
        edge = (rank, operation.peer, operation.channel)
        receiver = self.ranks[operation.peer]
        target = receiver.receives[operation.transfer].target
        if _is_slot(target):
            # none where nobody reads what is sent: the writer's own order is enough then
            for counter in self.counters.credits_of.get(edge, ()):
                self._await(counter, 1, operation, lag=self.slot_depth)
        self._put(operation, target, operation.peer)
        self._post(self.counters.arrival[edge], operation.fifo + 1, operation)

    def _await_dependency(self, dependency: Operation, operation: Operation) -> None:
        rank = self.view.program.rank
        if dependency.kind is OperationKind.RECEIVE:
            counter = self.counters.arrival[(dependency.peer, rank, dependency.channel)]
            self._await(counter, dependency.fifo + 1, dependency)
        elif self.view.block_of[dependency.id] != self.index:
            counter = self.counters.local[(rank, self.view.block_of[dependency.id])]
            self._await(counter, self.counters.local_index[(rank, dependency.id)], operation)

    def _await(self, counter: int, index: int, why: Operation, lag: int = 0) -> None:
        if self.awaited.get(counter, 0) >= index:
            return
        self.awaited[counter] = index
        self.instructions.append(
            Instruction(
                InstructionKind.AWAIT,
                step=why.step,
                transfer=why.transfer,
                counter=counter,
                index=index,
                lag=lag,
            )
        )

    def _put(self, operation: Operation, target: Extent | None, target_rank: int) -> None:
        self.instructions.append(
            Instruction(
                InstructionKind.PUT,
                step=operation.step,
                transfer=operation.transfer,
                sources=operation.sources,
                target=target,
                target_rank=target_rank,
                final=operation.final,
            )
        )

    def _post(self, counter: int, index: int, why: Operation) -> None:
        self.instructions.append(
            Instruction(InstructionKind.POST, step=why.step, transfer=why.transfer, counter=counter, index=index)
        )
