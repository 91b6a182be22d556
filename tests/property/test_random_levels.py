"""Random graphs, collectives and tree schedules: every level verifies, and runs right in every interleaving."""

from __future__ import annotations

import random
import sys
from collections import deque
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "unit" / "verify")]

from exhaustive import explore_kernel, explore_program, run_schedule  # noqa: E402
from helpers import IN_PLACE, Builder, problem, topology  # noqa: E402
from plain_lowering import plain_kernel, plain_program  # noqa: E402

from acclc.ir.problem import Problem, Topology  # noqa: E402
from acclc.ir.schedule import OWN, Schedule  # noqa: E402
from acclc.lower import lower_kernel, lower_program  # noqa: E402
from acclc.verify import check_kernel, check_problem, check_program, check_schedule  # noqa: E402


def random_graph(rng: random.Random, ranks: int) -> Topology:
    """A directed ring in random order, so strongly connected, and some more links."""
    order = rng.sample(range(ranks), ranks)
    edges = [(order[i], order[(i + 1) % ranks]) for i in range(ranks)]
    edges += [(a, b) for a in range(ranks) for b in range(ranks) if a != b and rng.random() < 0.4]
    return topology("random", ranks, dict.fromkeys(edges))


def tree(rng: random.Random, graph: Topology, root: int, inward: bool) -> dict[int, int]:
    """A spanning tree as node -> parent, away from the root or (inward) towards it."""
    parents: dict[int, int] = {root: root}
    queue = deque([root])
    while queue:
        at = queue.popleft()
        ends = [(x.dst, x.src) if inward else (x.src, x.dst) for x in graph.links]
        following = [b for a, b in ends if a == at and b not in parents]
        rng.shuffle(following)
        for b in following:
            if b not in parents:
                parents[b] = at
                queue.append(b)
    return parents


def tree_schedule(rng: random.Random, what: Problem, chunks: int) -> Schedule:
    """Each chunk: its contributions up a tree to one rank, then down another to whoever needs it; random delays."""
    b = Builder(what, chunks, 1)
    steps = 0
    for chunk in b.chunks:
        shard = what.shards[chunk.shard]
        root = int(rng.choice(shard.sources))
        has: dict[int, tuple[int, tuple[int, ...]]] = {}
        if shard.reduced:
            up = tree(rng, what.topology, root, inward=True)
            order = sorted(up, key=lambda n: -_depth(up, n))
            arriving: dict[int, list[tuple[int, int]]] = {}
            for node in order:
                parts = arriving.get(node, [])
                operands = (OWN, *(t for _, t in parts)) if node in shard.sources else tuple(t for _, t in parts)
                ready = 1 + max((s for s, _ in parts), default=-1)
                if node == root:
                    has[node] = (ready, operands)
                elif operands:
                    step = ready + rng.randrange(2)
                    moved = b.move(chunk.id, node, up[node], step, operands)
                    arriving.setdefault(up[node], []).append((step, moved))
                    steps = max(steps, step + 1)
        else:
            has[root] = (0, (OWN,))
        down = tree(rng, what.topology, root, inward=False)
        for target in shard.targets:
            path = [int(target)]
            while path[-1] not in has:
                path.append(down[path[-1]])
            for parent, node in zip(path[::-1], path[-2::-1], strict=False):
                ready, operands = has[parent]
                step = ready + rng.randrange(2)
                has[node] = (step + 1, (b.move(chunk.id, parent, node, step, operands),))
                steps = max(steps, step + 1)
            b.end(target, chunk.id, has[int(target)][1])
    b.steps = steps
    return b.schedule()


def _depth(parents: dict[int, int], node: int) -> int:
    return 0 if parents[node] == node else 1 + _depth(parents, parents[node])


@given(
    seed=st.integers(0, 10**6),
    ranks=st.integers(2, 4),
    collective=st.sampled_from(list(IN_PLACE)),
    chunks=st.integers(1, 2),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_every_level_of_a_random_schedule(seed: int, ranks: int, collective: object, chunks: int) -> None:
    rng = random.Random(seed)
    what = problem(random_graph(rng, ranks), collective, root=rng.randrange(ranks))  # type: ignore[arg-type]
    schedule = tree_schedule(rng, what, chunks)
    assert check_problem(what).ok
    report = check_schedule(what, schedule)
    assert report.ok, str(report)
    run_schedule(what, schedule)
    small = len(schedule.transfers) <= 12
    aliasings = (False, True) if what.demands[0].in_place != "none" else (False,)
    plain, lowered = plain_program(what, schedule), lower_program(what, schedule)
    kernels = [(plain, plain_kernel(what, plain)), (lowered, lower_kernel(what, lowered))]
    for program, kernel in kernels:
        report = check_program(what, schedule, program)
        assert report.ok, str(report)
        report = check_kernel(what, schedule, kernel)
        assert report.ok, str(report)
        for aliased in aliasings if small else ():
            explore_program(what, schedule, program, aliased)
            explore_kernel(what, schedule, kernel, [(3, aliased), (2, aliasings[-1])])
