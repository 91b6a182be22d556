"""Executes a KernelProgram on expressions, unrolled over slices and calls, with happens-before beside the values.

One greedy execution is enough. Counters only grow and awaits only compare, so what is enabled stays enabled:
if this execution ends, all do (Kahn), and if it sticks, all stick. The post that first satisfies an await is
the same in every execution (one writer a counter), so the happens-before relation is, too; if it orders all
conflicting accesses, every execution reads the same values.

The user's own accesses are modelled at the calls' borders: before a rank enters a call and after it returned,
all of its buffers may be read and written. So whoever touches a rank's memory must be ordered after its entry
and before its return. That holds for scratch too, and makes sequences of different variants safe. Only the scratch
of an eager program belongs to it alone: what is between its calls does not touch it, and its slots go on from call
to call.

Lines (protocol LL) are an edge of their own kind, weaker than post and await: a read of a slot waits for the lines of
its slice. That orders the line itself, and before it what the writer's block did up to its last barrier (its other
threads may still be at work on the rest); and only after the reader's next barrier, as one of its threads has seen it.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from acclc.ir.kernel_program import (
    CounterKind,
    Instruction,
    InstructionKind,
    KernelProgram,
    Place,
    Protocol,
    Realisation,
)
from acclc.ir.problem import Problem
from acclc.ir.program import Buffer
from acclc.verify.clocks import Access, AccessHistory, Vector
from acclc.verify.expressions import Expression, ExpressionTable
from acclc.verify.findings import Collector
from acclc.verify.intent import Intent, Part
from acclc.verify.kernel_form import block_name, counter_name, instruction_name
from acclc.verify.kernel_parts import Call, Held, Label, Lines, Mode, ResolvedPlace, ResolvedPut, Thread
from acclc.verify.memory import Cells, Location, Memory, check_effect, location_name
from acclc.verify.names import rank_name


class Unrolled:
    """The execution. ``run`` does it once and leaves findings in ``found``."""

    def __init__(
        self,
        problem: Problem,
        kernel: KernelProgram,
        table: ExpressionTable,
        intent: Intent,
        calls: tuple[Call, ...],
        found: Collector,
    ) -> None:
        self.problem, self.kernel, self.table, self.intent = problem, kernel, table, intent
        self.calls, self.found = calls, found
        self.slices_before = [sum(c.slices for c in calls[:n]) for n in range(len(calls))]
        self.modes = {aliased: self._mode(aliased) for aliased in sorted({c.aliased for c in calls})}
        blocks, ranks = len(kernel.blocks), len(problem.topology.ranks)
        self.blocks_of: dict[int, list[int]] = {}
        for number, block in enumerate(kernel.blocks):
            self.blocks_of.setdefault(block.rank, []).append(number)
        self.threads = [Thread() for _ in kernel.blocks]
        self.vectors: list[Vector] = [np.zeros(blocks + ranks, dtype=np.int32) for _ in kernel.blocks]
        self.border = blocks
        """Vector element ``border + r`` is the number of calls that rank r has entered."""
        self.posts: list[list[Vector]] = [[] for _ in kernel.counters]
        self.waiters: dict[int, list[int]] = {}
        self.ended: dict[tuple[int, int], int] = {}
        self.returns: dict[tuple[int, int], Vector] = {}
        self.remote: dict[tuple[int, int, int], Access] = {}
        """(whose memory, call, which block) -> its last access there."""
        self.eager = kernel.realisation is Realisation.EAGER
        self.by_lines = kernel.protocol is Protocol.LL
        self.lines: dict[tuple[int, int, int], Lines] = {}
        self.seen: list[Vector] = [vector.copy() for vector in self.vectors]
        """What lines proved to each block, from its next barrier on."""
        edges = {(c.src, c.dst): c.id for c in kernel.counters if c.kind is CounterKind.ARRIVAL}
        self.edge_of = {
            (p.rank, Buffer.SCRATCH, p.extent.unit): edges.get((b.rank, p.rank), -1)
            for b in kernel.blocks
            for o in b.body
            for p in o.writes(b.rank)
            if p.rank != b.rank and p.extent.buffer is Buffer.SCRATCH
        }
        """Slot -> the arrival counter that names the edge over which its lines come."""
        self.history = AccessHistory(strict=True)
        self.held: dict[tuple[int, int, int], Held] = {}
        """(call, slice, cell), or (-1, slice mod K, cell) in scratch."""
        self.reductions: dict[tuple[tuple[Expression, ...], bool], tuple[Expression | None, str]] = {}

    def _mode(self, aliased: bool) -> Mode:
        sizes = [(r.rank, r.output_units) for r in self.kernel.ranks]
        memory = Memory.of(self.problem, self.kernel.in_place, aliased, sizes, self.kernel.positions)
        mode = Mode(memory, Cells("kernel", self.problem), memory.initial(self.table))
        for block in self.kernel.blocks:
            mode.puts.append([self._resolve(mode, block.rank, o) for o in block.body])
        mode.cells.check_overlaps(self.found)
        return mode

    def _resolve(self, mode: Mode, rank: int, o: Instruction) -> ResolvedPut | None:
        if o.kind is not InstructionKind.PUT or o.target is None:
            return None
        reads, writes = o.reads(rank), o.writes(rank)
        same = [not o.origins and mode.memory.is_no_op(rank, o.sources, p.rank, p.extent, o.final) for p in writes]
        sources = tuple(self._place(mode, p, write=False) for p in reads)
        targets = tuple(self._place(mode, p, write=not s, same=s) for p, s in zip(writes, same, strict=True))
        return ResolvedPut(sources, targets, (o.target.begin, o.target.end), o.final, all(same))

    def _place(self, mode: Mode, place: Place, *, write: bool, same: bool = False) -> ResolvedPlace:
        at = mode.memory.location(place.rank, place.extent)
        return ResolvedPlace(mode.cells.cell(at, place.extent, write=write), at, place.rank, place.transfer, same)

    def run(self) -> None:
        """Execute all calls, then check progress, returns and effects."""
        ready: deque[int] = deque()
        for rank in self.blocks_of:
            self._enter(rank, 0, None, ready)
        while ready:
            self._advance(ready.popleft(), ready)
        stuck = [n for n, t in enumerate(self.threads) if t.waits is not None]
        if stuck:
            self._report_stuck(stuck)
            return
        self._check_returns()
        self._check_effects()

    def _enter(self, rank: int, call: int, returned: Vector | None, ready: deque[int]) -> None:
        """All blocks of a rank start a call, after all of them ended the one before."""
        self.ended[(rank, call)] = 0
        for number in self.blocks_of[rank]:
            thread, vector = self.threads[number], self.vectors[number]
            if returned is not None:
                np.maximum(vector, returned, out=vector)
            thread.time += 1
            vector[number] = thread.time
            vector[self.border + rank] = call + 1
            thread.call, thread.slice, thread.position = call, -1, 0
            ready.append(number)

    def _advance(self, number: int, ready: deque[int]) -> None:
        """Run a block until it waits or its call ends."""
        block, thread = self.kernel.blocks[number], self.threads[number]
        while True:
            instructions = block.entry if thread.slice < 0 else block.body
            while thread.position < len(instructions):
                if not self._execute(number, instructions[thread.position], ready):
                    return
                thread.position += 1
            thread.slice, thread.position = thread.slice + 1, 0
            if self.by_lines:
                self._barrier(number)
            if thread.slice >= self.calls[thread.call].slices:
                self._end(number, ready)
                return

    def _end(self, number: int, ready: deque[int]) -> None:
        rank, call = self.kernel.blocks[number].rank, self.threads[number].call
        self.ended[(rank, call)] += 1
        blocks = self.blocks_of[rank]
        if self.ended[(rank, call)] < len(blocks):
            return
        returned: Vector = np.maximum.reduce([self.vectors[b] for b in blocks])
        self.returns[(rank, call)] = returned
        if call + 1 < len(self.calls):
            self._enter(rank, call + 1, returned, ready)

    def _execute(self, number: int, o: Instruction, ready: deque[int]) -> bool:
        """Do one instruction; False if it has to wait."""
        thread, vector = self.threads[number], self.vectors[number]
        if o.kind is InstructionKind.PUT:
            if self.by_lines and not self._lines_are_there(number, thread):
                return False
            self._put(number, thread, vector, ready)
            return True
        if o.kind is InstructionKind.BARRIER:
            self._barrier(number)
            return True
        counter = self.kernel.counters[o.counter]
        if o.kind is InstructionKind.POST:
            np.maximum(vector, self.seen[number], out=vector)
            self.posts[o.counter].append(vector.copy())
            for waiter in self.waiters.pop(o.counter, ()):
                ready.append(waiter)
        else:
            if thread.slice >= 0 and (self.slices_before[thread.call] if self.eager else 0) + thread.slice < o.lag:
                return True
            if counter.kind is CounterKind.ENTRY:
                value = thread.call + 1
            else:
                value = counter.events * (self.slices_before[thread.call] + thread.slice - o.lag) + o.index
            posts = self.posts[o.counter]
            if len(posts) < value:
                thread.waits = (o.counter, value)
                self.waiters.setdefault(o.counter, []).append(number)
                return False
            thread.waits = None
            # the form check saw to it that post number n of a counter stores the value n
            np.maximum(vector, posts[value - 1], out=vector)
        self._barrier(number)
        return True

    def _barrier(self, number: int) -> None:
        thread, vector = self.threads[number], self.vectors[number]
        np.maximum(vector, self.seen[number], out=vector)
        thread.time += 1
        vector[number] = thread.time

    def _lines_are_there(self, number: int, thread: Thread) -> bool:
        """Whether a put can take all that it reads of slots; else it waits for the first that is missing."""
        put = self.modes[self.calls[thread.call].aliased].puts[number][thread.position]
        assert put is not None
        wanted = self.slices_before[thread.call] + thread.slice
        for source in put.sources:
            edge = self.edge_of.get(source.location, -1)
            lines = self.lines.get(self._key(thread.call, thread.slice, source))
            if edge >= 0 and (lines is None or lines.number < wanted):
                thread.waits = (edge, wanted + 1)
                self.waiters.setdefault(edge, []).append(number)
                return False
        thread.waits = None
        return True

    def _taken(self, number: int, key: tuple[int, int, int], vector: Vector) -> Vector:
        """What orders a read of lines: their flag; the block knows the rest from its next barrier on."""
        lines = self.lines.get(key) if self.by_lines else None
        if lines is None:
            return vector
        np.maximum(self.seen[number], lines.proves, out=self.seen[number])
        ordered = vector.copy()
        ordered[lines.block] = max(int(ordered[lines.block]), lines.time)
        return ordered

    def _write_lines(self, number: int, key: tuple[int, int, int], target: ResolvedPlace, ready: deque[int]) -> None:
        thread, proves = self.threads[number], self.vectors[number].copy()
        proves[number] = thread.time - 1
        written = self.slices_before[thread.call] + thread.slice
        self.lines[key] = Lines(written, number, thread.time, proves)
        ready.extend(self.waiters.pop(self.edge_of[target.location], ()))

    def _put(self, number: int, thread: Thread, vector: Vector, ready: deque[int]) -> None:
        call, index = thread.call, thread.slice
        mode = self.modes[self.calls[call].aliased]
        put = mode.puts[number][thread.position]
        assert put is not None
        now = Access(number, thread.time, Label(number, thread.position, call, index))
        parts: list[Expression] = []
        for source in put.sources:
            key = self._key(call, index, source)
            if not put.no_op:
                ordered = self._taken(number, key, vector)
                self._note_race(self.history.read(key, now, ordered), now, source.location)
            value = self._value(mode, key, source.location, put.part, now)
            if source.transfer >= 0:
                self._note_remote(source, value, "reads of", now, vector)
            if value is not None:
                parts.append(value)
        result = self._reduce(tuple(parts), put.final, now) if len(parts) == len(put.sources) else None
        for target in put.targets:
            if target.transfer >= 0:
                self._note_remote(target, result, "writes into", now, vector)
            key = self._key(call, index, target)
            if not target.same:
                self._note_race(self.history.write(key, now, vector), now, target.location)
            self.held[key] = Held(result, put.part, call, index)
            if self.by_lines and target.location in self.edge_of:
                self._write_lines(number, key, target, ready)

    def _key(self, call: int, index: int, place: ResolvedPlace) -> tuple[int, int, int]:
        """Slices of one call never share user memory, and the border check keeps calls apart."""
        location = place.location
        if location[1] is Buffer.SCRATCH:
            # cells are numbered for each aliasing; a slot's number is the same in all
            before = self.slices_before[call] if self.eager else 0
            return -1, (before + index) % self.kernel.slot_depth, location[0] << 32 | location[2]
        return call, index, place.cell

    def _value(
        self, mode: Mode, key: tuple[int, int, int], location: Location, part: Part, now: Access
    ) -> Expression | None:
        held = self.held.get(key)
        label = now.label
        assert isinstance(label, Label)
        if held is None:
            value = mode.initial.get(location)
            if value is None:
                self._error("kernel.value", label, f"reads {location_name(self.problem, location)}: no value is there")
            return value
        if held.part != part or (held.call, held.slice) != (label.call, label.slice):
            name = location_name(self.problem, location)
            message = f"reads {name} for slice {label.slice} of call {label.call}; it holds "
            message += f"[{held.part[0]}, {held.part[1]}) of slice {held.slice} of call {held.call}"
            self._error("kernel.stale", label, message)
            return None
        return held.value

    def _reduce(self, operands: tuple[Expression, ...], final: bool, now: Access) -> Expression | None:
        known = self.reductions.get((operands, final))
        if known is None:
            objection = self.table.objection(operands, final)
            known = (None, objection) if objection is not None else (self.table.reduce(operands, final), "")
            self.reductions[(operands, final)] = known
        if known[0] is None:
            self._error("kernel.reduction", now.label, known[1])
        return known[0]

    def _note_remote(
        self, place: ResolvedPlace, value: Expression | None, what: str, now: Access, vector: Vector
    ) -> None:
        """Check an access to another rank's memory: the schedule's value, and after the rank entered this call."""
        label = now.label
        assert isinstance(label, Label)
        if value is not None and self.table.plain(value) != self.intent.moves[place.transfer].value:
            self._error("kernel.transfers", label, "does not move what the schedule says, in the order it says")
        if self.eager and place.location[1] is Buffer.SCRATCH:
            return
        if int(vector[self.border + place.rank]) < label.call + 1:
            message = f"{what} {rank_name(self.problem, place.rank)}; nothing says that it has entered the call"
            self._error("kernel.entry", label, message)
        self.remote[(place.rank, label.call, label.block)] = now

    def _check_returns(self) -> None:
        """A rank returns only when all who touch its memory have done so."""
        for (rank, call, block), last in self.remote.items():
            if int(self.returns[(rank, call)][block]) < last.time:
                message = f"{rank_name(self.problem, rank)} may return before this access to its memory has ended"
                self._error("kernel.return", last.label, message)

    def _check_effects(self) -> None:
        values: dict[tuple[int, int], dict[int, Expression | None]] = {}
        for (call, index, cell), held in self.held.items():
            if call >= 0:
                values.setdefault((call, index), {})[cell] = held.value
        sound: dict[bool, dict[int, Expression | None]] = {}
        for call, setting in enumerate(self.calls):
            for index in range(setting.slices):
                held_now = values.get((call, index), {})
                if sound.get(setting.aliased) == held_now:
                    continue  # the same values as in a slice that was looked at
                when = f", slice {index} of call {call}" + (" (in place)" if setting.aliased else "")
                cells, before = self.modes[setting.aliased].cells, len(self.found.findings)
                check_effect("kernel", self.problem, self.table, self.intent, cells, held_now, when, self.found)
                if len(self.found.findings) > before:
                    return  # other slices would repeat it
                sound[setting.aliased] = held_now

    def _note_race(self, earlier: Access | None, now: Access, location: Location) -> None:
        if earlier is None:
            return
        name = location_name(self.problem, location)
        if earlier.block == now.block:
            message = f"no barrier lies between it and {self._label_name(earlier.label)}; both access {name}"
        else:
            message = f"nothing orders it and {self._label_name(earlier.label)}; both access {name}"
        self._error("kernel.race", now.label, message)

    def _label_name(self, label: object) -> str:
        assert isinstance(label, Label)
        name = instruction_name(self.problem, self.kernel.blocks[label.block], label.position)
        return f"{name} of slice {label.slice}, call {label.call}"

    def _error(self, code: str, label: object, message: str) -> None:
        self.found.error(code, self._label_name(label), message)

    def _report_stuck(self, stuck: list[int]) -> None:
        """Name what every block waits for, and whom it thus waits for."""
        for number in stuck:
            thread, block = self.threads[number], self.kernel.blocks[number]
            assert thread.waits is not None
            counter, value = self.kernel.counters[thread.waits[0]], thread.waits[1]
            where = instruction_name(self.problem, block, thread.position, entry=thread.slice < 0)
            writer = next(b for b in self.kernel.blocks if (b.rank, b.index) == (counter.writer, counter.writer_block))
            message = (
                f"waits for ever (call {thread.call}, slice {thread.slice}) for value {value} of "
                f"{counter_name(self.problem, counter)}, which stands at {len(self.posts[counter.id])}; "
                f"{block_name(self.problem, writer)} should post it"
            )
            self.found.error("kernel.deadlock", where, message)
