"""From an imported machine to the text of the language: canonical, and with comments that say where values come from.

Where NVLink or xGMI alone joins all GPUs and there is more (PCIe, network cards), two topologies are written: the fast
links alone, which is what most people compile for, and the whole machine, built around a copy of it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from acclc.diagnostics.display import visible
from acclc.importers.model import Budget, Evidence, Imported, Link, LinkClass
from acclc.importers.rates import GIGA
from acclc.ir.problem import NodeKind
from acclc.syntax.formatter import WIDTH
from acclc.syntax.words import RESERVED

COMMENT_WIDTH = 110
LABELLED = 64
"""Arrays larger than this are not explained member by member."""
FAST = ("nvlink", "xgmi")
INNER = "fast"
"""The name of the fast part within the whole machine."""
_ORDER = (NodeKind.GPU, NodeKind.SWITCH, NodeKind.HOST, NodeKind.NIC)
_EVIDENCE = {Evidence.READ: "Read", Evidence.CONCLUDED: "Concluded", Evidence.ASSUMED: "Assumed"}


def topology_name(stem: str, taken: Iterable[str] = ()) -> str:
    """Return a name of the language for a file's stem; another one where it is taken or reserved."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_") or "machine"
    if name[0].isdigit():
        name = f"m_{name}"
    return f"{name}_box" if name in RESERVED or name in set(taken) else name


def text_of(imported: Imported, name: str, file: str) -> str:
    """Return the whole text: one topology or two, and an all_reduce on the one to compile for."""
    head = [f"# Imported from {_plain(file)}: {imported.format}."]
    for note in imported.notes:
        head += _comment(f"{_EVIDENCE[note.evidence]}: {note.text}.")
    for warning in imported.warnings:
        line = (
            f"line {warning.labels[0].span.source.position(warning.labels[0].span.start)[0]}: "
            if warning.labels
            else ""
        )
        head += _comment(f"Warning: {line}{warning.message}.")
    parts = _parts(imported)
    lines = [*head]
    if parts is None:
        lines += _topology(imported, name, range(len(imported.nodes)), imported.links, None)
        target = name
    else:
        nodes, fast, rest = parts
        target = f"{name}_{imported.kind_of(fast[0])}"
        lines += _topology(imported, target, nodes, fast, None)
        inside = set(nodes)
        others = [i for i in range(len(imported.nodes)) if i not in inside]
        lines += ["", f"# The whole machine: {target}, and what else joins its GPUs."]
        lines += _topology(imported, name, others, rest, target)
    if len(imported.of(NodeKind.GPU)) > 1 and connected(imported, range(len(imported.nodes)), imported.links):
        lines += ["", f"all_reduce on {target}"]
    return "\n".join(lines) + "\n"


def connected(imported: Imported, nodes: Iterable[int], links: Sequence[Link]) -> bool:
    """Whether every GPU of ``nodes`` reaches every other one over the links."""
    forward: dict[int, list[int]] = {}
    backward: dict[int, list[int]] = {}
    for link in links:
        forward.setdefault(link.a, []).append(link.b)
        backward.setdefault(link.b, []).append(link.a)
        if link.both:
            forward.setdefault(link.b, []).append(link.a)
            backward.setdefault(link.a, []).append(link.b)
    gpus = {n for n in nodes if imported.nodes[n].kind is NodeKind.GPU}
    if not gpus:
        return False
    for near in (forward, backward):
        start = min(gpus)
        seen, stack = {start}, [start]
        while stack:
            for other in near.get(stack.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        if not gpus <= seen:
            return False
    return True


def _parts(imported: Imported) -> tuple[list[int], list[Link], list[Link]] | None:
    """Return (nodes and links of the fast part, other links), or None where the machine is written in one piece."""
    kinds = {c.name: c.kind for c in imported.classes}
    fast = [link for link in imported.links if kinds[link.cls] in FAST]
    rest = [link for link in imported.links if kinds[link.cls] not in FAST]
    if not fast or not rest or imported.budgets:
        return None
    touched = {n for link in fast for n in (link.a, link.b)} | set(imported.of(NodeKind.GPU))
    nodes = sorted(touched)
    if any(imported.nodes[n].kind not in (NodeKind.GPU, NodeKind.SWITCH) for n in nodes):
        return None
    arrays = {imported.nodes[n].array for n in nodes}
    if any(n.array in arrays for i, n in enumerate(imported.nodes) if i not in touched):
        return None
    return (nodes, fast, rest) if connected(imported, nodes, fast) else None


def _topology(
    imported: Imported, name: str, nodes: Iterable[int], links: Sequence[Link], inner: str | None
) -> Iterator[str]:
    inside = sorted(nodes)
    yield f"topology {name} {{"
    if inner:
        yield f"    {inner} {INNER}"
    used = {link.cls for link in links}
    for cls in imported.classes:
        if cls.name in used:
            yield from _class(cls)
    yield from _arrays(imported, inside)
    names = _Names(imported, set(inside) if inner else None)
    block: list[tuple[str, str]] = []
    last = ""
    for group in _runs(links):
        if group[0].cls != last:
            yield from _aligned(block)
            yield ""
            last, block = group[0].cls, []
        block.append(_statement(names, group))
    yield from _aligned(block)
    for budget in imported.budgets:
        yield ""
        yield from _budget(names, budget)
    yield "}"


def _class(cls: LinkClass) -> Iterator[str]:
    nominal = "" if cls.nominal is None else f", nominal {rate_text(cls.nominal)}"
    kind = f", kind {cls.kind}" if cls.kind else ""
    yield from (f"    {line}" for line in _comment(cls.origin, COMMENT_WIDTH - 4))
    yield f"    link {cls.name} {{ {rate_text(cls.rate)}, {latency_text(cls.latency)}{nominal}{kind} }}"


def _arrays(imported: Imported, nodes: Sequence[int]) -> Iterator[str]:
    arrays: dict[tuple[NodeKind, str], list[int]] = {}
    for n in nodes:
        arrays.setdefault((imported.nodes[n].kind, imported.nodes[n].array), []).append(n)
    for (kind, array), members in sorted(arrays.items(), key=lambda item: _ORDER.index(item[0][0])):
        labels = [_plain(imported.nodes[m].label) for m in members[:LABELLED]]
        if len(members) <= LABELLED and any(label and label != f"GPU{i}" for i, label in enumerate(labels)):
            for line in _comment(
                "; ".join(f"{array}[{i}] {x or 'unnamed'}" for i, x in enumerate(labels)), COMMENT_WIDTH - 4
            ):
                yield f"    {line}"
        abilities = imported.nodes[members[0]].abilities
        braces = f" {{ {', '.join(abilities)} }}" if abilities else ""
        yield f"    {kind.value} {array}[{len(members)}]{braces}"


class _Names:
    """What nodes are called in the text."""

    def __init__(self, imported: Imported, own: set[int] | None) -> None:
        self._nodes = imported.nodes
        self._own = own
        self._sizes: dict[str, int] = {}
        for node in imported.nodes:
            self._sizes[node.array] = max(self._sizes.get(node.array, 0), node.index + 1)

    def one(self, n: int) -> str:
        node = self._nodes[n]
        return f"{self._lead(n)}{node.array}[{node.index}]"

    def many(self, nodes: Sequence[int]) -> str:
        """A whole array, a range of it, or one node."""
        first, last = self._nodes[nodes[0]], self._nodes[nodes[-1]]
        lead = self._lead(nodes[0])
        if len(nodes) == 1:
            return self.one(nodes[0])
        if len(nodes) == self._sizes[first.array]:
            return f"{lead}{first.array}"
        return f"{lead}{first.array}[{first.index}..{last.index}]"

    def follows(self, a: int, b: int) -> bool:
        """Whether b comes right after a in one array."""
        x, y = self._nodes[a], self._nodes[b]
        return x.array == y.array and y.index == x.index + 1 and self._lead(a) == self._lead(b)

    def _lead(self, n: int) -> str:
        return f"{INNER}." if self._own is not None and n not in self._own else ""


def _runs(links: Sequence[Link]) -> Iterator[list[Link]]:
    """Put links into groups that one statement can say: the same far end, count, class and origin."""
    run: list[Link] = []
    for link in links:
        if run and (link.b, link.count, link.cls, link.origin, link.both) == (
            run[-1].b,
            run[-1].count,
            run[-1].cls,
            run[-1].origin,
            run[-1].both,
        ):
            run.append(link)
            continue
        if run:
            yield run
        run = [link]
    if run:
        yield run


def _aligned(block: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Write statements with their comments below each other, as the formatter does."""
    start = 0
    while start < len(block):
        end = start + 1
        while block[start][1] and end < len(block) and block[end][1]:
            end += 1
        width = max(len(text) for text, _ in block[start:end]) + 4
        for text, comment in block[start:end]:
            padded = f"    {text}"
            if comment:
                padded = f"{padded:<{width if width <= WIDTH else 0}}  # {comment}"
            yield padded
        start = end


def _statement(names: _Names, group: Sequence[Link]) -> tuple[str, str]:
    pieces: list[list[int]] = []
    for link in group:
        if pieces and names.follows(pieces[-1][-1], link.a):
            pieces[-1].append(link.a)
        else:
            pieces.append([link.a])
    first = group[0]
    left = ", ".join(names.many(p) for p in pieces)
    count = f"{first.count} " if first.count != 1 else ""
    sign = "<->" if first.both else "->"
    return f"{left} {sign} {names.one(first.b)} : {count}{first.cls}", _plain(first.origin)


def _budget(names: _Names, budget: Budget) -> Iterator[str]:
    if budget.origin:
        yield f"    # {_plain(budget.origin)}"
    over = ", ".join(f"{names.one(a)} -> {names.one(b)}" for a, b in budget.pairs)
    yield f'    budget "{_plain(budget.name)}" {{ {rate_text(budget.rate)} over {over} }}'


def _comment(text: str, width: int = COMMENT_WIDTH) -> list[str]:
    lines = textwrap.wrap(_plain(text), width - 4, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" if i == 0 else f"#   {line}" for i, line in enumerate(lines)]


def _plain(text: str) -> str:
    """A text from a foreign file, fit to stand in a comment or in quotes."""
    plain = " ".join(text.split()).replace('"', "'")
    return plain if plain.isascii() and plain.isprintable() else visible(plain)


def rate_text(rate: Fraction) -> str:
    """``22 GB/s``: rounded to a thousandth of a GB/s, or to a byte where that would be nothing."""
    if rate < GIGA // 1000:
        return f"{max(1, round(rate))} B/s"
    return f"{_decimal(rate / GIGA)} GB/s"


def latency_text(latency: Fraction) -> str:
    """``0.7 us``: rounded to a picosecond."""
    return f"{_decimal(latency * 10**6, 6)} us"


def _decimal(number: Fraction, digits: int = 3) -> str:
    scaled = round(number * 10**digits)
    whole, part = divmod(scaled, 10**digits)
    return f"{whole}.{part:0{digits}d}".rstrip("0").rstrip(".")
