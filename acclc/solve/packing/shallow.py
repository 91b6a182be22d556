"""Trees of less depth within the same capacities, by CP-SAT: Edmonds' condition says nothing of how deep trees get.

A unit of a shard is an item of the exact model with pooled capacities: a step of it is a level of the tree. Only where
such a model is small; with a symmetry of the machine, one tree of each orbit has variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from acclc.ir.problem import Rank, ShardId
from acclc.solve import network as networks
from acclc.solve.cpsat import Answer
from acclc.solve.items import Item, Kind, Moves
from acclc.solve.model import Question, ask
from acclc.solve.network import Network
from acclc.solve.packing.flows import Effort
from acclc.solve.packing.splitting import Scaled
from acclc.solve.packing.trees import Hop, Tree
from acclc.solve.protocol import Deadline
from acclc.solve.symmetry import Action, Symmetries

RANKS = 64
"""On a machine with more ranks nothing is tried: to list its paths and symmetries would take seconds."""
VARIABLES = 5_000
"""A larger model is not built."""
VARIABLES_PER_UNIT = 1_500
"""A model of n times as many variables gets n * n units of CP-SAT's work: twice what boxes of 8 to 16 GPUs needed."""
LEAST_WORK, MOST_WORK = 0.1, 5.0
SHARE = 0.6
"""The part of what is left that one depth may take. The least is tried first, and where it fails, by bisection."""
ARCS_PER_UNIT = 4 * 10**6
"""A unit of CP-SAT's work in the work of flows (``Effort``): both take about a second."""


def lowered(scaled: Scaled, trees: tuple[Tree, ...], most: int | None, effort: Effort) -> tuple[Tree, ...]:
    """Return trees of less depth than the given ones within the same capacities, or these where none are found.

    ``most``: trees allowed a shard of a root; a tree is made for every unit, of which a shard has k.
    """
    topology = scaled.task.topology
    depth = max((t.depth for t in trees), default=0)
    if depth < 2 or len(topology.ranks) > RANKS or topology.budgets or (most is not None and scaled.k > most):
        return trees
    search = _Search.of(scaled, depth - 1)
    if search is None:
        return trees
    aim = low = search.least
    while low < depth:
        found = search.trees(aim, effort)
        if found:
            trees, depth = found, max(t.depth for t in found)
        else:
            low = aim + 1
        aim = (low + depth) // 2
    return trees


@dataclass(slots=True)
class _Search:
    """A packing's units as items, the symmetries in which they are asked for (None: without), the work left."""

    network: Network
    items: tuple[Item, ...]
    actions: tuple[Action | None, ...]
    least: int
    work: float

    @classmethod
    def of(cls, scaled: Scaled, deepest: int) -> _Search | None:
        """Prepare a search for trees of at most ``deepest`` levels; None without any, or where the model is large."""
        network = replace(networks.of_topology(scaled.task.topology), capacity=scaled.capacity)
        roots = [r for r, weight in zip(network.ranks, scaled.task.weights, strict=True) if weight]
        least = max(max(network.hops((r,)).values()) for r in roots)
        size = scaled.demand * len(network.edges) * least
        if least > deepest or size > VARIABLES * len(network.ranks):  # a group has at most as many elements as ranks
            return None
        items = tuple(_items(scaled))
        kept = [a for a in Symmetries(network, items).actions(items) if _keeps(a, scaled.capacity)]
        actions = tuple(a for a in (*kept, None) if size // (1 if a is None else a.order) <= VARIABLES)
        if not actions:
            return None
        first = actions[0]
        variables = size // (1 if first is None else first.order)
        work = min(MOST_WORK, max(LEAST_WORK, (variables / VARIABLES_PER_UNIT) ** 2))
        return cls(network, items, actions, least, work)

    def trees(self, depth: int, effort: Effort) -> tuple[Tree, ...]:
        """Return trees of at most this depth; none where they were not found within the share of the work."""
        limit = self.work * SHARE
        for action in self.actions:
            left = min(limit, effort.work / ARCS_PER_UNIT)
            if left <= 0:
                return ()
            seconds = effort.deadline.remaining()
            deadline = Deadline.after(None if seconds is None else seconds / 2)  # what follows needs some, too
            question = Question(self.network, self.items, depth, 1, action, pooled=True)
            reply = ask(question, work=left, deadline=deadline)
            self.work -= reply.work
            limit -= reply.work
            effort.work -= int(reply.work * ARCS_PER_UNIT)
            effort.clock_cut |= reply.clock_cut
            if reply.answer is Answer.FOUND:
                return _merged(self.items, reply.moves)
            if reply.answer is Answer.UNKNOWN:  # a smaller group makes a larger model
                return ()
        return ()


def _items(scaled: Scaled) -> Iterator[Item]:
    """Yield an item for every unit of every root."""
    ranks, number = scaled.task.topology.ranks, 0
    for root, weight in zip(ranks, scaled.task.weights, strict=True):
        others = tuple(r for r in ranks if r != root)
        for unit in range(weight * scaled.k):
            yield Item(number, ShardId(int(root)), unit, Kind.COPY, (root,), others)
            number += 1


def _keeps(action: Action, capacity: tuple[int, ...]) -> bool:
    """Whether links that a symmetry takes to each other have equal capacities, not only equal rates."""
    return all(capacity[row] == capacity[orbit] for row, orbit in enumerate(action.orbit_of_row))


def _merged(items: tuple[Item, ...], moves: tuple[Moves, ...]) -> tuple[Tree, ...]:
    """Return the trees of the items in the order of their roots; equal ones are one, of their joint weight."""
    weights: dict[tuple[Rank, tuple[Hop, ...]], int] = {}
    for item, move in zip(items, moves, strict=True):
        outward = sorted(move.outward, key=lambda m: (m[1], m[0].id))
        tree = (item.sources[0], tuple(Hop(edge.src, edge.dst, edge.path) for edge, _ in outward))
        weights[tree] = weights.get(tree, 0) + 1
    return tuple(Tree(root, weight, hops) for (root, hops), weight in weights.items())
