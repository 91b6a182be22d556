"""Random machines with switches and budgets, multicast, messages and reductions at once: trees run right."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "unit" / "solve")]

from end_to_end import run_schedule  # noqa: E402
from solve_cases import custom  # noqa: E402
from test_flows import any_machine  # noqa: E402

from acclc.ir.problem import Problem  # noqa: E402
from acclc.solve.mixed import mixed_schedule  # noqa: E402


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
    """Verified at every level, and right on both backends."""
    task = any_task(seed)
    found = mixed_schedule(task)
    assert found.schedule is not None, found.reason
    run_schedule(task, found.schedule, seed, calls=6)
