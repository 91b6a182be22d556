"""TACCL's topologies (profiles of one box) and sketches (how boxes are joined and used).

A topology's betas are times of one message: its size is in the name (``DGX2_1MB``). Its wiring is not in the file
unless it is a custom one (``links``): DGX2 is a switch, NDv2 the DGX-1's mesh, by TACCL's code. Some files multiply all
times so that none becomes 0; an alpha of 10 us or more, which no NVLink has, tells (the factor is 100 in TACCL's own).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from acclc.importers import boxes, classes, json_reader, rates
from acclc.importers.json_reader import Reader
from acclc.importers.model import Draft, Imported
from acclc.importers.rates import NVIDIA
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind
from acclc.source import Source

MAX_GPUS, MAX_NODES = 1024, 1024
SCALE = 100
_SIZE = re.compile(r"[_-](\d{1,6})\s*([KMG])i?B\b", re.IGNORECASE)
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}
"""Decimal, as TE-CCL reads TACCL's figures: 23 us for 1 MB are 43.5 GB/s."""
REMOTE = "remote_beta"


@dataclass(frozen=True, slots=True)
class Profile:
    """One box: GPUs, links (a, b, count, us per message of one link), cards; times in us for ``size`` bytes."""

    name: str
    gpus: int
    links: tuple[tuple[int, int, int, Fraction], ...]
    switch: Fraction | None
    """The time of a GPU's link to a switch; None where GPUs are wired directly."""
    alpha: Fraction
    size: Fraction
    cards: int
    remote: Fraction | None
    remote_alpha: Fraction


def import_topology(source: Source, settings: Settings, root: Any = None) -> Imported:
    """Return the box of a topology file. Raises DiagnosticError."""
    draft = Draft(source)
    reader = Reader(draft, json_reader.read(source) if root is None else root)
    profile = read_profile(reader, settings)
    add_box(draft, settings, profile)
    return draft.finish("a topology of TACCL")


def read_profile(reader: Reader, settings: Settings) -> Profile:
    """Read a topology file."""
    draft = reader.draft
    name = reader.text(["name"], "the name of the topology is needed")
    gpus = reader.whole(["gpus_per_node"], f"1 to {MAX_GPUS} GPUs are needed", 1, MAX_GPUS)
    alpha = reader.number(["alpha"], "a latency in us is needed", zero=True)
    scale = _scale(draft, settings, alpha)
    size = _size(reader, settings, name)
    links, switch = _wiring(reader, name, gpus, scale)
    cards, remote, remote_alpha = 0, None, Fraction(0)
    if reader.value(["nics_per_node"]) is not None:
        cards = reader.whole(["nics_per_node"], f"0 to {gpus} cards are needed", 0, gpus)
        if cards:
            remote = reader.number([REMOTE], "the time of a message to another box is needed") / scale
            remote_alpha = reader.number(["remote_alpha"], "a latency in us is needed", zero=True) / scale
    draft.read(f"{gpus} GPUs" + (f", {cards} network cards" if cards else ""))
    return Profile(name, gpus, links, switch, alpha / scale, size, cards, remote, remote_alpha)


def _scale(draft: Draft, settings: Settings, alpha: Fraction) -> Fraction:
    given = settings.scale()
    if given is not None:
        return given
    if alpha < 10:
        return Fraction(1)
    draft.assume(
        f"all times are multiplied by {SCALE}, since an alpha of {float(alpha):g} us is none of NVLink;"
        " `--set scale=1` says otherwise"
    )
    return Fraction(SCALE)


def _size(reader: Reader, settings: Settings, name: str) -> Fraction:
    given = settings.size()
    if given is not None:
        return given
    found = _SIZE.search(name)
    if not found:
        reader.draft.fail(
            "import-missing",
            "betas are times of one message, and nothing says how large it is",
            reader.place(["name"]),
            help='TACCL\'s own files end their name with it ("NDv2_1MB"); or `--set "size=1 MB"`',
        )
        raise AssertionError("an error was reported")
    reader.draft.conclude(f"betas are times of messages of {found.group(1)} {found.group(2).upper()}B, by the name")
    return Fraction(int(found.group(1)) * _UNITS[found.group(2).upper()]) or Fraction(1)


Wiring = tuple[tuple[tuple[int, int, int, Fraction], ...], Fraction | None]


def _wiring(reader: Reader, name: str, gpus: int, scale: Fraction) -> Wiring:
    if reader.value(["links"]) is not None:
        return _custom(reader, gpus, scale), None
    betas = [
        reader.number(["node_betas_list", i], "a time in us above 0 is needed") / scale
        for i in range(len(reader.items(["node_betas_list"], "a list of times is needed: `links` is not in the file")))
    ]
    known = name.lower().replace("-", "").replace("_", "")
    if known.startswith(("ndv2", "dgx1")):
        return _ndv2(reader, betas, gpus), None
    if len(betas) == 1 and (known.startswith("dgx2") or gpus > 1):
        if known.startswith("dgx2"):
            reader.draft.conclude("a switch joins the GPUs, as TACCL's code makes of DGX2: the file has no links")
        else:
            reader.draft.assume("a switch joins the GPUs: the file has no links, and one time for all pairs")
        return (), betas[0]
    reader.draft.fail(
        "import-missing",
        f"the link matrix of `{name}` is not in the file, and TACCL's code knows DGX2 and NDv2 only",
        reader.place(["node_betas_list"]),
        help="add `links`, `betas` and `invbws`: matrices of gpus_per_node rows",
    )
    raise AssertionError("an error was reported")


def _ndv2(reader: Reader, betas: list[Fraction], gpus: int) -> tuple[tuple[int, int, int, Fraction], ...]:
    if len(betas) != 2 or gpus != 8:
        what = "an NDv2 has 8 GPUs and two times: of two links side by side, and of one"
        reader.wrong(["node_betas_list"] if len(betas) != 2 else ["gpus_per_node"], what)
    reader.draft.conclude("the GPUs are wired as a DGX-1's, as TACCL's code makes of NDv2: the file has no links")
    double, single = betas
    if single == 2 * double:
        return tuple((a, b, n, single) for a, b, n in boxes.DGX1)
    return tuple((a, b, 1, double if n == 2 else single) for a, b, n in boxes.DGX1)


def _custom(reader: Reader, gpus: int, scale: Fraction) -> tuple[tuple[int, int, int, Fraction], ...]:
    """links[d][s] and betas[d][s], as TACCL reads them."""
    links = reader.matrix(["links"], gpus)
    betas = reader.matrix(["betas"], gpus)
    found = []
    for s in range(gpus):
        for d in range(gpus):
            if links[d][s] == 0 or s == d:
                continue
            if betas[d][s] == 0:
                reader.wrong(["betas", d, s], "a link needs a time above 0")
            count = reader.whole(["links", d, s], "a whole number of links is needed", 1, 10**6)
            found.append((s, d, count, betas[d][s] / scale))
    return tuple(found)


def _rate(profile: Profile, beta: Fraction) -> Fraction:
    """GB/s of a link that takes ``beta`` us a message."""
    return profile.size / beta / 1000


def add_box(draft: Draft, settings: Settings, profile: Profile) -> tuple[list[int], list[int]]:
    """Add one box; return its GPUs and cards."""
    gpus = boxes.gpus(draft, profile.gpus)
    why = f"of a message of {int(profile.size)} bytes: alpha and beta of the file"
    if profile.switch is not None:
        rate = _rate(profile, profile.switch)
        cls = classes.make(
            draft, settings, "nvlink", "nvlink", rate, profile.alpha / 2, f"{float(profile.switch):g} us {why}"
        )
        boxes.star(draft, gpus, "nvswitch", cls)
    _add_links(draft, settings, profile, gpus, why)
    cards: list[int] = []
    if profile.cards and profile.remote is not None:
        origin = f"{float(profile.remote):g} us {why} (remote)"
        net = classes.make(
            draft, settings, "net", "net", _rate(profile, profile.remote), profile.remote_alpha / 2, origin
        )
        cards = [draft.node(NodeKind.NIC, "card") for _ in range(profile.cards)]
        for i, gpu in enumerate(gpus):
            draft.link(gpu, cards[i * profile.cards // profile.gpus], 1, net)
        draft.assume("GPUs share the network cards evenly, in their order, and each card carries what one GPU may send")
        if profile.cards < profile.gpus:
            draft.assume("a card also joins the GPUs that share it, a way that TACCL does not count")
    return gpus, cards


def _add_links(draft: Draft, settings: Settings, profile: Profile, gpus: list[int], why: str) -> None:
    times = sorted({beta for *_, beta in profile.links}, reverse=True)
    there = {(a, b): (n, beta) for a, b, n, beta in profile.links}
    names = {}
    for i, beta in enumerate(times):
        name = "nvlink" if len(times) == 1 else f"nvlink{i + 1}"
        origin = f"{float(beta):g} us {why}"
        names[beta] = classes.make(
            draft, settings, name, "nvlink", _rate(profile, beta), profile.alpha, origin, setting="nvlink"
        )
    for (a, b), (count, beta) in there.items():
        back = there.get((b, a))
        if back is None and profile.name and (a, b) not in _one_way(there):
            draft.link(gpus[a], gpus[b], count, names[beta])
        elif back == (count, beta):
            if a < b:
                draft.link(gpus[a], gpus[b], count, names[beta])
        else:
            draft.link(gpus[a], gpus[b], count, names[beta], both=False)


def _one_way(there: dict[tuple[int, int], tuple[int, Fraction]]) -> set[tuple[int, int]]:
    """The pairs of a custom matrix without a way back; a list of undirected links has only a < b."""
    if all(a < b for a, b in there):
        return set()
    return {(a, b) for a, b in there if (b, a) not in there}


# Sketches


def import_sketch(source: Source, settings: Settings, root: Any = None, topology: Source | None = None) -> Imported:
    """Return the machine of a sketch; with the topology of its box if that is given. Raises DiagnosticError."""
    draft = Draft(source)
    reader = Reader(draft, json_reader.read(source) if root is None else root)
    nodes = reader.whole(["nnodes"], f"1 to {MAX_NODES} boxes are needed", 1, MAX_NODES)
    profile = None
    if topology is not None:
        other = Draft(topology)
        profile = read_profile(Reader(other, json_reader.read(topology)), settings)
        draft.notes += other.notes
    homes = [_box(reader, settings, profile) for _ in range(nodes)]
    draft.read(f"{nodes} boxes of {len(homes[0])} GPUs")
    if nodes > 1:
        _between(reader, settings, profile, homes)
    _say_hints(reader)
    return draft.finish("a sketch of TACCL")


def _box(reader: Reader, settings: Settings, profile: Profile | None) -> list[int]:
    draft = reader.draft
    strategy = reader.text(["intranode_sketch", "strategy"], "`switch`, `relay`, `minmax` or `none` is needed")
    if profile is not None:
        return add_box(draft, settings, _without_cards(profile))[0]
    if strategy != "switch":
        draft.fail(
            "import-missing",
            f"with the strategy `{strategy}` a sketch does not say how the GPUs of a box are joined",
            reader.place(["intranode_sketch", "strategy"]),
            help="give TACCL's topology of the box too: `acclc topo import SKETCH --with TOPOLOGY`",
        )
    switches = reader.items(["intranode_sketch", "switches"], "the GPUs of each switch are needed")
    members = [
        [
            reader.whole(["intranode_sketch", "switches", i, k], "a GPU's number is needed", 0, MAX_GPUS - 1)
            for k in range(len(reader.items(["intranode_sketch", "switches", i], "a list of GPUs is needed")))
        ]
        for i in range(len(switches))
    ]
    size = max((m for switch in members for m in switch), default=-1) + 1
    if size == 0:
        reader.wrong(["intranode_sketch", "switches"], "the GPUs of each switch are needed")
    cls = _assumed(draft, settings)
    home = boxes.gpus(draft, size)
    for switch in members:
        boxes.star(draft, [home[m] for m in dict.fromkeys(switch)], "nvswitch", cls)
    return home


def _assumed(draft: Draft, settings: Settings) -> str:
    word = settings.word("gpu") or "v100"
    found = NVIDIA.get(word, NVIDIA["v100"])
    rate, nominal = found.effective * found.links, found.nominal * found.links
    origin = f"all {found.links} NVLinks of {found.name}: a sketch has no rates"
    draft.assume(
        f"{found.name}, since a sketch has no rates; `--with TOPOLOGY` gives TACCL's, `--set nvlink=...` another one"
    )
    return classes.make(
        draft, settings, "nvlink", "nvlink", rate, rates.THROUGH_SWITCH_LATENCY, origin, nominal=nominal
    )


def _without_cards(profile: Profile) -> Profile:
    """Between boxes the sketch says who sends, so cards are not shown as nodes."""
    return Profile(
        profile.name,
        profile.gpus,
        profile.links,
        profile.switch,
        profile.alpha,
        profile.size,
        0,
        profile.remote,
        profile.remote_alpha,
    )


def _between(reader: Reader, settings: Settings, profile: Profile | None, homes: list[list[int]]) -> None:
    draft = reader.draft
    path: list[str | int] = ["internode_sketch", "internode_conn"]
    pairs = reader.value(path)
    size = len(homes[0])
    if profile is not None and profile.remote is not None:
        origin = f"{float(profile.remote):g} us of a message of {int(profile.size)} bytes: the topology's remote beta"
        net = classes.make(
            draft, settings, "net", "net", _rate(profile, profile.remote), profile.remote_alpha / 2, origin
        )
    else:
        net = classes.net(draft, settings)
        draft.assume("each GPU that sends to other boxes has 100 Gbit/s; `--set net=...` says otherwise")
    if pairs == "fully-connected":
        network = draft.node(NodeKind.SWITCH, "network", "between boxes")
        for home in homes:
            for gpu in home:
                draft.link(gpu, network, 1, net)
        draft.conclude("every GPU may send to every GPU of another box: a switch joins them all")
    elif pairs == "direct-map":
        for i in range(size):
            boxes.star(draft, [home[i] for home in homes], "rail", net)
        draft.conclude("GPU i sends to GPU i of other boxes: a switch for each i")
    elif isinstance(pairs, dict):
        for key in pairs:
            if not (key.isascii() and key.isdigit() and len(key) < 6 and int(key) < size):
                reader.wrong([*path, key], f"`{key}` is no GPU of a box of {size}")
            targets = [
                reader.whole([*path, key, k], f"a GPU of 0 to {size - 1} is needed", 0, size - 1)
                for k in range(len(reader.items([*path, key], "a list of GPUs is needed")))
            ]
            rail = draft.node(NodeKind.SWITCH, "rail", f"GPU {key} to {', '.join(map(str, targets))}")
            for home in homes:
                draft.link(home[int(key)], rail, 1, net, both=False)
                for target in targets:
                    draft.link(rail, home[target], 1, net, both=False)
        draft.conclude("a one-way switch for each sender of a box, to the GPUs that may receive from it")
    else:
        reader.wrong(path, "`fully-connected`, `direct-map`, or the receivers of each sender are needed")


def _say_hints(reader: Reader) -> None:
    if reader.value(["symmetry_offsets"]) is not None:
        reader.draft.read("symmetry_offsets are left out: symmetry is found from the graph itself")
    if reader.value(["hyperparameters"]) is not None:
        reader.draft.read("hyperparameters are TACCL's own and were left out")
