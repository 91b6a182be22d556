"""Ranks onto devices: the machine compiled for is found in the one that is there, whatever its numbering."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvml_double import DGX1, Nvml, addresses, relabelled, switched

import acclc_runtime as rt
from acclc import compile_text
from acclc.artefact import manifest_topology
from acclc.sema import topology_named
from acclc_runtime import loader, placement
from acclc_runtime.devices import Gpu, machine_of, pci_address, read_inventory, visible
from acclc_runtime.errors import ArgumentError, DamagedFileError, MachineMismatchError
from acclc_runtime.manifest import ManifestLink, ManifestTopology
from acclc_runtime.mapping import find_map, machine_bytes, read_machine

RATE = Fraction(10**9)


def library(name: str) -> ManifestTopology:
    return manifest_topology(topology_named(name))


def read(nvml: Nvml) -> ManifestTopology:
    return machine_of(read_inventory(nvml).gpus)


def graph(count: int, edges: dict[tuple[int, int], int]) -> ManifestTopology:
    links = tuple(ManifestLink(a, b, n, "x", RATE, Fraction(0), "nvlink") for (a, b), n in sorted(edges.items()))
    return ManifestTopology("drawn", tuple(f"g[{i}]" for i in range(count)), ("gpu",) * count, links)


def lanes(topology: ManifestTopology, a: int, b: int) -> int:
    return sum(x.count for x in topology.links if (x.src, x.dst) == (a, b))


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(8)))
def test_any_relabelled_dgx1_is_found_link_by_link(order: list[int]) -> None:
    machine = read(relabelled(DGX1, order))
    wanted = library("dgx1")
    found = find_map(wanted, machine)
    assert found.how == "same"
    assert sorted(found.devices) == list(range(8))
    for a in range(8):
        for b in range(8):
            assert lanes(machine, found.devices[a], found.devices[b]) == lanes(wanted, a, b)


def test_a_machine_in_order_gets_the_identity() -> None:
    assert find_map(library("dgx1"), read(relabelled(DGX1, range(8)))).identity
    for name in ("torus(4, 4)", "hypercube(4)", "mi250", "dgx2", "ring(9)"):
        found = find_map(library(name), library(name))
        assert (found.identity, found.how) == (True, "same")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_small_graphs_agree_with_trying_every_map(data: st.DataObject) -> None:
    small, large = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    few, many = (
        graph(n, {(a, b): data.draw(st.integers(0, 2)) for a in range(n) for b in range(n) if a != b} | {})
        for n in (small, large)
    )
    few, many = (graph(len(t.nodes), {(x.src, x.dst): x.count for x in t.links if x.count}) for t in (few, many))
    held = {"exact": False, "more": False}
    for chosen in permutations(range(large), small):
        pairs = [(lanes(few, a, b), lanes(many, chosen[a], chosen[b])) for a in range(small) for b in range(small)]
        held["exact"] |= all(x == y for x, y in pairs)
        held["more"] |= all(x <= y for x, y in pairs)
    if few.links and not many.links:
        held["more"] = False
    try:
        found = find_map(few, many)
    except MachineMismatchError:
        assert not held["more"]
        return
    assert held["more"]
    assert (found.how == "within") == (not held["exact"])
    for a in range(small):
        for b in range(small):
            assert lanes(many, found.devices[a], found.devices[b]) >= lanes(few, a, b)


def test_a_job_smaller_than_the_machine_gets_a_part_of_it() -> None:
    board = graph(4, {(a, b): n for (x, y), n in DGX1.items() if y < 4 for a, b in ((x, y), (y, x))})
    found = find_map(board, read(relabelled(DGX1, [7, 6, 5, 4, 3, 2, 1, 0])))
    assert found.how == "part"
    assert len(set(found.devices)) == 4
    eight = find_map(library("dgx1"), read(relabelled(DGX1, [2, 3, 4, 5, 6, 7, 8, 9], beyond=2)))
    assert set(eight.devices) <= set(range(10))
    assert "GPU" in eight.words()


def test_a_machine_with_a_lost_link_is_refused_with_the_rank() -> None:
    broken = {**DGX1, (0, 1): 1}
    with pytest.raises(MachineMismatchError, match="no part of it is"):
        find_map(library("dgx1"), read(relabelled(broken, range(8))))
    mended = manifest_topology(topology_named("dgx1 without 1 of g[0] <-> g[1]"))
    assert find_map(mended, read(relabelled(broken, [3, 1, 2, 0, 4, 5, 6, 7]))).how == "same"
    # the whole machine has what the mended schedule needs, and more
    assert find_map(mended, read(relabelled(DGX1, range(8)))).how == "within"


def test_switches_of_one_fabric_count_as_one() -> None:
    wanted = library("hgx_h100")
    assert find_map(wanted, read(switched(8, 9))).how == "same"
    lame = switched(8, 9)
    lame.ends = [*lame.ends[:7], lame.ends[7][:16]]
    with pytest.raises(MachineMismatchError, match="no part of it is"):
        find_map(wanted, read(lame))
    assert find_map(wanted, read(switched(10, 9))).how == "part"
    with pytest.raises(MachineMismatchError, match="8 GPUs, this machine only 4"):
        find_map(wanted, read(switched(4, 9)))


def test_visible_devices_by_index_uuid_and_pci_address() -> None:
    gpus = read_inventory(relabelled(DGX1, range(8))).gpus
    places = addresses(8)

    def seen(text: str) -> list[int]:
        return [g.index for g in visible(gpus, {"CUDA_VISIBLE_DEVICES": text})]

    assert [g.index for g in visible(gpus, {})] == list(range(8))
    assert seen("3,1") == [3, 1]
    assert seen(f"{gpus[5].uuid}, GPU-00000002") == [5, 2]
    assert seen(f"{places[4]},0000{places[0].upper()}") == [4, 0]
    assert seen("2,9,1") == [2]  # as CUDA does it: what names no GPU ends the list
    assert seen("") == []
    assert seen("GPU-0") == []  # eight begin so
    with pytest.raises(ArgumentError, match="twice"):
        seen("1,1")
    with pytest.raises(ArgumentError, match="part of a GPU"):
        seen("MIG-3f")
    # links to a GPU that is not seen are none
    assert {n for x in machine_of(visible(gpus, {"CUDA_VISIBLE_DEVICES": "4,0"})).links for n in (x.src, x.dst)} == {
        0,
        1,
    }


def test_addresses_as_everybody_writes_them() -> None:
    for text in ("3b:00.0", "0000:3B:00.0", "00000000:3b:00.0", "0000:3b:0", "3b:00"):
        assert pci_address(text) == "0000:3b:00.0"
    assert pci_address("no address") == "no address"


def test_what_a_driver_cannot_say_is_left_out() -> None:
    lacking = {
        "nvmlDeviceGetNumaNodeId",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetP2PStatus",
        "nvmlDeviceGetNvLinkVersion",
    }
    nvml = relabelled(DGX1, range(8))
    nvml.lacking = frozenset(lacking | {"nvmlDeviceGetTopologyCommonAncestor"})
    found = read_inventory(nvml)
    assert found.gpus[0].numa is None
    assert found.levels[0, 1] == "SYS"
    assert found.p2p[0, 1] == ()
    assert len(found.gpus[0].links) == 6


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = "all_gather on dgx1 { goal latency }\nbroadcast on dgx1 among g[0..3] { goal latency }"
    return compile_text(text, "dgx1").save(tmp_path_factory.mktemp("mapped") / "dgx1")


def test_an_artefact_says_where_its_ranks_run(artefact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = [5, 3, 7, 1, 0, 2, 4, 6]
    nvml = relabelled(DGX1, order)
    monkeypatch.setattr(placement, "import_pynvml", lambda: nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,6,5,4,3,2,1,0")
    loaded = rt.load(artefact)
    found = loaded.rank_map()
    machine = machine_of(visible(read_inventory(nvml).gpus))
    for (a, b), n in DGX1.items():
        assert lanes(machine, found.devices[a], found.devices[b]) == n
    (tmp_path / "machine.json").write_bytes(machine_bytes(machine))
    assert loaded.rank_map(tmp_path / "machine.json") == found
    with loaded.local("numpy", machine=tmp_path / "machine.json") as group:
        assert group.backend == "numpy"
    with pytest.raises(MachineMismatchError):
        loaded.local("numpy", machine=library("ring(8)"))


def test_the_cuda_backend_gets_devices_by_rank(
    artefact: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = [5, 3, 7, 1, 0, 2, 4, 6]
    nvml = relabelled(DGX1, order)
    given: dict[str, object] = {}

    class Group:
        def __init__(self, *_: object, **options: object) -> None:
            given.clear()
            given.update(options)

    monkeypatch.setattr(placement, "import_pynvml", lambda: nvml)
    monkeypatch.setattr(loader, "_device_addresses", lambda: addresses(8)[::-1])
    monkeypatch.setattr(loader, "LocalGroup", Group)
    loaded = rt.load(artefact)
    loaded.local("cuda")
    devices = given["rank_devices"]
    assert isinstance(devices, tuple)
    backwards = [7 - d for d in devices]  # ordinals run from the last address to the first
    machine = read(nvml)
    for (a, b), n in DGX1.items():
        assert lanes(machine, backwards[a], backwards[b]) == n
    assert "ranks: 0 on GPU" in capsys.readouterr().err
    loaded.local("cuda", devices=(0, 1, 2, 3, 4, 5, 6, 7))
    assert "rank_devices" not in given
    nvml.ends[5].pop()
    with pytest.warns(RuntimeWarning, match="ranks run on devices in order"):
        loaded.local("cuda")
    assert "rank_devices" not in given


def test_what_nvml_does_not_show_is_not_asked_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "topology box { dgx1 fast\n link pcie { 12 GB/s, kind pcie }\n switch plx\n fast.g <-> plx : pcie }\n"
        "topology slots { link pcie { 12 GB/s, kind pcie }\n switch plx\n gpu g[2]\n g <-> plx : pcie }\n"
    )
    nvml = relabelled(DGX1, [1, 0, 3, 2, 5, 4, 7, 6])
    monkeypatch.setattr(placement, "import_pynvml", lambda: nvml)
    box = rt.load(compile_text(text + "broadcast on box { goal latency }", "box").save(tmp_path / "box"))
    assert box.rank_map().how == "same"
    slots = rt.load(compile_text(text + "broadcast on slots { goal latency }", "slots").save(tmp_path / "slots"))
    assert placement.place_on_devices(slots.manifest, lambda: addresses(8)) is None
    with pytest.raises(MachineMismatchError, match="no links of kind pcie"):
        slots.rank_map()


def test_bad_machine_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    with pytest.raises(DamagedFileError):
        read_machine(path)
    good = machine_bytes(graph(2, {(0, 1): 1}))
    for bad in (b"{", good.replace(b'"dst": 1', b'"dst": 7'), good.replace(b'"gpu"', b'"cpu"'), good[: len(good) // 2]):
        path.write_bytes(bad)
        with pytest.raises(DamagedFileError):
            read_machine(path)
    path.write_bytes(good)
    assert read_machine(path) == graph(2, {(0, 1): 1})


def test_gpus_without_links_hold_nothing() -> None:
    alone = machine_of([Gpu(0, "0000:01:00.0", "GPU-1", "A10"), Gpu(1, "0000:02:00.0", "GPU-2", "A10")])
    with pytest.raises(MachineMismatchError, match="no links of kind nvlink"):
        find_map(graph(2, {(0, 1): 1}), alone)
    assert find_map(graph(2, {}), alone).devices == (0, 1)
