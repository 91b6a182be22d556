"""Spanning out-trees by the dozen: as many units a root as wanted, within the capacity of every logical edge.

Edmonds (1973) says when they exist: each set of ranks must be entered by as much capacity as there are trees that
have no rank in it yet. One tree is grown at a time, with the greatest multiplicity that this condition allows; a
single max-flow tells it (Bang-Jensen, Frank and Jackson 1995; Berczi and Frank 2010): the tree's own supply goes to
the new rank y, its other ranks are left out, and no cut may separate the source from the rank x it is reached from.
The slack of a set never grows, so a set found tight rejects later edges into it, of any tree that has a rank in it,
without a flow. Where less than the whole multiplicity fits, the rest goes on as a tree of its own. Ranks are tried in
breadth-first order, which keeps trees shallow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from acclc.ir.problem import LinkId, Rank
from acclc.solve.packing.flows import Effort, FlowGraph, TimeUp
from acclc.solve.packing.splitting import Routes, Scaled

Path = tuple[LinkId, ...]
TRIES = 16
"""Packings made to find a shallow one, where they cost little."""
IMPROVING = 10**6
"""Work (as of ``Effort``) that all but the first may cost: some tenths of a second on one core."""


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge of a tree: away from its root."""

    parent: Rank
    child: Rank
    path: Path


@dataclass(frozen=True, slots=True)
class Tree:
    """``weight`` units flow from ``root`` along each of the hops, parents first."""

    root: Rank
    weight: int
    hops: tuple[Hop, ...]

    @property
    def depth(self) -> int:
        """Hops from the root to the farthest rank."""
        depth = {self.root: 0}
        for hop in self.hops:
            depth[hop.child] = depth[hop.parent] + 1
        return max(depth.values())


@dataclass
class _Growing:
    """A tree under way. ``supply``: its node in the flow graph; None while it is only its root."""

    root: Rank
    weight: int
    reached: list[Rank]
    hops: list[Hop]
    supply: int | None = None


def pack_trees(scaled: Scaled, routes: Routes, effort: Effort, order: Sequence[Rank] = ()) -> tuple[Tree, ...]:
    """Return trees that carry k units of each shard of a root; roots in ``order``. Raises TimeUp.

    Of edges with equal capacity those to ranks early in the order come first.
    """
    return _Packer(scaled, routes, effort, order or scaled.task.topology.ranks).run()


def shallow_trees(scaled: Scaled, routes: Routes, effort: Effort) -> tuple[Tree, ...]:
    """Return the shallowest of some packings, of equal ones that with fewest trees. Raises TimeUp without any.

    The first roots get the shallow trees, so the roots whose trees were deep come first in the next try.
    """
    order = list(scaled.task.topology.ranks)
    blame = dict.fromkeys(order, Fraction(0))
    best: tuple[Tree, ...] = ()
    left = IMPROVING
    for _ in range(TRIES):
        before = effort.work
        try:
            trees = pack_trees(scaled, routes, effort, order)
        except TimeUp:
            if best:
                break
            raise
        if not best or _shape(trees) < _shape(best):
            best = trees
        left -= before - effort.work
        if left < before - effort.work or _shape(best)[0] <= 1:
            break
        for rank in order:
            blame[rank] = blame[rank] / 2 + max((t.depth for t in trees if t.root == rank), default=0)
        tried, order = order, sorted(order, key=lambda rank: -blame[rank])
        if order == tried:
            break
    return best


def _shape(trees: tuple[Tree, ...]) -> tuple[int, int]:
    return max(t.depth for t in trees), len(trees)


class _Packer:
    def __init__(self, scaled: Scaled, routes: Routes, effort: Effort, order: Sequence[Rank]) -> None:
        self._ranks = scaled.task.topology.ranks
        self._order = order
        self._place = {rank: place for place, rank in enumerate(order)}
        self._graph = FlowGraph(effort)
        self._source = len(self._ranks)
        self._supplies = 0
        self._spare: list[int] = []
        """Supply nodes whose trees are complete."""
        self._unlimited = 2 * scaled.demand
        self._total = scaled.demand
        """Units of all trees that are not complete."""
        self._paths = {
            pair: dict(paths) for pair, paths in sorted(routes.paths.items()) if paths and max(pair) < self._source
        }
        self._heads: dict[Rank, list[Rank]] = {r: [] for r in self._ranks}
        for (u, v), paths in self._paths.items():
            self._graph.set(u, v, sum(paths.values()))
            self._heads[Rank(u)].append(Rank(v))
        self._tight: dict[int, None] = {}
        """Sets of ranks (as bits) that no tree with a rank in them may enter again."""
        self._base = [w * scaled.k for w in scaled.task.weights]
        """Units of trees that are only their root yet."""
        for rank, units in enumerate(self._base):
            self._graph.set(self._source, rank, units)

    def run(self) -> tuple[Tree, ...]:
        trees: list[Tree] = []
        for root in self._order:
            units = self._base[root]
            pending = [_Growing(root, units, [root], [])] if units else []
            while pending:
                tree = pending.pop()
                pending += self._grow(tree)
                trees.append(Tree(root, tree.weight, tuple(tree.hops)))
        return tuple(trees)

    def _grow(self, tree: _Growing) -> list[_Growing]:
        """Complete a tree; return the trees whose units could not follow it."""
        self._withdraw(tree)
        rest: list[_Growing] = []
        inside = sum(1 << r for r in tree.reached)
        missing = set(self._ranks) - set(tree.reached)
        for x in tree.reached:  # grows meanwhile
            open_heads = [y for y in self._heads[x] if y in missing]
            barred: int | None = None
            for y in sorted(open_heads, key=lambda y: (-self._graph.get(x, y), self._place[y])):
                if barred is None:
                    barred = self._barred(x, inside)
                if barred >> y & 1:
                    continue
                units, slack = self._allowed(tree, x, y)
                if units:
                    path = self._path(x, y, units)
                    units = min(units, self._paths[x, y][path])
                if slack == units < tree.weight:
                    self._note_tight()
                    barred = None
                if not units:
                    continue
                if units < tree.weight:
                    rest.append(self._leave(tree, tree.weight - units))
                    tree.weight = units
                self._use(x, y, path, units)
                tree.reached.append(y)
                tree.hops.append(Hop(x, y, path))
                missing.discard(y)
                inside |= 1 << y
                barred = None
        if missing:
            raise AssertionError("Edmonds' condition was broken: a tree cannot be completed")
        self._total -= tree.weight
        return rest

    def _withdraw(self, tree: _Growing) -> None:
        """Take the tree's own supply out of the graph: while it grows, it is put where it is asked for."""
        if tree.supply is None:
            self._base[tree.root] -= tree.weight
            self._graph.set(self._source, tree.root, self._base[tree.root])
        else:
            self._graph.set(self._source, tree.supply, 0)
            for rank in tree.reached:
                self._graph.set(tree.supply, rank, 0)
            self._spare.append(tree.supply)

    def _leave(self, tree: _Growing, units: int) -> _Growing:
        """Let so many units of the tree, as it is, wait for their turn."""
        left = _Growing(tree.root, units, list(tree.reached), list(tree.hops))
        if len(tree.reached) == 1:
            self._base[tree.root] += units
            self._graph.set(self._source, tree.root, self._base[tree.root])
            return left
        if not self._spare:
            self._supplies += 1
            self._spare.append(self._source + self._supplies)
        left.supply = self._spare.pop()
        self._graph.set(self._source, left.supply, units)
        for rank in tree.reached:
            self._graph.set(left.supply, rank, self._unlimited)
        return left

    def _allowed(self, tree: _Growing, x: Rank, y: Rank) -> tuple[int, int]:
        """Return how many units of the tree may take the edge, and how many no set forbids."""
        capacity = self._graph.get(x, y)
        if not capacity:
            return 0, tree.weight
        self._graph.set(self._source, y, self._base[y] + tree.weight)
        self._graph.set(self._source, x, self._unlimited)
        slack = self._graph.max_flow(self._source, y) - self._total
        self._graph.set(self._source, y, self._base[y])
        self._graph.set(self._source, x, self._base[x])
        return min(tree.weight, capacity, slack), slack

    def _note_tight(self) -> None:
        """Remember the least cut of the flow just computed: once its slack is used, nothing more may enter it."""
        self._tight[sum(1 << v for v in self._graph.sink_side() if v < self._source)] = None

    def _barred(self, x: Rank, inside: int) -> int:
        """Return the ranks in tight sets without x that the tree has reached: no edge from x may go there."""
        barred = 0
        for tight in self._tight:
            if tight & inside and not tight >> x & 1:
                barred |= tight
        return barred

    def _path(self, x: Rank, y: Rank, units: int) -> Path:
        """Choose the physical path: the tightest that carries all units, else the widest."""
        paths = self._paths[x, y]
        fitting = [p for p, there in paths.items() if there >= units]
        if fitting:
            return min(fitting, key=lambda p: (len(p), paths[p], p))
        return max(paths, key=lambda p: (paths[p], -len(p), p))

    def _use(self, x: Rank, y: Rank, path: Path, units: int) -> None:
        self._paths[x, y][path] -= units
        if not self._paths[x, y][path]:
            del self._paths[x, y][path]
        self._graph.add(x, y, -units)
