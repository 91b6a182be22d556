"""What is drawn is what was read: the figures' data, their files, and what is said where there is nothing to draw."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acclc import Artefact, compile_text
from acclc.cli import main_group
from acclc.cli.failures import run
from acclc.nccl_tests import header, line
from acclc.plots import draw
from acclc.plots.samples import BOUND, OURS, Inputs, PlotError, Sample, Synthesis, read_inputs, series_of
from acclc.plots.style import paper, save
from acclc.simulate import baselines, shard_bytes, simulate
from acclc_runtime.bench import BenchRow, Case, Side

SIZES = (1 << 10, 1 << 20, 1 << 26)


@pytest.fixture(scope="module")
def artefact() -> Artefact:
    return compile_text("broadcast on ring(4) as spread { root g[0], goal pareto }\n", "t")


@pytest.fixture(scope="module")
def folder(artefact: Artefact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artefact.save(tmp_path_factory.mktemp("artefacts") / "t")


def bench_row(size: int, seconds: float, wrong: int = 0, ranks: int = 4) -> BenchRow:
    case = Case("summed", "", "f32", "sum", size // 4, size, -1)
    return BenchRow(case, ranks, "all_reduce", Side(seconds, wrong), Side(seconds * 2, wrong))


def bench_json(rows: list[BenchRow], **peers: float) -> str:
    told = [r.to_dict() | {"bound_seconds": 1e-6, "peers": {**peers, "absent": None}} for r in rows]
    return json.dumps({"artefact": "x", "transport": "memory", "rows": told})


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_an_artefact_is_simulated_with_the_variant_that_a_size_takes(artefact: Artefact, folder: Path) -> None:
    (collective,) = artefact.collectives
    assert len(collective.schedules) > 1
    found = read_inputs([str(folder)], SIZES).samples
    problem = collective.problem
    for size in SIZES:
        (variant,) = [
            v for v in collective.schedules
            if v.min_bytes is not None and v.min_bytes <= size and (v.max_bytes is None or size < v.max_bytes)
        ][:1]  # fmt: skip
        shard = shard_bytes(problem, size)
        wanted = {b.name: float(b.timeline.seconds) for b in baselines(problem, shard)}
        wanted[OURS] = float(simulate(problem, variant.schedule, shard).seconds)
        here = {s.series: s.seconds for s in found if s.size == size}
        bound = here.pop(BOUND)
        assert here == wanted
        assert bound <= min(here.values()) * (1 + 1e-12)
    assert not any(s.measured for s in found)
    named = read_inputs([str(folder)], SIZES, f"spread/{collective.schedules[0].id}").samples
    slowest = [s for s in named if s.series == OURS and s.size == max(SIZES)]
    assert slowest[0].seconds > next(s.seconds for s in found if s.series == OURS and s.size == max(SIZES))


def test_rows_of_bench_and_of_benchmarks_are_read_and_failed_ones_left_out(tmp_path: Path) -> None:
    rows = [bench_row(1024, 1e-5), bench_row(2048, 2e-5), bench_row(4096, 3e-5, wrong=2)]
    told = write(tmp_path / "a.json", bench_json(rows, mpi=4e-5))
    found = read_inputs([told], ()).samples
    assert {(s.series, s.size): s.seconds for s in found} == {
        (OURS, 1024): 1e-5, (OURS, 2048): 2e-5, (BOUND, 1024): 1e-6, (BOUND, 2048): 1e-6, ("mpi", 1024): 4e-5,
        ("mpi", 2048): 4e-5,
    }  # fmt: skip
    first = found[0]
    assert first.busbw == rows[0].busbw(rows[0].out_of_place)
    peers = {"Open MPI v4.1.4, package: Debian OpenMPI": 3.0, "MPICH Version:      5.0.2": 2.0}
    benchmark = [{"case": "x", "operation": "all_gather", "ranks": 2, "size": 8, "seconds": 1.0, "peers": peers}]
    found = read_inputs([write(tmp_path / "b.json", json.dumps(benchmark))], ()).samples
    assert {s.series: s.seconds for s in found} == {OURS: 1.0, "Open MPI v4.1.4": 3.0, "MPICH 5.0.2": 2.0}


def test_a_log_of_nccl_tests_takes_the_name_of_the_one_collective_beside_it(tmp_path: Path) -> None:
    rows = [bench_row(1 << 20, 1e-3), bench_row(1 << 22, 3e-3)]
    log = write(tmp_path / "nccl.log", "\n".join([*header("nccl"), *map(line, rows)]))
    ours = write(tmp_path / "ours.json", bench_json([bench_row(1 << 20, 5e-4)]))
    found = [s for s in read_inputs([ours, f"NCCL={log}"], ()).samples if s.series == "NCCL"]
    assert [(s.collective, s.kind, s.ranks, s.size) for s in found] == [
        ("summed", "all_reduce", 4, 1 << 20),
        ("summed", "all_reduce", 4, 1 << 22),
    ]
    for sample, row in zip(found, rows, strict=True):
        rate = row.busbw(row.out_of_place)
        assert rate is not None
        assert sample.busbw == pytest.approx(rate, rel=0.01)  # the table has two places
    with pytest.raises(PlotError, match="does not say which collective"):
        read_inputs([log], ())


def test_two_files_of_ours_are_told_apart_by_their_names(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", bench_json([bench_row(1024, 1e-5)]))
    b = write(tmp_path / "b.json", bench_json([bench_row(1024, 2e-5)]))
    assert {s.series for s in read_inputs([a, b], ()).samples} == {"a", "b", BOUND}
    assert {s.series for s in read_inputs([f"old={a}", f"new={b}"], ()).samples} == {"old", "new", BOUND}


def test_times_of_syntheses_come_from_benchmarks_and_from_compile(tmp_path: Path) -> None:
    rows = [
        {"case": "dgx1 all_gather", "ranks": 8, "seconds": 2.0, "peer_s": 100},
        {"case": "all_reduce on x", "ranks": 16, "seconds": 9.0, "solve_seconds": 3.0},
        {"case": "no ranks", "seconds": 1.0},
    ]
    said = {"collectives": [{"name": "g", "collective": "gather", "topology": "ring(3)", "ranks": 3, "seconds": 0.5}]}
    files = [
        write(tmp_path / "a.json", json.dumps({"machine": "x", "rows": rows})),
        write(tmp_path / "b.json", json.dumps(said)),
    ]
    found = read_inputs(files, ()).syntheses
    assert {(s.series, s.ranks, s.seconds) for s in found} == {
        ("all_gather", 8, 2.0), ("all_gather, peer", 8, 100.0), ("all_reduce", 16, 3.0), ("gather", 3, 0.5),
    }  # fmt: skip


def lines(ax: Any) -> dict[str, list[tuple[float, float]]]:
    return {
        x.get_label(): [tuple(map(float, p)) for p in x.get_xydata()] for x in ax.get_lines() if x.get_label()[0] != "_"
    }


def measured(kind: str, ranks: int, size: int, series: str, seconds: float) -> Sample:
    return Sample(kind, kind, ranks, size, series, seconds, True)


GRID = tuple(
    measured(kind, ranks, size, series, seconds * size * ranks)
    for kind in ("all_gather", "broadcast")
    for ranks in (2, 4)
    for size in (1024, 1 << 20)
    for series, seconds in ((OURS, 1e-9), ("mpi", 3e-9), (BOUND, 5e-10))
)


def test_curves_hold_the_samples(folder: Path) -> None:
    with paper():
        for kind, value in (("busbw", lambda s: s.busbw / 1e9), ("time", lambda s: s.seconds * 1e6)):
            figure = draw.KINDS[kind](Inputs(GRID))
            assert len(figure.axes) == 4
            for ax, (collective, ranks) in zip(
                figure.axes, [(c, r) for c in ("all_gather", "broadcast") for r in (2, 4)], strict=True
            ):
                here = [s for s in GRID if (s.collective, s.ranks) == (collective, ranks)]
                wanted = {n: [(s.size, value(s)) for s in here if s.series == n] for n in series_of(GRID)}
                assert lines(ax) == wanted
                assert ax.get_title() == f"{collective}, {ranks} ranks, measured"


def test_bars_are_ratios_and_scaling_takes_the_largest_common_size() -> None:
    with paper():
        for ax in draw.speedup(Inputs(GRID)).axes:
            assert [b.get_height() for b in ax.patches] == pytest.approx([3.0, 3.0])
        odd = (*GRID, measured("broadcast", 2, 1 << 30, OURS, 1.0))
        first, second = draw.scaling(Inputs(odd)).axes
        assert second.get_title() == "broadcast, 1 MiB"
        large = [s for s in GRID if (s.kind, s.size, s.series) == ("all_gather", 1 << 20, OURS)]
        wanted = [(s.ranks, s.busbw / 1e9) for s in large]
        assert lines(first)[OURS] == wanted


def test_links_are_as_busy_as_the_schedule_makes_them(artefact: Artefact, folder: Path) -> None:
    from acclc.view.figures import link_utilisation

    (collective,) = artefact.collectives
    with paper():
        figure = draw.links(read_inputs([str(folder)], ()), "spread")
    panels = [ax for ax in figure.axes if ax.images]
    assert len(panels) == len(collective.schedules)
    for ax, variant in zip(panels, collective.schedules, strict=True):
        cells = ax.images[0].get_array()
        busy = link_utilisation(collective.problem, variant.schedule)
        for link in collective.problem.topology.links:
            assert float(cells[link.src][link.dst]) == pytest.approx(100 * float(busy[link.id]))
        assert cells.count() == len(collective.problem.topology.links)


def test_syntheses_are_drawn_with_their_median() -> None:
    rows = tuple(Synthesis("x", "gather", 4, s) for s in (1.0, 3.0, 2.0))
    with paper():
        (ax,) = draw.synthesis(Inputs(syntheses=rows)).axes
    assert lines(ax) == {"gather": [(4.0, 2.0)]}
    assert sum(len(c.get_offsets()) for c in ax.collections) == 3


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, suffix: str, magic: bytes) -> None:
    found = []
    for number in range(2):
        path = tmp_path / f"{number}.{suffix}"
        with paper():
            save(draw.busbw(Inputs(GRID[:6])), path)
        found.append(path.read_bytes())
    assert found[0] == found[1]
    assert found[0].startswith(magic)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"0.{suffix}", f"1.{suffix}"]


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        ("busbw", Inputs(), "nothing that has a size and a time"),
        ("speedup", Inputs(tuple(s for s in GRID if s.series == OURS)), "another series beside ours"),
        ("scaling", Inputs(tuple(s for s in GRID if s.ranks == 2)), "several numbers of ranks"),
        ("scaling", Inputs(tuple(replace(s, size=s.size + s.ranks) for s in GRID)), "no size that was measured"),
        ("synthesis", Inputs(GRID), "no times of syntheses"),
        ("links", Inputs(GRID), "the folder that acclc compile wrote"),
    ],
)
def test_what_cannot_be_drawn_says_what_is_missing(kind: str, inputs: Inputs, words: str) -> None:
    with paper(), pytest.raises(PlotError, match=words):
        draw.KINDS[kind](inputs)


def plot(*words: object) -> int:
    return run(lambda **how: main_group.main(["plot", *map(str, words)], **how))


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plot(folder, "-o", tmp_path / "deep" / "a.svg", "--size", "1KiB", "--size", "1MiB", "--title", "T") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'deep' / 'a.svg'}\n"
    for words, said in (
        ((folder, "-o", tmp_path / "a.gif"), "name a file that ends in .png, .svg, .pdf"),
        ((folder, "-o", tmp_path / "a.png", "--only", "nobody"), "it has spread"),
        ((tmp_path / "nowhere", "-o", tmp_path / "a.png"), "No such file"),
        ((write(tmp_path / "x.json", "{]"), "-o", tmp_path / "a.png"), "no valid JSON"),
        ((write(tmp_path / "y.json", "[]"), "-o", tmp_path / "a.png"), "neither rows of acclc bench"),
        ((write(tmp_path / "z.log", "hello"), "-o", tmp_path / "a.png"), "no row of nccl-tests' table"),
    ):
        assert plot(*words) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()


def test_without_matplotlib_it_says_what_to_install(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert plot(folder, "-o", tmp_path / "a.png", "--size", "1KiB") == 1
    assert "pip install 'acclc[plot]'" in capsys.readouterr().err
