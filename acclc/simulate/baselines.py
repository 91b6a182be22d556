"""What NCCL's shapes reach on the same graph: rings, trees and direct sends, as schedules like any other.

They are the yardstick beside the bound: is a synthesised schedule worth it? Slices follow the size, as NCCL's do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from acclc.ir.problem import Collective, LinkId, Problem, Rank, Shard
from acclc.ir.schedule import ChunkId, Schedule
from acclc.simulate.draft import OWN_ARRIVAL, Arrival, Draft
from acclc.simulate.rings import Ring, find_rings
from acclc.simulate.routes import Hop, Routes
from acclc.simulate.timeline import Timeline, simulate
from acclc.simulate.trees import Tree, spanning_trees

SLICE_BYTES = 512 * 1024
"""What NCCL's simple protocol sends at a time; pipelines are cut into slices of about this size."""
SLICE_LIMIT = 64
PIPELINED_TRANSFERS = 2_000
"""Slices stay so few that a pipeline has no more transfers than this."""
TRANSFER_LIMIT = 20_000
"""Larger baselines are left out: they would take longer to simulate than they tell."""

RINGED = {
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALL_REDUCE,
    Collective.BROADCAST,
    Collective.REDUCE,
}


@dataclass(frozen=True, slots=True)
class Baseline:
    """A schedule to compare with (``ring``, ``tree`` or ``direct``) and its simulated run."""

    name: str
    schedule: Schedule
    timeline: Timeline


def baselines(problem: Problem, shard_bytes: int) -> tuple[Baseline, ...]:
    """Return ring and tree where NCCL has them, else direct sends, simulated for shards of ``shard_bytes``.

    A shape that the topology does not have (some rank out of reach) is left out.
    """
    found: list[Baseline] = []
    if fewest_transfers(problem) > TRANSFER_LIMIT:
        return ()
    for schedule in schedules(problem, shard_bytes):
        if len(schedule.transfers) <= TRANSFER_LIMIT:
            found.append(Baseline(schedule.strategy, schedule, simulate(problem, schedule, shard_bytes)))
    return tuple(found)


def fewest_transfers(problem: Problem) -> int:
    """How many transfers a baseline takes at least: every copy arrives once, every contribution but one leaves."""
    count = 0
    for shard in problem.shards:
        sources, targets = set(shard.sources), set(shard.targets)
        count += len(sources) + len(targets) - 2 if shard.reduced else len(targets - sources)
    return count


def schedules(problem: Problem, shard_bytes: int) -> Iterator[Schedule]:
    """Yield the baselines' schedules."""
    routes = Routes(problem.topology)
    if problem.collective not in RINGED:
        direct = direct_schedule(problem, routes)
        if direct is not None:
            yield direct
        return
    rings = find_rings(routes, problem.demands[0].group)
    if rings:
        yield ring_schedule(problem, rings, shard_bytes)
    tree = tree_schedule(problem, routes, shard_bytes)
    if tree is not None:
        yield tree


def _slices(shard_bytes: int, parts: int, transfers: int) -> int:
    """How many slices a pipeline has that cuts a shard in ``parts`` and takes so many transfers a slice."""
    return max(1, min(SLICE_LIMIT, shard_bytes // (parts * SLICE_BYTES), PIPELINED_TRANSFERS // transfers))


def ring_schedule(problem: Problem, rings: tuple[Ring, ...], shard_bytes: int) -> Schedule:
    """Return the collective over rings, each with an equal share of every shard."""
    size = len(rings[0].ranks)
    match problem.collective:
        case Collective.ALL_REDUCE:
            draft = Draft(problem, len(rings) * size)
            for i, ring in enumerate(rings):
                for p in range(size):
                    whole = _reduce_along(draft, draft.chunk(problem.shards[0].id, i * size + p), ring, p)
                    _copy_along(draft, draft.chunk(problem.shards[0].id, i * size + p), ring, p, whole)
        case Collective.ALL_GATHER | Collective.REDUCE_SCATTER:
            draft = Draft(problem, len(rings))
            for i, ring in enumerate(rings):
                for shard in problem.shards:
                    end = shard.inputs[0].rank if not shard.reduced else shard.outputs[0].rank
                    _pass_ring(draft, draft.chunk(shard.id, i), ring, ring.ranks.index(end), shard.reduced, 0)
        case _:
            slices = _slices(shard_bytes, len(rings), len(rings) * size)
            draft = Draft(problem, len(rings) * slices)
            shard = problem.shards[0]
            end = shard.inputs[0].rank if not shard.reduced else shard.outputs[0].rank
            for k in range(slices):
                for i, ring in enumerate(rings):
                    chunk = draft.chunk(shard.id, k * len(rings) + i)
                    _pass_ring(draft, chunk, ring, ring.ranks.index(end), shard.reduced, k)
    return draft.finish("ring")


def _pass_ring(draft: Draft, chunk: ChunkId, ring: Ring, end: int, reduced: bool, step: int) -> None:
    if reduced:
        draft.output(ring.ranks[end], chunk, _reduce_along(draft, chunk, ring, end, step))
    else:
        _copy_along(draft, chunk, ring, end, (OWN_ARRIVAL,), step)


def _reduce_along(draft: Draft, chunk: ChunkId, ring: Ring, end: int, step: int = 0) -> tuple[Arrival, ...]:
    """Reduce a chunk once around, from behind ``end`` to it; return what makes it whole there."""
    size = len(ring.ranks)
    operands: tuple[Arrival, ...] = (OWN_ARRIVAL,)
    for k in range(1, size):
        operands = (draft.send(chunk, ring.routes[(end + k) % size], operands, step), OWN_ARRIVAL)
    return operands


def _copy_along(
    draft: Draft, chunk: ChunkId, ring: Ring, start: int, operands: tuple[Arrival, ...], step: int = 0
) -> None:
    """Copy a chunk once around from ``start``."""
    size = len(ring.ranks)
    draft.output(ring.ranks[start], chunk, operands)
    for k in range(size - 1):
        operands = (draft.send(chunk, ring.routes[(start + k) % size], operands, step),)
        draft.output(ring.ranks[(start + k + 1) % size], chunk, operands)


def tree_schedule(problem: Problem, routes: Routes, shard_bytes: int) -> Schedule | None:
    """Return the collective over spanning trees, pipelined; None where some rank is out of reach.

    all_reduce: two trees, each with half of the data, up and then down (as NCCL's double trees). Else a tree for
    each shard, from or to the rank that has or needs it.
    """
    group = problem.demands[0].group
    if len(group) < 2:
        return None
    twice = problem.collective is Collective.ALL_REDUCE
    plans: list[tuple[Shard, tuple[Tree, ...]]] = []
    for shard in problem.shards:
        end = None if twice else (shard.outputs[0].rank if shard.reduced else shard.inputs[0].rank)
        trees = spanning_trees(routes, group, end, inward=shard.reduced)
        if not trees:
            return None
        plans.append((shard, trees))
    count = len(plans[0][1])
    a_slice = sum(max(len(t.up), len(t.down)) for _, trees in plans for t in trees) * (2 if twice else 1)
    slices = _slices(shard_bytes, count, a_slice)
    draft = Draft(problem, count * slices)
    for k in range(slices):
        for shard, trees in plans:
            for i, tree in enumerate(trees):
                chunk = draft.chunk(shard.id, k * count + i)
                if not shard.reduced:
                    _spread(draft, chunk, tree, (OWN_ARRIVAL,), k)
                elif twice:
                    _spread(draft, chunk, tree, _collect(draft, chunk, tree, k), k)
                else:
                    draft.output(tree.root, chunk, _collect(draft, chunk, tree, k))
    return draft.finish("tree")


def _collect(draft: Draft, chunk: ChunkId, tree: Tree, step: int) -> tuple[Arrival, ...]:
    """Reduce towards the root; return its operands."""

    def gather(rank: Rank) -> tuple[Arrival, ...]:
        parts = [draft.send(chunk, tree.up[child], gather(child), step) for child in tree.children.get(rank, ())]
        return (OWN_ARRIVAL, *parts)

    return gather(tree.root)


def _spread(draft: Draft, chunk: ChunkId, tree: Tree, operands: tuple[Arrival, ...], step: int) -> None:
    """Copy from the root to all."""
    draft.output(tree.root, chunk, operands)
    pending = [(tree.root, operands)]
    while pending:
        rank, have = pending.pop(0)
        for child in tree.children.get(rank, ()):
            arrived = (draft.send(chunk, tree.down[child], have, step),)
            draft.output(child, chunk, arrived)
            pending.append((child, arrived))


def direct_schedule(problem: Problem, routes: Routes) -> Schedule | None:
    """Return shortest-route sends, each shard on its own: copied ones from the nearest holder, reduced ones inward.

    None where some rank is out of reach.
    """
    draft = Draft(problem, 1)
    for shard in _in_turns(problem, routes):
        build: Callable[[Draft, Shard, Routes], bool] = _direct_reduce if shard.reduced else _direct_copy
        if not build(draft, shard, routes):
            return None
    return draft.finish("direct")


def _in_turns(problem: Problem, routes: Routes) -> list[Shard]:
    """The shards in an order in which the links that leave ranks do not all turn to one port at a time."""
    ranks = len(problem.topology.ranks)
    queues: dict[LinkId, list[tuple[int, LinkId, Shard]]] = {}
    order: list[Shard] = []
    for shard in problem.shards:
        if shard.inputs and shard.outputs:
            source, target = shard.inputs[0].rank, shard.outputs[0].rank
            route = routes.route(source, target)
            if not route:
                order.append(shard)
                continue
            turn = (target - source) % ranks
            queues.setdefault(route[0].path[0], []).append((turn, route[-1].path[-1], shard))
    while any(queues.values()):
        used: Counter[LinkId] = Counter()
        for queue in queues.values():
            if queue:
                entry = min(queue, key=lambda item: (used[item[1]], item[0], item[2].id))
                queue.remove(entry)
                used[entry[1]] += 1
                order.append(entry[2])
    return order


def _direct_copy(draft: Draft, shard: Shard, routes: Routes) -> bool:
    own: tuple[Arrival, ...] = (OWN_ARRIVAL,)
    return _deliver(draft, shard, routes, dict.fromkeys(shard.sources, own))


def _deliver(draft: Draft, shard: Shard, routes: Routes, have: dict[Rank, tuple[Arrival, ...]]) -> bool:
    """Send a shard to all who need it, from whoever of those that have it is nearest; False if one is out of reach."""
    chunk = draft.chunk(shard.id, 0)
    holders = tuple(have)
    for target in dict.fromkeys(shard.targets):
        ways = [r for r in (routes.route(s, target) for s in holders if s != target) if r is not None]
        if target not in have and not ways:
            return False
        if target not in have:
            for hop in min(ways, key=len):
                if hop.dst not in have:
                    have[hop.dst] = (draft.send(chunk, (hop,), have[hop.src]),)
    for target in shard.targets:
        draft.output(target, chunk, have[target])
    return True


def _direct_reduce(draft: Draft, shard: Shard, routes: Routes) -> bool:
    """Reduce into the first target, and copy from there: so all results have the same tree of additions."""
    chunk, root = draft.chunk(shard.id, 0), shard.targets[0]
    into: dict[Rank, Hop] = {}
    for source in shard.sources:
        route = routes.route(source, root)
        if route is None and source != root:
            return False
        for hop in route or ():
            if hop.src in into:
                break  # from here on it goes the way that an earlier source goes
            into[hop.src] = hop
    feeders: dict[Rank, list[Rank]] = {}
    for rank, hop in into.items():
        feeders.setdefault(hop.dst, []).append(rank)
    return _deliver(draft, shard, routes, {root: _inward(draft, chunk, shard, into, feeders, root)})


def _inward(
    draft: Draft,
    chunk: ChunkId,
    shard: Shard,
    into: dict[Rank, Hop],
    feeders: dict[Rank, list[Rank]],
    rank: Rank,
) -> tuple[Arrival, ...]:
    """Reduce what flows into a rank with its own contribution, if it has one."""
    own = (OWN_ARRIVAL,) if rank in shard.sources else ()
    parts = (
        draft.send(chunk, (into[r],), _inward(draft, chunk, shard, into, feeders, r)) for r in feeders.get(rank, ())
    )
    return (*own, *parts)
