"""What the page unpacks only when somebody looks: sources of kernels, and Programs."""

from __future__ import annotations

import zlib
from base64 import b64encode

import msgspec

from acclc.ir.program import Buffer, Extent, Program, ProgramBlock
from acclc.view.view_format import BlockData, OperationColumns, ProgramData, ProgramText, RankData


def pack(data: bytes) -> str:
    """Return a zlib stream as base64."""
    return b64encode(zlib.compress(data, 9)).decode("ascii")


def pack_program(program: Program) -> ProgramData:
    """Return a Program as the page's block view wants it."""
    text = program_text(program)
    blocks = [b for r in program.ranks for b in r.blocks]
    return ProgramData(len(blocks), sum(len(b.operations) for b in blocks), pack(msgspec.json.encode(text)))


def program_text(program: Program) -> ProgramText:
    """Return a Program in columns, each distinct extent in words once."""
    numbers: dict[Extent, int] = {}
    ranks = tuple(
        RankData(r.rank, r.slots, tuple(BlockData(b.link, _operations(b, numbers)) for b in r.blocks))
        for r in program.ranks
    )
    return ProgramText(ranks, tuple(extent_words(e) for e in numbers))


def _operations(block: ProgramBlock, numbers: dict[Extent, int]) -> OperationColumns:
    def number(extent: Extent) -> int:
        return numbers.setdefault(extent, len(numbers))

    operations = block.operations
    return OperationColumns(
        id=tuple(o.id for o in operations),
        kind=tuple(o.kind.value for o in operations),
        step=tuple(o.step for o in operations),
        transfer=tuple(o.transfer for o in operations),
        peer=tuple(o.peer for o in operations),
        sources=tuple(tuple(number(e) for e in o.sources) for o in operations),
        target=tuple(-1 if o.target is None else number(o.target) for o in operations),
        after=tuple(o.after for o in operations),
    )


def extent_words(extent: Extent) -> str:
    """``in 3``, ``out 0, 1/6 to 1/3``, ``slot 2``: the unit of a buffer, and which part of it."""
    name = "slot" if extent.buffer is Buffer.SCRATCH else extent.buffer.value
    whole = extent.buffer is Buffer.SCRATCH or (extent.begin == 0 and extent.end == 1)
    return f"{name} {extent.unit}" + ("" if whole else f", {extent.begin} to {extent.end}")
