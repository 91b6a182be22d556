"""Makes a communicator of GPUs: rank 0's NCCL id goes to all by a file or by MPI."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from acclc_runtime.engines.nccl.communicator import NcclCommunicator
from acclc_runtime.engines.nccl.gpu import Gpu, import_nccl
from acclc_runtime.errors import ArgumentError, JoinError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.tables import artefact_digest, world_of

_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_NAP_S = 0.05


def join_nccl(
    artefact: Path,
    manifest: Manifest,
    bootstrap: str,
    rank: int | None,
    world: int | None,
    join_timeout_s: float = 300.0,
) -> NcclCommunicator:
    """Return this process's rank; all ranks call this. See :meth:`acclc_runtime.Artefact.join`.

    The device is the local rank's (of torchrun, Slurm or MPI), modulo how many are visible; else the current one.

    Raises:
        JoinError: another number of ranks or another artefact, or no id came in time.
        BackendUnavailableError: cupy, NCCL or a GPU is missing.
    """
    if bootstrap != "mpi" and not bootstrap.startswith("file:///"):
        raise ArgumentError(
            f"bootstrap={bootstrap!r}: the engine nccl meets by mpi, or by a file that all ranks see (file:///path, "
            "with rank and world given, or RANK and WORLD_SIZE as torchrun sets them)"
        )
    cupy, nccl = import_nccl()
    everyone = _mpi() if bootstrap == "mpi" else None
    mine = _number(rank, "RANK") if everyone is None else everyone.Get_rank()
    ranks = _number(world, "WORLD_SIZE") if everyone is None else everyone.Get_size()
    if ranks != world_of(manifest):
        raise JoinError(f"{manifest.name} was compiled for {world_of(manifest)} ranks, but {ranks} join")
    digest = artefact_digest(artefact)
    fresh = {"digest": digest, "id": list(nccl.get_unique_id())} if mine == 0 else None
    path = Path(bootstrap.removeprefix("file://"))
    if everyone is not None:
        told = everyone.bcast(fresh, root=0)
    else:
        told = _through_file(path, fresh, mine, join_timeout_s)
    if told["digest"] != digest:
        raise JoinError(f"rank {mine} loaded another artefact ({artefact}) than rank 0; all ranks need the same")
    device = _device(cupy)
    try:
        with cupy.cuda.Device(device):
            comm = nccl.NcclCommunicator(ranks, tuple(told["id"]), mine)
    except nccl.NcclError as error:
        raise JoinError(f"rank {mine} on device {device}: {error}") from None
    finally:
        if everyone is None and mine == 0:
            path.unlink(missing_ok=True)  # all have read it: NCCL's ranks have met
    return NcclCommunicator(artefact, manifest, mine, ranks, Gpu(cupy, device, artefact), nccl, comm)


def _mpi() -> Any:
    from acclc_runtime.engines.mpi.join import import_mpi

    return import_mpi().COMM_WORLD


def _number(given: int | None, name: str) -> int:
    text = os.environ.get(name, "") if given is None else str(given)
    if not text.isdecimal():
        raise ArgumentError(f"{name.lower().removesuffix('_size')} is not given, and {name}={text!r} is no number")
    return int(text)


def _through_file(path: Path, fresh: dict[str, Any] | None, rank: int, limit_s: float) -> dict[str, Any]:
    """Write what rank 0 says, or wait for it."""
    if fresh is not None:
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(fresh))
            os.link(beside, path)  # whole at once, and only if there is none
        except FileExistsError:
            raise JoinError(f"{path} is there already, from another job: remove it, or take another path") from None
        except OSError as error:
            raise JoinError(f"{path} cannot be written: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)
        return fresh
    ends = time.monotonic() + limit_s
    while True:
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        except OSError:
            if time.monotonic() > ends:
                raise JoinError(f"rank {rank} found no {path} within {limit_s:g} s: has rank 0 come?") from None
            time.sleep(_NAP_S)
        except ValueError:
            raise JoinError(f"{path} is no meeting place of acclc; take another path") from None


def _device(cupy: Any) -> int:
    local = next((os.environ[name] for name in _LOCAL_RANKS if os.environ.get(name, "").isdecimal()), None)
    if local is None:
        return int(cupy.cuda.runtime.getDevice())
    return int(local) % int(cupy.cuda.runtime.getDeviceCount())
