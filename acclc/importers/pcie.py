"""The smallest PCIe tree that agrees with the classes of paths between devices.

A class says how far up the tree a path goes: PIX to one switch, PXB to another switch above or below, PHB and NODE to
the CPU of a NUMA node, SYS to another NUMA node. Where a cell shows NVLink, the class of the PCIe path is not known,
and any fits. The rule:

1. A NUMA node (a *host* of the language) for each set of devices that PIX, PXB, PHB or NODE join, or that the column
   of NUMA nodes puts together. SYS and different NUMA nodes keep devices apart. A device of which nothing is known
   joins the first host that nothing keeps it from. A host bridge is no node of its own: PHB and NODE both pass the CPU.
2. Within a host, devices that PIX or PXB join are behind switches; all others hang on the CPU directly.
3. A switch for each set that PIX joins; of sets that PXB joins, the first one's switch is on the CPU and the others
   are below it (a chain of two, as such machines are built), so that they share its one uplink.
4. All hosts are joined with each other; beyond eight, by a switch.

These are the fewest nodes that agree, but for ties of step 1 and 3, which go to the first in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PIX, PXB, PHB, NODE, SYS = 1, 2, 3, 4, 5
LEVELS: dict[str, int] = {"PIX": PIX, "PXB": PXB, "PHB": PHB, "NODE": NODE, "SYS": SYS, "SOC": SYS}
"""Class in the matrix -> how far up a path goes. SOC is what SYS was called before CUDA 9."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Devices a and b are joined at ``level`` by ``via`` (pairs of the matrix), but their own class says further."""

    pair: Pair
    level: int
    via: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch with its devices; ``above`` is the number of the switch it hangs on, None for the host."""

    host: int
    above: int | None
    devices: tuple[int, ...]


@dataclass(slots=True)
class Tree:
    """Hosts (each with its devices), switches, and what did not fit."""

    hosts: list[tuple[int, ...]] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    on_host: dict[int, int] = field(default_factory=dict)
    """Device -> host, for the devices that hang on no switch."""
    contradictions: list[Contradiction] = field(default_factory=list)
    against_numa: list[Pair] = field(default_factory=list)
    """SYS between devices of one NUMA node: the NUMA node was believed."""
    guessed: list[int] = field(default_factory=list)
    """Devices whose host nothing said."""


def infer(count: int, known: Mapping[Pair, int], places: Sequence[str]) -> Tree:
    """Return the tree of ``count`` devices; ``places[i]`` names a device's NUMA node ("" if that is not known)."""
    tree = Tree()
    far = _Far(count, known)
    for members in _hosts(count, places, far, tree):
        host = len(tree.hosts)
        tree.hosts.append(tuple(members))
        _switches(members, host, far, tree)
    return tree


class _Far:
    """The known classes by device, so that no loop runs over all pairs of devices that say nothing."""

    def __init__(self, count: int, known: Mapping[Pair, int]) -> None:
        self.of: list[dict[int, int]] = [{} for _ in range(count)]
        for (a, b), level in known.items():
            self.of[a][b] = level
            self.of[b][a] = level

    def components(self, members: Sequence[int], level: int) -> list[list[int]]:
        """Split members into sets that classes up to ``level`` join, in order of their first member."""
        inside = set(members)
        seen: set[int] = set()
        found = []
        for start in members:
            if start in seen:
                continue
            seen.add(start)
            stack, group = [start], [start]
            while stack:
                for other, how in self.of[stack.pop()].items():
                    if how <= level and other in inside and other not in seen:
                        seen.add(other)
                        stack.append(other)
                        group.append(other)
            found.append(sorted(group))
        return found

    def path(self, a: int, b: int, level: int) -> tuple[Pair, ...]:
        """Return the pairs that join a and b by classes up to ``level``."""
        before: dict[int, int] = {a: a}
        queue = [a]
        for node in queue:
            for other, how in self.of[node].items():
                if how <= level and other not in before:
                    before[other] = node
                    queue.append(other)
        way = []
        while b != a:
            way.append((min(b, before[b]), max(b, before[b])))
            b = before[b]
        return tuple(reversed(way))

    def check(self, group: Sequence[int], level: int, tree: Tree) -> None:
        """Report the first pair of a joined set whose own class goes further up."""
        inside = set(group)
        for a in group:
            for b, how in self.of[a].items():
                if a < b and b in inside and how > level:
                    others = [c for c in tree.contradictions if c.pair != (a, b)]  # the lower level says more
                    tree.contradictions = [*others, Contradiction((a, b), level, self.path(a, b, level))]
                    return


def _hosts(count: int, places: Sequence[str], far: _Far, tree: Tree) -> list[list[int]]:
    joined = far.components(range(count), NODE)
    for group in joined:
        far.check(group, NODE, tree)
    by_place: dict[str, int] = {}
    hosts: list[list[int]] = []
    lonely: list[int] = []
    for group in joined:
        names = [places[m] for m in group if places[m]]
        if not names and len(group) == 1 and not _apart_from_all(group[0], count, far):
            lonely += group
            continue
        home = next((by_place[n] for n in names if n in by_place), None)
        if home is None:
            home = len(hosts)
            hosts.append([])
        tree.against_numa += _sys_between(group, hosts[home], far)
        hosts[home] += group
        for n in names:
            by_place.setdefault(n, home)
    host_of = {m: h for h, members in enumerate(hosts) for m in members}
    for device in lonely:
        barred = {host_of[o] for o, how in far.of[device].items() if how > NODE and o in host_of}
        home = next((h for h in range(len(hosts)) if h not in barred), len(hosts))
        if home == len(hosts):
            hosts.append([])
        hosts[home].append(device)
        host_of[device] = home
        tree.guessed.append(device)
    return sorted((sorted(h) for h in hosts), key=lambda h: h[0])


def _apart_from_all(device: int, count: int, far: _Far) -> bool:
    return count > 1 and len(far.of[device]) == count - 1


def _sys_between(group: Iterable[int], home: Iterable[int], far: _Far) -> list[Pair]:
    members = set(home)
    return [(min(a, b), max(a, b)) for a in group for b, how in far.of[a].items() if b in members and how == SYS]


def _switches(members: Sequence[int], host: int, far: _Far, tree: Tree) -> None:
    for group in far.components(members, PXB):
        if len(group) == 1:
            tree.on_host[group[0]] = host
            continue
        far.check(group, PXB, tree)
        joined = far.components(group, PIX)
        for part in joined:
            far.check(part, PIX, tree)
        first: int | None = None
        for part in _first_fit(joined, far):
            tree.switches.append(Switch(host, first, tuple(part)))
            if first is None:
                first = len(tree.switches) - 1


def _first_fit(parts: list[list[int]], far: _Far) -> list[list[int]]:
    """Join sets between which no class is known, first fit: fewer switches agree as well."""
    found: list[list[int]] = []
    for part in parts:
        home = next((f for f in found if all(b not in far.of[a] for a in part for b in f)), None)
        if home is None:
            found.append(list(part))
        else:
            home += part
    return [sorted(f) for f in found]
