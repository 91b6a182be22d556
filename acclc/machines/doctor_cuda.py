"""The checks of NVIDIA GPUs: driver, cupy, its compiler, every edge with data both ways, and IPC."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from acclc.machines import sysfs
from acclc.machines.doctor import Check, State, Surroundings, iommu_checks
from acclc_runtime.devices import pci_address, read_inventory

NBYTES = 4096
SOURCE = r"""
extern "C" __global__ void put(unsigned char *to, unsigned long long n, unsigned int seed) {
    for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x) to[i] = (unsigned char)(i * 37u + seed);
}
extern "C" __global__ void get(const unsigned char *from, unsigned char *into, unsigned long long n) {
    for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x) into[i] = from[i];
}
"""


def cuda_checks(here: Surroundings, needed: bool) -> Iterator[Check]:
    """Check all of it; where the machine has no NVIDIA GPU, one line says so."""
    present = nvidia_gpus(here)
    nvml = _optional(here, "pynvml")
    if not present:
        help = "a container has to be given its GPUs; on the machine itself lspci shows them"
        yield Check(
            "cuda", "NVIDIA GPUs", State.BROKEN if needed else State.OK, "none in sysfs", help if needed else ""
        )
        return
    yield Check("cuda", "NVIDIA GPUs", State.OK, f"{len(present)} in sysfs")
    yield from _driver(here, nvml)
    cupy = _optional(here, "cupy")
    if cupy is None:
        yield Check("cuda", "cupy", State.BROKEN, "is not installed", "pip install acclc[cuda13] or acclc[cuda12]")
        yield from iommu_checks(here.root, present)
        return
    yield from _devices(here, cupy, present)


def nvidia_gpus(here: Surroundings) -> list[str]:
    """Return the PCI addresses of NVIDIA's GPUs."""
    found = []
    for place in sorted((here.root / "sys/bus/pci/devices").glob("*")):
        if sysfs.text(place / "vendor") == "0x10de" and sysfs.text(place / "class").startswith(("0x0302", "0x0300")):
            found.append(place.name)
    return found


def _optional(here: Surroundings, name: str) -> Any:
    try:
        return here.module(name)
    except Exception:  # half-installed packages fail in many ways
        return None


def _driver(here: Surroundings, nvml: Any) -> Iterator[Check]:
    if nvml is None:
        help = "pip install acclc[nvml]; without it ranks are not mapped onto GPUs by their links"
        yield Check("cuda", "NVML", State.WARNING, "nvidia-ml-py is not installed", help)
        return
    try:
        nvml.nvmlInit()
        inventory = read_inventory(nvml)
    except nvml.NVMLError as error:
        help = "install or restart NVIDIA's driver (nvidia-smi must work); in a container, pass the GPUs through"
        yield Check("cuda", "driver", State.BROKEN, str(error), help)
        return
    names = ", ".join(dict.fromkeys(g.name for g in inventory.gpus))
    yield Check("cuda", "driver", State.OK, f"{inventory.driver}; {len(inventory.gpus)} x {names}")
    for gpu in inventory.gpus:
        if gpu.multi_instance:
            yield Check(
                "cuda", f"GPU {gpu.index}", State.WARNING, "is cut into instances (MIG), which no link leads to"
            )
    for (i, j), refused in inventory.p2p.items():
        if refused:
            detail = f"the driver refuses {' and '.join(refused)} between peers"
            yield Check("cuda", f"P2P GPU {i} -> GPU {j}", State.WARNING, detail, "see `nvidia-smi topo -p2p r`")


def _devices(here: Surroundings, cupy: Any, present: Sequence[str]) -> Iterator[Check]:
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
        version = f"{cupy.__version__}, CUDA {runtime.runtimeGetVersion()}, driver {runtime.driverGetVersion()}"
    except runtime.CUDARuntimeError as error:
        help = "the driver is older than this cupy wants, or CUDA_VISIBLE_DEVICES hides all GPUs"
        yield Check("cuda", "cupy", State.BROKEN, str(error), help)
        return
    yield Check("cuda", "cupy", State.OK, f"{version}; {count} devices")
    if here.environment.get("CUDA_LAUNCH_BLOCKING") == "1":
        help = "unset it: kernels of several ranks wait for each other"
        yield Check("cuda", "CUDA_LAUNCH_BLOCKING", State.BROKEN, "makes each launch wait for its end", help)
    try:
        module = cupy.RawModule(code=SOURCE, options=("-std=c++17",))
        put, get = module.get_function("put"), module.get_function("get")
    except Exception as error:  # the compiler's exceptions are of several packages
        yield Check("cuda", "NVRTC", State.BROKEN, str(error).partition("\n")[0], "pip install acclc[nvrtc]")
        return
    yield Check("cuda", "NVRTC", State.OK, "compiles a kernel")
    addresses = [pci_address(runtime.deviceGetPCIBusId(n)) for n in range(count)]
    yield from iommu_checks(here.root, addresses or present)
    for a in range(count):
        for b in range(count):
            if a != b:
                yield _edge(cupy, put, get, a, b)
    if count:
        yield _ipc(here, cupy)


def _edge(cupy: Any, put: Any, get: Any, a: int, b: int) -> Check:
    """A kernel on a writes into memory of b, and reads from it: both must be what was meant."""
    runtime, what = cupy.cuda.runtime, f"P2P device {a} -> device {b}"
    if not runtime.deviceCanAccessPeer(a, b):
        help = "schedules over this edge cannot run with one device a rank; see `nvidia-smi topo -p2p w`"
        return Check("cuda", what, State.WARNING, "is not offered by the driver", help)
    try:
        with cupy.cuda.Device(a):
            try:
                runtime.deviceEnablePeerAccess(b)
            except runtime.CUDARuntimeError as error:
                if "AlreadyEnabled" not in str(error):
                    raise
        wrong = _wrong_bytes(cupy, put, get, a, b)
    except runtime.CUDARuntimeError as error:
        return Check("cuda", what, State.BROKEN, str(error), "restart the process; if it stays, look at dmesg for Xid")
    if wrong:
        help = "an IOMMU or ACS setting, as a rule: boot with iommu=pt, switch ACS off in the BIOS"
        detail = f"maps, but data arrives changed ({' and '.join(wrong)})"
        return Check("cuda", what, State.BROKEN, detail, help)
    return Check("cuda", what, State.OK, f"{NBYTES} bytes written and read by a kernel arrive")


def _wrong_bytes(cupy: Any, put: Any, get: Any, a: int, b: int) -> list[str]:
    wrong = []
    seed = 1 + 16 * a + b
    expected = bytes((i * 37 + seed) % 256 for i in range(NBYTES))
    with cupy.cuda.Device(b):
        there = cupy.zeros(NBYTES, cupy.uint8)
        cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Device(a):
        here = cupy.zeros(NBYTES, cupy.uint8)
        put((1,), (256,), (there.data.ptr, cupy.uint64(NBYTES), cupy.uint32(seed)))
        cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Device(b):
        if there.get().tobytes() != expected:
            wrong.append("writes")
        there.fill(85)
        cupy.cuda.runtime.deviceSynchronize()
    with cupy.cuda.Device(a):
        get((1,), (256,), (there.data.ptr, here.data.ptr, cupy.uint64(NBYTES)))
        cupy.cuda.runtime.deviceSynchronize()
        if here.get().tobytes() != bytes([85]) * NBYTES:
            wrong.append("reads")
    return wrong


_OPEN = """
import sys, cupy
from cupy.cuda import runtime
p = runtime.ipcOpenMemHandle(bytes.fromhex(sys.argv[1]))
m = cupy.cuda.UnownedMemory(p, 256, None, 0)
print("read", int(cupy.ndarray((256,), cupy.uint8, cupy.cuda.MemoryPointer(m, 0)).astype(cupy.uint32).sum()))
"""


def _ipc(here: Surroundings, cupy: Any) -> Check:
    """Another process opens memory of device 0 and reads it."""
    runtime = cupy.cuda.runtime
    with cupy.cuda.Device(0):
        pointer = runtime.malloc(256)
        try:
            runtime.memset(pointer, 3, 256)
            runtime.deviceSynchronize()
            handle = bytes(runtime.ipcGetMemHandle(pointer))
            code, said = here.run([sys.executable, "-c", _OPEN, handle.hex()])
        except runtime.CUDARuntimeError as error:
            code, said = 1, str(error)
        finally:
            runtime.free(pointer)
    if code == 0 and "read 768" in said:
        return Check("cuda", "IPC", State.OK, "another process reads memory of device 0")
    help = "in a container: --ipc=host, and the same GPUs in every container"
    return Check("cuda", "IPC", State.BROKEN, said.splitlines()[-1][:200] if said else "no answer", help)
