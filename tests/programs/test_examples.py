"""Every example compiles, verifies, runs right from one byte to many, in and out of place, and is good CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_kernels_cubin import ARCHITECTURES, NVCC, NVRTC, compile_and_check

from acclc import compile_file, compile_text
from acclc.audit import audit
from acclc.driver import Options
from acclc_runtime.manifest import read_manifest
from acclc_runtime.run import run_checks

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.accl"))
SIZES = (1, 7, 64, 1000, 4096, 100_003)
"""S in bytes. Larger ones are run for the DGX-1 below."""

LARGE = """
all_gather on dgx1 as gathered { goal chunks 6, steps 3, rounds 7 }
all_reduce on dgx1 as summed { op sum, goal chunks 48, steps 6, rounds 14 }
"""


@pytest.fixture(
    scope="module",
    # the group keeps the tests of one example in one process, so that it is compiled once
    params=[pytest.param(p, marks=pytest.mark.xdist_group(p.stem)) for p in EXAMPLES],
    ids=lambda p: p.stem,
)
def artefact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source: Path = request.param
    return compile_file(source, Options(time_limit_s=6)).save(tmp_path_factory.mktemp("examples") / source.stem)


def test_there_are_a_dozen_examples() -> None:
    assert len(EXAMPLES) >= 13


def test_it_verifies_from_its_files(artefact: Path) -> None:
    assert not [row for row in audit(artefact) if not row.ok]


@pytest.mark.parametrize(("backend", "options"), [("cpu", {"mode": "fibres"}), ("numpy", {})])
def test_it_runs_right(artefact: Path, backend: str, options: dict[str, str]) -> None:
    rows = run_checks(artefact, backend=backend, sizes=SIZES, dtypes=("f32", "u8"), options=options)
    assert rows
    assert not [row for row in rows if not row.ok]
    assert {row.in_place for row in rows} >= {False}


@pytest.mark.skipif(not (NVCC or NVRTC), reason="needs nvcc or the extra nvrtc")
def test_its_kernels_compile_for_gpus(artefact: Path, tmp_path: Path) -> None:
    """The smallest kernel of each example: the others are longer lists of the same statements."""
    pairs = [(c, v) for c in read_manifest(artefact).collectives for v in c.variants]
    kernels = [(artefact / v.folder / "kernel.cu", c.reduces) for c, v in pairs]
    path, reduces = min(kernels, key=lambda k: (k[0].stat().st_size, k))
    for architecture in ARCHITECTURES:
        kind = ("f32", "sum") if reduces else ("b4", "none")
        compile_and_check(tmp_path, path.read_text(), *kind, architecture)


def test_large_messages_on_the_dgx1_need_only_manifest_and_kernel(tmp_path: Path) -> None:
    folder = compile_text(LARGE, "dgx1").save(tmp_path / "dgx1")
    for path in folder.rglob("*.json"):
        if path.name != "manifest.json":
            path.unlink()
    rows = run_checks(folder, backend="cpu", sizes=(64 * 2**20 + 12,), dtypes=("f32",))
    assert {(row.collective, row.in_place) for row in rows} == {
        (name, place) for name in ("gathered", "summed") for place in (False, True)
    }
    assert not [row for row in rows if not row.ok]
