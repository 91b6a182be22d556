"""Shards by who has and who needs them: what every bound asks of a problem, counted once.

An all_gather over N ranks has N shards with N targets each; searches evaluate hundreds of cuts of them. So equal shards
are counted together, and a set of ranks is an integer with a bit for each: a cut's load is then some operations on
integers a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acclc.ir.problem import NodeId, Shard

Nodes = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class ShardClass:
    """``count`` shards that the same ranks hold (all of it, or, reduced, a contribution each) and the same need."""

    sources: Nodes
    """Distinct, in the order of the shards."""
    targets: Nodes
    reduced: bool
    count: int
    held: int
    """The sources as bits."""
    needed: int
    """The targets as bits."""
    first: Shard

    def leaves(self, inside: int) -> bool:
        """Whether such a shard must leave a node set (as bits).

        A copied shard must if all who hold it are inside and a target is outside; a reduced one if a
        contribution is inside and a target is outside.
        """
        if not self.needed & ~inside:
            return False
        if self.reduced:
            return self.held & inside != 0
        return self.held != 0 and not self.held & ~inside


def bits(nodes: Iterable[int]) -> int:
    """Return a set of nodes as an integer with a bit for each."""
    found = 0
    for v in nodes:
        found |= 1 << v
    return found


_known: tuple[tuple[Shard, ...], tuple[ShardClass, ...]] = ((), ())
"""The shards asked for last, and their classes: whoever evaluates one problem's certificates asks again and again."""


def shard_classes(shards: Sequence[Shard]) -> tuple[ShardClass, ...]:
    """Return the classes of some shards, in the order of their first ones."""
    global _known
    if not isinstance(shards, tuple):
        return _summary(shards)  # a list may have changed since
    known = _known
    if known[0] is not shards:
        known = _known = (shards, _summary(shards))
    return known[1]


def _summary(shards: Sequence[Shard]) -> tuple[ShardClass, ...]:
    # Node tuples are few where shards are many; each is made a set of bits once.
    sets: dict[tuple[int, ...], tuple[Nodes, int]] = {}

    def node_set(ranks: tuple[int, ...]) -> tuple[Nodes, int]:
        if ranks not in sets:
            sets[ranks] = tuple(dict.fromkeys(NodeId(r) for r in ranks)), bits(ranks)
        return sets[ranks]

    members: dict[tuple[int, int, bool], list[tuple[Nodes, Nodes, Shard]]] = {}
    for shard in shards:
        (sources, held), (targets, needed) = node_set(shard.sources), node_set(shard.targets)
        members.setdefault((held, needed, shard.reduced), []).append((sources, targets, shard))
    return tuple(
        ShardClass(*of_class[0][:2], reduced, len(of_class), held, needed, of_class[0][2])
        for (held, needed, reduced), of_class in members.items()
    )
