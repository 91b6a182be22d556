"""Machines for the tests of packing, and cuts counted one by one."""

import random
from fractions import Fraction
from itertools import combinations

from solve_cases import both, machine

MI250_PAIRS = [
    *((2 * m, 2 * m + 1, 4) for m in range(8)),
    (0, 4, 2), (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 6, 1), (2, 9, 1), (2, 10, 1), (3, 7, 2), (3, 11, 1),
    (4, 6, 1), (5, 6, 1), (5, 7, 1), (8, 12, 2), (9, 13, 1), (10, 14, 1), (11, 15, 2), (12, 14, 1), (13, 14, 1),
    (13, 15, 1),
]  # fmt: skip


def mi250(boxes=1):
    """Units of 50 GB/s; several boxes: units of 1 GB/s, every GCD at a fabric with 16."""
    if boxes == 1:
        return machine(16, both(MI250_PAIRS))
    pairs = [(16 * b + u, 16 * b + v, 50 * n) for b in range(boxes) for u, v, n in MI250_PAIRS]
    pairs += [(g, 16 * boxes, 16) for g in range(16 * boxes)]
    return machine(16 * boxes, both(pairs), switches=1)


def a100(boxes, rails=True):
    """Eight GPUs with 300 at a switch in each box, and 25 at a rail each (or at one fabric)."""
    gpus = 8 * boxes
    pairs = [(g, gpus + g // 8, 300) for g in range(gpus)]
    if boxes > 1:
        pairs += [(g, gpus + boxes + (g % 8 if rails else 0), 25) for g in range(gpus)]
    return machine(gpus, both(pairs), switches=boxes + ((8 if rails else 1) if boxes > 1 else 0))


def random_machine(seed, gpus, switches, loops=4, counts=3):
    """Strongly connected, as much into every switch as out of it: closed walks; links between GPUs besides."""
    rng = random.Random(seed)
    nodes = list(range(gpus + switches))
    links = {}

    def closed(walk, count):
        for u, v in zip(walk, [*walk[1:], walk[0]], strict=True):
            links[u, v] = links.get((u, v), 0) + count

    rng.shuffle(nodes)
    closed(nodes, rng.randint(1, counts))
    for _ in range(loops):
        closed(rng.sample(nodes, rng.randint(2, min(4, len(nodes)))), rng.randint(1, counts))
    for _ in range(gpus):
        u, v = rng.sample(range(gpus), 2)
        links[u, v] = links.get((u, v), 0) + rng.randint(1, counts)
    return machine(gpus, [(u, v, n) for (u, v), n in sorted(links.items())], switches=switches)


def best_ratio(topology, weights):
    """The most shards that must leave a node set for its leaving capacity (in units), over all sets."""
    nodes = range(len(topology.nodes))
    gpus = len(topology.ranks)
    ends = [(e.src, e.dst, topology.lanes(e)) for e in topology.links]
    best = Fraction(0)
    for size in nodes:
        for chosen in combinations(nodes, size):
            inside = set(chosen)
            load = sum(weights[r] for r in range(gpus) if r in inside)
            if load and any(r not in inside for r in range(gpus)):
                out = sum(lanes for u, v, lanes in ends if u in inside and v not in inside)
                best = max(best, Fraction(load, out))
    return best
