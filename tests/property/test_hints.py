"""Hints on random machines: whatever solver a schedule comes from, it keeps to them, whatever the goal.

``ACCLC_HINTS=400`` looks at so many; the default is a sample of them.
"""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest

sys.path[:0] = [str(Path(__file__).parent.parent / "unit" / "solve")]

from packing_cases import random_machine  # noqa: E402
from solve_cases import problem  # noqa: E402

from acclc.ir.problem import Goal, GoalKind, Hints, Problem  # noqa: E402
from acclc.ir.schedule import OWN, Schedule  # noqa: E402
from acclc.solve.portfolio import solve  # noqa: E402
from acclc.verify import check_schedule  # noqa: E402

COLLECTIVES = ("all_gather", "broadcast", "reduce_scatter", "reduce", "gather", "scatter", "all_to_all")
CASES = int(os.environ.get("ACCLC_HINTS", "24"))
GOALS = (GoalKind.LATENCY, GoalKind.BANDWIDTH, GoalKind.PARETO, GoalKind.SIZES)


def passed_on_by(schedule: Schedule) -> set[int]:
    """Ranks that send something that came to them."""
    return {int(t.src) for t in schedule.transfers if any(o != OWN for o in t.operands)}


def any_case(seed: int) -> Problem:
    """A machine of three to six GPUs, some of which may pass on data; all that is wanted can still be reached."""
    rng = random.Random(seed)
    kind = rng.choice(GOALS)
    goal = Goal(kind, *((1 << 10, 1 << 24) if kind is GoalKind.SIZES else (None, None)))
    gpus = rng.randint(3, 6)
    task = problem(random_machine(rng.randrange(10**9), gpus, rng.randint(0, 1)), rng.choice(COLLECTIVES), goal=goal)
    while True:
        relays = tuple(r for r in task.topology.ranks if rng.random() < 0.6)
        hints = Hints(relays=relays, symmetry=rng.random() < 0.5)
        hinted = replace(task, goal=replace(goal, chunks=rng.choice((None, 1, 2)), hints=hints))
        if _reachable(hinted):
            return hinted


def _reachable(task: Problem) -> bool:
    """By paths whose inner nodes are no GPUs or may pass on data."""
    graph = nx.DiGraph((e.src, e.dst) for e in task.topology.links)
    inner = set(map(int, task.goal.hints.relays or ())) | set(range(len(task.topology.ranks), len(task.topology.nodes)))

    def joined(a: int, b: int) -> bool:
        return a == b or nx.has_path(graph.subgraph(inner | {a, b}), a, b)

    return all(
        (all if shard.reduced else any)(joined(a, b) for a in shard.sources)
        for shard in task.shards
        for b in shard.targets
    )


@pytest.mark.parametrize("group", range(4))
def test_every_schedule_keeps_to_the_hints(group: int) -> None:
    for seed in range(group, CASES, 4):
        task = any_case(seed)
        result = solve(task, work=0.3)
        assert result.solutions, f"seed {seed}"
        for schedule in (s.schedule for s in result.solutions):
            name = f"seed {seed}: {task.collective}, {task.goal.kind}, {schedule.id} of {schedule.strategy}"
            assert check_schedule(task, schedule).ok, name
            assert task.goal.hints.relays is not None
            assert passed_on_by(schedule) <= set(map(int, task.goal.hints.relays)), name
            if task.goal.chunks is not None and not schedule.pipelined:
                assert len(schedule.chunks) <= task.goal.chunks * len(task.shards), name
