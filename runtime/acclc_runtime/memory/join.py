"""Makes a communicator: the ranks meet, exchange their segments, and map them."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclc_runtime.errors import AcclcRuntimeError, ArgumentError, JoinError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.bootstrap import Place, find_place
from acclc_runtime.memory.communicator import Communicator
from acclc_runtime.memory.failures import World
from acclc_runtime.memory.heap import Heap
from acclc_runtime.memory.native import JOIN_ABI, NativeComm
from acclc_runtime.memory.plans import Plans
from acclc_runtime.memory.rendezvous import Card, Meeting, meet
from acclc_runtime.memory.short_ways import with_short_ways
from acclc_runtime.memory.tables import HEAD_BYTES, Tables, artefact_digest, lay_out, world_of
from acclc_runtime.settings import entry_timeout_seconds, say, timeout_seconds
from acclc_runtime.slicing import SLICE_BYTES
from acclc_runtime.tuning import Choices

DEFAULT_JOIN_TIMEOUT_S = 300.0
TRANSPORTS = ("auto", "memory", "mpi", "nccl", "cuda")


def takes_mpi(bootstrap: str, transport: str, rank: int | None, world: int | None) -> bool:
    """Whether the MPI engine runs: it is asked for, or MPI started ranks on several machines.

    Raises:
        ArgumentError: it is asked for with another bootstrap than mpi, or with a rank.
    """
    if transport == "mpi":
        if bootstrap != "mpi":
            raise ArgumentError(f"transport='mpi' goes with bootstrap='mpi', not {bootstrap!r}")
        if rank is not None or world is not None:
            raise ArgumentError("bootstrap='mpi' takes the rank and the world from MPI; leave rank and world out")
        return True
    if transport == "auto" and bootstrap == "mpi":
        from acclc_runtime.engines.mpi.join import import_mpi, on_one_machine

        return not on_one_machine(import_mpi())
    return False


def join(
    artefact: Path,
    manifest: Manifest,
    *,
    bootstrap: str,
    transport: str,
    rank: int | None,
    world: int | None,
    name: str,
    timeout_s: float | None,
    entry_timeout_s: float | None,
    join_timeout_s: float,
    slice_bytes: int = SLICE_BYTES,
) -> Communicator:
    """See :meth:`acclc_runtime.Artefact.join`."""
    if transport not in TRANSPORTS:
        raise ArgumentError(f"transport={transport!r} is not known here; it can be {', '.join(TRANSPORTS)}")
    limit, origin = timeout_seconds(timeout_s)
    entry_limit = entry_timeout_seconds(entry_timeout_s, limit, origin)
    if origin == "ACCLC_TIMEOUT":
        say(f"ACCLC_TIMEOUT: a wait without progress ends after {limit:g} s")
    place = find_place(bootstrap, rank, world, name)
    size = world_of(manifest)
    choices = Choices.of(artefact, manifest, "memory")
    if place.world != size:
        raise JoinError(
            f"rank {place.rank}: {manifest.name} was compiled for {size} ranks, but {place.world} join; start "
            f"{size} processes, or compile it for {place.world}"
        )
    limits = limit, entry_limit
    return join_at(artefact, manifest, place, range(place.world), limits, choices, join_timeout_s, slice_bytes)


def join_at(
    artefact: Path,
    manifest: Manifest,
    place: Place,
    ranks: Sequence[int],
    limits: tuple[float, float],
    choices: Choices,
    join_timeout_s: float,
    slice_bytes: int = SLICE_BYTES,
) -> Communicator:
    """Return this process's rank; ``ranks`` are those that meet at ``place``, which numbers them in this order.

    They are all ranks of the artefact's world, or all that the collectives of ``manifest`` are on. ``limits``: of a
    wait without progress, and of one for ranks that have not begun the call; seconds.

    Raises:
        JoinError: see :meth:`acclc_runtime.Artefact.join`; on all ranks that came.
    """
    tables = lay_out(manifest, slice_bytes)
    rank = ranks[place.rank]
    own_files = (make_segment(rank, tables.segment_bytes[rank]), *process_file())
    try:
        meeting = meet(place, facts_of_rank(artefact, slice_bytes), own_files, misfit_of, join_timeout_s)
    except BaseException:
        close_files(own_files)
        raise
    return _attach(artefact, manifest, rank, ranks, tables, meeting, own_files, limits, slice_bytes, choices)


def _attach(
    artefact: Path,
    manifest: Manifest,
    rank: int,
    ranks: Sequence[int],
    tables: Tables,
    meeting: Meeting,
    own_files: tuple[int, ...],
    limits: tuple[float, float],
    slice_bytes: int,
    choices: Choices,
) -> Communicator:
    """Map the segments; every rank learns of a failure of any."""
    cards = [replace(card, rank=ranks[card.rank]) for card in meeting.cards]
    cores = len({core for card in cards for core in card.facts["cores"]})
    fault, failed, native = "", None, None
    try:
        try:
            native = NativeComm(rank, tables.world, cores, limits[1], limits[0])
            for card in cards:
                for file in card.files:
                    native.hold(file)
            _map_all(native, rank, tables, cards)
        except (AcclcRuntimeError, MemoryError) as error:
            fault, failed = str(error), error
        meeting.agree(fault)
    except JoinError as error:
        raise error from failed
    finally:
        meeting.close()
        if native is None:
            close_files(own_files)
            close_files(tuple(f for c in cards if c.rank != rank for f in c.files))
    assert native is not None
    pids = {card.rank: int(card.facts["pid"]) for card in cards}
    known = World(manifest, rank, tuple(pids.get(r, 0) for r in range(tables.world)), *limits)
    heap = Heap(native, rank, own_files[0], tables.segment_bytes[rank])
    plans = Plans(artefact, manifest, rank, tables, native, slice_bytes)
    return with_short_ways(Communicator)(known, native, heap, plans, choices, cores)


def _map_all(native: NativeComm, rank: int, tables: Tables, cards: list[Card]) -> None:
    """Map the own segment and the neighbours' in full, of the others the head."""
    for card in cards:
        near = card.rank == rank or card.rank in tables.neighbours[rank]
        nbytes = tables.segment_bytes[card.rank] if near else HEAD_BYTES
        process = card.files[1] if len(card.files) > 1 and card.rank != rank else -1
        native.map(card.rank, card.files[0], process, 0, nbytes)


def make_segment(rank: int, nbytes: int) -> int:
    """Return a file in memory that has all its pages, so that no later access can fail; nobody else can open it."""
    file = os.memfd_create("acclc", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(file, 0, nbytes)
    except OSError as error:
        os.close(file)
        raise JoinError(f"rank {rank} gets no {nbytes} bytes of shared memory: {error.strerror}") from None
    return file


def process_file() -> tuple[int, ...]:
    """Return a file that tells others when this process has ended; none where the system has no such thing."""
    try:
        return (os.pidfd_open(os.getpid()),)
    except (AttributeError, OSError):
        return ()


def facts_of_rank(artefact: Path, slice_bytes: int) -> dict[str, Any]:
    """Return what a rank tells the others of itself."""
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "artefact": artefact_digest(artefact),
        "folder": str(artefact),
        "abi": JOIN_ABI,
        "slice_bytes": slice_bytes,
        "cores": sorted(os.sched_getaffinity(0)),
    }


def misfit_of(cards: list[Card]) -> str:
    """Return what rank 0 finds wrong with the ranks that have come."""
    first = cards[0]
    for key, words in (
        ("abi", "uses another version of acclc_runtime than"),
        ("artefact", "loaded another artefact than"),
        ("slice_bytes", "uses another slice_bytes than"),
    ):
        others = [c for c in cards if c.facts.get(key) != first.facts[key]]
        if others:
            told = ", ".join(f"rank {c.rank}" + (f" ({c.facts.get('folder')})" if key == "artefact" else "")
                             for c in others)  # fmt: skip
            mine = f" ({first.facts['folder']})" if key == "artefact" else ""
            return f"{told} {words} rank 0{mine}; all ranks need the same"
    return ""


def close_files(files: tuple[int, ...]) -> None:
    """Close them all."""
    for file in files:
        os.close(file)
