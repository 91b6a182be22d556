"""The tests in one command: install with the ``dev`` extra, then run them all. Arguments go to pytest."""

from __future__ import annotations

import sys

from environment import prepare, run

if __name__ == "__main__":
    prepare("dev")
    sys.exit(run("pytest", "-n", "auto", "--dist", "loadgroup", *sys.argv[1:]))
