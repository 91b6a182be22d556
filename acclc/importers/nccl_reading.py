"""What NCCL's XML holds, as it is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from acclc.importers.model import Draft
from acclc.importers.settings import Settings
from acclc.importers.xml_reader import Element

GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes: display, 3D, other display, processing accelerator."""
NIC_CLASSES = ("0x0200", "0x0207", "0x0c06")
BRIDGE, NVSWITCH = "0x0604", "0x0680"
_MANY_DIGITS = 9


@dataclass(slots=True)
class Device:
    """A GPU or a network card and the chain of elements above it, the CPU first."""

    element: Element
    above: tuple[Element, ...]
    gpu: Element | None = None
    nets: tuple[Element, ...] = ()
    node: int = -1


@dataclass(slots=True)
class Reading:
    """An import under way."""

    draft: Draft
    settings: Settings
    amd: bool = False
    gpus: list[Device] = field(default_factory=list)
    cards: list[Device] = field(default_factory=list)
    host_of: dict[int, int] = field(default_factory=dict)
    """id of a <cpu> -> node."""
    switch_of: dict[int, int] = field(default_factory=dict)
    """id of a bridge's <pci> -> node."""
    nameless: list[Element] = field(default_factory=list)
    """<pci> of which nothing says what they are."""


def whole(text: str | None) -> int | None:
    """Return a whole number as the format writes it; None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= _MANY_DIGITS else None
