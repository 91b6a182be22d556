"""Makes a communicator of the ranks of an MPI job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from acclc_runtime.engines.mpi.communicator import MpiCommunicator
from acclc_runtime.engines.mpi.endpoints import Alarm, GroupMessages, HostWindow
from acclc_runtime.engines.mpi.hosts import hosts_of, place_ranks
from acclc_runtime.engines.mpi.inner import join_host
from acclc_runtime.engines.mpi.rings import Shape
from acclc_runtime.engines.mpi.world import MpiGroup, MpiWorld
from acclc_runtime.errors import BackendUnavailableError, JoinError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.tables import artefact_digest, slot_bytes_at_most, world_of
from acclc_runtime.partition import ALIGN
from acclc_runtime.settings import entry_timeout_seconds, say, timeout_seconds
from acclc_runtime.tuning import Choices

SLICE_BYTES = 512 << 10
"""What is moved of a chunk in one piece, where ranks share a host."""
FAR_SLICE_BYTES = 1 << 20
"""The same where each rank has a host of its own: long enough to hide what a message costs here."""
LEAST_SLOTS = 8
LARGEST_ITEM = 8
LEAST_SLICE_BYTES = 4 << 10


def import_mpi() -> Any:
    """Return mpi4py's module.

    Raises:
        BackendUnavailableError: it is not there, or finds no MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise BackendUnavailableError(
            f"the engine mpi needs mpi4py and an MPI ({error}); pip install mpi4py mpich, or acclc[mpi]"
        ) from None
    return MPI


def join_mpi(
    artefact: Path,
    manifest: Manifest,
    *,
    mpi: Any = None,
    everyone: Any = None,
    timeout_s: float | None = None,
    entry_timeout_s: float | None = None,
    slice_bytes: int | None = None,
    kernels: bool = True,
) -> MpiCommunicator:
    """Return this process's rank; all ranks of MPI's world call this. ``mpi`` and ``everyone`` stand in, in tests.

    ``kernels``: whether collectives within a host run by generated kernels, where that is possible.

    Raises:
        JoinError: the job has another number of ranks than the artefact, or not all have loaded the same; on all ranks.
        BackendUnavailableError: no mpi4py.
    """
    mpi = import_mpi() if mpi is None else mpi
    everyone = mpi.COMM_WORLD if everyone is None else everyone
    limit, origin = timeout_seconds(timeout_s)
    entry_limit = entry_timeout_seconds(entry_timeout_s, limit, origin)
    size = world_of(manifest)
    choices = Choices.of(artefact, manifest, "mpi")
    _check_all(artefact, manifest, everyone, size)
    near = everyone.Split_type(mpi.COMM_TYPE_SHARED)
    machines = everyone.allgather(near.allgather(everyone.Get_rank())[0])
    near.Free()
    placed, misfit = place_ranks(hosts_of(manifest.topologies, size), machines)
    if everyone.Get_rank() == 0:
        _say_placed(placed, misfit)
    world = everyone.Split(0, placed[everyone.Get_rank()])
    host = world.Split_type(mpi.COMM_TYPE_SHARED)
    on_host = host.allgather(world.Get_rank())
    inner, why_no_inner = None, "not asked for"
    if kernels:
        inner, why_no_inner = join_host(host, on_host, artefact, manifest, (limit, entry_limit), choices)
    beyond = [c for c in manifest.collectives if inner is None or c not in inner.manifest.collectives]
    bytes_of_slice = _slice_bytes(world, host.Get_size(), slice_bytes)
    most = slot_bytes_at_most(2 * ALIGN * 8 + bytes_of_slice)
    slots = _slots(host.Get_size()) if any(len({*c.ranks} & {*on_host}) > 1 for c in beyond) else 0
    window = HostWindow(mpi, host, Shape(host.Get_size(), slots, most))
    groups, owned = _groups(mpi, world, manifest)
    alarm_comm = world.Dup()
    return MpiCommunicator(
        MpiWorld(
            artefact=artefact,
            manifest=manifest,
            rank=world.Get_rank(),
            size=size,
            near={rank: n for n, rank in enumerate(on_host) if rank != world.Get_rank()},
            groups=groups,
            inner=inner,
            why_no_inner=why_no_inner,
            window=window,
            alarm=Alarm(mpi, alarm_comm),
            crowded=_is_crowded(host),
            slice_bytes=bytes_of_slice,
            largest_tag=int(world.Get_attr(mpi.TAG_UB) or 32767),
            threads=mpi.Query_thread() >= mpi.THREAD_SERIALIZED,
            library=mpi.Get_library_version().split("\n")[0].strip()[:40],
            timeout_s=limit,
            entry_timeout_s=entry_limit,
            communicators=(*owned, alarm_comm, host, world),
        ),
        choices,
    )


def _check_all(artefact: Path, manifest: Manifest, everyone: Any, size: int) -> None:
    told = everyone.allgather((artefact_digest(artefact), str(artefact)))
    if everyone.Get_size() != size:
        raise JoinError(
            f"{manifest.name} was compiled for {size} ranks, but MPI started {everyone.Get_size()}; start it by "
            f"`mpiexec -n {size}`, or compile it for {everyone.Get_size()}"
        )
    for rank, (digest, folder) in enumerate(told):
        if digest != told[0][0]:
            raise JoinError(
                f"rank {rank} of MPI ({folder}) loaded another artefact than rank 0 ({told[0][1]}); all ranks need the "
                "same"
            )


def _say_placed(placed: tuple[int, ...], misfit: str) -> None:
    if misfit:
        say(f"mpi: {misfit}")
    elif placed != tuple(range(len(placed))):
        told = ", ".join(f"{n} -> {rank}" for n, rank in enumerate(placed))
        say(f"mpi: ranks of MPI -> ranks of the topology, so that its hosts are whole: {told}")


def _slots(on_host: int) -> int:
    """Return how many slots a rank has: four for each other rank: some are written while others are read."""
    return max(LEAST_SLOTS, 4 * (on_host - 1))


def _slice_bytes(world: Any, on_host: int, wanted: int | None) -> int:
    """Return the longest slice, the same on all ranks: rings have to fit into a quarter of the shared memory left."""
    largest_host = max(world.allgather(on_host))
    if wanted is not None:
        return wanted
    if largest_host == 1:
        return FAR_SLICE_BYTES
    try:
        there = os.statvfs("/dev/shm")
        free = there.f_bavail * there.f_frsize
    except OSError:
        free = 1 << 30
    room = free // 4 // (on_host * _slots(on_host))
    fitting = min(SLICE_BYTES, max(LEAST_SLICE_BYTES, 1 << max(0, room.bit_length() - 1)))
    return int(min(world.allgather(fitting)))


def _is_crowded(host: Any) -> bool:
    cores = {core for found in host.allgather(sorted(os.sched_getaffinity(0))) for core in found}
    return bool(host.Get_size() > len(cores))


def _groups(mpi: Any, world: Any, manifest: Manifest) -> tuple[dict[tuple[int, ...], MpiGroup], list[Any]]:
    """Make MPI's communicator of each group of ranks, in the order of the manifest: all ranks take part."""
    found: dict[tuple[int, ...], MpiGroup] = {}
    owned = []
    for number, ranks in enumerate(dict.fromkeys(c.ranks for c in manifest.collectives)):
        me = world.Get_rank()
        comm = world.Split(0 if me in ranks else mpi.UNDEFINED, ranks.index(me) if me in ranks else 0)
        if me not in ranks:
            continue
        varying = any(c.varying for c in manifest.collectives if c.ranks == ranks)
        found[ranks] = MpiGroup(comm, GroupMessages(mpi, comm, ranks), number, len(ranks) if varying else 0)
        owned.append(comm)
    return found, owned


def on_one_machine(mpi: Any) -> bool:
    """Whether all ranks of MPI share memory."""
    near = mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED)
    together = near.Get_size()
    near.Free()
    return bool(together == mpi.COMM_WORLD.Get_size())
