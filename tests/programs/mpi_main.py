"""Runs a function of the tests of communicators on every rank of MPI: mpiexec -n 4 python mpi_main.py ARTEFACT CALLS.

CALLS is a JSON list of [function of join_ranks, arguments]. Rank 0 prints "answers" and those of all ranks, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import join_ranks
from mpi4py import MPI

import acclc_runtime as rt
from acclc_runtime.errors import AcclcRuntimeError


def answer(folder: str, name: str, arguments: list[Any]) -> Any:
    """Call one function with a communicator of its own; an error of ours is its answer."""
    try:
        with rt.load(folder).join("mpi", "mpi", entry_timeout_s=60) as comm:
            return getattr(join_ranks, name)(comm, *arguments)
    except AcclcRuntimeError as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    answers = []
    for name, arguments in json.loads(sys.argv[2]):
        found = MPI.COMM_WORLD.gather(answer(sys.argv[1], name, arguments), root=0)
        answers.append(found)
    if MPI.COMM_WORLD.Get_rank() == 0:
        print("\nanswers " + json.dumps(answers))


if __name__ == "__main__":
    main()
