"""The doctor: each thing that can be broken is found by using it, and every line says what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from machine_tools import NVMLError, Write, relabelled

from acclc.machines.doctor import Check, State, Surroundings, examine, iommu_checks, mpi_checks, redirects, run_command
from acclc.machines.doctor_cuda import cuda_checks

GPUS = ["0000:06:00.0", "0000:0a:00.0"]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return Write(tmp_path)


class CudaError(Exception):
    pass


class Cupy:
    """A double of cupy with memory: ``spoiled`` edges change what kernels write, ``blind`` ones are not offered."""

    __version__ = "13.6.0"
    uint8, uint32, uint64 = np.uint8, np.uint32, np.uint64

    def __init__(self, count: int = 2) -> None:
        self.count, self.device = count, 0
        self.memory: dict[int, tuple[int, Any]] = {}
        self.spoiled: set[tuple[int, int]] = set()
        self.blind: set[tuple[int, int]] = set()
        self.enabled: set[tuple[int, int]] = set()
        self.compiles = True
        self.cuda = SimpleNamespace(Device=self._at, runtime=self._runtime())

    def _at(self, device: int) -> Any:
        outer = self

        class At:
            def __enter__(self) -> None:
                self.before, outer.device = outer.device, device

            def __exit__(self, *_: object) -> None:
                outer.device = self.before

        return At()

    def _runtime(self) -> Any:
        def enable(peer: int) -> None:
            if (self.device, peer) in self.enabled:
                raise CudaError("cudaErrorPeerAccessAlreadyEnabled")
            self.enabled.add((self.device, peer))

        def malloc(nbytes: int) -> int:
            self.memory[7] = (self.device, np.zeros(nbytes, np.uint8))
            return 7

        return SimpleNamespace(
            CUDARuntimeError=CudaError,
            getDeviceCount=lambda: self.count,
            runtimeGetVersion=lambda: 13000,
            driverGetVersion=lambda: 13000,
            deviceGetPCIBusId=lambda n: GPUS[n],
            deviceCanAccessPeer=lambda a, b: (a, b) not in self.blind,
            deviceEnablePeerAccess=enable,
            deviceSynchronize=lambda: None,
            malloc=malloc,
            free=self.memory.pop,
            memset=lambda p, value, n: self.memory[p][1].__setitem__(slice(0, n), value),
            ipcGetMemHandle=lambda _: b"\x05" * 64,
        )

    def zeros(self, nbytes: int, _: object) -> Any:
        data, pointer = np.zeros(nbytes, np.uint8), 100 + len(self.memory)
        self.memory[pointer] = (self.device, data)
        return SimpleNamespace(data=SimpleNamespace(ptr=pointer), get=data.copy, fill=data.fill)

    def RawModule(self, code: str, options: Sequence[str]) -> Any:  # noqa: N802
        if not self.compiles:
            raise RuntimeError("libnvrtc.so.13: cannot open shared object file")
        return SimpleNamespace(get_function=lambda name: getattr(self, f"_{name}"))

    def _put(self, _: object, __: object, arguments: tuple[Any, ...]) -> None:
        owner, data = self.memory[arguments[0]]
        assert (self.device, owner) in self.enabled
        data[:] = (np.arange(len(data)) * 37 + int(arguments[2])) % 256
        if (self.device, owner) in self.spoiled:
            data[-1] ^= 1

    def _get(self, _: object, __: object, arguments: tuple[Any, ...]) -> None:
        owner, data = self.memory[arguments[0]]
        self.memory[arguments[1]][1][:] = data
        if (self.device, owner) in self.spoiled:
            self.memory[arguments[1]][1][0] = 0


def machine(root: Path, write: Write) -> None:
    for address in GPUS:
        place = f"sys/devices/pci0000:00/0000:00:01.0/{address}"
        write(f"{place}/vendor", "0x10de")
        write(f"{place}/class", "0x030200")
        write(f"{place}/iommu_group/type", "identity")
        link = root / "sys/bus/pci/devices" / address
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(root / place)
    (root / "sys/bus/pci/devices/0000:00:01.0").symlink_to(root / "sys/devices/pci0000:00/0000:00:01.0")


def config(control: int) -> bytes:
    """A configuration space with two extended capabilities: AER, then ACS with its control register."""
    data = bytearray(4096)
    data[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    data[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
    data[0x146:0x148] = control.to_bytes(2, "little")
    return bytes(data)


def surroundings(root: Path, cupy: Any, nvml: Any = None, **changes: Any) -> Surroundings:
    found = {"cupy": cupy, "pynvml": nvml}

    def module(name: str) -> Any:
        if found.get(name) is None:
            raise ImportError(name)
        return found[name]

    options = {"run": lambda _: (0, "read 768"), "environment": {}, **changes}
    return Surroundings(root=root, module=module, **options)


def states(checks: Sequence[Check]) -> dict[str, State]:
    return {c.what: c.state for c in checks}


def nvml() -> Any:
    double = relabelled({(0, 1): 4}, range(2))
    double.nvmlInit = lambda: None  # type: ignore[attr-defined]
    return double


def test_a_sound_machine_is_ok_line_by_line(tmp_path: Path, write: Write) -> None:
    machine(tmp_path, write)
    (tmp_path / "sys/devices/pci0000:00/0000:00:01.0/config").write_bytes(config(0))
    checks = list(cuda_checks(surroundings(tmp_path, Cupy(), nvml()), True))
    assert set(states(checks).values()) == {State.OK}, checks
    assert [c.what for c in checks] == [
        "NVIDIA GPUs", "driver", "cupy", "NVRTC", "IOMMU", "ACS",
        "P2P device 0 -> device 1", "P2P device 1 -> device 0", "IPC",
    ]  # fmt: skip


def test_data_that_arrives_changed_breaks_its_edge_alone(tmp_path: Path, write: Write) -> None:
    machine(tmp_path, write)
    cupy = Cupy()
    cupy.spoiled = {(1, 0)}
    found = {c.what: c for c in cuda_checks(surroundings(tmp_path, cupy, nvml()), True)}
    bad = found["P2P device 1 -> device 0"]
    assert bad.state is State.BROKEN
    assert bad.detail == "maps, but data arrives changed (writes and reads)"
    assert "iommu=pt" in bad.help
    assert found["P2P device 0 -> device 1"].state is State.OK


def test_everything_that_can_fail_says_what_to_do(tmp_path: Path, write: Write) -> None:
    machine(tmp_path, write)
    cupy, driver = Cupy(), nvml()
    cupy.blind = {(0, 1)}
    driver.refused = {(0, 1, 1): 3}
    failing = surroundings(
        tmp_path, cupy, driver, run=lambda _: (1, "cudaErrorInvalidDevice"), environment={"CUDA_LAUNCH_BLOCKING": "1"}
    )
    checks = list(cuda_checks(failing, True))
    found = states(checks)
    assert found["P2P device 0 -> device 1"] is State.WARNING
    assert found["P2P GPU 0 -> GPU 1"] is State.WARNING
    assert found["CUDA_LAUNCH_BLOCKING"] is State.BROKEN
    assert found["IPC"] is State.BROKEN
    assert all(c.help for c in checks if c.state is not State.OK)
    cupy.compiles = False
    assert states(list(cuda_checks(failing, True)))["NVRTC"] is State.BROKEN

    def refuse() -> None:
        raise NVMLError("Driver Not Loaded")

    driver.nvmlInit = refuse
    assert states(list(cuda_checks(failing, True)))["driver"] is State.BROKEN
    without = list(cuda_checks(surroundings(tmp_path, None), True))
    assert (states(without)["cupy"], states(without)["NVML"]) == (State.BROKEN, State.WARNING)


def test_no_gpu_is_broken_only_where_one_is_needed(tmp_path: Path) -> None:
    here = surroundings(tmp_path, None)
    assert [c.state for c in cuda_checks(here, False)] == [State.OK]
    assert [c.state for c in cuda_checks(here, True)] == [State.BROKEN]


def test_hints_on_what_changes_bytes_between_devices(tmp_path: Path, write: Write) -> None:
    machine(tmp_path, write)
    bridge = tmp_path / "sys/devices/pci0000:00/0000:00:01.0/config"
    assert states(list(iommu_checks(tmp_path, GPUS)))["ACS"] is State.WARNING  # not shown
    for control, state in ((0x0, State.OK), (0x1D, State.WARNING), (0x1, State.OK)):
        bridge.write_bytes(config(control))
        assert states(list(iommu_checks(tmp_path, GPUS)))["ACS"] is state
    write("sys/devices/pci0000:00/0000:00:01.0/0000:06:00.0/iommu_group/type", "DMA-FQ")
    assert states(list(iommu_checks(tmp_path, GPUS)))["IOMMU"] is State.WARNING
    assert list(iommu_checks(tmp_path, [])) == []


def test_a_damaged_configuration_does_not_hang() -> None:
    assert redirects(b"") is None
    assert redirects(bytes(256)) is None
    loop = bytearray(4096)
    loop[0x100:0x104] = (0x0001 | 0x100 << 20).to_bytes(4, "little")
    assert redirects(bytes(loop)) is False
    assert redirects(config(0x8)) is True


def test_mpi_is_tried_by_two_ranks(tmp_path: Path) -> None:
    def answers(second: tuple[int, str]) -> Any:
        return lambda command: (0, "4.1.0") if command[0] == sys.executable else second

    for second, which, state in (
        ((0, "sum 3 MPICH Version: 5.0\nsum 3 MPICH Version: 5.0"), "/bin/mpiexec", State.OK),
        ((0, "sum 1 Open MPI\nsum 1 Open MPI"), "/bin/mpiexec", State.BROKEN),
        ((124, "no answer within 60 s"), "/bin/mpiexec", State.BROKEN),
        ((0, ""), None, State.BROKEN),
    ):
        here = Surroundings(root=tmp_path, run=answers(second), which=lambda _, w=which: w)
        line = list(mpi_checks(here))[-1]
        assert line.what in ("two ranks of MPI", "mpiexec")
        assert (line.state, bool(line.help)) == (state, state is not State.OK)


def test_what_is_not_needed_is_a_warning(tmp_path: Path) -> None:
    here = Surroundings(root=tmp_path, run=lambda _: (1, "No module named 'mpi4py'"))
    assert states(examine(here))["mpi4py"] is State.WARNING
    assert states(examine(here, ["mpi"]))["mpi4py"] is State.BROKEN


def test_a_package_that_does_not_import_is_broken(tmp_path: Path) -> None:
    def module(name: str) -> Any:
        if name == "ortools":
            raise OSError("libscip.so: cannot open shared object file")
        return SimpleNamespace()

    checks = examine(Surroundings(root=tmp_path, run=lambda _: (1, "No module named mpi4py"), module=module))
    broken = [c for c in checks if c.state is State.BROKEN]
    assert [(c.what, c.detail) for c in broken] == [("ortools", "libscip.so: cannot open shared object file")]


def test_commands_that_do_not_start_or_end() -> None:
    assert run_command(["/no/such/thing"])[0] == 127
    assert run_command([sys.executable, "-c", "print(3)"]) == (0, "3")


def test_without_a_compiler_there_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    checks = examine(Surroundings(root=tmp_path, run=lambda _: (1, "")))
    assert states(checks)["C++ compiler"] is State.WARNING
