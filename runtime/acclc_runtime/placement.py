"""Where the ranks of an artefact run: its machine is looked for in the one that is there, and the map is said."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from acclc_runtime.devices import Gpu, import_pynvml, machine_of, read_inventory, visible
from acclc_runtime.errors import AcclcRuntimeError, BackendUnavailableError, MachineMismatchError
from acclc_runtime.manifest import Manifest, ManifestTopology
from acclc_runtime.mapping import RankMap, find_map, read_machine
from acclc_runtime.settings import say

SHOWN = "nvlink"
"""The kind of links that NVML shows."""

Machine = str | os.PathLike[str] | ManifestTopology


def rank_map(manifest: Manifest, machine: Machine) -> RankMap:
    """Return one map that serves all collectives of an artefact.

    ``machine``: a topology, the path of a machine file, or ``nvml``: the GPUs that this process sees.

    Raises:
        MachineMismatchError: the machine has not the links, or no one map serves all collectives.
        BackendUnavailableError: ``nvml``, but NVML cannot be read.
    """
    if isinstance(machine, str) and machine == "nvml":
        return _on_gpus(manifest, visible(read_inventory(import_pynvml()).gpus))
    there = machine if isinstance(machine, ManifestTopology) else read_machine(Path(machine))
    return _one_map(manifest.name, manifest.topologies, there)


def _on_gpus(manifest: Manifest, gpus: Sequence[Gpu]) -> RankMap:
    """Return the map onto GPUs by what NVML shows of them: of a machine with NVLink no other links are asked."""
    seen = tuple(
        replace(t, links=tuple(x for x in t.links if x.kind == SHOWN)) if any(x.kind == SHOWN for x in t.links) else t
        for t in manifest.topologies
    )
    return _one_map(manifest.name, seen, machine_of(gpus))


def _one_map(name: str, topologies: Sequence[ManifestTopology], there: ManifestTopology) -> RankMap:
    wanted = list(dict.fromkeys(topologies))
    refused: MachineMismatchError | None = None
    for first in sorted(wanted, key=lambda t: -len(t.links)):
        found = find_map(first, there)
        try:
            for other in wanted:
                find_map(other, there, fixed=found.devices)
        except MachineMismatchError as error:
            refused = refused or error
            continue
        return found
    raise MachineMismatchError(f"no one map of ranks serves all collectives of {name}: {refused}")


def place_on_devices(manifest: Manifest, addresses: Callable[[], Sequence[str]], nvml: Any = None) -> RankMap | None:
    """Return the map onto CUDA devices, by their ordinals; None where ranks run in order, as nothing better is known.

    ``addresses``: the PCI addresses of the ordinals, as CUDA tells them. Where the machine is another than the one
    compiled for, a warning says so: schedules are right on any machine, but fast on theirs.
    """
    try:
        gpus = _in_order(read_inventory(import_pynvml() if nvml is None else nvml).gpus, addresses())
    except BackendUnavailableError:
        return None
    if all(x.kind not in ("", SHOWN) for t in manifest.topologies for x in t.links):
        return None  # PCIe and the like: NVML does not show how these are wired
    if gpus is None or len(gpus) < max(t.kinds.count("gpu") for t in manifest.topologies):
        return None
    try:
        found = _on_gpus(manifest, gpus)
    except AcclcRuntimeError as error:
        warnings.warn(f"{error}; ranks run on devices in order", RuntimeWarning, stacklevel=4)
        return None
    if not found.identity or found.how != "same":
        say(found.words())
    return found


def _in_order(gpus: Sequence[Gpu], addresses: Sequence[str]) -> tuple[Gpu, ...] | None:
    by_address = {gpu.pci: gpu for gpu in gpus}
    if not all(a in by_address for a in addresses):
        return None
    return tuple(by_address[a] for a in addresses)
