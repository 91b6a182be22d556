"""What can be said of a machine from its graph alone: facts, warnings, and a picture in text."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import NodeId, NodeKind, Topology

DRAWN_RANKS = 32
"""Larger machines are not drawn as a matrix."""
SHOWN_UPLINKS = 8


@dataclass(frozen=True, slots=True)
class Facts:
    """Lines of facts and of warnings."""

    facts: tuple[str, ...]
    warnings: tuple[str, ...]


def facts_of(topology: Topology) -> Facts:
    """Return facts and warnings of a machine."""
    facts = [*_counts(topology), *_classes(topology), *_ports(topology), *_hops(topology), *_uplinks(topology)]
    return Facts(tuple(facts), tuple(_warnings(topology)))


def _counts(topology: Topology) -> Iterator[str]:
    kinds = Counter(n.kind for n in topology.nodes)
    words = {NodeKind.GPU: "GPU", NodeKind.SWITCH: "switch", NodeKind.HOST: "host", NodeKind.NIC: "network card"}
    plural = {NodeKind.SWITCH: "switches"}
    yield ", ".join(
        f"{kinds[k]} {word if kinds[k] == 1 else plural.get(k, word + 's')}" for k, word in words.items() if kinds[k]
    )


def _classes(topology: Topology) -> Iterator[str]:
    for cls in topology.classes:
        links = [e for e in topology.links if e.cls == cls]
        total = sum(e.count for e in links)
        latency = f"{float(cls.latency * 10**6):g} us"
        yield f"{cls.name}: {total} links (each direction counted) of {_gbps(cls.bandwidth)}, {latency}"


def _ports(topology: Topology) -> Iterator[str]:
    rates = sorted({_out(topology, r) for r in topology.ranks})
    if rates:
        low, high = _gbps(rates[0]), _gbps(rates[-1])
        yield f"a GPU can send {low} at once" if low == high else f"a GPU can send {low} to {high} at once"


def _hops(topology: Topology) -> Iterator[str]:
    near: dict[NodeId, list[NodeId]] = {}
    for e in topology.links:
        near.setdefault(e.src, []).append(e.dst)
    if len(topology.ranks) > 512:
        return
    worst = 0
    for start in topology.ranks:
        far = {NodeId(start): 0}
        queue = deque([NodeId(start)])
        while queue:
            node = queue.popleft()
            for other in near.get(node, ()):
                if other not in far:
                    far[other] = far[node] + 1
                    queue.append(other)
        if any(NodeId(r) not in far for r in topology.ranks):
            return
        worst = max(worst, *(far[NodeId(r)] for r in topology.ranks))
    yield f"any GPU is within {worst} links of any other"


def _uplinks(topology: Topology) -> Iterator[str]:
    """Switches whose GPUs can send more than the way up can carry."""
    kinds = [n.kind for n in topology.nodes]
    into: dict[NodeId, list[tuple[NodeId, Fraction]]] = {}
    up: dict[NodeId, Fraction] = {}
    for e in topology.links:
        if kinds[e.dst] is NodeKind.SWITCH and kinds[e.src] is NodeKind.GPU:
            into.setdefault(e.dst, []).append((e.src, e.capacity))
        if kinds[e.src] is NodeKind.SWITCH and kinds[e.dst] in (NodeKind.SWITCH, NodeKind.HOST):
            up[e.src] = up.get(e.src, Fraction(0)) + e.capacity
    shared = [(n, g) for n, g in into.items() if n in up and sum(c for _, c in g) > up[n]]
    for node, gpus in shared[:SHOWN_UPLINKS]:
        total = sum((c for _, c in gpus), Fraction(0))
        name = topology.nodes[node].name
        yield f"the {len(gpus)} GPUs of {name} share {_gbps(up[node])} beyond it, of {_gbps(total)} that they can send"
    if shared[SHOWN_UPLINKS:]:
        yield f"and so for {len(shared) - SHOWN_UPLINKS} more switches"


def _warnings(topology: Topology) -> Iterator[str]:
    names = [n.name for n in topology.nodes]
    rates = {r: _out(topology, r) for r in topology.ranks}
    tally = Counter(rates.values())
    if len(tally) > 1:
        usual = max(tally, key=lambda v: (tally[v], v))
        odd = [r for r in topology.ranks if rates[r] != usual]
        some = ", ".join(f"{names[r]} {_gbps(rates[r])}" for r in odd[:8])
        more = ", ..." if odd[8:] else ""
        yield f"GPUs differ in what they can send: {some}{more}; {tally[usual]} others {_gbps(usual)}"
    capacity: dict[tuple[int, int], Fraction] = {}
    for e in topology.links:
        capacity[e.src, e.dst] = capacity.get((e.src, e.dst), Fraction(0)) + e.capacity
    oneway = [p for p in sorted(capacity) if capacity.get((p[1], p[0])) != capacity[p]]
    if oneway:
        a, b = oneway[0]
        more = f" (and {len(oneway) - 1} more pairs)" if oneway[1:] else ""
        yield f"{names[a]} -> {names[b]} is not as fast as the way back{more}"
    groups = _groups(topology)
    if len(groups) > 1:
        words = "; ".join(", ".join(names[r] for r in g[:4]) + (", ..." if g[4:] else "") for g in groups[:4])
        yield f"the GPUs fall into {len(groups)} parts that no link joins: {words}"


def _groups(topology: Topology) -> list[list[int]]:
    near: dict[int, list[int]] = {}
    for e in topology.links:
        near.setdefault(e.src, []).append(e.dst)
        near.setdefault(e.dst, []).append(e.src)
    seen: set[int] = set()
    found = []
    for rank in topology.ranks:
        if rank in seen:
            continue
        stack, part = [int(rank)], {int(rank)}
        while stack:
            for other in near.get(stack.pop(), ()):
                if other not in part:
                    part.add(other)
                    stack.append(other)
        seen |= part
        found.append([r for r in topology.ranks if r in part])
    return [[int(r) for r in g] for g in found]


def _out(topology: Topology, rank: int) -> Fraction:
    return sum((e.capacity for e in topology.links if e.src == rank), Fraction(0))


def _gbps(rate: Fraction) -> str:
    return f"{float(rate) / 1e9:g} GB/s"


def drawing(topology: Topology) -> str:
    """Return the machine as text: direct links between GPUs as a matrix, then what hangs on each other node."""
    lines = [*_matrix(topology), *_others(topology)]
    return "".join(f"{line}\n" for line in lines)


def _matrix(topology: Topology) -> Iterator[str]:
    ranks = topology.ranks
    if not 1 < len(ranks) <= DRAWN_RANKS:
        return
    counts: dict[tuple[int, int], int] = {}
    for e in topology.links:
        if e.dst < len(ranks) and e.src < len(ranks):
            counts[e.src, e.dst] = counts.get((e.src, e.dst), 0) + e.count
    if not counts:
        return
    names = [topology.nodes[r].name for r in ranks]
    lead = max(map(len, names))
    width = max(2, *(len(str(r)) for r in ranks), *(len(str(c)) for c in counts.values()))
    yield "links from (row) to (column)"
    yield f"{'':{lead}} " + " ".join(f"{r:>{width}}" for r in ranks)
    for r in ranks:
        cells = ("X" if r == c else str(counts.get((r, c), ".")) for c in ranks)
        yield f"{names[r]:{lead}} " + " ".join(f"{cell:>{width}}" for cell in cells)


def _others(topology: Topology) -> Iterator[str]:
    names = [n.name for n in topology.nodes]
    into: dict[int, list[str]] = {}
    for e in topology.links:
        count = f"{e.count} " if e.count != 1 else ""
        into.setdefault(e.dst, []).append(f"{names[e.src]} ({count}{e.cls.name})")
    for node in topology.nodes:
        if node.kind is not NodeKind.GPU:
            near = into.get(node.id, [])
            shown = ", ".join(near[:16]) + (f", and {len(near) - 16} more" if near[16:] else "")
            yield f"{node.kind.value} {node.name}: {shown}"
