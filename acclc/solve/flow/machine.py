"""What the programs see: arcs of each commodity, rows of links and budgets; with a symmetry, one of each orbit.

A group of automorphisms that keeps the demand and moves every commodity lets a program have the flows of one commodity
of each orbit: its images flow likewise. A link then carries, of a representative's flow, what is on all of the link's
images, and links of one orbit have one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, Rank
from acclc.solve.flow.task import Commodity, FlowTask, may_pass
from acclc.solve.symmetry import Automorphism, Permutation, automorphism, automorphisms, free_group

PER_IMAGE = 6
EFFORT_PER_IMAGE = 200
"""Of the search for automorphisms: translations come early."""

Amounts = Mapping[LinkId, int]
"""Whole units on links."""


@dataclass(frozen=True, slots=True)
class Row:
    """A link or a budget: what the representatives put on it, per unit on each link, and its capacity in lanes."""

    use: tuple[tuple[LinkId, int], ...]
    capacity: int


class FlowMachine:
    """Representatives of a task's commodities, where they may flow, and what limits them."""

    def __init__(self, task: FlowTask, symmetry: bool) -> None:
        self.task = task
        assert task.topology.unit is not None, "without links nothing flows"
        self.unit: Fraction = task.topology.unit
        self.links = task.topology.links
        self.group = _group(task) if symmetry else [_identity(task)]
        self.representatives = _representatives(task.commodities, self.group)
        self.arcs = [self._arcs(c) for c in self.representatives]
        self.rows = self._rows()

    def _arcs(self, commodity: Commodity) -> list[LinkId]:
        """The links that may carry a commodity: none back into an origin, none out of who may not pass on."""
        origins = set(map(int, commodity.origins))
        return [
            e.id
            for e in self.links
            if e.dst not in origins and e.src != e.dst and (e.src in origins or may_pass(self.task, e.src))
        ]

    def _rows(self) -> list[Row]:
        order = len(self.group)
        orbits = {e.id: sorted({a.links[e.id] for a in self.group}) for e in self.links}
        lanes = [int(e.capacity / self.unit) for e in self.links]
        found: dict[tuple[tuple[LinkId, int], ...], int] = {}
        for members, capacity in [
            *(((e.id,), lanes[e.id]) for e in self.links),
            *((b.links, int(b.capacity / self.unit)) for b in self.task.topology.budgets),
        ]:
            use = Counter[LinkId]()
            for link in members:
                for image in orbits[link]:
                    use[LinkId(image)] += order // len(orbits[link])
            key = tuple(sorted(use.items()))
            found[key] = min(capacity, found.get(key, capacity))
        return [Row(use, capacity) for use, capacity in found.items()]

    @property
    def size(self) -> int:
        """Variables of a program."""
        return sum(map(len, self.arcs))

    def nodes_of(self, number: int) -> list[int]:
        """Return the nodes at which a representative's flow is balanced: all but its origins."""
        origins = set(map(int, self.representatives[number].origins))
        return [n.id for n in self.task.topology.nodes if n.id not in origins]

    def time(self, k: int, flows: Sequence[Amounts]) -> Fraction:
        """Return the seconds a byte of shard that whole units take, k to a shard."""
        load = Counter[LinkId]()
        for amounts in flows:
            load.update(amounts)
        worst = max(Fraction(sum(n * load[e] for e, n in row.use), row.capacity) for row in self.rows)
        return worst / (k * self.unit)

    def carries(self, k: int, flows: Sequence[Amounts]) -> bool:
        """Whether whole units bring k units of every shard of the representatives to their ends."""
        for number, (commodity, amounts) in enumerate(zip(self.representatives, flows, strict=True)):
            balance = Counter[int]()
            for link, n in amounts.items():
                if n < 0:
                    return False
                balance[self.links[link].src] -= n
                balance[self.links[link].dst] += n
            demand = commodity.demand
            if any(balance[v] != k * demand.get(Rank(v), 0) for v in self.nodes_of(number)):
                return False
        return True


def image_of(commodity: Commodity, nodes: Permutation) -> tuple[Rank, ...]:
    """Return the origins of a commodity's image."""
    return tuple(sorted(Rank(nodes[r]) for r in commodity.origins))


def _identity(task: FlowTask) -> Automorphism:
    topology = task.topology
    return Automorphism(
        tuple(range(len(topology.nodes))), tuple(range(len(topology.links))), tuple(range(len(topology.budgets)))
    )


def _group(task: FlowTask) -> list[Automorphism]:
    """Return the largest group found that keeps the demand and moves every commodity; the identity is first."""
    of = {c.origins: c.demand for c in task.commodities}
    known: dict[Permutation, bool] = {}

    def free(nodes: Permutation) -> bool:
        if nodes not in known:
            known[nodes] = {nodes[r] for r in task.relays} == task.relays and all(
                image_of(c, nodes) != c.origins
                and of.get(image_of(c, nodes)) == {nodes[end]: n for end, n in c.demand.items()}
                for c in task.commodities
            )
        return known[nodes]

    if len(of) < 2:
        return [_identity(task)]
    found = [a.nodes for a in automorphisms(task.topology, PER_IMAGE, EFFORT_PER_IMAGE)]
    chosen = free_group([nodes for nodes in found if free(nodes)], free, len(of))
    full = [automorphism(task.topology, nodes) for nodes in chosen]
    group = [a for a in full if a is not None]
    return group if group and len(group) == len(full) else [_identity(task)]


def _representatives(commodities: Sequence[Commodity], group: Sequence[Automorphism]) -> list[Commodity]:
    """Return the first commodity of each orbit."""
    return [c for c in commodities if all(image_of(c, a.nodes) >= c.origins for a in group)]
