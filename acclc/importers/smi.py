"""``nvidia-smi topo -m``: the matrix of links and paths between GPUs and network cards."""

from __future__ import annotations

import re
from fractions import Fraction

from acclc.diagnostics import Label
from acclc.importers import classes, matrix, nvlink, pcie
from acclc.importers.hosts import join_hosts
from acclc.importers.matrix import Matrix, Token
from acclc.importers.model import Draft, Imported
from acclc.importers.rates import GPU_NAMES, MOST_LINKS, NVIDIA, PCIE_GT
from acclc.importers.settings import Settings
from acclc.importers.smi_table import NV, Pair, Table, read_table
from acclc.ir.problem import NodeKind
from acclc.source import Source, Span

_PEER_WORDS = re.compile(r"(?<!\w)(?:OK|CNS|GNS|TNS|DR)(?!\w)")
_CARD = re.compile(r"^[\s>]*(NIC\d+): (\S+)\s*$", re.MULTILINE)
"""A line of the legend of cards, which newer drivers print."""
FORMAT = "the output of `nvidia-smi topo -m`"


def import_topo_m(source: Source, settings: Settings) -> Imported:
    """Return the machine of a paste of ``nvidia-smi topo -m``. Raises DiagnosticError."""
    draft = Draft(source)
    found = tuple(m for m in matrix.find(source) if not _is_peer_access(m))
    if not found:
        draft.fail("import-missing", "no matrix of `nvidia-smi topo -m` was found in this text", Span(source, 0, 0))
    tables = [table for m in found if (table := read_table(draft, m)) is not None]
    draft.check()
    table = _choose(draft, found, tables, settings)
    _check_peer_access(draft, source, table)
    build(draft, table, settings)
    return draft.finish(FORMAT)


def _is_peer_access(found: Matrix) -> bool:
    """Whether a matrix is one of ``topo -p2p``, which a paste may hold too."""
    cells = [t.text.upper() for row in found.rows for t in row.cells]
    return any(_PEER_WORDS.match(c) for c in cells) and not any(matrix.CELL.match(c) and c != "X" for c in cells)


def _choose(draft: Draft, found: tuple[Matrix, ...], tables: list[Table], settings: Settings) -> Table:
    """Take the matrix that was asked for, or the first; say what the others are."""
    wanted = settings.whole("matrix", 1, len(tables))
    chosen = tables[(wanted or 1) - 1]
    here = {p: t.text.upper() for p, t in chosen.cells.items()}
    others = []
    for i, table in enumerate(tables):
        if table is chosen:
            continue
        there = {p: t.text.upper() for p, t in table.cells.items()}
        if (there, table.names) == (here, chosen.names):
            draft.read(f"the matrix from line {found[i].line} on is the same one again")
        else:
            others.append(i)
    if others and wanted is None:
        draft.warn(
            "import-ignored",
            f"the text holds {len(others) + 1} different matrices; the first one was imported",
            *(found[i].rows[0].name.span for i in others[:3]),
            help=f"`--set matrix={others[0] + 1}` takes another one",
        )
    return chosen


def _check_peer_access(draft: Draft, source: Source, table: Table) -> None:
    """Where the paste also holds ``topo -p2p``, say which pairs have no peer access."""
    if not _PEER_WORDS.search(source.text):
        return
    for found in matrix.find(source, matrix.P2P_CELL):
        if any(matrix.CELL.match(t.text) and t.text.upper() != "X" for r in found.rows for t in r.cells):
            continue
        refused = [
            (row.name.text, found.names[i])
            for row in found.rows
            for i, t in enumerate(row.cells[: len(found.names)])
            if t.text.upper() not in ("X", "OK")
        ]
        if refused:
            a, b = refused[0]
            draft.warn(
                "import-partial",
                f"peer access is refused between {a} and {b}"
                + (f" and {len(refused) - 1} more" if refused[1:] else ""),
                found.rows[0].name.span,
                help="data between them is staged in host memory: take the links away, or lower their rate with --set",
            )
        else:
            draft.read(f"peer access works between all pairs (the matrix from line {found.line} on)")


def build(draft: Draft, table: Table, settings: Settings) -> None:
    """Make the machine of a table: GPUs, NVLink, PCIe and network cards."""
    gpus = [draft.node(NodeKind.GPU, "g", name) for name in table.names[: table.gpus]]
    legend = dict(_CARD.findall(draft.source.text))
    nics = [f"{name} {legend[name]}" if name in legend else name for name in table.names[table.gpus :]]
    cards = f" and {len(nics)} network card{'s' * (len(nics) != 1)} ({', '.join(nics[:16])})" if nics else ""
    draft.read(f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}{cards}")
    links = table.links()
    generation = _generation(draft, settings)
    if links:
        fabric = nvlink.infer(table.gpus, links, generation)
        _add_nvlink(draft, table, links, fabric, settings, gpus)
        generation = fabric.generation
    paths = table.paths()
    connected = links and len(nvlink.components(table.gpus, links)) == 1 and len(_linked(links)) == table.gpus
    if nics or paths or not connected:
        _add_pcie(draft, table, paths, generation, settings, gpus, nics)
    else:
        draft.conclude("PCIe is left out: NVLink joins all GPUs, and the matrix says nothing of the PCIe tree")


def _linked(links: dict[Pair, int]) -> set[int]:
    return {m for pair in links for m in pair}


def _generation(draft: Draft, settings: Settings) -> str | None:
    """Return the generation by ``--set gpu=``, or by the name of a product somewhere in the text."""
    word = settings.word("gpu")
    if word in NVIDIA:
        return word
    for number, _, text in matrix.lines(draft.source):
        if "GPU" not in text and "NVIDIA" not in text and "Tesla" not in text:
            continue
        for name, found in GPU_NAMES:
            if re.search(rf"(?<![A-Za-z0-9]){name}(?![0-9])", text):
                draft.read(f"{NVIDIA[found].name}: line {number} names {name}")
                return found
    return None


def _add_nvlink(
    draft: Draft, table: Table, links: dict[Pair, int], fabric: nvlink.Fabric, settings: Settings, gpus: list[int]
) -> None:
    for text in fabric.concluded:
        draft.conclude(text)
    for text in fabric.assumed:
        draft.assume(text)
    _warn_impossible(draft, table, fabric)
    cls = classes.nvlink(draft, settings, fabric.generation, switched=fabric.switched)
    for group in fabric.groups:
        if group.ports:
            abilities = NVIDIA[fabric.generation].abilities
            switch = draft.node(NodeKind.SWITCH, "nvswitch", "NVSwitch", abilities)
            for m in group.members:
                draft.link(gpus[m], switch, group.ports, cls, f"NV{group.ports} to every other GPU")
            continue
        inside = set(group.members)
        for (a, b), n in sorted(links.items()):
            if a in inside:
                draft.link(gpus[a], gpus[b], n, cls, _origin(draft, table.cells[a, b]))


def _warn_impossible(draft: Draft, table: Table, fabric: nvlink.Fabric) -> None:
    if not fabric.impossible:
        return
    worst = max(fabric.impossible, key=lambda m: (fabric.impossible[m], -m))
    token = next(t for (a, b), t in sorted(table.cells.items()) if worst in (a, b) and NV.match(t.text.upper()))
    sums = ", ".join(f"GPU{m} {total}" for m, total in sorted(fabric.impossible.items()))
    most = f"no GPU has more than {fabric.budget}"
    if fabric.budget != MOST_LINKS:
        most = f"{NVIDIA[fabric.generation].name} has {fabric.budget}"
    draft.warn(
        "import-impossible",
        f"no such machine can be built: the NVLinks of GPU{worst} sum to {fabric.impossible[worst]}, and {most}",
        Label(token.span, f"one of the links of GPU{worst}"),
        notes=(
            f"sums: {sums}",
            "with an NVSwitch all pairs of its GPUs would show NV#; here some do not",
        ),
        help="was the matrix typed, or is a part of it missing? The links are written as the matrix has them",
    )


def _add_pcie(
    draft: Draft,
    table: Table,
    paths: dict[Pair, int],
    generation: str | None,
    settings: Settings,
    gpus: list[int],
    nics: list[str],
) -> None:
    places = _places(table)
    tree = pcie.infer(len(table.names), paths, places)
    _say_tree(draft, table, tree, places)
    draft.check()
    link, wire = _pcie_class(draft, settings, generation), None
    hosts = [draft.node(NodeKind.HOST, "cpu", _host_label(places, members)) for members in tree.hosts]
    switches: list[int] = []
    for switch in tree.switches:
        node = draft.node(NodeKind.SWITCH, "plx", ", ".join(table.names[d] for d in switch.devices))
        above = hosts[switch.host] if switch.above is None else switches[switch.above]
        draft.link(node, above, 1, link, "the shared uplink")
        switches.append(node)
    below = {d: switches[i] for i, s in enumerate(tree.switches) for d in s.devices}
    for device in range(len(table.names)):
        above = below[device] if device in below else hosts[tree.on_host[device]]
        where = f"row of line {table.lines[device]}" if table.lines[device] else "no row of its own"
        if device < table.gpus:
            draft.link(gpus[device], above, 1, link, where)
        else:
            wire = wire or classes.net(draft, settings)
            label = nics[device - table.gpus]
            card = draft.node(NodeKind.NIC, "card", label)
            draft.link(card, above, 1, wire, f"{label}, {where}")
    if wire:
        draft.assume(
            "each network card is of 100 Gbit/s, which no matrix says; `--set net=25` is for one of 200 Gbit/s"
        )
    join_hosts(draft, settings, hosts, None)


def _pcie_class(draft: Draft, settings: Settings, generation: str | None) -> str:
    number = settings.whole("pcie-generation", 1, 6)
    if number is not None:
        origin = f"PCIe {number} x16 by --set, NCCL's effective rate"
    elif generation is not None:
        number = NVIDIA[generation].pcie
        origin = f"PCIe {number} x16, that of {NVIDIA[generation].name}; NCCL's effective rate"
        draft.assume(f"PCIe {number} with 16 lanes, since the GPUs are {NVIDIA[generation].name}")
    else:
        number, origin = 3, "PCIe 3 x16, NCCL's effective rate"
        draft.assume(
            "PCIe 3 with 16 lanes, as NCCL takes it where nothing is known; `--set pcie-generation=4` says otherwise"
        )
    return classes.pcie(draft, settings, Fraction(PCIE_GT[number]), 16, origin, "pcie")


def _places(table: Table) -> list[str]:
    """Name the NUMA node of each device: by its column, else by the CPUs, unless paths deny that these are one node."""
    denied = {
        table.cpus[a] for (a, b), level in table.paths().items() if level == pcie.SYS and table.cpus[a] == table.cpus[b]
    }
    return [
        f"NUMA {n}" if n else f"CPUs {c}" if c and c not in denied else ""
        for n, c in zip(table.numa, table.cpus, strict=True)
    ]


def _host_label(places: list[str], members: tuple[int, ...]) -> str:
    return ", ".join(dict.fromkeys(places[m] for m in members if places[m]))


def _say_tree(draft: Draft, table: Table, tree: pcie.Tree, places: list[str]) -> None:
    names = table.names
    for found in tree.contradictions:
        word = {pcie.PIX: "one PCIe switch", pcie.PXB: "PCIe switches", pcie.NODE: "one NUMA node"}[found.level]
        via = [table.cells[p] for p in found.via[:2]]
        a, b = found.pair
        labels = [Label(table.cells[found.pair].span, f"{names[a]} to {names[b]}")]
        labels += [Label(t.span) for t in via]
        message = f"{names[a]} and {names[b]} are {table.cells[found.pair].text}, but other cells put them under {word}"
        severity_of = draft.warn if found.level == pcie.NODE else draft.error
        severity_of("import-contradiction", message, *labels)
    if tree.against_numa:
        a, b = tree.against_numa[0]
        more = f" (and {len(tree.against_numa) - 1} more pairs)" if tree.against_numa[1:] else ""
        draft.warn(
            "import-contradiction",
            f"{names[a]} and {names[b]} are {table.cells[a, b].text} though both are on {places[a]}{more};"
            " the NUMA node was believed",
            table.cells[a, b].span,
        )
    draft.conclude(
        f"the smallest PCIe tree that agrees: {len(tree.hosts)} NUMA node{'s' * (len(tree.hosts) != 1)},"
        f" {len(tree.switches)} PCIe switch{'es' * (len(tree.switches) != 1)}; devices under a switch share its uplink"
    )
    if tree.guessed:
        some = ", ".join(names[d] for d in tree.guessed[:8]) + (", ..." if len(tree.guessed) > 8 else "")
        draft.assume(f"nothing says on which NUMA node {some} {'is' if len(tree.guessed) == 1 else 'are'}")


def _origin(draft: Draft, token: Token) -> str:
    line, column = draft.source.position(token.span.start)
    return f"line {line}, column {column}: {token.text}"
