"""What the ranks of an all_to_all_v tell each other of their counts, and where they do not agree."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from acclc_runtime.counts import Matrix, checked_matrix, checked_row
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestCollective


@dataclass(frozen=True, slots=True)
class ToldCounts:
    """One rank's say: the whole matrix, or its own row (and, if it knows it, its column)."""

    row: tuple[int, ...]
    matrix: Matrix | None
    column: tuple[int, ...] | None
    check: bool

    @staticmethod
    def of(
        collective: ManifestCollective, position: int, counts: Any, send_counts: Any, recv_counts: Any, check: bool
    ) -> ToldCounts:
        """Return what a call's arguments say; ``position`` is the rank in the group.

        Raises:
            ArgumentError: too little, too much, or no counts.
        """
        name = collective.name
        if (counts is None) == (send_counts is None):
            raise ArgumentError(
                f"{name} needs counts= (the matrix: row i says what rank i sends to each) or send_counts= (this rank's "
                "row), one of them"
            )
        column = None if recv_counts is None else checked_row(collective, recv_counts, "recv_counts")
        if counts is None:
            return ToldCounts(checked_row(collective, send_counts, "send_counts"), None, column, True)
        matrix = checked_matrix(collective, counts)
        own = tuple(row[position] for row in matrix)
        if column is not None and column != own:
            at = next(i for i, (a, b) in enumerate(zip(column, own, strict=True)) if a != b)
            raise ArgumentError(f"{name}: recv_counts, entry {at} is {column[at]}; counts say {own[at]}")
        return ToldCounts(matrix[position], matrix, column, check)

    def objection(self, collective: ManifestCollective, position: int, rows: Matrix) -> str:
        """Return where what this rank says is not what the others say (``rows``: each one's own); "" if nowhere."""
        ranks = dict(zip(collective.positions, collective.ranks, strict=True))
        if self.matrix is not None:
            for i, (mine, theirs) in enumerate(zip(self.matrix, rows, strict=True)):
                for j, (a, b) in enumerate(zip(mine, theirs, strict=True)):
                    if a != b:
                        return (
                            f"{collective.name}: the counts differ between ranks: by rank {ranks[position]}, rank "
                            f"{ranks[i]} sends {a} elements to rank {ranks[j]}; by rank {ranks[i]} itself it sends {b}"
                        )
        for i, expected in enumerate(self.column or ()):
            if expected != rows[i][position]:
                return (
                    f"{collective.name}: the counts differ between ranks: rank {ranks[position]} expects {expected} "
                    f"elements of rank {ranks[i]}, which sends it {rows[i][position]}"
                )
        return ""


def split_counts(array: Any, sizes: Any, ranks: int, what: str) -> list[int]:
    """Return torch's split sizes (of the first dimension) in elements; even ones where they are left out.

    Raises:
        ArgumentError: they do not add up to the first dimension.
    """
    shape = tuple(array.shape)
    length = shape[0] if shape else 0
    inner = prod(shape[1:])
    if sizes is None:
        if length % ranks:
            raise ArgumentError(f"the first dimension, {length}, is not a multiple of {ranks} ranks; give {what}")
        return [length // ranks * inner] * ranks
    found = [int(size) for size in sizes]
    if sum(found) != length:
        raise ArgumentError(f"{what} {found} add up to {sum(found)}; the first dimension is {length}")
    return [size * inner for size in found]
