"""Damage to a topology that is built: as if the same were said in the language, with every link accounted for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.diagnostics import DiagnosticError
from acclc.ir.problem import Topology
from acclc.sema import analyse_text, damage, parse_degraded, topology_named
from acclc.source import Source
from acclc.syntax import parse_link_ref

CLUSTER = """
topology box {
    link fast { 25 GB/s }
    gpu g[2]
    switch sw[2]
    g <-> sw : 2 fast
    budget "out" { 60 GB/s over g[0] -> sw }
}
topology cluster {
    link net { 10 GB/s }
    switch root
    box b[2, 2]
    nic card[4]
    for i in 0..<2, j in 0..<2 {
        b[i, j].sw[0] <-> card[2 * i + j] : net
        card[2 * i + j] <-> root : net
    }
}
"""


def ref(text: str):
    return parse_link_ref(Source("--without", text))


def cluster(without: str = "") -> Topology:
    found = analyse_text(f"{CLUSTER}topology asked = cluster {without}\n").topologies
    return next(t for t in found if t.name == "asked")


@pytest.mark.parametrize(
    "text",
    [
        "b[0, 1].g[0] <-> b[0, 1].sw[1]",
        "1 of b[1, 0].g -> b[1, 0].sw[0]",
        "b[0..1, 0].sw[0] <-> *",
        "root -> card[2]",
        "b[1, 1].g[1] <-> *",
    ],
)
def test_links_are_taken_as_the_language_takes_them(text: str) -> None:
    whole = cluster()
    done = damage(whole, ref(text))
    said = cluster(f"without {text}")
    assert done.topology.nodes == said.nodes
    assert done.topology.links == said.links
    assert done.topology.budgets == said.budgets
    for link in whole.links:
        now = done.moved[link.id]
        if now is None:
            assert not any((x.src, x.dst) == (link.src, link.dst) for x in done.topology.links)
        else:
            new = done.topology.links[now]
            assert (new.src, new.dst, new.cls) == (link.src, link.dst, link.cls)
            assert 0 < new.count <= link.count


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["dgx1", "dgx2", "mi250", "torus(2, 3)", "star(4)"]), st.data())
def test_any_link_can_be_named_and_lost(name: str, data: st.DataObject) -> None:
    whole = topology_named(name)
    link = data.draw(st.sampled_from(whole.links))
    lanes = data.draw(st.integers(1, link.count))
    names = [n.name for n in whole.nodes]
    arrow = f"{lanes} of {names[link.src]} -> {names[link.dst]}"
    done = damage(whole, ref(arrow)).topology
    assert sum(x.count for x in done.links) == sum(x.count for x in whole.links) - lanes
    slow = damage(whole, parse_degraded(f"{arrow} = 1 MB/s")).topology
    assert sum(x.count for x in slow.links) == sum(x.count for x in whole.links)
    assert sum(x.count for x in slow.links if x.cls.bandwidth == 10**6) == lanes


def test_budgets_hold_both_parts_of_a_link_that_is_partly_slow() -> None:
    whole = cluster()
    done = damage(whole, parse_degraded("1 of b[0, 0].g[0] -> b[0, 0].sw[1] = 5 GB/s"))
    split = [x.id for x in done.topology.links if done.topology.nodes[x.dst].name == "b[0, 0].sw[1]" and x.count == 1]
    assert len(split) == 2
    assert set(split) <= set(done.topology.budgets[0].links)
    assert list(done.moved.values()).count(None) == 1


def test_nodes_whose_names_make_no_array_cannot_be_named() -> None:
    plain = topology_named("ring(3)")
    odd = replace(plain, nodes=tuple(replace(n, name=f"node {n.id}!") for n in plain.nodes))
    assert damage(odd, ref("* <-> *")).topology.links == ()
    with pytest.raises(DiagnosticError):
        damage(odd, ref("g[0] <-> g[1]"))
    gap = replace(plain, nodes=tuple(replace(n, name=f"g[{2 * n.id}]") for n in plain.nodes))
    with pytest.raises(DiagnosticError):
        damage(gap, ref("g[0] <-> g[2]"))
