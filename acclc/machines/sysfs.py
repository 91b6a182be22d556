"""What Linux tells of a machine in ``/sys`` and ``/proc``. Every function takes the root, so that a record will do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_INFINIBAND_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One PCI device: its address, class (``0x030200``), and its own link. ``above``: bridges, outermost first."""

    address: str
    cls: str
    speed: str
    """``16.0 GT/s PCIe``, the most it can; empty where it does not say."""
    width: int
    """Lanes in use; nought where it does not say."""
    most_width: int
    numa: int
    above: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A port of a network card. ``speed`` in Mbit/s; None: it does not say."""

    name: str
    address: str
    speed: int | None
    source: str


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache and the CPUs that share it. ``kind``: Data, Instruction or Unified; size as written (``32768K``)."""

    level: int
    kind: str
    size: str
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cpu:
    """A logical CPU: its socket, its core there, the NUMA node, and its caches, the nearest first."""

    number: int
    socket: int
    core: int
    numa: int
    siblings: tuple[int, ...]
    """The logical CPUs of its core, itself included."""
    caches: tuple[Cache, ...]


def text(path: Path) -> str:
    """Return the first line of a file; empty where it cannot be read, as many files of sysfs cannot."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""


def number(path: Path, default: int) -> int:
    """Return the whole number in a file; ``default`` where there is none."""
    found = text(path)
    return int(found, 0) if re.fullmatch(r"-?(?:0x[0-9a-f]+|\d{1,18})", found) else default


def cpu_list(words: str) -> tuple[int, ...]:
    """Return the numbers of ``0-3,8,10-11``."""
    found: list[int] = []
    for part in words.split(","):
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part.strip())
        if match is not None:
            first = int(match[1])
            found += range(first, min(int(match[2] or first), first + 65_535) + 1)
    return tuple(found)


def cpus(root: Path, allowed: Iterable[int]) -> tuple[Cpu, ...]:
    """Return the logical CPUs of ``allowed``, in order; where sysfs says nothing, each is a core of its own."""
    nodes = numa_nodes(root)
    found = []
    for n in sorted(set(allowed)):
        place = root / "sys/devices/system/cpu" / f"cpu{n}"
        siblings = cpu_list(text(place / "topology/thread_siblings_list")) or (n,)
        found.append(
            Cpu(
                n,
                max(0, number(place / "topology/physical_package_id", 0)),
                number(place / "topology/core_id", n),
                next((node for node, members in nodes.items() if n in members), 0),
                siblings,
                tuple(_caches(place / "cache", n)),
            )
        )
    return tuple(found)


def _caches(folder: Path, cpu: int) -> list[Cache]:
    found = []
    for index in sorted(folder.glob("index[0-9]*"), key=lambda p: int(p.name[5:]) if p.name[5:].isdigit() else 99):
        level = number(index / "level", 0)
        shared = cpu_list(text(index / "shared_cpu_list")) or (cpu,)
        if level > 0:
            found.append(Cache(level, text(index / "type"), text(index / "size"), shared))
    return found


def numa_nodes(root: Path) -> dict[int, tuple[int, ...]]:
    """Return the logical CPUs of each NUMA node."""
    folder = root / "sys/devices/system/node"
    places = sorted((int(p.name[4:]), p) for p in folder.glob("node[0-9]*") if p.name[4:].isdigit())
    return {n: cpu_list(text(place / "cpulist")) for n, place in places}


def cpu_words(root: Path) -> dict[str, str]:
    """Return the first processor of ``/proc/cpuinfo``: vendor_id, cpu family, model, model name, ..."""
    found: dict[str, str] = {}
    try:
        lines = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        key, colon, value = line.partition(":")
        if not key.strip() and found:
            break
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def pci_device(root: Path, address: str) -> PciDevice | None:
    """Return a PCI device with the bridges above it; None where sysfs has none of that address."""
    place = root / "sys/bus/pci/devices" / address
    if not place.exists():
        return None
    path = place.resolve()
    above = [part for part in path.parts if _ADDRESS.fullmatch(part)][:-1]
    return PciDevice(
        address,
        text(place / "class"),
        text(place / "max_link_speed"),
        max(0, number(place / "current_link_width", 0)),
        max(0, number(place / "max_link_width", 0)),
        number(place / "numa_node", -1),
        tuple(above),
    )


def cards(root: Path) -> tuple[Card, ...]:
    """Return the ports of physical network cards: RDMA devices, and the network devices that are none of them."""
    found: list[Card] = []
    for place in sorted((root / "sys/class/infiniband").glob("*")):
        address = _address_of(place)
        for port in sorted((place / "ports").glob("[0-9]*")):
            match = _INFINIBAND_RATE.match(text(port / "rate"))
            if address is not None and "ACTIVE" in (text(port / "state") or "ACTIVE"):
                speed = int(float(match[1]) * 1000) if match else None
                found.append(Card(place.name, address, speed, f"/sys/class/infiniband/{place.name}"))
    known = {c.address for c in found}
    for place in sorted((root / "sys/class/net").glob("*")):
        address = _address_of(place)
        if address is not None and address not in known:
            speed = number(place / "speed", -1)
            found.append(Card(place.name, address, speed if speed > 0 else None, f"/sys/class/net/{place.name}"))
    return tuple(found)


def _address_of(place: Path) -> str | None:
    """Return the PCI address that a device of a class stands for; None of what is virtual."""
    device = place / "device"
    if not device.exists():
        return None
    found = [part for part in device.resolve().parts if _ADDRESS.fullmatch(part)]
    return found[-1] if found else None
