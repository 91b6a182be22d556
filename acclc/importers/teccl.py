"""TE-CCL's input: the topology is a name that its code turns into a matrix; here as that code does it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from acclc.diagnostics import suggest
from acclc.importers import boxes, classes, json_reader
from acclc.importers.json_reader import Reader
from acclc.importers.model import Draft, Imported
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind
from acclc.source import Source

NAMES = ("DGX1", "DGX2", "NDv2", "AMD", "Mesh")
COLLECTIVES = {1: "all_gather", 2: "all_to_all"}
MAX_CHASSIS = 1024


def import_json(source: Source, settings: Settings, root: Any = None) -> Imported:
    """Return the machine of a TE-CCL input. Raises DiagnosticError."""
    draft = Draft(source)
    reader = Reader(draft, json_reader.read(source) if root is None else root)
    name = reader.text(["TopologyParams", "name"], f"one of {', '.join(NAMES)} is needed")
    if name not in NAMES:
        near = suggest(name, NAMES)
        draft.fail(
            "import-value",
            f"TE-CCL has no topology `{name}`",
            reader.place(["TopologyParams", "name"]),
            help=f"did you mean `{near}`?" if near else f"it has {', '.join(NAMES)}",
        )
    chassis = 1
    if reader.value(["TopologyParams", "chassis"]) is not None:
        what = f"a number of boxes, 1 to {MAX_CHASSIS}, is needed"
        chassis = reader.whole(["TopologyParams", "chassis"], what, 1, MAX_CHASSIS)
    {"DGX1": _dgx1, "DGX2": _dgx2, "NDv2": _ndv2, "AMD": _amd, "Mesh": _mesh}[name](reader, settings, chassis)
    _say_rest(reader, name, chassis)
    return draft.finish("an input of TE-CCL")


def _say_rest(reader: Reader, name: str, chassis: int) -> None:
    draft = reader.draft
    draft.read(f"TopologyParams: {name}, chassis {chassis}; rates and links are those of TE-CCL's code for it")
    collective = reader.value(["InstanceParams", "collective"])
    if isinstance(collective, int) and collective in COLLECTIVES:
        draft.read(f"the collective number {collective} is {COLLECTIVES[collective]}; it was not imported")


def _class(reader: Reader, settings: Settings, name: str, kind: str, rate: str, latency: Fraction, setting: str) -> str:
    origin = "the rate of TE-CCL's code"
    return classes.make(reader.draft, settings, name, kind, Fraction(rate), latency, origin, setting=setting)


def _alpha(reader: Reader, index: int) -> Fraction:
    """Microseconds of ``alpha``, which the file has in seconds."""
    path: list[str | int] = ["TopologyParams", "alpha", index]
    if reader.value(["TopologyParams", "alpha"]) is None:
        reader.draft.assume("no latency, TE-CCL's default of alpha")
        return Fraction(0)
    return reader.number(path, "a latency in seconds is needed", zero=True) * 10**6


def _dgx1(reader: Reader, settings: Settings, chassis: int) -> None:
    if chassis != 1:
        reader.draft.assume("one box: TE-CCL's DGX1 has no network")
    cls = _class(reader, settings, "nvlink", "nvlink", "25", _alpha(reader, 0), "nvlink")
    boxes.wire(reader.draft, boxes.gpus(reader.draft, 8), boxes.DGX1, cls)


def _ndv2(reader: Reader, settings: Settings, chassis: int) -> None:
    draft = reader.draft
    cls = _class(reader, settings, "nvlink", "nvlink", "25", Fraction(7, 10), "nvlink")
    homes = [boxes.gpus(draft, 8) for _ in range(chassis)]
    for home in homes:
        boxes.wire(draft, home, boxes.DGX1, cls)
    if chassis == 1:
        return
    net = _class(reader, settings, "net", "net", "12.5", Fraction(13, 10), "net")
    if chassis == 2:
        draft.link(homes[0][0], homes[1][1], 1, net, "GPU 0 of one box to GPU 1 of the other", both=False)
        draft.link(homes[1][0], homes[0][1], 1, net, "GPU 0 of one box to GPU 1 of the other", both=False)
        return
    network = draft.node(NodeKind.SWITCH, "network", "between boxes")
    for home in homes:
        draft.link(home[0], network, 1, net, "GPU 0 of each box sends", both=False)
        draft.link(network, home[1], 1, net, "GPU 1 of each box receives", both=False)


def _dgx2(reader: Reader, settings: Settings, chassis: int) -> None:
    draft = reader.draft
    if chassis != 2:
        place = reader.place(["TopologyParams", "chassis"])
        draft.warn("import-contradiction", "TE-CCL's code always makes two boxes of a DGX2; so does this", place)
    cls = _class(reader, settings, "nvlink", "nvlink", "125", Fraction(35, 100), "nvlink")
    homes = [boxes.gpus(draft, 16) for _ in range(2)]
    for home in homes:
        boxes.star(draft, home, "nvswitch", cls)
    net = _class(reader, settings, "net", "net", "12.5", Fraction(26, 10), "net")
    for here, there in (homes, homes[::-1]):
        for odd in range(1, 16, 2):
            draft.link(here[odd], there[odd - 1], 1, net, "odd GPUs send to the even ones of the other box", both=False)


def _amd(reader: Reader, settings: Settings, chassis: int) -> None:
    draft = reader.draft
    cls = _class(reader, settings, "xgmi", "xgmi", "50", _alpha(reader, 0), "xgmi")
    homes = [boxes.gpus(draft, 16) for _ in range(chassis)]
    for home in homes:
        boxes.wire(draft, home, boxes.MI250, cls)
    if chassis == 1:
        return
    net = _class(reader, settings, "net", "net", "25", _alpha(reader, 1), "net")
    pairs = []
    for home in homes:
        for i in range(8):
            pairs.append(boxes.star(draft, home[2 * i : 2 * i + 2], "pair", net))
    boxes.star(draft, pairs, "network", net, "between boxes")


def _mesh(reader: Reader, settings: Settings, chassis: int) -> None:
    draft = reader.draft
    side = 4
    if reader.value(["TopologyParams", "side_length"]) is not None:
        side = reader.whole(["TopologyParams", "side_length"], "a side of 1 to 200 is needed", 1, 200)
    if chassis != 1:
        draft.assume("one box: TE-CCL's Mesh has no network")
    cls = _class(reader, settings, "lane", "", "100", _alpha(reader, 0), "lane")
    nodes = boxes.gpus(draft, side * side)
    for x in range(side):
        for y in range(side):
            here = nodes[x * side + y]
            if y + 1 < side:
                draft.link(here, nodes[x * side + y + 1], 1, cls)
            if x + 1 < side:
                draft.link(here, nodes[(x + 1) * side + y], 1, cls)
    draft.conclude(f"a mesh of {side} by {side}")
    if side > 1:
        place = reader.place(["TopologyParams", "name"])
        draft.warn(
            "import-contradiction",
            "TE-CCL's code also links the end of each row to the start of the next, which a mesh does not have;"
            " these links were left out",
            place,
        )
