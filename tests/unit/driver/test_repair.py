"""Repair of a DGX-1: a sample of the cases that ``benchmarks/repair.py`` runs all of."""

from __future__ import annotations

from pathlib import Path

import pytest

from acclc import compile_text
from acclc.artefact import Artefact
from acclc.audit import audit
from acclc.driver import Options
from acclc.ir.problem import GoalKind
from acclc.ir.result import Status
from acclc.repair import repair
from acclc.verify import check_kernel, check_program, check_schedule
from acclc.verify.certificate import check_certificate

CASES = (
    ("1 of g[0] <-> g[1]",),
    ("g[2] <-> g[6]",),
    ("1 of g[3] <-> g[7]", "1 of g[4] <-> g[5]"),
)


@pytest.fixture(scope="module")
def dgx1() -> Artefact:
    return compile_text("all_gather on dgx1 { goal bandwidth }\nbroadcast on dgx1 { goal latency }", "dgx1")


@pytest.mark.parametrize("without", CASES)
def test_every_case_is_verified_and_meets_its_bound(dgx1: Artefact, without: tuple[str, ...]) -> None:
    done = repair(dgx1, Options(without=without))
    gathered, spread = done.collectives
    for repaired, (problem, proof) in zip(
        done.collectives, ((c.problem, c.proof) for c in done.artefact.collectives), strict=True
    ):
        assert check_certificate(problem, proof.bound).ok
        assert proof.reproducible
        for variant in repaired.after.variants:
            assert check_schedule(problem, variant.schedule).ok
            assert check_program(problem, variant.schedule, variant.program).ok
            assert check_kernel(problem, variant.schedule, variant.kernel).ok
    assert gathered.searched
    bound = gathered.after.proof.bound.throughput.time_per_byte
    assert min(v.time_per_byte for v in gathered.after.variants) == bound
    assert spread.after.variants[0].schedule.steps == spread.after.proof.bound.latency.steps


@pytest.mark.parametrize(
    ("text", "link"),
    [("all_gather on ring(4) { goal pareto }", "g[0] <-> g[1]"), ("broadcast on mesh(2, 3)", "g[0, 0] <-> g[0, 1]")],
)
def test_nothing_that_holds_is_lost_for_worse(text: str, link: str, tmp_path: Path) -> None:
    """With hardly any room to search, what holds is still there, or something as good in both steps and time."""
    before = compile_text(text, "grid")
    mended = repair(before, Options(degrade=(f"{link} = 5 GB/s",), work=1e-6))
    done = mended.collectives[0]
    assert all(row.ok for row in audit(mended.artefact.save(tmp_path / "grid")))  # old proofs are not believed
    assert done.searched
    assert {f.word for f in done.fates} == {"slower"}
    for fate, variant in zip(done.fates, done.before.variants, strict=True):
        assert any(
            v.schedule.steps <= variant.schedule.steps and fate.now is not None and v.time_per_byte <= fate.now
            for v in done.after.variants
        )
    assert any(f.stays for f in done.fates) == bool(done.kept)


def test_a_proof_is_carried_only_where_it_verifies() -> None:
    """A link that no transfer uses goes: the old proof is taken. One that makes the bound greater is searched again."""
    text = "all_gather on ring(4) { goal chunks 1, steps 3, rounds 3 }"
    before = compile_text(text, "ring")
    assert before.collectives[0].problem.goal.kind is GoalKind.POINT
    used = {e for t in before.collectives[0].variants[0].schedule.transfers for e in t.path}
    links = before.collectives[0].problem.topology.links
    names = [n.name for n in before.collectives[0].problem.topology.nodes]
    idle = [e for e in links if e.id not in used]
    for link in links:
        done = repair(before, Options(without=(f"{names[link.src]} -> {names[link.dst]}",)))
        repaired = done.collectives[0]
        assert repaired.searched == (link not in idle)
        assert [f.word for f in repaired.fates] == ["kept" if link in idle else "lost"]
        assert repaired.after.proof.status in (Status.OPTIMAL, Status.FEASIBLE)
