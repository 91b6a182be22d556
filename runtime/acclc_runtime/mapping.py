"""Which device plays which rank: the machine that an artefact was compiled for, found within the machine that is there.

A machine is the same where a map of GPUs to GPUs and switches to switches takes every link to links of as many lanes.
What is there may be larger: a part of it does, the same between the chosen GPUs if there is one, else one that has at
least the links. Rates are not compared across kinds (nominal in one file, effective in another); within a kind a link
counts by its rate relative to the fastest class of that kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from acclc_runtime.codec import from_json, to_json
from acclc_runtime.errors import DamagedFileError, MachineMismatchError
from acclc_runtime.manifest import ManifestLink, ManifestTopology

MACHINE_FORMAT, MACHINE_VERSION = "acclc-machine", 1
SWITCHED = ("nvlink", "xgmi")
"""Kinds whose switches make one fabric: how many switches a file shows of it does not matter."""
MAX_STEPS = 200_000
"""Pairs of nodes that one search looks at before it gives up."""

Edge = tuple[int, int, str]
"""(source, target, kind of link)."""


@dataclass(frozen=True, slots=True)
class RankMap:
    """``devices[i]`` is the GPU of the machine (its position among them) that plays rank i. ``how``: ``same`` (the
    machine is the one compiled for), ``part`` (a part of it is), or ``within`` (a part has these links and more)."""

    devices: tuple[int, ...]
    how: str
    wanted: str
    machine: str
    names: tuple[str, ...]
    """Of the GPUs, by rank."""

    @property
    def identity(self) -> bool:
        """Whether ranks run on the GPUs in order."""
        return self.devices == tuple(range(len(self.devices)))

    def words(self) -> str:
        """The map for a person."""
        verdict = {"same": "is", "part": "holds", "within": "has all links of"}[self.how]
        pairs = ", ".join(f"{rank} on {name}" for rank, name in enumerate(self.names))
        return f"{self.machine} {verdict} {self.wanted}; ranks: {pairs}"


class _GaveUpError(Exception):
    pass


class _Graph:
    """Nodes by kind, and what leads from one to another, by kind of link."""

    def __init__(self, topology: ManifestTopology, kinds: frozenset[str]) -> None:
        links = [x for x in topology.links if not kinds or x.kind in kinds]
        fastest: dict[str, Fraction] = {}
        for x in links:
            fastest[x.kind] = max(fastest.get(x.kind, Fraction(0)), x.bandwidth)
        merged = _merged_switches(topology, links)
        touched = {merged[n] for x in links for n in (x.src, x.dst)}
        kept = [n for n, k in enumerate(topology.kinds) if merged[n] == n and (k == "gpu" or n in touched)]
        number = {n: i for i, n in enumerate(kept)}
        self.kinds = [topology.kinds[n] for n in kept]
        self.edges: dict[Edge, Fraction] = {}
        for x in links:
            a, b = number[merged[x.src]], number[merged[x.dst]]
            if a != b:
                edge = (a, b, "" if not kinds else x.kind)
                self.edges[edge] = self.edges.get(edge, Fraction(0)) + x.count * x.bandwidth / fastest[x.kind]
        self._share_of_fabric()
        self.gpus = [i for i, k in enumerate(self.kinds) if k == "gpu"]
        self.near: list[dict[tuple[int, str, bool], Fraction]] = [{} for _ in kept]
        for (a, b, kind), weight in self.edges.items():
            self.near[a][b, kind, True] = weight
            self.near[b][a, kind, False] = weight

    def _share_of_fabric(self) -> None:
        """Count a link to a fast switch relative to the widest one: 18 links of 25 GB/s are as good as one of 450."""
        for kind in SWITCHED:
            uplinks = [e for e in self.edges if e[2] == kind and {self.kinds[e[0]], self.kinds[e[1]]} != {"gpu"}]
            widest = max((self.edges[e] for e in uplinks), default=Fraction(1))
            for e in uplinks:
                self.edges[e] /= widest

    def degree(self, node: int) -> Mapping[tuple[str, bool], Fraction]:
        """What leaves and enters a node in all, by kind."""
        total: dict[tuple[str, bool], Fraction] = {}
        for (_, kind, out), weight in self.near[node].items():
            total[kind, out] = total.get((kind, out), Fraction(0)) + weight
        return total


def _merged_switches(topology: ManifestTopology, links: Sequence[ManifestLink]) -> list[int]:
    """Return for each node the one that stands for it: fast switches that the same GPUs are on are one."""
    fast = {n for x in links if x.kind in SWITCHED for n in (x.src, x.dst) if topology.kinds[n] == "switch"}
    around: dict[int, set[int]] = {n: set() for n in fast}
    for x in links:
        for a, b in ((x.src, x.dst), (x.dst, x.src)):
            if a in fast:
                around[a].add(b)
    first: dict[frozenset[int], int] = {}
    return [first.setdefault(frozenset(around[n]), n) if n in fast else n for n in range(len(topology.kinds))]


def find_map(wanted: ManifestTopology, machine: ManifestTopology, fixed: Sequence[int] | None = None) -> RankMap:
    """Return which GPU of ``machine`` plays each rank of ``wanted``, in order of ranks; the identity where that does.

    ``fixed``: the GPUs by rank, where these are to be checked.

    Raises:
        MachineMismatchError: the machine has not these links; says which.
    """
    kinds = frozenset(x.kind for x in wanted.links)
    known = kinds if kinds and "" not in kinds and kinds <= {x.kind for x in machine.links} else frozenset[str]()
    if kinds and "" not in kinds and not known:
        lacking = ", ".join(sorted(kinds - {x.kind for x in machine.links}))
        raise MachineMismatchError(f"{machine.name} has no links of kind {lacking}, which {wanted.name} consists of")
    asked, there = _Graph(wanted, known), _Graph(machine, known)
    if len(asked.gpus) > len(there.gpus):
        raise MachineMismatchError(f"{wanted.name} has {len(asked.gpus)} GPUs, {machine.name} only {len(there.gpus)}")
    positions = {n: i for i, n in enumerate(n for n, k in enumerate(machine.kinds) if k == "gpu")}
    names = [machine.nodes[n] for n in positions]
    gave_up = False
    same_size = sorted(asked.kinds) == sorted(there.kinds) and len(asked.edges) == len(there.edges)
    for exactly, how in ((True, "same" if same_size else "part"), (False, "within")):
        try:
            found = _search(asked, there, exactly, fixed)
        except _GaveUpError:
            gave_up = True
            continue
        if found is not None:
            devices = tuple(there.gpus.index(found[n]) for n in asked.gpus)
            return RankMap(devices, how, wanted.name, machine.name, tuple(names[d] for d in devices))
    raise MachineMismatchError(_mismatch(wanted, machine, asked, there, gave_up))


def _search(asked: _Graph, there: _Graph, exactly: bool, fixed: Sequence[int] | None = None) -> dict[int, int] | None:
    """Return asked node -> node that is there: breadth first over the links, candidates in order; None without one.

    ``exactly``: between two chosen nodes there are these links and no others.
    """
    order = _order(asked)
    whole = exactly and len(asked.kinds) == len(there.kinds)
    fits = [
        # the node of the same number first, so that the identity is found where it is a map
        sorted((b for b in range(len(there.kinds)) if _may(asked, a, there, b, whole)), key=lambda b: (b != a, b))
        for a in range(len(asked.kinds))
    ]
    for rank, device in enumerate(fixed or ()):
        node = asked.gpus[rank]
        fits[node] = [b for b in fits[node] if b == there.gpus[device]]
    found: dict[int, int] = {}
    used: set[int] = set()
    tries: list[Iterator[int]] = []
    steps = 0
    while len(found) < len(order):
        a = order[len(found)]
        if len(tries) == len(found):
            tries.append(iter(fits[a]))
        for b in tries[-1]:
            steps += 1
            if steps > MAX_STEPS:
                raise _GaveUpError
            if b not in used and _agrees(asked, there, found, a, b, exactly):
                found[a] = b
                used.add(b)
                break
        else:
            tries.pop()
            if not found:
                return None
            used.discard(found.popitem()[1])
    return found


def _order(graph: _Graph) -> list[int]:
    """Nodes so that each is next to one before it, where there is such a one."""
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(graph.kinds)):
        queue = [start] if start not in seen else []
        seen.update(queue)
        for node in queue:
            order.append(node)
            for other in sorted({n for n, _, _ in graph.near[node]} - seen):
                seen.add(other)
                queue.append(other)
    return order


def _may(asked: _Graph, a: int, there: _Graph, b: int, whole: bool) -> bool:
    """Whether node b can stand for a, looked at alone: of its kind, with as much in all (``whole``) or more."""
    if asked.kinds[a] != there.kinds[b]:
        return False
    need, has = asked.degree(a), there.degree(b)
    return need == has if whole else all(has.get(key, 0) >= weight for key, weight in need.items())


def _agrees(asked: _Graph, there: _Graph, found: Mapping[int, int], a: int, b: int, exactly: bool) -> bool:
    near, other = asked.near[a], there.near[b]
    for (n, kind, out), weight in near.items():
        if n in found:
            has = other.get((found[n], kind, out), Fraction(0))
            if has < weight or (exactly and has > weight):
                return False
    if not exactly:
        return True
    chosen = {m: n for n, m in found.items()}
    return all((chosen[m], kind, out) in near for m, kind, out in other if m in chosen)


def _mismatch(wanted: ManifestTopology, machine: ManifestTopology, asked: _Graph, there: _Graph, gave_up: bool) -> str:
    text = f"{machine.name} is not {wanted.name}, and no part of it is: "
    if gave_up:
        return text + "no map of the ranks was found within the work allowed"
    for a in asked.gpus:
        if not any(_may(asked, a, there, b, False) for b in range(len(there.kinds))):
            words = ", ".join(
                f"{float(weight):g} {kind or 'links'} {'out' if out else 'in'}"
                for (kind, out), weight in sorted(asked.degree(a).items())
            )
            return text + f"no GPU there has what rank {a} has ({words})"
    return text + "its links join the GPUs in another way"


def machine_bytes(machine: ManifestTopology) -> bytes:
    """Return the bytes of a machine file: what ``machine=`` takes, as ``acclc topo show --machine`` writes it."""
    return to_json(machine, MACHINE_FORMAT, MACHINE_VERSION)


def read_machine(path: str | Path) -> ManifestTopology:
    """Read a machine file.

    Raises:
        DamagedFileError: it is not there, or not such a file.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DamagedFileError(f"{path}: {error.strerror}") from None
    machine = from_json(data, ManifestTopology, MACHINE_FORMAT, MACHINE_VERSION, str(path))
    count = len(machine.kinds)
    if len(machine.nodes) != count or "gpu" not in machine.kinds:
        raise DamagedFileError(f"{path}: its nodes and kinds do not agree, or none is a GPU")
    if any(not (0 <= x.src < count and 0 <= x.dst < count and x.count > 0 and x.bandwidth > 0) for x in machine.links):
        raise DamagedFileError(f"{path}: a link joins no nodes, or carries nothing")
    return machine
