"""Kernels on a GPU: compiled by NVRTC, and refused where not all their blocks can run at once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from acclc_runtime.errors import ArgumentError, BuildError


def compile_kernel(cupy: Any, path: Path, text: str, flags: tuple[str, ...], device: int, together: bool) -> Any:
    """Return the loaded function of a kernel.cu on a device; ``together``: for a cooperative launch.

    Raises:
        BuildError: with the compiler's words, and how to repeat it.
    """
    options = ("-std=c++17", *flags)
    with cupy.cuda.Device(device) as here:
        try:
            module = cupy.RawModule(code=text, options=options, enable_cooperative_groups=together)
            return module.get_function("accl_kernel")
        except cupy.cuda.compiler.CompileException as error:
            shown = shlex.join(["nvcc", *options, f"-arch=sm_{here.compute_capability}", "-cubin", str(path)])
            raise BuildError(f"{path} does not compile\n{error}\nTo repeat it:\n  {shown} -o /dev/null") from None


def check_resident(cupy: Any, kernel: Any, grid: int, threads: int, device: int) -> None:
    """All blocks must run at once, since they wait for each other.

    Raises:
        ArgumentError: the device has no room for them.
    """
    with cupy.cuda.Device(device) as here:
        each = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, threads, 0)
        room = each * here.attributes["MultiProcessorCount"]
    if grid > room:
        raise ArgumentError(
            f"{grid} blocks of {threads} threads have to run at once on device {device}, which holds "
            f"{room}: use fewer threads, more devices, or compile with fewer channels or blocks"
        )
