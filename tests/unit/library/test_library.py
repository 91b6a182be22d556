"""Every built-in topology against what is known of the machine."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from importlib import resources
from itertools import combinations

import networkx
import pytest

from acclc import library
from acclc.ir.problem import NodeKind, Topology
from acclc.sema import analyse_text, library_names, topology_named
from acclc.source import Source
from acclc.syntax import format_file, parse

DGX1 = (
    (0, 2, 1, 1, 2, 0, 0, 0),
    (2, 0, 1, 2, 0, 1, 0, 0),
    (1, 1, 0, 2, 0, 0, 2, 0),
    (1, 2, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 2, 1, 1),
    (0, 1, 0, 0, 2, 0, 1, 2),
    (0, 0, 2, 0, 1, 1, 0, 2),
    (0, 0, 0, 1, 1, 2, 2, 0),
)
MI250 = (
    "0-1:4 0-4:2 0-8:1 1-5:1 1-9:1 1-10:1 2-3:4 2-6:1 2-9:1 2-10:1 3-7:2 3-11:1 4-5:4 4-6:1 5-6:1 5-7:1 6-7:4 "
    "8-9:4 8-12:2 9-13:1 10-11:4 10-14:1 11-15:2 12-13:4 12-14:1 13-14:1 13-15:1 14-15:4"
)
EXPECTED_NAMES = {
    "dgx1",
    "dgx2",
    "dgx_a100",
    "hgx_h100",
    "ndv2",
    "mi250",
    "mi300x",
    "mi100",
    "mi50_4p2h",
    "ring",
    "line",
    "star",
    "full",
    "hypercube",
    "mesh",
    "torus",
}


def counts(topology: Topology) -> dict[tuple[int, int], int]:
    """Links by (source, destination), all classes together."""
    found: dict[tuple[int, int], int] = {}
    for link in topology.links:
        found[link.src, link.dst] = found.get((link.src, link.dst), 0) + link.count
    return found


def undirected(topology: Topology) -> dict[tuple[int, int], int]:
    """Links by pair a < b; both directions are alike."""
    directed = counts(topology)
    assert all(directed.get((b, a)) == n for (a, b), n in directed.items())
    return {(a, b): n for (a, b), n in directed.items() if a < b}


def degrees(topology: Topology) -> list[int]:
    out = [0] * len(topology.nodes)
    for link in topology.links:
        out[link.src] += link.count
    return out


def distances(topology: Topology, start: int) -> dict[int, int]:
    neighbours: dict[int, list[int]] = {}
    for link in topology.links:
        neighbours.setdefault(link.src, []).append(link.dst)
    found = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for following in neighbours.get(node, []):
            if following not in found:
                found[following] = found[node] + 1
                queue.append(following)
    return found


def diameter(topology: Topology) -> int:
    return max(max(distances(topology, node.id).values()) for node in topology.nodes)


def test_names_are_the_files() -> None:
    assert set(library_names()) == EXPECTED_NAMES
    assert list(library_names()) == sorted(library_names())
    files = {f.name for f in resources.files("acclc.library").iterdir() if f.name.endswith(".accl")}
    assert files == {f"{name}.accl" for name in EXPECTED_NAMES}
    with pytest.raises(KeyError):
        library.source("dgx3")


@pytest.mark.parametrize("name", sorted(EXPECTED_NAMES))
def test_every_file(name: str) -> None:
    source = library.source(name)
    assert source.name == f"<library>/{name}.accl"
    file = parse(source)
    assert [item.name for item in file.items] == [name]
    once = format_file(source)
    assert once == source.text, "the library is written in the canonical form"
    topology = topology_named(name)
    assert topology.name == name
    assert len(topology.ranks) >= 2
    graph = networkx.DiGraph((link.src, link.dst) for link in topology.links)
    assert set(graph) == {node.id for node in topology.nodes}
    assert networkx.is_strongly_connected(graph)
    # GPUs first, numbered in order; links numbered in order; each pair of nodes once a class.
    assert [node.id for node in topology.nodes] == list(range(len(topology.nodes)))
    kinds = [node.kind is NodeKind.GPU for node in topology.nodes]
    assert kinds == sorted(kinds, reverse=True)
    assert [link.id for link in topology.links] == list(range(len(topology.links)))
    assert len({(link.src, link.dst, link.cls) for link in topology.links}) == len(topology.links)
    # It says where the facts are from, and whether its rates are nominal.
    assert any(word in topology.doc for word in ("nominal", "effective", "examples"))
    assert len(topology.doc) > 80
    # As a text of its own it has no warnings.
    assert analyse_text(source.text).warnings == ()


def test_dgx1_is_the_matrix() -> None:
    topology = topology_named("dgx1")
    matrix = counts(topology)
    assert tuple(tuple(matrix.get((a, b), 0) for b in range(8)) for a in range(8)) == DGX1
    assert degrees(topology) == [6] * 8
    assert diameter(topology) == 2
    assert topology.unit == 25 * 10**9
    (nvlink,) = topology.classes
    assert (nvlink.name, nvlink.bandwidth, nvlink.latency, nvlink.nominal, nvlink.kind) == (
        "nvlink",
        Fraction(25 * 10**9),
        Fraction(7, 10**7),
        Fraction(25 * 10**9),
        "nvlink",
    )


def test_dgx1_has_four_automorphisms() -> None:
    graph = networkx.Graph()
    for (a, b), n in undirected(topology_named("dgx1")).items():
        graph.add_edge(a, b, lanes=n)
    matcher = networkx.isomorphism.GraphMatcher(
        graph, graph, edge_match=networkx.isomorphism.numerical_edge_match("lanes", 0)
    )
    assert sum(1 for _ in matcher.isomorphisms_iter()) == 4


def test_ndv2_is_a_dgx1() -> None:
    assert counts(topology_named("ndv2")) == counts(topology_named("dgx1"))
    assert "NDv2" in topology_named("ndv2").doc


def test_mi250() -> None:
    topology = topology_named("mi250")
    expected: dict[tuple[int, int], int] = {}
    for entry in MI250.split():
        pair, _, lanes = entry.partition(":")
        a, b = map(int, pair.split("-"))
        expected[a, b] = int(lanes)
    assert undirected(topology) == expected
    assert degrees(topology) == [7] * 16
    assert diameter(topology) == 5
    assert topology.unit == 50 * 10**9


@pytest.mark.parametrize(
    ("name", "ranks", "rate", "multicast"),
    [("dgx2", 16, 125, False), ("dgx_a100", 8, 300, False), ("hgx_h100", 8, 450, True)],
)
def test_switched_boxes(name: str, ranks: int, rate: int, multicast: bool) -> None:
    topology = topology_named(name)
    assert len(topology.ranks) == ranks
    (switch,) = [node for node in topology.nodes if node.kind is NodeKind.SWITCH]
    assert undirected(topology) == {(rank, switch.id): 1 for rank in topology.ranks}
    assert {link.cls.bandwidth for link in topology.links} == {rate * 10**9}
    assert {link.cls.latency for link in topology.links} == {Fraction(35, 10**8)}
    assert (switch.can_multicast, switch.can_reduce) == (multicast, multicast)


def test_mi300x_is_complete() -> None:
    assert undirected(topology_named("mi300x")) == dict.fromkeys(combinations(range(8), 2), 1)


def test_mi100_lacks_a_perfect_matching() -> None:
    missing = set(combinations(range(8), 2)) - set(undirected(topology_named("mi100")))
    assert missing == {(0, 5), (1, 4), (2, 7), (3, 6)}
    assert degrees(topology_named("mi100")) == [6] * 8


def test_mi50_is_two_rings_over_pcie() -> None:
    topology = topology_named("mi50_4p2h")
    xgmi = {(x.src, x.dst) for x in topology.links if x.cls.kind == "xgmi" and x.src < x.dst}
    assert xgmi == {(0, 1), (0, 2), (1, 3), (2, 3), (4, 5), (4, 6), (5, 7), (6, 7)}
    names = {node.name: node.id for node in topology.nodes}
    pcie = {(x.src, x.dst) for x in topology.links if x.cls.kind == "pcie" and x.src < x.dst}
    uplinks = {(names["plx[0]"], names["cpu"]), (names["plx[1]"], names["cpu"])}
    assert pcie == {(r, names[f"plx[{r // 4}]"]) for r in range(8)} | uplinks


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_ring(n: int) -> None:
    topology = topology_named(f"ring({n})")
    expected: dict[tuple[int, int], int] = {}
    for i in range(n if n > 1 else 0):
        pair = (min(i, (i + 1) % n), max(i, (i + 1) % n))
        expected[pair] = expected.get(pair, 0) + 1
    assert undirected(topology) == expected
    assert degrees(topology) == [2 if n > 1 else 0] * n
    assert topology.name == f"ring({n})"


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_line_star_full(n: int) -> None:
    assert undirected(topology_named(f"line({n})")) == {(i, i + 1): 1 for i in range(n - 1)}
    assert undirected(topology_named(f"star({n})")) == {(i, n): 1 for i in range(n)}
    assert undirected(topology_named(f"full({n})")) == dict.fromkeys(combinations(range(n), 2), 1)


@pytest.mark.parametrize("d", [0, 1, 2, 4])
def test_hypercube_distances(d: int) -> None:
    topology = topology_named(f"hypercube({d})")
    assert len(topology.nodes) == 2**d
    assert set(counts(topology).values()) <= {1}
    for a in range(2**d):
        assert distances(topology, a) == {b: (a ^ b).bit_count() for b in range(2**d)}


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 4), (2, 3), (3, 3), (4, 4)])
def test_mesh(a: int, b: int) -> None:
    topology = topology_named(f"mesh({a}, {b})")
    graph = networkx.grid_2d_graph(a, b)
    expected = {tuple(sorted((x * b + y, u * b + v))) for (x, y), (u, v) in graph.edges}
    assert undirected(topology) == dict.fromkeys(expected, 1)


@pytest.mark.parametrize("lengths", [(4, 4), (2, 3), (1, 4), (5, 3), (2, 2, 2), (3, 1, 4), (4, 3, 5)])
def test_torus(lengths: tuple[int, ...]) -> None:
    topology = topology_named(f"torus({', '.join(map(str, lengths))})")
    a, b, c = (*lengths, 1)[:3]
    coordinates = [(x, y, z) for x in range(a) for y in range(b) for z in range(c)]
    number = {xyz: i for i, xyz in enumerate(coordinates)}
    expected: dict[tuple[int, int], int] = {}
    for x, y, z in coordinates:
        for other, length in (((x + 1) % a, y, z), a), ((x, (y + 1) % b, z), b), ((x, y, (z + 1) % c), c):
            if length > 1:
                pair = (min(number[x, y, z], number[other]), max(number[x, y, z], number[other]))
                expected[pair] = expected.get(pair, 0) + 1
    assert undirected(topology) == expected
    assert degrees(topology) == [2 * sum(length > 1 for length in (a, b, c))] * (a * b * c)
    # Names and positions have as many coordinates as the torus has dimensions.
    assert topology.nodes[-1].position == tuple(length - 1 for length in lengths)


def test_names_of_a_torus_of_two_dimensions() -> None:
    assert topology_named("torus(4, 4)").nodes[6].name == "g[1, 2]"
    assert topology_named("torus(2, 3, 2)").nodes[7].name == "g[1, 0, 1]"


def test_text_of_a_user_may_shadow_the_library() -> None:
    text = "topology dgx1 {\n    link l { 1 GB/s }\n    gpu g[2]\n    g[0] <-> g[1] : l\n}\nall_gather on dgx1\n"
    (problem,) = analyse_text(text).problems
    assert len(problem.topology.ranks) == 2


def test_source_needs_no_file_system_path() -> None:
    assert library.source("ring").text == resources.files("acclc.library").joinpath("ring.accl").read_text("utf-8")
    assert isinstance(library.source("ring"), Source)
