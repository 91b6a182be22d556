"""Calls of a communicator whose counts vary: agree on the counts, then run."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from acclc_runtime.arguments import CheckedCall
from acclc_runtime.counts import Matrix, lengths_of
from acclc_runtime.dtypes import DType
from acclc_runtime.errors import ArgumentError, MismatchError
from acclc_runtime.manifest import ManifestCollective, ManifestVariant
from acclc_runtime.memory.named_calls import NamedCalls
from acclc_runtime.memory.native import DONE, NativeComm
from acclc_runtime.memory.plans import CallKey, Plan, Plans
from acclc_runtime.memory.told_counts import ToldCounts
from acclc_runtime.varying import check_own_input, check_varying_call


class VaryingCalls(NamedCalls):
    """The part of a communicator that knows of counts. What is declared here is the communicator's."""

    _plans: Plans
    _lock: AbstractContextManager[Any]
    _debug: bool

    @abstractmethod
    def _opened(self) -> NativeComm:
        """Return what makes calls. Raises CommunicatorClosedError."""

    @abstractmethod
    def _execute(self, native: NativeComm, plan: Plan, addresses: tuple[int, int]) -> int:
        """Make a call; return its status."""

    @abstractmethod
    def _failure(self, native: NativeComm, status: int) -> Exception:
        """Return the error of a call that failed; the communicator is closed then."""

    @abstractmethod
    def _close(self, why: str) -> None:
        """Close the communicator."""

    @abstractmethod
    def _say_once(
        self, collective: ManifestCollective, variant: ManifestVariant, reason: str, checked: CheckedCall, nbytes: int
    ) -> None:
        """Tell what runs, where that was asked for."""

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
        """Run a call whose counts vary: agree on them first, unless all were told the whole and want no check."""
        own = self._own[collective.name]
        outs = None if out is None else [out]
        kind = check_own_input(self._manifest, own, x, out, told.row, op, dtype)
        if told.matrix is not None:  # what does not fit is then found before anybody waits
            check_varying_call(self._manifest, own, [x], outs, self._lengths(collective, told.matrix), op, dtype, False)
        with self._lock:
            native = self._opened()
            matrix = told.matrix
            if matrix is None or told.check:
                matrix = self._exchange(native, collective, told, kind)
            lengths = self._lengths(collective, matrix)
            try:
                checked = check_varying_call(self._manifest, own, [x], outs, lengths, op, dtype, False)
            except ArgumentError as error:  # the others are on their way into the call
                raise self._give_up(native, str(error)) from None
            if checked.count == 0:
                return checked.results[0]
            nbytes = lengths_of(collective, matrix).size * kind.item_bytes
            variant, reason = self._choices.take(collective, variant_name, nbytes)
            if self._debug:
                self._say_once(collective, variant, reason, checked, nbytes)
            index = self._manifest.collectives.index(collective)
            place = collective.variants.index(variant)
            plan = self._plans.get(CallKey(index, place, kind.name, None, checked.count, False, matrix))
            status = self._execute(native, plan, addresses_of(checked))
        if status != DONE:
            raise self._failure(native, status)
        return checked.results[0]

    def _exchange(self, native: NativeComm, collective: ManifestCollective, told: ToldCounts, kind: DType) -> Matrix:
        """Return every rank's own row of counts; an error, on all ranks, where somebody says otherwise."""
        size = len(collective.ranks)
        plan = self._plans.rows(self._manifest.collectives.index(collective), kind.name)
        mine, all_rows = np.asarray(told.row, np.uint64), np.zeros((size, size), np.uint64)
        status = self._execute(native, plan, (mine.ctypes.data, all_rows.ctypes.data))
        if status != DONE:
            raise self._failure(native, status)
        at = dict(zip(collective.positions, all_rows.tolist(), strict=True))
        rows = tuple(tuple(at[position]) for position in range(size))
        objection = told.objection(collective, self._own[collective.name].positions[0], rows)
        if objection:
            raise self._give_up(native, objection)
        return rows

    def _give_up(self, native: NativeComm, why: str) -> MismatchError:
        """Make the calls of all ranks end, and return the error."""
        native.say(f"mismatch:{why}")
        native.abort()
        self._close(f"this communicator is closed, because a call failed: {why}")
        return MismatchError(f"{why}; the communicator is closed, another can be made by join")


def addresses_of(checked: CheckedCall) -> tuple[int, int]:
    """Return where a rank's input and output lie; 0 for what it has not."""
    source, target = checked.inputs[0], checked.outputs[0]
    return 0 if source is None else source.address, 0 if target is None else target.address
