"""``acclc verify``: an artefact is checked again from its files alone; nothing that made it is believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from acclc.artefact import Artefact, CompiledCollective, Variant, read_artefact
from acclc.ir.schedule import Schedule
from acclc.realisations import sizes_of
from acclc.verify import (
    Finding,
    Report,
    ScheduleFacts,
    check_kernel,
    check_problem,
    check_program,
    check_schedule,
)
from acclc.verify.certificate import BoundFacts, check_certificate
from acclc.verify.exclusions import Certain, ExclusionFacts, certain, check_excluded
from acclc.verify.optimality import Claimed, OptimalityFacts, check_optimality
from acclc_runtime.manifest import manifest_bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was checked: what, the figure that was recomputed, and what is wrong with it."""

    what: str
    findings: tuple[Finding, ...]
    figure: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(f.warning for f in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The entry of ``--json``."""
        return {"what": self.what, "ok": self.ok, "figure": self.figure, "findings": [str(f) for f in self.findings]}


def audit(folder: Path) -> list[Row]:
    """Check an artefact folder.

    Bounds, excluded points and what is called optimal are proven again from the certificates in proof.json. Problem,
    schedule, program and kernel program go through their verifiers; kernel.cu is generated again from kernel.json and
    compared byte by byte, and so are manifest.json and __init__.py.

    Raises:
        DamagedFileError: a file is missing, truncated or of another version.
    """
    artefact = read_artefact(folder)
    rows = [row for collective in artefact.collectives for row in _collective(collective)]
    if all(row.ok for row in rows):
        rows.append(Row("files", tuple(_files(artefact, folder))))
    else:
        refused = Finding("artefact.derived", "not compared: what they are made from does not verify", "files")
        rows.append(Row("files", (refused,)))
    return rows


def _collective(collective: CompiledCollective) -> Iterator[Row]:
    problem, bound = collective.problem, collective.proof.bound
    stated = check_problem(problem)
    yield Row(f"{collective.name}: problem", stated.findings, f"{len(problem.group)} ranks")
    if not stated.ok:
        return
    rounds = bound.rounds_per_chunk
    proof = check_certificate(problem, bound)
    yield Row(f"{collective.name}: bound", proof.findings, f"{rounds} rounds a chunk" if rounds is not None else "")
    known = None
    if proof.facts is not None:
        known, row = _excluded(collective, proof.facts)
        yield row
    sound = True
    checked: list[tuple[Schedule, ScheduleFacts]] = []
    for variant in collective.variants:
        schedule = check_schedule(problem, variant.schedule)
        if schedule.ok and schedule.facts is not None:
            checked.append((variant.schedule, schedule.facts))
        for row in _variant(collective, variant, schedule):
            sound &= row.ok
            yield row
    if sound and known is not None and proof.facts is not None:
        yield _optimality(collective, known, proof.facts, checked)
    if sound:
        yield Row(f"{collective.name}: sizes", tuple(_sizes(collective)))


def _excluded(collective: CompiledCollective, bound: BoundFacts) -> tuple[Certain | None, Row]:
    """What the certificates prove of points (C, S, R), and whether that is what is said to be excluded."""
    proof = collective.proof
    known = certain(collective.problem, bound.steps, bound.time_per_byte, proof.exclusions)
    if known.facts is None or not known.ok:
        return None, Row(f"{collective.name}: excluded", known.findings)
    report = check_excluded(known.facts, proof.excluded)
    figure = "" if report.facts is None else excluded_words(report.facts)
    return known.facts, Row(f"{collective.name}: excluded", report.findings, figure)


def excluded_words(facts: ExclusionFacts) -> str:
    """How many points are proven not to exist, and what the others rest on."""
    if facts.points == 0:
        return "no point is said to be"
    words = f"{facts.points} point{'' if facts.points == 1 else 's'}"
    kinds = ((facts.searched, "CP-SAT"), (facts.too_large, "step LP"))
    open_points = ", ".join(f"{n} by {what}" for n, what in kinds if n)
    return f"{words}, not re-proven: {open_points}" if open_points else f"{words}, all re-proven"


def _optimality(
    collective: CompiledCollective, known: Certain, bound: BoundFacts, checked: list[tuple[Schedule, ScheduleFacts]]
) -> Row:
    """Whether the best schedule is at the bound, both recomputed; and whether what is called optimal is so."""
    proof = collective.proof
    claimed = Claimed(proof.status, proof.complete, proof.excluded)
    report = check_optimality(collective.problem, known, bound.time_per_byte, checked, claimed)
    figure = "" if report.facts is None else optimality_words(collective.problem.topology.unit, report.facts)
    return Row(f"{collective.name}: optimality", report.findings, figure)


def optimality_words(unit: Fraction | None, facts: OptimalityFacts) -> str:
    """Both figures, and how far they are apart; in rounds a chunk where rates have the common unit ``unit``."""
    if facts.gap is None:
        return "nothing has to move"
    scale, what = (unit, "rounds a chunk") if unit is not None else (Fraction(1), "s a byte of shard")
    figures = f"{facts.achieved * scale} {what} achieved, {facts.proven * scale} proven to be the least"
    if facts.gap == 0:
        return f"optimal in throughput: {figures}"
    return f"{float(100 * facts.gap):.3g} % above the bound in throughput: {figures}"


def _sizes(collective: CompiledCollective) -> Iterator[Finding]:
    """Each variant is chosen for the sizes at which it is the fastest, by its schedule and its realisation."""
    known = [(v.schedule, v.kernel) for v in collective.variants]
    for variant, found in zip(collective.variants, sizes_of(collective.problem, known), strict=True):
        stated = (variant.min_bytes, variant.max_bytes)
        if stated != (found or (None, None)):
            message = f"is said to be best for {stated[0]} to {stated[1]} bytes; that is {found}"
            yield Finding("artefact.sizes", message, f"{collective.name}/{variant.id}")


def _variant(collective: CompiledCollective, variant: Variant, schedule: Report[ScheduleFacts]) -> Iterator[Row]:
    problem, name = collective.problem, f"{collective.name}/{variant.id}"
    yield Row(f"{name}: schedule", schedule.findings, _achieved(schedule))
    if schedule.ok:
        program = check_program(problem, variant.schedule, variant.program)
        yield Row(f"{name}: program", program.findings, f"{sum(len(r.blocks) for r in variant.program.ranks)} blocks")
        kernel = check_kernel(problem, variant.schedule, variant.kernel)
        yield Row(f"{name}: kernel program", kernel.findings, f"{len(variant.kernel.blocks)} blocks")


def _achieved(report: Report[Any]) -> str:
    facts = report.facts
    if facts is None:
        return ""
    what = "steps" if facts.rounds or not facts.steps else "levels, pipelined"
    return f"{facts.rounds_per_chunk} rounds a chunk in {facts.steps} {what}"


def _files(artefact: Artefact, folder: Path) -> Iterable[Finding]:
    """Everything that is derived must be what deriving it again gives."""
    from acclc.codegen import generate
    from acclc.codegen.module import render_module

    manifest = artefact.manifest()
    expected = {"manifest.json": manifest_bytes(manifest), "__init__.py": render_module(manifest).encode()}
    for collective in artefact.collectives:
        for variant in collective.variants:
            expected[f"{collective.name}/{variant.id}/kernel.cu"] = generate(variant.kernel).encode()
    for name, data in expected.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != data:
            yield Finding("artefact.derived", f"{name} is not what the other files give", name)
