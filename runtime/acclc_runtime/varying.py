"""Checks a call whose counts vary before anything moves: every buffer is as long as the counts say."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from acclc_runtime.arguments import CheckedCall, check_memory, check_operator, check_overlap, common_type, listed_arrays
from acclc_runtime.buffers import UserBuffer, adapt
from acclc_runtime.counts import Lengths
from acclc_runtime.dtypes import DType
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import Manifest, ManifestCollective

Buffers = tuple[UserBuffer | None, ...]


def check_varying_call(
    manifest: Manifest,
    collective: ManifestCollective,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    lengths: Lengths,
    op: str | None,
    dtype: str | None,
    on_cuda: bool,
    devices: Sequence[int] | None = None,
) -> CheckedCall:
    """Check everything about a call; allocate the outputs where the caller gave none.

    A rank that sends (or gets) nothing may give None, or an empty array. ``lengths`` has an entry for each of the
    collective's ranks. The call's count is the largest of all.

    Raises:
        ArgumentError: names the rank, and says what is wrong and what would fit.
    """
    sent, got = [row[-1] for row in lengths.inputs], [row[-1] for row in lengths.outputs]
    taken = _take(collective, "input", inputs, sent, dtype)
    given = None if outputs is None else _take(collective, "output", outputs, got, dtype)
    kind = common_type(collective, taken if any(taken) or given is None else given, dtype)
    check_operator(manifest, collective, op, kind)
    if given is None:
        given = _take(collective, "output", _allocate(collective, taken, got, kind, devices), got, dtype)
    for what, buffers in (("input", taken), ("output", given)):
        _check_types(collective, what, buffers, kind)
        check_memory(collective, what, buffers, on_cuda)
    results = [None if buffer is None else buffer.owner for buffer in given]
    taken, given = _not_empty(taken), _not_empty(given)
    check_overlap(collective, taken, given, lengths.largest * kind.item_bytes)
    return CheckedCall(lengths.largest, kind, None, False, taken, given, results)


def check_own_input(
    manifest: Manifest,
    own: ManifestCollective,
    x: Any,
    out: Any,
    row: Sequence[int],
    op: str | None,
    dtype: str | None,
) -> DType:
    """Check what one rank can of its own call, knowing its own row of counts only; return the type of the call.

    Raises:
        ArgumentError: see :func:`check_varying_call`.
    """
    (buffer,) = _take(own, "input", [x], [sum(row)], dtype)
    if buffer is None and out is not None:
        buffer = adapt(out, dtype)
    if buffer is None and dtype is None:
        raise ArgumentError(
            f"{own.name}: rank {own.ranks[0]} gives no array, so nothing tells the type; give x, out or dtype="
        )
    kind = common_type(own, [buffer], dtype)
    check_operator(manifest, own, op, kind)
    return kind


def _take(
    collective: ManifestCollective, what: str, arrays: Sequence[Any] | None, wanted: Sequence[int], dtype: str | None
) -> Buffers:
    """Adapt one array a rank, which has as many elements as the counts say."""
    found: list[UserBuffer | None] = []
    side = "row" if what == "input" else "column"
    for rank, position, array, elements in zip(
        collective.ranks, collective.positions, listed_arrays(collective, what, arrays), wanted, strict=True
    ):
        if array is None:
            if elements:
                raise ArgumentError(f"{collective.name}: rank {rank} needs an {what} of {elements} elements, got None")
            found.append(None)
            continue
        try:
            buffer = adapt(array, dtype)
        except ArgumentError as error:
            raise ArgumentError(f"{collective.name}: rank {rank}'s {what} {error}") from None
        if buffer.elements != elements:
            raise ArgumentError(
                f"{collective.name}: rank {rank}'s {what} has {buffer.elements} elements; {side} {position} of counts "
                f"sums to {elements}"
            )
        found.append(buffer)
    return tuple(found)


def _check_types(collective: ManifestCollective, what: str, buffers: Buffers, kind: DType) -> None:
    for rank, buffer in zip(collective.ranks, buffers, strict=True):
        if buffer is None:
            continue
        where = f"{collective.name}: rank {rank}'s {what}"
        if buffer.dtype != kind:
            raise ArgumentError(f"{where} is of type {buffer.dtype.name}, others are of type {kind.name}")
        if what == "output" and not buffer.writable:
            raise ArgumentError(f"{where} is not writable")


def _allocate(
    collective: ManifestCollective,
    inputs: Buffers,
    wanted: Sequence[int],
    kind: DType,
    devices: Sequence[int] | None,
) -> list[Any]:
    """Allocate outputs like the rank's input, or like the first input where a rank has none."""
    likes = [buffer for buffer in inputs if buffer is not None]
    outputs: list[Any] = []
    for index, (buffer, elements) in enumerate(zip(inputs, wanted, strict=True)):
        like = buffer or (likes[0] if likes else None)
        if like is None:
            if elements:
                raise ArgumentError(
                    f"{collective.name}: rank {collective.ranks[index]} has no input that tells the type of its output;"
                    " give the output"
                )
            outputs.append(None)
            continue
        inner = like.shape[1:]
        whole = prod(inner)
        shape = (elements // whole, *inner) if whole and elements % whole == 0 else (elements,)
        outputs.append(like.empty(shape, None if devices is None else devices[index]))
    return outputs


def _not_empty(buffers: Buffers) -> Buffers:
    """Leave out what has no bytes: it lies nowhere."""
    return tuple(None if buffer is None or buffer.nbytes == 0 else buffer for buffer in buffers)
