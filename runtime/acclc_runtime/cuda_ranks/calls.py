"""What the ranks call, compared on the host, and what went wrong: of one rank."""

from __future__ import annotations

import select
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclc_runtime.backends.kernel_file import failure
from acclc_runtime.cuda_ranks.board import WINDOW, Board
from acclc_runtime.cuda_ranks.slab import Slab
from acclc_runtime.errors import AcclcRuntimeError, CollectiveTimeoutError, MismatchError, RankFailedError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.plans import DTYPE_NAMES, OP_NAMES
from acclc_runtime.memory.tables import Tables

_KINDS = {"mismatch": MismatchError, "failed": RankFailedError}
_AFTER = "the communicator is closed, another can be made by join"
Call = tuple[int, ...]
"""Indices of collective, variant, type and operator; count; where the input and the output lie: 0 is staged."""


@dataclass(frozen=True, slots=True)
class CudaWorld:
    """All ranks, and what this one has of them. ``slabs``: of each rank, as this process addresses it; 0: unused."""

    artefact: Path
    compiled: Manifest
    manifest: Manifest
    """With the channels that kernels are built with."""
    rank: int
    cupy: Any
    device: int
    slab: Slab
    slabs: tuple[int, ...]
    board: Board
    board_address: int
    """Of the board, as the GPU addresses it."""
    tables: Tables
    slice_bytes: int
    pids: tuple[int, ...]
    processes: tuple[int, ...]
    """A file of each rank's process, which is readable when that has ended; -1: none."""
    on_device: tuple[int, ...]
    """The ranks on this rank's GPU."""
    timeout_s: float


class Calls:
    """The calls of one rank, and what became of them."""

    def __init__(self, world: CudaWorld) -> None:
        self._world = world
        self._sequence: dict[tuple[int, ...], int] = {}
        self._records: dict[tuple[tuple[int, ...], int], Call] = {}
        """What this rank called, of calls that were not compared with all others' yet."""

    def is_full(self, group: tuple[int, ...]) -> bool:
        """Whether this rank is so far ahead that its next record would be written over one that others need."""
        return (group, self._sequence.get(group, 0) + 1 - WINDOW) in self._records

    def tell(self, group: tuple[int, ...], call: Call) -> None:
        """Write what this rank calls, and compare."""
        sequence = self._sequence[group] = self._sequence.get(group, 0) + 1
        self._records[group, sequence] = call
        self._world.board.publish(group, self._world.rank, sequence, call)
        self.compare()

    def look(self) -> None:
        """Compare again, and see whether other ranks have gone."""
        self.compare()
        for rank in range(len(self._world.slabs)):
            self._look_at(rank)

    def let_go(self) -> bool:
        """Whether no other rank maps this one's slab any more."""
        return all(self._has_let_go(rank) for rank in range(len(self._world.slabs)))

    def compare(self) -> None:
        """Compare what was called with what others wrote meanwhile; make all end where it differs."""
        for (group, sequence), call in list(self._records.items()):
            theirs = {
                rank: self._world.board.record(group, rank, sequence) for rank in group if rank != self._world.rank
            }
            for rank, found in theirs.items():
                if found is not None and found[0] == sequence and found[1:] != call:
                    told = f"rank {rank} calls {self._words(found[1:])}, rank {self._world.rank} {self._words(call)}"
                    self.give_up("mismatch", f"the ranks do not call the same, in call {sequence}: {told}")
                    return
            if None in theirs.values():
                continue
            del self._records[group, sequence]

    def _words(self, call: Call) -> str:
        c, v, dtype, op, count, x, out = call
        collective = self._world.manifest.collectives[c]
        places = [f"{what} at {at:#x}" if at else f"{what} staged" for what, at in (("input", x), ("output", out))]
        operator = f", {OP_NAMES[op]}" if op else ""
        name, variant = collective.name, collective.variants[v].id
        return f"{name}({count} of {DTYPE_NAMES[dtype]}{operator}), variant {variant}, {', '.join(places)}"

    def give_up(self, kind: str, why: str) -> None:
        """Make the calls of all ranks end, and say why: ``mismatch`` or ``failed``."""
        self._world.board.say(self._world.rank, f"{kind}:{why}")
        self._world.board.abort()

    def why(self) -> AcclcRuntimeError:
        """Return the error that made the calls end."""
        for rank in range(len(self._world.slabs)):
            kind, _, text = self._world.board.heard(rank).partition(":")
            if kind in _KINDS:
                return _KINDS[kind](f"{text}; {_AFTER}")
        found = []
        for c, collective in enumerate(self._world.manifest.collectives):
            for v, variant in enumerate(collective.variants):
                reports = self._world.board.reports((c, v))
                if reports:
                    first = min(r.reason for r in reports)
                    found.append((first, failure(collective, variant, reports, self._world.timeout_s)))
        if found:
            return min(found, key=lambda each: each[0])[1]
        return CollectiveTimeoutError(f"a call was given up, but no block said why; {_AFTER}")

    def _look_at(self, rank: int) -> None:
        if rank == self._world.rank:
            return
        waiting = any(rank in group and not self._world.board.record(group, rank, n) for group, n in self._records)
        if self._died(rank) and not self._world.board.count(rank, 1):
            self.give_up("failed", f"the process of rank {rank} (pid {self._world.pids[rank]}) ended")
        elif waiting and self._world.board.count(rank, 1):
            self.give_up("failed", f"rank {rank} closed its communicator while others waited for it")

    def _has_let_go(self, rank: int) -> bool:
        return not self._world.slabs[rank] or bool(self._world.board.count(rank, 1)) or self._died(rank)

    def _died(self, rank: int) -> bool:
        file = self._world.processes[rank]
        return file >= 0 and bool(select.select([file], [], [], 0)[0])
