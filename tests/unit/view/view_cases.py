"""Schedules built by hand, and times step by step, for the tests of the view."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hand_built import both, problem_of, topology

from acclc.ir.problem import Collective, LinkId, NodeId, Problem, Rank, Topology
from acclc.ir.result import Bound, Cut, Excluded, LatencyBound, LongestPath, Status, ThroughputBound
from acclc.ir.schedule import OWN, Chunk, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks
from acclc.lower import lower_program
from acclc.view.model import ViewCollective, ViewHeadroom, ViewInput, ViewTimes, ViewVariant

RATE = 10
"""GB/s of each link of the ring."""


def ring_machine(n: int, name: str = "ring") -> Topology:
    return topology(n, both((i, (i + 1) % n, 1, RATE) for i in range(n)), latency_us=1, name=name)


def link_between(machine: Topology, src: int, dst: int) -> LinkId:
    return next(x.id for x in machine.links if (x.src, x.dst) == (src, dst))


def ring_all_gather(n: int, name: str = "ring") -> tuple[Problem, Schedule]:
    """Each shard whole, clockwise around the ring: n - 1 steps of one round."""
    machine = ring_machine(n, name)
    problem = problem_of(machine, Collective.ALL_GATHER)
    transfers: list[Transfer] = []
    arrived: dict[tuple[int, int], TransferId] = {}
    for step in range(n - 1):
        for rank in range(n):
            shard, following = (rank - step) % n, (rank + 1) % n
            number = TransferId(len(transfers))
            operand = OWN if step == 0 else arrived[shard, rank]
            path = (link_between(machine, rank, following),)
            transfers.append(Transfer(number, ChunkId(shard), Rank(rank), Rank(following), path, step, (operand,)))
            arrived[shard, following] = number
    outputs = tuple(Output(Rank(r), ChunkId(s), (arrived.get((s, r), OWN),)) for r in range(n) for s in range(n))
    chunks = equal_chunks(tuple(s.id for s in problem.shards), 1)
    return problem, Schedule(chunks, tuple(transfers), outputs, (1,) * (n - 1), "hand")


def ring_reduce(n: int) -> tuple[Problem, Schedule]:
    """A chain of reductions that ends at rank 0, in two chunks of unequal weight, pipelined."""
    machine = ring_machine(n)
    problem = problem_of(machine, Collective.REDUCE)
    transfers: list[Transfer] = []
    outputs = []
    for chunk in (0, 1):
        before = None
        for hop in range(n - 1):
            rank = n - 1 - hop
            number = TransferId(len(transfers))
            operands = (OWN,) if before is None else (before, OWN)
            path = (link_between(machine, rank, rank - 1),)
            step = hop + chunk
            transfers.append(Transfer(number, ChunkId(chunk), Rank(rank), Rank(rank - 1), path, step, operands))
            before = number
        assert before is not None
        outputs.append(Output(Rank(0), ChunkId(chunk), (before, OWN)))
    shard = problem.shards[0].id
    third = Fraction(1, 3)
    chunks = (Chunk(ChunkId(0), shard, 0, Fraction(0), third), Chunk(ChunkId(1), shard, 1, third, Fraction(1)))
    order = sorted(transfers, key=lambda t: t.step)
    renumber = {t.id: TransferId(i) for i, t in enumerate(order)} | {OWN: OWN}
    ordered = tuple(replace(t, id=renumber[t.id], operands=tuple(renumber[o] for o in t.operands)) for t in order)
    results = tuple(replace(o, operands=tuple(renumber[x] for x in o.operands)) for o in outputs)
    return problem, Schedule(chunks, ordered, results, (1,) * n, "hand")


def star_all_gather(n: int) -> tuple[Problem, Schedule]:
    """Through one switch, everything in one step: several transfers on each link at the same time."""
    machine = topology(n, both((i, n, 1, RATE) for i in range(n)), 1, latency_us=1, name="star")
    problem = problem_of(machine, Collective.ALL_GATHER)
    transfers = [
        Transfer(
            TransferId(0),
            ChunkId(a),
            Rank(a),
            Rank(b),
            (link_between(machine, a, n), link_between(machine, n, b)),
            0,
            (OWN,),
        )
        for a in range(n)
        for b in range(n)
        if a != b
    ]
    numbered = tuple(replace(t, id=TransferId(i)) for i, t in enumerate(transfers))
    reached = {(t.chunk, t.dst): t.id for t in numbered}
    outputs = tuple(
        Output(Rank(r), ChunkId(c), (reached.get((ChunkId(c), Rank(r)), OWN),)) for r in range(n) for c in range(n)
    )
    chunks = equal_chunks(tuple(s.id for s in problem.shards), 1)
    return problem, Schedule(chunks, numbered, outputs, (n - 1,), "hand")


def step_times(problem: Problem, schedule: Schedule, shard_bytes: int = 10**6) -> ViewTimes:
    """Every step begins when the one before has ended; transfers of a step share their links at the same time."""
    links = problem.topology.links
    begin = Fraction(0)
    starts, sent, arrived = [], [], []
    for step in range(schedule.steps):
        end = begin
        for t in (t for t in schedule.transfers if t.step == step):
            sharing = max(sum(o.step == step and x in o.path for o in schedule.transfers) for x in t.path)
            length = schedule.chunks[t.chunk].weight * shard_bytes * sharing / min(links[x].capacity for x in t.path)
            starts.append(begin)
            sent.append(begin + length)
            arrived.append(begin + length + sum((links[x].cls.latency for x in t.path), Fraction(0)))
            end = max(end, arrived[-1])
        begin = end
    return ViewTimes(shard_bytes, tuple(starts), tuple(sent), tuple(arrived))


def into_first(problem: Problem, steps: int) -> Bound:
    """The cut around rank 0: everything but its own shard must enter it."""
    machine = problem.topology
    rest = tuple(NodeId(n.id) for n in machine.nodes if n.id != 0)
    load = Fraction(len(problem.shards) - 1) or Fraction(1)
    capacity = sum((x.capacity for x in machine.links if x.dst == 0), Fraction(0))
    path = (machine.links[0].id,)
    return Bound(
        ThroughputBound(load / capacity, Cut(rest, load), f"{load} shards must enter {{g[0]}}"),
        LatencyBound(steps, LongestPath(Rank(0), Rank(1), path), Fraction(1, 10**6), None, "one hop"),
        load / capacity * machine.unit if machine.unit else None,
    )


def view_of(*cases: tuple[Problem, Schedule], name: str = "case", source: str = "") -> ViewInput:
    """A view with one variant a case, at two sizes."""
    return ViewInput(
        name,
        tuple(
            ViewCollective(
                replace(problem, name=f"{problem.collective}_{i}"),
                into_first(problem, 1),
                Status.FEASIBLE,
                (
                    ViewVariant(
                        schedule,
                        (step_times(problem, schedule), step_times(problem, schedule, 999)),
                        kernel_source=source,
                        max_bytes=1 << 20,
                    ),
                ),
                (Excluded(1, 1, 1, "bound"), Excluded(2, 2, 3, "infeasible", "Seed 7.")),
            )
            for i, (problem, schedule) in enumerate(cases)
        ),
    )


def cluster(boxes: int, per_box: int) -> Topology:
    """Boxes with a switch each, and a rail (a switch outside) for each place in a box."""
    ranks = boxes * per_box
    inner = [(b * per_box + i, ranks + b, 1, 450) for b in range(boxes) for i in range(per_box)]
    outer = [(b * per_box + i, ranks + boxes + i, 1, 50) for b in range(boxes) for i in range(per_box)]
    machine = topology(ranks, both(inner + outer), boxes + per_box, latency_us=1, name="cluster")
    names = [f"box[{b}].g[{i}]" for b in range(boxes) for i in range(per_box)]
    names += [f"box[{b}].sw" for b in range(boxes)] + [f"rail[{i}]" for i in range(per_box)]
    return replace(machine, nodes=tuple(replace(n, name=x) for n, x in zip(machine.nodes, names, strict=True)))


def cluster_all_reduce(boxes: int, per_box: int) -> tuple[Problem, Schedule]:
    """A chunk for each rail: reduced in every box, up a binary tree of the boxes, down, and spread in every box."""
    machine = cluster(boxes, per_box)
    problem = problem_of(machine, Collective.ALL_REDUCE)
    ids = {(x.src, x.dst): x.id for x in machine.links}
    ranks, depth = boxes * per_box, boxes.bit_length() - 1
    transfers: list[Transfer] = []
    outputs = []

    def send(chunk: int, src: int, dst: int, over: int, step: int, operands: tuple[TransferId, ...]) -> TransferId:
        number = TransferId(len(transfers))
        path = (ids[NodeId(src), NodeId(over)], ids[NodeId(over), NodeId(dst)])
        transfers.append(Transfer(number, ChunkId(chunk), Rank(src), Rank(dst), path, step, operands))
        return number

    for i in range(per_box):
        rail = ranks + boxes + i
        value: list[tuple[TransferId, ...]] = []
        for b in range(boxes):
            others = [b * per_box + j for j in range(per_box) if j != i]
            value.append((OWN, *(send(i, g, b * per_box + i, ranks + b, 0, (OWN,)) for g in others)))
        for b in reversed(range(1, boxes)):
            parent = (b - 1) // 2
            level = (b + 1).bit_length() - 1
            up = send(i, b * per_box + i, parent * per_box + i, rail, 1 + depth - level, value[b])
            value[parent] = (*value[parent], up)
        have = value[:1]
        for b in range(boxes):
            step = depth + (b + 1).bit_length()
            if b:
                parent = (b - 1) // 2
                have.append((send(i, parent * per_box + i, b * per_box + i, rail, step - 1, have[parent]),))
            outputs.append(Output(Rank(b * per_box + i), ChunkId(i), have[b]))
            for g in (b * per_box + j for j in range(per_box) if j != i):
                last = send(i, b * per_box + i, g, ranks + b, step, have[b])
                outputs.append(Output(Rank(g), ChunkId(i), (last,)))
    order = sorted(transfers, key=lambda t: (t.step, t.id))
    renumber = {t.id: TransferId(n) for n, t in enumerate(order)} | {OWN: OWN}
    ordered = tuple(replace(t, id=renumber[t.id], operands=tuple(renumber[o] for o in t.operands)) for t in order)
    results = tuple(replace(o, operands=tuple(renumber[x] for x in o.operands)) for o in outputs)
    chunks = equal_chunks(tuple(s.id for s in problem.shards), per_box)
    return problem, Schedule(chunks, ordered, results, (), "hand")


def even_times(schedule: Schedule, shard_bytes: int = 10**6) -> ViewTimes:
    """A microsecond a step, and half of one on the way."""
    starts = tuple(Fraction(t.step, 10**6) for t in schedule.transfers)
    sent = tuple(s + Fraction(1, 10**6) for s in starts)
    return ViewTimes(shard_bytes, starts, sent, tuple(s + Fraction(1, 2 * 10**6) for s in sent))


def cluster_view(boxes: int, per_box: int) -> ViewInput:
    """A view of an all_reduce on boxes."""
    problem, schedule = cluster_all_reduce(boxes, per_box)
    variant = ViewVariant(schedule, (even_times(schedule),))
    return ViewInput("cluster", (ViewCollective(problem, into_first(problem, 1), Status.FEASIBLE, (variant,)),))


def with_programs(view: ViewInput) -> ViewInput:
    """The same with the programs of its schedules, and a ring and a tree to compare with."""
    return replace(view, collectives=tuple(_with_programs(c) for c in view.collectives))


def _with_programs(collective: ViewCollective) -> ViewCollective:
    variants = tuple(
        replace(v, program=lower_program(collective.problem, v.schedule), solve_seconds=0.25)
        for v in collective.variants
    )
    microsecond = Fraction(1, 10**6)
    headroom = tuple(
        ViewHeadroom(t.shard_bytes, 50 * microsecond, (("ring", 700 * microsecond), ("tree", 900 * microsecond)))
        for t in collective.variants[0].times
    )
    return replace(collective, variants=variants, headroom=headroom)
