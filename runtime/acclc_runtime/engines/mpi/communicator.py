"""A communicator whose ranks are those of an MPI job, on one host or many."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np

from acclc_runtime.arguments import CheckedCall
from acclc_runtime.backends.program_checks import check_program
from acclc_runtime.counts import Matrix, lengths_of
from acclc_runtime.dtypes import named
from acclc_runtime.engines.mpi.agreement import Agreement, words_of
from acclc_runtime.engines.mpi.execution import Execution, Links, OddMessageError, Plan, Work
from acclc_runtime.engines.mpi.watch import AFTER, KINDS, Watch
from acclc_runtime.engines.mpi.world import MpiWorld
from acclc_runtime.engines.tasks import rank_tasks
from acclc_runtime.errors import (
    ArgumentError,
    CommunicatorClosedError,
    MismatchError,
    RankFailedError,
)
from acclc_runtime.manifest import ManifestCollective, ManifestVariant, read_program
from acclc_runtime.memory.named_calls import NamedCalls
from acclc_runtime.memory.plans import ROWS, of_one_rank
from acclc_runtime.memory.told_counts import ToldCounts
from acclc_runtime.memory.worker import Handle, Worker
from acclc_runtime.partition import ALIGN
from acclc_runtime.program import Program
from acclc_runtime.selection import format_bytes, size_bytes
from acclc_runtime.settings import debug_enabled, say_once
from acclc_runtime.slicing import plan_slices
from acclc_runtime.tuning import Choices
from acclc_runtime.varying import check_own_input, check_varying_call

_MOST_KEPT = 256


class MpiCommunicator(NamedCalls):
    """One rank; made by ``Artefact.join(bootstrap="mpi", transport="mpi")``; a context manager.

    The methods are those of :class:`acclc_runtime.Communicator`. ``rank`` is the rank of the topology, which is MPI's
    unless the topology's hosts demand otherwise. ``close`` is collective. After an error of a call the communicator is
    closed, and the outputs of that call are undefined.

    Raises:
        ArgumentError: a call does not fit; nothing has moved, and the communicator can be used.
        MismatchError: the ranks of a group do not call the same; on all of them.
        CollectiveTimeoutError: no progress, or not all ranks began the call in time.
        RankFailedError: another rank gave up.
        CommunicatorClosedError: this communicator is closed.
    """

    def __init__(self, world: MpiWorld, choices: Choices) -> None:
        self._world = world
        self._manifest = world.manifest
        self._choices = choices
        self._inner = world.inner
        self._inside = set() if world.inner is None else {c.name for c in world.inner.manifest.collectives}
        self._own = {c.name: of_one_rank(c, world.rank) for c in self._manifest.collectives if world.rank in c.ranks}
        self._programs: dict[str, Program] = {}
        self._kept: dict[tuple[Any, ...], Plan] = {}
        self._sequence = dict.fromkeys(world.groups, 0)
        self._lock = threading.RLock()
        self._worker: Worker | None = None
        self._why_closed = ""
        self._debug = debug_enabled()
        self._said: set[str] = set()

    @property
    def rank(self) -> int:
        """This rank, of the topology."""
        return self._world.rank

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self._world.size

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def close(self) -> None:
        """End the communicator, with all other ranks."""
        with self._lock:
            if self._why_closed:
                return
            self._why_closed = "this communicator is closed; make another by join"
            if self._worker is not None:
                self._worker.close()
            world = self._world
            if self._inner is not None:
                self._inner.close()
            world.alarm.close()
            world.window.close()
            for comm in world.communicators:
                comm.Free()

    def abort(self) -> None:
        """Make the calls of all ranks end with an error; the communicators cannot be used then."""
        if self._inner is not None:  # this rank may be in such a call, on another thread
            self._inner.abort()
        with self._lock:
            if not self._why_closed:
                self._give_up("failed", f"rank {self.rank} called abort()")

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
        """Return a NumPy array, uninitialised, that begins on 64 bytes. ``dtype`` is NumPy's, or a name of acclc.

        Ranks of this host reach it: as output of a collective within the host it needs no copy.
        """
        self._check_open()
        if self._inner is not None:
            return self._inner.empty(shape, dtype)
        storage = named(dtype).storage if isinstance(dtype, str) else np.dtype(dtype)
        whole = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = int(np.prod(whole, dtype=np.int64)) * storage.itemsize
        raw = np.empty(nbytes + 64, np.uint8)
        first = -raw.ctypes.data % 64
        made: np.ndarray[Any, Any] = raw[first : first + nbytes].view(storage).reshape(whole)
        return made

    def describe(self, nbytes: int | None = None) -> str:
        """Return in words what runs, and for a size S in bytes which variant of each collective, and why."""
        world = self._world
        lines = [
            f"{self._manifest.name} by MPI ({world.library}): this is rank {world.rank} of {world.size}",
            f"{len(world.near)} other ranks on this host, by shared memory; the others by messages; slices of at most "
            f"{format_bytes(world.slice_bytes)}",
            f"a wait without progress ends after {world.timeout_s:g} s, one for ranks that have not begun the call "
            f"after {world.entry_timeout_s:g} s",
        ]
        if self._inside:
            lines.append(f"within this host, by generated kernels in shared memory: {', '.join(sorted(self._inside))}")
        elif world.why_no_inner:
            lines.append(f"no generated kernels within this host: {world.why_no_inner}")
        for collective in self._manifest.collectives if nbytes is not None else ():
            try:
                variant, reason = self.choice(collective.name, nbytes or 0)
                way = "by kernels" if collective.name in self._inside else "by MPI"
                lines.append(f"{collective.name}, {format_bytes(nbytes or 0)}: variant {variant.id} {way}: {reason}")
            except ArgumentError as error:
                lines.append(f"{collective.name}: {error}")
        return "\n".join(lines)

    def choice(self, name: str, nbytes: int) -> tuple[ManifestVariant, str]:
        """Return the variant that a call of S = ``nbytes`` takes, and why."""
        if self._inner is not None and name in self._inside:
            return self._inner.choice(name, nbytes)
        return super().choice(name, nbytes)

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
        way: Any,
    ) -> Any:
        """Run a call; with ``async_op`` on a thread of its own, if MPI allows that."""
        self._check_open()
        self._check_member(collective)
        inside = collective.name in self._inside
        given = None if inside else self._told(collective, told)

        def run() -> Any:
            with self._lock:
                self._check_open()
                if inside:
                    return self._run_inside(collective.name, x, out, op, variant, dtype, told)
                if given is not None:
                    return self._run_varying(collective, x, out, given, op, variant, dtype)
                return self._run(collective, x, out, op, variant, dtype)

        if not async_op and self._worker is None:
            return run()
        if self._worker is None and self._world.threads:
            self._worker = Worker(f"acclc rank {self.rank}")
        if self._worker is None:
            return _ended(run())
        handle = Handle(self._worker.submit(run, lambda: None))
        return handle if async_op else handle.wait()

    def _run_inside(
        self,
        name: str,
        x: Any,
        out: Any,
        op: str | None,
        variant: str | None,
        dtype: str | None,
        told: Mapping[str, Any],
    ) -> Any:
        """Run a collective whose ranks are all on this host; if that fails, ranks of other hosts are told, too."""
        assert self._inner is not None
        try:
            return self._inner.collective(name, x, out, op, variant, dtype, **told)
        except BaseException as error:
            if self._inner.closed:
                self._fail(error)
            raise

    def _run(
        self,
        collective: ManifestCollective,
        x: Any,
        out: Any,
        op: str | None,
        variant_name: str | None,
        dtype: str | None,
    ) -> Any:
        checked = self._checked(collective, x, out, op, dtype)
        nbytes = size_bytes(collective, checked.count, checked.dtype.item_bytes)
        variant, reason = self._choices.take(collective, variant_name, nbytes)
        if self._debug:
            where = f"variant {variant.id} by MPI: {reason}"
            say_once(self._said, f"rank {self.rank}: {collective.name}: {checked.words(nbytes)}: {where}")
        agreement = self._agree(collective, variant, checked.dtype.name, checked.op, checked.count)
        self._execute(collective, variant, checked, agreement, None)
        return checked.results[0]

    def _run_varying(
        self,
        collective: ManifestCollective,
        x: Any,
        out: Any,
        told: ToldCounts,
        op: str | None,
        variant_name: str | None,
        dtype: str | None,
    ) -> Any:
        """Run a call whose counts vary: the rows of all ranks come first, as they say how long everything is."""
        own = self._own[collective.name]
        position = own.positions[0]
        outs = None if out is None else [out]
        kind = check_own_input(self._manifest, own, x, out, told.row, op, dtype)
        if told.matrix is not None:  # what does not fit is then found before anybody waits
            check_varying_call(self._manifest, own, [x], outs, self._lengths(collective, told.matrix), op, dtype, False)
        agreement = self._agree(collective, None, kind.name, None, len(told.row), told.row)
        try:
            self._wait_for(agreement, collective)
            at = dict(zip(collective.positions, agreement.rows(), strict=True))
            matrix = tuple(tuple(at[p][: len(at)]) for p in range(len(at)))
            objection = told.objection(collective, position, matrix)
            if objection:
                raise MismatchError(f"{objection}; {AFTER}")
            lengths = self._lengths(collective, matrix)
            try:
                checked = check_varying_call(self._manifest, own, [x], outs, lengths, op, dtype, False)
            except ArgumentError as error:  # the others are on their way into the call
                raise MismatchError(f"{error}; {AFTER}") from None
        except BaseException as error:
            agreement.give_up()
            self._fail(error)
            raise
        nbytes = lengths_of(collective, matrix).size * kind.item_bytes
        variant, _ = self._choices.take(collective, variant_name, nbytes)
        self._execute(collective, variant, checked, agreement, matrix)
        return checked.results[0]

    def _agree(
        self,
        collective: ManifestCollective,
        variant: ManifestVariant | None,
        dtype: str,
        op: str | None,
        count: int,
        row: tuple[int, ...] = (),
    ) -> Agreement:
        """Begin to tell the group what this rank calls."""
        group = self._world.groups[collective.ranks]
        self._sequence[collective.ranks] += 1
        index = self._manifest.collectives.index(collective)
        number = ROWS if variant is None else collective.variants.index(variant)
        words = words_of(self._sequence[collective.ranks], index, number, dtype, op, count)
        return Agreement(group.comm, words, (*row, *([0] * (group.row - len(row)))))

    def _execute(
        self,
        collective: ManifestCollective,
        variant: ManifestVariant,
        checked: CheckedCall,
        agreement: Agreement,
        matrix: Matrix | None,
    ) -> None:
        """Move the data; return when all is there and all ranks are known to have called the same.

        Raises:
            AcclcRuntimeError: why not; the communicator is closed then, and the others are told.
        """
        world = self._world
        group = world.groups[collective.ranks]
        number = group.number << 40 | self._sequence[collective.ranks]
        try:
            plan = self._plan(collective, variant, checked, matrix)
            ins, outs = checked.byte_arrays() if any((*checked.inputs, *checked.outputs)) else (_NOTHING, _NOTHING)
            work = Work(plan, number, checked.dtype, checked.op, ins[0], outs[0])
            execution = Execution(work, Links(world.near, world.window.rings, group.messages))
            watch = Watch(world, agreement, collective, execution.waits)
            try:
                execution.run(watch.idle)
            except OddMessageError as error:
                execution.give_up()
                self._wait_for(agreement, collective)  # it tells who calls what
                raise RankFailedError(f"rank {self.rank} in {collective.name}: {error}") from None
            except BaseException:
                execution.give_up()
                raise
            self._wait_for(agreement, collective)
        except BaseException as error:
            agreement.give_up()
            self._fail(error)
            raise

    def _plan(
        self, collective: ManifestCollective, variant: ManifestVariant, checked: CheckedCall, matrix: Matrix | None
    ) -> Plan:
        key = (variant.folder, checked.count, checked.dtype.item_bytes, checked.in_place, matrix)
        found = self._kept.get(key)
        if found is not None:
            return found
        name = f"{variant.folder}/program.json"
        program = self._programs.get(variant.folder)
        if program is None:
            program = read_program(self._world.artefact, variant)
            check_program(program, collective, name)
            self._programs[variant.folder] = program
        item = checked.dtype.item_bytes
        most = self._world.slice_bytes + ALIGN * item  # so that a power of two is not cut once more, for its alignment
        slices = plan_slices(checked.count, item, variant.longest_chunk, 1, most).slices
        lengths = None if matrix is None else lengths_of(collective, matrix)
        tasks = rank_tasks(program, self.rank, checked.count, lengths, slices, checked.in_place, name)
        if tasks.messages * tasks.slices > self._world.largest_tag:
            slices = max(1, self._world.largest_tag // tasks.messages)
            tasks = rank_tasks(program, self.rank, checked.count, lengths, slices, checked.in_place, name)
        found = Plan.of(tasks, item, self._world.near)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = found
        return found

    def _wait_for(self, agreement: Agreement, collective: ManifestCollective) -> None:
        """Wait until all ranks of the group have said what they call, and see that it is the same."""
        watch = Watch(self._world, agreement, collective, list)
        while not agreement.ended():
            watch.idle(False)
        agreement.check(self._manifest, collective.ranks, self.rank, self._world.alarm)

    def _fail(self, error: BaseException) -> None:
        kind = next((k for k, known in KINDS.items() if isinstance(error, known)), "failed")
        self._give_up(kind, str(error) or type(error).__name__)

    def _give_up(self, kind: str, why: str) -> None:
        """Close this end, and tell the others."""
        if self._why_closed:
            return
        self._why_closed = f"this communicator is closed, because a call failed: {why.partition(';')[0]}"
        if self._inner is not None:
            self._inner.give_up(kind, why.partition(f"; {AFTER}")[0])
            if len(self._world.near) + 1 == self._world.size:
                self._world.alarm.hush()  # all have been told
        with contextlib.suppress(Exception):  # MPI may be in no state to tell anybody
            self._world.alarm.ring(kind, why)
            self._world.alarm.close()

    def _check_open(self) -> None:
        if self._why_closed:
            raise CommunicatorClosedError(self._why_closed)


_NOTHING: list[np.ndarray[Any, np.dtype[np.uint8]]] = [np.empty(0, np.uint8)]


def _ended(result: Any) -> Handle:
    future: Future[Any] = Future()
    future.set_result(result)
    return Handle(future)
