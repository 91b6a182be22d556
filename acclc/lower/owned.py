"""A two-step all_reduce from a one-step one: each rank owns a part, reduces it, and spreads the result.

Over the links it is no faster than what the solver found, which is why the solver leaves it out. Where ranks read and
write each other's memory it is: each element is read once of each input, not once by each rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from acclc.ir.problem import LinkId, Problem, Rank, ShardId
from acclc.ir.schedule import OWN, Output, Schedule, Transfer, TransferId, equal_chunks


def owned_schedule(problem: Problem, schedule: Schedule) -> Schedule | None:
    """Return it; None unless all ranks need every shard, of all, and ``schedule`` sends from each to each in a step."""
    group = problem.group
    paths = {(t.src, t.dst): t.path for t in schedule.transfers}
    pairs = len(group) * (len(group) - 1)
    everywhere = all(s.reduced and set(s.sources) == set(s.targets) == set(group) for s in problem.shards)
    if schedule.steps != 1 or schedule.pipelined or not everywhere or len(paths) < pairs or len(group) < 2:
        return None
    chunks = equal_chunks(tuple(ShardId(s.id) for s in problem.shards), len(group))
    collect: list[Transfer] = []
    arrived: dict[tuple[int, Rank], TransferId] = {}
    for chunk in chunks:
        owner = group[chunk.index]
        for rank in group:
            if rank != owner:
                number = TransferId(len(collect))
                arrived[(chunk.id, rank)] = number
                collect.append(Transfer(number, chunk.id, rank, owner, paths[(rank, owner)], 0, (OWN,)))
    spread: list[Transfer] = []
    outputs: list[Output] = []
    for chunk in chunks:
        owner = group[chunk.index]
        operands = tuple(arrived.get((chunk.id, rank), OWN) for rank in group)
        outputs.append(Output(owner, chunk.id, operands))
        for rank in group:
            if rank != owner:
                number = TransferId(len(collect) + len(spread))
                spread.append(Transfer(number, chunk.id, owner, rank, paths[(owner, rank)], 1, operands))
                outputs.append(Output(rank, chunk.id, (number,)))
    rounds = (_rounds(problem, collect), _rounds(problem, spread))
    return Schedule(chunks, (*collect, *spread), tuple(outputs), rounds, "owned")


def _rounds(problem: Problem, transfers: Iterable[Transfer]) -> int:
    """The least rounds in which a step's transfers fit into links and budgets."""
    topology = problem.topology
    load: dict[LinkId, int] = {}
    for t in transfers:
        for link in t.path:
            load[link] = load.get(link, 0) + 1
    shares = [ceil(n / topology.links[e].capacity) for e, n in load.items()]
    shares += [ceil(sum(load.get(e, 0) for e in b.links) / b.capacity) for b in topology.budgets]
    return max(shares, default=0)
