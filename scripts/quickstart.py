"""The main job in one command: install, compile the DGX-1 example, verify it, run it on the CPU, draw it."""

from __future__ import annotations

import shutil
import sys

from environment import prepare, run

COMMANDS = (
    ("acclc", "compile", "examples/dgx1.accl", "-o", "build/dgx1", "--force"),
    ("acclc", "verify", "build/dgx1"),
    ("acclc", "run", "build/dgx1", "--backend", "cpu", "--check"),
    ("acclc", "show", "build/dgx1", "-o", "build/dgx1.html"),
)


def main() -> int:
    """Run the commands one after another; stop at the first that fails."""
    prepare()
    if not any(shutil.which(c) for c in ("g++", "clang++", "c++")):
        print("no C++ compiler found: the kernels are not built; the numpy backend runs the program instead")
    for command in COMMANDS:
        code = run(*command)
        if code != 0:
            return code
    print("\nThe schedule is drawn in build/dgx1.html: open it in a browser.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
