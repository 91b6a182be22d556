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
