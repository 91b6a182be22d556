"""Whether the data can get there: every source of a shard must reach every target."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from acclc.ir.problem import NodeKind, Rank, Shard, Topology


class Reachability:
    """Answers which ranks a rank's data can reach. With ``relays``, other GPUs do not pass data on."""

    def __init__(self, topology: Topology, relays: Collection[Rank] | None = None) -> None:
        self._successors: list[list[int]] = [[] for _ in topology.nodes]
        for link in topology.links:
            self._successors[link.src].append(link.dst)
        self._passes_on = [
            node.kind is not NodeKind.GPU or relays is None or Rank(node.id) in relays for node in topology.nodes
        ]
        self._reached: dict[int, frozenset[int]] = {}
        self._components = _strong_components(self._successors) if relays is None else None

    def from_rank(self, rank: Rank) -> frozenset[int]:
        """Return all nodes that data of ``rank`` can reach, itself included."""
        if rank not in self._reached:
            seen = {int(rank)}
            stack = [int(rank)]
            while stack:
                for node in self._successors[stack.pop()]:
                    if node not in seen:
                        seen.add(node)
                        if self._passes_on[node]:
                            stack.append(node)
            self._reached[rank] = frozenset(seen)
        return self._reached[rank]

    def all_connected(self, ranks: Iterable[Rank]) -> bool:
        """Say quickly whether all ``ranks`` reach each other; False means only that this was not seen."""
        return self._components is not None and len({self._components[rank] for rank in ranks}) <= 1

    def missing(self, shards: Sequence[Shard]) -> tuple[Rank, Rank] | None:
        """Return the first (source, target) with no way for the data, or None."""
        for shard in shards:
            if self.all_connected((*shard.sources, *shard.targets)):
                continue
            for target in shard.targets:
                lost = [source for source in shard.sources if target not in self.from_rank(source)]
                if lost and (shard.reduced or len(lost) == len(shard.sources)):
                    return lost[0], target
        return None


def explain(topology: Topology, reached: frozenset[int], source: Rank, target: Rank) -> tuple[str, ...]:
    """Return notes on why ``target`` is not among the nodes ``reached`` from ``source``: one missing direction."""
    names = [node.name for node in topology.nodes]
    for link in topology.links:
        if link.dst in reached and link.src not in reached:
            back = f"`{names[link.src]} -> {names[link.dst]}`"
            return (f"there is a link {back}, but none `{names[link.dst]} -> {names[link.src]}`",)
    if not any(int(link.dst) == target for link in topology.links):
        return (f"no link leads to `{names[target]}`",)
    if not any(int(link.src) == source for link in topology.links):
        return (f"no link leaves `{names[source]}`",)
    return (f"no link joins the part of the machine with `{names[source]}` and the part with `{names[target]}`",)


def outside_way(whole: Topology, group: Collection[Rank], source: Rank, target: Rank) -> tuple[Rank, ...]:
    """Return the GPUs outside the ``group`` on a shortest way through the ``whole`` machine; empty if there is none."""
    successors: dict[int, list[int]] = {}
    for link in whole.links:
        successors.setdefault(link.src, []).append(link.dst)
    came_from: dict[int, int] = {int(source): int(source)}
    queue = deque([int(source)])
    while queue and target not in came_from:
        node = queue.popleft()
        for following in successors.get(node, ()):
            if following not in came_from:
                came_from[following] = node
                queue.append(following)
    if target not in came_from:
        return ()
    way = [int(target)]
    while way[-1] != source:
        way.append(came_from[way[-1]])
    return tuple(Rank(n) for n in reversed(way) if whole.nodes[n].kind is NodeKind.GPU and Rank(n) not in group)


def _strong_components(successors: Sequence[Sequence[int]]) -> list[int]:
    """Return a component number for each node (Tarjan 1972, with a stack of its own)."""
    index: list[int] = [-1] * len(successors)
    low = [0] * len(successors)
    component = [-1] * len(successors)
    path: list[int] = []
    count = components = 0
    for start in range(len(successors)):
        if index[start] >= 0:
            continue
        work: list[tuple[int, int]] = [(start, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                index[node] = low[node] = count
                count += 1
                path.append(node)
            descended = False
            for i in range(position, len(successors[node])):
                following = successors[node][i]
                if index[following] < 0:
                    work += [(node, i + 1), (following, 0)]
                    descended = True
                    break
                if component[following] < 0:
                    low[node] = min(low[node], index[following])
            if descended:
                continue
            if low[node] == index[node]:
                while True:
                    member = path.pop()
                    component[member] = components
                    if member == node:
                        break
                components += 1
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    return component
