"""`acclc verify`: what is called optimal is proven again, also where every digest was made to fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec import structs

from acclc import compile_text
from acclc.artefact import Artefact, CompiledCollective, Proof
from acclc.audit import Row, audit
from acclc.ir.problem import Goal, GoalKind
from acclc.ir.result import Cut, Excluded, LastStepSet, Status, StepDual

TEXT = """
all_gather on dgx1 as meshed { goal pareto, chunks up to 6 }
broadcast on dgx1 as rooted { chunks up to 2 }
topology packages {
    link l { 1 GB/s, 1 us }
    gpu g[4]
    g[0] <-> g[1] : 4 l
    g[2] <-> g[3] : 4 l
    g[0] <-> g[2] : l
    g[1] <-> g[3] : l
}
all_gather on packages as packed { goal pareto, chunks up to 2 }
"""


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    return compile_text(TEXT, "proofs")


def rows_of(artefact: Artefact, folder: Path) -> dict[str, Row]:
    """Save (so that all digests fit) and verify."""
    return {row.what: row for row in audit(artefact.save(folder / "proofs"))}


def changed(artefact: Artefact, name: str, change: Callable[[CompiledCollective], CompiledCollective]) -> Artefact:
    return replace(artefact, collectives=tuple(change(c) if c.name == name else c for c in artefact.collectives))


def proving(change: Callable[[Proof], Proof]) -> Callable[[CompiledCollective], CompiledCollective]:
    return lambda c: replace(c, proof=change(c.proof))


def claiming(*optimal: str, number: int = 0) -> Callable[[CompiledCollective], CompiledCollective]:
    """The collective with other claims of one variant."""

    def change(c: CompiledCollective) -> CompiledCollective:
        variants = list(c.variants)
        variants[number] = replace(variants[number], schedule=replace(variants[number].schedule, optimal=optimal))
        return replace(c, variants=tuple(variants))

    return change


def codes(rows: dict[str, Row]) -> set[str]:
    return {f.code for row in rows.values() for f in row.findings if not f.warning} - {"artefact.derived"}


def test_true_claims_are_proven_again_with_both_figures(artefact: Artefact, tmp_path: Path) -> None:
    rows = rows_of(artefact, tmp_path)
    assert all(row.ok for row in rows.values())
    assert rows["meshed: optimality"].figure == (
        "optimal in throughput: 7/6 rounds a chunk achieved, 7/6 proven to be the least"
    )
    assert rows["meshed: excluded"].figure == "12 points, all re-proven"
    proofs = {c.name: c.proof for c in artefact.collectives}
    assert any(isinstance(e, StepDual) for e in proofs["meshed"].exclusions)


def test_a_gap_is_stated(artefact: Artefact, tmp_path: Path) -> None:
    def only_first(c: CompiledCollective) -> CompiledCollective:
        first = replace(c.variants[0], min_bytes=0, max_bytes=None)
        return replace(c, variants=(first,), proof=replace(c.proof, status=Status.FEASIBLE, complete=False))

    rows = rows_of(changed(artefact, "meshed", only_first), tmp_path)
    assert rows["meshed: optimality"].figure.startswith("28.6 % above the bound in throughput: 3/2 rounds a chunk")
    assert all(row.ok for row in rows.values())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (claiming("throughput"), "optimality.claim"),  # (2, 2, 3) is not at 7/6
        (claiming("steps", number=1), "optimality.claim"),  # (6, 3, 7) has a step too many
        (claiming("best"), "optimality.claim"),
        (proving(lambda p: replace(p, exclusions=())), "exclusion.bound"),
        (proving(lambda p: replace(p, complete=False)), "optimality.status"),
        (proving(lambda p: replace(p, status=Status.UNKNOWN)), "optimality.status"),
        (proving(lambda p: replace(p, status=Status.INFEASIBLE)), "optimality.status"),
        (proving(lambda p: replace(p, excluded=(*p.excluded, Excluded(6, 3, 7, "infeasible")))), "optimality.excluded"),
        (proving(lambda p: replace(p, excluded=(*p.excluded, Excluded(6, 3, 7, "bound")))), "exclusion.bound"),
        (proving(lambda p: replace(p, excluded=(*p.excluded, Excluded(4, 4, 8, "infeasible")))), "optimality.excluded"),
        (proving(lambda p: replace(p, excluded=(*p.excluded, Excluded(-1, 3, 7, "bound")))), "exclusion.form"),
        (proving(lambda p: replace(p, exclusions=(LastStepSet(()),))), "exclusion.certificate"),
    ],
)
def test_false_claims_are_found(
    artefact: Artefact,
    tmp_path: Path,
    change: Callable[[CompiledCollective], CompiledCollective],
    code: str,
) -> None:
    assert code in codes(rows_of(changed(artefact, "meshed", change), tmp_path))


def test_a_figure_of_the_dual_that_was_raised(artefact: Artefact, tmp_path: Path) -> None:
    """Raised lengths prove less, not more; a claim of fewer steps proves nothing."""

    def raised(p: Proof) -> Proof:
        (dual,) = (e for e in p.exclusions if isinstance(e, StepDual))
        (k, t, e, s, z), *others = dual.lengths
        return replace(p, exclusions=(structs.replace(dual, lengths=((k, t, e, s, 8 * z), *others)),))

    assert codes(rows_of(changed(artefact, "meshed", proving(raised)), tmp_path)) == {"exclusion.bound"}


def test_a_bound_that_is_lowered_with_its_certificate_no_longer_calls_it_optimal(
    artefact: Artefact, tmp_path: Path
) -> None:
    """The cut of four ranks proves 4/8 < 7/6: its figures fit together, but the claims do not fit them."""

    def weaker(c: CompiledCollective) -> CompiledCollective:
        topology = c.problem.topology
        nodes = tuple(n.id for n in topology.nodes[:4])
        time = Fraction(4, sum(e.capacity for e in topology.links if e.src in nodes and e.dst not in nodes))
        throughput = replace(c.proof.bound.throughput, time_per_byte=time, certificate=Cut(nodes, Fraction(4)))
        assert topology.unit is not None
        bound = replace(c.proof.bound, throughput=throughput, rounds_per_chunk=time * topology.unit)
        return replace(c, proof=replace(c.proof, bound=bound))

    rows = rows_of(changed(artefact, "meshed", weaker), tmp_path)
    assert rows["meshed: bound"].ok
    assert {"optimality.claim", "exclusion.bound"} <= codes(rows)


def test_an_open_point_contradicts_optimal(artefact: Artefact, tmp_path: Path) -> None:
    """Without what it excluded, a frontier that is not at the bound is not known to be the best."""
    (packed,) = (c for c in artefact.collectives if c.name == "packed")
    assert packed.proof.status is Status.OPTIMAL
    assert any(isinstance(e, LastStepSet) for e in packed.proof.exclusions)
    weakened = proving(lambda p: replace(p, exclusions=()))
    assert "exclusion.bound" in codes(rows_of(changed(artefact, "packed", weakened), tmp_path))

    def opened(p: Proof) -> Proof:
        """No longer says what it cannot prove."""
        kept = tuple(e for e in p.excluded if e.rounds < max(e.steps, e.chunks))
        return replace(p, excluded=(*kept, Excluded(2, 1, 1, "bound")), exclusions=())

    assert codes(rows_of(changed(artefact, "packed", proving(opened)), tmp_path / "opened")) == {
        "optimality.claim",
        "optimality.status",
    }


def test_another_goal_asks_for_other_proofs(artefact: Artefact, tmp_path: Path) -> None:
    """A point that was asked for by name is all that its status speaks of."""

    def asked(c: CompiledCollective) -> CompiledCollective:
        first = replace(c.variants[0], min_bytes=0, max_bytes=None)
        first = replace(first, schedule=replace(first.schedule, optimal=()))
        goal = Goal(GoalKind.POINT, chunks=2, steps=2, rounds=3)
        return replace(
            c,
            variants=(first,),
            problem=replace(c.problem, goal=goal),
            proof=replace(c.proof, excluded=(), exclusions=()),
        )

    rows = rows_of(changed(artefact, "meshed", asked), tmp_path)
    assert rows["meshed: optimality"].ok
    assert not codes(rows)
