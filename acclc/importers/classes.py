"""Link classes from the table of rates and the settings: name, rate, latency, and where each came from."""

from __future__ import annotations

from fractions import Fraction

from acclc.importers import rates
from acclc.importers.model import Draft, LinkClass
from acclc.importers.rates import GIGA, MICRO
from acclc.importers.settings import Settings


def make(
    draft: Draft,
    settings: Settings,
    name: str,
    kind: str,
    rate: Fraction,
    latency: Fraction,
    origin: str,
    *,
    nominal: Fraction | None = None,
    setting: str | None = None,
) -> str:
    """Add a class (``rate`` and ``nominal`` in GB/s, ``latency`` in us); a setting replaces what it names."""
    key = setting or name
    given, late = settings.rate(key), settings.latency(key)
    said = [origin] if given is None else [f"rate by --set {key}"]
    if late is not None:
        said.append(f"latency by --set {key}")
    return draft.link_class(
        LinkClass(
            name,
            rate * GIGA if given is None else given,
            latency * MICRO if late is None else late,
            None if nominal is None or given is not None else nominal * GIGA,
            kind,
            "; ".join(said),
        )
    )


def nvlink(draft: Draft, settings: Settings, generation: str, *, switched: bool) -> str:
    """NVLink of a generation; through a switch a hop is two links, each half as late."""
    found = rates.NVIDIA[generation]
    latency = rates.THROUGH_SWITCH_LATENCY if switched else rates.NVLINK_LATENCY
    origin = f"one NVLink of {found.name}: NCCL's effective rate"
    return make(draft, settings, "nvlink", "nvlink", found.effective, latency, origin, nominal=found.nominal)


def xgmi(draft: Draft, settings: Settings, word: str) -> str:
    """XGMI of a generation."""
    name, effective, nominal = rates.XGMI[word]
    origin = f"one xGMI link of {name}: RCCL's effective rate"
    return make(draft, settings, "xgmi", "xgmi", effective, rates.XGMI_LATENCY, origin, nominal=nominal)


def pcie(draft: Draft, settings: Settings, gt: Fraction, width: int, origin: str, name: str = "") -> str:
    """PCIe of some lanes; ``gt`` in GT/s a lane."""
    if not name:
        number = next((str(g) for g, rate in rates.PCIE_GT.items() if rate == gt), None)
        name = f"pcie{number}_x{width}" if number else f"pcie_{_word(gt)}gt_x{width}"
    effective, nominal = rates.pcie_effective(gt, width), rates.pcie_nominal(gt, width)
    return make(draft, settings, name, "pcie", effective, rates.PCIE_LATENCY, origin, nominal=nominal, setting="pcie")


def smp(draft: Draft, settings: Settings, word: str) -> str:
    """What joins the NUMA nodes."""
    found = rates.SMP[settings.word("cpu") or word]
    return make(draft, settings, "smp", "host", found.rate, found.latency, found.source)


def net(draft: Draft, settings: Settings, rate: Fraction | None = None, origin: str = "", name: str = "net") -> str:
    """A network card's port; ``rate`` in GB/s."""
    found = rates.NET.rate if rate is None else rate
    return make(draft, settings, name, "net", found, rates.NET.latency, origin or rates.NET.source, setting="net")


def _word(number: Fraction) -> str:
    return f"{float(number):g}".replace(".", "_").replace("+", "").replace("-", "_")
