"""Draws docs/images/bench.svg, README's figure, from the kept results of benchmarks/runtime.py.

Run it in the project's environment (``.venv/bin/python``) when benchmarks/results/runtime.json has changed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ("acclc", "plot", "benchmarks/results/runtime.json", "--ranks", "4", "-o", "docs/images/bench.svg")


def main() -> int:
    """Run the command; return its exit code."""
    print("$", *COMMAND, flush=True)
    return subprocess.run([str(Path(sys.executable).parent / COMMAND[0]), *COMMAND[1:]], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
