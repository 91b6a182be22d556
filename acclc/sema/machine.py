"""A topology while it is built: nodes in order of declaration, links as index pairs, names by scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from acclc.ir.problem import LinkClass, NodeKind
from acclc.source import Span


@dataclass(frozen=True, slots=True)
class BuiltNode:
    """A node; its number is its position in the machine that holds it."""

    name: str
    kind: NodeKind
    can_multicast: bool
    can_reduce: bool
    indices: tuple[int, ...]
    """Of its replica and its array, outermost first."""
    span: Span


@dataclass(frozen=True, slots=True)
class BuiltLink:
    """``count`` links of one class from node ``src`` to node ``dst``."""

    src: int
    dst: int
    count: int
    cls: LinkClass
    span: Span


@dataclass(frozen=True, slots=True)
class BuiltBudget:
    """A capacity (bytes/s) shared by ``links``, positions in the machine's links."""

    name: str
    links: tuple[int, ...]
    capacity: Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class NodeArray:
    """``gpu g[4, 4]``: consecutive nodes from ``start``, the last index fastest."""

    name: str
    kind: NodeKind
    start: int
    dimensions: tuple[int, ...]
    span: Span

    @property
    def size(self) -> int:
        """How many nodes."""
        return prod(self.dimensions)


@dataclass(frozen=True, slots=True)
class ReplicaArray:
    """``hgx_h100 box[n]``: copies of ``machine``, one after the other from node ``start``."""

    name: str
    machine: Machine
    start: int
    dimensions: tuple[int, ...]
    span: Span

    @property
    def size(self) -> int:
        """How many copies."""
        return prod(self.dimensions)


Entry = NodeArray | ReplicaArray | None
"""What a name stands for; None: its declaration has an error that is reported."""


@dataclass(frozen=True)
class Machine:
    """A topology, built. ``broken``: something of it has an error, so its graph is not to be judged."""

    name: str
    doc: str
    nodes: tuple[BuiltNode, ...]
    links: tuple[BuiltLink, ...]
    budgets: tuple[BuiltBudget, ...]
    names: Mapping[str, Entry]
    classes: Mapping[tuple[str, ...], LinkClass | None]
    """By path: ``("nvlink",)`` or ``("box", "nvlink")``."""
    broken: bool

    @cached_property
    def outgoing(self) -> dict[int, list[int]]:
        """Positions of the links that leave each node."""
        found: dict[int, list[int]] = {}
        for position, link in enumerate(self.links):
            found.setdefault(link.src, []).append(position)
        return found

    @cached_property
    def incoming(self) -> dict[int, list[int]]:
        """Positions of the links that enter each node."""
        found: dict[int, list[int]] = {}
        for position, link in enumerate(self.links):
            found.setdefault(link.dst, []).append(position)
        return found


def indexed(name: str, indices: tuple[int, ...]) -> str:
    """Return ``g[1, 2]``, or ``cpu`` without indices."""
    return f"{name}[{', '.join(map(str, indices))}]" if indices else name


def shown(dimensions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions that names carry: trailing ones of length 1 are left out, except the first of all.

    So ``gpu g[a, b, c]`` with c = 1 has the nodes ``g[x, y]``.
    """
    while len(dimensions) > 1 and dimensions[-1] == 1:
        dimensions = dimensions[:-1]
    return dimensions


def unravel(position: int, dimensions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the indices of the element at ``position``, the last index fastest."""
    indices: list[int] = []
    for length in reversed(dimensions):
        position, index = divmod(position, length)
        indices.append(index)
    return tuple(reversed(indices))
