"""Why a call of a communicator failed, in words, and as which exception."""

from __future__ import annotations

import time
from dataclasses import dataclass

from acclc_runtime.backends.kernel_file import Report, failure
from acclc_runtime.errors import (
    AcclcRuntimeError,
    CollectiveTimeoutError,
    MismatchError,
    RankFailedError,
)
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.native import (
    ABORTED,
    CLOSED,
    DIED,
    ENTRY_TIMED_OUT,
    INTERRUPTED,
    MISMATCH,
    NO_MEMORY,
    TIMED_OUT,
    Cause,
    NativeCall,
    NativeComm,
)
from acclc_runtime.memory.plans import DTYPE_NAMES, OP_NAMES, ROWS

_PATIENCE_S = 2.0
"""For the words of a rank that gave up: it is about to write them."""

_AFTER = "the communicator is closed, another can be made by join"

ABORT_WORDS = "called abort()"

_KINDS: dict[str, type[AcclcRuntimeError]] = {
    "mismatch": MismatchError,
    "timeout": CollectiveTimeoutError,
    "failed": RankFailedError,
}


@dataclass(frozen=True, slots=True)
class World:
    """What messages need: who the ranks are (process ids; 0: on another host) and what the calls' numbers mean."""

    manifest: Manifest
    rank: int
    pids: tuple[int, ...]
    timeout_s: float
    entry_timeout_s: float


def explain(world: World, native: NativeComm, cause: Cause, reports: list[Report]) -> AcclcRuntimeError:
    """Return the error of a failed call, and tell the other ranks, unless they told this one."""
    if cause.reason == ABORTED and cause.rank != world.rank:
        return _heard(world, native, cause)
    kind, text, waits = _words(world, cause, reports)
    native.say(f"{kind}:{text}{waits}")
    return _KINDS[kind](f"{text}; {_AFTER}{waits}")


def call_in_words(manifest: Manifest, call: NativeCall) -> str:
    """Return what a rank called: ``all_reduce(100 x f32, sum), variant c1s1r1``."""
    try:
        collective = manifest.collectives[call.collective]
        if call.variant == ROWS:
            return f"{collective.name}(counts of all ranks, for {DTYPE_NAMES[call.dtype]})"
        variant = collective.variants[call.variant].id
        op = f", {OP_NAMES[call.op]}" if call.op else ""
        place = ", in place" if call.in_place == 1 else ""
        count = f"counts #{call.count:x}" if collective.varying else f"count {call.count}"
        return f"{collective.name}({count} of {DTYPE_NAMES[call.dtype]}{op}{place}), variant {variant}"
    except IndexError:
        return "something unknown"


def _words(world: World, cause: Cause, reports: list[Report]) -> tuple[str, str, str]:
    """Return the kind of error, a sentence, and lines on what the blocks of this rank wait for."""
    me = world.rank
    mine = call_in_words(world.manifest, cause.mine)
    collective = world.manifest.collectives[cause.mine.collective]
    where = f"rank {me} in {mine}, call {cause.mine.sequence} of its group"
    blocks = ""
    if reports:  # none of an exchange of counts, which is no variant
        variant = collective.variants[cause.mine.variant]
        blocks = str(failure(collective, variant, reports, world.timeout_s)).partition("\n")[2]
    waits = f"\n{blocks}" if blocks else ""
    if cause.reason == MISMATCH:
        return "mismatch", (
            f"the ranks do not call the same: rank {cause.rank} calls {call_in_words(world.manifest, cause.theirs)}, "
            f"as call {cause.theirs.sequence} of its group; {where}"
        ), ""  # fmt: skip
    if cause.reason == DIED:
        pid = world.pids[cause.rank]
        return (
            "failed",
            f"the process of rank {cause.rank} (pid {pid}) ended while others waited for it; {where}",
            waits,
        )
    if cause.reason == CLOSED:
        return "failed", f"rank {cause.rank} closed its communicator while others waited for it; {where}", waits
    if cause.reason == TIMED_OUT:
        limit = f"no progress for {world.timeout_s:g} s (timeout_s or ACCLC_TIMEOUT sets the limit)"
        return "timeout", f"{where}: {limit}{_stopped(world)}", waits
    if cause.reason == ENTRY_TIMED_OUT:
        limit = f"within {world.entry_timeout_s:g} s (entry_timeout_s or ACCLC_ENTRY_TIMEOUT sets the limit)"
        return "timeout", f"{where}: not all ranks began this call {limit}{_stopped(world)}", waits
    if cause.reason == INTERRUPTED:
        return "failed", f"rank {me} was interrupted; {where}", ""
    if cause.reason == ABORTED:
        return "failed", f"rank {me} {ABORT_WORDS}; {where}", ""
    if cause.reason == NO_MEMORY:
        return "failed", f"rank {me} cannot map the memory of rank {cause.rank}: not enough memory; {where}", ""
    return "failed", f"{where} failed", waits


def _heard(world: World, native: NativeComm, cause: Cause) -> AcclcRuntimeError:
    ends = time.monotonic() + _PATIENCE_S
    words = native.heard(cause.rank)
    while not words and time.monotonic() < ends:
        time.sleep(0.005)
        words = native.heard(cause.rank)
    kind, _, text = words.partition(":")
    where = f"rank {world.rank} in {call_in_words(world.manifest, cause.mine)}"
    first, _, waits = text.partition("\n")
    told = f"rank {cause.rank} gave up: {first or 'it did not say why'}; {where}; {_AFTER}"
    return _KINDS.get(kind, RankFailedError)(f"{told}\n{waits}" if waits else told)


def _stopped(world: World) -> str:
    """Name the ranks whose processes are stopped (SIGSTOP, a debugger)."""
    stopped = [rank for rank, pid in enumerate(world.pids) if rank != world.rank and _state(pid) in ("T", "t")]
    if not stopped:
        return ""
    return "; stopped: " + ", ".join(f"rank {rank} (pid {world.pids[rank]})" for rank in stopped)


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
