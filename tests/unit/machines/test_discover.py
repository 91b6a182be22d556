"""This machine as a topology, from records of sysfs and a double of NVML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from machine_tools import DGX1, Write, addresses, relabelled, switched

from acclc.importers import text_of
from acclc.importers.model import Imported
from acclc.ir.problem import NodeKind, Topology
from acclc.machines import sysfs
from acclc.machines.discover import discover
from acclc.recognise import recognise
from acclc.sema import analyse_text
from acclc_runtime.devices import read_inventory


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return Write(tmp_path)


def topologies(made: Imported) -> tuple[Topology, ...]:
    return analyse_text(text_of(made, "here", "the machine test"), "here.accl").topologies


def pci(root: Path, write: Write, path: str, cls: str, *, width: int = 16, numa: int = 0, speed: str = "8.0") -> None:
    """Record a device at ``pci0000:00/0000:00:01.0/...`` with its link in /sys/bus/pci/devices."""
    place = f"sys/devices/{path}"
    write(f"{place}/class", cls)
    write(f"{place}/max_link_speed", f"{speed} GT/s PCIe")
    write(f"{place}/max_link_width", 16)
    write(f"{place}/current_link_width", width)
    write(f"{place}/numa_node", numa)
    link = root / "sys/bus/pci/devices" / path.rpartition("/")[2]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(root / place)


def dgx1(root: Path, write: Write) -> None:
    """Four PCIe switches with two GPUs and a card each, on two sockets."""
    write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 79")
    for numa in (0, 1):
        write(f"sys/devices/system/node/node{numa}/cpulist", f"{20 * numa}-{20 * numa + 19}")
    for n in range(4):
        numa, bridge = n // 2, f"pci0000:{n // 2}0/0000:{n // 2}0:0{n % 2 + 1}.0/0000:{0xD0 + n:02x}:00.0"
        for path in (bridge.rpartition("/")[0], bridge):
            pci(root, write, path, "0x060400", numa=numa)
        for address in addresses(8)[2 * n : 2 * n + 2]:
            pci(root, write, f"{bridge}/{address}", "0x030200", numa=numa)
        card = f"{bridge}/0000:{0xE0 + n:02x}:00.0"
        pci(root, write, card, "0x020700", numa=numa)
        write(f"sys/devices/{card}/infiniband/mlx5_{n}/ports/1/rate", "100 Gb/sec (4X EDR)")
        write(f"sys/devices/{card}/infiniband/mlx5_{n}/ports/1/state", "4: ACTIVE")
        place = root / f"sys/devices/{card}/infiniband/mlx5_{n}"
        (place / "device").symlink_to(root / f"sys/devices/{card}")
        (root / "sys/class/infiniband").mkdir(parents=True, exist_ok=True)
        (root / f"sys/class/infiniband/mlx5_{n}").symlink_to(place)


def test_a_dgx1_is_found_whole(tmp_path: Path, write: Write) -> None:
    dgx1(tmp_path, write)
    made = discover(tmp_path, read_inventory(relabelled(DGX1, [3, 1, 4, 0, 5, 7, 2, 6])))
    assert [len(made.of(k)) for k in (NodeKind.GPU, NodeKind.SWITCH, NodeKind.HOST, NodeKind.NIC)] == [8, 4, 2, 4]
    fast, whole = topologies(made)
    assert recognise(fast)[0].name == "dgx1"
    assert sum(x.count for x in fast.links) == 48
    assert len(whole.links) == len(fast.links) + 2 * (8 + 4 + 4 + 1)
    text = text_of(made, "here", "the machine test")
    assert "NVML, the active NVLinks of GPU 0" in text
    assert "/sys/bus/pci/devices/0000:06:00.0" in text
    assert "line " not in text
    assert "# Read: the NVIDIA driver 570.86.10 (NVML), and sysfs" in text
    assert "100 Gbit/s" not in text  # read, not assumed
    again = discover(tmp_path, read_inventory(relabelled(DGX1, [3, 1, 4, 0, 5, 7, 2, 6])))
    assert text == text_of(again, "here", "the machine test")


def test_a_link_on_fewer_lanes_is_said_and_counted(tmp_path: Path, write: Write) -> None:
    for n, width in enumerate((16, 8)):
        pci(tmp_path, write, f"pci0000:00/0000:00:0{n + 1}.0/{addresses(2)[n]}", "0x030200", width=width, speed="16.0")
    made = discover(tmp_path, read_inventory(relabelled({}, range(2))))
    assert any("has 8 of its 16 lanes" in note.text for note in made.notes)
    rates = sorted(float(c.rate) / 1e9 for c in made.classes if c.kind == "pcie")
    assert rates == [12.0, 24.0]


def test_gpus_behind_nvswitches(tmp_path: Path) -> None:
    made = discover(tmp_path, read_inventory(switched(8, 9)))
    (fast, *_) = topologies(made)
    assert recognise(fast)[0].name == "hgx_h100"
    assert sum("sysfs does not show it" in note.text for note in made.notes) == 8


def socket(root: Path, write: Write, number: int, cores: int, per_cache: int) -> None:
    """Record a socket of ``cores`` cores with two threads each; thread t of core c is CPU ``2 c + t`` of the socket."""
    first = 2 * cores * number
    write(f"sys/devices/system/node/node{number}/cpulist", f"{first}-{first + 2 * cores - 1}")
    for cpu in range(first, first + 2 * cores):
        place = f"sys/devices/system/cpu/cpu{cpu}"
        core = (cpu - first) // 2
        pair = f"{first + 2 * core}-{first + 2 * core + 1}"
        group = first + core // per_cache * per_cache * 2
        write(f"{place}/topology/physical_package_id", number)
        write(f"{place}/topology/core_id", core)
        write(f"{place}/topology/thread_siblings_list", pair)
        for index, (level, kind, size, shared) in enumerate(
            (
                (1, "Data", "32K", pair),
                (2, "Unified", "1024K", pair),
                (3, "Unified", "32768K", f"{group}-{group + 2 * per_cache - 1}"),
            )
        ):
            for name, value in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                write(f"{place}/cache/index{index}/{name}", value)


def test_two_sockets_with_two_caches_each(tmp_path: Path, write: Write) -> None:
    write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763\n\nprocessor\t: 1")
    for number in (0, 1):
        socket(tmp_path, write, number, 4, 2)
    made = discover(tmp_path, None, allowed=range(16))
    assert [len(made.of(k)) for k in (NodeKind.GPU, NodeKind.SWITCH, NodeKind.HOST)] == [8, 4, 2]
    assert made.notes[0].text.startswith("2 sockets, 8 cores, 16 logical CPUs that this process may use, AMD EPYC 7763")
    (here,) = topologies(made)
    labels = text_of(made, "here", "x")
    assert "cache[0] L3, 32768K, of CPUs 0-3; cache[1] L3, 32768K, of CPUs 4-7" in labels
    assert "g[1] CPU 2, core 1 of socket 0" in labels
    assert len(here.links) == 2 * (8 + 4 + 1)


def test_a_process_that_may_use_only_some_cores_sees_those(tmp_path: Path, write: Write) -> None:
    socket(tmp_path, write, 0, 4, 4)
    made = discover(tmp_path, None, allowed=[1, 4, 5], settings=["lane=12"])
    assert [len(made.of(k)) for k in (NodeKind.GPU, NodeKind.SWITCH, NodeKind.HOST)] == [2, 1, 0]
    assert [float(c.rate) for c in made.classes] == [12e9]
    assert len(topologies(made)) == 1


def test_nothing_in_sysfs_is_still_a_machine(tmp_path: Path) -> None:
    made = discover(tmp_path, None, allowed=[0, 1])
    (here,) = topologies(made)
    assert len(here.ranks) == 2
    assert any("no shared cache is shown" in x.origin for x in made.links)


def test_this_very_machine(tmp_path: Path) -> None:
    made = discover(Path("/"), None)
    assert 1 <= len(made.of(NodeKind.GPU)) <= len(os.sched_getaffinity(0))
    topologies(made)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), ("x", ()), ("5", (5,)), ("3-1", ()), ("0-99999999", ()), ("1,,2", (1, 2))],
)
def test_lists_of_cpus(text: str, numbers: tuple[int, ...]) -> None:
    assert sysfs.cpu_list(text) == numbers


def test_a_virtual_card_is_none(tmp_path: Path, write: Write) -> None:
    write("sys/class/net/lo/speed", 10)
    write("sys/class/net/eth0/speed", "x")
    pci(tmp_path, write, "pci0000:00/0000:00:03.0", "0x020000")
    (tmp_path / "sys/class/net/eth0/device").symlink_to(tmp_path / "sys/devices/pci0000:00/0000:00:03.0")
    assert [(c.name, c.address, c.speed) for c in sysfs.cards(tmp_path)] == [("eth0", "0000:00:03.0", None)]
