"""NVLink and xGMI of NCCL's XML: links between GPUs, and to switches that the file may not show."""

from __future__ import annotations

import re

from acclc.diagnostics import Label
from acclc.importers import classes, rates
from acclc.importers.model import Draft
from acclc.importers.nccl_reading import GPU_CLASSES, NVSWITCH, Device, Reading, whole
from acclc.importers.rates import NVIDIA
from acclc.importers.xml_reader import Element
from acclc.ir.problem import NodeKind


def _short(busid: str) -> str:
    """A bus id as NCCL compares it: without the function, in lower case."""
    return busid.lower().rsplit(".", 1)[0] if re.search(r"\.\w$", busid) and busid.count(":") > 1 else busid.lower()


def add_fast(reading: Reading) -> None:
    """Add the links of all GPUs."""
    draft = reading.draft
    by_bus = _by_bus(reading)
    said: dict[tuple[int, int], tuple[int, Element]] = {}
    ports: dict[int, tuple[int, Element]] = {}
    lost: list[Element] = []
    for device in reading.gpus:
        for link in device.gpu.children if device.gpu is not None else ():
            if link.tag not in ("nvlink", "xgmi"):
                continue
            count = _count(draft, link)
            target = link.attributes.get("target", "")
            other = by_bus.get((_host(device), _short(target)))
            if other is device:
                draft.error("import-contradiction", "a link from a GPU to itself", link.place("target"))
            elif other is not None:
                before = said.get((device.node, other.node), (0, link))[0]
                said[device.node, other.node] = (before + count, link)
            elif _is_switch(link):
                ports[device.node] = (ports.get(device.node, (0, link))[0] + count, link)
            else:
                lost.append(link)
    _warn_lost(draft, lost)
    _both_ends(reading, said)
    draft.check()
    if said or ports:
        _add_fast_links(reading, said, ports)


def _host(device: Device) -> str:
    """The host that a device is in: bus ids are unique within one."""
    return device.above[0].attributes.get("host_hash", "")


def _by_bus(reading: Reading) -> dict[tuple[str, str], Device]:
    """Return (host, bus id) -> GPU."""
    found: dict[tuple[str, str], Device] = {}
    for device in reading.gpus:
        if "busid" not in device.element.attributes:
            continue
        key = (_host(device), _short(device.element.attributes["busid"]))
        before = found.setdefault(key, device)
        if before.element is not device.element:
            reading.draft.error(
                "import-contradiction",
                f"two GPUs at {key[1]}",
                device.element.place("busid"),
                before.element.place("busid"),
            )
    return found


def _warn_lost(draft: Draft, lost: list[Element]) -> None:
    if not lost:
        return
    targets = sorted({link.attributes.get("target", "") for link in lost})
    shown = ", ".join(targets[:4]) + (", ..." if targets[4:] else "")
    gpus = "a GPU that is" if len(targets) == 1 else "GPUs that are"
    draft.warn(
        "import-ignored",
        f"links to {shown}, {gpus} not in the file, were left out",
        *(link.place("target") for link in lost[:3]),
    )


def _count(draft: Draft, link: Element) -> int:
    text = link.attributes.get("count", "1")
    count = whole(text)
    if not count or count > 1000:
        draft.error("import-value", f"`{text}` is no number of links", link.place("count"))
        return 0
    return count


def _is_switch(link: Element) -> bool:
    """Whether a target that is no GPU of the file is an NVSwitch: by its class, or by an id that stands for none."""
    kind = link.attributes.get("tclass", "")
    target = link.attributes.get("target", "")
    if kind.startswith(NVSWITCH) or target in ("-1", "") or ("f" in target and set(target.lower()) <= set("f:.0")):
        return True
    return not kind.startswith(GPU_CLASSES)


def _both_ends(reading: Reading, said: dict[tuple[int, int], tuple[int, Element]]) -> None:
    """A link has two ends: where they differ, the smaller number is believed."""
    for (a, b), (count, element) in list(said.items()):
        back = said.get((b, a))
        if back is None:
            reading.draft.warn(
                "import-contradiction",
                f"GPU{a} has {count} links to GPU{b}, but GPU{b} has none to GPU{a}; they were left out",
                element.place("target"),
            )
            del said[a, b]
        elif back[0] != count and a < b:
            least = min(count, back[0])
            reading.draft.warn(
                "import-contradiction",
                f"GPU{a} has {count} links to GPU{b}, but GPU{b} has {back[0]} to GPU{a}; {least} were taken",
                element.place("count"),
                Label(back[1].place("count"), "the other end"),
            )
            said[a, b], said[b, a] = (least, element), (least, back[1])


def _add_fast_links(
    reading: Reading, said: dict[tuple[int, int], tuple[int, Element]], ports: dict[int, tuple[int, Element]]
) -> None:
    draft, settings = reading.draft, reading.settings
    if reading.amd:
        cls = classes.xgmi(draft, settings, _gcn(reading))
    else:
        generation = _sm(reading)
        _check_budget(reading, said, ports, generation)
        cls = classes.nvlink(draft, settings, generation, switched=bool(ports))
    for (a, b), (count, element) in sorted(said.items(), key=lambda item: item[0]):
        if a < b:
            line = draft.source.position(element.start)[0]
            draft.link(a, b, count, cls, f"line {line}")
    if not ports:
        return
    abilities = () if reading.amd else NVIDIA[_sm(reading)].abilities
    switch = draft.node(NodeKind.SWITCH, "nvswitch", "NVSwitch", abilities)
    draft.conclude("NVLinks whose target is no GPU lead to one NVSwitch, which the file does not show")
    for node, (count, _) in sorted(ports.items()):
        draft.link(node, switch, count, cls, f"{count} links to an NVSwitch")
    _warn_odd_ports(reading, ports)


def _warn_odd_ports(reading: Reading, ports: dict[int, tuple[int, Element]]) -> None:
    counts = [c for c, _ in ports.values()]
    usual = max(set(counts), key=lambda c: (counts.count(c), c))
    for node, (count, element) in sorted(ports.items()):
        if count != usual:
            reading.draft.warn(
                "import-contradiction",
                f"GPU{node} has {count} links to the switch, most others {usual}: is its record whole?",
                element.place("count"),
            )
    for device in reading.gpus:
        if device.node not in ports:
            place = device.gpu.span if device.gpu is not None else device.element.span
            reading.draft.warn(
                "import-contradiction", f"GPU{device.node} has no link to the switch, most others have", place
            )


def _sm(reading: Reading) -> str:
    word = reading.settings.word("gpu")
    if word in NVIDIA:
        return word
    values = [whole(d.gpu.attributes.get("sm")) for d in reading.gpus if d.gpu is not None]
    known = [v for v in values if v]
    if not known:
        reading.draft.assume("V100, since no GPU has an attribute sm; `--set gpu=...` says otherwise")
        return "v100"
    return rates.generation_of_sm(min(known))


def _gcn(reading: Reading) -> str:
    word = reading.settings.word("gpu")
    if word in rates.XGMI:
        return word
    for device in reading.gpus:
        if device.gpu is not None and (found := rates.xgmi_of(device.gpu.attributes.get("gcn", ""))) is not None:
            return found
    reading.draft.assume("the rate of MI50 to MI100, since no `gcn` names the GPUs; `--set gpu=mi300` says otherwise")
    return "vega"


def _check_budget(
    reading: Reading,
    said: dict[tuple[int, int], tuple[int, Element]],
    ports: dict[int, tuple[int, Element]],
    generation: str,
) -> None:
    sums: dict[int, tuple[int, Element]] = dict(ports)
    for (a, _), (count, element) in said.items():
        sums[a] = (sums.get(a, (0, element))[0] + count, element)
    most = NVIDIA[generation].links
    for node, (total, element) in sorted(sums.items()):
        if total > most:
            reading.draft.warn(
                "import-impossible",
                f"GPU{node} has {total} NVLinks, and {NVIDIA[generation].name} has {most}",
                element.place("count"),
            )
            return
