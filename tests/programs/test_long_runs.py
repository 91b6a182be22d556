"""The scripts of long runs, short: ranks that are lost at random moments, many mixed calls, the check of a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acclc_runtime.tuning import Range, TunedCollective, Tuning, write_tuning

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

ROOT = Path(__file__).parents[2]


def run(script: str, *options: str, folder: Path) -> Any:
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime"), *filter(None, [os.environ.get("PYTHONPATH")])])
    rows = folder / "rows.json"
    command = [sys.executable, str(ROOT / "benchmarks" / script), *options, "--json", str(rows)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(rows.read_text())


def test_lost_ranks(tmp_path: Path) -> None:
    rows = run("chaos.py", "--runs", "8", folder=tmp_path)
    assert len(rows) == 8
    assert {r["action"] for r in rows} == {"killed", "stopped", "interrupted", "another size"}
    assert all(r["verified"] and not r["faults"] for r in rows)


def test_many_mixed_calls(tmp_path: Path) -> None:
    rows = run("soak.py", "--calls", "5000", folder=tmp_path)
    assert [r["wrong"] for r in rows] == [0, 0]


def test_the_script_for_a_gpu_machine_without_its_launches(tmp_path: Path) -> None:
    rows = run("gpu_check.py", "--dry", "--quick", folder=tmp_path)["rows"]
    assert all(row["verified"] for row in rows)
    assert rows[0]["runs"] > 100
    assert len(rows) == (6 if shutil.which("nvcc") else 1)  # a kernel a collective of the example


def test_ranks_take_the_tuned_variant(tmp_path: Path) -> None:
    import acclc_runtime as rt
    from acclc import compile_text

    artefact = compile_text("all_reduce on full(3)", "three").save(tmp_path / "three")
    variants = [v.id for v in rt.load(artefact).manifest.collectives[0].variants if v.protocol == "simple"]
    assert len(variants) > 1
    for name in variants:
        write_tuning(artefact, Tuning("memory", "", (TunedCollective("all_reduce", (Range(0, name),)),)))
        assert rt.spawn(_choices, 3, artefact) == [[name, name, True]] * 3


def _choices(comm: Any) -> list[Any]:
    import numpy as np

    total = comm.all_reduce(np.full(100, comm.rank + 1, np.int32))
    return [comm.choice("all_reduce", 8)[0].id, comm.choice("all_reduce", 1 << 26)[0].id, bool((total == 6).all())]
