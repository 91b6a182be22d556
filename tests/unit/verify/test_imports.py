"""Verification loads no solver and no compiler pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_verify_loads_no_solver_and_no_pass() -> None:
    code = "import sys, acclc.verify; print('\\n'.join(sys.modules))"
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime")])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "acclc.verify.kernel" in loaded
    forbidden = (
        "ortools",
        "networkx",
        "lark",
        "acclc.solve",
        "acclc.lower",
        "acclc.bounds",
        "acclc.codegen",
        "acclc.sema",
    )
    assert [m for m in loaded if m.startswith(forbidden)] == []
