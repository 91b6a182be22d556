"""From one box to a cluster: copies of a topology, joined by their network cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.diagnostics import Diagnostic, DiagnosticError, suggest
from acclc.importers.emit import latency_text, rate_text
from acclc.importers.rates import MICRO, NET
from acclc.importers.settings import Settings
from acclc.ir.problem import NodeKind, Topology

FABRICS = ("rail", "switch")
"""One switch for each card of a box; one switch for all."""
MAX_HOSTS = 4096
NAME = "node"
"""What the copies are called in the text."""


@dataclass(frozen=True, slots=True)
class Port:
    """A node of the box that reaches the network, and its rate there in bytes/s."""

    name: str
    rate: Fraction


def choose(topologies: Sequence[Topology], wanted: str | None, own: Iterable[str]) -> Topology:
    """Return the box of a file: the one that is named, else the one with the most nodes (it has the cards).

    Raises:
        DiagnosticError: there is none, or none of that name.
    """
    names = set(own)
    there = [t for t in topologies if t.name in names]
    if wanted is not None:
        found = next((t for t in there if t.name == wanted), None)
        if found is None:
            near = suggest(wanted, [t.name for t in there])
            help = f"did you mean `{near}`?" if near else f"it has {', '.join(t.name for t in there) or 'none'}"
            raise _wrong(f"the file declares no topology `{wanted}` whose parameters all have a value", help)
        return found
    if not there:
        raise _wrong("the file declares no topology whose parameters all have a value", None)
    return max(there, key=lambda t: (len(t.nodes), -there.index(t)))


def join_text(box: Topology, file: str, hosts: int, fabric: str, settings: tuple[str, ...] = ()) -> str:
    """Return the text of a cluster of ``hosts`` copies of a box; ``file`` is what it imports.

    Raises:
        DiagnosticError: no such fabric, a number of hosts out of range, or a setting without meaning.
    """
    if fabric not in FABRICS:
        near = suggest(fabric, FABRICS)
        raise _wrong(
            f"there is no fabric `{fabric}`", f"did you mean `{near}`?" if near else f"there are {', '.join(FABRICS)}"
        )
    if not 1 < hosts <= MAX_HOSTS:
        raise _wrong(f"{hosts} hosts: 2 to {MAX_HOSTS} can be joined", None)
    known = Settings(settings)
    ports, origin = _ports(box, known)
    latency = known.latency("net")
    unused = known.unused()
    if unused is not None:
        raise DiagnosticError(Diagnostic(unused.code, unused.message, help="`net` is what joins the hosts"))
    late = NET.latency * MICRO if latency is None else latency
    return "\n".join(_lines(box, file, hosts, fabric, ports, late, origin)) + "\n"


def _wrong(message: str, help: str | None) -> DiagnosticError:
    return DiagnosticError(Diagnostic("import-join", message, help=help))


def _ports(box: Topology, settings: Settings) -> tuple[tuple[Port, ...], str]:
    given = settings.rate("net")
    cards = [n for n in box.nodes if n.kind is NodeKind.NIC]
    if not cards:
        rate = NET.rate * 10**9 if given is None else given
        why = "by --set net" if given is not None else NET.source
        ranks = tuple(Port(box.nodes[r].name, rate) for r in box.ranks)
        return ranks, f"Assumed: a network card for each GPU, since the box has none; {why}."
    out: dict[int, Fraction] = {}
    for e in box.links:
        out[e.src] = max(out.get(e.src, Fraction(0)), e.capacity)
    ports = tuple(Port(n.name, out.get(n.id, Fraction(0)) if given is None else given) for n in cards)
    lost = next((p.name for p in ports if p.rate == 0), None)
    if lost is not None:
        raise _wrong(f"the network card `{lost}` has no link that leaves it", "give its rate: `--set net=25` (GB/s)")
    why = "by --set net" if given is not None else "that of its fastest link in the box"
    return ports, f"The rate of a card is {why}."


def _lines(
    box: Topology, file: str, hosts: int, fabric: str, ports: tuple[Port, ...], latency: Fraction, origin: str
) -> Iterator[str]:
    yield f'import "{file}"'
    yield ""
    what = (
        "card r of every host is on rail r" if fabric == "rail" else "all cards are on one switch that blocks nothing"
    )
    yield f"# {hosts} hosts, each a {box.name}: {what}."
    yield f"# {origin}"
    name = "cluster" if box.name != "cluster" else "cluster_of_boxes"
    yield f"topology {name}(hosts = {hosts}) {{"
    classes = {
        rate: "wire" if i == 0 else f"wire{i + 1}" for i, rate in enumerate(dict.fromkeys(p.rate for p in ports))
    }
    for rate, cls in classes.items():
        yield f"    link {cls} {{ {rate_text(rate)}, {latency_text(latency)}, kind net }}"
    yield f"    {box.name} {NAME}[hosts]"
    yield f"    switch {'rail' if fabric == 'rail' else 'fabric'}" + (f"[{len(ports)}]" if fabric == "rail" else "")
    yield ""
    for start, end in _runs(ports):
        yield from _join(ports, start, end, fabric, classes)
    yield "}"
    yield ""
    yield f"all_reduce on {name}"


def _join(ports: tuple[Port, ...], start: int, end: int, fabric: str, classes: dict[Fraction, str]) -> Iterator[str]:
    cls = classes[ports[start].rate]
    if end - start > 1:
        array = _split(ports[start].name)[0]
        first = _split(ports[start].name)[1]
        index = "r" if first == start else f"r + {first - start}" if first > start else f"r - {start - first}"
        left = f"{NAME}[b].{array}[{index}]"
        right = "rail[r]" if fabric == "rail" else "fabric"
        yield f"    for b in 0..<hosts, r in {start}..<{end} {{ {left} <-> {right} : {cls} }}"
        return
    right = f"rail[{start}]" if fabric == "rail" else "fabric"
    yield f"    for b in 0..<hosts {{ {NAME}[b].{ports[start].name} <-> {right} : {cls} }}"


def _runs(ports: tuple[Port, ...]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of ports that are consecutive members of one array, of one rate."""
    start = 0
    for i in range(1, len(ports) + 1):
        if i < len(ports):
            (array, index), (before, last) = _split(ports[i].name), _split(ports[i - 1].name)
            if array == before and array and index == last + 1 and ports[i].rate == ports[i - 1].rate:
                continue
        yield start, i
        start = i


def _split(name: str) -> tuple[str, int]:
    """``fast.g[3]`` -> (``fast.g``, 3); ("", 0) where it is not of one dimension."""
    array, bracket, rest = name.rpartition("[")
    index = rest.rstrip("]")
    return (array, int(index)) if bracket and index.isdigit() else ("", 0)
