"""Schedules that no solver makes: everything everywhere over random trees, reduced only in the end or on the way."""

from __future__ import annotations

import random

from acclc.ir.problem import Problem, Rank
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks


def flood(problem: Problem, seed: int) -> Schedule:
    """An all_reduce on a full machine: each rank's input goes to all over a tree of its own; each reduces them itself.

    Which arrivals come over which link, and in which order, is random; the order of reduction is that of the ranks.
    """
    chance = random.Random(seed)
    ranks = list(problem.group)
    links = {(x.src, x.dst): x.id for x in problem.topology.links}
    made: list[tuple[int, int, int, int, int]] = []  # step, source, from, to, parent
    for source in ranks:
        others = [r for r in ranks if r != source]
        chance.shuffle(others)
        reached: dict[int, tuple[int, int]] = {source: (-1, -1)}
        for node in others:
            parent = chance.choice(list(reached))
            step = reached[parent][0] + 1 + chance.randrange(2)
            made.append((step, source, parent, node, reached[parent][1]))
            reached[node] = (step, len(made) - 1)
    order = sorted(range(len(made)), key=lambda i: (made[i][0], i))
    number = {old: TransferId(new) for new, old in enumerate(order)} | {-1: OWN}
    transfers = tuple(
        Transfer(
            TransferId(new),
            ChunkId(0),
            Rank(made[old][2]),
            Rank(made[old][3]),
            (links[made[old][2], made[old][3]],),  # type: ignore[index]
            made[old][0],
            (number[made[old][4]],),
        )
        for new, old in enumerate(order)
    )
    arrival = {(made[old][1], made[old][3]): number[old] for old in order}
    outputs = tuple(
        Output(rank, ChunkId(0), tuple(OWN if r == rank else arrival[r, rank] for r in ranks)) for rank in ranks
    )
    return Schedule(equal_chunks((problem.shards[0].id,), 1), transfers, outputs, (), "random")
