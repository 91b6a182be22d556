"""Problems and schedules made by hand, and a plain lowering of their own: nothing here comes from solve or lower."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from acclc.ir.problem import (
    Collective,
    Demand,
    InPlace,
    Link,
    LinkClass,
    LinkId,
    Node,
    NodeId,
    NodeKind,
    Op,
    Place,
    Problem,
    Rank,
    Shard,
    ShardId,
    Topology,
)
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks

WIRE = LinkClass("wire", Fraction(10**9), Fraction(1, 10**6))

IN_PLACE = {
    Collective.ALL_GATHER: InPlace.INPUT_IN_OUTPUT,
    Collective.GATHER: InPlace.INPUT_IN_OUTPUT,
    Collective.REDUCE_SCATTER: InPlace.OUTPUT_IN_INPUT,
    Collective.SCATTER: InPlace.OUTPUT_IN_INPUT,
    Collective.ALL_REDUCE: InPlace.SAME,
    Collective.BROADCAST: InPlace.SAME,
    Collective.REDUCE: InPlace.SAME,
    Collective.ALL_TO_ALL: InPlace.NONE,
}
REDUCING = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)


def topology(name: str, ranks: int, edges: Iterable[tuple[int, int]], switches: int = 0) -> Topology:
    """A graph of GPUs (then switches) with one-lane links."""
    nodes = [Node(NodeId(i), f"g[{i}]", NodeKind.GPU) for i in range(ranks)]
    nodes += [Node(NodeId(ranks + i), f"s[{i}]", NodeKind.SWITCH) for i in range(switches)]
    links = [Link(LinkId(i), NodeId(a), NodeId(b), 1, WIRE) for i, (a, b) in enumerate(edges)]
    return Topology(name, tuple(nodes), tuple(links))


def ring(n: int) -> Topology:
    """Links i -> i + 1 first, then i -> i - 1."""
    edges = [(i, (i + 1) % n) for i in range(n)] + [(i, (i - 1) % n) for i in range(n)]
    return topology(f"ring{n}", n, dict.fromkeys(edges))


def full(n: int) -> Topology:
    return topology(f"full{n}", n, [(a, b) for a in range(n) for b in range(n) if a != b])


def star(n: int) -> Topology:
    """GPUs around one switch: links i -> switch, then switch -> i."""
    return topology(f"star{n}", n, [(i, n) for i in range(n)] + [(n, i) for i in range(n)], switches=1)


def shards_of(collective: Collective, group: tuple[Rank, ...], root: Rank | None) -> tuple[Shard, ...]:
    """The table of the definitions, written out once more."""

    def make(number: int, inputs: list[tuple[Rank, int]], outputs: list[tuple[Rank, int]]) -> Shard:
        return Shard(
            ShardId(number),
            f"part[{number}]",
            0,
            tuple(Place(r, u) for r, u in inputs),
            tuple(Place(r, u) for r, u in outputs),
            collective in REDUCING,
        )

    everyone = [(r, 0) for r in group]
    rooted = root if root is not None else group[0]
    numbered = list(enumerate(group))
    match collective:
        case Collective.ALL_GATHER:
            return tuple(make(i, [(g, 0)], [(h, i) for h in group]) for i, g in numbered)
        case Collective.REDUCE_SCATTER:
            return tuple(make(i, [(h, i) for h in group], [(g, 0)]) for i, g in numbered)
        case Collective.ALL_REDUCE:
            return (make(0, everyone, everyone),)
        case Collective.BROADCAST:
            return (make(0, [(rooted, 0)], everyone),)
        case Collective.REDUCE:
            return (make(0, everyone, [(rooted, 0)]),)
        case Collective.GATHER:
            return tuple(make(i, [(g, 0)], [(rooted, i)]) for i, g in numbered)
        case Collective.SCATTER:
            return tuple(make(i, [(rooted, i)], [(g, 0)]) for i, g in numbered)
        case Collective.ALL_TO_ALL:
            n = len(group)
            return tuple(make(i * n + j, [(g, j)], [(h, i)]) for i, g in numbered for j, h in numbered)
    raise AssertionError(collective)


def problem(
    graph: Topology,
    collective: Collective,
    group: tuple[int, ...] | None = None,
    root: int = 0,
) -> Problem:
    members = tuple(Rank(r) for r in group) if group is not None else graph.ranks
    rooted = collective in (Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER)
    demand = Demand(
        collective,
        members,
        Rank(root) if rooted else None,
        Op.SUM if collective in REDUCING else None,
        IN_PLACE[collective],
    )
    shards = shards_of(collective, members, demand.root)
    return Problem(f"{collective.value}_{graph.name}", graph, collective, (demand,), shards)


class Builder:
    """Writes a schedule transfer by transfer; ``move`` returns the transfer's id to use as an operand."""

    def __init__(self, what: Problem, chunks: int, steps: int) -> None:
        self.problem = what
        self.chunks = equal_chunks(tuple(s.id for s in what.shards), chunks)
        self.steps = steps
        self.moves: list[Transfer] = []
        self.ends: list[Output] = []

    def path(self, src: int, dst: int) -> tuple[LinkId, ...]:
        links = self.problem.topology.links
        direct = [x.id for x in links if (x.src, x.dst) == (src, dst)]
        if direct:
            return (direct[0],)
        return next((a.id, b.id) for a in links for b in links if a.src == src and b.dst == dst and a.dst == b.src)

    def move(self, chunk: int, src: int, dst: int, step: int, operands: tuple[int, ...] = (OWN,)) -> int:
        number = len(self.moves)
        reads = tuple(TransferId(o) for o in operands)
        path = self.path(src, dst)
        self.moves.append(Transfer(TransferId(number), ChunkId(chunk), Rank(src), Rank(dst), path, step, reads))
        return number

    def end(self, rank: int, chunk: int, operands: tuple[int, ...] = (OWN,)) -> None:
        self.ends.append(Output(Rank(rank), ChunkId(chunk), tuple(TransferId(o) for o in operands)))

    def schedule(self) -> Schedule:
        """Put the transfers in order of step and give each step the rounds it needs."""
        order = sorted(range(len(self.moves)), key=lambda i: (self.moves[i].step, i))
        new = {old: TransferId(i) for i, old in enumerate(order)} | {OWN: OWN}
        moves = tuple(
            Transfer(new[m.id], m.chunk, m.src, m.dst, m.path, m.step, tuple(new[o] for o in m.operands))
            for m in (self.moves[i] for i in order)
        )
        ends = tuple(Output(e.rank, e.chunk, tuple(new[o] for o in e.operands)) for e in self.ends)
        rounds = []
        for step in range(self.steps):
            load: dict[int, int] = {}
            for m in moves:
                for link in m.path if m.step == step else ():
                    load[link] = load.get(link, 0) + 1
            rounds.append(max(load.values(), default=1))
        return Schedule(self.chunks, moves, ends, tuple(rounds), "hand")


def all_gather_ring(what: Problem) -> Schedule:
    """Every shard goes once around, one step a hop."""
    n = len(what.group)
    b = Builder(what, 1, n - 1)
    for owner in range(n):
        last = OWN
        b.end(owner, owner)
        for hop in range(n - 1):
            last = b.move(owner, (owner + hop) % n, (owner + hop + 1) % n, hop, (last,))
            b.end((owner + hop + 1) % n, owner, (last,))
    return b.schedule()


def all_gather_direct(what: Problem, chunks: int = 2) -> Schedule:
    """Everyone sends to everyone in one step (full graph or star)."""
    n = len(what.group)
    b = Builder(what, chunks, 1)
    for chunk in b.chunks:
        owner = int(chunk.shard)
        for rank in range(n):
            b.end(rank, chunk.id, (OWN if rank == owner else b.move(chunk.id, owner, rank, 0),))
    return b.schedule()


def reduce_scatter_ring(what: Problem) -> Schedule:
    """Partial sums travel around and end at the shard's rank."""
    n = len(what.group)
    b = Builder(what, 1, n - 1)
    for owner in range(n):
        operands: tuple[int, ...] = (OWN,)
        for hop in range(n - 1):
            src = (owner + 1 + hop) % n
            operands = (OWN, b.move(owner, src, (src + 1) % n, hop, operands))
        b.end(owner, owner, operands)
    return b.schedule()


def all_reduce_ring(what: Problem) -> Schedule:
    """Reduce-scatter then all-gather, the chunk i of the vector being owned by rank i."""
    n = len(what.group)
    b = Builder(what, n, 2 * n - 2)
    for owner in range(n):
        operands: tuple[int, ...] = (OWN,)
        for hop in range(n - 1):
            src = (owner + 1 + hop) % n
            operands = (OWN, b.move(owner, src, (src + 1) % n, hop, operands))
        b.end(owner, owner, operands)
        for hop in range(n - 1):
            src = (owner + hop) % n
            operands = (b.move(owner, src, (src + 1) % n, n - 1 + hop, operands),)
            b.end((src + 1) % n, owner, operands)
    return b.schedule()


def all_reduce_direct(what: Problem, chunks: int = 1) -> Schedule:
    """Everyone sends its vector to everyone; each reduces in rank order (full graph or star)."""
    n = len(what.group)
    b = Builder(what, chunks, 1)
    for chunk in b.chunks:
        sent = {(s, d): b.move(chunk.id, s, d, 0) for s in range(n) for d in range(n) if s != d}
        for d in range(n):
            b.end(d, chunk.id, tuple(OWN if s == d else sent[(s, d)] for s in range(n)))
    return b.schedule()


def broadcast_chain(what: Problem, chunks: int = 2) -> Schedule:
    """Chunks follow each other down the chain 0, 1, 2, ..."""
    n = len(what.group)
    b = Builder(what, chunks, n - 1 + chunks - 1)
    for chunk in b.chunks:
        last = OWN
        b.end(0, chunk.id)
        for hop in range(n - 1):
            last = b.move(chunk.id, hop, hop + 1, hop + chunk.index, (last,))
            b.end(hop + 1, chunk.id, (last,))
    return b.schedule()


def cases() -> dict[str, tuple[Problem, Schedule]]:
    """Small instances of every kind, by name."""
    made: dict[str, tuple[Problem, Schedule]] = {}
    for n in (2, 3, 4):
        what = problem(ring(n), Collective.ALL_GATHER)
        made[f"all_gather_ring{n}"] = (what, all_gather_ring(what))
        what = problem(ring(n), Collective.REDUCE_SCATTER)
        made[f"reduce_scatter_ring{n}"] = (what, reduce_scatter_ring(what))
        what = problem(ring(n), Collective.ALL_REDUCE)
        made[f"all_reduce_ring{n}"] = (what, all_reduce_ring(what))
        what = problem(ring(n), Collective.BROADCAST)
        made[f"broadcast_ring{n}"] = (what, broadcast_chain(what))
    for graph in (full(3), star(3)):
        what = problem(graph, Collective.ALL_GATHER)
        made[f"all_gather_{graph.name}"] = (what, all_gather_direct(what))
        what = problem(graph, Collective.ALL_REDUCE)
        made[f"all_reduce_{graph.name}"] = (what, all_reduce_direct(what))
    return made
