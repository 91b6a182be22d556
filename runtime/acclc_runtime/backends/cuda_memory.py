"""Arrays on a GPU, for other parts of the runtime; checks of them. Imports cupy when called, not before."""

from __future__ import annotations

from typing import Any

from acclc_runtime.backends.base import Call
from acclc_runtime.devices import pci_address
from acclc_runtime.errors import ArgumentError


def wrap(address: int, nbytes: int, owner: Any, device: int) -> Any:
    """Return memory of ``device`` as an array of bytes; ``owner`` is kept alive by it."""
    import cupy

    memory = cupy.cuda.UnownedMemory(address, nbytes, owner, device)
    return cupy.ndarray((nbytes,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))


def empty(shape: int | tuple[int, ...], dtype: Any, device: int) -> Any:
    """Return a new array on ``device``."""
    import cupy

    with cupy.cuda.Device(device):
        return cupy.empty(shape, dtype)


def check_devices(call: Call, devices: list[int]) -> None:
    """Every rank's buffers lie on its device.

    Raises:
        ArgumentError: naming the rank.
    """
    for what, buffers in (("input", call.inputs), ("output", call.outputs)):
        for rank, device, buffer in zip(call.collective.ranks, devices, buffers, strict=True):
            found: Any = buffer
            if found.nbytes and found.device.id != device:
                raise ArgumentError(
                    f"{call.collective.name}: the {what} of rank {rank} lies on device {found.device.id}; "
                    f"the rank runs on device {device}"
                )


def device_addresses() -> tuple[str, ...]:
    """Return the PCI address of each device, by CUDA's ordinals.

    Raises:
        BackendUnavailableError: no cupy, no driver or no device.
    """
    from acclc_runtime.backends.cuda import import_cupy

    runtime = import_cupy().cuda.runtime
    return tuple(pci_address(runtime.deviceGetPCIBusId(d)) for d in range(runtime.getDeviceCount()))
