"""Random machines with switches and budgets, multicast, messages and reductions at once: trees run right."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "unit" / "solve")]

from end_to_end import random_call, run_call  # noqa: E402
from solve_cases import custom  # noqa: E402
from test_flows import any_machine  # noqa: E402

from acclc.artefact import Artefact, CompiledCollective, Proof  # noqa: E402
from acclc.bounds import bound  # noqa: E402
from acclc.driver import lower  # noqa: E402
from acclc.ir.problem import Problem  # noqa: E402
from acclc.ir.result import Solution, Status  # noqa: E402
from acclc.simulate import size_ranges  # noqa: E402
from acclc.solve.mixed import mixed_schedule  # noqa: E402
from acclc_runtime import load  # noqa: E402


def any_task(seed: int) -> Problem:
    """One shard of each kind at least: to one, to some, to all, reduced at one, at some, at all."""
    rng = random.Random(seed)
    topology = any_machine(rng, 5)
    ranks = list(range(len(topology.ranks)))
    some = rng.sample(ranks, rng.randint(1, len(ranks)))
    root, other = rng.sample(ranks, 2)
    held = rng.sample(ranks, rng.randint(1, 2))
    return custom(
        topology,
        [
            ([root], [other], False),
            (held, some, False),
            ([other], ranks, False),
            (ranks, [root], True),
            (some, [root, other], True),
            (ranks, ranks, True),
        ],
    )


@pytest.mark.parametrize("seed", range(4))
def test_mixed_trees_run(seed: int) -> None:
    """Every level below is verified by ``lower``; counts that no chunk divides, empty ones, slices of a few bytes."""
    task = any_task(seed)
    found = mixed_schedule(task)
    assert found.schedule is not None, found.reason
    (sizes,) = size_ranges(task, [found.schedule])
    variant = lower(task, Solution(found.schedule), sizes)
    proof = Proof(bound(task), Status.FEASIBLE, (), False, True, ())
    made = Artefact("mixed", "test", (CompiledCollective(task.without_spans(), proof, (variant,)),), ())
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(made.save(Path(folder) / "mixed"))
        (collective,) = loaded.manifest.collectives
        with loaded.local("numpy") as group:
            for _ in range(6):
                run_call(group, collective, random_call(rng, collective))
        with loaded.local("cpu", timeout_s=120, mode="threads", slice_bytes=192) as group:
            for _ in range(6):
                run_call(group, collective, random_call(rng, collective, "i32"))
