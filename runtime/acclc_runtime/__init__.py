"""The runtime of acclc: loads artefacts and runs them. Imports nothing of the compiler."""

from acclc_runtime.buffers import in_place_view
from acclc_runtime.communicator import LocalGroup
from acclc_runtime.errors import (
    AcclcRuntimeError,
    ArgumentError,
    BackendUnavailableError,
    BuildError,
    CollectiveTimeoutError,
    DamagedFileError,
    DeadlockError,
)
from acclc_runtime.loader import Artefact, load

__all__ = [
    "AcclcRuntimeError",
    "ArgumentError",
    "Artefact",
    "BackendUnavailableError",
    "BuildError",
    "CollectiveTimeoutError",
    "DamagedFileError",
    "DeadlockError",
    "LocalGroup",
    "in_place_view",
    "load",
]
