"""ThreadSanitizer and AddressSanitizer pass generated kernels, and find the faults seeded in the prelude."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from kernel_cases import by_lines, lowered, realised

from acclc.codegen import generate
from acclc.ir.kernel_program import KernelProgram, Realisation

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent.parent / "runtime" / "acclc_runtime" / "native"
CXX = shutil.which("g++")
THREAD = ("-fsanitize=thread",)
ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

pytestmark = pytest.mark.skipif(CXX is None, reason="needs g++ and its sanitizers")


def case_header(kernel: KernelProgram) -> str:
    ranks = [r.rank for r in kernel.ranks]

    def per_rank(name: str, numbers: list[int]) -> str:
        return f"static const unsigned {name}[] = {{{', '.join(map(str, numbers))}}};"

    return "\n".join(
        [
            f"enum {{ RANKS = {len(ranks)}, BLOCKS = {len(kernel.blocks) * kernel.channels} }};",
            f"enum {{ ONE_THREAD = {int(len(kernel.blocks) * kernel.channels == len(ranks))} }};",
            f"enum {{ CHANNELS = {kernel.channels}, DEPTH = {kernel.slot_depth} }};",
            per_rank("IN", [r.input_units for r in kernel.ranks]),
            per_rank("OUT", [r.output_units for r in kernel.ranks]),
            per_rank("SLOTS", [r.slots for r in kernel.ranks]),
            per_rank("COUNTERS", [sum(c.home == r for c in kernel.counters) for r in ranks]),
            per_rank("STATES", [sum(b.rank == r for b in kernel.blocks) for r in ranks]),
        ]
    )


@functools.cache
def native_object(flags: tuple[str, ...]) -> Path:
    """The native side, instrumented: built once for each kind of instrument."""
    target = Path(tempfile.mkdtemp()) / "native.o"
    atexit.register(shutil.rmtree, target.parent)
    compile_(*flags, "-c", str(NATIVE / "accl_native.cpp"), "-o", str(target))
    return target


def compile_(*arguments: str) -> None:
    assert CXX is not None
    subprocess.run([CXX, "-std=c++20", "-O1", "-g", "-pthread", *arguments], check=True)


def program(folder: Path, kernel: KernelProgram, instrument: tuple[str, ...], *flags: str) -> Path:
    """Build kernel, native side and driver in one instrumented program."""
    (folder / "case.h").write_text(case_header(kernel) + "\n")
    (folder / "kernel.cpp").write_text(generate(kernel))
    target = folder / "program"
    sources = [HERE / "sanitized_main.cpp", folder / "kernel.cpp", native_object(instrument)]
    options = ["-DACCL_TYPE=i32", "-DACCL_OP=sum", f"-I{folder}", f"-I{NATIVE}", *instrument, *flags]
    compile_(*options, *map(str, sources), "-o", str(target))
    return target


def run(target: Path, threads: int, mode: int = 0) -> subprocess.CompletedProcess[str]:
    # Sanitizers want the address space where they expect it, so without randomisation.
    plain = [setarch, "-R"] if (setarch := shutil.which("setarch")) else []
    return subprocess.run([*plain, str(target), str(threads), str(mode)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["all_reduce_ring3", "all_reduce_full3"])
def test_thread_sanitizer_has_nothing_to_say(tmp_path: Path, name: str) -> None:
    target = program(tmp_path, lowered(name)[2], THREAD)
    for threads in (1, 4):
        result = run(target, threads)
        assert (result.returncode, result.stderr) == (0, "")


def kernel_of(realisation: Realisation) -> KernelProgram:
    found = realised("all_reduce_full3", realisation)
    assert found is not None
    return found[2]


@pytest.mark.parametrize("realisation", [Realisation.EAGER, Realisation.DIRECT])
def test_thread_sanitizer_and_realisations(tmp_path: Path, realisation: Realisation) -> None:
    """The calls follow each other: eager carries its slots over. A direct block conflicts with no other, only with
    what users do before and after: there a flag without order is found where the ranks' threads are the users'.
    """
    target = program(tmp_path, kernel_of(realisation), THREAD)
    for threads in (1, 4):
        result = run(target, threads)
        assert (result.returncode, result.stderr) == (0, "")
    for fault, threads in (("ACCL_BUG_RELAXED", 1), ("ACCL_BUG_NOSYNC", 4)):
        if (fault, realisation) == ("ACCL_BUG_NOSYNC", Realisation.DIRECT):
            continue
        result = run(program(tmp_path, kernel_of(realisation), THREAD, f"-D{fault}"), threads)
        assert result.returncode != 0
        assert "ThreadSanitizer: data race" in result.stderr


@pytest.mark.parametrize("realisation", [Realisation.EAGER, Realisation.DIRECT])
def test_address_sanitizer_and_realisations(tmp_path: Path, realisation: Realisation) -> None:
    result = run(program(tmp_path, kernel_of(realisation), ADDRESS), 4)
    assert (result.returncode, result.stderr) == (0, "")


def test_sanitizers_and_lines(tmp_path: Path) -> None:
    """All that ranks share are the lines."""
    found = by_lines("all_reduce_full3")
    assert found is not None
    for instrument in (THREAD, ADDRESS):
        target = program(tmp_path, found[2], instrument)
        for threads in (1, 4):
            result = run(target, threads)
            assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(("fault", "threads"), [("ACCL_BUG_RELAXED", 1), ("ACCL_BUG_NOSYNC", 4)])
def test_thread_sanitizer_finds_a_seeded_fault(tmp_path: Path, fault: str, threads: int) -> None:
    target = program(tmp_path, lowered("all_reduce_ring3")[2], THREAD, f"-D{fault}")
    result = run(target, threads)
    assert result.returncode != 0
    assert "ThreadSanitizer: data race" in result.stderr


def test_address_sanitizer_has_nothing_to_say(tmp_path: Path) -> None:
    target = program(tmp_path, lowered("all_reduce_ring3", channels=2)[2], ADDRESS)
    for mode in (0, 1):
        result = run(target, 4, mode)
        told = [line for line in result.stderr.splitlines() if "makecontext/swapcontext" not in line]
        assert (result.returncode, told) == (0, [])


def test_every_mode_and_block_size_gives_the_same_bits(tmp_path: Path) -> None:
    target = program(tmp_path, lowered("all_reduce_full3")[2], (), "-Wall", "-Wextra", "-Werror")
    answers = {run(target, threads, mode).stdout for threads in (1, 3, 8) for mode in (0, 1)}
    assert len(answers) == 1
    assert answers.pop().strip().isdigit()
