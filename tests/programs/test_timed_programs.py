"""Schedules for sizes, and trees of several groups at the same time, as programs that run."""

from pathlib import Path

import pytest

from acclc import compile_text
from acclc.audit import audit
from acclc_runtime.run import run_checks

TEXT = """
together as halves {
    reduce_scatter on mi250 among g[0..7]
    reduce_scatter on mi250 among g[8..15] { op max }
} with { goal bandwidth }
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
