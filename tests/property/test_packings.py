"""Random strongly connected machines, some with budgets or uneven switches: packings reach the certified optimum.

``ACCLC_PACKINGS=3000`` looks at so many machines; the default is a sample of them.
"""

from __future__ import annotations

import os
import random
import sys
from fractions import Fraction
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent.parent / "unit" / "solve")]

from packing_cases import random_machine  # noqa: E402
from solve_cases import machine, problem  # noqa: E402

from acclc.bounds import bound  # noqa: E402
from acclc.bounds.families import Family  # noqa: E402
from acclc.bounds.rates import rate  # noqa: E402
from acclc.ir.problem import Problem, Topology  # noqa: E402
from acclc.solve.packing import packed_schedule  # noqa: E402
from acclc.verify import check_schedule  # noqa: E402
from acclc.verify.certificate import check_certificate  # noqa: E402

MACHINES = int(os.environ.get("ACCLC_PACKINGS", "160"))
GROUPS = 8
MODES = ("even", "uneven", "budgets", "both")
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce")


def any_machine(rng: random.Random, mode: str) -> Topology:
    """Two to seven GPUs and up to two switches; links differ the two ways."""
    gpus, switches = rng.randint(2, 7), rng.randint(0, 2)
    topology = random_machine(rng.randrange(10**9), gpus, switches)
    links = {(e.src, e.dst): e.count for e in topology.links}
    if mode in ("uneven", "both"):
        for _ in range(rng.randint(1, 4)):
            u, v = rng.sample(range(gpus + switches), 2)
            links[u, v] = links.get((u, v), 0) + rng.randint(1, 4)
    ends = sorted(links)
    budgets = []
    for _ in range(rng.randint(1, 3) if mode in ("budgets", "both") else 0):
        of = sorted(rng.sample(range(len(ends)), rng.randint(1, min(5, len(ends)))))
        budgets.append((tuple(of), rng.randint(1, sum(links[ends[e]] for e in of))))
    return machine(gpus, [(u, v, links[u, v]) for u, v in ends], switches=switches, budgets=budgets)


def any_case(seed: int) -> tuple[Problem, str]:
    rng = random.Random(seed)
    mode, collective = MODES[seed % len(MODES)], rng.choice(COLLECTIVES)
    return problem(any_machine(rng, mode), collective), f"seed {seed}: {collective}, {mode}"


@pytest.mark.parametrize("group", range(GROUPS))
def test_packings_reach_the_optimum(group: int) -> None:
    """``achieved`` is what the verifier counts in the transfers, the bound what it recomputes from the certificate."""
    for seed in range(group, MACHINES, GROUPS):
        task, name = any_case(seed)
        proven = check_certificate(task, bound(task))
        packed = packed_schedule(task)
        assert packed.schedule is not None, (name, packed.reason)
        report = check_schedule(task, packed.schedule)
        assert report.ok, (name, report.findings)
        assert proven.ok, (name, proven.findings)
        assert report.facts is not None
        assert proven.facts is not None
        achieved = report.facts.time_per_shard_byte
        assert (achieved, packed.loss) == (packed.time, 0), name
        if achieved == proven.facts.time_per_byte:
            continue
        # a partition alone may prove too little of an all_reduce: trees reach the optimum of all trees
        assert task.collective == "all_reduce", (name, achieved, proven.facts.time_per_byte)
        assert achieved > proven.facts.time_per_byte, name
        best = rate(task, Family.BOTH)
        assert float(achieved) * best == pytest.approx(1, rel=1e-6), name


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_relabelled_machines_have_the_same_optimum(seed: int) -> None:
    rng = random.Random(seed)
    topology = any_machine(rng, "budgets")
    gpus, nodes = len(topology.ranks), len(topology.nodes)
    new = [*rng.sample(range(gpus), gpus), *rng.sample(range(gpus, nodes), nodes - gpus)]
    links = [(new[e.src], new[e.dst], e.count) for e in topology.links]
    budgets = [(tuple(b.links), b.capacity / Fraction(10**9)) for b in topology.budgets]
    renamed = machine(gpus, links, switches=nodes - gpus, budgets=budgets)
    times = {packed_schedule(problem(t, "all_reduce")).time for t in (topology, renamed)}
    assert len(times) == 1
