"""The one table of effective rates and latencies, with where each comes from. ``--set`` replaces any of them.

Effective rates are NCCL's (``src/graph/topo.h``), in GB/s for one link and one direction; what RCCL adds for AMD is in
its file of the same name. Nominal rates are the makers'. Latencies are TE-CCL's for NVLink (0.7 us a hop, 0.35 us each
way through a switch); the others are halves of what NCCL's tuning model takes for a hop (``src/graph/tuning.cc``, LL
ring: PCIe 1 us, network 2.7 us), since a hop crosses two links here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

GIGA = 10**9
MICRO = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of GPUs: links a GPU has at most, effective and nominal GB/s of one, and what a switch can do."""

    name: str
    links: int
    effective: Fraction
    nominal: Fraction
    pcie: int
    """The PCIe generation that came with it."""
    abilities: tuple[str, ...] = ()
    """Of an NVSwitch between GPUs of it: NVLink SHARP multicasts and reduces."""


def _rate(text: str) -> Fraction:
    return Fraction(text)


NVIDIA: dict[str, Generation] = {
    "p100": Generation("P100 (NVLink 1)", 4, _rate("18"), _rate("20"), 3),
    "v100": Generation("V100 (NVLink 2)", 6, _rate("20"), _rate("25"), 3),
    "a100": Generation("A100 (NVLink 3)", 12, _rate("20"), _rate("25"), 4),
    "ga10x": Generation("RTX 3090 or A6000 (NVLink 3 bridge)", 4, _rate("12"), _rate("14.0625"), 4),
    "h100": Generation("H100 (NVLink 4)", 18, _rate("20.6"), _rate("25"), 5, ("multicast", "reduce")),
    "b200": Generation("B200 (NVLink 5)", 18, _rate("40.1"), _rate("50"), 5, ("multicast", "reduce")),
}
"""By the word that ``--set gpu=`` takes."""

BY_SM: tuple[tuple[int, str], ...] = ((100, "b200"), (90, "h100"), (86, "ga10x"), (80, "a100"), (70, "v100"))
"""NCCL's thresholds of the compute capability, highest first; below them it is the P100's."""

GPU_NAMES: tuple[tuple[str, str], ...] = (
    ("P100", "p100"),
    ("V100", "v100"),
    ("A100", "a100"),
    ("A800", "a100"),
    ("H100", "h100"),
    ("H200", "h100"),
    ("H800", "h100"),
    ("GH200", "h100"),
    ("B200", "b200"),
    ("B300", "b200"),
    ("GB200", "b200"),
    ("GB300", "b200"),
    ("3090", "ga10x"),
    ("A6000", "ga10x"),
    ("A5000", "ga10x"),
)
"""Products as ``nvidia-smi -L`` names them, and their generation."""

MOST_LINKS = max(g.links for g in NVIDIA.values())
"""No GPU has more NVLinks than this."""

XGMI: dict[str, tuple[str, Fraction, Fraction | None]] = {
    "vega": ("MI50, MI60 or MI100 (RCCL's Vega figure)", _rate("24"), None),
    "mi200": ("MI200", _rate("36"), _rate("50")),
    "mi300": ("MI300", _rate("48"), _rate("64")),
}
"""Word -> (name, effective, nominal) of one xGMI link."""


def xgmi_of(gcn: str) -> str | None:
    """Return the word of an AMD architecture as in RCCL's ``gcn``: ``908``, ``gfx942``; None if it is not known."""
    digits = gcn.lower().removeprefix("gfx")
    if digits in ("906", "908"):
        return "vega"
    if digits in ("910", "90a"):
        return "mi200"
    return "mi300" if digits.startswith(("94", "95")) else None


def generation_of_sm(sm: int) -> str:
    """Return the generation of a compute capability (``80`` for 8.0)."""
    return next((name for least, name in BY_SM if sm >= least), "p100")


PCIE_GT: dict[int, Fraction] = {
    1: _rate("2.5"),
    2: _rate("5"),
    3: _rate("8"),
    4: _rate("16"),
    5: _rate("32"),
    6: _rate("64"),
}
"""GT/s a lane of each PCIe generation."""


def pcie_effective(gt: Fraction, width: int) -> Fraction:
    """NCCL's rule in GB/s: generation 3 x16 is 12, all else in proportion."""
    return gt * width * 12 / (8 * 16)


def pcie_nominal(gt: Fraction, width: int) -> Fraction:
    """GT/s times lanes over eight, in GB/s, before encoding."""
    return gt * width / 8


@dataclass(frozen=True, slots=True)
class Plain:
    """A class that does not depend on the GPU: effective GB/s, microseconds, what it is."""

    rate: Fraction
    latency: Fraction
    source: str


SMP: dict[str, Plain] = {
    "broadwell": Plain(_rate("6"), _rate("0.5"), "QPI of Broadwell and older, by NCCL's table"),
    "skylake": Plain(_rate("10"), _rate("0.5"), "UPI of Skylake and its followers, by NCCL's table"),
    "sapphire": Plain(_rate("22"), _rate("0.5"), "UPI of Sapphire Rapids, by NCCL's table"),
    "emerald": Plain(_rate("40"), _rate("0.5"), "UPI of Emerald Rapids, by NCCL's table"),
    "amd": Plain(_rate("16"), _rate("0.5"), "between sockets of AMD EPYC, by NCCL's table"),
    "power9": Plain(_rate("32"), _rate("0.5"), "between sockets of POWER9, by NCCL's table"),
    "arm": Plain(_rate("6"), _rate("0.5"), "between sockets of Arm CPUs, by NCCL's table"),
}
"""What joins the NUMA nodes of one machine."""

NET = Plain(_rate("12"), _rate("1.35"), "NCCL's figure for a card of 100 Gbit/s")
C2C_LATENCY = _rate("0.5")
NVLINK_LATENCY = _rate("0.7")
THROUGH_SWITCH_LATENCY = _rate("0.35")
XGMI_LATENCY = _rate("0.7")
PCIE_LATENCY = _rate("0.5")


def smp_of(arch: str, vendor: str, family: int | None, model: int | None) -> str:
    """Return the word of :data:`SMP` for a CPU as NCCL's XML describes it."""
    if arch in ("ppc64", "ppc64le"):
        return "power9"
    if arch in ("arm64", "aarch64"):
        return "arm"
    if vendor in ("AuthenticAMD", "HygonGenuine"):
        return "amd"
    if family == 6 and model is not None:
        if model >= 207:
            return "emerald"
        if model >= 143:
            return "sapphire"
        if model >= 85:
            return "skylake"
    return "broadwell"
