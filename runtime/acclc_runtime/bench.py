"""Times the collectives of an artefact as nccl-tests does: what ``acclc bench`` prints.

S, count, algbw and busbw are those of nccl-tests (its doc/PERFORMANCE.md): S is the larger buffer of a rank, algbw is
S over the time, and busbw is algbw times a factor that makes it comparable with the rate of a link.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from acclc_runtime.call_buffers import buffers_of, copy_in
from acclc_runtime.dtypes import f32_to_bf16, named, of_numpy
from acclc_runtime.errors import ArgumentError
from acclc_runtime.loader import load
from acclc_runtime.manifest import Manifest, ManifestCollective
from acclc_runtime.reference import check, random_inputs
from acclc_runtime.selection import of_name, size_bytes, units_of_size

SEED = 1


@dataclass(frozen=True, slots=True)
class Case:
    """One row to time. ``root`` is a global rank, -1 where there is none."""

    collective: str
    variant: str
    dtype: str
    op: str | None
    count: int
    size: int
    root: int

    @property
    def named_dtype(self) -> str | None:
        """The type, where NumPy's does not say it: calls that name a type are checked anew each time."""
        return None if of_numpy(named(self.dtype).storage).name == self.dtype else self.dtype


@dataclass(frozen=True, slots=True)
class Side:
    """Out of place or in place: seconds a call, and wrong elements on all ranks (None: not checked)."""

    seconds: float
    wrong: int | None


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One row. ``in_place`` is None where it is not offered."""

    case: Case
    ranks: int
    kind: str
    out_of_place: Side
    in_place: Side | None

    def algbw(self, side: Side) -> float | None:
        """Bytes a second; None for a row whose check failed."""
        return None if side.wrong or side.seconds <= 0 else self.case.size / side.seconds

    def busbw(self, side: Side) -> float | None:
        """Bytes a second; None for a row whose check failed."""
        rate = self.algbw(side)
        return None if rate is None else rate * bus_factor(self.kind, self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """The row for JSON; rates in bytes a second."""
        sides = {"out_of_place": self.out_of_place, "in_place": self.in_place}
        return {**asdict(self.case), "collective_kind": self.kind, "ranks": self.ranks} | {
            name: None
            if side is None
            else {
                "seconds": side.seconds,
                "algbw": self.algbw(side),
                "busbw": self.busbw(side),
                "wrong": side.wrong,
            }
            for name, side in sides.items()
        }


@dataclass(frozen=True, slots=True)
class Effort:
    """Calls that are timed and calls before them, for each row; whether results are checked."""

    iterations: int = 20
    warm_up: int = 1
    check: bool = True


def bus_factor(kind: str, ranks: int) -> float:
    """Return busbw over algbw of a collective on so many ranks."""
    if kind == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if kind in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0


def cases(
    manifest: Manifest, sizes: Sequence[int], dtype: str, op: str | None, only: str | None, root: int | None
) -> list[Case]:
    """Return the rows: each collective, or the one of ``only`` (NAME or NAME/VARIANT), at each size S in bytes.

    A size is rounded down to whole counts, at least one. ``root`` keeps those of that root.

    Raises:
        ArgumentError: an unknown name, a type that cannot be reduced, or nothing is left.
    """
    kind = named(dtype)
    name, _, variant = (only or "").partition("/")
    chosen = [of_name(manifest, name)] if name else list(manifest.collectives)
    found = []
    for collective in chosen:
        if collective.varying or (root is not None and collective.root not in (None, root)):
            continue
        if collective.reduces and not kind.reducible:
            if name:
                raise ArgumentError(f"elements of type {kind.name} can be moved, but not reduced")
            continue
        operator = (op or collective.op or "sum") if collective.reduces else None
        for size in sizes:
            count = max(1, size // (kind.item_bytes * units_of_size(collective)))
            exact = size_bytes(collective, count, kind.item_bytes)
            here = -1 if collective.root is None else collective.root
            found.append(Case(collective.name, variant, kind.name, operator, count, exact, here))
    if not found:
        raise ArgumentError(f"{manifest.name}: nothing to time of that type and root")
    return list(dict.fromkeys(found))


def bench(artefact: Path, transport: str, wanted: Sequence[Case], effort: Effort) -> Iterator[BenchRow]:
    """Time each case and yield its row.

    ``transport``: memory is a process a rank (their average time, as nccl-tests); mpi the same where every rank of an
    MPI job calls this, and each gets all rows; cpu, cuda, numpy a local group.

    Raises:
        AcclcRuntimeError: a call failed.
    """
    manifest = load(artefact).manifest
    if transport == "memory":
        from acclc_runtime.memory.spawn import spawn
        from acclc_runtime.memory.tables import world_of

        world = world_of(manifest)
        answers = spawn(_run_rank, world, artefact, (list(wanted), effort))
        for number, case in enumerate(wanted):
            collective = of_name(manifest, case.collective)
            yield _row(case, collective, [a[number] for a in answers if a[number] is not None])
        return
    if transport == "mpi":
        yield from _bench_on_mpi(artefact, manifest, wanted, effort)
        return
    with load(artefact).local(transport, fallback=False) as group:
        for case in wanted:
            collective = of_name(manifest, case.collective)
            yield _row(case, collective, [_run_group(group, collective, case, effort)])


def _bench_on_mpi(artefact: Path, manifest: Manifest, wanted: Sequence[Case], effort: Effort) -> Iterator[BenchRow]:
    from acclc_runtime.engines.mpi.join import import_mpi

    everyone = import_mpi().COMM_WORLD
    with load(artefact).join("mpi", "mpi") as comm:
        for case in wanted:
            everyone.Barrier()
            (mine,) = _run_rank(comm, [case], effort)
            told = [answer for answer in everyone.allgather(mine) if answer is not None]
            yield _row(case, of_name(manifest, case.collective), told)


Spans = tuple[Side, Side | None]


def _row(case: Case, collective: ManifestCollective, answers: list[Spans]) -> BenchRow:
    def gathered(sides: list[Side]) -> Side:
        wrong = None if sides[0].wrong is None else sum(s.wrong or 0 for s in sides)
        return Side(sum(s.seconds for s in sides) / len(sides), wrong)

    apart = gathered([a for a, _ in answers])
    inside = [b for _, b in answers if b is not None]
    here = gathered(inside) if len(inside) == len(answers) else None
    return BenchRow(case, len(collective.ranks), collective.collective, apart, here)


def _run_rank(comm: Any, wanted: list[Case], effort: Effort) -> list[Spans | None]:
    """What one rank of a communicator does; None for collectives it takes no part in."""
    answers: list[Spans | None] = []
    for case in wanted:
        collective = of_name(comm.manifest, case.collective)
        if comm.rank not in collective.ranks:
            answers.append(None)
            continue
        n = collective.ranks.index(comm.rank)
        inputs = random_inputs(collective, case.count, case.dtype, SEED, op=case.op) if effort.check else None
        sides: list[Side | None] = []
        for in_place in (False, True):
            if in_place and collective.in_place == "none":
                sides.append(None)
                continue
            x, out = _buffers(collective, case, n, in_place, comm.empty)
            if x is None and out is None:
                x = comm.empty(case.count, named(case.dtype).storage)  # tells the size where data only pass through

            def call(x: Any = x, out: Any = out, case: Case = case) -> None:
                comm.collective(case.collective, x, out, case.op, variant=case.variant or None, dtype=case.named_dtype)

            seconds = timed(call, effort.iterations, effort.warm_up)
            wrong = None
            if inputs is not None:
                own = inputs[n]
                if own is not None:
                    copy_in(x, own)
                call()
                outs = [out if i == n else None for i in range(len(collective.ranks))]
                wrong = check(collective, inputs, outs, case.count, case.dtype, case.op, limit=0, only=n).wrong
            sides.append(Side(seconds, wrong))
        assert sides[0] is not None
        answers.append((sides[0], sides[1]))
    return answers


def _run_group(group: Any, collective: ManifestCollective, case: Case, effort: Effort) -> Spans:
    from acclc_runtime.backends import cuda_memory

    on_cuda = group.backend == "cuda"
    devices = group.devices(collective.name) or [0] * len(collective.ranks)
    inputs = random_inputs(collective, case.count, case.dtype, SEED, op=case.op)
    sides: list[Side | None] = []
    for in_place in (False, True):
        if in_place and collective.in_place == "none":
            sides.append(None)
            continue

        makers = [partial(cuda_memory.empty, device=device) if on_cuda else np.empty for device in devices]
        pairs = [_buffers(collective, case, n, in_place, make) for n, make in enumerate(makers)]
        xs, outs = [x for x, _ in pairs], [out for _, out in pairs]

        def call(xs: list[Any] = xs, outs: list[Any] = outs) -> None:
            group.collective(case.collective, xs, outs, case.op, variant=case.variant or None, dtype=case.named_dtype)

        seconds = timed(call, effort.iterations, effort.warm_up)
        wrong = None
        if effort.check:
            for x, values in zip(xs, inputs, strict=True):
                if values is not None:
                    copy_in(x, values)
            call()
            host = [out.get() if on_cuda and out is not None else out for out in outs]
            wrong = check(collective, inputs, host, case.count, case.dtype, case.op, limit=0).wrong
        sides.append(Side(seconds, wrong))
    assert sides[0] is not None
    return sides[0], sides[1]


def _buffers(
    collective: ManifestCollective, case: Case, n: int, in_place: bool, make: Callable[[int, Any], Any]
) -> tuple[Any, Any]:
    """Return a rank's input and output, of ones; None where it has none.

    Not of zeros: some processors write those to memory in half the time of anything else.
    """
    storage = named(case.dtype).storage
    one = f32_to_bf16(np.ones(1, np.float32))[0] if case.dtype == "bf16" else 1
    x, out = buffers_of(collective, n, case.count, in_place, lambda length: make(length, storage))
    for array in (x, out):
        if array is not None:
            array.fill(one)
    return x, out


def timed(call: Callable[[], None], iterations: int, warm_up: int) -> float:
    """Return the seconds a call; one that builds the kernel, and ``warm_up`` more, come before."""
    for _ in range(1 + warm_up):
        call()
    begin = time.perf_counter()
    for _ in range(iterations):
        call()
    return (time.perf_counter() - begin) / iterations
