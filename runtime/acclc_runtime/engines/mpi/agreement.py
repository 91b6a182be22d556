"""That all ranks of a group make the same call: each says what it calls, while the data are on their way."""

from __future__ import annotations

from typing import Any

import numpy as np

from acclc_runtime.engines.mpi.endpoints import Alarm, give_up
from acclc_runtime.errors import MismatchError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.failures import call_in_words
from acclc_runtime.memory.native import NativeCall
from acclc_runtime.memory.plans import DTYPE_NAMES, OP_NAMES

WORDS = 6


def words_of(sequence: int, collective: int, variant: int, dtype: str, op: str | None, count: int) -> list[int]:
    """Return a call as numbers: what must be the same on all ranks."""
    return [sequence, collective, variant, DTYPE_NAMES.index(dtype), OP_NAMES.index(op or ""), count]


class Agreement:
    """One call's exchange; ``row`` are counts that go with it (of an all_to_all_v)."""

    def __init__(self, comm: Any, words: list[int], row: tuple[int, ...] = ()) -> None:
        self._mine = np.asarray((*words, *row), np.int64)
        self._all = np.empty((comm.Get_size(), len(self._mine)), np.int64)
        self._request = comm.Iallgather(self._mine, self._all)
        self._ended = False

    @property
    def words(self) -> list[int]:
        """What this rank says."""
        return [int(word) for word in self._mine[:WORDS]]

    def ended(self) -> bool:
        """Whether all have said what they call."""
        if not self._ended:
            self._ended = bool(self._request.Test())
        return self._ended

    def give_up(self) -> None:
        """Leave the exchange behind, after an error."""
        if not self._ended:
            give_up(self._request, receives=False)

    def rows(self) -> list[list[int]]:
        """Return the counts of each rank, when it has ended."""
        found: list[list[int]] = self._all[:, WORDS:].tolist()
        return found

    def check(self, manifest: Manifest, ranks: tuple[int, ...], rank: int, alarm: Alarm) -> None:
        """See that all said the same, when it has ended.

        Raises:
            MismatchError: they did not; names the first rank that differs from this one. On every rank.
        """
        for other, words in zip(ranks, self._all[:, :WORDS].tolist(), strict=True):
            if words != self.words:
                alarm.hush()
                theirs, mine = _in_words(manifest, words), _in_words(manifest, self.words)
                raise MismatchError(
                    f"the ranks do not call the same: rank {other} calls {theirs}, as call {words[0]} of its group; "
                    f"rank {rank} calls {mine}, as call {self.words[0]}; the communicator is closed, another can be "
                    "made by join"
                )


def _in_words(manifest: Manifest, words: list[int]) -> str:
    sequence, collective, variant, dtype, op, count = words
    call = NativeCall(sequence=sequence, collective=collective, variant=variant, dtype=dtype, op=op, count=count)
    return call_in_words(manifest, call)
