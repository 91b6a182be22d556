"""The wheel: what it holds, that it does the main job elsewhere, and that artefacts run without the compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

EXAMPLE = """
all_gather on ring(4) { goal latency }
all_reduce on full(3) { op sum, goal latency }
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the checkout, with nothing of the checkout on its path."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_TARGET"))}
    environment["ACCLC_CACHE_DIR"] = str(cwd / "cache")
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def fresh_environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, ROOT, cwd=out)
    (path,) = out.glob("acclc-*.whl")
    return path


def test_the_wheel_is_pure_python_and_whole(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "acclc/_shipped/grammar/acclc.lark",
        "acclc/_shipped/templates/kernel.cu.j2",
        "acclc/_shipped/templates/module.py.j2",
        "acclc/library/dgx1.accl",
        "acclc/py.typed",
        "acclc_runtime/__init__.py",
        "acclc_runtime/py.typed",
    ):
        assert needed in names
    for folder in ("templates/device/", "templates/page/"):
        assert any(n.startswith(f"acclc/_shipped/{folder}") for n in names)
    assert any(n.startswith("acclc_runtime/native/") and n.endswith(".cpp") for n in names)
    assert not [n for n in names if n.startswith(("tests/", "benchmarks/")) or n.endswith((".pyc", ".so"))]


def test_a_fresh_environment_does_the_main_job_and_a_bare_one_runs_the_artefact(wheel: Path, tmp_path: Path) -> None:
    work = tmp_path / "elsewhere"
    work.mkdir()
    (work / "small.accl").write_text(EXAMPLE)
    full = fresh_environment(tmp_path / "full")
    run(full / "python", "-m", "pip", "install", "--quiet", wheel, cwd=work)
    summary = json.loads(run(full / "acclc", "compile", "small.accl", "-o", "out/small", "--json", cwd=work))
    assert summary["verified"] is True
    assert [c["collective"] for c in summary["collectives"]] == ["all_gather", "all_reduce"]
    run(full / "acclc", "verify", "out/small", cwd=work)
    run(full / "acclc", "run", "out/small", "--check", cwd=work)
    run(full / "acclc", "show", "out/small", "-o", "small.html", cwd=work)
    assert (work / "small.html").stat().st_size > 10_000

    bare = fresh_environment(tmp_path / "bare")
    run(bare / "python", "-m", "pip", "install", "--quiet", "numpy", "msgspec", cwd=work)
    run(bare / "python", "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=work)
    script = """
import importlib.util, sys
for absent in ("ortools", "lark", "networkx", "jinja2", "click"):
    assert importlib.util.find_spec(absent) is None, absent
sys.path.insert(0, "out")
import numpy as np
import small
for backend in ("numpy", "cpu"):
    with small.local(backend=backend) as group:
        inputs = [np.full(5, r + 1, dtype=np.float32) for r in range(3)]
        assert all((x == 6).all() for x in group.all_reduce(inputs))
assert "acclc" not in sys.modules
print("ran")
"""
    for json_file in (work / "out").rglob("schedule.json"):
        json_file.unlink()
    assert run(bare / "python", "-c", script, cwd=work).strip().endswith("ran")
