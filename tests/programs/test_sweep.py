"""Every collective of the definitions, each on another machine of the library: a sample of ``benchmarks/sweep.py``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from sweep import COLLECTIVES, measure

MACHINES = (
    "star(3)",
    "ring(4)",
    "line(3)",
    "hypercube(2)",
    "mi50_4p2h",
    "mesh(2, 3)",
    "full(4)",
    "torus(2, 3)",
    "hgx_h100",
    "mi100",
)


def test_there_is_a_machine_for_each() -> None:
    assert len(MACHINES) == len(COLLECTIVES) == 10


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize(("collective", "machine"), list(zip(COLLECTIVES, MACHINES, strict=True)))
def test_compiled_verified_and_right(collective: str, machine: str) -> None:
    row = measure(machine, collective, 2.0)
    assert row["ok"], row["error"]
    assert row["verified"]
    assert row["numpy"]
    assert row["cpu"]
    assert row["gap"] >= 0
