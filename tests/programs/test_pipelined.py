"""Pipelined schedules as programs: every collective that trees carry runs, in slices of many levels at once."""

from pathlib import Path

import pytest

from acclc import compile_text
from acclc_runtime.run import run_checks

TEXT = """
topology ring5 {
    link l { 10 GB/s, 1 us }
    gpu g[5]
    for i in 0..<5 { g[i] -> g[(i + 1) % 5] : 2 l }
    for i in 0..<5 { g[(i + 1) % 5] -> g[i] : l }
    g[0] <-> g[2] : l
}
broadcast on ring5 { root g[1], goal bandwidth, within 1 s }
reduce on ring5 { root g[3], op sum, goal bandwidth, within 1 s }
all_reduce on ring5 { op sum, goal bandwidth, within 1 s }
"""
FEW_BLOCKS = TEXT.replace("within 1 s", "blocks 3, channels 2, within 1 s")


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("text", [TEXT, FEW_BLOCKS], ids=["a block a lane", "few blocks"])
def test_right_results(backend: str, text: str, tmp_path: Path) -> None:
    artefact = compile_text(text, "pipelined")
    pipelined = [v for c in artefact.collectives for v in c.variants if v.schedule.pipelined]
    assert len(pipelined) >= 2
    folder = artefact.save(tmp_path / "pipelined")
    # ragged counts; and 25 slices of 64 KiB of the longest chunk and more
    rows = run_checks(folder, backend=backend, sizes=(4, 52, 12_345 * 4, 8 * 2**20), dtypes=("i32",), iterations=1)
    assert rows
    assert all(row.ok for row in rows), [(r.collective, r.variant, r.bytes, r.error) for r in rows if not r.ok]


BOXES = """
topology box {
    link nv { 300 GB/s, 0.35 us }
    gpu g[8]
    switch sw
    g <-> sw : nv
}
topology two_boxes {
    link ib { 25 GB/s, 2.5 us }
    box box[2]
    switch rail[8]
    for b in 0..<2, r in 0..<8 { box[b].g[r] <-> rail[r] : ib }
}
all_gather on two_boxes { goal bandwidth }
reduce_scatter on two_boxes { goal bandwidth }
all_reduce on two_boxes { goal bandwidth, blocks 8 }
"""
MI250 = "all_gather on mi250 { goal bandwidth } all_reduce on mi250 { goal bandwidth, blocks 16 }"
UNEVEN = """
topology star {
    link fast { 40 GB/s, 1 us }
    link slow { 10 GB/s, 1 us }
    gpu hub
    gpu g[5]
    switch sw
    hub <-> sw : fast
    g <-> sw : slow
    budget "uplinks" { 70 GB/s both ways over g[0] <-> sw, g[1] <-> sw, hub <-> sw }
}
all_reduce on star { goal bandwidth }
"""


@pytest.mark.parametrize(
    ("text", "bounds"),
    [(BOXES, ["15/13", "15/13", "15/104"]), (MI250, ["7/3", "7/24"]), (UNEVEN, ["20/13"])],
    ids=["two dgx_a100", "mi250", "budgets"],
)
def test_the_machines_of_the_tables(text: str, bounds: list[str], tmp_path: Path) -> None:
    """At the bound, and right on the cpu: switches, many levels, trees of different weights, shared budgets."""
    artefact = compile_text(text, "tables")
    for collective, rounds in zip(artefact.collectives, bounds, strict=True):
        (variant,) = collective.variants
        assert variant.schedule.pipelined
        assert str(collective.proof.bound.rounds_per_chunk) == rounds
        assert variant.time_per_byte == collective.proof.bound.throughput.time_per_byte
    rows = run_checks(artefact.save(tmp_path / "tables"), sizes=(4, 100_004), dtypes=("i32",), iterations=1)
    assert rows
    assert all(row.ok for row in rows), [(r.collective, r.variant, r.bytes, r.error) for r in rows if not r.ok]
