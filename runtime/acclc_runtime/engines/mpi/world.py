"""What a communicator of the MPI engine knows of the job: who this rank is, its groups, its host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclc_runtime.engines.mpi.endpoints import Alarm, GroupMessages, HostWindow
from acclc_runtime.manifest import Manifest
from acclc_runtime.memory.communicator import Communicator


@dataclass(frozen=True, slots=True)
class MpiGroup:
    """The ranks of some collectives: MPI's communicator of them, and the numbers that go with each of its calls."""

    comm: Any
    messages: GroupMessages
    number: int
    row: int
    """How many counts go with a call: those of an all_to_all_v, where the group has one."""


@dataclass(frozen=True, slots=True)
class MpiWorld:
    """What join found: who this rank is, its groups, its host, and the limits in seconds."""

    artefact: Path
    manifest: Manifest
    rank: int
    size: int
    near: dict[int, int]
    """The ranks of this host (without this one), and their numbers in it."""
    groups: dict[tuple[int, ...], MpiGroup]
    inner: Communicator | None
    """Runs the collectives that lie on this host."""
    why_no_inner: str
    """Why these run as all others; "" if there are none, or ``inner`` runs them."""
    window: HostWindow
    alarm: Alarm
    crowded: bool
    """Whether this host has more ranks than cores, so that a rank that waits keeps another from its work."""
    slice_bytes: int
    largest_tag: int
    threads: bool
    """Whether MPI lets another thread make calls."""
    library: str
    timeout_s: float
    entry_timeout_s: float
    communicators: tuple[Any, ...]
    """To free at the end."""
