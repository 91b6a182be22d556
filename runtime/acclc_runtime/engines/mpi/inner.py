"""Collectives whose ranks are all on one host: generated kernels run them, in memory that these ranks share.

That is the transport ``memory`` (:mod:`acclc_runtime.memory`) between the ranks of one host; MPI only brings them
together.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclc_runtime.backends.build import find_compiler
from acclc_runtime.errors import AcclcRuntimeError, JoinError
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.bootstrap import Place
from acclc_runtime.memory.communicator import Communicator
from acclc_runtime.memory.join import join_at
from acclc_runtime.memory.native import native_library
from acclc_runtime.tuning import Choices

_JOIN_TIMEOUT_S = 60.0
"""All ranks are on their way when this is begun."""


def join_host(
    host: Any,
    ranks: Sequence[int],
    artefact: Path,
    manifest: Manifest,
    limits: tuple[float, float],
    choices: Choices,
) -> tuple[Communicator | None, str]:
    """Return this rank's communicator of the collectives that lie on its host, or None and why ("": there are none).

    ``host`` is MPI's communicator of the host's ranks, ``ranks`` their numbers in the topology; collective on it.
    ``choices``: of the MPI engine; where it was not tuned, those of the transport memory are taken.
    """
    near = _of_host(manifest, ranks)
    if len(ranks) == 1 or not near.collectives:
        return None, ""
    told = host.allgather((_obstacle(), _reach(), secrets.token_hex(16)))
    for rank, (obstacle, reach, _) in zip(ranks, told, strict=True):
        if obstacle:
            return None, f"rank {rank}: {obstacle}"
        if reach != told[0][1]:
            return None, f"ranks {ranks[0]} and {rank} are of other users, or in other network namespaces"
    place = Place(host.Get_rank(), len(ranks), f"\0acclc/{told[0][2]}".encode(), "a socket of their host")
    made, fault = None, ""
    try:
        if choices.tuning is None:
            choices = Choices.of(artefact, manifest, "memory")
        made = join_at(artefact, near, place, ranks, limits, choices, _JOIN_TIMEOUT_S)
    except JoinError as error:
        fault = str(error)
    fault = next(filter(None, host.allgather(fault)), "")
    if fault and made is not None:
        made.close()
    return (None, fault) if fault else (made, "")


def _of_host(manifest: Manifest, ranks: Sequence[int]) -> Manifest:
    """Return the part of the manifest whose collectives are on these ranks alone."""
    pairs = [
        (topology, collective)
        for topology, collective in zip(manifest.topologies, manifest.collectives, strict=True)
        if set(collective.ranks) <= set(ranks)
    ]
    return replace(manifest, topologies=tuple(t for t, _ in pairs), collectives=tuple(c for _, c in pairs))


def _obstacle() -> str:
    """Return why kernels cannot be built here; "" if they can."""
    try:
        find_compiler()
        native_library()
    except AcclcRuntimeError as error:
        return str(error)
    return ""


def _reach() -> tuple[int, str]:
    """Return what processes have alike that can meet at an abstract socket."""
    try:
        return os.geteuid(), os.readlink("/proc/self/ns/net")
    except OSError:
        return os.geteuid(), ""
