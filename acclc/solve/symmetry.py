"""Symmetries of a machine and of what is wanted on it. Used only to find schedules: never to prove there is none.

An automorphism permutes nodes so that links (with their rates) and budgets map to links and budgets. A group whose
elements, but for the identity, move every item lets a model have variables for one item of each orbit and
constraints for one row of each. Method: colour refinement, then backtracking with a bound on its effort; groups are
grown greedily from automorphisms none of whose powers leaves an item in place.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from acclc.ir.problem import LinkId, Rank, Topology
from acclc.solve.items import Item, Moves
from acclc.solve.network import Edge, Network

Permutation = tuple[int, ...]

PER_IMAGE = 24
"""Automorphisms looked for that take the first node to one given node."""
EFFORT_PER_IMAGE = 3_000
"""Nodes of the search tree for them."""
GROUP_LIMIT = 64
STARTS = 12
"""From how many automorphisms a group is grown; the largest is kept."""


@dataclass(frozen=True, slots=True)
class Automorphism:
    """A symmetry of a topology: node n goes to ``nodes[n]``, link k to ``links[k]``, budget b to ``budgets[b]``."""

    nodes: Permutation
    links: Permutation
    budgets: Permutation


@dataclass(frozen=True)
class Action:
    """A group acting on items, ranks, edges and rows; the identity is first."""

    items: tuple[Permutation, ...]
    ranks: tuple[Permutation, ...]
    edges: tuple[Permutation, ...]
    orbit_of_row: tuple[int, ...]
    """The least row of each row's orbit."""
    weight: tuple[int, ...]
    """Order of the group / length of the row's orbit."""

    @property
    def order(self) -> int:
        """How many elements the group has."""
        return len(self.items)

    def is_representative(self, item: int) -> bool:
        """Whether an item is the first of its orbit."""
        return all(g[item] >= item for g in self.items)

    def is_first_rank(self, rank: Rank) -> bool:
        """Whether a rank is the first of its orbit."""
        return all(g[rank] >= rank for g in self.ranks)

    def loads(self, edge: Edge) -> tuple[tuple[int, int], ...]:
        """Return the loads on rows' orbits that an edge of a representative causes, all its images counted."""
        total: dict[int, int] = {}
        for row, times in edge.rows:
            orbit = self.orbit_of_row[row]
            total[orbit] = total.get(orbit, 0) + times * self.weight[row]
        return tuple(sorted(total.items()))

    def spread(self, network: Network, moves: Mapping[int, Moves]) -> dict[int, Moves]:
        """Return the moves of all items from those of the representatives."""
        result: dict[int, Moves] = {}
        for item, move in moves.items():
            for on_items, on_edges in zip(self.items, self.edges, strict=True):
                result[on_items[item]] = Moves(
                    _image(network, on_edges, move.inward), _image(network, on_edges, move.outward)
                )
        return result


def _image(network: Network, on_edges: Permutation, moves: Iterable[tuple[Edge, int]]) -> tuple[tuple[Edge, int], ...]:
    return tuple((network.edges[on_edges[e.id]], s) for e, s in moves)


def automorphisms(topology: Topology, per_image: int = PER_IMAGE, effort: int = EFFORT_PER_IMAGE) -> list[Automorphism]:
    """Return automorphisms, the identity first: all of them on machines with few, some on the others.

    For each node that may be the first node's image ``per_image`` of them are looked for, with so much ``effort`` a
    node of the machine.
    """
    result: list[Automorphism] = []
    between = _links_between(topology)
    colour = _refined_colours(topology, between)
    order = _search_order(topology)
    if not order:
        return []
    first, around = order[0], _rates_around(topology, between)
    for image in [first, *(n for n in range(len(topology.nodes)) if n != first and colour[n] == colour[first])]:
        for nodes in _extend(around, colour, order, image, (per_image, effort)):
            found = _with_links(topology, between, nodes)
            if found is not None:
                result.append(found)
    identity = tuple(range(len(topology.nodes)))
    return sorted(result, key=lambda a: a.nodes != identity)


def _links_between(topology: Topology) -> dict[tuple[int, int], tuple[LinkId, ...]]:
    """The links of each ordered pair of nodes, by capacity."""
    table: dict[tuple[int, int], list[LinkId]] = {}
    for link in sorted(topology.links, key=lambda x: (x.capacity, x.id)):
        table.setdefault((link.src, link.dst), []).append(link.id)
    return {pair: tuple(ids) for pair, ids in table.items()}


def _rates(topology: Topology, between: Mapping[tuple[int, int], tuple[LinkId, ...]], u: int, v: int) -> object:
    return tuple(topology.links[x].capacity for x in between.get((u, v), ()))


def _refined_colours(topology: Topology, between: Mapping[tuple[int, int], tuple[LinkId, ...]]) -> list[int]:
    """Colour nodes so that only nodes of one colour can be images of each other."""
    keys: list[object] = [(n.kind, n.can_multicast, n.can_reduce) for n in topology.nodes]
    colour = _numbered(keys)
    neighbours: dict[int, set[int]] = {n.id: set() for n in topology.nodes}
    for u, v in between:
        neighbours[u].add(v)
        neighbours[v].add(u)
    while True:
        keys = []
        for n in range(len(colour)):
            around = [
                (colour[m], _rates(topology, between, n, m), _rates(topology, between, m, n)) for m in neighbours[n]
            ]
            keys.append((colour[n], tuple(sorted(around))))
        finer = _numbered(keys)
        if len(set(finer)) == len(set(colour)):
            return colour
        colour = finer


def _numbered(keys: Sequence[object]) -> list[int]:
    number: dict[object, int] = {}
    return [number.setdefault(k, len(number)) for k in keys]


def _search_order(topology: Topology) -> list[int]:
    """Nodes by breadth from the first rank, so that each new node is next to one that has its image already."""
    around: dict[int, list[int]] = {n.id: [] for n in topology.nodes}
    for link in topology.links:
        around[link.src].append(link.dst)
        around[link.dst].append(link.src)
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(topology.nodes)):
        queue = deque([start] if start not in seen else [])
        seen.add(start)
        while queue:
            u = queue.popleft()
            order.append(u)
            for v in around[u]:
                if v not in seen:
                    seen.add(v)
                    queue.append(v)
    return order


def _extend(
    around: Sequence[Mapping[int, int]],
    colour: Sequence[int],
    order: Sequence[int],
    image: int,
    limits: tuple[int, int],
) -> Iterator[Permutation]:
    """Yield node permutations that take the first of ``order`` to ``image``, so many, within the effort a node."""
    count, (most, patience) = len(order), limits
    chosen = [image]
    used = {image}
    image_of = {order[0]: image}
    next_candidate = [0] * (count + 1)
    found = effort = 0
    while chosen:
        depth = len(chosen)
        if depth == count:
            result = [0] * count
            for node, target in zip(order, chosen, strict=True):
                result[node] = target
            yield tuple(result)
            found += 1
        step_back = depth == count
        if not step_back:
            node = order[depth]
            step_back = True
            placed = [(image_of[a], rates) for a, rates in around[node].items() if a in image_of]
            for k in range(next_candidate[depth], count):
                target = (k + image) % count  # rotations of well-numbered machines come early
                effort += 1
                if target in used or colour[target] != colour[node]:
                    continue
                there = around[target]
                # as many neighbours placed, and each with its rates: so no others are neighbours either
                if len(placed) == len(used & there.keys()) and all(there.get(b) == rates for b, rates in placed):
                    next_candidate[depth] = k + 1
                    next_candidate[depth + 1] = 0
                    chosen.append(target)
                    used.add(target)
                    image_of[node] = target
                    step_back = False
                    break
        if found >= most or effort > patience * count:
            return
        if step_back:
            used.discard(chosen.pop())
            image_of.pop(order[len(chosen)], None)


def _rates_around(topology: Topology, between: Mapping[tuple[int, int], tuple[LinkId, ...]]) -> list[dict[int, int]]:
    """For each node its neighbours, with a number for the rates of the links there and back."""
    result: list[dict[int, int]] = [{} for _ in topology.nodes]
    number: dict[object, int] = {}
    for u, v in between:
        there, back = _rates(topology, between, u, v), _rates(topology, between, v, u)
        result[u][v] = number.setdefault((there, back), len(number))
        result[v][u] = number.setdefault((back, there), len(number))
    return result


def _with_links(
    topology: Topology, between: Mapping[tuple[int, int], tuple[LinkId, ...]], nodes: Permutation
) -> Automorphism | None:
    """Add what a node permutation does to links and budgets; None if budgets are not kept."""
    links = [0] * len(topology.links)
    for (u, v), ids in between.items():
        for a, b in zip(ids, between[nodes[u], nodes[v]], strict=True):
            links[a] = b
    places: dict[object, list[int]] = {}
    for k, budget in enumerate(topology.budgets):
        places.setdefault((frozenset(budget.links), budget.capacity), []).append(k)
    budgets: list[int] = []
    for key in ((frozenset(b.links), b.capacity) for b in topology.budgets):
        rank_among_equals = places[key].index(len(budgets))
        image = places.get((frozenset(LinkId(links[x]) for x in key[0]), key[1]), [])
        if rank_among_equals >= len(image):
            return None
        budgets.append(image[rank_among_equals])
    return Automorphism(nodes, tuple(links), tuple(budgets))


Key = tuple[object, frozenset[Rank], frozenset[Rank], Rank | None]
"""What distinguishes items in kind: items with equal keys are interchangeable."""


def _key(item: Item) -> Key:
    return (item.kind, frozenset(item.sources), frozenset(item.targets), item.root)


class Symmetries:
    """Groups that move all items of a problem freely, the largest first; smaller ones allow more schedules.

    Made once for a problem, from its items with any number of chunks; ``actions`` then serves every number.
    """

    def __init__(self, network: Network, items: Sequence[Item]) -> None:
        self._network = network
        self._tally = Counter(_key(i) for i in items)
        self._moved = {i.sources[0] for i in items if i.is_path} | {i.targets[0] for i in items if i.is_path}
        self._fits: dict[Permutation, bool] = {}
        self._groups = self._choose(automorphisms(network.topology)) if items else []

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders of the groups."""
        return tuple(len(g) for g in self._groups)

    def actions(self, items: Sequence[Item]) -> list[Action]:
        """Return what each group does to these items."""
        made = [_action(self._network, items, group) for group in self._groups]
        return [m for m in made if m is not None]

    def _choose(self, found: Sequence[Automorphism]) -> list[list[Automorphism]]:
        """Grow a group from several starts and keep the largest, and below it groups of one generator."""
        of = {a.nodes: a for a in found}
        movers = [a.nodes for a in found if self._free(a.nodes)]
        largest = free_group(movers, self._free, len(self._network.ranks))
        chosen = [largest] if largest else []
        for nodes in largest[1:]:
            small = closure([nodes], self._free)
            if small is not None and len(small) < len(chosen[-1]) and len(chosen) < 3:
                chosen.append(small)
        between = _links_between(self._network.topology)
        full = [[of.get(n) or _with_links(self._network.topology, between, n) for n in g] for g in chosen]
        return [[a for a in g if a is not None] for g in full if None not in g]

    def _free(self, nodes: Permutation) -> bool:
        """Whether a permutation keeps what is wanted, and leaves nothing in place that a model has variables for."""
        if nodes not in self._fits:
            relays = self._network.relays
            self._fits[nodes] = (
                all(nodes[r] != r for r in self._moved)
                and {nodes[r] for r in relays} == set(relays)
                and all(self._moves_key(key, count, nodes) for key, count in self._tally.items())
            )
        return self._fits[nodes]

    def _moves_key(self, key: Key, count: int, nodes: Permutation) -> bool:
        image = _image_of(key, nodes)
        return image != key and self._tally[image] == count


def free_group(movers: Sequence[Permutation], free: Callable[[Permutation], bool], enough: int) -> list[Permutation]:
    """Return the largest group, the identity first, that greedy growth from some starts finds; empty if there is none.

    ``free`` says of a permutation whether it may be in the group; ``movers`` are some that may. ``enough``: an order
    with which the search is content.
    """
    largest: list[Permutation] = []
    for start in range(min(STARTS, len(movers))):
        group: list[Permutation] = []
        generators: list[Permutation] = []
        for nodes in [*movers[start:], *movers[:start]]:
            if nodes in group:
                continue
            larger = closure([*generators, nodes], free)
            if larger is not None:
                group = larger
                generators.append(nodes)
            if len(group) >= enough:
                break
        if len(group) > len(largest):
            largest = group
        if len(largest) >= enough:
            break
    return largest


def closure(generators: Sequence[Permutation], free: Callable[[Permutation], bool]) -> list[Permutation] | None:
    """Return the group of some permutations, the identity first; None if it is not free, or too large."""
    identity = tuple(range(len(generators[0])))
    group = [identity]
    known = {identity}
    for element in group:
        for g in generators:
            product = tuple(g[n] for n in element)
            if product in known:
                continue
            if len(group) >= GROUP_LIMIT or not free(product):
                return None
            known.add(product)
            group.append(product)
    return group


def automorphism(topology: Topology, nodes: Permutation) -> Automorphism | None:
    """Return what a permutation of the nodes that keeps links does to links and budgets; None if budgets are not kept.

    It may be made of automorphisms: their products have no links of their own written down.
    """
    return _with_links(topology, _links_between(topology), nodes)


def _image_of(key: Key, nodes: Permutation) -> Key:
    kind, sources, targets, root = key
    return (
        kind,
        frozenset(Rank(nodes[r]) for r in sources),
        frozenset(Rank(nodes[r]) for r in targets),
        None if root is None else Rank(nodes[root]),
    )


def _action(network: Network, items: Sequence[Item], group: Sequence[Automorphism]) -> Action | None:
    """Write down what a group does; None where an edge's image is not in the network (its paths were cut)."""
    links = len(network.topology.links)
    where: dict[Key, list[int]] = {}
    for item in items:
        where.setdefault(_key(item), []).append(item.id)
    on_items: list[Permutation] = []
    on_edges: list[Permutation] = []
    on_rows: list[Permutation] = []
    for a in group:
        edges = [network.by_path.get(tuple(LinkId(a.links[x]) for x in e.path)) for e in network.edges]
        if any(e is None for e in edges):
            return None
        image = list(range(len(items)))
        for key, ids in where.items():
            for k, to in zip(ids, where[_image_of(key, a.nodes)], strict=True):
                image[k] = to
        on_items.append(tuple(image))
        on_edges.append(tuple(e.id for e in edges if e is not None))
        on_rows.append((*a.links, *(links + b for b in a.budgets)))
    orbits = [{g[row] for g in on_rows} for row in range(len(network.capacity))]
    return Action(
        tuple(on_items),
        tuple(a.nodes for a in group),
        tuple(on_edges),
        tuple(min(o) for o in orbits),
        tuple(len(group) // len(o) for o in orbits),
    )
