"""Records of machines, and the double of NVML that lies with the tests of the runtime."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))

from nvml_double import DGX1, NVMLError, addresses, relabelled, switched

__all__ = ["DGX1", "NVMLError", "Write", "addresses", "relabelled", "switched"]


@dataclass(frozen=True)
class Write:
    """Writes files of a recorded machine below ``root``."""

    root: Path

    def __call__(self, name: str, value: object) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
