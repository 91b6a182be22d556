"""What a call needs natively: the kernel of its type and operator, the schedule's memory, slices. Made once, kept."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acclc_runtime.backends.cpu import KERNEL_FLAGS, load_library
from acclc_runtime.backends.kernel_file import Instance, counters_at, kernel_path, kernel_text
from acclc_runtime.counts import Matrix, digest, lengths_of
from acclc_runtime.dtypes import DTYPES, OPERATORS, named
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import Manifest, ManifestCollective, ManifestVariant
from acclc_runtime.memory.native import EITHER, NativeCall, NativeComm, PlanOptions, ScheduleOptions
from acclc_runtime.memory.tables import Tables, slot_bytes_at_most
from acclc_runtime.slicing import plan_slices, slice_bytes_of

DTYPE_NAMES = tuple(DTYPES)
OP_NAMES = ("", *OPERATORS)
_MOST_PLANS = 1024
ROWS = 2**32 - 1
"""In place of a variant: the exchange of counts before a call."""
_SMALLEST_STREAM = 8 << 20
_LINE = 64


@dataclass(frozen=True, slots=True)
class CallKey:
    """What a plan is for; indices into the manifest."""

    collective: int
    variant: int
    dtype: str
    op: str | None
    count: int
    in_place: bool
    counts: Matrix | None = None
    """Where they vary; ``count`` is then the largest."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A prepared call: the native plan, and how many bytes it stages at most, of arrays that others have to reach."""

    address: int
    staged_bytes: int
    lengths: Any = None
    """Keeps the table alive that the native plan points to."""


class Plans:
    """Makes and keeps the plans of one rank."""

    def __init__(
        self, artefact: Path, manifest: Manifest, rank: int, tables: Tables, native: NativeComm, slice_bytes: int
    ) -> None:
        self._artefact = artefact
        self._manifest = manifest
        self._rank = rank
        self._tables = tables
        self._native = native
        self._slice_bytes = slice_bytes
        self._streams_from = max(_SMALLEST_STREAM, _last_cache_bytes() // 2)
        self._kernels: dict[tuple[str, Instance], tuple[ctypes.CDLL, int]] = {}
        self._schedules: dict[tuple[int, int], int] = {}
        self._plans: dict[CallKey, Plan] = {}

    def get(self, key: CallKey) -> Plan:
        """Return the plan of a call; builds the kernel if it is new.

        Raises:
            BuildError, DamagedFileError: no kernel.
        """
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= _MOST_PLANS and self._native.forget():
                self._plans.clear()
            found = self._plans[key] = self._make(key)
        return found

    def _make(self, key: CallKey) -> Plan:
        collective = self._manifest.collectives[key.collective]
        variant = collective.variants[key.variant]
        if variant.protocol == "ll":
            raise ArgumentError(
                f"{collective.name}/{variant.id} is by protocol LL, which is for GPUs and the cpu backend of local(): "
                "between processes the same schedule runs by protocol simple; name another variant, or none"
            )
        kernel = self._kernel(collective, variant, Instance.for_type(collective.name, key.dtype, key.op))
        schedule = self._schedule(key.collective, key.variant)
        item = named(key.dtype).item_bytes
        slice_bytes = slice_bytes_of(variant, self._slice_bytes)
        slicing = plan_slices(key.count, item, variant.longest_chunk, variant.channels, slice_bytes)
        n = collective.ranks.index(self._rank)
        output_bytes = collective.output_units[n] * key.count * item
        input_bytes = collective.input_units[n] * key.count * item
        everything = (sum(collective.input_units) + sum(collective.output_units)) * key.count * item
        words, check = None, key.count
        if key.counts is not None:
            lengths = lengths_of(collective, key.counts)
            words, check = lengths.words(), digest(key.counts)
            input_bytes, output_bytes = lengths.inputs[n][-1] * item, lengths.outputs[n][-1] * item
            everything = 2 * sum(lengths.shards) * item
        shared_output = self._rank in variant.written and output_bytes > 0
        shared_input = self._rank in variant.read and input_bytes > 0
        call = NativeCall(
            collective=key.collective,
            variant=key.variant,
            dtype=DTYPE_NAMES.index(key.dtype),
            op=OP_NAMES.index(key.op or ""),
            in_place=int(key.in_place) if collective.input_units[n] and collective.output_units[n] else EITHER,
            count=check,
        )
        options = PlanOptions(
            schedule=schedule,
            kernel=kernel,
            call=call,
            slices=slicing.slices,
            slot_bytes=slot_bytes_at_most(slice_bytes),
            input_bytes=input_bytes,
            output_bytes=output_bytes,
            streaming=int(everything > self._streams_from),
            shared_input=int(shared_input),
            shared_output=int(shared_output),
            holes=int(_has_holes(collective, self._rank, collective.output_units[n])),
            lengths=None if words is None else words.ctypes.data,
            tagged=int(variant.realisation == "eager"),
        )
        lines = [-(-nbytes // _LINE) * _LINE for nbytes in (input_bytes * shared_input, output_bytes * shared_output)]
        return Plan(self._native.plan(options), sum(lines), words)

    def rows(self, c: int, dtype: str) -> Plan:
        """Return the plan by which each rank of a collective learns the counts of all: N words in, N x N out."""
        key = CallKey(c, ROWS, dtype, None, len(self._manifest.collectives[c].ranks), False)
        found = self._plans.get(key)
        if found is None:
            call = NativeCall(
                collective=c, variant=ROWS, dtype=DTYPE_NAMES.index(dtype), in_place=EITHER, count=key.count
            )
            if (c, ROWS) not in self._schedules:
                self._schedules[(c, ROWS)] = self._rows_schedule(c)
            options = PlanOptions(
                schedule=self._schedules[(c, ROWS)], kernel=self._native.rows_kernel(), call=call, slices=1
            )
            found = self._plans[key] = Plan(self._native.plan(options), 0)
        return found

    def _rows_schedule(self, c: int) -> int:
        collective = self._manifest.collectives[c]
        size = len(collective.ranks)
        boards = self._tables.boards[c]
        arrays: list[Any] = [
            (ctypes.c_uint32 * size)(*collective.ranks),
            (ctypes.c_uint64 * size)(*boards),
            (ctypes.c_uint64 * size)(*boards),
        ]
        options = ScheduleOptions(
            members=size,
            position=collective.ranks.index(self._rank),
            group=self._tables.groups.index(collective.ranks),
            numbers=1,
            all_numbers=1,
        )
        for name, values in zip(("ranks", "counters_at", "scratch_at"), arrays, strict=True):
            setattr(options, name, ctypes.addressof(values))
        return self._native.schedule(options)

    def _kernel(self, collective: ManifestCollective, variant: ManifestVariant, instance: Instance) -> int:
        known = self._kernels.get((variant.folder, instance))
        if known is None:
            path = kernel_path(self._artefact, variant)
            text = kernel_text(path, collective, variant)
            library = load_library(path, text, (*KERNEL_FLAGS, *instance.flags))
            address = ctypes.cast(library.accl_thread, ctypes.c_void_p).value
            assert address is not None
            known = self._kernels[(variant.folder, instance)] = (library, address)
        return known[1]

    def _schedule(self, c: int, v: int) -> int:
        known = self._schedules.get((c, v))
        if known is None:
            known = self._schedules[(c, v)] = self._make_schedule(c, v)
        return known

    def _make_schedule(self, c: int, v: int) -> int:
        collective = self._manifest.collectives[c]
        variant = collective.variants[v]
        place = self._tables.places[(c, v)]
        position = collective.ranks.index(self._rank)
        mine = [n for n, block in enumerate(variant.blocks) if block.rank == self._rank]
        here = counters_at(collective, variant)[position]
        size = len(collective.ranks)
        writers = [collective.ranks.index(k.dst if k.kind in ("entry", "credit") else k.src) for k in here]
        related = self._tables.neighbours[self._rank] | {self._rank}
        reachable = [rank in related for rank in collective.ranks]
        arrays: list[Any] = [
            (ctypes.c_uint32 * size)(*collective.ranks),
            (ctypes.c_uint64 * size)(*(at if near else 0 for at, near in zip(place.counters, reachable, strict=True))),
            (ctypes.c_uint64 * size)(*(at if near else 0 for at, near in zip(place.scratch, reachable, strict=True))),
            (ctypes.c_uint32 * max(1, len(writers)))(*writers),
        ]
        options = ScheduleOptions(
            members=size,
            position=position,
            group=self._tables.groups.index(collective.ranks),
            first_number=mine[0] * variant.channels,
            numbers=len(mine) * variant.channels,
            all_numbers=len(variant.blocks) * variant.channels,
            counters=len(writers),
        )
        names = ("ranks", "counters_at", "scratch_at", "writers")
        for name, values in zip(names, arrays, strict=True):
            setattr(options, name, ctypes.addressof(values))
        return self._native.schedule(options)


def _has_holes(collective: ManifestCollective, rank: int, units: int) -> bool:
    """Whether parts of the rank's output belong to nobody (custom collectives)."""
    filled = {unit for shard in collective.shards for where, unit in shard.outputs if where == rank}
    return len(filled) < units


def _last_cache_bytes() -> int:
    """Return the size of the last cache of this core, as Linux knows it; 0 if it does not.

    The C library knows it of some processors only.
    """
    sizes = {}
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, size = int((folder / "level").read_text()), (folder / "size").read_text().strip()
            sizes[level] = int(size.removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
    return sizes[max(sizes)] if sizes else 0


def of_one_rank(collective: ManifestCollective, rank: int) -> ManifestCollective:
    """Return the collective as one rank sees its own buffers: lists a rank have one entry."""
    n = collective.ranks.index(rank)
    return replace(
        collective,
        ranks=(rank,),
        positions=(collective.positions[n],),
        input_units=(collective.input_units[n],),
        output_units=(collective.output_units[n],),
        size_units=collective.size_units,
    )
