"""The GPUs of this machine as NVML tells of them, and which of them this process sees.

Everything but :func:`read_inventory` is pure; that takes the module ``pynvml`` (or a double of it) as an argument.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from acclc_runtime.errors import ArgumentError, BackendUnavailableError
from acclc_runtime.manifest import ManifestLink, ManifestTopology

NVLINK_RATE, NVLINK_LATENCY = Fraction(25 * 10**9), Fraction(7, 10**7)
"""Of the machine read at load, where only counts of links are compared."""
P2P_INDICES = {"read": 0, "write": 1, "nvlink": 2}
"""Of nvmlDeviceGetP2PStatus (nvml.h, nvmlGpuP2PCapsIndex_t); pynvml 13 has a tuple in place of the first."""
LEVELS = {0: "INT", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t, by the names of `nvidia-smi topo -m`."""
_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.IGNORECASE)
MOST_LINKS = 36


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink of a GPU. ``remote``: the PCI address of the other end; ``switch``: that is an NVSwitch."""

    number: int
    remote: str
    switch: bool
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. ``index`` is NVML's, which goes by PCI address; PCIe width in lanes; None: the driver does not say."""

    index: int
    pci: str
    uuid: str
    name: str
    links: tuple[NvLink, ...] = ()
    generation: int | None = None
    width: int | None = None
    numa: int | None = None
    multi_instance: bool = False
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All GPUs. ``levels[i, j]`` (i < j): how far up PCIe the path goes, PIX to SYS; ``p2p[i, j]`` what is refused."""

    driver: str
    gpus: tuple[Gpu, ...]
    levels: Mapping[tuple[int, int], str]
    p2p: Mapping[tuple[int, int], tuple[str, ...]]


def import_pynvml() -> Any:
    """Return the module, started.

    Raises:
        BackendUnavailableError: it is not installed, or there is no driver.
    """
    try:
        import pynvml
    except ImportError:
        raise BackendUnavailableError("NVML is read by nvidia-ml-py: install acclc[nvml]") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise BackendUnavailableError(f"NVML cannot start, so there is no NVIDIA driver here: {error}") from None
    return pynvml


def read_inventory(nvml: Any) -> Inventory:
    """Read all GPUs by ``nvml``: the module pynvml, started."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    gpus = tuple(_gpu(nvml, i, handle) for i, handle in enumerate(handles))
    levels: dict[tuple[int, int], str] = {}
    refused: dict[tuple[int, int], tuple[str, ...]] = {}
    for i, a in enumerate(handles):
        for j, b in enumerate(handles):
            if i < j:
                level = _asked(nvml, "nvmlDeviceGetTopologyCommonAncestor", a, b)
                levels[i, j] = LEVELS.get(level, "SYS") if level is not None else "SYS"
            if i != j:
                states = ((name, _asked(nvml, "nvmlDeviceGetP2PStatus", a, b, n)) for name, n in P2P_INDICES.items())
                refused[i, j] = tuple(name for name, state in states if name != "nvlink" and state not in (0, None))
    return Inventory(_text(nvml.nvmlSystemGetDriverVersion()), gpus, levels, refused)


def _gpu(nvml: Any, index: int, handle: Any) -> Gpu:
    numa = _asked(nvml, "nvmlDeviceGetNumaNodeId", handle)
    mode = _asked(nvml, "nvmlDeviceGetMigMode", handle)
    capability = _asked(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    return Gpu(
        index=index,
        pci=pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        links=tuple(_links(nvml, handle)),
        generation=_asked(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        width=_asked(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle),
        numa=numa if isinstance(numa, int) and 0 <= numa < 2**16 else None,
        multi_instance=bool(mode and mode[0]),
        capability=(int(capability[0]), int(capability[1])) if capability else None,
    )


def _links(nvml: Any, handle: Any) -> list[NvLink]:
    """Active links; asking for the state of a link that the GPU does not have is an error, and ends it."""
    found = []
    for number in range(MOST_LINKS):
        if _asked(nvml, "nvmlDeviceGetNvLinkState", handle, number) != 1:
            continue
        info = _asked(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, number)
        if info is None:
            continue
        kind = _asked(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, number)
        version = _asked(nvml, "nvmlDeviceGetNvLinkVersion", handle, number)
        found.append(NvLink(number, pci_address(_text(info.busId)), kind == 2, version))
    return found


def _asked(nvml: Any, name: str, *arguments: Any) -> Any:
    """What NVML answers; None where this driver or GPU cannot say."""
    function = getattr(nvml, name, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def pci_address(text: str) -> str:
    """Return ``0000:3b:00.0`` for the ways NVML, CUDA and people write it; the text as it is if it is none."""
    match = _PCI.fullmatch(text.strip().strip("\0"))
    if match is None:
        return text.strip()
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str] | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA shows this process, in the order of its ordinals.

    CUDA_VISIBLE_DEVICES lists indices, UUIDs (or their beginnings) or PCI addresses; as CUDA does it, the first entry
    that names no GPU ends the list. Indices are in order of PCI address, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.

    Raises:
        ArgumentError: a GPU is listed twice, or a part of a GPU (MIG) is.
    """
    text = (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry.startswith("MIG-"):
            raise ArgumentError(f"CUDA_VISIBLE_DEVICES: {entry} is a part of a GPU, which no link leads to")
        gpu = _named(gpus, entry)
        if gpu is None:
            break
        if gpu in chosen:
            raise ArgumentError(f"CUDA_VISIBLE_DEVICES={text} lists GPU {gpu.index} ({gpu.pci}) twice")
        chosen.append(gpu)
    return tuple(chosen)


def _named(gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    if entry.isascii() and entry.isdigit():
        return gpus[int(entry)] if int(entry) < len(gpus) else None
    if entry.startswith("GPU-"):
        found = [g for g in gpus if g.uuid.startswith(entry)]
        return found[0] if len(found) == 1 else None
    if not entry:
        return None
    return next((g for g in gpus if g.pci == pci_address(entry)), None)


def machine_of(gpus: Sequence[Gpu], name: str = "this machine") -> ManifestTopology:
    """Return the NVLinks between some GPUs and their switches, in the order given: what ranks are mapped onto."""
    place = {gpu.pci: i for i, gpu in enumerate(gpus)}
    switches: dict[str, int] = {}
    counts: dict[tuple[int, int], int] = {}
    for i, gpu in enumerate(gpus):
        for link in gpu.links:
            if link.switch:
                other = switches.setdefault(link.remote, len(gpus) + len(switches))
                counts[other, i] = counts.get((other, i), 0) + 1
            elif link.remote in place:
                other = place[link.remote]
            else:
                continue  # to a GPU that this process does not see
            counts[i, other] = counts.get((i, other), 0) + 1
    links = (
        ManifestLink(a, b, n, "nvlink", NVLINK_RATE, NVLINK_LATENCY, "nvlink") for (a, b), n in sorted(counts.items())
    )
    names = [f"GPU {g.index} ({g.pci})" for g in gpus] + [f"switch {pci}" for pci in switches]
    return ManifestTopology(name, tuple(names), ("gpu",) * len(gpus) + ("switch",) * len(switches), tuple(links))
