"""NCCL's and RCCL's topology XML: dumps of ``NCCL_TOPO_DUMP_FILE``, and the hint files of clouds."""

from __future__ import annotations

from fractions import Fraction

from acclc.importers import classes, rates, xml_reader
from acclc.importers.hosts import join_hosts
from acclc.importers.model import Draft, Imported
from acclc.importers.nccl_links import add_fast
from acclc.importers.nccl_pcie import add_tree
from acclc.importers.nccl_reading import GPU_CLASSES, NIC_CLASSES, Device, Reading, whole
from acclc.importers.settings import Settings
from acclc.importers.xml_reader import Element
from acclc.ir.problem import NodeKind
from acclc.source import Source


def import_xml(source: Source, settings: Settings) -> Imported:
    """Return the machine of a topology XML. Raises DiagnosticError."""
    draft = Draft(source)
    root = xml_reader.read(source)
    refuse_others(draft, root)
    reading = Reading(draft, settings, amd=any(True for _ in root.all("xgmi")) or _has_gcn(root))
    if root.attributes.get("version") not in (None, "1", "2"):
        draft.warn("import-partial", f"version {root.attributes['version']} of the format", root.place("version"))
    cpus = [child for child in root.children if child.tag == "cpu"]
    if not cpus:
        draft.fail("import-missing", "there is no `<cpu>` in `<system>`", root.span)
    for cpu in cpus:
        for child in cpu.children:
            _collect(reading, child, (cpu,))
    _refuse_nameless(reading)
    draft.check()
    if not reading.gpus:
        _no_gpus(reading, root)
    _build(reading, cpus)
    return draft.finish("RCCL's topology XML" if reading.amd else "NCCL's topology XML")


def refuse_others(draft: Draft, root: Element) -> None:
    """Say what the file is where it is no topology."""
    if root.tag == "system":
        return
    words = {
        "graphs": "NCCL's graph dump (NCCL_GRAPH_DUMP_FILE), which holds rings and trees",
        "graph": "NCCL's graph dump (NCCL_GRAPH_DUMP_FILE), which holds rings and trees",
        "algo": "an MSCCL algorithm, which is a schedule",
    }.get(root.tag)
    if words is None:
        draft.fail(
            "import-unknown-format", f"a topology XML begins with `<system>`, this one with `<{root.tag}>`", root.span
        )
    help = (
        "dump the topology by NCCL_TOPO_DUMP_FILE=topo.xml and import that"
        if root.tag.startswith("graph")
        else "a schedule does not say what links there are; import the machine it was made for"
    )
    draft.fail("import-not-a-topology", f"this is {words}, and no topology", root.span, help=help)


def _has_gcn(root: Element) -> bool:
    return any("gcn" in gpu.attributes for gpu in root.all("gpu"))


def _collect(reading: Reading, element: Element, above: tuple[Element, ...]) -> None:
    """Gather the devices of an element and below it, in order; the reader bounds the depth."""
    draft = reading.draft
    if element.tag == "nic":
        nets = tuple(element.all("net"))
        reading.cards.append(Device(element, above, None, nets))
        return
    if element.tag != "pci":
        if element.tag not in ("net", "gpu", "c2c", "nvlink", "xgmi"):
            draft.warn("import-ignored", f"an element `<{element.tag}>` that says nothing of the machine", element.span)
        return
    gpus = [c for c in element.children if c.tag == "gpu"]  # several: parts of one device, or ranks that share it
    nets = tuple(n for c in element.children if c.tag == "nic" for n in c.all("net"))
    kind = element.attributes.get("class", "")
    below = [c for c in element.children if c.tag == "pci"]
    if gpus:
        reading.gpus += [Device(element, above, gpu) for gpu in gpus]
    elif kind[:6] in GPU_CLASSES and not below:
        reading.gpus.append(Device(element, above, None))
    elif nets or (kind[:6] in NIC_CLASSES and not below):
        reading.cards.append(Device(element, above, None, nets))
    elif not kind and not below:
        reading.nameless.append(element)
    for child in below:
        _collect(reading, child, (*above, element))


def _refuse_nameless(reading: Reading) -> None:
    if not reading.nameless:
        return
    first, *others = reading.nameless
    more = f" (and {len(others)} more)" if others else ""
    reading.draft.error(
        "import-missing",
        f"`<pci>` {first.attributes.get('busid', '')}{more} has no attribute `class`: is it a GPU or a network card?",
        first.span,
        *(e.span for e in others[:3]),
        help='NCCL asks the machine itself; add class="0x030200" to GPUs and class="0x020000" to network cards',
    )


def _no_gpus(reading: Reading, root: Element) -> None:
    reading.draft.fail(
        "import-missing",
        "no GPU in this file: no `<gpu>`, and no `<pci>` of a GPU's class (0x0302.., 0x1200..)",
        root.span,
        help="NCCL_TOPO_DUMP_FILE on the machine writes a whole one",
    )


def _build(reading: Reading, cpus: list[Element]) -> None:
    draft = reading.draft
    _order(reading)
    for i, device in enumerate(reading.gpus):
        device.node = draft.node(NodeKind.GPU, "g", _label(device, f"GPU{i}"))
    hints = sum(1 for d in reading.gpus if d.gpu is None)
    draft.read(f"{len(reading.gpus)} GPUs, {len(reading.cards)} network cards, {len(cpus)} NUMA nodes")
    if hints:
        _warn_hints(reading, hints)
    add_fast(reading)
    for i, cpu in enumerate(cpus):
        label = f"NUMA {cpu.attributes.get('numaid', '?')}"
        if "host_hash" in cpu.attributes:
            label += f" of host {cpu.attributes['host_hash']}"
        reading.host_of[id(cpu)] = draft.node(NodeKind.HOST, "cpu", label)
        if "numaid" not in cpu.attributes:
            draft.assume(f"the {i + 1}. <cpu> is a NUMA node of its own, for it has no numaid")
    contracted = add_tree(reading)
    if contracted:
        draft.conclude(f"{contracted} PCIe bridges with one device below were left out: they join nothing")
    _add_c2c(reading)
    _join(reading, cpus)


def _order(reading: Reading) -> None:
    """Number the GPUs by rank, else by device number, else in the order of the file."""
    for attribute in ("rank", "dev"):
        values = [whole(d.gpu.attributes.get(attribute)) if d.gpu is not None else None for d in reading.gpus]
        if None in values or not values:
            continue
        if len(set(values)) == len(values):
            pairs = sorted(zip(values, range(len(values)), strict=True), key=lambda p: (p[0] or 0, p[1]))
            reading.gpus = [reading.gpus[i] for _, i in pairs]
            reading.draft.read(f"GPUs are numbered by their attribute {attribute}")
            return
        if attribute == "rank":
            again = next(i for i, v in enumerate(values) if v in values[:i])
            one, two = reading.gpus[values.index(values[again])].gpu, reading.gpus[again].gpu
            assert one is not None
            assert two is not None
            reading.draft.warn(
                "import-contradiction", f"two GPUs of rank {values[again]}", two.place("rank"), one.place("rank")
            )
    reading.draft.assume("GPUs are numbered in the order of the file")


def _label(device: Device, name: str) -> str:
    return f"{name} at {device.element.attributes.get('busid', 'an unnamed place')}"


def _warn_hints(reading: Reading, hints: int) -> None:
    first = next(d for d in reading.gpus if d.gpu is None)
    reading.draft.warn(
        "import-partial",
        f"{hints} GPUs are known by their PCI class alone, without `<gpu>` and NVLink: hints for a virtual machine,"
        " which NCCL completes by asking the driver",
        first.element.span,
        help="for NVLink, import the output of `nvidia-smi topo -m`, or a dump by NCCL_TOPO_DUMP_FILE",
    )


def _add_c2c(reading: Reading) -> None:
    for device in reading.gpus:
        for c2c in (c for c in (device.gpu.children if device.gpu is not None else ()) if c.tag == "c2c"):
            count, rate = whole(c2c.attributes.get("count", "1")), whole(c2c.attributes.get("bw"))
            if not count or not rate:
                reading.draft.error("import-value", "`<c2c>` needs bw (MB/s of one link) and count", c2c.span)
                continue
            cls = classes.make(
                reading.draft,
                reading.settings,
                f"c2c{rate}",
                "host",
                Fraction(rate, 1000),
                rates.C2C_LATENCY,
                "NVLink C2C to the CPU, with the bw of the file",
                setting="c2c",
            )
            host = reading.host_of[id(device.above[0])]
            reading.draft.link(device.node, host, count, cls, f"line {reading.draft.source.position(c2c.start)[0]}")


def _join(reading: Reading, cpus: list[Element]) -> None:
    """Join the CPUs of each host; several hosts meet in a network."""
    hosts: dict[str, list[Element]] = {}
    for cpu in cpus:
        hosts.setdefault(cpu.attributes.get("host_hash", ""), []).append(cpu)
    for members in hosts.values():
        first = members[0].attributes
        known = "arch" in first or "vendor" in first
        word = rates.smp_of(
            first.get("arch", ""), first.get("vendor", ""), whole(first.get("familyid")), whole(first.get("modelid"))
        )
        join_hosts(reading.draft, reading.settings, [reading.host_of[id(c)] for c in members], word if known else None)
    if len(hosts) > 1:
        _join_cards(reading, len(hosts))


def _join_cards(reading: Reading, hosts: int) -> None:
    if not reading.cards:
        return
    network = reading.draft.node(NodeKind.SWITCH, "network", "between hosts")
    reading.draft.assume(f"the network cards of the {hosts} hosts meet in one switch that blocks nothing")
    by_card = {link.a: link.cls for link in reading.draft.links}
    for card in reading.cards:
        reading.draft.link(card.node, network, 1, by_card[card.node], "to the network")
