"""The one place of the NCCL engine that knows cupy: modules, streams, copies and the kernel that reduces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from acclc_runtime.backends.cuda import import_cupy
from acclc_runtime.backends.kernel_file import Instance, kernel_path, kernel_text
from acclc_runtime.errors import ArgumentError, BackendUnavailableError, BuildError, DamagedFileError
from acclc_runtime.manifest import ManifestCollective, ManifestVariant

_THREADS = 256
_MOST_BLOCKS = 1024
_ARITHMETIC_ENDS = "\n}  // namespace accl\n"
"""The first part of every kernel.cu are types and operators; it ends here."""
_KERNEL = """
#if ACCL_CUDA
#define ACCL_ENTRY extern "C" __global__ void
#define ACCL_EACH(i, count) \\
    for (accl::u64 i = blockIdx.x * (accl::u64)blockDim.x + threadIdx.x; i < count; \\
         i += gridDim.x * (accl::u64)blockDim.x)
#else
#define ACCL_ENTRY extern "C" void
#define ACCL_EACH(i, count) for (accl::u64 i = 0; i < count; ++i)
#endif

// The target may be one of the sources. ``divisor`` 1: the reduction goes on.
ACCL_ENTRY accl_reduce(accl::Item* target, %(parameters)s, accl::u64 count, accl::u64 divisor) {
    typedef accl::Convert<accl::Item> Convert;
    ACCL_EACH(i, count) {
        auto value = Convert::widen(source0[i]);
%(combine)s        if (divisor != 1) value = accl::Operator::finish(value, divisor);
        target[i] = Convert::narrow(value);
    }
}
"""


def import_nccl() -> tuple[Any, Any]:
    """Return cupy and its module of NCCL.

    Raises:
        BackendUnavailableError: one of them, or a GPU, is missing; says what to install.
    """
    cupy = import_cupy()
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        nccl, why = None, f" ({error})"
    else:
        why = ""
    if nccl is None or not getattr(nccl, "available", False):
        raise BackendUnavailableError(
            f"the engine nccl needs NCCL, which this cupy does not find{why}; pip install nvidia-nccl-cu12 (or -cu13), "
            "or conda install nccl, then `python -c 'import cupy.cuda.nccl as n; print(n.get_version())'`"
        )
    return cupy, nccl


def reduction_source(text: str, sources: int, path: Path) -> str:
    """Return the source of a kernel ``accl_reduce`` of so many sources, with the arithmetic of a kernel.cu.

    Raises:
        DamagedFileError: the file does not begin with it.
    """
    head, end, _ = text.partition(_ARITHMETIC_ENDS)
    if not end:
        raise DamagedFileError(f"{path} does not begin with types and operators; compile the artefact again")
    parameters = ", ".join(f"const accl::Item* source{n}" for n in range(sources))
    combine = "".join(
        f"        value = accl::Operator::combine(value, Convert::widen(source{n}[i]));\n" for n in range(1, sources)
    )
    return head + end + _KERNEL % {"parameters": parameters, "combine": combine}


class Gpu:
    """The device of one rank: its streams, its scratch, its kernels."""

    def __init__(self, cupy: Any, device: int, artefact: Path) -> None:
        self.cupy = cupy
        self.device = device
        self._artefact = artefact
        self._kernels: dict[tuple[Instance, int], Any] = {}
        self._scratch: dict[int, list[Any]] = {}

    def stream(self, given: Any) -> Any:
        """Return a stream of cupy: of cupy, of torch, or an address; None is the current one.

        Raises:
            ArgumentError: anything else.
        """
        cuda = self.cupy.cuda
        if given is None:
            return cuda.get_current_stream()
        if hasattr(given, "ptr"):
            return given
        address = getattr(given, "cuda_stream", given)
        if not isinstance(address, int):
            raise ArgumentError(f"stream={given!r} is no stream: give one of cupy or torch, or its address")
        return cuda.ExternalStream(address)

    def scratch(self, nbytes: int, stream: Any) -> int:
        """Return the address of at least so much memory; each stream has its own, as its calls follow each other."""
        if nbytes == 0:
            return 0
        kept = self._scratch.setdefault(stream.ptr, [])
        if (
            not kept or kept[-1].nbytes < nbytes
        ):  # queued calls may use the smaller ones: they stay, a half of it in all
            kept.append(self.cupy.empty(1 << (nbytes - 1).bit_length(), np.uint8))
        return int(kept[-1].data.ptr)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Queue a copy on the device."""
        runtime = self.cupy.cuda.runtime
        runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream.ptr)

    def reduction(
        self, collective: ManifestCollective, variant: ManifestVariant, instance: Instance, sources: int
    ) -> Any:
        """Return the kernel that reduces so many sources, with the arithmetic of the variant's kernel.cu.

        Raises:
            BuildError: NVRTC refuses it.
        """
        found = self._kernels.get((instance, sources))
        if found is None:
            path = kernel_path(self._artefact, variant)
            text = kernel_text(path, collective, variant).decode(errors="replace")
            code, options = reduction_source(text, sources, path), ("-std=c++17", *instance.flags)
            try:
                module = self.cupy.RawModule(code=code, options=options)
                found = module.get_function("accl_reduce")
            except self.cupy.cuda.compiler.CompileException as error:
                raise BuildError(f"the reduction of {path} does not compile\n{error}") from None
            self._kernels[instance, sources] = found
        return found

    def launch(self, kernel: Any, addresses: list[int], length: int, divisor: int, stream: Any) -> None:
        """Queue a reduction; ``addresses``: the target, then the sources."""
        blocks = min(_MOST_BLOCKS, -(-length // _THREADS))
        with stream:
            kernel((blocks,), (_THREADS,), tuple(np.uint64(v) for v in (*addresses, length, divisor)))
