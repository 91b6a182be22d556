"""The pipeline as a library, and the artefact it gives."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import acclc
from acclc.artefact import OutputError, load_artefact
from acclc.audit import audit
from acclc.diagnostics import DiagnosticError
from acclc.driver import InternalError, NoScheduleError, Options, Silent, analyse, demand_verified, lower
from acclc.ir.problem import Problem
from acclc.ir.result import Solution, Status
from acclc.solve.protocol import Progress
from acclc.source import Source
from acclc.verify import check_schedule
from acclc_runtime import load
from acclc_runtime.errors import DamagedFileError

TEXT = "all_gather on ring(4) { goal pareto }\nall_to_all on ring(3) as exchange { goal latency }\n"


@pytest.fixture(scope="module")
def artefact() -> acclc.Artefact:
    return acclc.compile_text(TEXT, "both")


def test_what_is_saved_is_what_is_loaded(artefact: acclc.Artefact, tmp_path: Path) -> None:
    folder = artefact.save(tmp_path / "both")
    assert load_artefact(folder) == artefact
    assert {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} == set(artefact.files())
    assert all(row.ok for row in audit(folder))


def test_a_file_and_a_text_give_the_same(artefact: acclc.Artefact, tmp_path: Path) -> None:
    path = tmp_path / "both.accl"
    path.write_text(TEXT)
    assert acclc.compile_file(path).files() == artefact.files()


def test_errors_are_the_documented_ones(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError):
        acclc.compile_text("all_gather on nowhere")
    with pytest.raises(DiagnosticError):
        acclc.compile_file(tmp_path / "absent.accl")
    with pytest.raises(NoScheduleError) as none:
        acclc.compile_text("all_gather on ring(5) { goal steps 1 }")
    assert none.value.result.status is Status.INFEASIBLE
    with pytest.raises(OutputError):
        acclc.compile_text("broadcast on ring(2)").save(tmp_path / "not-a-name")


def test_every_variant_states_the_sizes_it_is_for(artefact: acclc.Artefact) -> None:
    for collective in artefact.collectives:
        ranges = [(v.min_bytes, v.max_bytes) for v in collective.variants if v.min_bytes is not None]
        assert ranges[0][0] == 0
        assert ranges[-1][1] is None
        assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))  # noqa: RUF007


def test_a_wrong_schedule_does_not_pass(artefact: acclc.Artefact) -> None:
    problem = artefact.collectives[0].problem
    good = artefact.collectives[0].variants[0].schedule
    assert lower(problem, Solution(good), None).schedule == good
    bad = replace(good, transfers=(replace(good.transfers[0], step=good.steps - 1), *good.transfers[1:]), rounds=(1,))
    with pytest.raises(InternalError, match="does not verify"):
        demand_verified(problem, "schedule", check_schedule(problem, bad))


def test_the_observer_hears_of_bounds_and_schedules() -> None:
    class Listener(Silent):
        def __init__(self) -> None:
            self.stages: list[str] = []
            self.news: list[Progress] = []

        def stage(self, problem: Problem, name: str) -> None:
            self.stages.append(name)

        def progress(self, problem: Problem, progress: Progress) -> None:
            self.news.append(progress)

    listener = Listener()
    acclc.compile_text("all_gather on ring(4)", observer=listener)
    id = "c2s2r3"
    assert listener.stages == ["schedule", "verifying bound and schedules", f"program of {id}", f"kernel of {id}"]
    assert listener.news
    assert {n.bound for n in listener.news} == {Fraction(3, 2)}


def test_options_reach_the_analysis() -> None:
    source = Source("<t>", "topology t(n = 3) { link l { 1 GB/s }  gpu g[n]  g[0] <-> g[1] : l }\n")
    assert analyse(source, Options(settings={"n": 2})).problems == ()
    with pytest.raises(DiagnosticError):
        analyse(source, Options(settings={"m": 2}))


def test_an_artefact_of_another_version_is_refused(artefact: acclc.Artefact, tmp_path: Path) -> None:
    folder = artefact.save(tmp_path / "both")
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"version": 2', '"version": 99', 1))
    with pytest.raises(DamagedFileError, match="version 99"):
        load_artefact(folder)


def test_a_folder_outside_the_artefact_is_not_read(artefact: acclc.Artefact, tmp_path: Path) -> None:
    folder = artefact.save(tmp_path / "both")
    path = folder / "manifest.json"
    text = path.read_text()
    assert '"folder": "all_gather/' in text
    path.write_text(text.replace('"folder": "all_gather/', '"folder": "../elsewhere/', 1))
    with pytest.raises(DamagedFileError, match="outside"):
        load_artefact(folder)


def test_a_file_without_emit_narrows_nothing(tmp_path: Path) -> None:
    """Elements that are only moved may be of any type of 1, 2, 4 or 8 bytes; `emit` narrows what it names."""
    text = "all_gather on line(2)"
    manifest = acclc.compile_text(text).manifest()
    assert (manifest.types, manifest.ops, manifest.architectures) == ((), (), ())
    artefact = load(acclc.compile_text(text).save(tmp_path / "everything"))
    xs = [np.arange(3, dtype=np.uint32) + r for r in range(2)]
    with artefact.local("numpy") as group:
        for result in group.all_gather(xs):
            assert np.array_equal(result, np.concatenate(xs))
    narrow = acclc.compile_text(f"{text}\nemit {{ types f32 arch sm_90 }}").manifest()
    assert (narrow.types, narrow.ops, narrow.architectures) == (("f32",), (), ("sm_90",))


@pytest.mark.parametrize(
    ("sizes", "kept"), [("1 B .. 1 KiB", [2]), ("1 MiB .. 1 GiB", [4]), ("1 KiB .. 1 GiB", [2, 4])]
)
def test_a_range_of_sizes_keeps_what_is_best_within_it(sizes: str, kept: list[int]) -> None:
    (collective,) = acclc.compile_text(f"all_reduce on ring(5) {{ goal size {sizes} }}").collectives
    assert list(dict.fromkeys(v.schedule.steps for v in collective.variants)) == kept
    chosen = [v for v in collective.variants if v.min_bytes is not None]
    assert min(v.min_bytes for v in chosen if v.min_bytes is not None) == 0
    assert any(v.max_bytes is None for v in chosen)
