"""Machines, problems and an independent simulator for the tests of the solvers."""

import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise

from acclc.ir.problem import (
    Budget,
    Collective,
    Demand,
    Goal,
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
from acclc.ir.schedule import OWN, Schedule

GB = Fraction(10**9)
CLASS = LinkClass("wire", GB, Fraction(1, 10**6))


def machine(gpus, links, *, switches=0, budgets=(), cls=CLASS):
    """links: (src, dst, count) directed; budgets: ((link index, ...), units)."""
    nodes = [Node(NodeId(i), f"g[{i}]", NodeKind.GPU) for i in range(gpus)]
    nodes += [Node(NodeId(gpus + i), f"s[{i}]", NodeKind.SWITCH) for i in range(switches)]
    made = tuple(Link(LinkId(n), NodeId(u), NodeId(v), c, cls) for n, (u, v, c) in enumerate(links))
    shared = tuple(
        Budget(f"b{n}", tuple(LinkId(x) for x in of), units * cls.bandwidth) for n, (of, units) in enumerate(budgets)
    )
    return Topology("machine", tuple(nodes), made, shared)


def both(pairs):
    return [(a, b, c) for u, v, c in pairs for a, b in ((u, v), (v, u))]


DGX1_PAIRS = [
    (0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2),
    (2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2),
]  # fmt: skip


def dgx1():
    return machine(8, both(DGX1_PAIRS))


def ring(n):
    return machine(n, both([(i, (i + 1) % n, 1) for i in range(n)] if n > 2 else [(0, 1, 1)]))


def line(n):
    return machine(n, both([(i, i + 1, 1) for i in range(n - 1)]))


def star(n, lanes=1):
    """All GPUs on one switch."""
    return machine(n, both([(i, n, lanes) for i in range(n)]), switches=1)


def hypercube(d):
    return machine(2**d, [(u, u ^ (1 << k), 1) for u in range(2**d) for k in range(d)])


def torus(a, b):
    links = []
    for i in range(a):
        for j in range(b):
            for x, y in {((i + 1) % a, j), ((i - 1) % a, j), (i, (j + 1) % b), (i, (j - 1) % b)} - {(i, j)}:
                links.append((i * b + j, x * b + y, 1))
    return machine(a * b, sorted(links))


def full(n):
    return machine(n, [(u, v, 1) for u in range(n) for v in range(n) if u != v])


def relabelled(topology, seed):
    """The same machine with its GPUs in another order and its links shuffled."""
    rng = random.Random(seed)
    gpus = len(topology.ranks)
    new = list(range(gpus))
    rng.shuffle(new)
    new += list(range(gpus, len(topology.nodes)))
    links = [(new[x.src], new[x.dst], x.count) for x in topology.links]
    assert not topology.budgets
    rng.shuffle(links)
    return machine(gpus, links, switches=len(topology.nodes) - gpus)


def without_pair(topology, u, v):
    """The same machine with both directions between two GPUs removed."""
    links = [(x.src, x.dst, x.count) for x in topology.links if {x.src, x.dst} != {u, v}]
    gpus = len(topology.ranks)
    return machine(gpus, links, switches=len(topology.nodes) - gpus)


def problem(topology, collective, *, group=None, root=None, goal=None, pairs=()):
    """A named collective on a group (default: all ranks)."""
    group = tuple(topology.ranks if group is None else group)
    root = group[0] if root is None else root
    c = Collective(collective)
    reduces = c in (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)
    rooted = c in (Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER)
    shards = tuple(
        Shard(ShardId(n), f"s{n}", 0, _places(i), _places(o), reduces)
        for n, (i, o) in enumerate(_shards(c, group, root, pairs))
    )
    demand = Demand(c, group, Rank(root) if rooted else None, Op.SUM if reduces else None)
    return Problem(f"p.{collective}", topology, c, (demand,), shards, goal or Goal())


def _places(ranks):
    return tuple(Place(Rank(r), unit) for r, unit in ranks)


def _shards(c, group, root, pairs):
    everyone = [(r, 0) for r in group]
    if c is Collective.ALL_GATHER:
        return [([(r, 0)], [(t, n) for t in group]) for n, r in enumerate(group)]
    if c is Collective.REDUCE_SCATTER:
        return [([(r, n) for r in group], [(t, 0)]) for n, t in enumerate(group)]
    if c is Collective.ALL_REDUCE:
        return [(everyone, everyone)]
    if c is Collective.BROADCAST:
        return [([(root, 0)], everyone)]
    if c is Collective.REDUCE:
        return [(everyone, [(root, 0)])]
    if c is Collective.GATHER:
        return [([(r, 0)], [(root, n)]) for n, r in enumerate(group)]
    if c is Collective.SCATTER:
        return [([(root, n)], [(r, 0)]) for n, r in enumerate(group)]
    if c is Collective.ALL_TO_ALL:
        return [([(r, m)], [(t, n)]) for n, r in enumerate(group) for m, t in enumerate(group)]
    assert c is Collective.SEND_RECV
    return [([(a, 0)], [(b, 0)]) for a, b in pairs]


def custom(topology, shards, goal=None):
    """shards: (sources, targets, reduced)."""
    made = tuple(
        Shard(ShardId(n), f"s{n}", 0, tuple(Place(Rank(r), n) for r in i), tuple(Place(Rank(r), n) for r in o), red)
        for n, (i, o, red) in enumerate(shards)
    )
    demand = Demand(Collective.CUSTOM, topology.ranks, None, Op.SUM)
    return Problem("p.custom", topology, Collective.CUSTOM, (demand,), made, goal or Goal())


def simulate(problem, schedule: Schedule):
    """Check a schedule from first principles; raises AssertionError. Returns (C, S, R)."""
    topology = problem.topology
    unit = topology.unit
    shard_of = {c.id: problem.shards[c.shard] for c in schedule.chunks}
    for shard in problem.shards:
        parts = sorted((c.begin, c.end) for c in schedule.chunks if c.shard == shard.id)
        assert parts[0][0] == 0
        assert parts[-1][1] == 1
        assert all(a[1] == b[0] for a, b in pairwise(parts))
        assert len({e - b for b, e in parts}) == 1
    moved = {}
    last = 0
    for n, t in enumerate(schedule.transfers):
        assert t.id == n
        assert 0 <= t.step < schedule.steps
        assert t.step >= last
        last = t.step
        node = t.src
        for k, link_id in enumerate(t.path):
            link = topology.links[link_id]
            assert link.src == node
            node = link.dst
            assert (topology.nodes[node].kind is NodeKind.GPU) == (k == len(t.path) - 1)
        assert node == t.dst
        moved[t.id] = _value(t.src, t.chunk, t.operands, moved, schedule, shard_of, t.step)
    for step, rounds in enumerate(schedule.rounds):
        assert rounds >= 1
        load = Counter(link for t in schedule.transfers if t.step == step for link in t.path)
        for link, n in load.items():
            assert n * unit <= topology.links[link].capacity * rounds, f"link {link} in step {step}"
        for budget in topology.budgets:
            assert sum(load[x] for x in budget.links) * unit <= budget.capacity * rounds
    _check_outputs(problem, schedule, moved, shard_of)
    return schedule.chunks_per_shard, schedule.steps, schedule.total_rounds


def _value(rank, chunk, operands, moved, schedule, shard_of, step):
    """The expression tree of an operand list: a rank's own contribution, or a tuple of expressions."""
    shard = shard_of[chunk]
    assert operands
    parts = []
    for o in operands:
        if o == OWN:
            assert rank in shard.sources
            parts.append(rank if shard.reduced else "data")
        else:
            t = schedule.transfers[o]
            assert t.dst == rank
            assert t.chunk == chunk
            assert t.step < step
            parts.append(moved[o])
    if not shard.reduced:
        assert len(parts) == 1
    return parts[0] if len(parts) == 1 else tuple(parts)


def _leaves(value):
    return [value] if not isinstance(value, tuple) else [x for v in value for x in _leaves(v)]


def _check_outputs(problem, schedule, moved, shard_of):
    wanted = {(r, c.id) for c in schedule.chunks for r in problem.shards[c.shard].targets}
    assert Counter((o.rank, o.chunk) for o in schedule.outputs) == Counter(wanted)
    tree = {}
    for o in schedule.outputs:
        value = _value(o.rank, o.chunk, o.operands, moved, schedule, shard_of, schedule.steps)
        shard = shard_of[o.chunk]
        assert sorted(_leaves(value)) == (sorted(shard.sources) if shard.reduced else ["data"])
        assert tree.setdefault(o.chunk, value) == value, "all ranks reduce in the same order"
