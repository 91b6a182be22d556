"""The same text for the GPU, without one: nvcc or NVRTC compile it to cubin for every architecture we name."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_cases import OPS, REDUCIBLE, by_lines, lowered, realised

from acclc.codegen import generate
from acclc.ir.kernel_program import Realisation
from acclc_runtime.backends.kernel_file import ABI

ARCHITECTURES = (80, 90, 100)
NVCC = shutil.which("nvcc")


def nvrtc_library() -> str | None:
    """Find the library of the nvidia-cuda-nvrtc wheel (the extra ``nvrtc``)."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(p) for p in found.submodule_search_locations or ()] if found else []
    libraries = sorted(
        path for folder in folders for path in folder.glob("*/lib/libnvrtc.so.*") if ".alt." not in path.name
    )
    return str(libraries[-1]) if libraries else None


NVRTC = nvrtc_library()

pytestmark = pytest.mark.skipif(not (NVCC or NVRTC), reason="needs nvcc or the extra nvrtc")


def options(type: str, op: str) -> list[str]:
    return ["-std=c++17", f"-DACCL_TYPE={type}", f"-DACCL_OP={op}", f"-DACCL_RUNTIME_ABI={ABI}"]


def by_nvcc(folder: Path, text: str, type: str, op: str, architecture: int) -> bytes:
    assert NVCC is not None
    source, target = folder / "kernel.cu", folder / "kernel.cubin"
    source.write_text(text)
    flags = [*options(type, op), "-Werror", "all-warnings", f"-arch=sm_{architecture}", "-cubin"]
    done = subprocess.run([NVCC, *flags, str(source), "-o", str(target)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return target.read_bytes()


def by_nvrtc(text: str, type: str, op: str, architecture: int) -> bytes:
    assert NVRTC is not None
    for builtins in sorted(Path(NVRTC).parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)  # found by name only once it is loaded
    library = ctypes.CDLL(NVRTC)
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    flags = [f.encode() for f in (*options(type, op), f"-arch=sm_{architecture}")]
    status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    assert library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    cubin = ctypes.create_string_buffer(size.value)
    assert library.nvrtcGetCUBIN(program, cubin) == 0
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


def compile_and_check(folder: Path, text: str, type: str, op: str, architecture: int) -> None:
    """With every compiler that is here: nvcc brings headers and built-in functions that NVRTC does not."""
    if NVCC:
        check(by_nvcc(folder, text, type, op, architecture))
    if NVRTC:
        check(by_nvrtc(text, type, op, architecture))


def check(binary: bytes) -> None:
    assert binary[:4] == b"\x7fELF"
    assert b"accl_kernel" in binary


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture(tmp_path: Path, architecture: int) -> None:
    compile_and_check(tmp_path, generate(lowered("all_reduce_full3")[2]), "f32", "sum", architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("realisation", [Realisation.EAGER, Realisation.DIRECT])
def test_realisations(tmp_path: Path, realisation: Realisation, architecture: int) -> None:
    found = realised("all_reduce_full3", realisation)
    assert found is not None
    compile_and_check(tmp_path, generate(found[2]), "bf16", "avg", architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_lines(tmp_path: Path, architecture: int) -> None:
    found = by_lines("all_reduce_full3")
    assert found is not None
    compile_and_check(tmp_path, generate(found[2]), "bf16", "avg", architecture)


@pytest.mark.parametrize(("type", "op"), [*((t, OPS[n % 5]) for n, t in enumerate(REDUCIBLE)), ("bf16", "avg")])
def test_every_type(tmp_path: Path, type: str, op: str) -> None:
    compile_and_check(tmp_path, generate(lowered("all_reduce_ring2")[2]), type, op, 90)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_data_movement(tmp_path: Path, size: int) -> None:
    compile_and_check(tmp_path, generate(lowered("all_gather_ring2")[2]), f"b{size}", "none", 80)
