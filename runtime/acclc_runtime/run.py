"""Runs every variant of an artefact on random data and compares with the definition: what ``acclc run`` calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acclc_runtime import dtypes
from acclc_runtime.backends import cuda_memory
from acclc_runtime.call_buffers import buffers_of, copy_in
from acclc_runtime.communicator import LocalGroup
from acclc_runtime.counts import Matrix
from acclc_runtime.errors import AcclcRuntimeError, ArgumentError
from acclc_runtime.loader import load
from acclc_runtime.manifest import Manifest, ManifestCollective
from acclc_runtime.reference import PATTERNS, random_counts, random_inputs
from acclc_runtime.reference import check as compare
from acclc_runtime.selection import by_name, size_bytes, units_of_size

PROTOCOLS = ("simple", "ll")
POISON = 0xFF
"""What the bytes of outputs hold before a call, so that one that is never written is seen: NaN in floats."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One combination that ran. ``bytes`` is S; ``chosen`` is how the variant was chosen: by ``name`` or ``size``."""

    collective: str
    variant: str
    chosen: str
    backend: str
    """The one that ran: numpy where it stood in for cpu."""
    dtype: str
    op: str | None
    bytes: int
    count: int
    in_place: bool
    seconds: float
    """Median over the timed iterations, through the public call."""
    algbw_GBps: float  # noqa: N815 - the field's name for it
    """S over the time; 1e9 bytes are a GB."""
    wrong: int
    """Elements that differ from the definition, on all ranks."""
    error: str
    """Why it did not run, or what else was wrong; "" if nothing."""
    counts: str = ""
    """The pattern of the counts (``reference.PATTERNS``), where they vary: ``count`` is then the largest."""

    @property
    def ok(self) -> bool:
        """Whether it ran, and every element was right."""
        return not self.wrong and not self.error

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and ``ok``, for JSON."""
        return {**asdict(self), "ok": self.ok}


def run_checks(
    artefact: str | Path,
    backend: str = "cpu",
    sizes: Sequence[int] = (1 << 10, 1 << 20),
    dtypes: Sequence[str] = ("f32",),
    ops: Sequence[str] = ("sum",),
    in_place: Sequence[bool] = (False, True),
    seed: int = 0,
    iterations: int = 1,
    only: str | None = None,
    check: bool = True,
    general: bool = False,
    options: Mapping[str, Any] | None = None,
) -> list[RunRow]:
    """Run each variant by name, and the one that the size chooses; return a row for each combination.

    ``sizes`` are S in bytes, rounded up to whole counts. ``only`` is NAME or NAME/VARIANT. With ``general``
    floats have mixed magnitudes and are compared within the tolerance of the reference. ``options`` are the
    group's. What does not apply is left out: operators where nothing is reduced, movement-only types where
    something is, in place where it is not offered, types and operators that the artefact does not emit.

    Raises:
        ArgumentError: an unknown name, or nothing is left to run.
        DamagedFileError, BackendUnavailableError: the artefact or the backend cannot be used.
    """
    loaded = load(artefact)
    rows = []
    with loaded.local(backend, **dict(options or {})) as group:
        for case in cases_to_run(loaded.manifest, sizes, dtypes, ops, in_place, only, seed):
            rows.append(_run_case(group, case, seed, iterations, check, general))
    if not rows:
        raise ArgumentError("nothing to run: no collective of the artefact takes these types and operators")
    return rows


@dataclass(frozen=True, slots=True)
class Case:
    """One combination to run."""

    collective: ManifestCollective
    variant: str | None
    """None: the size chooses."""
    dtype: str
    op: str | None
    count: int
    in_place: bool
    pattern: str = ""
    counts: Matrix | None = None


def cases_to_run(
    manifest: Manifest,
    sizes: Sequence[int],
    types: Sequence[str],
    ops: Sequence[str],
    in_place: Sequence[bool],
    only: str | None,
    seed: int,
    protocols: Sequence[str] = PROTOCOLS,
) -> Iterator[Case]:
    """Yield each variant by name, and the one that the size chooses, with all that applies to it.

    ``protocols``: of the variants that are taken where ``only`` does not name one.
    """
    for collective, variants in _chosen(manifest, only, protocols):
        places = [place for place in in_place if not place or collective.in_place != "none"]
        for dtype, op in _types_and_ops(manifest, collective, types, ops):
            for size in sizes:
                unit = units_of_size(collective) * dtypes.named(dtype).item_bytes
                count = -(-size // unit)
                for variant, place in product(variants, places):
                    if not collective.varying:
                        yield Case(collective, variant, dtype, op, count, place)
                        continue
                    row = -(-size // dtypes.named(dtype).item_bytes)
                    for pattern in PATTERNS:
                        counts = random_counts(collective, pattern, row, seed)
                        largest = max(map(max, counts))
                        yield Case(collective, variant, dtype, op, largest, place, pattern, counts)


def _chosen(
    manifest: Manifest, only: str | None, protocols: Sequence[str]
) -> Iterator[tuple[ManifestCollective, list[str | None]]]:
    name, _, variant = (only or "").partition("/")
    found = [c for c in manifest.collectives if not name or c.name == name]
    if not found:
        raise ArgumentError(f"no collective {name!r}; there are {', '.join(c.name for c in manifest.collectives)}")
    for collective in found:
        if variant:
            yield collective, [by_name(collective, variant).id]
            continue
        by_size = any(v.min_bytes is not None or v.max_bytes is not None for v in collective.variants)
        yield (
            collective,
            [
                *(v.id for v in collective.variants if v.protocol in protocols),
                *([None] if by_size else []),
            ],
        )


def _types_and_ops(
    manifest: Manifest, collective: ManifestCollective, types: Sequence[str], ops: Sequence[str]
) -> Iterator[tuple[str, str | None]]:
    unknown = [op for op in ops if op not in dtypes.OPERATORS]
    if unknown:
        raise ArgumentError(f"no operator {unknown[0]!r}; there are {', '.join(dtypes.OPERATORS)}")
    emitted = {dtypes.named(name).name for name in manifest.types}
    for name in types:
        kind = dtypes.named(name)
        if emitted and kind.name not in emitted:
            continue
        if not collective.reduces:
            yield kind.name, None
            continue
        for op in ops:
            divides = op != "avg" or collective.contributors > 0
            if kind.reducible and divides and (not manifest.ops or op in manifest.ops):
                yield kind.name, op


def row_of(case: Case, group: Any, backend: str) -> RunRow:
    """Return the row of a case before it has run; ``group`` (or communicator) chooses the variant if none is named."""
    item = dtypes.named(case.dtype).item_bytes
    nbytes = size_bytes(case.collective, case.count, item)
    if case.counts is not None:
        nbytes = max(map(sum, case.counts)) * item
    return RunRow(
        collective=case.collective.name,
        variant=case.variant or group.choice(case.collective.name, nbytes)[0].id,
        chosen="name" if case.variant else "size",
        backend=backend,
        dtype=case.dtype,
        op=case.op,
        bytes=nbytes,
        count=case.count,
        in_place=case.in_place,
        seconds=0.0,
        algbw_GBps=0.0,
        wrong=0,
        error="",
        counts=case.pattern,
    )


def _run_case(group: LocalGroup, case: Case, seed: int, iterations: int, check: bool, general: bool) -> RunRow:
    collective = case.collective
    row = row_of(case, group, group.backend)
    inputs = random_inputs(collective, case.count, case.dtype, seed, op=case.op, general=general, counts=case.counts)
    buffers = _Buffers(case, inputs, group)
    seconds = []
    try:
        for iteration in range(iterations + 1):  # the first builds the kernel and is not timed
            buffers.fill()
            start = time.perf_counter()
            group.collective(
                collective.name,
                buffers.inputs,
                buffers.outputs,
                case.op,
                variant=case.variant,
                dtype=case.dtype,
                counts=case.counts,
            )
            seconds.append(time.perf_counter() - start)
            if check and iteration in (0, iterations):
                row = _judge(row, case, buffers, inputs)
            if not row.ok:
                return row
    except AcclcRuntimeError as error:
        return replace(row, error=str(error))
    typical = median(seconds[1:])
    return replace(row, seconds=typical, algbw_GBps=row.bytes / typical / 1e9 if typical else 0.0)


def _judge(row: RunRow, case: Case, buffers: _Buffers, inputs: Sequence[NDArray[Any] | None]) -> RunRow:
    outputs = buffers.host_outputs()
    comparison = compare(case.collective, inputs, outputs, case.count, case.dtype, case.op, 1, case.counts)
    if comparison.wrong:
        return replace(row, wrong=comparison.wrong, error=comparison.mismatches[0].words)
    return replace(row, error=buffers.damaged_input())


class _Buffers:
    """The buffers of one case, laid out in place or apart, on the host or on the GPU; refilled before each call."""

    def __init__(self, case: Case, inputs: Sequence[NDArray[Any] | None], group: LocalGroup) -> None:
        self._case = case
        self._pristine = inputs
        self._on_cuda = group.backend == "cuda"
        self._devices = group.devices(case.collective.name) or [0] * len(inputs)
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        for index, pristine in enumerate(inputs):
            self._add(index, pristine)

    def _add(self, index: int, pristine: NDArray[Any] | None) -> None:
        case = self._case
        collective = case.collective
        storage = dtypes.named(case.dtype).storage
        if case.counts is not None:
            column = sum(row[collective.positions[index]] for row in case.counts)
            self.inputs.append(self._new(0 if pristine is None else len(pristine), storage, index))
            self.outputs.append(self._new(column, storage, index))
            return
        source, target = buffers_of(
            collective, index, case.count, case.in_place, lambda length: self._new(length, storage, index)
        )
        self.inputs.append(source)
        self.outputs.append(target)

    def _new(self, length: int, storage: np.dtype[Any], index: int) -> Any:
        if not self._on_cuda:
            return np.empty(length, storage)
        return cuda_memory.empty(length, storage, self._devices[index])

    def fill(self) -> None:
        """Poison the outputs, then write the inputs (which may lie in them)."""
        for target in self.outputs:
            if target is not None:
                with self._device_of(target):
                    target.view(np.uint8)[:] = POISON
        for source, pristine in zip(self.inputs, self._pristine, strict=True):
            if source is not None and pristine is not None:
                copy_in(source, pristine)

    def _device_of(self, array: Any) -> AbstractContextManager[Any]:
        device: AbstractContextManager[Any] = array.device if self._on_cuda else nullcontext()
        return device

    def host_outputs(self) -> list[NDArray[Any] | None]:
        """Return the outputs as NumPy arrays."""
        return [None if x is None else self._on_host(x) for x in self.outputs]

    def _on_host(self, array: Any) -> NDArray[Any]:
        host: NDArray[Any] = array.get() if self._on_cuda else array
        return host

    def damaged_input(self) -> str:
        """Return which rank's input an out-of-place call wrote to; "" if none."""
        if self._case.in_place:
            return ""
        for rank, source, pristine in zip(self._case.collective.ranks, self.inputs, self._pristine, strict=True):
            if source is None or pristine is None:
                continue
            if not np.array_equal(self._on_host(source).view(np.uint8), pristine.view(np.uint8)):
                return f"rank {rank}'s input was written to"
        return ""
