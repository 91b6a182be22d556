"""Flows as programs: what goes from one place to one place runs in slices of many levels at once."""

from pathlib import Path

import pytest

from acclc import compile_text
from acclc_runtime.run import run_checks

DGX1 = "all_to_all on dgx1 { goal bandwidth, chunks up to 2 }"
BUDGETS = """
topology star {
    link fast { 40 GB/s, 1 us }
    link slow { 10 GB/s, 1 us }
    gpu hub
    gpu g[5]
    switch sw
    hub <-> sw : fast
    g <-> sw : slow
    for i in 0..<4 { g[i] -> g[i + 1] : slow }
    budget "uplinks" { 70 GB/s both ways over g[0] <-> sw, g[1] <-> sw, hub <-> sw }
}
all_to_all on star { goal bandwidth, within 2 s }
gather on star { root hub, goal bandwidth, within 1 s }
scatter on star { root g[2], goal bandwidth, within 1 s }
send_recv on star { pairs g[0] -> g[1], g[1] -> g[2], g[2] -> hub, goal bandwidth, within 1 s }
collective mixed on star {
    chunk a at g[0], g[1]
    chunk b at hub
    reduce c over g[4]
    need a at g[3]
    need b at g[2]
    need c at hub
} with { op sum, goal bandwidth, within 1 s }
"""


@pytest.mark.parametrize("text", [DGX1, BUDGETS], ids=["dgx1", "budgets"])
def test_right_results(text: str, tmp_path: Path) -> None:
    """At the bound, verified at every level, and right on both backends, for ragged counts and for many slices."""
    artefact = compile_text(text, "flows")
    flows = [v for c in artefact.collectives for v in c.variants if v.schedule.strategy == "flow"]
    assert flows
    for collective in artefact.collectives:
        for variant in collective.variants:
            if variant in flows:
                assert variant.time_per_byte == collective.proof.bound.throughput.time_per_byte
    folder = artefact.save(tmp_path / "flows")
    for backend, sizes in (("numpy", (4, 52)), ("cpu", (4, 52, 12_345 * 4, 8 * 2**20))):
        rows = run_checks(folder, backend=backend, sizes=sizes, dtypes=("i32",), iterations=1)
        assert rows
        assert all(row.ok for row in rows), [(r.collective, r.variant, r.bytes, r.error) for r in rows if not r.ok]


def test_blocks_are_limited(tmp_path: Path) -> None:
    """The lanes of all levels share few blocks."""
    artefact = compile_text(DGX1.replace("goal", "blocks 8, goal"), "few")
    (variant,) = artefact.collectives[0].variants
    assert variant.schedule.strategy == "flow"
    rows = run_checks(artefact.save(tmp_path / "few"), backend="cpu", sizes=(100_004,), dtypes=("i32",), iterations=1)
    assert rows
    assert all(row.ok for row in rows), [r.error for r in rows]
