"""Hand-made artefacts for the runtime's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import Made, collective, direct_artefact, direct_program, ring_all_reduce, write_artefact

KINDS = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "gather",
    "reduce_scatter",
    "scatter",
    "all_to_all",
    "send_recv",
)


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """all_reduce on three ranks: a direct variant below 1 KiB, the ring from there on."""
    c = collective("all_reduce")
    return write_artefact(
        tmp_path / "ring3",
        [(c, [Made("direct", direct_program(c), 0, 1024), Made("ring", ring_all_reduce(c), 1024, None)])],
    )


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """Every named collective on the ranks 0, 2, 5, rooted ones at 2."""
    return direct_artefact(tmp_path / "everything", *[collective(k, (0, 2, 5), 2) for k in KINDS])
