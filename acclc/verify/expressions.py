"""Values as expressions: which contributions were reduced, in which order.

Equal expressions have equal numbers (hash consing), so "the same tree at every rank", "each contribution
once" and "divided once" are comparisons of integers. An expression says nothing of the part of the shard it
stands for: the verifiers require equal parts wherever values meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from acclc.ir.problem import Problem
from acclc.verify.names import shard_name

Expression = int
"""Index into the table."""


@dataclass(frozen=True, slots=True)
class _Node:
    shard: int
    contributions: int
    """Bit i: input i of the shard (unreduced shards: one bit, whichever rank holds it)."""
    finished: bool
    """A ``final`` reduction lies on the way: avg has divided."""
    plain: int
    """The same expression without any ``final``."""


@dataclass(slots=True)
class ExpressionTable:
    """All expressions of a problem. Share one table between things whose values are compared."""

    problem: Problem
    _index: dict[tuple[object, ...], int] = field(default_factory=dict)
    _nodes: list[_Node] = field(default_factory=list)
    _complete: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._complete = [(1 << len(s.inputs)) - 1 if s.reduced else 1 for s in self.problem.shards]

    def own(self, shard: int, rank: int) -> Expression | None:
        """Return the rank's own input of the shard, or None where it has none."""
        record = self.problem.shards[shard]
        for position, place in enumerate(record.inputs):
            if place.rank == rank:
                key, bit = (("own", shard, rank), 1 << position) if record.reduced else (("data", shard), 1)
                return self._intern(key, shard, bit, False, None)
        return None

    def reduce(self, operands: tuple[Expression, ...], final: bool = False) -> Expression:
        """Return the ordered reduction; callers have asked :meth:`objection` first."""
        if len(operands) == 1 and not final:
            return operands[0]
        shard, bits, finished = self._nodes[operands[0]].shard, 0, final
        for operand in operands:
            node = self._nodes[operand]
            bits |= node.contributions
            finished = finished or node.finished
        plain_operands = tuple(self._nodes[o].plain for o in operands)
        plain = None
        if final or plain_operands != operands:
            plain = plain_operands[0] if len(operands) == 1 else self.reduce(plain_operands)
        return self._intern(("reduce", final, operands), shard, bits, finished, plain)

    def _intern(self, key: tuple[object, ...], shard: int, bits: int, finished: bool, plain: int | None) -> Expression:
        number = self._index.get(key)
        if number is None:
            number = len(self._nodes)
            self._index[key] = number
            self._nodes.append(_Node(shard, bits, finished, number if plain is None else plain))
        return number

    def objection(self, operands: tuple[Expression, ...], final: bool) -> str | None:
        """Say what is wrong with this reduction, if anything is.

        Contributions must be of one shard and disjoint; only reduced shards are reduced; ``final`` marks
        exactly the reduction that completes a value.
        """
        nodes = [self._nodes[o] for o in operands]
        shards = {n.shard for n in nodes}
        if len(shards) > 1:
            names = ", ".join(shard_name(self.problem, s) for s in sorted(shards))
            return f"reduces different shards together: {names}"
        record = self.problem.shards[nodes[0].shard]
        if len(nodes) > 1 and not record.reduced:
            return f"reduces {len(nodes)} copies of {shard_name(self.problem, record.id)}, which is not reduced"
        bits = 0
        for node in nodes:
            if bits & node.contributions:
                twice = self._ranks(record.id, bits & node.contributions)
                return f"reduces the contribution of {twice} to {shard_name(self.problem, record.id)} twice"
            bits |= node.contributions
        return self._final_objection(record.id, [n.contributions for n in nodes], bits, final)

    def _final_objection(self, shard: int, parts: list[int], bits: int, final: bool) -> str | None:
        record = self.problem.shards[shard]
        if len(record.inputs) == 1 and record.reduced:
            return None  # one contribution: avg divides by one, wherever
        complete = self._complete[shard]
        completes = record.reduced and bits == complete and all(p != complete for p in parts)
        if completes and not final:
            return f"completes the reduction of {shard_name(self.problem, shard)} but is not marked final"
        if final and not completes:
            why = "it is not reduced" if not record.reduced else "the reduction is not completed here"
            return f"is marked final for {shard_name(self.problem, shard)}, but {why}"
        return None

    def _ranks(self, shard: int, bits: int) -> str:
        inputs = self.problem.shards[shard].inputs
        ranks = [str(p.rank) for i, p in enumerate(inputs) if bits >> i & 1]
        return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(ranks)

    def shard(self, expression: Expression) -> int:
        """Return the shard that the value belongs to."""
        return self._nodes[expression].shard

    def plain(self, expression: Expression) -> Expression:
        """Return the expression without ``final`` marks, as schedules write it."""
        return self._nodes[expression].plain

    def complete(self, expression: Expression) -> bool:
        """Whether every contribution is in it."""
        node = self._nodes[expression]
        return node.contributions == self._complete[node.shard]

    def finished(self, expression: Expression) -> bool:
        """Whether a ``final`` reduction made it."""
        return self._nodes[expression].finished

    def overlap(self, left: Expression, right: Expression) -> bool:
        """Whether a contribution is in both."""
        return bool(self._nodes[left].contributions & self._nodes[right].contributions)

    def missing(self, expression: Expression) -> str:
        """Name the ranks whose contributions are not in it."""
        node = self._nodes[expression]
        return self._ranks(node.shard, self._complete[node.shard] & ~node.contributions)

    def describe(self, expression: Expression) -> str:
        """Say in words what the value is."""
        node = self._nodes[expression]
        record = self.problem.shards[node.shard]
        name = shard_name(self.problem, node.shard)
        if not record.reduced:
            return name
        if node.contributions == self._complete[node.shard]:
            return f"the complete reduction of {name}"
        return f"{name} reduced over {self._ranks(node.shard, node.contributions)}"
