"""Counts that differ from pair to pair and from call to call: the matrix of an all_to_all_v, and what follows from it.

``matrix[i][j]`` is how many elements group rank i sends to group rank j. Inputs lie in order of destination, outputs
in order of source, without gaps (MPI_Alltoallv with packed displacements). The schedule is compiled once: what it
moves are fractions of each pair's count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestCollective

Matrix = tuple[tuple[int, ...], ...]
LARGEST = 2**40
"""Elements of one block, at most: sums of rows then fit 64 bits for any number of ranks."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """What one call's counts say: how long each shard is, and where each unit of each rank's buffers begins.

    ``shards`` by number; ``inputs`` and ``outputs`` by position in the collective's ranks, then by unit, with the
    length of the whole buffer as the last entry. In elements.
    """

    shards: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]

    @property
    def largest(self) -> int:
        """The largest count: it says how many slices a call has, and how long a scratch slot is."""
        return max(self.shards, default=0)

    @property
    def size(self) -> int:
        """S in elements: the longest input."""
        return max((row[-1] for row in self.inputs), default=0)

    def words(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Return the table that kernels read (``lengths`` of put.cuh)."""
        units = max((len(row) - 1 for row in (*self.inputs, *self.outputs)), default=0)
        table = [*self.shards]
        for row in (*self.inputs, *self.outputs):
            table += [*row[:-1], *([0] * (units - len(row) + 1))]
        return np.asarray(table, np.uint64)


def digest(matrix: Matrix) -> int:
    """Return 63 bits that tell one matrix from another: ranks compare them before data moves."""
    return int.from_bytes(hashlib.sha256(repr(matrix).encode()).digest()[:8], "little") >> 1


def table_words(collective: ManifestCollective) -> int:
    """Return how many words :meth:`Lengths.words` has for a collective; 0 where all counts are one."""
    if not collective.varying:
        return 0
    units = max((*collective.input_units, *collective.output_units), default=0)
    return len(collective.shards) + 2 * len(collective.ranks) * units


def lengths_of(collective: ManifestCollective, matrix: Matrix) -> Lengths:
    """Return the lengths of a call. The counts of a shard are those of the pair that it goes between."""
    index = {rank: n for n, rank in enumerate(collective.ranks)}
    position = dict(zip(collective.ranks, collective.positions, strict=True))
    shards = tuple(matrix[position[s.inputs[0][0]]][position[s.outputs[0][0]]] for s in collective.shards)
    inputs = [[0] * units for units in collective.input_units]
    outputs = [[0] * units for units in collective.output_units]
    for shard, count in zip(collective.shards, shards, strict=True):
        for places, units in ((shard.inputs, inputs), (shard.outputs, outputs)):
            for rank, unit in places:
                units[index[rank]][unit] = count
    begins = [[tuple(accumulate(row, initial=0)) for row in units] for units in (inputs, outputs)]
    return Lengths(shards, tuple(begins[0]), tuple(begins[1]))


def lengths_told(collective: ManifestCollective, counts: Any) -> Lengths | None:
    """Return what a call's ``counts`` mean; None for a collective with one count, which takes none.

    Raises:
        ArgumentError: counts are missing, there without a meaning, or no matrix.
    """
    if collective.varying:
        return lengths_of(collective, checked_matrix(collective, counts))
    if counts is not None:
        raise ArgumentError(f"{collective.name} has one count, which the arrays tell; leave counts= out")
    return None


def checked_matrix(collective: ManifestCollective, counts: Any) -> Matrix:
    """Return a user's counts as a matrix: N rows of N whole numbers, rows and columns in order of the group.

    Raises:
        ArgumentError: another shape, or an entry that is no count.
    """
    n = len(collective.ranks)
    if counts is None:
        raise ArgumentError(
            f"{collective.name} needs counts=: a matrix of {n} rows of {n}; row i says what rank i sends to each rank"
        )
    rows = _sequence(counts)
    if rows is None or len(rows) != n:
        got = "no matrix" if rows is None else f"{len(rows)} rows"
        raise ArgumentError(f"{collective.name}: counts are a matrix of {n} rows of {n}; got {got}")
    return tuple(checked_row(collective, row, f"row {i} of counts") for i, row in enumerate(rows))


def checked_row(collective: ManifestCollective, counts: Any, what: str) -> tuple[int, ...]:
    """Return one row of counts.

    Raises:
        ArgumentError: naming ``what``.
    """
    n = len(collective.ranks)
    row = _sequence(counts)
    if row is None or len(row) != n:
        got = "no list" if row is None else f"{len(row)}"
        raise ArgumentError(f"{collective.name}: {what} has one count for each of {n} ranks; got {got}")
    for j, value in enumerate(row):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
        if not whole or not 0 <= int(value) <= LARGEST:
            raise ArgumentError(
                f"{collective.name}: {what}, entry {j} is {value!r}; a count is a whole number from 0 to {LARGEST}"
            )
    return tuple(map(int, row))


def _sequence(values: Any) -> Sequence[Any] | None:
    """Return a list, tuple, array or tensor as a list; None for anything else."""
    if isinstance(values, (list, tuple)):
        return values
    to_list = getattr(values, "tolist", None)
    found = to_list() if callable(to_list) else None
    return found if isinstance(found, list) else None
