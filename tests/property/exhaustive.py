"""Every interleaving of a small KernelProgram or Program, executed on numbers.

A model is a set of threads of atomic steps over counters and memory cells. Reading the sources of a put and
writing its target are two steps, so that torn puts are among the interleavings. Each rank has a thread for its
user, who at every border between calls looks at the outputs, then spoils all buffers and fills in new inputs.

What need not be branched over is left out, exactly: a wait that is open stays open and a post only opens more
(counters grow), so both are taken at once; a memory step is taken at once if no other thread can, without this
one moving, reach a step that touches the same cells (a persistent set, Godefroid 1996). What remains is
branched over, with visited states remembered. Nothing here knows of happens-before or of the verifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from acclc.ir.kernel_program import CounterKind, InstructionKind, KernelProgram
from acclc.ir.problem import Problem
from acclc.ir.program import Buffer, Extent, Operation, OperationKind, Program
from acclc.ir.schedule import OWN, Schedule

Cell = Hashable
Value = tuple[Fraction, int]
"""(number, order-sensitive hash of the reduction tree)."""
Memory = dict[Cell, Any]


class UnexploredError(Exception):
    """The state space is larger than the limit, or the model does not cover the program."""


class WrongError(Exception):
    """An interleaving with a wrong result, or a deadlock."""


@dataclass
class Step:
    """One atomic step. ``flag``: the counter and value of a wait or post; queues: messages pushed or popped."""

    kind: str
    flag: Hashable = None
    value: int = 0
    touches: frozenset[Cell] = frozenset()
    changes: frozenset[Cell] = frozenset()
    act: Callable[[Memory], None] | None = None


@dataclass
class Model:
    threads: list[list[Step]] = field(default_factory=list)
    memory: Memory = field(default_factory=dict)

    def explore(self, limit: int = 20000) -> int:
        """Run every interleaving; return the number of branching states. Raises WrongError or UnexploredError."""
        stack = [([0] * len(self.threads), {}, dict(self.memory))]
        seen: set[int] = set()
        while stack:
            positions, flags, memory = stack.pop()
            enabled = self._run_to_branch(positions, flags, memory)
            if not enabled:
                continue
            mark = hash((tuple(positions), frozenset(memory.items())))  # flags follow from the positions
            if mark in seen:
                continue
            seen.add(mark)
            if len(seen) > limit:
                raise UnexploredError(f"more than {limit} branching states")
            for t in enabled:
                after, changed = list(positions), dict(memory)
                self._take(t, after, changed)
                stack.append((after, dict(flags), changed))
        return len(seen)

    def _run_to_branch(self, positions: list[int], flags: dict, memory: Memory) -> list[int]:
        """Go on while the next step needs no branching; return the threads to branch over (none: the end)."""
        while True:
            self._take_silent(positions, flags)
            # whatever is not a closed wait now is a memory step
            enabled = [t for t, p in enumerate(positions) if p < len(self.threads[t]) and self.threads[t][p].act]
            if not enabled:
                stuck = [t for t, p in enumerate(positions) if p < len(self.threads[t])]
                if stuck:
                    raise WrongError(f"deadlock of threads {stuck}")
                return []
            for t in enabled:
                if not self._conflicts(t, self.threads[t][positions[t]], positions, flags):
                    self._take(t, positions, memory)
                    break
            else:
                return enabled

    def _take_silent(self, positions: list[int], flags: dict) -> None:
        """Take all posts and open waits, of all threads, until only memory steps and closed waits are next."""
        moved = True
        while moved:
            moved = False
            for t, steps in enumerate(self.threads):
                start = positions[t]
                self._pass(t, steps, positions, flags, None)
                moved = moved or positions[t] > start

    def _pass(self, t: int, steps: list[Step], positions: list[int], flags: dict, against: Step | None) -> bool:
        """Move a thread as far as counters let it; through memory steps only if ``against`` is given.

        True as soon as it passes a memory step that touches the same cells as ``against``.
        """
        p = positions[t]
        while p < len(steps):
            step = steps[p]
            if step.kind == "post":
                if step.value <= flags.get(step.flag, 0):
                    raise WrongError(f"counter {step.flag} does not grow")
                flags[step.flag] = step.value
            elif step.kind == "wait":
                if flags.get(step.flag, 0) < step.value:
                    break
            elif against is None:
                break
            elif not (
                against.changes.isdisjoint(step.touches)
                and against.changes.isdisjoint(step.changes)
                and against.touches.isdisjoint(step.changes)
            ):
                return True
            p += 1
        positions[t] = p
        return False

    def _conflicts(self, thread: int, step: Step, positions: list[int], flags: dict) -> bool:
        """Whether others, while this thread stands still, can reach a step that touches the same cells."""
        positions, flags = list(positions), dict(flags)
        moved = True
        while moved:
            moved = False
            for t, steps in enumerate(self.threads):
                start = positions[t]
                if t != thread and self._pass(t, steps, positions, flags, step):
                    return True
                moved = moved or positions[t] > start
        return False

    def _take(self, t: int, positions: list[int], memory: Memory) -> None:
        act = self.threads[t][positions[t]].act
        assert act is not None
        act(memory)
        positions[t] += 1


def combine(values: list[Value | None], final: bool, contributors: int) -> Value | None:
    """Reduce as avg does: the number says whether it was divided once, the hash in which order it was summed."""
    if any(v is None for v in values):
        return None
    numbers, trees = [v[0] for v in values if v], [v[1] for v in values if v]
    number = sum(numbers, Fraction(0))
    tree = trees[0] if len(trees) == 1 else hash((2, *trees))
    return (number / contributors if final else number), tree


class World:
    """The inputs, and what the schedule and the definition want as outputs."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem, self.schedule = problem, schedule
        self.parts: dict[int, list[tuple[Fraction, Fraction]]] = {}
        for c in schedule.chunks:
            self.parts.setdefault(c.shard, []).append((c.begin, c.end))

    def own(self, shard: int, rank: int, part: Any, call: int, index: int) -> Value:
        who = rank if self.problem.shards[shard].reduced else -1
        number = hash((shard, who, *part, call, index)) % 1000003  # ints and fractions: the same in every run
        return Fraction(number), hash((1, number))

    def wanted(self, rank: int, shard: int, part: Any, call: int, index: int) -> Value:
        """The number by the definition, the tree by the schedule."""
        record = self.problem.shards[shard]
        number = self.own(shard, record.inputs[0].rank, part, call, index)[0]
        if record.reduced:
            total = sum((self.own(shard, p.rank, part, call, index)[0] for p in record.inputs), Fraction(0))
            number = total / len(record.inputs)
        schedule = self.schedule
        chunk = next(c for c in schedule.chunks if c.shard == shard and (c.begin, c.end) == part)
        output = next(o for o in schedule.outputs if (o.rank, o.chunk) == (rank, chunk.id))

        def tree(at: int, operands: tuple[int, ...]) -> int:
            found = []
            for o in operands:
                if o == OWN:
                    found.append(self.own(shard, at, part, call, index)[1])
                else:
                    found.append(tree(schedule.transfers[o].src, schedule.transfers[o].operands))
            return found[0] if len(found) == 1 else hash((2, *found))

        return number, tree(rank, output.operands)


class Layout:
    """Cells of user memory, by plain arithmetic on units."""

    def __init__(
        self, world: World, in_place: str, position: dict[int, int], sizes: dict[int, tuple[int, int]]
    ) -> None:
        self.world, self.in_place, self.position, self.sizes = world, in_place, position, sizes

    def cell(self, rank: int, buffer: Buffer, unit: int, part: Any, index: int, aliased: bool) -> Cell:
        if aliased and buffer is Buffer.INPUT:
            shift = {"same": 0, "input_in_output": self.position[rank], "output_in_input": -self.position[rank]}
            moved = unit + shift[self.in_place]
            if 0 <= moved < self.sizes[rank][1]:
                return "user", rank, "out", moved, part, index
        return "user", rank, buffer.value, unit, part, index

    def spoil(
        self, rank: int, call: int, slices: int, aliased: bool, cells: frozenset[Cell]
    ) -> Callable[[Memory], None]:
        """The user's work before a call: everything is garbage, then the inputs are new."""
        fresh: Memory = {}
        for shard in self.world.problem.shards:
            for place in shard.inputs:
                for part in self.world.parts[shard.id] if place.rank == rank else ():
                    for index in range(slices):
                        cell = self.cell(rank, Buffer.INPUT, place.unit, part, index, aliased)
                        fresh[cell] = self.world.own(shard.id, rank, part, call, index)

        def act(memory: Memory) -> None:
            for cell in cells:
                memory[cell] = None
            memory.update(fresh)

        return act

    def look(self, rank: int, call: int, slices: int, aliased: bool) -> Callable[[Memory], None]:
        """The user's work after a call: compare all outputs."""
        wanted: Memory = {}
        for shard in self.world.problem.shards:
            for place in shard.outputs:
                for part in self.world.parts[shard.id] if place.rank == rank else ():
                    for index in range(slices):
                        cell = self.cell(rank, Buffer.OUTPUT, place.unit, part, index, aliased)
                        wanted[cell] = self.world.wanted(rank, shard.id, part, call, index)

        def act(memory: Memory) -> None:
            for cell, value in wanted.items():
                if memory.get(cell) != value:
                    raise WrongError(f"{cell} after call {call}: {memory.get(cell)} instead of {value}")

        return act


def explore_kernel(
    problem: Problem, schedule: Schedule, kernel: KernelProgram, calls: list[tuple[int, bool]], limit: int = 20000
) -> int:
    """Run all interleavings of a sequence of (slices, in place); return the number of states."""
    world = World(problem, schedule)
    sizes = {r.rank: (r.input_units, r.output_units) for r in kernel.ranks}
    position = {r.rank: p for r, p in zip(kernel.ranks, kernel.positions, strict=True)}
    layout = Layout(world, kernel.in_place, position, sizes)
    model = Model()
    for number in range(len(kernel.blocks)):
        model.threads.append(_kernel_thread(kernel, layout, number, calls))
    every = frozenset(c for steps in model.threads for s in steps for c in s.touches | s.changes if c[0] == "user")
    for r in kernel.ranks:
        blocks = [n for n, b in enumerate(kernel.blocks) if b.rank == r.rank]
        model.threads.append(_user_thread(layout, r.rank, blocks, calls, every))
    return model.explore(limit)


def _user_thread(
    layout: Layout, rank: int, blocks: list[int], calls: list[tuple[int, bool]], every: frozenset[Cell]
) -> list[Step]:
    steps: list[Step] = []
    mine = {c for c in every if c[1] == rank}
    for slices, aliased in dict.fromkeys(calls):
        for shard in layout.world.problem.shards:
            for buffer, places in ((Buffer.INPUT, shard.inputs), (Buffer.OUTPUT, shard.outputs)):
                for place in places:
                    for part in layout.world.parts[shard.id] if place.rank == rank else ():
                        mine |= {layout.cell(rank, buffer, place.unit, part, i, aliased) for i in range(slices)}
    all_mine = frozenset(mine)
    for call, (slices, aliased) in enumerate(calls):
        act = layout.spoil(rank, call, slices, aliased, all_mine)
        steps.append(Step("memory", changes=all_mine, act=act))
        steps.append(Step("post", ("start", rank), call + 1))
        steps += [Step("wait", ("end", b), call + 1) for b in blocks]
        steps.append(Step("memory", touches=all_mine, act=layout.look(rank, call, slices, aliased)))
    # whatever still comes now comes into memory that is no longer theirs
    steps.append(Step("memory", changes=all_mine, act=lambda memory: None))
    return steps


def _kernel_thread(kernel: KernelProgram, layout: Layout, number: int, calls: list[tuple[int, bool]]) -> list[Step]:
    block, steps, before = kernel.blocks[number], [], 0
    for call, (slices, aliased) in enumerate(calls):
        steps.append(Step("wait", ("start", block.rank), call + 1))
        for o in block.entry:
            kind = "wait" if o.kind is InstructionKind.AWAIT else "post"
            steps.append(Step(kind, ("counter", o.counter), call + 1))
        for index in range(slices):
            for position, o in enumerate(block.body):
                if o.kind is InstructionKind.PUT:
                    steps += _put(kernel, layout, number, position, index, aliased)
                    continue
                counter = kernel.counters[o.counter]
                if counter.kind is CounterKind.ENTRY:
                    raise UnexploredError("an entry counter in the body")
                if o.kind is InstructionKind.POST:
                    steps.append(Step("post", ("counter", o.counter), counter.events * (before + index) + o.index))
                elif index >= o.lag:
                    value = counter.events * (before + index - o.lag) + o.index
                    steps.append(Step("wait", ("counter", o.counter), value))
        steps.append(Step("post", ("end", number), call + 1))
        before += slices
    return steps


def _put(kernel: KernelProgram, layout: Layout, number: int, position: int, index: int, aliased: bool) -> list[Step]:
    """Two steps: the sources into a register, the register into the target."""
    block = kernel.blocks[number]
    o = block.body[position]
    assert o.target is not None

    def cell(rank: int, e: Extent) -> Cell:
        if e.buffer is Buffer.SCRATCH:
            return "scratch", rank, e.unit, index % kernel.slot_depth
        return layout.cell(rank, e.buffer, e.unit, (e.begin, e.end), index, aliased)

    sources, target = [cell(block.rank, e) for e in o.sources], cell(o.target_rank, o.target)
    if sources == [target] and not o.final:
        return []
    register = ("register", number)
    contributors = kernel.contributors

    def read(memory: Memory) -> None:
        memory[register] = combine([memory.get(c) for c in sources], o.final, contributors)

    def write(memory: Memory) -> None:
        memory[target] = memory.pop(register)

    return [
        Step("memory", touches=frozenset(sources), changes=frozenset([register]), act=read),
        Step("memory", touches=frozenset([register]), changes=frozenset([target]), act=write),
    ]


def explore_program(problem: Problem, schedule: Schedule, program: Program, aliased: bool, limit: int = 20000) -> int:
    """Run all interleavings of one call of a Program; messages wait in unbounded queues."""
    world = World(problem, schedule)
    sizes = {r.rank: (r.input_units, r.output_units) for r in program.ranks}
    position = {r.rank: p for r, p in zip(program.ranks, program.positions, strict=True)}
    layout = Layout(world, program.in_place, position, sizes)
    model = Model()
    for r in program.ranks:
        for b in r.blocks:
            steps: list[Step] = []
            for o in b.operations:
                steps += _operation(program, layout, r.rank, o, aliased, len(model.threads))
            model.threads.append(steps)
        fill = layout.spoil(r.rank, 0, 1, aliased, frozenset())
        fill(model.memory)
    looks = [layout.look(r.rank, 0, 1, aliased) for r in program.ranks]
    ends = [("ended", n) for n in range(len(model.threads))]
    for n, steps in enumerate(model.threads):
        steps.append(Step("post", ends[n], 1))

    def look(memory: Memory) -> None:
        for act in looks:
            act(memory)

    model.threads.append([*(Step("wait", e, 1) for e in ends), Step("memory", act=look)])
    return model.explore(limit)


def _operation(program: Program, layout: Layout, rank: int, o: Operation, aliased: bool, thread: int) -> list[Step]:
    def cell(e: Extent) -> Cell:
        if e.buffer is Buffer.SCRATCH:
            return "scratch", rank, e.unit
        return layout.cell(rank, e.buffer, e.unit, (e.begin, e.end), 0, aliased)

    steps = [Step("wait", ("done", rank, a), 1) for a in o.after]
    sources = [cell(e) for e in o.sources]
    target = None if o.target is None else cell(o.target)
    register: Cell = ("register", thread)
    if o.kind is not OperationKind.COMPUTE:
        src, dst = (rank, o.peer) if o.kind is OperationKind.SEND else (o.peer, rank)
        register = ("message", src, dst, o.channel, o.fifo)

    def read(memory: Memory) -> None:
        memory[register] = combine([memory.get(c) for c in sources], o.final, program.contributors)

    def write(memory: Memory) -> None:
        memory[target] = memory.pop(register)

    if o.kind is OperationKind.COMPUTE and sources == [target] and not o.final:
        pass
    else:
        if o.kind is OperationKind.RECEIVE:
            steps.append(Step("wait", register, 1))
        else:
            steps.append(Step("memory", touches=frozenset(sources), changes=frozenset([register]), act=read))
        if o.kind is OperationKind.SEND:
            steps.append(Step("post", register, 1))
        else:
            steps.append(Step("memory", touches=frozenset([register]), changes=frozenset([target]), act=write))
    steps.append(Step("post", ("done", rank, o.id), 1))
    return steps


def run_schedule(problem: Problem, schedule: Schedule) -> None:
    """Execute a schedule step by step on numbers, counting what each link carries. Raises WrongError."""
    world = World(problem, schedule)
    topology, unit = problem.topology, problem.topology.unit
    moved: dict[int, Value] = {}
    for step, rounds in enumerate(schedule.rounds):
        arriving: dict[int, Value] = {}
        load: dict[int, Fraction] = {}
        for t in (t for t in schedule.transfers if t.step == step):
            chunk = schedule.chunks[t.chunk]
            arriving[t.id] = _evaluate(world, schedule, t.src, t.chunk, t.operands, moved)
            at: int = t.src
            for link in t.path:
                if topology.links[link].src != at:
                    raise WrongError(f"the path of transfer {t.id} is broken")
                at = topology.links[link].dst
                load[link] = load.get(link, Fraction(0)) + (chunk.end - chunk.begin) * schedule.chunks_per_shard
            if at != t.dst:
                raise WrongError(f"transfer {t.id} does not arrive")
        for link, chunks in load.items():
            assert unit is not None
            if chunks > topology.links[link].capacity / unit * rounds:
                raise WrongError(f"link {link} is overloaded in step {step}")
        moved |= arriving
    if len(moved) != len(schedule.transfers):
        raise WrongError("a transfer in no step")
    _check_results(world, schedule, moved)


def _evaluate(
    world: World, schedule: Schedule, rank: int, chunk_id: int, operands: tuple[int, ...], moved: dict[int, Value]
) -> Value:
    chunk = schedule.chunks[chunk_id]
    values: list[Value | None] = []
    for o in operands:
        if o == OWN:
            if all(p.rank != rank for p in world.problem.shards[chunk.shard].inputs):
                raise WrongError(f"rank {rank} has nothing of its own of shard {chunk.shard}")
            values.append(world.own(chunk.shard, rank, (chunk.begin, chunk.end), 0, 0))
        elif o not in moved or schedule.transfers[o].dst != rank or schedule.transfers[o].chunk != chunk_id:
            raise WrongError(f"operand {o} is not there")
        else:
            values.append(moved[o])
    result = combine(values, False, 1)
    assert result is not None
    return result


def _check_results(world: World, schedule: Schedule, moved: dict[int, Value]) -> None:
    trees: dict[int, int] = {}
    got: dict[tuple[int, int], int] = {}
    for o in schedule.outputs:
        chunk = schedule.chunks[o.chunk]
        record, part = world.problem.shards[chunk.shard], (chunk.begin, chunk.end)
        number, tree = _evaluate(world, schedule, o.rank, o.chunk, o.operands, moved)
        sources = [p.rank for p in (record.inputs if record.reduced else record.inputs[:1])]
        if number != sum((world.own(chunk.shard, r, part, 0, 0)[0] for r in sources), Fraction(0)):
            raise WrongError(f"rank {o.rank} has a wrong chunk {o.chunk}")
        if trees.setdefault(o.chunk, tree) != tree:
            raise WrongError(f"chunk {o.chunk} has another order at rank {o.rank}")
        got[(o.rank, o.chunk)] = got.get((o.rank, o.chunk), 0) + 1
    wanted: dict[tuple[int, int], int] = {}
    tiles: dict[int, Fraction] = {}
    for chunk in schedule.chunks:
        if tiles.get(chunk.shard, Fraction(0)) != chunk.begin:
            raise WrongError("the chunks leave a gap or overlap")
        tiles[chunk.shard] = chunk.end
        for place in world.problem.shards[chunk.shard].outputs:
            wanted[(place.rank, chunk.id)] = wanted.get((place.rank, chunk.id), 0) + 1
    if got != wanted or any(end != 1 for end in tiles.values()):
        raise WrongError("outputs are missing, double or not needed")
