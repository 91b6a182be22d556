"""Machines that other synthesizers know by name and that their files only refer to."""

from __future__ import annotations

from acclc.importers.model import Draft
from acclc.ir.problem import NodeKind

DGX1: tuple[tuple[int, int, int], ...] = (
    *((0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2)),
    *((2, 6, 2), (3, 7, 1), (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1), (5, 7, 2), (6, 7, 2)),
)
"""(a, b, links): TACCL's and TE-CCL's matrix of the DGX-1 and the NDv2."""

MI250: tuple[tuple[int, int, int], ...] = (
    *((0, 1, 4), (0, 4, 2), (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 3, 4), (2, 6, 1), (2, 9, 1)),
    *((2, 10, 1), (3, 7, 2), (3, 11, 1), (4, 5, 4), (4, 6, 1), (5, 6, 1), (5, 7, 1), (6, 7, 4), (8, 9, 4)),
    *((8, 12, 2), (9, 13, 1), (10, 11, 4), (10, 14, 1), (11, 15, 2), (12, 13, 4), (12, 14, 1), (13, 14, 1)),
    *((13, 15, 1), (14, 15, 4)),
)
"""TE-CCL's matrix of a box of eight MI250."""


def gpus(draft: Draft, count: int) -> list[int]:
    """Add GPUs."""
    return [draft.node(NodeKind.GPU, "g") for _ in range(count)]


def wire(draft: Draft, members: list[int], pairs: tuple[tuple[int, int, int], ...], cls: str) -> None:
    """Join the GPUs of one box directly."""
    for a, b, count in pairs:
        draft.link(members[a], members[b], count, cls)


def star(draft: Draft, members: list[int], array: str, cls: str, label: str = "") -> int:
    """Join nodes by a switch; return it."""
    switch = draft.node(NodeKind.SWITCH, array, label)
    for m in members:
        draft.link(m, switch, 1, cls)
    return switch
