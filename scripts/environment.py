"""Makes the project's own Python environment, ``.venv`` beside the sources; needs only Python 3.11 and pip's index.

What a fresh Debian or Ubuntu lacks (python3-venv) is installed when run as root; else the command is shown.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = Path(os.environ.get("ACCLC_VENV", ROOT / ".venv"))


def prepare(*extras: str) -> Path:
    """Return the environment's Python, with acclc and ``extras`` installed; does nothing when that is so already."""
    if sys.version_info < (3, 11):  # noqa: UP036  whoever runs this may have an older one
        sys.exit(f"acclc needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / f"installed-{'-'.join(extras) or 'base'}"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    if not python.exists():
        _need_venv()
        print(f"making an environment in {ENVIRONMENT.name} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    print("installing acclc and what it needs ...", flush=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--editable", target], check=True)
    stamp.write_text(wanted)
    return python


def _need_venv() -> None:
    """Debian splits venv off Python; fetch it, or say how."""
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(f"Python's venv module is missing. Install it and run this again:\n\n    sudo {' '.join(command)}\n")
    print(f"installing {package} ...", flush=True)
    subprocess.run(["apt-get", "update", "--quiet"], check=True)
    subprocess.run(command, check=True, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})


def run(*command: str) -> int:
    """Run a command of the environment in the project's folder; return its exit code."""
    print(f"\n$ {' '.join(command)}", flush=True)
    executable = ENVIRONMENT / "bin" / command[0]
    return subprocess.run([str(executable), *command[1:]], cwd=ROOT).returncode
