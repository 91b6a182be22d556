"""Commands that every rank of a job runs: rank 0 speaks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

engine_option = click.option(
    "--engine",
    type=click.Choice(["mpi"]),
    help="mpi: this command runs on every rank of a job, as `mpiexec -n 8 acclc ... --engine mpi`.",
)


_PATIENCE_S = 5.0
"""For the other ranks to fail alike, beyond which a failing rank ends the job."""


@contextmanager
def mpi_job() -> Iterator[Any]:
    """Give MPI's communicator of all ranks. Ranks but 0 print nothing; one that fails alone ends the job.

    Raises:
        BackendUnavailableError: no mpi4py.
        What all ranks raised, on rank 0; SystemExit on the others.
    """
    from acclc_runtime.engines.mpi.join import import_mpi

    world = import_mpi().COMM_WORLD
    failures = world.Dup()  # for those who fail alone: not even a join has to match
    rank, before = world.Get_rank(), sys.stdout
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = before if rank == 0 else nowhere
        try:
            yield world
        except Exception as error:
            if not _all_failed(failures):
                what = error.format_message() if isinstance(error, click.ClickException) else str(error)
                print(f"error: rank {rank} of MPI: {what or type(error).__name__}", file=sys.stderr, flush=True)
                world.Abort(1)
            if rank > 0:
                raise SystemExit(1) from None
            raise
        finally:
            sys.stdout = before


def _all_failed(comm: Any) -> bool:
    """Whether every rank comes here soon."""
    request, ends = comm.Ibarrier(), time.monotonic() + _PATIENCE_S
    while not request.Test():
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True
