"""KernelProgram -> KernelPlan: names for counters and parts, positions for ranks, one statement a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

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
from acclc.ir.plan import KernelPlan, PlanBlock, PlanCounter, PlanPart, PlanPlace, PlanStatement
from acclc.ir.program import Buffer, Extent
from acclc_runtime.layout import RankLayout, layout_digest

LARGEST_DENOMINATOR = 2**31 - 1
"""Of a chunk's boundary: the generated 64-bit arithmetic is exact up to here for any count."""

_ENDS = ("put", "put_final", "lines", "lines_final", "post", "barrier")
"""What an instruction that is no post starts a new paragraph after."""
_PLACE_FUNCTION = {Buffer.INPUT: "in", Buffer.OUTPUT: "out", Buffer.SCRATCH: "slot"}

LARGEST_PART = 2**31 - 1
"""A part of a shard has a number of 32 bits."""


class KernelProgramError(ValueError):
    """A KernelProgram that has no realisation in generated code: a fault of the pass that made it."""


def make_plan(kernel: KernelProgram) -> KernelPlan:
    """Return the values of kernel.cu for ``kernel``. Deterministic; what the kernel does is not changed.

    Raises:
        KernelProgramError: ids do not fit together, a put joins different parts, an entry list uses another kind
            of counter, or a fraction is too fine for 64-bit arithmetic.
    """
    if kernel.protocol is Protocol.LL and kernel.realisation is not Realisation.EAGER:
        raise KernelProgramError(f"protocol ll has no generated code of {kernel.realisation.value} programs")
    # no contributors: the reductions have no one divisor, and only avg has no instance
    if kernel.slot_depth < 1 or kernel.channels < 1 or kernel.contributors < 0:
        raise KernelProgramError("slot depth and channels are at least 1, contributors at least 0")
    if len(kernel.positions) != len(kernel.ranks):
        raise KernelProgramError(f"{len(kernel.positions)} positions for {len(kernel.ranks)} ranks")
    position = {rank.rank: n for n, rank in enumerate(kernel.ranks)}
    counters = _counters(kernel, position)
    parts = _parts(kernel)
    writer = _Writer(kernel, position, counters, parts)
    blocks = tuple(writer.block(number, block) for number, block in enumerate(kernel.blocks))
    order = [(block.position, block.index) for block in blocks]
    expected = [(p, i) for p in range(len(kernel.ranks)) for i in range(sum(b[0] == p for b in order))]
    if order != expected:
        raise KernelProgramError("blocks are not in order of rank, numbered from 0 in each")
    first = tuple(sum(block.position < p for block in blocks) for p in range(len(kernel.ranks)))
    return KernelPlan(
        name=kernel.name,
        protocol=kernel.protocol.value,
        ranks=tuple(rank.rank for rank in kernel.ranks),
        contributors=kernel.contributors,
        channels=kernel.channels,
        depth=kernel.slot_depth,
        parts=tuple(parts.values()),
        shards=_shards(kernel),
        units=_units(kernel) if _shards(kernel) else 0,
        counters=counters,
        blocks=blocks,
        first_blocks=first,
        layout=_layout(kernel),
        carried=kernel.realisation is Realisation.EAGER,
    )


def _shards(kernel: KernelProgram) -> int:
    """Return how many shards have a count of their own; 0: all have the call's."""
    return max((e.shard + 1 for p in _puts(kernel.blocks) for e in _extents(p)), default=0)


def _units(kernel: KernelProgram) -> int:
    return max((max(r.input_units, r.output_units) for r in kernel.ranks), default=0)


def _layout(kernel: KernelProgram) -> str:
    owners = [b.rank for b in kernel.blocks]
    ranks = [
        RankLayout(r.rank, position, r.input_units, r.output_units, r.slots, owners.count(r.rank))
        for r, position in zip(kernel.ranks, kernel.positions, strict=True)
    ]
    longest = max((e.end - e.begin for p in _puts(kernel.blocks) for e in p.sources), default=Fraction(1))
    counters = [(c.kind.value, c.home, c.src, c.dst) for c in kernel.counters]
    return layout_digest(
        ranks,
        counters,
        kernel.written,
        kernel.in_place,
        kernel.contributors,
        kernel.channels,
        kernel.slot_depth,
        longest,
        kernel.realisation.value,
        kernel.read,
        protocol=kernel.protocol.value,
        shards=_shards(kernel),
    )


def _counters(kernel: KernelProgram, position: dict[int, int]) -> tuple[PlanCounter, ...]:
    """Give each counter its place in its home's memory (in order of id) and a name, unique and telling."""
    used_slots = dict.fromkeys(position, 0)
    used_names: dict[str, int] = {}
    result = []
    for number, counter in enumerate(kernel.counters):
        if counter.id != number or counter.home not in position or counter.events < 1:
            raise KernelProgramError(f"counter {counter.id}: wrong id, home or events")
        name = _counter_name(counter)
        used_names[name] = used_names.get(name, 0) + 1
        if used_names[name] > 1:
            name = f"{name}_{used_names[name]}"
        text = f"{counter.kind}, {counter.src} -> {counter.dst}"
        result.append(PlanCounter(name, position[counter.home], used_slots[counter.home], counter.events, text))
        used_slots[counter.home] += 1
    return tuple(result)


def _counter_name(counter: Counter) -> str:
    if counter.kind is CounterKind.LOCAL:
        return f"local_{counter.home}_{counter.writer_block}"
    return f"{counter.kind}_{counter.src}_{counter.dst}"


def _puts(blocks: Iterable[KernelBlock]) -> Iterable[Instruction]:
    return (i for block in blocks for i in (*block.entry, *block.body) if i.kind is InstructionKind.PUT)


def _outputs_read(kernel: KernelProgram) -> dict[tuple[int, int], list[tuple[Fraction, Fraction]]]:
    """Return, for each (rank, unit) of the outputs, the parts that the rank's blocks read."""
    read: dict[tuple[int, int], dict[tuple[Fraction, Fraction], None]] = {}
    for block in kernel.blocks:
        for place in (p for put in _puts([block]) for p in put.reads(block.rank) if p.extent.buffer is Buffer.OUTPUT):
            extent = place.extent
            read.setdefault((place.rank, extent.unit), {})[extent.begin, extent.end] = None
    return {place: list(found) for place, found in read.items()}


def _places(block: KernelBlock, put: Instruction) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Return the targets and the sources of a put."""
    if put.target is None or not put.sources:
        raise KernelProgramError(f"transfer {put.transfer}, step {put.step}: a put without a source or a target")
    if put.origins and len(put.origins) != len(put.sources):
        raise KernelProgramError(f"transfer {put.transfer}, step {put.step}: origins do not fit the sources")
    return put.writes(block.rank), put.reads(block.rank)


def _extents(put: Instruction) -> list[Extent]:
    return [place.extent for place in (*put.writes(-1), *put.reads(-1))]


def _parts(kernel: KernelProgram) -> dict[tuple[Fraction, Fraction], PlanPart]:
    """Name the parts of a count that occur, in order of where they lie."""
    extents = [e for put in _puts(kernel.blocks) for e in _extents(put)]
    if len({e.shard < 0 for e in extents}) > 1:
        raise KernelProgramError("some parts are of a shard's count and some of the one count")
    bounds = sorted({(e.begin, e.end) for e in extents})
    for begin, end in bounds:
        if not 0 <= begin <= end <= 1:
            raise KernelProgramError(f"part [{begin}, {end}) does not lie in [0, 1)")
        if max(begin.denominator, end.denominator) > LARGEST_DENOMINATOR:
            raise KernelProgramError(f"part [{begin}, {end}): a denominator above {LARGEST_DENOMINATOR}")
    if len(bounds) * _shards(kernel) > LARGEST_PART:
        raise KernelProgramError(f"{len(bounds)} parts of {_shards(kernel)} shards: more than {LARGEST_PART}")
    return {
        (begin, end): PlanPart(f"p{n}", begin.numerator, begin.denominator, end.numerator, end.denominator)
        for n, (begin, end) in enumerate(bounds)
    }


def _title(block: KernelBlock, rest: tuple[Instruction, ...], *, entry: bool) -> str:
    """Say what the next paragraph is for: its put."""
    put = next((i for i in rest if i.kind is InstructionKind.PUT and i.target is not None), None)
    if entry:
        return "the memory of this call may be written"
    if put is None:
        return "what others write here has arrived"
    readers, writers = ([p.rank for p in places if p.rank != block.rank] for places in _places(block, put)[::-1])
    ends = [", ".join(map(str, ranks or [block.rank])) for ranks in (readers, writers)]
    return f"step {put.step}: local" if not readers and not writers else f"step {put.step}: {' -> '.join(ends)}"


class _Writer:
    """Writes the statements of one block."""

    def __init__(
        self,
        kernel: KernelProgram,
        position: dict[int, int],
        counters: tuple[PlanCounter, ...],
        parts: dict[tuple[Fraction, Fraction], PlanPart],
    ) -> None:
        self.kernel = kernel
        self.position = position
        self.counters = counters
        self.parts = parts
        self.read_again = _outputs_read(kernel)
        edges = {(c.src, c.dst): c.id for c in kernel.counters if c.kind is CounterKind.ARRIVAL}
        self.edge_of = {
            (p.rank, p.extent.unit): (edges[block.rank, p.rank], put.transfer)
            for block in kernel.blocks
            for put in _puts([block])
            for p in put.writes(block.rank)
            if p.extent.buffer is Buffer.SCRATCH and (block.rank, p.rank) in edges
        }

    def block(self, number: int, block: KernelBlock) -> PlanBlock:
        if block.rank not in self.position:
            raise KernelProgramError(f"block {block.index} of rank {block.rank}, which has no memory")
        what = "local work" if block.link < 0 else f"owns link {block.link}"
        return PlanBlock(
            name=f"rank{block.rank}_block{block.index}",
            number=number,
            position=self.position[block.rank],
            index=block.index,
            text=f"rank {block.rank}, block {block.index}: {what}",
            entry=self.statements(block, block.entry, entry=True),
            body=self.statements(block, block.body, entry=False),
        )

    def statements(
        self, block: KernelBlock, instructions: tuple[Instruction, ...], *, entry: bool
    ) -> tuple[PlanStatement, ...]:
        result: list[PlanStatement] = []
        at_start = True
        for i, instruction in enumerate(instructions):
            if at_start or (instruction.kind is not InstructionKind.POST and result[-1].kind in _ENDS):
                result.append(PlanStatement("title", text=_title(block, instructions[i:], entry=entry)))
            at_start = False
            if instruction.kind is InstructionKind.BARRIER:
                result.append(PlanStatement("barrier"))
            elif instruction.kind is not InstructionKind.PUT:
                result.append(self.signal(block, instruction, entry=entry))
            elif entry:
                raise KernelProgramError(f"rank {block.rank}, block {block.index}: a put in the entry list")
            else:
                result.append(self.put(block, instruction))
        return tuple(result)

    def signal(self, block: KernelBlock, instruction: Instruction, *, entry: bool) -> PlanStatement:
        where = f"rank {block.rank}, block {block.index}, counter {instruction.counter}"
        if not 0 <= instruction.counter < len(self.counters):
            raise KernelProgramError(f"{where}: no such counter")
        counter = self.kernel.counters[instruction.counter]
        if (counter.kind is CounterKind.ENTRY) != entry:
            raise KernelProgramError(f"{where}: entry counters belong in the entry list, and no others do")
        kind = "await" if instruction.kind is InstructionKind.AWAIT else "post"
        if kind == "post" and (counter.writer, counter.writer_block) != (block.rank, block.index):
            raise KernelProgramError(f"{where}: posted by another block than its writer")
        if instruction.index < 0 or instruction.lag < 0:
            raise KernelProgramError(f"{where}: negative index or lag")
        return PlanStatement(
            f"{kind}_entry" if entry else kind,
            counter=self.counters[instruction.counter].name,
            index=instruction.index,
            lag=instruction.lag,
            step=instruction.step,
            transfer=instruction.transfer,
        )

    def put(self, block: KernelBlock, put: Instruction) -> PlanStatement:
        targets, sources = _places(block, put)
        for place in (*targets, *sources):
            if place.rank not in self.position:
                raise KernelProgramError(f"transfer {put.transfer}: rank {place.rank} has no memory")
        bounds = {(p.extent.shard, p.extent.begin, p.extent.end) for p in (*targets, *sources)}
        if len(bounds) > 1:
            raise KernelProgramError(f"transfer {put.transfer}, step {put.step}: a put joins different parts")
        shard, begin, end = bounds.pop()
        by_lines = self.kernel.protocol is Protocol.LL and any(
            p.extent.buffer is Buffer.SCRATCH for p in (*targets, *sources)
        )
        return PlanStatement(
            ("lines" if by_lines else "put") + ("_final" if put.final else ""),
            step=put.step,
            transfer=put.transfer,
            part=self.parts[begin, end].name + (f" + {shard}" if shard >= 0 else ""),
            places=tuple(self.source(p) for p in sources),
            targets=tuple(self.target(p) for p in targets),
        )

    def source(self, place: Place) -> PlanPlace:
        found = self.place(place.extent, place.rank)
        if self.kernel.protocol is not Protocol.LL or place.extent.buffer is not Buffer.SCRATCH:
            return found
        edge = self.edge_of.get((place.rank, place.extent.unit))
        if edge is None:
            raise KernelProgramError(f"slot {place.extent.unit} of rank {place.rank}: no line ever arrives there")
        return replace(found, function="arrival", edge=self.counters[edge[0]].slot, transfer=edge[1])

    def target(self, place: Place) -> PlanPlace:
        found, extent = self.place(place.extent, place.rank), place.extent
        reads = self.read_again.get((place.rank, extent.unit), []) if extent.buffer is Buffer.OUTPUT else []
        kept = any(begin < extent.end and extent.begin < end for begin, end in reads)
        return replace(found, function="kept") if kept else found

    def place(self, extent: Extent, rank: int) -> PlanPlace:
        position = self.position[rank]
        memory = self.kernel.ranks[position]
        size = {
            Buffer.INPUT: memory.input_units,
            Buffer.OUTPUT: memory.output_units,
            Buffer.SCRATCH: memory.slots,
        }[extent.buffer]
        if not 0 <= extent.unit < size:
            raise KernelProgramError(f"{extent.buffer} {extent.unit} of rank {rank}: it has {size}")
        return PlanPlace(_PLACE_FUNCTION[extent.buffer], position, extent.unit)
