"""Topologies and problems built by hand, for tests that must not depend on the language or the library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

from acclc.ir.problem import (
    Budget,
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

Wire = tuple[int, int, int, int]
"""(src, dst, count, GB/s of one)."""

DGX1 = [
    "02112000",
    "20120100",
    "11020020",
    "12200001",
    "20000211",
    "01002012",
    "00201102",
    "00011220",
]  # NVLink multiplicities, row by row
MI250 = (
    "0-1:4 0-4:2 0-8:1 1-5:1 1-9:1 1-10:1 2-3:4 2-6:1 2-9:1 2-10:1 3-7:2 3-11:1 4-5:4 4-6:1 5-6:1 5-7:1 6-7:4 "
    "8-9:4 8-12:2 9-13:1 10-11:4 10-14:1 11-15:2 12-13:4 12-14:1 13-14:1 13-15:1 14-15:4"
)


def topology(
    ranks: int,
    wires: Iterable[Wire],
    passing: int = 0,
    *,
    latency_us: Fraction | int = 0,
    budgets: Sequence[tuple[tuple[int, ...], int]] = (),
    multicast: bool = False,
    reduce: bool = False,
    name: str = "t",
) -> Topology:
    """Build a topology of ``ranks`` GPUs and then ``passing`` switches; budgets as (links, GB/s)."""
    nodes = [Node(NodeId(i), f"g[{i}]", NodeKind.GPU) for i in range(ranks)]
    nodes += [
        Node(NodeId(ranks + i), f"s[{i}]", NodeKind.SWITCH, can_multicast=multicast, can_reduce=reduce)
        for i in range(passing)
    ]
    links = tuple(
        Link(
            LinkId(i),
            NodeId(a),
            NodeId(b),
            count,
            LinkClass(f"l{rate}", Fraction(rate * 10**9), Fraction(latency_us) / 10**6),
        )
        for i, (a, b, count, rate) in enumerate(wires)
    )
    shared = tuple(
        Budget(f"b{i}", tuple(LinkId(e) for e in members), Fraction(rate * 10**9))
        for i, (members, rate) in enumerate(budgets)
    )
    return Topology(name, tuple(nodes), links, shared)


def both(pairs: Iterable[Wire]) -> list[Wire]:
    """Each wire in both directions."""
    return [w for a, b, n, r in pairs for w in ((a, b, n, r), (b, a, n, r))]


def dgx1(rate: int = 25, **options: object) -> Topology:
    wires = [(i, j, int(c), rate) for i, row in enumerate(DGX1) for j, c in enumerate(row) if c != "0"]
    return topology(8, wires, name="dgx1", **options)  # type: ignore[arg-type]


def mi250(boxes: int = 1, net: int = 16) -> Topology:
    pairs = [tuple(map(int, p.replace(":", "-").split("-"))) for p in MI250.split()]
    wires = [(16 * b + i, 16 * b + j, n, 50) for b in range(boxes) for i, j, n in pairs]
    if boxes > 1:
        wires += [(v, 16 * boxes, 1, net) for v in range(16 * boxes)]
    return topology(16 * boxes, both(wires), int(boxes > 1), name=f"mi250x{boxes}")


def switched(boxes: int, port: int, net: int = 25, per_box: int = 8) -> Topology:
    """Boxes of GPUs on a switch each, and a network switch between boxes."""
    n = boxes * per_box
    wires = [(v, n + v // per_box, 1, port) for v in range(n)]
    if boxes > 1:
        wires += [(v, n + boxes, 1, net) for v in range(n)]
    return topology(n, both(wires), boxes + int(boxes > 1), name=f"switched{boxes}")


def grid(*sides: int, wrap: bool = False) -> Topology:
    """A mesh, or a torus; a torus of side 2 is a hypercube's dimension (one link)."""
    places = list(product(*(range(s) for s in sides)))
    index = {p: i for i, p in enumerate(places)}
    wires: dict[tuple[int, int], Wire] = {}
    for p in places:
        for d, side in enumerate(sides):
            q = list(p)
            q[d] += 1
            if q[d] == side:
                if not wrap or side < 3:
                    continue
                q[d] = 0
            a, b = index[p], index[tuple(q)]
            wires[min(a, b), max(a, b)] = (a, b, 1, 1)
    return topology(len(places), both(wires.values()))


def ring(n: int) -> Topology:
    return grid(n, wrap=True)


def hypercube(d: int) -> Topology:
    return grid(*(2,) * d)


def star(rates: Sequence[int]) -> Topology:
    return topology(len(rates), both((i, len(rates), 1, r) for i, r in enumerate(rates)), 1)


def shard(
    i: int, sources: Iterable[int], targets: Iterable[int], reduced: bool = False, unit: tuple[int, int] = (0, 0)
) -> Shard:
    return Shard(
        ShardId(i),
        f"x[{i}]",
        0,
        tuple(Place(Rank(r), unit[0]) for r in sources),
        tuple(Place(Rank(r), unit[1]) for r in targets),
        reduced,
    )


def problem_of(machine: Topology, collective: Collective, root: int = 0, group: Sequence[int] | None = None) -> Problem:
    """The standard collective on all ranks (or on a group)."""
    g = list(machine.ranks) if group is None else [Rank(r) for r in group]
    C = Collective
    match collective:
        case C.ALL_GATHER:
            shards = [shard(i, [r], g, unit=(0, i)) for i, r in enumerate(g)]
        case C.REDUCE_SCATTER:
            shards = [shard(i, g, [r], True, (i, 0)) for i, r in enumerate(g)]
        case C.ALL_REDUCE:
            shards = [shard(0, g, g, True)]
        case C.BROADCAST:
            shards = [shard(0, [root], g)]
        case C.REDUCE:
            shards = [shard(0, g, [root], True)]
        case C.GATHER:
            shards = [shard(i, [r], [root], unit=(0, i)) for i, r in enumerate(g)]
        case C.SCATTER:
            shards = [shard(i, [root], [r], unit=(i, 0)) for i, r in enumerate(g)]
        case C.ALL_TO_ALL:
            shards = [shard(i * len(g) + j, [a], [b], unit=(j, i)) for i, a in enumerate(g) for j, b in enumerate(g)]
        case _:
            raise ValueError(collective)
    reduces = collective in (C.REDUCE_SCATTER, C.ALL_REDUCE, C.REDUCE)
    rooted = collective in (C.BROADCAST, C.REDUCE, C.GATHER, C.SCATTER)
    demand = Demand(collective, tuple(g), Rank(root) if rooted else None, Op.SUM if reduces else None, InPlace.NONE)
    return Problem("p", machine, collective, (demand,), tuple(shards))


def custom(machine: Topology, shards: Sequence[Shard]) -> Problem:
    """A problem of given shards."""
    demand = Demand(Collective.CUSTOM, machine.ranks, op=Op.SUM if any(s.reduced for s in shards) else None)
    return Problem("p", machine, Collective.CUSTOM, (demand,), tuple(shards))
