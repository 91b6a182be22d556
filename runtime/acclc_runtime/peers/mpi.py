"""Times the same collectives with an MPI, in processes of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acclc_runtime.errors import BackendUnavailableError

PROGRAM = Path(__file__).with_name("mpi_program.py")
Cell = tuple[str, int, int] | tuple[str, int, int, str, str | None]
"""Operation, S in bytes, calls to time, and (else f4, sum) a NumPy type and an operator."""


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI: a Python that has mpi4py, and the mpiexec that starts it."""

    python: str
    mpiexec: str

    @staticmethod
    def of(text: str = "") -> Mpi:
        """Return the MPI of ``PYTHON[:MPIEXEC]``; without it this Python's. The mpiexec beside a Python is its own."""
        python, _, mpiexec = text.partition(":")
        python = python or sys.executable
        beside = Path(python).parent / "mpiexec"
        return Mpi(python, mpiexec or (str(beside) if beside.exists() else "mpiexec"))

    def seconds(self, ranks: int, cells: Sequence[Cell], timeout_s: float = 600) -> tuple[str, list[float | None]]:
        """Return its version, and the seconds a call of each cell (None: MPI has no such thing).

        Raises:
            BackendUnavailableError: it cannot be started; says why.
        """
        if shutil.which(self.mpiexec) is None:
            raise BackendUnavailableError(f"no {self.mpiexec} here; pip install mpich mpi4py (the extra 'mpi')")
        command = [self.mpiexec, *self._options(ranks), "-n", str(ranks), self.python, str(PROGRAM), json.dumps(cells)]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout_s, check=False, env={**os.environ, **root}
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendUnavailableError(f"{self.mpiexec}: {error}") from None
        if done.returncode != 0:
            last = (done.stderr.strip() or "it says nothing").splitlines()[-1]
            raise BackendUnavailableError(f"{self.mpiexec} ended with {done.returncode}: {last}")
        version, seconds = json.loads(done.stdout.splitlines()[-1])
        return str(version)[:40], list(seconds)

    def _options(self, ranks: int) -> list[str]:
        """OpenMPI has to be told that ranks outnumber cores, else its waits never give way."""
        says = subprocess.run([self.mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
        if "Open MPI" not in says and "OpenRTE" not in says:
            return []
        crowded = int(ranks > (os.cpu_count() or 1))
        return ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", str(crowded)]
