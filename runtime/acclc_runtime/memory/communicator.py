"""A communicator: one rank of an artefact's collectives; the other ranks are other processes of this machine."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from acclc_runtime.arguments import CheckedCall
from acclc_runtime.dtypes import named
from acclc_runtime.errors import ArgumentError, CommunicatorClosedError
from acclc_runtime.manifest import ManifestCollective, ManifestVariant
from acclc_runtime.memory.failures import ABORT_WORDS, World, explain
from acclc_runtime.memory.heap import Heap
from acclc_runtime.memory.native import DONE, NO_MEMORY, NO_STAGING, NativeComm
from acclc_runtime.memory.plans import CallKey, Plan, Plans, of_one_rank
from acclc_runtime.memory.short_ways import METHODS, said
from acclc_runtime.memory.varying_calls import VaryingCalls, addresses_of
from acclc_runtime.memory.worker import Handle, Worker
from acclc_runtime.selection import format_bytes, size_bytes
from acclc_runtime.settings import debug_enabled, say_once
from acclc_runtime.tuning import Choices

_CLOSING_S = 0.001

Way = tuple[int, list[Any]]
"""What a call says but for its arrays: see :func:`acclc_runtime.memory.short_ways.said`."""


class Communicator(VaryingCalls):
    """One rank; made by ``Artefact.join``; a context manager. ``empty`` gives arrays that others write directly.

    Every method takes this rank's arrays and returns its output (None where it has none). ``out=None`` allocates;
    ``out`` that is the input (or holds it, see ``in_place_view``) makes the call in place. ``op=None`` is the
    operator that the source names, else sum. All ranks of the collective's group must make the same calls in the
    same order. Calls of several threads run one after the other; with ``async_op=True`` a thread of the
    communicator makes the call, and a handle is returned. After an error of a call the communicator is closed.

    Raises:
        ArgumentError: a call does not fit; nothing has moved, and the communicator can be used.
        MismatchError: the ranks do not call the same.
        CollectiveTimeoutError: no progress, or not all ranks began the call in time.
        RankFailedError: another rank died, closed its communicator or gave up.
        CommunicatorClosedError: this communicator is closed.
    """

    def __init__(
        self, world: World, native: NativeComm, heap: Heap, plans: Plans, choices: Choices, cores: int
    ) -> None:
        self._world = world
        self._manifest = world.manifest
        self._short = native.calls
        """By which the short ways know the calls of this communicator; 0: by nothing."""
        self._native: NativeComm | None = native
        self._heap = heap
        self._plans = plans
        self._choices = choices
        self._cores = cores
        self._lock = threading.RLock()
        """Held while a call runs."""
        self._order = threading.Lock()
        """Held while it is decided where a call runs."""
        self._debug = debug_enabled()
        self._said: set[str] = set()
        self._why_closed = ""
        self._staging: tuple[int, int] | None = None
        self._pending = 0
        self._worker: Worker | None = None
        self._families: dict[tuple[str, str | None, str | None, str | None], int] = {}
        self._own = {c.name: of_one_rank(c, world.rank) for c in self._manifest.collectives if world.rank in c.ranks}
        _ALIVE.add(self)

    @property
    def rank(self) -> int:
        """This rank."""
        return self._world.rank

    @property
    def world(self) -> int:
        """The number of ranks."""
        return len(self._world.pids)

    def close(self) -> None:
        """End the communicator; the memory is freed with the last array of ``empty``. Others in a call get an error."""
        self._close("this communicator is closed; make another by join")

    def abort(self) -> None:
        """Make the calls of all ranks end with an error, on whatever thread; the communicators cannot be used then."""
        self.give_up("failed", f"rank {self.rank} {ABORT_WORDS}")

    def give_up(self, kind: str, why: str) -> None:
        """Abort, as an error of a ``kind`` (mismatch, timeout, failed), in the words ``why``."""
        native = self._native
        if native is not None:
            native.say(f"{kind}:{why}")
            native.abort()

    @property
    def closed(self) -> bool:
        """Whether it is closed: by ``close``, or because a call failed."""
        return self._native is None

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
        """Return a NumPy array, uninitialised, in memory that the other ranks reach: as output it needs no copy.

        ``dtype`` is NumPy's, or a name of acclc (bf16 gives uint16).

        Raises:
            AcclcRuntimeError: there is not so much memory.
        """
        self._check_open()
        storage = named(dtype).storage if isinstance(dtype, str) else np.dtype(dtype)
        return self._heap.array((shape,) if isinstance(shape, int) else tuple(shape), storage)

    def describe(self, nbytes: int | None = None) -> str:
        """Return in words what runs, and for a size S in bytes which variant of each collective, and why."""
        world, manifest = self._world, self._manifest
        waits = "spin" if self.world <= self._cores else "yield, then sleep"
        lines = [
            f"{manifest.name} on memory shared by {self.world} processes: this is rank {world.rank}; protocol simple",
            f"{self._cores} cores for {self.world} ranks: waits {waits}",
            f"a wait without progress ends after {world.timeout_s:g} s, one for ranks that have not begun the call "
            f"after {world.entry_timeout_s:g} s",
        ]
        for collective in manifest.collectives if nbytes is not None else ():
            head = f"{collective.name}, {format_bytes(nbytes or 0)}"
            try:
                variant, reason = self._choices.choose(collective, nbytes or 0)
            except ArgumentError as error:
                lines.append(f"{head}: {error}")
                continue
            reached = (("input", variant.read), ("output", variant.written))
            staged = " and ".join(what for what, ranks in reached if world.rank in ranks)
            staged = f"an array that is not of empty() is staged as {staged}" if staged else (
                "all arrays are used where they are")  # fmt: skip
            lines.append(f"{head}: variant {variant.id} ({variant.strategy}): {reason}; {staged}")
        return "\n".join(lines)

    def _way(self, method: str, **words: Any) -> Way | None:
        return said(method, **words) if method in METHODS else None

    def _begin(
        self,
        collective: ManifestCollective,
        x: Any,
        out: Any,
        op: str | None,
        async_op: bool,
        variant: str | None,
        dtype: str | None,
        told: Mapping[str, Any],
        way: Way | None,
    ) -> Any:
        """Run a call here, or where calls wait on the thread that makes them, so that they keep their order."""
        self._check_open()
        self._check_member(collective)
        given = self._told(collective, told)

        def run() -> Any:
            if given is not None:
                return self._run_varying(collective, x, out, given, op, variant, dtype)
            return self._run(collective, x, out, op, variant, dtype, way)

        handle = None
        with self._order:
            if async_op or self._pending:
                if self._worker is None:
                    self._worker = Worker(f"acclc rank {self.rank}")
                self._pending += 1
                self._opened().forget_ways()  # calls from here on have to queue up
                handle = Handle(self._worker.submit(run, self._ended))
        if handle is None:
            return run()
        return handle if async_op else handle.wait()

    def _ended(self) -> None:
        with self._order:
            self._pending -= 1

    def _run(
        self,
        collective: ManifestCollective,
        x: Any,
        out: Any,
        op: str | None,
        variant_name: str | None,
        dtype: str | None,
        way: Way | None,
    ) -> Any:
        own = self._own[collective.name]
        checked = self._checked(collective, x, out, op, dtype)
        count, item = checked.count, checked.dtype.item_bytes
        nbytes = size_bytes(collective, count, item)
        variant, reason = self._choices.take(collective, variant_name, nbytes)
        if self._debug:
            self._say_once(collective, variant, reason, checked, nbytes)
        index = self._manifest.collectives.index(collective)
        key = CallKey(
            index, collective.variants.index(variant), checked.dtype.name, checked.op, count, checked.in_place
        )
        addresses = addresses_of(checked)
        with self._lock:
            native = self._opened()
            plan = self._plans.get(key)
            if way is not None:
                self._prepare(native, own, key, (collective.name, checked.op, variant_name, dtype), way, (x, out), plan)
            status = self._execute(native, plan, addresses)
        if status != DONE:
            raise self._failure(native, status)
        return checked.results[0]

    def _opened(self) -> NativeComm:
        self._check_open()
        assert self._native is not None
        return self._native

    def _execute(self, native: NativeComm, plan: Plan, addresses: tuple[int, int]) -> int:
        try:
            status = native.run(plan.address, *addresses)
            if status == NO_STAGING:
                self._grow_staging(native, plan.staged_bytes)
                status = native.run(plan.address, *addresses)
        except BaseException as error:  # Ctrl-C, or what a signal's handler raises
            cause = native.cause()
            if cause.reason:
                self._close(
                    f"a call on this communicator was interrupted ({type(error).__name__}); make another by join"
                )
            raise
        return status

    def _prepare(
        self,
        native: NativeComm,
        own: ManifestCollective,
        key: CallKey,
        what: tuple[str, str | None, str | None, str | None],
        way: Way,
        given: tuple[Any, Any],
        plan: Plan,
    ) -> None:
        """Let calls like this one take the short way: on NumPy arrays of a one-letter type.

        ``what``: collective, operator, variant and type that the call names; ``given``: input and output.
        """
        reads, writes = own.input_units[0] > 0, own.output_units[0] > 0
        source = given[0] if reads or not writes else None  # a rank that has neither is told the size by an array
        target = given[1] if writes else None
        arrays = [a for a in (source, target) if a is not None]
        if len(arrays) != (1 if writes != reads else 1 + reads) or not all(isinstance(a, np.ndarray) for a in arrays):
            return
        letter = arrays[-1].dtype.char if arrays[-1].dtype.kind in "fiub" and arrays[-1].dtype.isnative else ""
        if len(letter) != 1:
            return
        family = self._families.get(what)
        if family is None:
            units = own.input_units[0], own.output_units[0]
            family = self._families[what] = native.family(own.in_place, own.positions[0], *units)
        with self._order:
            if self._pending == 0:
                native.way(*way, family)
        sizes = (0 if source is None else source.nbytes, 0 if target is None else target.nbytes)
        native.prepare(family, letter, sizes, key.in_place, plan.address)

    def _grow_staging(self, native: NativeComm, nbytes: int) -> None:
        size = 1 << max(16, (nbytes - 1).bit_length())
        if self._staging is not None:
            self._heap.release(*self._staging)
            self._staging = None
            native.staging(0, 0)
        offset, _ = self._heap.allocate(size)
        self._staging = (offset, size)
        native.staging(offset, size)

    def _failure(self, native: NativeComm, status: int) -> Exception:
        """Return the error of a call that failed: of this one, or of one that took the short way before it."""
        if status == NO_MEMORY:
            return MemoryError("no memory for the blocks of a rank")
        cause = native.cause()
        if cause.reason == 0:
            self._close("this communicator is closed; make another by join")
            return CommunicatorClosedError(self._why_closed)
        error = explain(self._world, native, cause, native.reports())
        self._close(f"this communicator is closed, because a call failed: {error.args[0].partition(';')[0]}")
        return error

    def _close(self, why: str) -> None:
        with self._lock:
            native, self._native = self._native, None
            if native is None:
                return
            self._why_closed = why
            self._short = 0
            native.close()
        while native.running:  # a thread that is on its way out
            time.sleep(_CLOSING_S)
        if self._worker is not None:
            self._worker.close()

    def _check_open(self) -> None:
        if self._native is None:
            raise CommunicatorClosedError(self._why_closed)

    def _after_fork(self) -> None:
        """Close it in a child: the parent is this rank."""
        native, self._native = self._native, None
        self._why_closed = f"this communicator belongs to process {os.getppid()}; a forked child must join by itself"
        self._lock, self._order = threading.RLock(), threading.Lock()
        self._short = 0
        if native is not None:
            native.disable()

    def _say_once(
        self, collective: ManifestCollective, variant: ManifestVariant, reason: str, checked: CheckedCall, nbytes: int
    ) -> None:
        where = f"variant {variant.id} on shared memory, protocol simple: {reason}"
        say_once(self._said, f"rank {self.rank}: {collective.name}: {checked.words(nbytes)}: {where}")


_ALIVE: weakref.WeakSet[Communicator] = weakref.WeakSet()


def _forked() -> None:
    for communicator in list(_ALIVE):
        communicator._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
