"""What the runtime raises. Every message says what is wrong, where, and what to do."""

from __future__ import annotations


class AcclcRuntimeError(Exception):
    """Base of all errors of the runtime."""


class DamagedFileError(AcclcRuntimeError):
    """A file of an artefact is truncated, tampered with, or of another version."""


class ArgumentError(AcclcRuntimeError, ValueError):
    """A call does not fit: wrong size, type, device, or overlapping buffers. Raised before anything moves."""


class BackendUnavailableError(AcclcRuntimeError):
    """A backend cannot run here (no compiler, no GPU); the message says what is missing and how to get it."""


class BuildError(AcclcRuntimeError):
    """The C++ or CUDA compiler failed; the message holds its log and the command that repeats it."""


class CollectiveTimeoutError(AcclcRuntimeError, TimeoutError):
    """A wait took too long. Names the rank, block, step and peer."""


class DeadlockError(AcclcRuntimeError):
    """Every block waits: found by the deterministic mode. Names the rank, block, step and peer of each."""


class JoinError(AcclcRuntimeError):
    """A communicator cannot be made: a rank is missing, there twice, of another world size or another artefact."""


class MachineMismatchError(AcclcRuntimeError):
    """The machine has not the links that an artefact was compiled for, under no numbering of its GPUs."""


class MismatchError(AcclcRuntimeError):
    """The ranks of a group call different things: collective, variant, count, type, operator or place."""


class RankFailedError(AcclcRuntimeError):
    """Another rank died, closed its communicator, or gave up, while this one was in a call with it."""


class CommunicatorClosedError(AcclcRuntimeError):
    """The communicator was closed, or an earlier call on it failed; another can be made by join."""
