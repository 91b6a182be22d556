"""The form of a KernelProgram: fields in range, counters used by their rules, puts that realise the transfers."""

from __future__ import annotations

from acclc.ir.kernel_program import (
    Counter,
    CounterKind,
    Instruction,
    InstructionKind,
    KernelBlock,
    KernelProgram,
    Place,
    Protocol,
    Realisation,
)
from acclc.ir.problem import Problem
from acclc.ir.program import Buffer
from acclc.verify.findings import Collector
from acclc.verify.intent import Intent
from acclc.verify.memory import check_counts, check_extents, check_header, check_parts, shards_at
from acclc.verify.names import link_name, node_name, rank_name

DEEPEST = 64
"""Slices a slot may hold: verifying unrolls twice as many."""


def block_name(problem: Problem, block: KernelBlock) -> str:
    """Return e.g. ``rank 1 (g[1]) block 2``."""
    return f"{rank_name(problem, block.rank)} block {block.index}"


def counter_name(problem: Problem, counter: Counter) -> str:
    """Return e.g. ``counter 4 (arrival g[0] -> g[1])``."""
    ends = f"{node_name(problem, counter.src)} -> {node_name(problem, counter.dst)}"
    return f"counter {counter.id} ({counter.kind.value} {ends})"


def instruction_name(problem: Problem, block: KernelBlock, position: int, entry: bool = False) -> str:
    """Return the block, the instruction's place in it, and what it does."""
    o = (block.entry if entry else block.body)[position]
    part = "entry" if entry else "body"
    transfer = f", transfer {o.transfer}" if o.transfer >= 0 else ""
    return f"{block_name(problem, block)}, {part}[{position}] ({o.kind.value}, step {o.step}{transfer})"


def check_form(problem: Problem, intent: Intent, kernel: KernelProgram, found: Collector) -> None:
    """Check everything that needs no execution."""
    ranks = [r.rank for r in kernel.ranks]
    check_header(problem, "kernel", kernel.in_place, kernel.positions, kernel.contributors, ranks, found)
    if found.failed:
        return
    for r in kernel.ranks:
        units = (problem.input_units(r.rank), problem.output_units(r.rank))  # type: ignore[arg-type]
        if (r.input_units, r.output_units) != units or r.slots < 0:
            message = f"buffers of {r.input_units} and {r.output_units} units, {r.slots} slots; the problem has {units}"
            found.error("kernel.units", rank_name(problem, r.rank), message)
    lines = kernel.protocol is Protocol.LL
    fits = not lines or (kernel.realisation is Realisation.EAGER and not problem.varying)
    if not 1 <= kernel.slot_depth <= DEEPEST or kernel.channels < 1 or not fits:
        message = f"slot depth {kernel.slot_depth}, {kernel.channels} channels, protocol {kernel.protocol.value}"
        found.error("kernel.form", "kernel", message)
    _check_blocks(problem, kernel, found)
    _check_counters(problem, kernel, found)
    if found.failed:
        return
    for block in kernel.blocks:
        _check_instructions(problem, kernel, block, found)
    if found.failed:
        return
    _check_posts(problem, kernel, found)
    _check_moves(problem, intent, kernel, found)


def _check_blocks(problem: Problem, kernel: KernelProgram, found: Collector) -> None:
    """Blocks are numbered from 0 in every rank, in order; block 0 is the local one, the others own a link."""
    expected: list[tuple[int, int]] = []
    for r in kernel.ranks:
        expected += [(r.rank, i) for i in range(sum(b.rank == r.rank for b in kernel.blocks))]
        if not any(b.rank == r.rank for b in kernel.blocks):
            found.error("kernel.blocks", rank_name(problem, r.rank), "has no block")
    if [(b.rank, b.index) for b in kernel.blocks] != expected:
        found.error("kernel.blocks", "blocks", "are not in order of (rank, index), each rank's from 0")
    for block in kernel.blocks:
        links = len(problem.topology.links)
        if (block.index == 0) != (block.link == -1) or not -1 <= block.link < links:
            found.error("kernel.blocks", block_name(problem, block), f"cannot own link {block.link}")
    limit = problem.goal.blocks
    for r in kernel.ranks:
        count = sum(b.rank == r.rank for b in kernel.blocks)
        if limit is not None and count > max(2, limit):
            found.error("kernel.blocks", rank_name(problem, r.rank), f"{count} blocks; the goal allows {limit}")


def _check_counters(problem: Problem, kernel: KernelProgram, found: Collector) -> None:
    """Counters lie where their kind says and have a writer that exists."""
    blocks = {(b.rank, b.index) for b in kernel.blocks}
    for position, c in enumerate(kernel.counters):
        where = counter_name(problem, c)
        if c.id != position:
            found.error("kernel.ids", where, f"stands at position {position}")
        if (c.writer, c.writer_block) not in blocks:
            found.error(
                "kernel.counter", where, f"its writer, block {c.writer_block} of rank {c.writer}, does not exist"
            )
        home, writer = {
            CounterKind.ENTRY: (c.src, c.dst),
            CounterKind.ARRIVAL: (c.dst, c.src),
            CounterKind.CREDIT: (c.src, c.dst),
            CounterKind.LOCAL: (c.src, c.src),
            CounterKind.DONE: (c.dst, c.src),
        }[c.kind]
        if (c.home, c.writer) != (home, writer) or (c.kind is CounterKind.LOCAL) != (c.src == c.dst):
            message = f"lies at rank {c.home}, written by rank {c.writer}; its edge wants {home} and {writer}"
            found.error("kernel.counter", where, message)
        if c.events < 1 or (c.kind is CounterKind.ENTRY and c.events != 1):
            found.error("kernel.counter", where, f"{c.events} events")


def _check_instructions(problem: Problem, kernel: KernelProgram, block: KernelBlock, found: Collector) -> None:
    sizes = {
        r.rank: {Buffer.INPUT: r.input_units, Buffer.OUTPUT: r.output_units, Buffer.SCRATCH: r.slots}
        for r in kernel.ranks
    }
    lies = shards_at(problem)
    for entry, instructions in ((True, block.entry), (False, block.body)):
        for position, o in enumerate(instructions):
            where = instruction_name(problem, block, position, entry)
            if o.kind is InstructionKind.PUT:
                _check_put(kernel, block, o, where, sizes, entry, found)
                formed = o.target is not None and len(o.origins) in (0, len(o.sources))
                for place in (*o.reads(block.rank), *o.writes(block.rank)) if formed else ():
                    check_counts(problem, "kernel", where, place.rank, (place.extent,), lies, found)
                if formed and kernel.protocol is Protocol.LL:
                    _check_lines(block, o, where, found)
            elif o.kind is InstructionKind.BARRIER:
                if entry or kernel.protocol is not Protocol.LL or o != Instruction(InstructionKind.BARRIER):
                    found.error("kernel.form", where, "a barrier stands in the body of an LL program, alone")
            elif not 0 <= o.counter < len(kernel.counters):
                found.error("kernel.form", where, f"counter {o.counter} does not exist")
            else:
                lines = kernel.protocol is Protocol.LL
                _check_signal(problem, kernel.counters[o.counter], block, o, where, entry, lines, found)


def _check_put(
    kernel: KernelProgram,
    block: KernelBlock,
    o: Instruction,
    where: str,
    sizes: dict[int, dict[Buffer, int]],
    entry: bool,
    found: Collector,
) -> None:
    if entry or not o.sources or o.target is None or (o.counter, o.index, o.lag) != (-1, 0, 0):
        found.error("kernel.form", where, "a put needs sources and a target, has no counter, and stands in the body")
        return
    if o.origins and len(o.origins) != len(o.sources):
        found.error("kernel.form", where, f"{len(o.origins)} origins of {len(o.sources)} sources")
        return
    reads, writes = o.reads(block.rank), o.writes(block.rank)
    for place in (*reads, *writes):
        if place.rank not in sizes:
            found.error("kernel.form", where, f"touches rank {place.rank}, which has no part in it")
            return
    for place in writes:
        if place.extent.buffer is Buffer.INPUT:
            found.error("kernel.input", where, "writes an input")
    if len({(p.rank, p.extent.buffer, p.extent.unit) for p in writes}) < len(writes):
        found.error("kernel.form", where, "writes a place twice")
    _check_reach(kernel.realisation, block, where, reads, writes, found)
    for place in (*reads, *writes):
        check_extents("kernel", where, sizes[place.rank], (place.extent,), found)
    check_parts("kernel", where, tuple(p.extent for p in (*reads, *writes)), found)


def _check_lines(block: KernelBlock, o: Instruction, where: str, found: Collector) -> None:
    """By LL a slot holds lines, which only another rank writes, and a put that waits for lines writes none."""
    slots = [p for p in o.writes(block.rank) if p.extent.buffer is Buffer.SCRATCH]
    taken = any(p.extent.buffer is Buffer.SCRATCH for p in o.reads(block.rank))
    if slots and (taken or any(p.rank == block.rank for p in slots)):
        found.error("kernel.lines", where, "writes lines of its own rank, or of what itself is still awaited")


def _check_reach(
    realisation: Realisation,
    block: KernelBlock,
    where: str,
    reads: tuple[Place, ...],
    writes: tuple[Place, ...],
    found: Collector,
) -> None:
    """What of other ranks' memory a realisation touches: the runtime maps that, and stages private arrays for it."""
    direct = realisation is Realisation.DIRECT
    far_reads = [p for p in reads if p.rank != block.rank]
    far_writes = [p for p in writes if p.rank != block.rank]
    if not direct and (far_reads or len(writes) > 1):
        found.error("kernel.reach", where, f"reads another rank's memory or writes twice; {realisation.value} does not")
    if direct and any(p.extent.buffer is not Buffer.INPUT for p in far_reads):
        found.error("kernel.reach", where, "reads of another rank what is no input")
    if realisation is Realisation.EAGER and any(p.extent.buffer is not Buffer.SCRATCH for p in far_writes):
        found.error("kernel.reach", where, "writes into another rank's output, which nobody has opened")
    for place in (*reads, *writes):
        if (place.transfer >= 0) != (place.rank != block.rank):
            found.error("kernel.transfers", where, f"says transfer {place.transfer} of memory of rank {place.rank}")


def _check_signal(
    problem: Problem,
    counter: Counter,
    block: KernelBlock,
    o: Instruction,
    where: str,
    entry: bool,
    lines: bool,
    found: Collector,
) -> None:
    """Posts come from the counter's one writer, awaits from the rank where it lies; indices count from 1."""
    name = counter_name(problem, counter)
    if o.sources or o.target is not None or o.target_rank != -1 or o.final or o.origins or o.copies:
        found.error("kernel.form", where, "an await or post moves nothing")
    if entry != (counter.kind is CounterKind.ENTRY):
        found.error("kernel.form", where, f"{name} is counted once a {'slice' if entry else 'call'}, not here")
    elif entry and (o.index, o.lag) != (0, 0):
        found.error("kernel.form", where, "index and lag mean nothing in entry and must be 0")
    elif not entry and not 1 <= o.index <= counter.events:
        found.error("kernel.index", where, f"index {o.index} of {name}, which has {counter.events} events a slice")
    if o.kind is InstructionKind.POST:
        if (block.rank, block.index) != (counter.writer, counter.writer_block):
            found.error(
                "kernel.writer", where, f"{name} is written by block {counter.writer_block} of rank {counter.writer}"
            )
        if o.lag != 0:
            found.error("kernel.form", where, "a post has no lag")
    elif lines and counter.kind is CounterKind.ARRIVAL:
        found.error("kernel.lines", where, f"awaits {name}, which nobody posts: the lines tell")
    else:
        if block.rank != counter.home:
            found.error("kernel.home", where, f"{name} lies at rank {counter.home}")
        if o.lag < 0:
            found.error("kernel.form", where, f"lag {o.lag}")


def _check_posts(problem: Problem, kernel: KernelProgram, found: Collector) -> None:
    """Each counter gets 1, 2, .. events, once each and in this order, in every slice (entry: once a call)."""
    posted: dict[int, list[int]] = {c.id: [] for c in kernel.counters}
    for block in kernel.blocks:
        for o in (*block.entry, *block.body):
            if o.kind is InstructionKind.POST:
                posted[o.counter].append(1 if kernel.counters[o.counter].kind is CounterKind.ENTRY else o.index)
    for c in kernel.counters:
        if kernel.protocol is Protocol.LL and c.kind is CounterKind.ARRIVAL:
            if posted[c.id]:
                found.error("kernel.lines", counter_name(problem, c), "is posted, but lines tell of an arrival")
            continue
        if len(posted[c.id]) != c.events or posted[c.id] != list(range(1, c.events + 1)):
            message = f"is posted {posted[c.id]} in each slice or call; it must grow by one, {c.events} times"
            found.error("kernel.posts", counter_name(problem, c), message)


def _check_moves(problem: Problem, intent: Intent, kernel: KernelProgram, found: Collector) -> None:
    """Each transfer of the schedule is one access to the other rank's memory; of puts, by a block of its link."""
    done: dict[int, int] = {}
    for block in kernel.blocks:
        links: set[int] = set()
        for position, o in enumerate(block.body):
            if o.kind is not InstructionKind.PUT:
                continue
            where = instruction_name(problem, block, position)
            for place, writes in (
                *((p, False) for p in o.reads(block.rank)),
                *((p, True) for p in o.writes(block.rank)),
            ):
                if place.rank == block.rank:
                    continue
                move = intent.moves.get(place.transfer)
                if move is None:
                    message = (
                        f"{'writes to' if writes else 'reads of'} another rank, but is no transfer of the schedule"
                    )
                    found.error("kernel.transfers", where, message)
                    continue
                done[place.transfer] = done.get(place.transfer, 0) + 1
                links.add(move.link)
                ends = (block.rank, place.rank) if writes else (place.rank, block.rank)
                part = (place.extent.begin, place.extent.end)
                late = o.step != move.step if kernel.realisation is not Realisation.DIRECT else o.step < move.step
                if ends != (move.src, move.dst) or part != move.part or late:
                    message = (
                        f"moves [{part[0]}, {part[1]}) from rank {ends[0]} to rank {ends[1]}; "
                        "the schedule says otherwise"
                    )
                    found.error("kernel.transfers", where, message)
                if place.extent.shard != (move.shard if problem.varying else -1):
                    message = f"is counted by shard {place.extent.shard}; it moves shard {move.shard}"
                    found.error("kernel.counts", where, message)
        alone = kernel.realisation is not Realisation.PUT and block.link < 0
        shared = problem.goal.blocks is not None
        if links and not alone and (block.link not in links or (len(links) > 1 and not shared)):
            names = ", ".join(link_name(problem, x) for x in sorted(links))
            message = f"owns {link_name(problem, block.link)} but sends over {names}"
            found.error("kernel.link", block_name(problem, block), message)
    for transfer, move in intent.moves.items():
        if done.get(transfer, 0) != 1:
            ends_text = f"{node_name(problem, move.src)} -> {node_name(problem, move.dst)}"
            message = f"({ends_text}, step {move.step}) is made {done.get(transfer, 0)} times"
            found.error("kernel.transfers", f"transfer {transfer}", message)
