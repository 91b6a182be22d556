"""Program against Schedule: pairs match, no deadlock, no hazard, and the effect is the schedule's."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from acclc.ir.problem import InPlace, Problem
from acclc.ir.program import Buffer, Extent, Operation, OperationKind, Program
from acclc.ir.schedule import Schedule
from acclc.verify.clocks import Access, AccessHistory, Vector
from acclc.verify.expressions import Expression, ExpressionTable
from acclc.verify.findings import Collector, Report
from acclc.verify.intent import Intent, Part, intent_of
from acclc.verify.memory import (
    Cells,
    Memory,
    check_counts,
    check_effect,
    check_extents,
    check_header,
    check_parts,
    location_name,
    shards_at,
)
from acclc.verify.names import rank_name

Key = tuple[int, int]
"""(rank, operation id)."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Recomputed from the program."""

    operations: int
    messages: int
    blocks: dict[int, int]
    """Blocks of each rank."""
    slots: dict[int, int]
    """Scratch slots of each rank."""
    needs_buffering: bool
    """Whether it would deadlock if a send ended only when its receive does (a rendezvous)."""


def check_program(problem: Problem, schedule: Schedule, program: Program) -> Report[ProgramFacts]:
    """Check a program against the schedule (itself checked) that it realises.

    Shows: sends and receives pair one to one in FIFO order; every order of execution that respects blocks,
    ``after`` and messages gives the same values, out of place and in place; they are the schedule's.
    """
    found = Collector()
    table = ExpressionTable(problem)
    intent = intent_of(problem, schedule, table)
    if intent is None:
        found.error("program.schedule", "schedule", "the schedule has no sound values: check it first")
        return found.report()
    _check_form(problem, program, found)
    if found.failed:
        return found.report()
    graph = _Graph.of(program)
    _check_messages(problem, intent, graph, found)
    if found.failed:
        return found.report()
    order = graph.order()
    if len(order) < len(graph.operations):
        _report_cycle(problem, graph, order, found)
        return found.report()
    clocks = _clocks(graph, order)
    _check_fifo_order(problem, graph, clocks, found)
    for aliased in (False, True) if program.in_place != InPlace.NONE.value else (False,):
        _Execution(problem, program, graph, clocks, table, intent, aliased, found).run(order)
    return found.report(
        ProgramFacts(
            operations=len(graph.operations),
            messages=sum(len(sends) for sends, _ in graph.messages.values()),
            blocks={r.rank: len(r.blocks) for r in program.ranks},
            slots={r.rank: r.slots for r in program.ranks},
            needs_buffering=graph.needs_buffering(),
        )
    )


def _operation_name(problem: Problem, key: Key, operation: Operation) -> str:
    what = f"operation {key[1]} ({operation.kind.value}"
    if operation.transfer >= 0:
        what += f" of transfer {operation.transfer}"
    return f"{rank_name(problem, key[0])}, {what}, step {operation.step})"


def _check_form(problem: Problem, program: Program, found: Collector) -> None:
    """Fields are consistent and within range, before anything is executed."""
    ranks = [r.rank for r in program.ranks]
    check_header(problem, "program", program.in_place, program.positions, program.contributors, ranks, found)
    if found.failed:
        return
    for r in program.ranks:
        units = (problem.input_units(r.rank), problem.output_units(r.rank))  # type: ignore[arg-type]
        if (r.input_units, r.output_units) != units or r.slots < 0:
            found.error(
                "program.units",
                rank_name(problem, r.rank),
                f"buffers of {r.input_units} and {r.output_units} units, {r.slots} slots; the problem has {units}",
            )
        sizes = {Buffer.INPUT: r.input_units, Buffer.OUTPUT: r.output_units, Buffer.SCRATCH: r.slots}
        ids = [o.id for b in r.blocks for o in b.operations]
        if len(set(ids)) != len(ids):
            found.error("program.ids", rank_name(problem, r.rank), "operation ids are not unique")
        known, lies = set(ids), shards_at(problem)
        for block in r.blocks:
            if not -1 <= block.link < len(problem.topology.links):
                found.error("program.block", rank_name(problem, r.rank), f"has a block of link {block.link}")
            for o in block.operations:
                where = _operation_name(problem, (r.rank, o.id), o)
                if any(a not in known for a in o.after):
                    found.error("program.ids", where, f"waits for {o.after}, not all of which exist")
                if (o.kind is OperationKind.SEND) != (block.link >= 0):
                    found.error("program.block", where, f"does not belong in a block of link {block.link}")
                _check_operation(problem, o, where, sizes, found)
                check_counts(problem, "program", where, r.rank, _extents(o), lies, found)


def _check_operation(problem: Problem, o: Operation, where: str, sizes: dict[Buffer, int], found: Collector) -> None:
    sends, receives = o.kind is OperationKind.SEND, o.kind is OperationKind.RECEIVE
    message = sends or receives
    if bool(o.sources) == receives or (o.target is None) != sends:
        found.error("program.form", where, "has sources or a target that its kind has not, or lacks one")
    if message != (o.transfer >= 0) or message != (o.fifo >= 0) or message != (o.peer >= 0):
        found.error("program.form", where, "transfer, peer and fifo belong to sends and receives, and to nothing else")
    if (not message and o.channel != 0) or o.channel < 0:
        found.error("program.form", where, f"channel {o.channel}")
    if o.step < 0 or (receives and o.final):
        found.error("program.form", where, "negative step, or a receive that is marked final")
    if o.target is not None and o.target.buffer is Buffer.INPUT:
        found.error("program.input", where, "writes the input")
    check_extents("program", where, sizes, _extents(o), found)
    check_parts("program", where, _extents(o), found)


def _extents(o: Operation) -> tuple[Extent, ...]:
    return (*o.sources, *((o.target,) if o.target is not None else ()))


@dataclass(slots=True)
class _Graph:
    """The operations and their order."""

    operations: dict[Key, Operation] = field(default_factory=dict)
    block_of: dict[Key, int] = field(default_factory=dict)
    """Number of the block among all blocks."""
    link_of: dict[Key, int] = field(default_factory=dict)
    blocks: list[list[Key]] = field(default_factory=list)
    messages: dict[tuple[int, int, int], tuple[list[Key], list[Key]]] = field(default_factory=dict)
    """(src, dst, channel) -> its sends and its receives, each in order of fifo."""
    partner: dict[Key, Key] = field(default_factory=dict)
    """Receive -> its send."""
    before: dict[Key, list[Key]] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> _Graph:
        graph = _Graph()
        for r in program.ranks:
            for block in r.blocks:
                keys = [(r.rank, o.id) for o in block.operations]
                for position, (key, o) in enumerate(zip(keys, block.operations, strict=True)):
                    graph.operations[key] = o
                    graph.block_of[key] = len(graph.blocks)
                    graph.link_of[key] = block.link
                    graph.before[key] = [(r.rank, a) for a in o.after] + keys[max(0, position - 1) : position]
                    graph._note_message(key, o)
                graph.blocks.append(keys)
        for sends, receives in graph.messages.values():
            sends.sort(key=lambda k: graph.operations[k].fifo)
            receives.sort(key=lambda k: graph.operations[k].fifo)
            for send, receive in zip(sends, receives, strict=False):
                graph.partner[receive] = send
                graph.before[receive].append(send)
        return graph

    def _note_message(self, key: Key, o: Operation) -> None:
        if o.kind is OperationKind.SEND:
            self.messages.setdefault((key[0], o.peer, o.channel), ([], []))[0].append(key)
        elif o.kind is OperationKind.RECEIVE:
            self.messages.setdefault((o.peer, key[0], o.channel), ([], []))[1].append(key)

    def order(self) -> list[Key]:
        """Return an order that respects everything (Kahn); shorter than the operations if there is a cycle."""
        return _topological(list(self.operations), self.before)

    def needs_buffering(self) -> bool:
        """Whether merging each send with its receive makes a cycle."""
        merged: dict[Key, Key] = {key: self.partner.get(key, key) for key in self.operations}
        before: dict[Key, list[Key]] = {merged[key]: [] for key in self.operations}
        for key, others in self.before.items():
            before[merged[key]] += [merged[o] for o in others if merged[o] != merged[key] or self.partner.get(key) != o]
        return len(_topological(list(before), before)) < len(before)


def _topological(nodes: list[Key], before: dict[Key, list[Key]]) -> list[Key]:
    left = {n: len(before[n]) for n in nodes}
    after: dict[Key, list[Key]] = {n: [] for n in nodes}
    for n in nodes:
        for other in before[n]:
            after[other].append(n)
    order = [n for n in nodes if left[n] == 0]
    for n in order:
        for other in after[n]:
            left[other] -= 1
            if left[other] == 0:
                order.append(other)
    return order


def _report_cycle(problem: Problem, graph: _Graph, order: list[Key], found: Collector) -> None:
    """Follow what waits for what until it comes back."""
    done = set(order)
    key = next(k for k in graph.operations if k not in done)
    path: list[Key] = []
    while key not in path:
        path.append(key)
        key = next(k for k in graph.before[key] if k not in done)
    names = [_operation_name(problem, k, graph.operations[k]) for k in path[path.index(key) :]]
    found.error("program.deadlock", names[0], "waits for ever: " + " waits for ".join([*names, names[0]]))


def _check_messages(problem: Problem, intent: Intent, graph: _Graph, found: Collector) -> None:
    """Each transfer is one send and one receive, matched by the FIFO of their edge, as the schedule says."""
    sent: dict[int, int] = {}
    for (src, dst, channel), (sends, receives) in graph.messages.items():
        where = f"messages from {rank_name(problem, src)} to {rank_name(problem, dst)}, channel {channel}"
        if len(sends) != len(receives):
            found.error("program.match", where, f"{len(sends)} sends and {len(receives)} receives")
        for keys in (sends, receives):
            numbers = [graph.operations[k].fifo for k in keys]
            if numbers != list(range(len(numbers))):
                found.error("program.fifo", where, f"are numbered {numbers}, not 0, 1, 2, ...")
        for send, receive in zip(sends, receives, strict=False):
            left, right = graph.operations[send], graph.operations[receive]
            if left.transfer != right.transfer:
                found.error(
                    "program.match",
                    where,
                    f"number {left.fifo} is sent as transfer {left.transfer}, received as {right.transfer}",
                )
            _check_move(problem, intent, graph, send, receive, found)
        for send in sends:
            transfer = graph.operations[send].transfer
            sent[transfer] = sent.get(transfer, 0) + 1
    for transfer in intent.moves:
        if sent.get(transfer, 0) != 1:
            found.error("program.transfers", f"transfer {transfer}", f"is sent {sent.get(transfer, 0)} times")


def _check_move(problem: Problem, intent: Intent, graph: _Graph, send: Key, receive: Key, found: Collector) -> None:
    o, landing = graph.operations[send], graph.operations[receive]
    where = _operation_name(problem, send, o)
    move = intent.moves.get(o.transfer)
    if move is None:
        found.error("program.transfers", where, f"the schedule has no transfer {o.transfer}")
        return
    if (move.src, move.dst) != (send[0], o.peer):
        found.error("program.transfers", where, f"the schedule moves it from rank {move.src} to rank {move.dst}")
    if not move.step == o.step == landing.step:
        found.error(
            "program.transfers", where, f"is in step {o.step}, received in {landing.step}; scheduled: {move.step}"
        )
    if graph.link_of[send] != move.link:
        found.error(
            "program.link", where, f"its block is bound to link {graph.link_of[send]}, its path starts with {move.link}"
        )
    assert landing.target is not None
    shards = {o.sources[0].shard, landing.target.shard}
    if shards != {move.shard if problem.varying else -1}:
        found.error("program.counts", where, f"is counted by shards {sorted(shards)}; it moves shard {move.shard}")
    for part in ((o.sources[0].begin, o.sources[0].end), (landing.target.begin, landing.target.end)):
        if part != move.part:
            found.error(
                "program.extents", where, f"moves [{part[0]}, {part[1]}), the chunk is [{move.part[0]}, {move.part[1]})"
            )


def _clocks(graph: _Graph, order: list[Key]) -> dict[Key, Vector]:
    """Return the vector of each operation: how many operations of each block have ended before it ends."""
    clocks: dict[Key, Vector] = {}
    count = [0] * len(graph.blocks)
    for key in order:
        vector: Vector = np.zeros(len(graph.blocks), dtype=np.int32)
        for other in graph.before[key]:
            np.maximum(vector, clocks[other], out=vector)
        block = graph.block_of[key]
        count[block] += 1
        vector[block] = count[block]
        clocks[key] = vector
    return clocks


def _check_fifo_order(problem: Problem, graph: _Graph, clocks: dict[Key, Vector], found: Collector) -> None:
    """The sends of an edge run in the order of their numbers, and so do the receives."""
    for pair in graph.messages.values():
        for keys in pair:
            for first, second in pairwise(keys):
                block = graph.block_of[first]
                if clocks[second][block] < clocks[first][block]:
                    where = _operation_name(problem, second, graph.operations[second])
                    found.error(
                        "program.fifo", where, f"may run before number {graph.operations[first].fifo} of its edge"
                    )


@dataclass
class _Execution:
    """Runs the program on expressions in one order, checking that the order does not matter."""

    problem: Problem
    program: Program
    graph: _Graph
    clocks: dict[Key, Vector]
    table: ExpressionTable
    intent: Intent
    aliased: bool
    found: Collector

    def __post_init__(self) -> None:
        sizes = [(r.rank, r.output_units) for r in self.program.ranks]
        self.memory = Memory.of(self.problem, self.program.in_place, self.aliased, sizes, self.program.positions)
        self.initial = self.memory.initial(self.table)
        self.cells = Cells("program", self.problem)
        self.history = AccessHistory(strict=False)
        self.values: dict[int, tuple[Expression | None, Part]] = {}
        self.sent: dict[Key, Expression | None] = {}
        self.when = ", in place" if self.aliased else ""

    def run(self, order: list[Key]) -> None:
        for key in order:
            self._run(key, self.graph.operations[key])
        self.cells.check_overlaps(self.found)
        values = {cell: value for cell, (value, _) in self.values.items()}
        check_effect("program", self.problem, self.table, self.intent, self.cells, values, self.when, self.found)

    def _run(self, key: Key, o: Operation) -> None:
        where = _operation_name(self.problem, key, o) + self.when
        now = Access(self.graph.block_of[key], int(self.clocks[key][self.graph.block_of[key]]), (key, where))
        stamp: Access | None = now
        if o.kind is OperationKind.RECEIVE:
            value = self.sent[self.graph.partner[key]]
        else:
            if o.target is not None and self.memory.is_no_op(key[0], o.sources, key[0], o.target, o.final):
                stamp = None
            value = self._reduce(key, o, where, stamp)
        if o.kind is OperationKind.SEND:
            self.sent[key] = value
            if value is not None and self.table.plain(value) != self.intent.moves[o.transfer].value:
                self.found.error("program.value", where, "does not send what the schedule says, in the order it says")
        if o.target is not None:
            self._write(key, o.target, value, stamp)

    def _reduce(self, key: Key, o: Operation, where: str, now: Access | None) -> Expression | None:
        parts = [self._read(key, source, where, now) for source in o.sources]
        operands = tuple(p for p in parts if p is not None)
        if len(operands) < len(parts):
            return None
        objection = self.table.objection(operands, o.final)
        if objection is not None:
            self.found.error("program.reduction", where, objection)
            return None
        return self.table.reduce(operands, o.final)

    def _read(self, key: Key, source: Extent, where: str, now: Access | None) -> Expression | None:
        location = self.memory.location(key[0], source)
        cell = self.cells.cell(location, source)
        if now is not None:
            self._report_race(self.history.read(cell, now, self.clocks[key]), now, location)
        held = self.values.get(cell, (self.initial.get(location), (source.begin, source.end)))
        if held[0] is None:
            self.found.error(
                "program.value", where, f"reads {location_name(self.problem, location)}: no value is there"
            )
        elif held[1] != (source.begin, source.end):
            name = location_name(self.problem, location)
            self.found.error("program.extents", where, f"reads another part of {name} than was written there")
            return None
        return held[0]

    def _write(self, key: Key, target: Extent, value: Expression | None, now: Access | None) -> None:
        location = self.memory.location(key[0], target)
        cell = self.cells.cell(location, target, write=now is not None)
        self.values[cell] = (value, (target.begin, target.end))
        if now is not None:
            self._report_race(self.history.write(cell, now, self.clocks[key]), now, location)

    def _report_race(self, earlier: Access | None, now: Access, location: tuple[int, Buffer, int]) -> None:
        if earlier is not None:
            name, other, this = location_name(self.problem, location), earlier.label, now.label
            assert isinstance(other, tuple)
            assert isinstance(this, tuple)
            self.found.error("program.hazard", this[1], f"nothing orders it and {other[1]}; both access {name}")
