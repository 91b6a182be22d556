"""The PCIe tree of NCCL's XML."""

from __future__ import annotations

import re
from fractions import Fraction

from acclc.importers import classes, rates
from acclc.importers.nccl_reading import Device, Reading, whole
from acclc.importers.rates import PCIE_GT
from acclc.importers.xml_reader import Element
from acclc.ir.problem import NodeKind


def add_tree(reading: Reading) -> int:
    """Add bridges, devices and their links; return how many bridges with one device below were left out."""
    below: dict[int, int] = {}
    devices = [*reading.gpus, *reading.cards]
    chains = [[e for e in d.above if e.tag == "pci"] for d in devices]
    for chain in chains:
        for bridge in chain:
            below[id(bridge)] = below.get(id(bridge), 0) + 1
    dropped: set[int] = set()
    for device, chain in zip(devices, chains, strict=True):
        kept: list[Element] = []
        for bridge in chain:
            if below[id(bridge)] > 1 and not (kept and below[id(kept[-1])] == below[id(bridge)]):
                kept.append(bridge)
            else:
                dropped.add(id(bridge))
        top = reading.host_of[id(device.above[0])]
        for bridge in kept:
            top = _bridge(reading, bridge, top)
        _attach(reading, device, top, chain)
    return len(dropped)


def _bridge(reading: Reading, bridge: Element, above: int) -> int:
    if id(bridge) not in reading.switch_of:
        draft = reading.draft
        node = draft.node(NodeKind.SWITCH, "plx", bridge.attributes.get("busid", ""))
        reading.switch_of[id(bridge)] = node
        draft.link(
            node,
            above,
            1,
            _pcie(reading, (bridge,)),
            f"line {draft.source.position(bridge.start)[0]}: the shared uplink",
        )
    return reading.switch_of[id(bridge)]


def _attach(reading: Reading, device: Device, above: int, chain: list[Element]) -> None:
    draft = reading.draft
    line = draft.source.position(device.element.start)[0]
    alone = tuple(e for e in chain if id(e) not in reading.switch_of)
    if device.node >= 0:
        draft.link(device.node, above, 1, _pcie(reading, (*alone, device.element)), f"line {line}")
        return
    names = ", ".join(n.attributes.get("name", "?") for n in device.nets) or device.element.attributes.get("busid", "")
    device.node = draft.node(NodeKind.NIC, "card", names)
    draft.link(device.node, above, 1, _card(reading, device, alone), f"line {line}: {names}")


def _lane(reading: Reading, element: Element) -> tuple[Fraction, int] | None:
    """(GT/s, lanes) of an element's link to what is above it; None where it does not say."""
    speed, width = element.attributes.get("link_speed", ""), element.attributes.get("link_width", "")
    found = re.match(r"\s*(\d{1,3}(?:\.\d{1,3})?)\s*GT/s", speed)
    lanes = whole(width)
    if element.tag != "pci" or (not speed and not width):
        return None
    if found is None or not lanes or lanes > 64 or Fraction(found.group(1)) == 0:
        bad = "link_speed" if found is None or Fraction(found.group(1)) == 0 else "link_width"
        if element.attributes.get(bad, "") not in ("", "Unknown", "unknown", "0", "255"):
            reading.draft.error("import-value", f"`{element.attributes[bad]}` is no {bad}", element.place(bad))
        return None
    return Fraction(found.group(1)), lanes


def _slowest(reading: Reading, chain: tuple[Element, ...]) -> tuple[Fraction, int]:
    known = [lane for e in chain if (lane := _lane(reading, e)) is not None]
    if not known:
        reading.draft.assume("PCIe 3 with 16 lanes where link_speed and link_width are not said, as NCCL takes it")
        return PCIE_GT[3], 16
    return min(known, key=lambda lane: lane[0] * lane[1])


def _pcie(reading: Reading, chain: tuple[Element, ...]) -> str:
    gt, width = _slowest(reading, chain)
    return classes.pcie(
        reading.draft,
        reading.settings,
        gt,
        width,
        f"link_speed {float(gt):g} GT/s, {width} lanes; NCCL's effective rate",
    )


def _card(reading: Reading, device: Device, alone: tuple[Element, ...]) -> str:
    """The class of a network card: as fast as the slower of its ports together and its PCIe link."""
    total = Fraction(0)
    for net in device.nets:
        speed = whole(net.attributes.get("speed"))
        if speed is None or speed == 0:
            text = net.attributes.get("speed")
            if text is None:
                reading.draft.assume(f"100 Gbit/s for {net.attributes.get('name', 'a card')}, which has no speed")
            else:
                reading.draft.error("import-value", f"`{text}` is no speed in Mbit/s", net.place("speed"))
            speed = 100_000
        total += Fraction(speed, 8000)
    if not device.nets:
        reading.draft.assume("100 Gbit/s for network cards without `<net>`; `--set net=25` says otherwise (GB/s)")
        return classes.net(reading.draft, reading.settings)
    gt, width = _slowest(reading, (*alone, device.element)) if device.element.tag == "pci" else (PCIE_GT[5], 16)
    bus = rates.pcie_effective(gt, width)
    rate = min(total, bus)
    why = "the speed of its ports" if total <= bus else f"its PCIe link of {float(gt):g} GT/s, {width} lanes"
    number = f"{float(rate):g}".replace(".", "_").replace("+", "").replace("-", "_")
    return classes.net(reading.draft, reading.settings, rate, f"a network card, limited by {why}", f"net{number}")
