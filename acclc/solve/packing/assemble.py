"""Trees become a pipelined schedule: shards are cut into one chunk a tree, a level for each hop.

A tree of the reversed machine collects: its leaves send first, every rank adds its own. For a reduction that all need,
each rank is the root of a part of the shard; a chunk of it goes up an in-tree and down an out-tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.bounds.families import Family, root_of
from acclc.ir.problem import LinkId, Problem, Rank, Shard
from acclc.ir.schedule import OWN, Chunk, ChunkId, Output, Schedule, Transfer, TransferId
from acclc.solve.packing.solver import Packing
from acclc.solve.packing.trees import Tree

STRATEGY = "packing"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a shard and the trees it takes: up ``gather`` (of the reversed machine), then down ``spread``."""

    share: Fraction
    gather: Tree | None
    spread: Tree | None


def schedule_of(problem: Problem, kind: Family, gather: Packing | None, spread: Packing | None) -> Schedule:
    """Return the schedule in which every chunk follows its trees. Nothing waits for a step to end."""
    return written(problem, _pieces_of_shards(problem, kind, gather, spread), STRATEGY)


def written(problem: Problem, pieces: Iterable[Sequence[Piece]], strategy: str) -> Schedule:
    """Return the schedule in which the pieces of each shard take their trees.

    A tree that spreads what several ranks hold may start at any of them; of a reduction it starts at its root.
    """
    writer = _Writer(problem)
    for shard, parts in zip(problem.shards, pieces, strict=True):
        writer.shard(shard, parts)
    return writer.finish(strategy)


def _pieces_of_shards(
    problem: Problem, kind: Family, gather: Packing | None, spread: Packing | None
) -> list[list[Piece]]:
    """Cut every shard: [0, 1) of the shards of one root runs through that root's trees."""
    up, down = _by_root(gather), _by_root(spread)
    if kind is Family.BOTH:
        assert gather is not None, "both ways are packed, with the same roots"
        part = Fraction(1, gather.task.total)
        whole = [piece for r in sorted(up) for piece in _merged(up[r], down[r], part)]
        return [whole for _ in problem.shards]
    trees = up if kind is Family.COLLECT else down
    queues = {root: _shards_in_turn(of_root) for root, of_root in trees.items()}
    pieces: list[list[Piece]] = []
    for shard in problem.shards:
        parts = next(queues[root_of(shard, kind)])
        pieces.append(
            [Piece(share, tree, None) if kind is Family.COLLECT else Piece(share, None, tree) for share, tree in parts]
        )
    return pieces


Shares = list[tuple[Fraction, Tree]]


def _by_root(packing: Packing | None) -> dict[Rank, Shares]:
    """Return each root's trees, with the shards that each carries."""
    found: dict[Rank, Shares] = {}
    if packing is not None:
        for tree in packing.trees:
            found.setdefault(tree.root, []).append((Fraction(tree.weight, packing.k), tree))
    return found


def _shards_in_turn(trees: Shares) -> Iterator[Shares]:
    """Deal a root's trees out to its shards, one whole shard at a time."""
    part: Shares = []
    room = Fraction(1)
    for amount, tree in trees:
        left = amount
        while left:
            share = min(left, room)
            part.append((share, tree))
            left, room = left - share, room - share
            if not room:
                yield part
                part, room = [], Fraction(1)


def _merged(up: Shares, down: Shares, part: Fraction) -> Iterator[Piece]:
    """Lay two ways to cut the same part of a shard over each other."""
    first, second = up[::-1], down[::-1]
    while first:
        (a, gather), (b, spread) = first.pop(), second.pop()
        share = min(a, b)
        if a > share:
            first.append((a - share, gather))
        if b > share:
            second.append((b - share, spread))
        yield Piece(share * part, gather, spread)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A transfer before it has its number; operands are drafts by position."""

    step: int
    chunk: ChunkId
    src: Rank
    dst: Rank
    path: tuple[LinkId, ...]
    operands: tuple[int, ...]


class _Writer:
    """Collects transfers and outputs; numbers them by level at the end."""

    def __init__(self, problem: Problem) -> None:
        self._ranks = problem.topology.ranks
        self._chunks: list[Chunk] = []
        self._drafts: list[_Draft] = []
        self._outputs: list[tuple[Rank, ChunkId, tuple[int, ...]]] = []

    def shard(self, shard: Shard, pieces: Sequence[Piece]) -> None:
        begin = Fraction(0)
        for index, piece in enumerate(pieces):
            chunk = ChunkId(len(self._chunks))
            self._chunks.append(Chunk(chunk, shard.id, index, begin, begin + piece.share))
            begin += piece.share
            self._follow(shard, chunk, piece)

    def _follow(self, shard: Shard, chunk: ChunkId, piece: Piece) -> None:
        """Send a chunk along its trees and say what each rank ends up with."""
        held: dict[Rank, tuple[int, ...]] = dict.fromkeys(shard.sources, (OWN,))
        level = 0
        if piece.gather is not None:
            level = self._collect(chunk, piece.gather, held)
        if piece.spread is not None:
            whole = (piece.spread.root,) if shard.reduced else tuple(held)
            self._spread(chunk, piece.spread, held, whole, level)
        self._outputs += [(r, chunk, held[r]) for r in shard.targets]

    def _collect(self, chunk: ChunkId, tree: Tree, held: dict[Rank, tuple[int, ...]]) -> int:
        """Send every rank's sum to its parent, leaves first; return the level at which the root's is complete."""
        level = dict.fromkeys(self._ranks, 0)
        for hop in reversed(tree.hops):
            step = level[hop.child]
            arrival = self._send(step, chunk, hop.child, hop.parent, hop.path[::-1], held[hop.child])
            held[hop.parent] = (*held.get(hop.parent, ()), arrival)
            level[hop.parent] = max(level[hop.parent], step + 1)
        return level[tree.root]

    def _spread(
        self, chunk: ChunkId, tree: Tree, held: dict[Rank, tuple[int, ...]], whole: Sequence[Rank], first: int
    ) -> None:
        """Send what the ranks have that hold it whole to all others, hop by hop."""
        level = dict.fromkeys(whole, first)
        carried = {rank: held[rank] for rank in whole}
        for hop in tree.hops:
            step = level[hop.parent]
            arrival = self._send(step, chunk, hop.parent, hop.child, hop.path, carried[hop.parent])
            level[hop.child] = step + 1
            carried[hop.child] = (arrival,)
        held.update(carried)

    def _send(
        self, step: int, chunk: ChunkId, src: Rank, dst: Rank, path: tuple[LinkId, ...], operands: tuple[int, ...]
    ) -> int:
        self._drafts.append(_Draft(step, chunk, src, dst, path, operands))
        return len(self._drafts) - 1

    def finish(self, strategy: str) -> Schedule:
        """Number the transfers by level; of one level those first that most hops wait for, then as the trees have them.

        A slice's last transfers then have the least way to go, so that less time passes after the fullest link's end.
        """
        waiting = [0] * len(self._drafts)
        for n in reversed(range(len(self._drafts))):
            for o in self._drafts[n].operands:
                if o != OWN:
                    waiting[o] = max(waiting[o], waiting[n] + 1)
        drafts = self._drafts
        order = sorted(range(len(drafts)), key=lambda n: (drafts[n].step, -waiting[n], drafts[n].chunk, n))
        ids = {number: TransferId(position) for position, number in enumerate(order)}
        ids[OWN] = OWN

        def named(operands: Iterable[int]) -> tuple[TransferId, ...]:
            return tuple(ids[o] for o in operands)

        transfers = tuple(
            Transfer(ids[n], d.chunk, d.src, d.dst, d.path, d.step, named(d.operands))
            for n in order
            for d in (self._drafts[n],)
        )
        outputs = tuple(Output(rank, chunk, named(operands)) for rank, chunk, operands in self._outputs)
        return Schedule(tuple(self._chunks), transfers, outputs, (), strategy)
