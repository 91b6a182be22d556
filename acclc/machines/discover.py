"""This machine as a topology: GPUs by NVML and sysfs, else CPU cores as the CPU backend sees them.

GPUs, bridges and cards are written down as NCCL's XML is, one element a line, and read by the importer of that: one set
of rules builds the tree, takes bridges away that join nothing, and knows the rates. Lines are then named by where they
were read.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from xml.sax.saxutils import quoteattr

from acclc.importers import classes
from acclc.importers.hosts import join_hosts
from acclc.importers.model import Draft, Evidence, Imported, Note
from acclc.importers.nccl import import_xml
from acclc.importers.rates import smp_of
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind
from acclc.machines import sysfs
from acclc.machines.sysfs import Cpu, PciDevice
from acclc.source import Source
from acclc_runtime.devices import Gpu, Inventory

CORE_RATE = Fraction(8)
"""GB/s of one core that copies through a shared cache: assumed until it is probed."""
CORE_LATENCY = Fraction(1, 10)
"""Microseconds until another core sees what was written: assumed likewise."""
_LINE = re.compile(r"\bline (\d+)\b")


def discover(
    root: Path, inventory: Inventory | None, settings: Iterable[str] = (), allowed: Iterable[int] = ()
) -> Imported:
    """Return this machine. ``inventory``: its GPUs; without any, the cores of ``allowed`` (default: this process's).

    Raises:
        DiagnosticError: a setting is wrong.
    """
    chosen = Settings(settings)
    if inventory is not None and inventory.gpus:
        return _with_gpus(root, inventory, chosen)
    return _of_cores(root, tuple(allowed) or tuple(os.sched_getaffinity(0)), chosen)


# -- GPUs ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Xml:
    """Lines of XML, and where each was read."""

    lines: list[str] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)

    def add(self, depth: int, line: str, origin: str) -> None:
        self.lines.append("  " * depth + line)
        self.origins.append(origin)

    def open(self, depth: int, tag: str, attributes: dict[str, object], origin: str, *, close: bool = False) -> None:
        words = " ".join(f"{name}={quoteattr(str(value))}" for name, value in attributes.items() if value != "")
        self.add(depth, f"<{tag} {words}{' /' if close else ''}>", origin)


def _with_gpus(root: Path, inventory: Inventory, settings: Settings) -> Imported:
    xml, unplaced = xml_of(root, inventory)
    made = import_xml(Source("this machine", "\n".join(xml.lines) + "\n"), settings)

    def named(words: str) -> str:
        return _LINE.sub(lambda m: xml.origins[min(int(m[1]), len(xml.origins)) - 1], words)

    notes = [Note(Evidence.READ, f"the NVIDIA driver {inventory.driver} (NVML), and sysfs")]
    notes += [replace(note, text=named(note.text)) for note in made.notes]
    notes += [
        Note(Evidence.ASSUMED, f"GPU {g.index} ({g.pci}) is on NUMA node 0: sysfs does not show it") for g in unplaced
    ]
    notes += [Note(Evidence.READ, words) for words in _narrow(root, inventory.gpus)]
    links = tuple(replace(link, origin=named(link.origin)) for link in made.links)
    return replace(made, format="this machine, by NVML and sysfs", links=links, notes=tuple(notes))


def xml_of(root: Path, inventory: Inventory) -> tuple[_Xml, list[Gpu]]:
    """Return the machine as NCCL's XML, and the GPUs that sysfs does not show."""
    devices = {g.pci: sysfs.pci_device(root, g.pci) for g in inventory.gpus}
    unplaced = [g for g in inventory.gpus if devices[g.pci] is None]
    ports: dict[str, list[sysfs.Card]] = {}
    for card in sysfs.cards(root):
        ports.setdefault(card.address, []).append(card)
    devices |= {address: sysfs.pci_device(root, address) for address in ports}
    gpus = {g.pci: g for g in inventory.gpus}
    tree = _tree([(address, device) for address, device in devices.items()])
    xml = _Xml()
    xml.add(0, '<system version="1">', "")
    words = sysfs.cpu_words(root)
    nodes = {gpus[a].numa if a in gpus and gpus[a].numa is not None else _numa(d) for a, d in devices.items()}
    for numa in sorted(n for n in nodes | set(sysfs.numa_nodes(root)) if n is not None):
        attributes = {
            "numaid": numa,
            "arch": platform.machine(),
            "vendor": words.get("vendor_id", ""),
            "familyid": words.get("cpu family", ""),
            "modelid": words.get("model", ""),
        }
        xml.open(1, "cpu", attributes, f"/sys/devices/system/node/node{numa}")
        for address in tree.get("", ()):
            if _home(address, tree, devices, gpus) == numa:
                _write(xml, root, address, tree, devices, gpus, ports, 2)
        xml.add(1, "</cpu>", "")
    xml.add(0, "</system>", "")
    return xml, unplaced


def _numa(device: PciDevice | None) -> int:
    return max(0, device.numa) if device is not None else 0


def _tree(devices: Iterable[tuple[str, PciDevice | None]]) -> dict[str, list[str]]:
    """Return what is below each bridge; "" is the CPU."""
    below: dict[str, list[str]] = {}
    for address, device in devices:
        chain = [*(device.above if device is not None else ()), address]
        for above, under in zip(["", *chain], chain, strict=False):
            if under not in below.setdefault(above, []):
                below[above].append(under)
    return below


def _home(address: str, tree: dict[str, list[str]], devices: dict[str, PciDevice | None], gpus: dict[str, Gpu]) -> int:
    """The NUMA node of the first device at or below a place."""
    while address not in devices:
        address = tree[address][0]
    gpu = gpus.get(address)
    return gpu.numa if gpu is not None and gpu.numa is not None else _numa(devices[address])


def _write(
    xml: _Xml,
    root: Path,
    address: str,
    tree: dict[str, list[str]],
    devices: dict[str, PciDevice | None],
    gpus: dict[str, Gpu],
    ports: dict[str, list[sysfs.Card]],
    depth: int,
) -> None:
    device = devices.get(address) or sysfs.pci_device(root, address)
    gpu = gpus.get(address)
    cls = "0x030200" if gpu is not None else "0x020000" if address in ports else "0x060400"
    attributes: dict[str, object] = {"busid": address, "class": cls}
    if device is not None and device.speed and (device.width or device.most_width):
        attributes |= {"link_speed": device.speed, "link_width": device.width or device.most_width}
    elif gpu is not None and gpu.generation and gpu.width:
        speeds = {1: "2.5", 2: "5", 3: "8", 4: "16", 5: "32", 6: "64"}
        attributes |= {"link_speed": f"{speeds.get(gpu.generation, '8')} GT/s", "link_width": gpu.width}
    xml.open(depth, "pci", attributes, f"/sys/bus/pci/devices/{address}")
    if gpu is not None:
        _write_gpu(xml, gpu, depth + 1)
    if address in ports:
        xml.open(depth + 1, "nic", {}, ports[address][0].source)
        for port in ports[address]:
            speed = {} if port.speed is None else {"speed": port.speed}
            xml.open(depth + 2, "net", {"name": port.name, **speed}, port.source, close=True)
        xml.add(depth + 1, "</nic>", "")
    for under in tree.get(address, ()):
        _write(xml, root, under, tree, devices, gpus, ports, depth + 1)
    xml.add(depth, "</pci>", "")


def _write_gpu(xml: _Xml, gpu: Gpu, depth: int) -> None:
    major, minor = gpu.capability or (8, 0)
    attributes: dict[str, object] = {"dev": gpu.index, "sm": 10 * major + minor, "rank": gpu.index}
    xml.open(depth, "gpu", attributes, f"NVML, GPU {gpu.index} ({gpu.name})")
    counts: dict[tuple[str, bool], int] = {}
    for link in gpu.links:
        counts[link.remote, link.switch] = counts.get((link.remote, link.switch), 0) + 1
    for (remote, switch), count in counts.items():
        tclass = "0x068000" if switch else "0x030200"
        origin = f"NVML, the active NVLinks of GPU {gpu.index}"
        xml.open(depth + 1, "nvlink", {"target": remote, "count": count, "tclass": tclass}, origin, close=True)
    xml.add(depth, "</gpu>", "")


def _narrow(root: Path, gpus: Sequence[Gpu]) -> Iterable[str]:
    """What runs on fewer lanes than it has: a riser, a bad contact, or a slot that is not wired in full."""
    for gpu in gpus:
        device = sysfs.pci_device(root, gpu.pci)
        if device is not None and 0 < device.width < device.most_width:
            yield f"the PCIe link of GPU {gpu.index} ({gpu.pci}) has {device.width} of its {device.most_width} lanes"


# -- cores ---------------------------------------------------------------------------------------------------


def _of_cores(root: Path, allowed: Sequence[int], settings: Settings) -> Imported:
    draft = Draft(Source("this machine", ""))
    found = sysfs.cpus(root, allowed)
    cores = list({(c.socket, c.numa, c.core): c for c in reversed(found)}.values())[::-1]
    words = sysfs.cpu_words(root)
    sockets = sorted({c.socket for c in found})
    draft.read(
        f"{_many(len(sockets), 'socket')}, {_many(len(cores), 'core')}, {_many(len(found), 'logical CPU')} that this"
        f" process may use{', ' + words['model name'] if 'model name' in words else ''}"
        " (/sys/devices/system/cpu, /proc/cpuinfo, sched_getaffinity)"
    )
    draft.conclude("there is no GPU that NVML shows; each core is a rank, as on the CPU backend")
    rate = classes.make(draft, settings, "shm", "shm", CORE_RATE, CORE_LATENCY / 2, "assumed", setting="lane")
    draft.assume(
        f"a core copies {CORE_RATE} GB/s through a shared cache and is seen after {float(CORE_LATENCY):g} us;"
        " `acclc topo probe` measures both, `--set lane=12` says otherwise (GB/s)"
    )
    for core in cores:
        draft.node(NodeKind.GPU, "g", f"CPU {core.number}, core {core.core} of socket {core.socket}")
    groups = _shared(cores)
    hosts: dict[int, int] = {}
    if len(groups) > 1:
        hosts = {numa: draft.node(NodeKind.HOST, "cpu", f"NUMA {numa}") for numa in sorted({c.numa for c in cores})}
    for members, cache in groups:
        label = f"L{cache.level}, {cache.size}, of CPUs {_ranges(cache.cpus)}" if cache is not None else "memory"
        middle = draft.node(NodeKind.SWITCH, "cache", label)
        for member in members:
            place = f"/sys/devices/system/cpu/cpu{cores[member].number}/cache"
            draft.link(member, middle, 1, rate, place if cache is not None else "assumed: no shared cache is shown")
        if hosts:
            draft.link(middle, hosts[cores[members[0]].numa], len(members), rate, "each core's way to memory")
    if hosts:
        draft.assume("each cache has a link to memory for each of its cores")
        known = words.get("vendor_id", "")
        family, model = (int(words[k]) if words.get(k, "").isdigit() else None for k in ("cpu family", "model"))
        word = smp_of(platform.machine(), known, family, model) if known else None
        join_hosts(draft, settings, list(hosts.values()), word)
    return draft.finish("this machine's cores, by sysfs")


def _shared(cores: Sequence[Cpu]) -> list[tuple[list[int], sysfs.Cache | None]]:
    """Return the cores that share their outermost cache, with that cache; cores without one share the memory."""
    groups: dict[tuple[int, ...], tuple[list[int], sysfs.Cache | None]] = {}
    for n, core in enumerate(cores):
        wide = [c for c in core.caches if c.kind != "Instruction" and set(c.cpus) - set(core.siblings)]
        cache = max(wide, key=lambda c: c.level, default=None)
        key = (core.numa,) if cache is None else (-1, *cache.cpus)
        groups.setdefault(key, ([], cache))[0].append(n)
    return list(groups.values())


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 8``."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][-1] == n - 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
