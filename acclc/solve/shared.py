"""Reductions that several ranks need (all_reduce): three ways, and the best of each.

- gathered: every contribution goes to every target, which reduces them itself. Fewest steps, most traffic.
- composed: pieces are reduced each to one rank, then multicast: a reduce-scatter, then an all-gather.
- direct: in-trees and out-trees of all pieces share the steps.
Nothing found here excludes a point: other ways exist. What is excluded is so by a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import ceil, lcm

from acclc.ir.problem import GoalKind, Place, Problem, Rank, Shard, ShardId
from acclc.ir.result import Excluded
from acclc.ir.schedule import (
    OWN,
    Chunk,
    ChunkId,
    Output,
    Schedule,
    Transfer,
    TransferId,
    equal_chunks,
)
from acclc.solve.cpsat import Answer
from acclc.solve.frontier import bound_of, non_dominated, rounds_per_chunk
from acclc.solve.items import Shared, meeting_ranks, needs_meeting, width
from acclc.solve.mirror import reduction_of
from acclc.solve.prober import Prober
from acclc.solve.search import Findings, Interrupted, Range, detail, frontier

PIECES = 64
"""Most pieces that a shard is cut into for composition."""
CHUNKS_PER_PIECE = 8

Shape = tuple[tuple[tuple[Rank, ...], tuple[Rank, ...], bool], ...]
Fronts = dict[Shape, list[Schedule]]
"""Frontiers found so far, by what is wanted: gathering contributions may be the all-gather of the pieces again."""


def _shape(problem: Problem) -> Shape:
    return tuple((s.sources, s.targets, s.reduced) for s in problem.shards)


def search(prober: Prober, known: Iterable[Schedule]) -> Findings:
    """Return the best schedules of all ways within the goal's limits."""
    goal = prober.problem.goal
    found = Findings(complete=False)
    fronts: Fronts = {}
    if prober.least_steps() is None:  # the hint on relays leaves no way to meet
        return found
    try:
        found.schedules += _composed(prober, fronts)
        found.schedules += _gathered(prober, fronts)
        found.schedules += _at_hub(prober, [*found.schedules, *known])
        found.schedules += _direct(prober, [*found.schedules, *known])
    except Interrupted as e:
        found.schedules += e.findings.schedules
        raise Interrupted(found) from None
    except KeyboardInterrupt:
        raise Interrupted(found) from None
    return _proven(prober, found, list(known)) if goal.kind is not GoalKind.POINT else found


def _proven(prober: Prober, found: Findings, known: list[Schedule]) -> Findings:
    """Add what bounds exclude; complete if they exclude all that would beat the frontier."""
    best = non_dominated([*found.schedules, *known])
    if not best:
        return found
    found.complete = best[0].steps == prober.bound.latency.steps
    for schedule, after in zip(best, [*best[1:], None], strict=True):
        chunks, rate = schedule.chunks_per_shard, rounds_per_chunk(schedule)
        last = schedule.steps if after is None else after.steps - 1
        for steps in range(schedule.steps, last + 1):
            rounds = ceil(rate * chunks) - 1
            reason = prober.excluded_by(chunks, steps, rounds)
            if reason is not None:
                found.excluded.append(Excluded(chunks, steps, rounds, reason, detail(prober, reason, chunks, steps)))
            else:
                found.complete = False
    found.complete &= rounds_per_chunk(best[-1]) == prober.rate
    return found


# -- gathered ---------------------------------------------------------------------------------------------------------


def _gathered(prober: Prober, fronts: Fronts) -> list[Schedule]:
    """Gather contributions, in fewer steps than a reduction and a multicast would need."""
    goal = prober.problem.goal
    derived, origins = gather_problem(prober.problem)
    first = max(1, prober.bound.latency.steps)
    last = max(first, _least_meeting_steps(prober) - 1)
    if goal.kind is GoalKind.LATENCY:
        last = first
    if goal.steps is not None:
        last = min(last, goal.steps)
    if _shape(derived) in fronts and goal.chunks is goal.rounds is None:
        found = [s for s in fronts[_shape(derived)] if first <= s.steps <= last]
    else:
        cap = goal.chunks if goal.chunks is not None else CHUNKS_PER_PIECE
        chunks = (cap,) if goal.kind is GoalKind.POINT and goal.chunks is not None else tuple(range(1, cap + 1))
        with prober.ledger.slice(0.3) as ledger:
            inner = Prober(derived, bound_of(derived), ledger, "gathered")
            found = _of_part(inner, Range(chunks, first, last, goal.rounds))
    return [lift_gathered(prober.problem, s, origins) for s in found]


def _of_part(inner: Prober, within: Range) -> list[Schedule]:
    """The frontier of a derived problem. An interrupt loses its schedules: they are of another problem."""
    try:
        return frontier(inner, within).schedules
    except Interrupted:
        raise KeyboardInterrupt from None


def gather_problem(problem: Problem) -> tuple[Problem, tuple[tuple[ShardId, Rank | None], ...]]:
    """Return the problem of copying contributions, and for each of its shards the shard and rank it is of."""
    shards: list[Shard] = []
    origins: list[tuple[ShardId, Rank | None]] = []
    for shard in problem.shards:
        if not needs_meeting(shard):
            shards.append(replace(shard, id=ShardId(len(shards))))
            origins.append((shard.id, None))
            continue
        for place in sorted(shard.inputs, key=lambda p: p.rank):
            name = f"{shard.name}@{place.rank}"
            shards.append(Shard(ShardId(len(shards)), name, shard.demand, (place,), shard.outputs))
            origins.append((shard.id, place.rank))
    return replace(problem, shards=tuple(shards)), tuple(origins)


def lift_gathered(problem: Problem, schedule: Schedule, origins: tuple[tuple[ShardId, Rank | None], ...]) -> Schedule:
    """Return the schedule of the problem whose contributions a schedule gathers."""
    count = schedule.chunks_per_shard

    def chunk_of(chunk: ChunkId) -> ChunkId:
        of = schedule.chunks[chunk]
        return ChunkId(origins[of.shard][0] * count + of.index)

    outputs: dict[tuple[Rank, ChunkId], tuple[TransferId, ...]] = {}
    for o in sorted(schedule.outputs, key=lambda o: o.chunk):  # contributions by rank: one order everywhere
        key = (o.rank, chunk_of(o.chunk))
        outputs[key] = (*outputs.get(key, ()), *o.operands)
    return replace(
        schedule,
        strategy="gathered",
        chunks=equal_chunks(tuple(s.id for s in problem.shards), count),
        transfers=tuple(replace(t, chunk=chunk_of(t.chunk)) for t in schedule.transfers),
        outputs=tuple(Output(r, c, outputs[r, c]) for r, c in sorted(outputs)),
        optimal=(),
    )


# -- composed ---------------------------------------------------------------------------------------------------------


def _composed(prober: Prober, fronts: Fronts) -> list[Schedule]:
    """Reduce pieces each to one rank, then multicast them: every pair of the two frontiers that is not dominated."""
    problem, goal = prober.problem, prober.problem.goal
    if goal.kind is GoalKind.LATENCY or not all(map(needs_meeting, problem.shards)):
        return []
    roots = {s.id: meeting_ranks(prober.network, s.sources, s.targets) for s in problem.shards}
    if not all(roots.values()):
        return []
    pieces = lcm(*(len(r) for r in roots.values()))
    cap = CHUNKS_PER_PIECE if goal.chunks is None else min(CHUNKS_PER_PIECE, goal.chunks // pieces)
    if pieces > PIECES or cap < 1:
        return []
    scatter, gather = piece_problems(problem, pieces, roots)
    copies = _piece_frontier(prober, gather, cap, 0.5)
    if goal.chunks is None:
        fronts[_shape(gather)] = copies
    reductions = _mirrored(prober, copies, scatter, gather) or _piece_frontier(prober, scatter, cap, 0.5)
    made = [
        compose(problem, pieces, a, b)
        for a in reductions
        for b in copies
        if lcm(a.chunks_per_shard, b.chunks_per_shard) <= cap
    ]
    return made if goal.kind is GoalKind.POINT else non_dominated(made)


def _piece_frontier(prober: Prober, derived: Problem, cap: int, part: float) -> list[Schedule]:
    goal, bound = prober.problem.goal, bound_of(derived)
    last = None if goal.steps is None else goal.steps - 1
    with prober.ledger.slice(part) as ledger:
        inner = Prober(derived, bound, ledger, "composed")
        return _of_part(inner, Range(tuple(range(1, cap + 1)), max(1, bound.latency.steps), last))


def _mirrored(prober: Prober, copies: list[Schedule], scatter: Problem, gather: Problem) -> list[Schedule] | None:
    """The frontier of the reductions from that of the copies, where one is the other read backward."""
    pairs = zip(scatter.shards, gather.shards, strict=True)
    if any(set(a.sources) | set(b.sources) != set(b.targets) | set(b.sources) for a, b in pairs):
        return None
    made = [reduction_of(s, scatter, prober.network) for s in copies]
    return None if None in made else [s for s in made if s is not None]


def piece_problems(problem: Problem, pieces: int, roots: dict[ShardId, tuple[Rank, ...]]) -> tuple[Problem, Problem]:
    """Return the reduce-scatter and the all-gather of a problem; shard s, piece k is their shard s * pieces + k."""
    scatter: list[Shard] = []
    gather: list[Shard] = []
    for shard in problem.shards:
        for k in range(pieces):
            root = roots[shard.id][k % len(roots[shard.id])]
            place = (Place(root, 0),)
            number, name = ShardId(len(scatter)), f"{shard.name}.{k}"
            scatter.append(Shard(number, name, shard.demand, shard.inputs, place, reduced=True))
            gather.append(Shard(number, name, shard.demand, place, shard.outputs))
    return replace(problem, shards=tuple(scatter)), replace(problem, shards=tuple(gather))


def scaled(schedule: Schedule, factor: int) -> Schedule:
    """Return the same schedule with each chunk cut into ``factor``: as many times the chunks and rounds."""
    if factor == 1:
        return schedule
    count = schedule.chunks_per_shard

    def chunk_of(chunk: Chunk, part: int) -> ChunkId:
        return ChunkId((chunk.shard * count + chunk.index) * factor + part)

    def operands(of: tuple[TransferId, ...], part: int) -> tuple[TransferId, ...]:
        return tuple(o if o == OWN else TransferId(o * factor + part) for o in of)

    shards = tuple(dict.fromkeys(c.shard for c in schedule.chunks))
    transfers = tuple(
        replace(
            t,
            id=TransferId(t.id * factor + part),
            chunk=chunk_of(schedule.chunks[t.chunk], part),
            operands=operands(t.operands, part),
        )
        for t in schedule.transfers
        for part in range(factor)
    )
    outputs = tuple(
        Output(o.rank, chunk_of(schedule.chunks[o.chunk], part), operands(o.operands, part))
        for o in schedule.outputs
        for part in range(factor)
    )
    return replace(
        schedule,
        chunks=equal_chunks(shards, count * factor),
        transfers=transfers,
        outputs=outputs,
        rounds=tuple(r * factor for r in schedule.rounds),
    )


def compose(problem: Problem, pieces: int, scatter: Schedule, gather: Schedule) -> Schedule:
    """Return the schedule that reduces the pieces by ``scatter`` and then multicasts them by ``gather``."""
    count = lcm(scatter.chunks_per_shard, gather.chunks_per_shard)
    scatter = scaled(scatter, count // scatter.chunks_per_shard)
    gather = scaled(gather, count // gather.chunks_per_shard)
    whole = {o.chunk: (o.rank, o.operands) for o in scatter.outputs}
    offset = len(scatter.transfers)

    def moved(of: tuple[TransferId, ...], chunk: ChunkId) -> tuple[TransferId, ...]:
        """What the multicast reads: at the root the operands of the whole, elsewhere what arrived."""
        if of == (OWN,):
            return whole[chunk][1]
        return tuple(TransferId(o + offset) for o in of)

    # piece k of shard s, chunk i of it, is chunk k * count + i of shard s: the chunk ids are the same
    transfers: list[Transfer] = list(scatter.transfers)
    transfers += [
        replace(t, id=TransferId(t.id + offset), step=t.step + scatter.steps, operands=moved(t.operands, t.chunk))
        for t in gather.transfers
    ]
    outputs = [Output(o.rank, o.chunk, moved(o.operands, o.chunk)) for o in gather.outputs]
    return Schedule(
        equal_chunks(tuple(s.id for s in problem.shards), pieces * count),
        tuple(transfers),
        tuple(sorted(outputs, key=lambda o: (o.rank, o.chunk))),
        (*scatter.rounds, *gather.rounds),
        "composed",
    )


# -- direct -----------------------------------------------------------------------------------------------------------


def _least_meeting_steps(prober: Prober) -> int:
    """The fewest steps in which every shard can be reduced to some rank and multicast from it."""
    most = 0
    for shard in filter(needs_meeting, prober.problem.shards):
        best: int | None = None
        for rank in meeting_ranks(prober.network, shard.sources, shard.targets):
            into, out = prober.network.hops((rank,), backward=True), prober.network.hops((rank,))
            steps = max(into[r] for r in shard.sources) + max(out[r] for r in shard.targets)
            best = steps if best is None else min(best, steps)
        most = max(most, best or 0)
    return most


def _at_hub(prober: Prober, known: list[Schedule]) -> list[Schedule]:
    """Where one rank has wider links than the others, let everything meet there, up and down at the same time."""
    goal = prober.problem.goal
    if goal.kind is GoalKind.LATENCY or (goal.kind is GoalKind.POINT and goal.rounds is not None):
        return []
    widths = [width(prober.network, r) for r in prober.problem.group]
    even = min(widths) == max(widths)
    if even and all(map(needs_meeting, prober.problem.shards)):
        return []
    cap = goal.chunks if goal.chunks is not None else CHUNKS_PER_PIECE
    chunks = (cap,) if goal.kind is GoalKind.POINT and goal.chunks is not None else tuple(range(1, cap + 1))
    with prober.ledger.slice(0.5) as ledger:
        inner = Prober(prober.problem, prober.bound, ledger, "direct", Shared.HUB)
        span = Range(chunks, max(1, _least_meeting_steps(prober)), goal.steps, goal.rounds)
        return frontier(inner, span, known).schedules


def _direct(prober: Prober, known: list[Schedule]) -> list[Schedule]:
    """Ask for points on the bound with fewer steps than any known; for a given point, ask for it."""
    goal = prober.problem.goal
    if goal.kind is GoalKind.LATENCY or (goal.kind is GoalKind.POINT and goal.rounds is None):
        return []
    if goal.kind is GoalKind.POINT:
        assert goal.rounds is not None
        counts = (goal.chunks,) if goal.chunks is not None else tuple(range(1, CHUNKS_PER_PIECE + 1))
        first = max(1, prober.bound.latency.steps)
        spans = (goal.steps,) if goal.steps is not None else range(first, goal.rounds + 1)
        points = [(c, s, goal.rounds) for s in spans for c in counts]
    else:
        points = _points_on_bound(prober, known)
    for (chunks, steps, rounds), share in [(p, share) for share in (0.1, 0.3, 0.6) for p in points]:
        work = prober.ledger.remaining * share
        if prober.probe(chunks, steps, rounds, work, quick=True) is Answer.FOUND:
            return [replace(prober.schedules[chunks, steps, rounds], strategy="direct")]
    return []


def _points_on_bound(prober: Prober, known: list[Schedule]) -> list[tuple[int, int, int]]:
    """The (C, S, R) of the throughput bound that would beat every known schedule, the fewest steps first."""
    goal, rate = prober.problem.goal, prober.rate
    roots = [meeting_ranks(prober.network, s.sources, s.targets) for s in prober.problem.shards if needs_meeting(s)]
    pieces = lcm(*(max(1, len(r)) for r in roots))
    on_bound = [s.steps for s in known if rounds_per_chunk(s) == rate]
    first = _least_meeting_steps(prober)
    last = min(on_bound, default=first + 3) - 1
    if goal.steps is not None:
        last = min(last, goal.steps)
    cap = goal.chunks if goal.chunks is not None else pieces * CHUNKS_PER_PIECE
    counts = [c for c in range(pieces, cap + 1, pieces) if (rate * c).denominator == 1][:2]
    points = [(c, s, int(rate * c)) for s in range(first, last + 1) for c in counts]
    return [
        (c, s, r)
        for c, s, r in points
        if r >= s and all(k.steps > s or rounds_per_chunk(k) > Fraction(r, c) for k in known)
    ]
