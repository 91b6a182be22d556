"""How long a new user waits: every command of docs/tutorial.md as a process of its own, in an empty folder.

    python benchmarks/first_steps.py [--quick] [--json FILE]

``seconds`` are by the clock, Python's start included; ``--quick`` leaves out what comes after the compilation.
The bar is 30 s a command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from documented import steps  # noqa: E402

BAR_S = 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder) / "bin" / "acclc"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m acclc "$@"\n')
        shim.chmod(0o755)
        path = f"{ROOT}:{ROOT / 'runtime'}"
        environment = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}", "PYTHONPATH": path}
        environment["ACCLC_CACHE_DIR"] = f"{folder}/cache"
        for command in commands():
            started = time.perf_counter()
            done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, env=environment, capture_output=True)
            seconds = time.perf_counter() - started
            case = next(line for line in reversed(command.splitlines()) if line)
            rows.append({"case": case, "verified": done.returncode == 0, "seconds": round(seconds, 2), "bar_s": BAR_S})
            print(f"{seconds:7.2f} s  {'ok ' if done.returncode == 0 else 'NO '} {case}", flush=True)
            if options.quick and command.startswith("acclc compile"):
                break
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["verified"] for row in rows) else 1


def commands() -> list[str]:
    """Single commands; what is typed into a file belongs to the command after it."""
    found = []
    for step in steps("docs/tutorial.md"):
        if step.kind == "run" and "<<" in step.text:
            found.append(step.text)
        elif step.kind == "run":
            found += [line for line in step.text.splitlines() if line and not line.startswith("#")]
    return found


if __name__ == "__main__":
    sys.exit(main())
