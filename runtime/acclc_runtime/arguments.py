"""Checks a call of a local group before anything moves, and gives the buffers as bytes.

Messages name the global rank. Lists are in the order of the collective's ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from acclc_runtime import dtypes
from acclc_runtime.buffers import HOST, UserBuffer, adapt
from acclc_runtime.dtypes import DType
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import Manifest, ManifestCollective
from acclc_runtime.selection import format_bytes

IN_PLACE_WORDS = {
    "same": "the input and the output must be the same buffer",
    "input_in_output": "the input must be the output's part [rank * count, (rank + 1) * count), rank in the group",
    "output_in_input": "the output must be the input's part [rank * count, (rank + 1) * count), rank in the group",
    "none": "this collective offers no in-place form",
}
"""What in place means, by ``ManifestCollective.in_place``."""


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The buffers of a call that fits. ``results`` is what the caller gets back: None for ranks without output."""

    count: int
    dtype: DType
    op: str | None
    in_place: bool
    inputs: tuple[UserBuffer | None, ...]
    outputs: tuple[UserBuffer | None, ...]
    results: list[Any]

    def words(self, nbytes: int) -> str:
        """Say what is called, of S = ``nbytes``: ``4 KiB of f32 sum, in place``."""
        operator = f" {self.op}" if self.op else ""
        place = "in place" if self.in_place else "out of place"
        return f"{format_bytes(nbytes)} of {self.dtype.name}{operator}, {place}"

    def byte_arrays(self) -> tuple[list[Any], list[Any]]:
        """Return the inputs and the outputs as one array of bytes a rank; empty ones for ranks without."""
        present = [b.as_bytes() for b in (*self.inputs, *self.outputs) if b is not None]
        absent = present[0][:0]
        taken = iter(present)
        arrays = [absent if b is None else next(taken) for b in (*self.inputs, *self.outputs)]
        return arrays[: len(self.inputs)], arrays[len(self.inputs) :]


def check_call(
    manifest: Manifest,
    collective: ManifestCollective,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    op: str | None,
    dtype: str | None,
    on_cuda: bool,
    devices: Sequence[int] | None = None,
    sized_by: tuple[DType, int] | None = None,
) -> CheckedCall:
    """Check everything about a call; allocate the outputs where the caller gave none.

    ``devices``: the CUDA device of each rank, where a rank without input gets its output. ``sized_by``: the type
    and the count, where there are no inputs that tell them.

    Raises:
        ArgumentError: names the rank, and says what is wrong and what would fit.
    """
    taken = _take(collective, "input", inputs, collective.input_units, dtype)
    kind = common_type(collective, taken, dtype) if sized_by is None else sized_by[0]
    reduction = check_operator(manifest, collective, op, kind)
    count = _common_count(collective, taken) if sized_by is None else sized_by[1]
    check_memory(collective, "input", taken, on_cuda)
    if outputs is None:
        outputs = _allocate(collective, taken, count, devices)
    given = _take(collective, "output", outputs, collective.output_units, dtype)
    _check_outputs(collective, given, kind, count)
    check_memory(collective, "output", given, on_cuda)
    in_place = check_overlap(collective, taken, given, count * kind.item_bytes)
    results = [None if buffer is None else buffer.owner for buffer in given]
    return CheckedCall(count, kind, reduction, in_place, taken, given, results)


def _take(
    collective: ManifestCollective, what: str, arrays: Sequence[Any] | None, units: Sequence[int], dtype: str | None
) -> tuple[UserBuffer | None, ...]:
    """Adapt one array a rank. What a rank does not need is ignored, as MPI and NCCL do with root-only buffers."""
    taken: list[UserBuffer | None] = []
    for rank, array, needed in zip(collective.ranks, listed_arrays(collective, what, arrays), units, strict=True):
        if needed == 0:
            taken.append(None)
            continue
        if array is None:
            raise ArgumentError(f"{collective.name}: rank {rank} needs an {what}, but None was given")
        try:
            taken.append(adapt(array, dtype))
        except ArgumentError as error:
            raise ArgumentError(f"{collective.name}: rank {rank}'s {what} {error}") from None
    return tuple(taken)


def listed_arrays(collective: ManifestCollective, what: str, arrays: Sequence[Any] | None) -> Sequence[Any]:
    """Return what was given as one entry a rank.

    Raises:
        ArgumentError: no list, or one of another length.
    """
    ranks = collective.ranks
    if arrays is None:
        return [None] * len(ranks)
    if not isinstance(arrays, (Sequence, np.ndarray)) or isinstance(arrays, (str, bytes)):
        raise ArgumentError(
            f"{collective.name}: the {what}s are a {type(arrays).__name__}; "
            f"give a list of {len(ranks)} arrays, one a rank"
        )
    if len(arrays) != len(ranks):
        raise ArgumentError(
            f"{collective.name} is on {len(ranks)} ranks, but {len(arrays)} {what}s were given; give one array a rank"
        )
    return arrays


def common_type(collective: ManifestCollective, buffers: Sequence[UserBuffer | None], dtype: str | None) -> DType:
    """Return the one type of the buffers; where there are none, the named one.

    Raises:
        ArgumentError: they are of several types.
    """
    first: tuple[int, DType] | None = None
    for rank, buffer in zip(collective.ranks, buffers, strict=True):
        if buffer is None:
            continue
        if first is None:
            first = (rank, buffer.dtype)
        elif buffer.dtype != first[1]:
            raise ArgumentError(
                f"{collective.name}: rank {rank}'s input is of type {buffer.dtype.name}, "
                f"rank {first[0]}'s of type {first[1].name}; all ranks need one type"
            )
    return dtypes.named(dtype or "u8") if first is None else first[1]


def check_operator(manifest: Manifest, collective: ManifestCollective, op: str | None, dtype: DType) -> str | None:
    """Return the operator of a call; None where nothing is reduced.

    Raises:
        ArgumentError: the artefact has not this type or operator, or they do not go together.
    """
    if manifest.types and dtype.name not in {dtypes.named(name).name for name in manifest.types}:
        raise ArgumentError(
            f"{collective.name}: the artefact was compiled for the types {', '.join(manifest.types)} (`emit`), "
            f"not for {dtype.name}"
        )
    if not collective.reduces:
        if op is not None:
            raise ArgumentError(f"{collective.name} reduces nothing; leave op={op!r} out")
        return None
    wanted = op or collective.op or "sum"
    if wanted not in dtypes.OPERATORS:
        raise ArgumentError(f"{collective.name}: no operator {wanted!r}; there are {', '.join(dtypes.OPERATORS)}")
    if manifest.ops and wanted not in manifest.ops:
        raise ArgumentError(
            f"{collective.name}: the artefact was compiled for the operators {', '.join(manifest.ops)} (`emit`), "
            f"not for {wanted}"
        )
    if wanted == "avg" and collective.contributors == 0:
        raise ArgumentError(
            f"{collective.name} reduces over groups of different sizes, so avg has no one divisor; use sum and divide"
        )
    if not dtype.reducible:
        raise ArgumentError(
            f"{collective.name}: elements of type {dtype.name} can be moved, but not reduced; "
            f"{', '.join(dtypes.REDUCIBLE)} can"
        )
    return wanted


def _common_count(collective: ManifestCollective, buffers: Sequence[UserBuffer | None]) -> int:
    first: tuple[int, int] | None = None
    for rank, units, buffer in zip(collective.ranks, collective.input_units, buffers, strict=True):
        if buffer is None:
            continue
        count, rest = divmod(buffer.elements, units)
        if rest:
            raise ArgumentError(
                f"{collective.name}: rank {rank}'s input has {buffer.elements} elements; "
                f"it must be a multiple of {units}"
            )
        if first is None:
            first = (rank, count)
        elif count != first[1]:
            raise ArgumentError(
                f"{collective.name}: rank {rank}'s input has {buffer.elements} elements, but rank {first[0]}'s says "
                f"that count is {first[1]}, so it must have {units * first[1]}; sizes must agree on all ranks"
            )
    return 0 if first is None else first[1]


def _check_outputs(
    collective: ManifestCollective, buffers: Sequence[UserBuffer | None], dtype: DType, count: int
) -> None:
    for rank, units, buffer in zip(collective.ranks, collective.output_units, buffers, strict=True):
        if buffer is None:
            continue
        where = f"{collective.name}: rank {rank}'s output"
        if buffer.dtype != dtype:
            raise ArgumentError(f"{where} is of type {buffer.dtype.name}, the inputs are of type {dtype.name}")
        if buffer.elements != units * count:
            raise ArgumentError(f"{where} has {buffer.elements} elements; it must have {units * count}")
        if not buffer.writable:
            raise ArgumentError(f"{where} is not writable")


def check_memory(
    collective: ManifestCollective, what: str, buffers: Sequence[UserBuffer | None], on_cuda: bool
) -> None:
    """See that the buffers are contiguous and where the backend can use them.

    Raises:
        ArgumentError: naming the rank.
    """
    for rank, buffer in zip(collective.ranks, buffers, strict=True):
        if buffer is None:
            continue
        where = f"{collective.name}: rank {rank}'s {what}"
        if not buffer.contiguous:
            raise ArgumentError(f"{where} is not contiguous; pass numpy.ascontiguousarray(...) of it, or .contiguous()")
        if on_cuda and not buffer.device.startswith("cuda"):
            raise ArgumentError(f"{where} lies in {buffer.device}; the cuda backend needs arrays on a CUDA device")
        if not on_cuda and buffer.device != HOST:
            raise ArgumentError(f"{where} lies on {buffer.device}; this backend needs arrays in host memory")


def check_overlap(
    collective: ManifestCollective,
    inputs: Sequence[UserBuffer | None],
    outputs: Sequence[UserBuffer | None],
    unit_bytes: int,
) -> bool:
    """Return whether the call is in place.

    Raises:
        ArgumentError: memory is shared in another way.
    """
    if unit_bytes == 0:
        return False
    spans: list[tuple[int, int, str]] = []
    in_place: list[int] = []
    apart: list[int] = []
    for rank, position, source, target in zip(collective.ranks, collective.positions, inputs, outputs, strict=True):
        shared = source is not None and target is not None and _overlap(source, target)
        if source is not None and target is not None:
            (in_place if shared else apart).append(rank)
        if shared and source is not None and target is not None:
            _check_exact(collective, rank, position, source, target, unit_bytes)
            larger = max(source, target, key=lambda b: b.nbytes)
            spans.append((larger.address, larger.nbytes, f"rank {rank}'s buffer"))
            continue
        for what, buffer in (("input", source), ("output", target)):
            if buffer is not None:
                spans.append((buffer.address, buffer.nbytes, f"rank {rank}'s {what}"))
    spans.sort()
    for (address, nbytes, one), (following, _, other) in pairwise(spans):
        if following < address + nbytes:
            raise ArgumentError(
                f"{collective.name}: {one} and {other} share memory; every rank needs buffers of its own"
            )
    if in_place and apart:
        raise ArgumentError(
            f"{collective.name}: rank {in_place[0]} is in place and rank {apart[0]} is not; all ranks must do the same"
        )
    return bool(in_place)


def _overlap(one: UserBuffer, other: UserBuffer) -> bool:
    return one.address < other.address + other.nbytes and other.address < one.address + one.nbytes


def _check_exact(
    collective: ManifestCollective,
    rank: int,
    position: int,
    source: UserBuffer,
    target: UserBuffer,
    unit_bytes: int,
) -> None:
    offset = position * unit_bytes
    exact = {
        "same": source.address == target.address and source.nbytes == target.nbytes,
        "input_in_output": source.address == target.address + offset,
        "output_in_input": target.address == source.address + offset,
    }.get(collective.in_place, False)
    if not exact:
        raise ArgumentError(
            f"{collective.name}: rank {rank}'s input and output overlap, but are not in place: "
            f"{IN_PLACE_WORDS.get(collective.in_place, IN_PLACE_WORDS['none'])}"
        )


def _allocate(
    collective: ManifestCollective,
    inputs: Sequence[UserBuffer | None],
    count: int,
    devices: Sequence[int] | None,
) -> list[Any]:
    """Allocate outputs like the rank's input, or like the first input where a rank has none."""
    if not any(collective.output_units):  # one rank's view, and it only passes on
        return [None] * len(collective.output_units)
    present = [
        (buffer, units) for buffer, units in zip(inputs, collective.input_units, strict=True) if buffer is not None
    ]
    if not present:
        raise ArgumentError(f"{collective.name} has no inputs, so its outputs must be given")
    outputs: list[Any] = []
    for index, (buffer, units_out) in enumerate(zip(inputs, collective.output_units, strict=True)):
        if units_out == 0:
            outputs.append(None)
            continue
        like, units = present[0] if buffer is None else (buffer, collective.input_units[index])
        device = None if devices is None else devices[index]
        outputs.append(like.empty(_scaled_shape(like.shape, units, units_out, count), device))
    return outputs


def _scaled_shape(shape: tuple[int, ...], units_in: int, units_out: int, count: int) -> tuple[int, ...]:
    """Return the shape of ``units_out`` counts: the first dimension scaled where it divides, else one dimension."""
    if units_in == units_out:
        return shape
    if shape and shape[0] * units_out % units_in == 0:
        return (shape[0] * units_out // units_in, *shape[1:])
    return (units_out * count,)
