"""Items: one chunk and how it is to travel. Solvers decide the moves of each item; ``assemble`` makes the schedule.

- COPY: an out-tree from the sources (a forest, if there are several) to the targets.
- REDUCE: an in-tree of the sources to one target. It is a COPY on the reversed graph, read backward in time.
- MEET: an in-tree to a root, and after it an out-tree to the targets: a reduction that several ranks need.
- A COPY with an ``origin`` carries one contribution to a reduction; each target reduces all of them itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from acclc.ir.problem import Problem, Rank, Shard, ShardId
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks
from acclc.solve.network import Edge, Network


class Kind(StrEnum):
    """How an item travels."""

    COPY = "copy"
    REDUCE = "reduce"
    MEET = "meet"


class Shared(StrEnum):
    """How reductions that several ranks need are done."""

    MEET = "meet"
    """Reduced at one rank, then multicast; the chunks of a shard meet at all ranks that can be it, in turn."""
    HUB = "hub"
    """All chunks meet at the rank with the widest links."""
    GATHER = "gather"
    """Every contribution goes to every target, which reduces locally: fewest steps, most traffic."""


@dataclass(frozen=True, slots=True)
class Item:
    """One chunk of one shard, or one contribution to it. ``root``: where it is reduced (REDUCE, MEET)."""

    id: int
    shard: ShardId
    chunk: int
    kind: Kind
    sources: tuple[Rank, ...]
    targets: tuple[Rank, ...]
    root: Rank | None = None
    origin: Rank | None = None

    @property
    def is_path(self) -> bool:
        """Whether it is one copy from one rank to one other: such items are interchangeable flow."""
        return self.kind is Kind.COPY and len(self.sources) == 1 and len(self.targets) == 1


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of an item, each (edge, step): the in-tree of a reduction, and the out-tree of a copy."""

    inward: tuple[tuple[Edge, int], ...] = ()
    outward: tuple[tuple[Edge, int], ...] = ()


def needs_meeting(shard: Shard) -> bool:
    """Whether a shard is a reduction of several contributions that several ranks need."""
    return shard.reduced and len(set(shard.sources)) > 1 and len(set(shard.targets)) > 1


def formulate(problem: Problem, network: Network, chunks: int, shared: Shared = Shared.MEET) -> tuple[Item, ...]:
    """Return the items of a problem with ``chunks`` chunks a shard."""
    items: list[Item] = []
    for shard in problem.shards:
        sources = tuple(sorted(set(shard.sources)))
        targets = tuple(sorted(set(shard.targets)))
        roots = meeting_ranks(network, sources, targets) if needs_meeting(shard) else ()
        if shared is Shared.HUB and roots:
            roots = (hub(network, roots),)
        for chunk in range(chunks):
            if not shard.reduced or len(sources) == 1:
                items.append(Item(len(items), shard.id, chunk, Kind.COPY, sources, targets))
            elif len(targets) <= 1:
                root = targets[0] if targets else sources[0]
                items.append(Item(len(items), shard.id, chunk, Kind.REDUCE, sources, targets, root))
            elif shared is not Shared.GATHER and roots:
                root = roots[chunk % len(roots)]
                items.append(Item(len(items), shard.id, chunk, Kind.MEET, sources, targets, root))
            else:
                first = len(items)
                items.extend(
                    Item(first + k, shard.id, chunk, Kind.COPY, (origin,), targets, origin=origin)
                    for k, origin in enumerate(sources)
                )
    return tuple(items)


def meeting_ranks(network: Network, sources: Sequence[Rank], targets: Sequence[Rank]) -> tuple[Rank, ...]:
    """Return the ranks where a reduction may meet: the targets that can, else any rank that can."""

    def fits(rank: Rank) -> bool:
        into, out = network.hops((rank,), backward=True), network.hops((rank,))
        return all(s in into for s in sources) and all(t in out for t in targets)

    among_targets = tuple(t for t in targets if fits(t))
    return among_targets or tuple(r for r in network.ranks if r in network.relays and fits(r))


def width(network: Network, rank: Rank) -> int:
    """The lanes that enter or leave a rank."""
    links = network.topology.links
    return sum(network.capacity[x.id] for x in links if int(rank) in (x.src, x.dst))


def hub(network: Network, ranks: Sequence[Rank]) -> Rank:
    """Of some ranks the one with the widest links; of equals the first."""
    return max(ranks, key=lambda r: (width(network, r), -r))


@dataclass(slots=True)
class _Record:
    """A transfer before it has its number: ``operands`` are records, None is the sender's own."""

    item: Item
    edge: Edge
    step: int
    operands: tuple[_Record | None, ...]


def _grow_in(item: Item, moves: Iterable[tuple[Edge, int]], records: list[_Record]) -> tuple[_Record | None, ...]:
    """Record an in-tree; return the operands of the whole at its root: own first, then in order of arrival."""
    kept = _without_idle_senders(item, list(moves))
    arrived: dict[Rank, list[_Record | None]] = {r: [None] for r in item.sources}
    for edge, step in sorted(kept, key=lambda m: (m[1], m[0].id)):
        record = _Record(item, edge, step, tuple(arrived.get(edge.src, ())))
        records.append(record)
        arrived.setdefault(edge.dst, []).append(record)
    assert item.root is not None
    return tuple(arrived.get(item.root, ()))


def _without_idle_senders(item: Item, moves: list[tuple[Edge, int]]) -> list[tuple[Edge, int]]:
    """Drop the moves of ranks that have nothing to send: no contribution, and none that came to them."""
    while True:
        filled = {e.dst for e, _ in moves} | set(item.sources)
        kept = [m for m in moves if m[0].src in filled]
        if len(kept) == len(moves):
            return kept
        moves = kept


def _grow_out(
    item: Item,
    moves: Iterable[tuple[Edge, int]],
    start: dict[Rank, tuple[_Record | None, ...]],
    records: list[_Record],
) -> dict[Rank, tuple[_Record | None, ...]]:
    """Record an out-tree from the ranks in ``start``; return what each rank then holds."""
    kept = list(moves)
    while True:  # drop what reaches a rank that neither needs it nor passes it on
        useful = {e.src for e, _ in kept} | set(item.targets)
        pruned = [m for m in kept if m[0].dst in useful]
        if len(pruned) == len(kept):
            break
        kept = pruned
    held = dict(start)
    for edge, step in sorted(kept, key=lambda m: (m[1], m[0].id)):
        record = _Record(item, edge, step, held[edge.src])
        records.append(record)
        assert edge.dst not in held, "an out-tree enters each rank once"
        held[edge.dst] = (record,)
    return held


def assemble(
    problem: Problem,
    chunks: int,
    items: Sequence[Item],
    moves: Sequence[Moves],
    rounds: tuple[int, ...],
    strategy: str,
    optimal: tuple[str, ...] = (),
) -> Schedule:
    """Return the schedule that the moves of the items make (``moves[k]`` are of ``items[k]``)."""
    records: list[_Record] = []
    final: dict[tuple[Rank, ChunkId], tuple[_Record | None, ...]] = {}
    for item, move in zip(items, moves, strict=True):
        chunk = ChunkId(item.shard * chunks + item.chunk)
        start: dict[Rank, tuple[_Record | None, ...]]
        if item.root is None:
            start = dict.fromkeys(item.sources, (None,))
        else:
            start = {item.root: _grow_in(item, move.inward, records)}
        held = _grow_out(item, move.outward, start, records)
        for rank in item.targets:
            if item.origin is None:
                final[rank, chunk] = held[rank]
            else:  # items of one chunk come in order of their origin: every target reduces in the same order
                final[rank, chunk] = (*final.get((rank, chunk), ()), *held[rank])
    records.sort(key=lambda r: (r.step, r.item.shard, r.item.chunk, r.item.id, r.edge.id))
    number = {id(record): TransferId(n) for n, record in enumerate(records)}

    def operands(of: tuple[_Record | None, ...]) -> tuple[TransferId, ...]:
        return tuple(OWN if r is None else number[id(r)] for r in of)

    transfers = tuple(
        Transfer(
            number[id(r)],
            ChunkId(r.item.shard * chunks + r.item.chunk),
            r.edge.src,
            r.edge.dst,
            r.edge.path,
            r.step,
            operands(r.operands),
        )
        for r in records
    )
    outputs = tuple(Output(rank, chunk, operands(final[rank, chunk])) for rank, chunk in sorted(final))
    return Schedule(
        equal_chunks(tuple(s.id for s in problem.shards), chunks), transfers, outputs, rounds, strategy, optimal
    )
