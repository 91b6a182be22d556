"""The runtime of acclc: loads artefacts and runs them. Imports nothing of the compiler."""

from acclc_runtime.buffers import in_place_view
from acclc_runtime.communicator import LocalGroup
from acclc_runtime.errors import (
    AcclcRuntimeError,
    ArgumentError,
    BackendUnavailableError,
    BuildError,
    CollectiveTimeoutError,
    CommunicatorClosedError,
    DamagedFileError,
    DeadlockError,
    JoinError,
    MismatchError,
    RankFailedError,
)
from acclc_runtime.loader import Artefact, load
from acclc_runtime.memory.communicator import Communicator
from acclc_runtime.memory.spawn import spawn

__all__ = [
    "AcclcRuntimeError",
    "ArgumentError",
    "Artefact",
    "BackendUnavailableError",
    "BuildError",
    "CollectiveTimeoutError",
    "Communicator",
    "CommunicatorClosedError",
    "DamagedFileError",
    "DeadlockError",
    "JoinError",
    "LocalGroup",
    "MismatchError",
    "RankFailedError",
    "in_place_view",
    "load",
    "spawn",
]
