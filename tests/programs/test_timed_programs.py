"""Schedules for sizes, and trees of several groups at the same time, as programs that run."""

from pathlib import Path

import numpy as np
import pytest

from acclc import compile_text
from acclc.audit import audit
from acclc_runtime import load
from acclc_runtime.run import run_checks

TEXT = """
together as halves {
    reduce_scatter on mi250 among g[0..7]
    reduce_scatter on mi250 among g[8..15] { op max }
} with { goal bandwidth }
together as weighted {
    all_reduce on dgx1 among g[0..3] { weight 3 }
    all_gather on dgx1 among g[4..7] { weight 2 }
} with { goal latency }
all_reduce on ring(5) as middle { goal size 4 KiB .. 4 KiB, chunks up to 10 }
all_to_all on ring(6) as sizes { goal size 16 KiB .. 64 KiB, chunks up to 2 }
"""


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = compile_text(TEXT, "timed")
    strategies = {v.schedule.strategy for c in made.collectives for v in c.variants}
    assert {"mixed", "timed"} <= strategies
    return made.save(tmp_path_factory.mktemp("timed") / "timed")


def test_it_verifies_from_its_files(artefact: Path) -> None:
    assert not [row for row in audit(artefact) if not row.ok]


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_right_results(backend: str, artefact: Path) -> None:
    rows = run_checks(artefact, backend=backend, sizes=(4, 3000, 200_003 * 4), dtypes=("i32",))
    assert rows
    assert all(row.ok for row in rows), [(r.collective, r.variant, r.bytes, r.error) for r in rows if not r.ok]


def test_weights_are_lengths(artefact: Path) -> None:
    """Against the meaning of each collective: what the manifest's shards say is not asked."""
    count = 1000
    rng = np.random.default_rng(5)
    xs = [rng.integers(-50, 50, (3 if rank < 4 else 2) * count).astype(np.int32) for rank in range(8)]
    with load(artefact).local(backend="cpu") as group:
        outs = group.collective("weighted", xs)
    for rank in range(4):
        assert np.array_equal(outs[rank], sum(xs[:4]))
    for rank in range(4, 8):
        assert np.array_equal(outs[rank], np.concatenate(xs[4:]))
