"""How a rank waits for others, and when it gives up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from acclc_runtime.engines.mpi.agreement import Agreement
from acclc_runtime.engines.mpi.world import MpiWorld
from acclc_runtime.errors import (
    AcclcRuntimeError,
    CollectiveTimeoutError,
    MismatchError,
    RankFailedError,
)
from acclc_runtime.manifest import ManifestCollective

_YIELDS = 400
_YIELDS_WHERE_CROWDED = 3
_SHORTEST_PAUSE_S = 2e-5
_LONGEST_PAUSE_S = 1e-3
_LOOK_EVERY = 64
KINDS: dict[str, type[AcclcRuntimeError]] = {
    "mismatch": MismatchError,
    "timeout": CollectiveTimeoutError,
    "failed": RankFailedError,
}
"""Errors that ranks tell each other of, by name."""

AFTER = "the communicator is closed, another can be made by join"


class Watch:
    """Gives way to other ranks while nothing goes on, and looks for their failures and the time.

    ``waits`` says what the rank waits for, for the error.
    """

    def __init__(
        self, world: MpiWorld, agreement: Agreement, collective: ManifestCollective, waits: Callable[[], list[str]]
    ) -> None:
        self._world, self._agreement, self._collective, self._waits = world, agreement, collective, waits
        self._idle = 0
        self._since = 0.0

    def idle(self, moved: bool) -> None:
        """Take note of a round of work; pause where nothing went on.

        Raises:
            MismatchError, RankFailedError: of other ranks.
            CollectiveTimeoutError: nothing has gone on for too long.
        """
        if moved:
            self._idle = 0
            return
        if self._idle == 0:
            self._since = time.monotonic()
        self._idle += 1
        self._agreement.ended()  # lets MPI go on with it
        if self._idle % _LOOK_EVERY == 0:
            self._look()
        slept = self._idle - (_YIELDS_WHERE_CROWDED if self._world.crowded else _YIELDS)
        if slept < 0:
            os.sched_yield()
        else:
            time.sleep(min(_LONGEST_PAUSE_S, _SHORTEST_PAUSE_S * (1 + slept // 8)))

    def _look(self) -> None:
        world, name = self._world, self._collective.name
        heard = world.alarm.heard()
        if heard is not None:
            other, kind, words = heard
            told = words.partition(f"; {AFTER}")[0]
            raise KINDS.get(kind, RankFailedError)(
                f"rank {other} gave up: {told}; rank {world.rank} in {name}; {AFTER}"
            )
        all_here = self._agreement.ended()
        if all_here:
            self._agreement.check(world.manifest, self._collective.ranks, world.rank, world.alarm)
        limit = world.timeout_s if all_here else world.entry_timeout_s
        if time.monotonic() - self._since < limit:
            return
        waits = "".join(f"\n  {line}" for line in self._waits()[:20])
        what = (
            f"no progress for {limit:g} s (timeout_s or ACCLC_TIMEOUT sets the limit)"
            if all_here
            else f"not all ranks began this call within {limit:g} s (entry_timeout_s or ACCLC_ENTRY_TIMEOUT sets the "
            "limit)"
        )
        raise CollectiveTimeoutError(f"rank {world.rank} in {name}: {what}; {AFTER}{waits and '; it waits for'}{waits}")
