"""A lowering as plain as can be: every transfer lands in a slot of its own, block 0 computes all outputs last.

It exists so that the verifiers are tested on programs that the compiler's own lowering would not make.
"""

from __future__ import annotations

from acclc.ir.kernel_program import (
    Counter,
    CounterKind,
    Instruction,
    InstructionKind,
    KernelBlock,
    KernelProgram,
    KernelRank,
)
from acclc.ir.problem import Problem
from acclc.ir.program import Buffer, Extent, Operation, OperationKind, Program, ProgramBlock, RankProgram
from acclc.ir.schedule import OWN, Schedule, Transfer

AWAIT, POST, PUT = InstructionKind.AWAIT, InstructionKind.POST, InstructionKind.PUT


class Plain:
    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem, self.schedule = problem, schedule
        self.ranks = problem.topology.ranks
        self.slot = {}
        for rank in self.ranks:
            arriving = [t for t in schedule.transfers if t.dst == rank]
            self.slot |= {t.id: n for n, t in enumerate(arriving)}
        links = {}
        for t in schedule.transfers:
            links.setdefault((t.src, t.dst), [])
            if t.path[0] not in links[(t.src, t.dst)]:
                links[(t.src, t.dst)].append(t.path[0])
        self.channels = links

    def channel(self, t: Transfer) -> int:
        return self.channels[(t.src, t.dst)].index(t.path[0])

    def place(self, buffer: Buffer, rank: int, chunk_id: int) -> Extent:
        chunk = self.schedule.chunks[chunk_id]
        shard = self.problem.shards[chunk.shard]
        places = shard.inputs if buffer is Buffer.INPUT else shard.outputs
        return Extent(buffer, next(p.unit for p in places if p.rank == rank), chunk.begin, chunk.end)

    def landing(self, t: Transfer) -> Extent:
        chunk = self.schedule.chunks[t.chunk]
        return Extent(Buffer.SCRATCH, self.slot[t.id], chunk.begin, chunk.end)

    def sources(self, rank: int, chunk: int, operands: tuple[int, ...]) -> tuple[Extent, ...]:
        return tuple(
            self.place(Buffer.INPUT, rank, chunk) if o == OWN else self.landing(self.schedule.transfers[o])
            for o in operands
        )

    def bits(self, rank: int, operands: tuple[int, ...]) -> frozenset[int]:
        found: frozenset[int] = frozenset()
        for o in operands:
            t = None if o == OWN else self.schedule.transfers[o]
            found |= {rank} if t is None else self.bits(t.src, t.operands)
        return found

    def final(self, rank: int, chunk: int, operands: tuple[int, ...]) -> bool:
        shard = self.problem.shards[self.schedule.chunks[chunk].shard]
        return shard.reduced and len(operands) > 1 and len(self.bits(rank, operands)) == len(shard.inputs)

    def program(self) -> Program:
        demand = self.problem.demands[0]
        group = demand.group
        return Program(
            name=self.problem.name,
            in_place=demand.in_place.value,
            positions=tuple(group.index(r) if r in group else 0 for r in self.ranks),
            contributors=max((len(s.inputs) for s in self.problem.shards if s.reduced), default=1),
            ranks=tuple(self.rank_program(r) for r in self.ranks),
        )

    def rank_program(self, rank: int) -> RankProgram:
        sends = [t for t in self.schedule.transfers if t.src == rank]
        receives = [t for t in self.schedule.transfers if t.dst == rank]
        outputs = [o for o in self.schedule.outputs if o.rank == rank]
        ids = {("send", t.id): n for n, t in enumerate(sends)}
        ids |= {("receive", t.id): len(sends) + n for n, t in enumerate(receives)}
        computes = []
        for n, o in enumerate(outputs):
            after = [ids[("receive", x)] for x in o.operands if x != OWN]
            after += [ids[("send", t.id)] for t in sends if t.chunk == o.chunk]
            computes.append(
                Operation(
                    id=len(sends) + len(receives) + n,
                    kind=OperationKind.COMPUTE,
                    step=self.schedule.steps - 1,
                    sources=self.sources(rank, o.chunk, o.operands),
                    target=self.place(Buffer.OUTPUT, rank, o.chunk),
                    final=self.final(rank, o.chunk, o.operands),
                    after=tuple(sorted(after)),
                )
            )
        blocks = [ProgramBlock(-1, tuple(computes))]
        for link in sorted({t.path[0] for t in sends}):
            blocks.append(ProgramBlock(link, tuple(self.send(t, ids, sends) for t in sends if t.path[0] == link)))
        for edge in sorted({(t.src, self.channel(t)) for t in receives}):
            mine = [t for t in receives if (t.src, self.channel(t)) == edge]
            blocks.append(ProgramBlock(-1, tuple(self.receive(t, n, ids) for n, t in enumerate(mine))))
        units = self.problem.input_units(rank), self.problem.output_units(rank)
        return RankProgram(rank, *units, len(receives), tuple(blocks))

    def send(self, t: Transfer, ids: dict[tuple[str, int], int], sends: list[Transfer]) -> Operation:
        edge = [x.id for x in sends if (x.dst, x.path[0]) == (t.dst, t.path[0])]
        return Operation(
            id=ids[("send", t.id)],
            kind=OperationKind.SEND,
            step=t.step,
            sources=self.sources(t.src, t.chunk, t.operands),
            transfer=t.id,
            peer=t.dst,
            channel=self.channel(t),
            fifo=edge.index(t.id),
            final=self.final(t.src, t.chunk, t.operands),
            after=tuple(ids[("receive", x)] for x in t.operands if x != OWN),
        )

    def receive(self, t: Transfer, fifo: int, ids: dict[tuple[str, int], int]) -> Operation:
        kind, number = OperationKind.RECEIVE, ids[("receive", t.id)]
        return Operation(number, kind, t.step, (), self.landing(t), t.id, t.src, self.channel(t), fifo)


def plain_program(problem: Problem, schedule: Schedule) -> Program:
    return Plain(problem, schedule).program()


def plain_kernel(problem: Problem, program: Program, depth: int = 2) -> KernelProgram:
    """One arrival and entry counter an edge, one credit a (edge, block of the receiver), one local a send block."""
    counters: list[Counter] = []

    def add(kind: CounterKind, home: int, writer: int, block: int, events: int, src: int, dst: int) -> int:
        counters.append(Counter(len(counters), kind, home, writer, block, events, src, dst))
        return counters[-1].id

    operations = {(r.rank, o.id): o for r in program.ranks for b in r.blocks for o in b.operations}
    work = {r.rank: [b for b in r.blocks if b.link >= 0 or b is r.blocks[0]] for r in program.ranks}
    entry, arrival, credit, local = {}, {}, {}, {}
    for rank, blocks in work.items():
        for n, b in enumerate(blocks[1:], start=1):
            for peer, channel in dict.fromkeys((o.peer, o.channel) for o in b.operations):
                edge = (rank, peer, channel)
                events = sum((o.peer, o.channel) == (peer, channel) for o in b.operations)
                entry[edge] = add(CounterKind.ENTRY, rank, peer, 0, 1, rank, peer)
                arrival[edge] = add(CounterKind.ARRIVAL, peer, rank, n, events, rank, peer)
                for m in range(len(work[peer])):
                    credit[(edge, m)] = add(CounterKind.CREDIT, rank, peer, m, 1, rank, peer)
            local[(rank, n)] = add(CounterKind.LOCAL, rank, rank, n, 1, rank, rank)
    made = []
    for rank, blocks in work.items():
        for n, b in enumerate(blocks):
            begin = [
                Instruction(AWAIT, counter=c) for e, c in entry.items() if e[0] == rank and n and e in _edges(rank, b)
            ]
            begin += [Instruction(POST, counter=c) for e, c in entry.items() if e[1] == rank and n == 0]
            body: list[Instruction] = []
            if n == 0:
                body += [Instruction(AWAIT, counter=c, index=1) for (r, _), c in local.items() if r == rank]
                body += [
                    Instruction(AWAIT, counter=c, index=counters[c].events) for e, c in arrival.items() if e[1] == rank
                ]
            for edge in _edges(rank, b) if n else ():
                body += [Instruction(AWAIT, counter=c, index=1, lag=depth) for (e, _), c in credit.items() if e == edge]
            for o in b.operations:
                for a in o.after if n else ():
                    r = operations[(rank, a)]
                    body.append(Instruction(AWAIT, counter=arrival[(r.peer, rank, r.channel)], index=r.fifo + 1))
                target, where = (o.target, rank) if n == 0 else (_landing(operations, o), o.peer)
                body.append(Instruction(PUT, o.step, o.transfer, -1, 0, 0, o.sources, target, where, o.final))
                if n:
                    body.append(Instruction(POST, counter=arrival[(rank, o.peer, o.channel)], index=o.fifo + 1))
            body += [Instruction(POST, counter=c, index=1) for (e, m), c in credit.items() if e[1] == rank and m == n]
            body += [Instruction(POST, counter=c, index=1) for (r, m), c in local.items() if (r, m) == (rank, n)]
            made.append(KernelBlock(rank, n, b.link, tuple(begin), tuple(body)))
    sizes = tuple(KernelRank(r.rank, r.input_units, r.output_units, r.slots) for r in program.ranks)
    head = (program.name, program.in_place, program.positions, program.contributors, depth, 1)
    return KernelProgram(*head, sizes, tuple(made), tuple(counters))


def _edges(rank: int, block: ProgramBlock) -> list[tuple[int, int, int]]:
    return list(dict.fromkeys((rank, o.peer, o.channel) for o in block.operations))


def _landing(operations: dict[tuple[int, int], Operation], send: Operation) -> Extent | None:
    return next(
        o.target
        for (rank, _), o in operations.items()
        if rank == send.peer and o.kind is OperationKind.RECEIVE and o.transfer == send.transfer
    )
