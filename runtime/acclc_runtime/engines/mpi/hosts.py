"""Which rank of the topology each rank of MPI is: those that the topology joins within a host lie on one host."""

from __future__ import annotations

from collections.abc import Sequence

from acclc_runtime.manifest import ManifestTopology

NETWORK = "net"
"""The kind of links that lead from host to host."""


def hosts_of(topologies: Sequence[ManifestTopology], world: int) -> tuple[tuple[int, ...], ...]:
    """Return the ranks of each host: those that any other links than network ones join, in order.

    Where no link is said to be of the network, replicas of a topology (``box[0].g[1]``) are hosts.
    """
    if not any(link.kind == NETWORK for topology in topologies for link in topology.links):
        names = topologies[0].nodes[:world]
        boxes = [name.partition(".")[0] if "." in name else "" for name in names]
        return tuple(tuple(n for n, box in enumerate(boxes) if box == each) for each in dict.fromkeys(boxes))
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        while (above := parent.setdefault(node, node)) != node:
            parent[node] = parent[above]
            node = parent[node]
        return node

    for number, topology in enumerate(topologies):
        for rank in range(world):
            parent[root((number, rank))] = root((0, rank))  # a rank is the same in all topologies
        for link in topology.links:
            if link.kind != NETWORK:
                parent[root((number, link.src))] = root((number, link.dst))
    found: dict[tuple[int, int], list[int]] = {}
    for rank in range(world):
        found.setdefault(root((0, rank)), []).append(rank)
    return tuple(map(tuple, found.values()))


def place_ranks(hosts: Sequence[Sequence[int]], machines: Sequence[int]) -> tuple[tuple[int, ...], str]:
    """Return the topology's rank for each rank of MPI, and in words what does not fit ("" if all does).

    ``hosts`` are those of the topology; ``machines`` has the machine (any number) of each rank of MPI. Ranks keep their
    numbers where each host lies within one machine so; else hosts go whole, the largest first, to the machine whose
    free ranks they fill best.
    """
    world = len(machines)
    same = tuple(range(world))
    if all(len({machines[rank] for rank in host}) == 1 for host in hosts):
        return same, ""
    free: dict[int, list[int]] = {}
    for rank, machine in enumerate(machines):
        free.setdefault(machine, []).append(rank)
    placed = [0] * world
    for host in sorted(hosts, key=lambda host: (-len(host), host)):
        fitting = [m for m, ranks in free.items() if len(ranks) >= len(host)]
        if not fitting:
            sizes = ", ".join(str(machines.count(m)) for m in dict.fromkeys(machines))
            return same, (
                f"the topology has hosts of {', '.join(str(len(h)) for h in hosts)} ranks, MPI started {sizes} on its "
                "machines: ranks keep MPI's numbers, and links within a host may go over the network"
            )
        best = min(fitting, key=lambda m: (len(free[m]), free[m]))
        for rank in host:
            placed[free[best].pop(0)] = rank
    return tuple(placed), ""
