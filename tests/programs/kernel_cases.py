"""Kernels for tests: schedules made by hand, lowered, generated, and laid out as an artefact without its JSON files."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from acclc.codegen import generate
from acclc.ir.kernel_program import KernelProgram, Protocol, Realisation
from acclc.ir.problem import Problem
from acclc.ir.schedule import Schedule
from acclc.lower import (
    can_be_eager,
    can_use_lines,
    lower_direct,
    lower_eager,
    lower_kernel,
    lower_program,
    owned_schedule,
)
from acclc_runtime.backends.base import Backend, ByteArray, Call
from acclc_runtime.dtypes import bf16_to_f32, f32_to_bf16, named
from acclc_runtime.manifest import (
    ManifestBlock,
    ManifestCollective,
    ManifestCounter,
    ManifestShard,
    ManifestVariant,
)

sys.path.append(str(Path(__file__).resolve().parent.parent / "unit" / "verify"))

from helpers import cases

Array = np.ndarray[Any, Any]

REDUCIBLE = ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8")
OPS = ("sum", "prod", "min", "max", "avg")


@dataclass(frozen=True)
class Made:
    """A collective with one variant, on disk."""

    folder: Path
    problem: Problem
    schedule: Schedule
    kernel: KernelProgram
    source: str
    collective: ManifestCollective

    @property
    def variant(self) -> ManifestVariant:
        return self.collective.variants[0]


def lowered(name: str, slot_depth: int = 2, channels: int = 1) -> tuple[Problem, Schedule, KernelProgram]:
    """One of the hand-made cases, down to its kernel program."""
    problem, schedule = cases()[name]
    kernel = lower_kernel(problem, lower_program(problem, schedule), slot_depth)
    return problem, schedule, replace(kernel, channels=channels)


def by_lines(name: str, channels: int = 1) -> tuple[Problem, Schedule, KernelProgram] | None:
    """A hand-made case as eager by the protocol LL; None where it is not eager, for what is sent on."""
    problem, schedule = cases()[name]
    program = lower_program(problem, schedule, all_in_slots=True)
    if not can_use_lines(program):
        return None
    return problem, schedule, replace(lower_eager(problem, program, Protocol.LL), channels=channels)


def realised(name: str, realisation: Realisation, channels: int = 1) -> tuple[Problem, Schedule, KernelProgram] | None:
    """A hand-made case as eager or direct, or with the owned schedule made of it; None where it has none."""
    problem, schedule = cases()[name]
    kernel = None
    if realisation is Realisation.EAGER and can_be_eager(schedule):
        kernel = lower_eager(problem, lower_program(problem, schedule, all_in_slots=True))
    elif realisation is Realisation.DIRECT:
        schedule = owned_schedule(problem, schedule) or schedule
        kernel = lower_direct(problem, schedule)
    return None if kernel is None else (problem, schedule, replace(kernel, channels=channels))


def realised_cases() -> list[tuple[str, Realisation]]:
    """Every hand-made case that is eager or direct."""
    return [(name, r) for name in sorted(cases()) for r in (Realisation.EAGER, Realisation.DIRECT) if realised(name, r)]


def make(folder: Path, name: str, slot_depth: int = 2, channels: int = 1) -> Made:
    problem, schedule, kernel = lowered(name, slot_depth, channels)
    return write(folder, problem, schedule, kernel)


def write(folder: Path, problem: Problem, schedule: Schedule, kernel: KernelProgram, source: str = "") -> Made:
    """Write kernel.cu where the manifest says it is; nothing else is on disk."""
    source = source or generate(kernel)
    variant = ManifestVariant(
        id=schedule.id,
        folder=f"{problem.name}/{schedule.id}",
        strategy="hand",
        chunks=schedule.chunks_per_shard,
        steps=schedule.steps,
        rounds=schedule.total_rounds,
        min_bytes=None,
        max_bytes=None,
        longest_chunk=max((c.weight for c in schedule.chunks), default=Fraction(1)),
        slot_depth=kernel.slot_depth,
        channels=kernel.channels,
        slots=tuple(r.slots for r in kernel.ranks),
        blocks=tuple(ManifestBlock(b.rank, b.index, f"link {b.link}") for b in kernel.blocks),
        counters=tuple(ManifestCounter(c.kind.value, c.home, c.src, c.dst) for c in kernel.counters),
        kernel_sha256=hashlib.sha256(source.encode()).hexdigest(),
        kernel_digest="",
        written=kernel.written,
        read=kernel.read,
        realisation=kernel.realisation.value,
        protocol=kernel.protocol.value,
    )
    collective = ManifestCollective(
        name=problem.name,
        collective=problem.collective.value,
        ranks=tuple(problem.group),
        root=None,
        op=None,
        in_place=kernel.in_place,
        positions=kernel.positions,
        input_units=tuple(r.input_units for r in kernel.ranks),
        output_units=tuple(r.output_units for r in kernel.ranks),
        reduces=problem.reduces,
        contributors=kernel.contributors,
        shards=tuple(
            ManifestShard(
                tuple((p.rank, p.unit) for p in s.inputs), tuple((p.rank, p.unit) for p in s.outputs), s.reduced
            )
            for s in problem.shards
        ),
        bound="",
        variants=(variant,),
    )
    path = folder / variant.folder / "kernel.cu"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return Made(folder, problem, schedule, kernel, source, collective)


def values(bits: Array, dtype: str) -> Array:
    """The numbers that a buffer's bytes mean."""
    if dtype == "bf16":
        return bf16_to_f32(bits.view(np.uint16))
    return bits.view(named(dtype).storage)


def stored(numbers: Array, dtype: str) -> Array:
    """The reverse, rounded to the type."""
    if dtype == "bf16":
        return f32_to_bf16(numbers.astype(np.float32)).view(np.uint8)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(numbers.astype(named(dtype).storage)).view(np.uint8)


def buffer(nbytes: int, offset: int) -> ByteArray:
    """Bytes that start ``offset`` after a multiple of 64, filled with a pattern that no result has."""
    raw = np.full(nbytes + 128, 0xAB, np.uint8)
    first = -raw.ctypes.data % 64 + offset
    return raw[first : first + nbytes]


@dataclass
class Data:
    """The buffers of all ranks, and what the outputs must hold: the definition of the collective, on the inputs."""

    call: Call
    expected: list[Array]

    def check(self) -> None:
        for rank, (found, wanted) in enumerate(zip(self.call.outputs, self.expected, strict=True)):
            np.testing.assert_array_equal(found, wanted, err_msg=f"output of position {rank}")


def reduced(parts: list[Array], op: str, dtype: str) -> Array:
    """Left to right, wide, rounded once; tests with other orders use numbers for which the order does not matter."""
    wide = np.dtype(np.float32) if dtype in ("f16", "bf16") else parts[0].dtype
    total = parts[0].astype(wide)
    step = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    with np.errstate(all="ignore"):
        for part in parts[1:]:
            total = step(total, part.astype(wide)).astype(wide)
        if op == "avg" and wide in (np.float32, np.float64):
            total = (total / np.array(len(parts), wide)).astype(wide)
        elif op == "avg":
            signs = np.sign(total.astype(object))
            total = (abs(total.astype(object)) // len(parts) * signs).astype(wide)
    return total


def numbers(rng: np.random.Generator, count: int, dtype: str) -> Array:
    """Small whole numbers: their sums and products are exact in every type and order."""
    choice = [1, 2, 3] if dtype == "u8" else [-2, -1, 1, 2, 3]
    return rng.choice(choice, count).astype(np.float64)


def data(
    made: Made,
    count: int,
    dtype: str = "f32",
    op: str | None = None,
    *,
    seed: int = 1,
    in_place: bool = False,
    offset: int = 0,
    timeout_s: float = 60.0,
    content: Iterator[Array] | None = None,
) -> Data:
    """Make the buffers of one call, and the expected outputs."""
    rng = np.random.default_rng(seed)
    item = named(dtype).item_bytes
    collective = made.collective
    size = count * item
    inputs = [buffer(units * size, offset) for units in collective.input_units]
    outputs = [buffer(units * size, offset) for units in collective.output_units]
    if in_place:
        _alias(collective, inputs, outputs, size)
    for target in inputs:
        fill = next(content) if content is not None else numbers(rng, len(target) // item, dtype)
        target[:] = fill if fill.dtype == np.uint8 else stored(fill, dtype)
    at = {rank: n for n, rank in enumerate(collective.ranks)}
    expected = [output.copy() for output in outputs]
    originals = [source.copy() for source in inputs]
    for shard in collective.shards:
        parts = [originals[at[r]][u * size : (u + 1) * size] for r, u in shard.inputs]
        if shard.reduced and op is not None:
            result = stored(reduced([values(p, dtype) for p in parts], op, dtype), dtype)
        else:
            result = parts[0]
        for rank, unit in shard.outputs:
            expected[at[rank]][unit * size : (unit + 1) * size] = result
    call = Call(collective, made.variant, count, dtype, op, inputs, outputs, in_place, timeout_s)
    return Data(call, expected)


def _alias(collective: ManifestCollective, inputs: list[ByteArray], outputs: list[ByteArray], size: int) -> None:
    for n, position in enumerate(collective.positions):
        part = slice(position * size, (position + 1) * size)
        if collective.in_place == "same" and len(inputs[n]) and len(outputs[n]):
            outputs[n] = inputs[n]
        elif collective.in_place == "input_in_output" and len(outputs[n]):
            inputs[n] = outputs[n][part]
        elif collective.in_place == "output_in_input" and len(inputs[n]):
            outputs[n] = inputs[n][part]


def run(backend: Backend, made: Made, count: int, dtype: str = "f32", op: str | None = None, **options: Any) -> Data:
    """Run one call and compare."""
    if made.collective.reduces and op is None:
        op = "sum"
    prepared = data(made, count, dtype, op, **options)
    backend.run(prepared.call)
    prepared.check()
    return prepared
