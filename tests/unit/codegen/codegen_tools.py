"""Small kernel programs made by hand, and C++ that includes the prelude, callable from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

from acclc.ir.kernel_program import (
    Counter,
    CounterKind,
    Instruction,
    InstructionKind,
    KernelBlock,
    KernelProgram,
    KernelRank,
)
from acclc.ir.program import Buffer, Extent

DEVICE = Path(__file__).resolve().parents[3] / "templates" / "device"
NATIVE = Path(__file__).resolve().parents[3] / "runtime" / "acclc_runtime" / "native"
GXX = shutil.which("g++")
ZERO, ONE = Fraction(0), Fraction(1)


def extent(buffer: Buffer, unit: int = 0, begin: Fraction = ZERO, end: Fraction = ONE) -> Extent:
    return Extent(buffer, unit, begin, end)


def await_(counter: int, index: int = 1, lag: int = 0, step: int = 0, transfer: int = -1) -> Instruction:
    return Instruction(InstructionKind.AWAIT, step, transfer, counter, index, lag)


def post(counter: int, index: int = 1, step: int = 0, transfer: int = -1) -> Instruction:
    return Instruction(InstructionKind.POST, step, transfer, counter, index)


def put(
    target: Extent, target_rank: int, *sources: Extent, step: int = 0, transfer: int = -1, final: bool = False
) -> Instruction:
    return Instruction(
        InstructionKind.PUT, step, transfer, sources=sources, target=target, target_rank=target_rank, final=final
    )


def exchange(ranks: tuple[int, int] = (0, 1), channels: int = 1) -> KernelProgram:
    """All-reduce of two ranks: each sends its vector to the other's slot and adds what it got. By hand, on a page."""
    a, b = ranks
    half = Fraction(1, 2)
    parts = ((ZERO, half), (half, ONE))
    counters = []
    blocks = []
    for n, (src, dst) in enumerate(((a, b), (b, a))):
        counters += [
            Counter(3 * n, CounterKind.ENTRY, src, dst, 0, 1, src, dst),
            Counter(3 * n + 1, CounterKind.ARRIVAL, dst, src, 1, 2, src, dst),
            Counter(3 * n + 2, CounterKind.CREDIT, src, dst, 0, 1, src, dst),
        ]
    for n, rank in enumerate(ranks):
        peer = ranks[1 - n]
        mine, theirs = 3 * n, 3 * (1 - n)
        local: list[Instruction] = []
        send: list[Instruction] = []
        for k, (begin, end) in enumerate(parts):
            transfer = 2 * n + k
            own, slot = extent(Buffer.INPUT, 0, begin, end), extent(Buffer.SCRATCH, k, begin, end)
            send += [await_(mine + 2, 1, 2, 0, transfer)] if k == 0 else []
            send += [put(slot, peer, own, transfer=transfer), post(mine + 1, k + 1, transfer=transfer)]
            order = (own, slot) if n == 0 else (slot, own)
            local += [
                await_(theirs + 1, k + 1, step=0, transfer=2 * (1 - n) + k),
                put(extent(Buffer.OUTPUT, 0, begin, end), rank, *order, step=1, final=True),
            ]
        blocks += [
            KernelBlock(rank, 0, -1, (post(theirs, step=-1),), (*local, post(theirs + 2, step=1))),
            KernelBlock(rank, 1, n, (await_(mine, step=-1),), tuple(send)),
        ]
    return KernelProgram(
        name="exchange",
        in_place="same",
        positions=(0, 1),
        contributors=2,
        slot_depth=2,
        channels=channels,
        ranks=tuple(KernelRank(rank, 1, 1, 2) for rank in ranks),
        blocks=tuple(blocks),
        counters=tuple(counters),
    )


def compiled(folder: Path, code: str, *flags: str) -> ctypes.CDLL:
    """Compile C++ that may include the prelude's files, and load it."""
    assert GXX is not None
    source, library = folder / "code.cpp", folder / "code.so"
    source.write_text(code)
    strict = ["-Wall", "-Wextra", "-Wno-unused-function", "-Werror"]
    build = [GXX, "-std=c++17", "-O2", "-fPIC", "-shared", *strict, *flags, f"-I{DEVICE}", f"-I{NATIVE}"]
    subprocess.run([*build, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))
