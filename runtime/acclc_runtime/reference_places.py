"""Where the units of buffers lie, for the reference: from the definition alone, apart from what runs."""

from __future__ import annotations

from dataclasses import dataclass

from acclc_runtime.counts import Matrix
from acclc_runtime.errors import ArgumentError
from acclc_runtime.manifest import ManifestCollective

Place = tuple[int, int]
"""(index into the collective's ranks, unit of the buffer)."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long units are: all ``count`` elements, or as the matrix of an all_to_all_v says."""

    count: int
    matrix: Matrix | None = None
    positions: tuple[int, ...] = ()

    def input(self, place: Place) -> slice:
        """Return where a unit of an input lies: what goes to group rank ``unit``, after what goes to those before."""
        index, unit = place
        if self.matrix is None:
            return slice(unit * self.count, (unit + 1) * self.count)
        row = self.matrix[self.positions[index]]
        return slice(sum(row[:unit]), sum(row[: unit + 1]))

    def output(self, place: Place) -> slice:
        """Return where a unit of an output lies: what comes from group rank ``unit``, after that of those before."""
        index, unit = place
        if self.matrix is None:
            return slice(unit * self.count, (unit + 1) * self.count)
        column = [row[self.positions[index]] for row in self.matrix]
        return slice(sum(column[:unit]), sum(column[: unit + 1]))

    def inputs_end(self, index: int, units: int) -> int:
        """Return how long an input of so many units is."""
        return self.input((index, units - 1)).stop if units else 0

    def outputs_end(self, index: int, units: int) -> int:
        """Return how long an output of so many units is."""
        return self.output((index, units - 1)).stop if units else 0


def sizes_of(collective: ManifestCollective, count: int, counts: Matrix | None) -> Sizes:
    """Return how long a call's units are.

    Raises:
        ArgumentError: a matrix is missing, or there without a meaning.
    """
    if collective.varying != (counts is not None):
        what = "needs the matrix of its counts" if collective.varying else "has one count, no matrix"
        raise ArgumentError(f"{collective.name} {what}")
    return Sizes(count, counts, collective.positions)
