"""Who this process is, and where the ranks meet: ``env://``, ``file:///path``, ``mpi``."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from acclc_runtime.errors import ArgumentError, JoinError

SPAWNED = "spawned:"
"""Before a secret name: how the processes of ``spawn`` meet."""


@dataclass(frozen=True, slots=True)
class Place:
    """This process's rank, the number of ranks, and the Unix socket where rank 0 waits for the others.

    ``address`` begins with a zero byte where it is an abstract name, which leaves nothing behind; ``words`` names
    it for people.
    """

    rank: int
    world: int
    address: bytes
    words: str


def find_place(bootstrap: str, rank: int | None, world: int | None, name: str) -> Place:
    """Return where the ranks meet. ``name`` keeps apart communicators that one job makes at the same time.

    Raises:
        ArgumentError: an unknown bootstrap, or one that does not say which rank this is.
        JoinError: MPI says that the ranks are on several machines.
    """
    if bootstrap.startswith(SPAWNED):
        mine, all_ranks = _checked(rank, world, "spawn")
        return Place(mine, all_ranks, f"\0acclc/{bootstrap.removeprefix(SPAWNED)}".encode(), "the place of spawn")
    if bootstrap == "mpi":
        return _mpi(rank, world)
    if bootstrap == "env://":
        return _environment(rank, world, name)
    if bootstrap.startswith("file://"):
        return _file(bootstrap, rank, world, name)
    raise ArgumentError(f"bootstrap={bootstrap!r} is not known; it can be env://, file:///path or mpi")


def _checked(rank: int | None, world: int | None, where: str) -> tuple[int, int]:
    if rank is None or world is None:
        missing = "rank" if rank is None else "world"
        raise ArgumentError(f"{where} does not say the {missing}; pass {missing}=... to join")
    for name, value in (("rank", rank), ("world", world)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ArgumentError(f"{name}={value!r} is no whole number")
    if not 0 <= rank < world:
        raise ArgumentError(f"rank {rank} is not one of {world} ranks, which count from 0")
    return rank, world


def _variable(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ArgumentError(f"the environment variable {name}={text!r} is no whole number") from None


def _environment(rank: int | None, world: int | None, name: str) -> Place:
    found = _variable("RANK") if rank is None else rank
    size = _variable("WORLD_SIZE") if world is None else world
    mine, all_ranks = _checked(found, size, "the environment (RANK, WORLD_SIZE, as torchrun sets them)")
    local = _variable("LOCAL_WORLD_SIZE")
    if local is not None and local != all_ranks:
        raise JoinError(
            f"{local} of {all_ranks} ranks are on this machine (LOCAL_WORLD_SIZE, WORLD_SIZE); the transport memory "
            "needs all of them on one"
        )
    job = [
        os.environ.get(key, "")
        for key in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    ]
    if not any(job):
        raise ArgumentError(
            "env:// needs MASTER_ADDR and MASTER_PORT, as torchrun sets them, to tell one job from another; "
            "or use bootstrap='file:///path'"
        )
    address = "/".join(("acclc", str(os.geteuid()), *job, name))
    return Place(mine, all_ranks, b"\0" + _short(address.encode()), f"env:// ({job[0]}:{job[1]})")


def _file(bootstrap: str, rank: int | None, world: int | None, name: str) -> Place:
    text = bootstrap.removeprefix("file://")
    if not text.startswith("/"):
        raise ArgumentError(f"bootstrap={bootstrap!r}: give an absolute path, as in file:///tmp/job")
    mine, all_ranks = _checked(rank if rank is not None else _variable("RANK"),
                               world if world is not None else _variable("WORLD_SIZE"), bootstrap)  # fmt: skip
    path = Path(text)
    if path.is_dir():
        path = path / "acclc.socket"
    if name:
        path = path.with_name(f"{path.name}.{name}")
    return Place(mine, all_ranks, os.fsencode(path), bootstrap)


def _mpi(rank: int | None, world: int | None) -> Place:
    if rank is not None or world is not None:
        raise ArgumentError("bootstrap='mpi' takes the rank and the world from MPI; leave rank and world out")
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ArgumentError(
            f"bootstrap='mpi' needs mpi4py ({error}); pip install mpi4py mpich, or use env:// or file:///path"
        ) from None
    everyone = MPI.COMM_WORLD
    near = everyone.Split_type(MPI.COMM_TYPE_SHARED)
    together = near.Get_size()
    near.Free()
    if together != everyone.Get_size():
        raise JoinError(
            f"rank {everyone.Get_rank()} shares memory with {together} of {everyone.Get_size()} MPI ranks; the "
            "transport memory needs all of them on one machine"
        )
    token = everyone.bcast(secrets.token_hex(16), root=0)
    return Place(everyone.Get_rank(), everyone.Get_size(), f"\0acclc/{token}".encode(), "mpi")


def _short(address: bytes) -> bytes:
    """Names of sockets have at most 107 bytes."""
    if len(address) <= 100:
        return address
    import hashlib

    return address[:30] + hashlib.sha256(address).hexdigest()[:64].encode()
