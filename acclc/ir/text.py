"""Printers: each level as text for people (``acclc compile --emit``). Pure and deterministic."""

from __future__ import annotations

from collections.abc import Iterator

from acclc.ir.kernel_program import CounterKind, Instruction, InstructionKind, KernelBlock, KernelProgram
from acclc.ir.problem import Problem, Topology
from acclc.ir.program import Buffer, Extent, Operation, OperationKind, Program
from acclc.ir.result import Bound
from acclc.ir.schedule import OWN, Schedule, TransferId


def problem_text(problem: Problem) -> str:
    """Topology, demands and shards."""
    return "\n".join(_problem_lines(problem)) + "\n"


def topology_text(topology: Topology) -> str:
    """Nodes, links and budgets, below what the topology's text says of itself."""
    lines = [f"# {line}" for line in topology.doc.splitlines()]
    return "\n".join([*lines, f"topology {topology.name}", *_topology_lines(topology)]) + "\n"


def _topology_lines(topology: Topology) -> Iterator[str]:
    name = [n.name for n in topology.nodes]
    yield f"  {len(topology.ranks)} ranks, {len(topology.nodes) - len(topology.ranks)} other nodes"
    for cls in topology.classes:
        yield f"  link {cls.name}: {float(cls.bandwidth) / 1e9:g} GB/s, {float(cls.latency) * 1e6:g} us"
    for link in topology.links:
        yield f"  {name[link.src]} -> {name[link.dst]} : {link.count} {link.cls.name}"
    for budget in topology.budgets:
        members = ", ".join(f"{name[topology.links[i].src]} -> {name[topology.links[i].dst]}" for i in budget.links)
        yield f"  budget {budget.name!r}: {float(budget.capacity) / 1e9:g} GB/s over {members}"


def _problem_lines(problem: Problem) -> Iterator[str]:
    yield f"problem {problem.name}: {problem.collective.value} on {problem.topology.name}"
    yield from _topology_lines(problem.topology)
    name = [n.name for n in problem.topology.nodes]
    for shard in problem.shards:
        word = "reduced over" if shard.reduced else "at"
        have = ", ".join(f"{name[p.rank]}:{p.unit}" for p in shard.inputs)
        need = ", ".join(f"{name[p.rank]}:{p.unit}" for p in shard.outputs)
        yield f"  shard {shard.id} {shard.name}: {word} {have} -> {need}"
    goal = problem.goal
    limits = [f"{w} {v}" for w, v in (("chunks", goal.chunks), ("steps", goal.steps), ("rounds", goal.rounds)) if v]
    yield "  goal " + " ".join([goal.kind.value, *limits])


def bound_text(problem: Problem, bound: Bound) -> str:
    """Both bounds in words."""
    lines = [f"bound of {problem.name}: {bound.throughput.words}"]
    if bound.rounds_per_chunk is not None:
        lines.append(f"  rounds a chunk >= {bound.rounds_per_chunk}")
    lines.append(f"  {bound.latency.words}")
    return "\n".join(lines) + "\n"


def schedule_text(problem: Problem, schedule: Schedule) -> str:
    """The table of steps."""
    return "\n".join(_schedule_lines(problem, schedule)) + "\n"


def _schedule_lines(problem: Problem, schedule: Schedule) -> Iterator[str]:
    names = [n.name for n in problem.topology.nodes]
    yield (
        f"schedule {schedule.id} of {problem.name}: {schedule.chunks_per_shard} chunks, "
        + (f"{schedule.steps} levels, pipelined, " if schedule.pipelined else f"{schedule.steps} steps, ")
        + ("" if schedule.pipelined else f"{schedule.total_rounds} rounds, ")
        + schedule.strategy
    )
    for step in range(schedule.steps):
        if schedule.pipelined:
            yield f"  level {step}"
        else:
            rounds = schedule.rounds[step]
            yield f"  step {step}: {rounds} round{'s' if rounds != 1 else ''}"
        for t in schedule.transfers:
            if t.step == step:
                via = [names[problem.topology.links[link].dst] for link in t.path[:-1]]
                way = " -> ".join([names[t.src], *via, names[t.dst]])
                yield f"    {t.id:4}  {_chunk(problem, schedule, t.chunk)}  {way}  {_operands(t.operands)}"
    for output in schedule.outputs:
        chunk = _chunk(problem, schedule, output.chunk)
        yield f"  output {names[output.rank]}  {chunk}  {_operands(output.operands)}"


def _chunk(problem: Problem, schedule: Schedule, chunk: int) -> str:
    c = schedule.chunks[chunk]
    return f"{problem.shards[c.shard].name}#{c.index}"


def _operands(operands: tuple[TransferId, ...]) -> str:
    return " + ".join("own" if o == OWN else f"t{o}" for o in operands)


def program_text(program: Program) -> str:
    """Every rank's blocks."""
    lines = [f"program of {program.name}"]
    for rank in program.ranks:
        lines.append(f"  rank {rank.rank}: in {rank.input_units}, out {rank.output_units}, slots {rank.slots}")
        for number, block in enumerate(rank.blocks):
            lines.append(f"    block {number}" + (f" on link {block.link}" if block.link >= 0 else ""))
            lines += [f"      {_operation(o)}" for o in block.operations]
    return "\n".join(lines) + "\n"


def _operation(o: Operation) -> str:
    after = f"  after {', '.join(map(str, o.after))}" if o.after else ""
    sources = " + ".join(map(extent_text, o.sources)) + (" final" if o.final else "")
    target = extent_text(o.target) if o.target else ""
    if o.kind is OperationKind.SEND:
        return f"{o.id:4} send t{o.transfer} to {o.peer}.{o.channel} #{o.fifo}: {sources}{after}"
    if o.kind is OperationKind.RECEIVE:
        return f"{o.id:4} receive t{o.transfer} from {o.peer}.{o.channel} #{o.fifo} into {target}{after}"
    return f"{o.id:4} compute {target} = {sources}{after}"


def extent_text(extent: Extent) -> str:
    """An extent: ``in[3] 1/6..1/3``, ``slot[2] 0..1``; where counts vary, with its shard: ``slot[2] 0..1 of s5``."""
    word = "slot" if extent.buffer is Buffer.SCRATCH else extent.buffer.value
    shard = f" of s{extent.shard}" if extent.shard >= 0 else ""
    return f"{word}[{extent.unit}] {extent.begin}..{extent.end}{shard}"


def kernel_text(kernel: KernelProgram) -> str:
    """Every block's instructions."""
    lines = [
        f"kernel program of {kernel.name}: {kernel.channels} channels, "
        f"{kernel.slot_depth} slices a slot, {kernel.protocol.value} copies, {kernel.realisation.value}"
    ]
    for block in kernel.blocks:
        lines.append(f"  rank {block.rank} block {block.index}" + (f" on link {block.link}" if block.link >= 0 else ""))
        lines += [f"    entry  {_instruction(kernel, block, i)}" for i in block.entry]
        lines += [f"    {_instruction(kernel, block, i)}" for i in block.body]
    return "\n".join(lines) + "\n"


def _instruction(kernel: KernelProgram, block: KernelBlock, i: Instruction) -> str:
    if i.kind is InstructionKind.PUT:
        far = len(i.origins) > 0
        sources = " + ".join(
            (f"rank {p.rank} " if far else "") + extent_text(p.extent) for p in i.reads(block.rank)
        ) + (" final" if i.final else "")
        targets = ", ".join(f"rank {p.rank} {extent_text(p.extent)}" for p in i.writes(block.rank))
        return f"put t{i.transfer} step {i.step}: {targets} = {sources}"
    if i.kind is InstructionKind.BARRIER:
        return "barrier"
    counter = kernel.counters[i.counter]
    edge = f"{counter.src}" if counter.kind is CounterKind.LOCAL else f"{counter.src}->{counter.dst}"
    lag = f" lag {i.lag}" if i.lag else ""
    return f"{i.kind.value} {counter.kind.value} {edge} (counter {i.counter}) {i.index}{lag}"
