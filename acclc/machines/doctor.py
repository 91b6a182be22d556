"""``acclc doctor``: does what acclc needs work here? Each check runs the thing, and says what to do where it fails."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from acclc.machines import sysfs
from acclc_runtime.errors import AcclcRuntimeError

LIMIT_S = 60
SHARED_BYTES = 64 << 20
"""Shared memory that a rank should be able to get."""
NEEDED = ("lark", "networkx", "ortools", "jinja2", "numpy", "msgspec", "click", "rich")


class State(StrEnum):
    """How a thing is."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One line. ``part``: for what it is needed; ``help``: what to do, where it is not ok."""

    part: str
    what: str
    state: State
    detail: str = ""
    help: str = ""

    def to_dict(self) -> dict[str, str]:
        """The entry of ``--json``."""
        return {
            "part": self.part,
            "what": self.what,
            "state": self.state.value,
            "detail": self.detail,
            "help": self.help,
        }


Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command; returns its exit code (127: it cannot be started, 124: it took too long) and what it printed."""


def run_command(command: Sequence[str]) -> tuple[int, str]:
    """Run a command for at most a minute."""
    try:
        done = subprocess.run(list(command), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except OSError as error:
        return 127, error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {LIMIT_S} s"
    return done.returncode, (done.stdout + done.stderr).strip()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What checks look at; tests give doubles."""

    root: Path = Path("/")
    run: Run = run_command
    module: Callable[[str], Any] = importlib.import_module
    which: Callable[[str], str | None] = shutil.which
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))


def examine(here: Surroundings, need: Collection[str] = ()) -> list[Check]:
    """Return every check, in order; what is broken but belongs to no needed part is a warning.

    ``need``: ``mpi``, ``cuda``; compiling and the CPU backend are needed always.
    """
    from acclc.machines.doctor_cuda import cuda_checks

    checks = [*_python(here), *_compiler(here), *_memory(here), *mpi_checks(here), *cuda_checks(here, "cuda" in need)]
    needed = {"compile", "cpu", *need}
    return [replace(c, state=State.WARNING) if c.state is State.BROKEN and c.part not in needed else c for c in checks]


def _python(here: Surroundings) -> Iterator[Check]:
    from acclc import __version__

    yield Check("compile", "acclc", State.OK, f"{__version__} on Python {platform.python_version()}, {sys.platform}")
    for name in NEEDED:
        try:
            here.module(name)
            version = importlib.metadata.version(name)
        except Exception as error:  # a package can fail in any way while it is imported
            help = f"install it again: pip install --force-reinstall {name}"
            yield Check("compile", name, State.BROKEN, str(error).partition("\n")[0], help)
        else:
            yield Check("compile", name, State.OK, version)


def _compiler(here: Surroundings) -> Iterator[Check]:
    """Build and load a library, as the CPU backend does."""
    import ctypes

    from acclc_runtime.backends.build import build_library, find_compiler

    help = "apt-get install g++, or set CXX; without it the NumPy backend runs programs, much slower"
    try:
        compiler = find_compiler()
        text = b'extern "C" int accl_doctor(int x) { return 2 * x; }\n'
        library = build_library(Path("doctor.cpp"), text, ("-O1", "-shared", "-fPIC"), fresh=True)
        answer = ctypes.CDLL(str(library)).accl_doctor(21)
    except (AcclcRuntimeError, OSError) as error:
        yield Check("cpu", "C++ compiler", State.WARNING, str(error).partition("\n")[0], help)
        return
    if answer != 42:
        yield Check("cpu", "C++ compiler", State.BROKEN, f"a library that it built answers {answer}, not 42", help)
    else:
        yield Check("cpu", "C++ compiler", State.OK, compiler.version)


def _memory(here: Surroundings) -> Iterator[Check]:
    """Shared memory as ``join`` makes it, two cores, and notice of a process that ends."""
    try:
        file = os.memfd_create("acclc-doctor", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(file, 0, SHARED_BYTES)
        finally:
            os.close(file)
    except OSError as error:
        help = "raise the memory limit of the container or of the control group"
        yield Check("cpu", "shared memory", State.BROKEN, error.strerror or str(error), help)
    else:
        yield Check("cpu", "shared memory", State.OK, f"{SHARED_BYTES >> 20} MiB at once (memfd)")
    cores = len(os.sched_getaffinity(0))
    few = "ranks beyond the cores take turns, which is right but slow" if cores < 2 else ""
    yield Check("cpu", "cores", State.WARNING if cores < 2 else State.OK, f"{cores} that this process may use", few)
    try:
        os.close(os.pidfd_open(os.getpid()))
        yield Check("cpu", "notice of ended ranks", State.OK, "pidfd")
    except (AttributeError, OSError) as error:
        help = "a rank that dies is noticed by the timeout alone; Linux 5.3 or newer knows better"
        yield Check("cpu", "notice of ended ranks", State.WARNING, str(error), help)


_HELLO = """
from mpi4py import MPI
c = MPI.COMM_WORLD
print("sum", c.allreduce(c.Get_rank() + 1), MPI.Get_library_version())
"""


def mpi_checks(here: Surroundings) -> Iterator[Check]:
    """Start two ranks that must find each other."""
    help = "pip install acclc[mpi], if ranks should meet by MPI"
    code, said = here.run([sys.executable, "-c", "import mpi4py; print(mpi4py.__version__)"])
    if code != 0:
        yield Check("mpi", "mpi4py", State.BROKEN, "is not installed" if "No module" in said else _last(said), help)
        return
    yield Check("mpi", "mpi4py", State.OK, said)
    start = here.which("mpiexec")
    if start is None:
        yield Check("mpi", "mpiexec", State.BROKEN, "is not on PATH", f"{help}; it brings mpiexec beside python")
        return
    code, said = here.run([start, "-n", "2", sys.executable, "-c", _HELLO])
    sums = re.findall(r"sum (\d+)", said)
    if code == 0 and sums == ["3", "3"]:
        version = said.partition("sum 3 ")[2].splitlines()[0].strip()
        yield Check("mpi", "two ranks of MPI", State.OK, f"{start}: {version}")
    elif code == 0 and sums:
        detail = f"each of the two processes is a world of its own: {start} belongs to another MPI than mpi4py"
        yield Check(
            "mpi", "two ranks of MPI", State.BROKEN, detail, "use the mpiexec of the MPI that mpi4py is built for"
        )
    else:
        yield Check(
            "mpi", "two ranks of MPI", State.BROKEN, _last(said), f"run {start} -n 2 hostname, and mend that first"
        )


def _last(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it ends without a word"


# -- what can change bytes between PCIe devices ----------------------------------------------------------------------


def iommu_checks(root: Path, addresses: Sequence[str]) -> Iterator[Check]:
    """Hints: an IOMMU that translates, and bridges that send peers' packets up to the CPU (ACS)."""
    translated = [
        a for a in addresses if sysfs.text(root / f"sys/bus/pci/devices/{a}/iommu_group/type").startswith("DMA")
    ]
    if translated:
        yield Check(
            "cuda",
            "IOMMU",
            State.WARNING,
            f"translates for {', '.join(translated[:4])}: copies between GPUs may arrive changed, or be slow",
            "boot with iommu=pt, or switch the IOMMU off; the checks of each edge below say whether data arrives",
        )
    elif addresses:
        yield Check("cuda", "IOMMU", State.OK, "does not translate for GPUs")
    bridges: dict[str, bool | None] = {}
    for address in addresses:
        device = sysfs.pci_device(root, address)
        for bridge in device.above if device is not None else ():
            bridges[bridge] = redirects(_config(root, bridge))
    on = [b for b, state in bridges.items() if state]
    hidden = [b for b, state in bridges.items() if state is None]
    if on:
        help = "switch ACS off in the BIOS, or at each boot, as root: setpci -s ADDRESS ECAP_ACS+6.w=0000"
        detail = f"redirects peers' packets to the CPU at {', '.join(on[:4])}: peer access is slow, or fails"
        yield Check("cuda", "ACS", State.WARNING, detail, help)
    elif hidden:
        detail = f"only root may read whether {len(hidden)} bridges redirect"
        yield Check("cuda", "ACS", State.WARNING, detail, "run acclc doctor as root once")
    elif bridges:
        yield Check("cuda", "ACS", State.OK, f"no redirection at {len(bridges)} bridges")


def _config(root: Path, address: str) -> bytes:
    try:
        return (root / f"sys/bus/pci/devices/{address}/config").read_bytes()
    except OSError:
        return b""


ACS_CAPABILITY = 0x000D
REQUEST_REDIRECT, COMPLETION_REDIRECT = 1 << 2, 1 << 3


def redirects(config: bytes) -> bool | None:
    """Return whether ACS control of a bridge redirects peers' packets; None where its configuration is not shown.

    Source: PCI Express Base Specification, extended capabilities from 0x100 on: 16 bits id, 4 version, 12 next; ACS
    has its control register at offset 6.
    """
    if len(config) <= 0x100:
        return None
    place, seen = 0x100, 0
    while 0x100 <= place <= len(config) - 8 and seen < 48:
        seen += 1
        header = int.from_bytes(config[place : place + 4], "little")
        if header & 0xFFFF == ACS_CAPABILITY:
            control = int.from_bytes(config[place + 6 : place + 8], "little")
            return bool(control & (REQUEST_REDIRECT | COMPLETION_REDIRECT))
        place = header >> 20
    return False
