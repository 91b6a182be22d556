"""Compiling at first use: the compiler, the cache, and what is said when something is wrong."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_cases import data, lowered, make, run, write

from acclc.codegen import generate
from acclc_runtime.backends import build
from acclc_runtime.backends.cpu import CpuBackend
from acclc_runtime.errors import BackendUnavailableError, BuildError, DamagedFileError

GXX = shutil.which("g++")

pytestmark = pytest.mark.skipif(GXX is None, reason="needs g++")

SOURCE = b'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ACCLC_CACHE_DIR", str(folder))
    return folder


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A compiler of our own that notes its calls and then does what the script says."""
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\n{script}\nexec {GXX} "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    return folder / "calls"


def compilations(calls: Path) -> list[str]:
    return [line for line in calls.read_text().splitlines() if "--version" not in line]


def test_a_build_is_kept_and_depends_on_text_and_flags(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = compiler(tmp_path, monkeypatch, "")
    path = tmp_path / "a.cu"
    first = build.build_library(path, SOURCE, ("-DA=1",))
    assert build.build_library(path, SOURCE, ("-DA=1",)) == first
    assert len(compilations(calls)) == 1
    assert build.build_library(path, SOURCE, ("-DA=2",)) != first
    assert build.build_library(path, SOURCE + b"\n", ("-DA=1",)) != first
    assert len(compilations(calls)) == 3
    assert (
        sorted(p.suffix for p in cache.iterdir() if p.name != "builds.lock") == [".so"] * 3
    )  # nothing half built is left


def test_the_cache_is_for_its_owner_only(tmp_path: Path, cache: Path) -> None:
    build.build_library(tmp_path / "a.cu", SOURCE, ())
    assert cache.stat().st_mode & 0o777 == 0o700
    cache.chmod(0o770)
    with pytest.raises(BackendUnavailableError, match="others may write to it, so no code is loaded from it"):
        build.build_library(tmp_path / "a.cu", SOURCE, ())


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCLC_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert build.cache_folder() == tmp_path / "xdg" / "acclc"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / ".cache" / "acclc"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACCLC_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(BackendUnavailableError, match="set ACCLC_CACHE_DIR to a writable folder"):
        build.cache_folder()


def test_a_compiler_that_does_not_know_this_processor(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case "$*" in *-march=native*) echo "no -march=native" >&2; exit 1;; esac'
    calls = compiler(tmp_path, monkeypatch, refuse)
    assert build.build_library(tmp_path / "a.cu", SOURCE, ()).is_file()
    assert ["-march=native" in line for line in compilations(calls)] == [True, False]


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendUnavailableError, match=r"no C\+\+ compiler found .* apt-get install g\+\+"):
        CpuBackend(tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(BackendUnavailableError, match="CXX='no-such-compiler -x' cannot be run"):
        CpuBackend(tmp_path)


def test_a_kernel_that_does_not_compile(tmp_path: Path) -> None:
    problem, schedule, kernel = lowered("all_reduce_ring2")
    made = write(
        tmp_path, problem, schedule, kernel, generate(kernel).replace("run_block(Run& r", "run_block(Rum& r", 1)
    )
    backend = CpuBackend(tmp_path)
    with pytest.raises(BuildError) as caught:
        backend.run(data(made, 4, "f32", "sum").call)
    text = str(caught.value)
    assert "kernel.cu does not compile with g++" in text
    assert "Rum" in text
    assert "To repeat it:\n  /" in text
    command = text.rpartition("To repeat it:\n  ")[2]
    again = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "Rum" in again.stderr
    backend.close()


def test_a_kernel_that_was_changed_is_not_compiled(tmp_path: Path) -> None:
    made = make(tmp_path, "all_reduce_ring2")
    path = tmp_path / made.variant.folder / "kernel.cu"
    path.write_text(path.read_text() + " ")
    backend = CpuBackend(tmp_path)
    with pytest.raises(DamagedFileError, match=r"is not the file that manifest\.json was written with"):
        backend.run(data(made, 4, "f32", "sum").call)
    path.unlink()
    with pytest.raises(DamagedFileError, match="compile the artefact again"):
        backend.run(data(made, 4, "f32", "sum").call)
    backend.close()


def test_a_variant_outside_the_artefact_is_refused(tmp_path: Path) -> None:
    made = make(tmp_path / "inside", "all_reduce_ring2")
    made.folder.joinpath("x").mkdir()
    call = data(made, 4, "f32", "sum").call
    outside = replace(made.variant, folder=f"../{made.variant.folder}")
    backend = CpuBackend(made.folder)
    with pytest.raises(DamagedFileError, match="lies outside the artefact"):
        backend.run(replace(call, variant=outside))
    backend.close()


def test_a_kernel_of_another_version_does_not_compile(tmp_path: Path) -> None:
    problem, schedule, kernel = lowered("all_reduce_ring2")
    source = generate(kernel).replace("#define ACCL_ABI 4", "#define ACCL_ABI 0")
    made = write(tmp_path, problem, schedule, kernel, source)
    backend = CpuBackend(tmp_path)
    with pytest.raises(BuildError, match="generated for another version of acclc_runtime"):
        backend.run(data(made, 4, "f32", "sum").call)
    backend.close()


def test_a_kept_library_that_cannot_be_loaded_is_built_again(tmp_path: Path, cache: Path) -> None:
    made = make(tmp_path, "all_reduce_ring2")
    backend = CpuBackend(tmp_path)
    run(backend, made, 8)
    backend.close()
    script = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from pathlib import Path\n"
        "from kernel_cases import make, run\n"
        "from acclc_runtime.backends.cpu import CpuBackend\n"
        "for library in Path(sys.argv[1]).glob('*.so'): library.write_bytes(b'damaged')\n"
        "folder = Path(sys.argv[2]); backend = CpuBackend(folder); run(backend, make(folder, 'all_reduce_ring2'), 8)\n"
        "backend.close(); print('right')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(cache), str(tmp_path), str(Path(__file__).parent), *sys.path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("right\n", 0), done.stderr


def test_concurrent_builds_of_one_thing(tmp_path: Path, cache: Path) -> None:
    text = SOURCE + hashlib.sha256(b"x").hexdigest().join(["// ", "\n"]).encode()
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(build.build_library(tmp_path / "a.cu", text, ())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert [p.name for p in cache.iterdir() if p.name != "builds.lock"] == [found[0].name]


def test_every_compiler_that_is_here_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, "all_reduce_full3")
    names = ("g++", "clang++", *(f"clang++-{version}" for version in range(14, 23)))
    present = [name for name in names if shutil.which(name)]
    assert present
    for name in present:
        monkeypatch.setenv("CXX", name)
        backend = CpuBackend(tmp_path, slice_bytes=256)
        for dtype, op in (("f32", "sum"), ("f16", "avg"), ("bf16", "sum"), ("i8", "prod")):
            run(backend, made, 333, dtype, op)
        backend.close()
