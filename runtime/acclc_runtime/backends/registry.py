"""Which backends there are, and which one is used when the wanted one cannot run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from acclc_runtime.backends.base import Backend
from acclc_runtime.errors import ArgumentError, BackendUnavailableError


def _cpu(artefact: Path, **options: object) -> Backend:
    from acclc_runtime.backends.cpu import CpuBackend

    backend: Backend = CpuBackend(artefact, **options)
    return backend


def _cuda(artefact: Path, **options: object) -> Backend:
    from acclc_runtime.backends.cuda import CudaBackend

    backend: Backend = CudaBackend(artefact, **options)
    return backend


def _numpy(artefact: Path, **options: object) -> Backend:
    from acclc_runtime.backends.numpy import NumpyBackend

    return NumpyBackend(artefact, **options)


BACKENDS: dict[str, Callable[..., Backend]] = {"cpu": _cpu, "cuda": _cuda, "numpy": _numpy}
"""Imported only when used: cpu needs a C++ compiler, cuda needs cupy and a GPU, numpy nothing."""


def open_backend(
    name: str, artefact: Path, options: dict[str, object], fallback: bool | None = None
) -> tuple[Backend, str]:
    """Return the backend, and a note on what it stands in for ("": for nothing).

    Where ``cpu`` cannot run, numpy takes its place, with a warning, unless ``fallback`` is False or options of
    the cpu backend were given (None), which numpy could not honour.

    Raises:
        ArgumentError: no backend of that name.
        BackendUnavailableError: it cannot run here; says what is missing.
    """
    make = BACKENDS.get(name)
    if make is None:
        raise ArgumentError(f"no backend {name!r}; there are {', '.join(BACKENDS)}")
    try:
        return make(artefact, **options), ""
    except BackendUnavailableError as error:
        if name != "cpu" or not (not options if fallback is None else fallback):
            raise
        note = f"the cpu backend cannot run here ({error}); the numpy backend runs instead, much slower"
        warnings.warn(note, RuntimeWarning, stacklevel=4)
        return _numpy(artefact), note
