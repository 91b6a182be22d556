from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))  # for nvml_double

Write = Callable[[str, object], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a recorded machine below ``tmp_path``."""

    def to(name: str, value: object) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")

    return to
