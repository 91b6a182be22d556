"""Random strongly connected machines, with switches and budgets: flows reach the certified optimum of the dual.

``ACCLC_FLOWS=3000`` looks at so many machines; the default is a sample of them.
"""

from __future__ import annotations

import os
import random
import sys
from fractions import Fraction
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "unit" / "solve")]

from end_to_end import run_schedule  # noqa: E402
from solve_cases import custom, machine, problem  # noqa: E402

from acclc.bounds import bound  # noqa: E402
from acclc.ir.problem import Problem, Topology  # noqa: E402
from acclc.solve.flow import flow_schedule  # noqa: E402
from acclc.verify import check_schedule  # noqa: E402
from acclc.verify.certificate import check_certificate  # noqa: E402

MACHINES = int(os.environ.get("ACCLC_FLOWS", "240"))
GROUPS = 8
COLLECTIVES = ("all_to_all", "gather", "scatter", "send_recv", "custom", "matrix")
"""``matrix``: all_to_all with so many shards of equal size for each pair, some with none."""


def any_machine(rng: random.Random, most: int) -> Topology:
    """Links differ the two ways, what enters a switch and what may leave it differ, budgets lie over any links."""
    gpus, switches = rng.randint(2, most), rng.randint(0, 3)
    nodes = rng.sample(range(gpus + switches), gpus + switches)
    ends = dict.fromkeys(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    for _ in range(rng.randint(0, 3 * len(nodes))):
        ends[tuple(rng.sample(nodes, 2))] = None
    links = [(u, v, rng.randint(1, 4)) for u, v in sorted(ends)]
    budgets = [
        (tuple(sorted(rng.sample(range(len(links)), rng.randint(1, len(links))))), rng.randint(1, 6))
        for _ in range(rng.choice((0, 0, 1, 2)))
    ]
    return machine(gpus, links, switches=switches, budgets=budgets)


def any_case(seed: int, most: int = 7) -> tuple[Problem, str]:
    rng = random.Random(seed)
    topology, collective = any_machine(rng, most), COLLECTIVES[seed % len(COLLECTIVES)]
    ranks = len(topology.ranks)
    if collective == "custom":
        shards = []
        for _ in range(rng.randint(1, 8)):
            reduced = rng.random() < 0.2
            held = rng.sample(range(ranks), 1 if reduced else rng.randint(1, 2))
            kept = [held[0]] if rng.random() < 0.3 else []  # a holder may need it, too
            others = [r for r in range(ranks) if r not in held]
            away = rng.sample(others, min(len(others), rng.randint(0, 1)))
            shards.append((held, [*kept, *away], reduced))
        task = custom(topology, shards)
    elif collective == "matrix":
        counts = [(a, b, rng.choice((0, 0, 1, 2, 5))) for a in range(ranks) for b in range(ranks)]
        task = custom(
            topology, [([a], [b], False) for a, b, count in counts for _ in range(count)] or [([0], [1], False)]
        )
    else:
        shift = rng.randint(1, ranks - 1)
        order = rng.sample(range(ranks), ranks)
        pairs = [(order[n], order[(n + shift) % ranks]) for n in range(ranks)]
        task = problem(topology, collective, pairs=pairs, root=rng.randrange(ranks))
    return task, f"seed {seed}: {collective}"


@pytest.mark.parametrize("group", range(GROUPS))
def test_flows_reach_the_optimum(group: int) -> None:
    """``achieved`` is what the verifier counts in the transfers, the bound what it recomputes from the certificate."""
    for seed in range(group, MACHINES, GROUPS):
        task, name = any_case(seed)
        least = bound(task)
        if not least.throughput.time_per_byte:
            continue
        proven = check_certificate(task, least)
        flow = flow_schedule(task)
        assert flow.schedule is not None, (name, flow.reason)
        report = check_schedule(task, flow.schedule)
        assert report.ok, (name, report.findings)
        assert not report.findings, name
        assert report.facts is not None
        assert proven.facts is not None
        assert report.facts.time_per_shard_byte == flow.time == proven.facts.time_per_byte, name
        assert (flow.loss, flow.k) == (0, flow.exact_k), name


@pytest.mark.parametrize("seed", range(5))
def test_flows_run(seed: int) -> None:
    """Verified at every level, and right on both backends."""
    task, _ = any_case(1000 + seed, most=5)
    flow = flow_schedule(task)
    if flow.schedule is None:
        assert flow.reason == "nothing moves"
        return
    run_schedule(task, flow.schedule, seed, calls=8)


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_relabelled_machines_have_the_same_optimum(seed: int) -> None:
    rng = random.Random(seed)
    topology = any_machine(rng, 6)
    gpus, nodes = len(topology.ranks), len(topology.nodes)
    new = [*rng.sample(range(gpus), gpus), *rng.sample(range(gpus, nodes), nodes - gpus)]
    links = [(new[e.src], new[e.dst], e.count) for e in topology.links]
    budgets = [(tuple(b.links), b.capacity / Fraction(10**9)) for b in topology.budgets]
    renamed = machine(gpus, links, switches=nodes - gpus, budgets=budgets)
    times = {flow_schedule(problem(t, "all_to_all")).time for t in (topology, renamed)}
    assert len(times) == 1
