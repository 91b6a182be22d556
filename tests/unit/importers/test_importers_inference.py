"""What is concluded from matrices: direct links or a switch, and the smallest PCIe tree that agrees."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.importers import nvlink, pcie
from acclc.importers.pcie import NODE, PHB, PIX, PXB, SYS


def uniform(n: int, count: int) -> dict[tuple[int, int], int]:
    return dict.fromkeys(combinations(range(n), 2), count)


@pytest.mark.parametrize(
    ("n", "count", "generation", "ports", "found"),
    [
        (8, 12, None, 12, "a100"),
        (8, 18, None, 18, "h100"),
        (16, 6, None, 6, "v100"),
        (4, 12, None, 12, "a100"),
        (4, 6, None, 0, "h100"),
        (4, 4, None, 0, "a100"),
        (4, 2, None, 0, "v100"),
        (2, 12, None, 0, "a100"),
        (2, 4, None, 0, "ga10x"),
        (4, 6, "v100", 6, "v100"),
        (3, 6, None, 0, "a100"),
        (5, 1, None, 0, "p100"),
    ],
)
def test_mesh_or_switch_by_the_sum_of_a_row(n: int, count: int, generation: str | None, ports: int, found: str) -> None:
    fabric = nvlink.infer(n, uniform(n, count), generation)
    assert [g.ports for g in fabric.groups] == [ports]
    assert fabric.generation == found
    assert not fabric.impossible
    assert fabric.concluded


def test_a_switch_needs_every_pair() -> None:
    links = uniform(8, 18)
    del links[0, 7]
    fabric = nvlink.infer(8, links, None)
    assert [g.ports for g in fabric.groups] == [0]
    assert fabric.impossible == {0: 108, 7: 108} | dict.fromkeys(range(1, 7), 126)


def test_two_switches_in_one_machine_are_two_groups() -> None:
    links = {**uniform(4, 12), **{(a + 4, b + 4): 12 for a, b in combinations(range(4), 2)}}
    fabric = nvlink.infer(8, links, None)
    assert [(g.members, g.ports) for g in fabric.groups] == [((0, 1, 2, 3), 12), ((4, 5, 6, 7), 12)]


# PCIe

Shape = list[list[list[int]]]
"""Hosts, each a list of groups behind one uplink, each a list of the sizes of its switches; [0] is one device alone."""

shapes = st.lists(
    st.lists(st.one_of(st.just([0]), st.lists(st.integers(1, 3), min_size=1, max_size=3)), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)


def spots(shape: Shape) -> list[tuple[int, int, int]]:
    """(host, group, switch) of each device."""
    return [
        (h, g, s)
        for h, host in enumerate(shape)
        for g, group in enumerate(host)
        for s, size in enumerate(group)
        for _ in range(max(1, size))
    ]


def level(a: tuple[int, int, int], b: tuple[int, int, int]) -> int:
    if a[0] != b[0]:
        return SYS
    if a[1] != b[1]:
        return PHB
    return PIX if a[2] == b[2] else PXB


def levels_of(tree: pcie.Tree, count: int) -> dict[tuple[int, int], int]:
    """The class of each pair by an inferred tree."""
    home: dict[int, tuple[int, int, int]] = {}
    for i, switch in enumerate(tree.switches):
        root = i if switch.above is None else switch.above
        home |= dict.fromkeys(switch.devices, (switch.host, root, i))
    home |= {d: (host, -1 - d, 0) for d, host in tree.on_host.items()}
    assert set(home) == set(range(count))
    return {pair: level(home[pair[0]], home[pair[1]]) for pair in combinations(range(count), 2)}


@settings(max_examples=150, deadline=None)
@given(shapes, st.randoms(use_true_random=False), st.floats(0, 1))
def test_the_tree_agrees_with_every_cell_that_is_known(shape: Shape, dice: object, share: float) -> None:
    places = spots(shape)
    dice.shuffle(places)  # type: ignore[attr-defined]
    count = len(places)
    truth = {p: level(places[p[0]], places[p[1]]) for p in combinations(range(count), 2)}
    known = {p: how for p, how in truth.items() if dice.random() <= share}  # type: ignore[attr-defined]
    tree = pcie.infer(count, known, [""] * count)
    assert not tree.contradictions
    found = levels_of(tree, count)
    for pair, how in known.items():
        assert found[pair] == how, (pair, how)


@settings(max_examples=100, deadline=None)
@given(shapes)
def test_with_all_cells_known_there_is_no_smaller_tree(shape: Shape) -> None:
    places = spots(shape)
    count = len(places)
    tree = pcie.infer(
        count, {p: level(places[p[0]], places[p[1]]) for p in combinations(range(count), 2)}, [""] * count
    )
    assert len(tree.hosts) == len(shape)
    behind = [group for host in shape for group in host if sum(max(1, s) for s in group) > 1]
    assert len(tree.switches) == sum(len(group) for group in behind)


def test_numa_nodes_keep_devices_apart_that_nothing_else_does() -> None:
    tree = pcie.infer(4, {}, ["NUMA 0", "NUMA 0", "NUMA 1", "NUMA 1"])
    assert tree.hosts == [(0, 1), (2, 3)]
    assert pcie.infer(4, {}, [""] * 4).hosts == [(0, 1, 2, 3)]
    assert pcie.infer(4, {}, [""] * 4).guessed == [0, 1, 2, 3]


def test_cells_are_believed_before_numa_nodes_but_not_sys_within_one() -> None:
    assert pcie.infer(2, {(0, 1): NODE}, ["NUMA 0", "NUMA 1"]).hosts == [(0, 1)]
    tree = pcie.infer(2, {(0, 1): SYS}, ["NUMA 0", "NUMA 0"])
    assert (tree.hosts, tree.against_numa) == ([(0, 1)], [(0, 1)])


def test_a_contradiction_names_the_cells_that_make_it() -> None:
    tree = pcie.infer(3, {(0, 1): PIX, (1, 2): PIX, (0, 2): PXB}, [""] * 3)
    (found,) = tree.contradictions
    assert (found.pair, found.level, found.via) == ((0, 2), PIX, ((0, 1), (1, 2)))


def test_a_chain_shares_one_uplink() -> None:
    known = {p: PIX if (p[0] < 2) == (p[1] < 2) else PXB for p in combinations(range(4), 2)}
    tree = pcie.infer(4, known, [""] * 4)
    assert [(s.above, s.devices) for s in tree.switches] == [(None, (0, 1)), (0, (2, 3))]
