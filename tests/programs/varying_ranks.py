"""What the ranks of the tests of all_to_all_v do: functions that run in processes of their own."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from acclc_runtime import AcclcRuntimeError, ArgumentError, Communicator
from acclc_runtime.manifest import ManifestCollective
from acclc_runtime.reference import PATTERNS, expected, random_counts, random_inputs

MATRIX = ((1, 2, 0, 3), (0, 0, 0, 0), (4, 0, 1, 2), (5, 5, 5, 5))


def varying(comm: Communicator) -> ManifestCollective:
    return next(c for c in comm.manifest.collectives if c.varying)


def many_matrices(comm: Communicator, number: int) -> list[str]:
    """Calls of all kinds of counts, told in every way, mixed with other collectives; return what was wrong."""
    collective = varying(comm)
    n, faults = collective.ranks.index(comm.rank), []
    for seed in range(number):
        counts = random_counts(collective, PATTERNS[seed % 4], 3 ** (seed % 12), seed)
        every = random_inputs(collective, 0, "i32", seed, counts=counts)
        wanted = expected(collective, every, 0, "i32", counts=counts)[n]
        mine = every[n]
        assert wanted is not None
        column = [row[n] for row in counts]
        out = comm.empty(len(wanted), np.int32)
        match seed % 5:
            case 0:
                found = comm.all_to_all_v(mine, counts)
            case 1:
                found = comm.all_to_all_v(mine, send_counts=counts[n], out=out, recv_counts=column)
            case 2:
                found = comm.all_to_all_v(mine, np.asarray(counts), out, check=False)
            case 3:
                found = comm.collective(collective.name, mine, counts=counts, async_op=True).wait()
            case _:
                found = comm.all_to_all_single(out, mine, column, counts[n])
        if not np.array_equal(found, wanted):
            faults.append(f"rank {comm.rank}, matrix {seed}: {int((found != wanted).sum())} wrong")
        total = comm.all_reduce(np.full(3, comm.rank, np.int32))
        if total.tolist() != [6, 6, 6]:
            faults.append(f"rank {comm.rank}, matrix {seed}: the all_reduce after it gave {total}")
    nothing = comm.all_to_all_v(None, ((0,) * comm.world,) * comm.world, dtype="f32")
    if nothing is not None:
        faults.append("nothing gave something")
    return faults


def rows_of_tokens(comm: Communicator) -> list[list[float]]:
    """Torch's split sizes are of the first dimension; left out they are even."""
    n = comm.rank
    x = np.repeat(np.arange(6, dtype=np.float32)[:, None] + 10 * n, 3, axis=1)
    splits = [[1, 2, 3, 0], [0, 0, 6, 0], [2, 2, 1, 1], [3, 1, 1, 1]]
    out = np.zeros((sum(row[n] for row in splits), 3), np.float32)
    comm.all_to_all_single(out, x, [row[n] for row in splits], splits[n])
    even = np.zeros((4, 2), np.float32)
    comm.all_to_all_single(even, np.full((4, 2), n, np.float32), input_split_sizes=[1] * 4)
    return [out[:, 0].tolist(), even[:, 1].tolist()]


def _say(call: Any) -> str:
    try:
        call()
    except AcclcRuntimeError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def mistakes(comm: Communicator) -> list[str]:
    """What is wrong on one rank alone is said before anything moves, and the communicator can be used."""
    n = comm.rank
    x = np.zeros(sum(MATRIX[n]), np.float32)
    said = [
        _say(lambda: comm.all_to_all_v(x)),
        _say(lambda: comm.all_to_all_v(x, MATRIX, send_counts=MATRIX[n])),
        _say(lambda: comm.all_to_all_v(np.zeros(len(x) + 1, np.float32), MATRIX)),
        _say(lambda: comm.all_to_all_v(x, send_counts=[1, 2])),
        _say(lambda: comm.all_to_all_v(x, MATRIX, recv_counts=[7, 0, 0, 0])),
        _say(lambda: comm.all_to_all_v(x, MATRIX, np.zeros(1, np.float32))),
        _say(lambda: comm.all_to_all_v(None, send_counts=[0] * 4)),
        _say(lambda: comm.collective("all_reduce", x, counts=MATRIX)),
        _say(lambda: comm.all_to_all_single(x, x, None, [1, 1, 1, 90])),
    ]
    comm.all_to_all_v(x, MATRIX)
    return said


def disagree(comm: Communicator, how: str) -> str:
    """Ranks that do not say the same all get an error; return it."""
    n = comm.rank
    matrix = [list(row) for row in MATRIX]
    if how == "matrix" and n == 3:
        matrix[0][2] = 9
    if how == "unchecked":
        matrix[n][n] = n
    x = np.zeros(sum(matrix[n]), np.float32)
    column = [row[n] for row in matrix]
    match how:
        case "matrix":
            return _say(lambda: comm.all_to_all_v(x, matrix))
        case "unchecked":
            return _say(lambda: comm.all_to_all_v(x, matrix, check=False))
        case "column":
            column[2] += n == 1
            return _say(lambda: comm.all_to_all_v(x, send_counts=matrix[n], recv_counts=column))
        case "output":
            out = np.zeros(sum(column) + (n == 2), np.float32)
            return _say(lambda: comm.all_to_all_v(x, send_counts=matrix[n], out=out))
        case "type":
            return _say(lambda: comm.all_to_all_v(x.astype(np.int16) if n == 1 else x, matrix))
        case "other":
            return _say(lambda: comm.all_reduce(x) if n == 2 else comm.all_to_all_v(x, matrix))
        case _:
            if n == 1:
                os._exit(0)
            return _say(lambda: comm.all_to_all_v(x, matrix))


def is_argument(error: str) -> bool:
    return error.startswith(ArgumentError.__name__)
