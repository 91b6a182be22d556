"""Elaboration: parameters, loops, arrays, replicas, classes, budgets, and what is taken away."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sema_helpers import PAIR, codes_of, named_links, topology_of

from acclc.diagnostics import DiagnosticError
from acclc.ir.problem import NodeKind
from acclc.sema import analyse_text, topology_named
from acclc.source import Source
from acclc.syntax import parse_link_ref

POD = """
topology box { link nvlink { 300 GB/s }  link pcie { 24 GB/s }
    gpu g[2]  switch sw  g <-> sw : nvlink  g[0] <-> g[1] : 2 pcie
    budget "root" { 30 GB/s over g -> sw } }
topology pod(n = 2) {
    link ib { 50 GB/s, 2.5 us }
    link pcie { 12 GB/s }
    gpu extra
    box b[n]
    switch rail
    b.g[0] <-> rail : ib
    extra <-> rail : pcie
    b[0].g[0] <-> b[0].g[1] : b.pcie
    b[0].g[1] <-> extra : b.nvlink
}
"""


def test_units_are_exact() -> None:
    text = (
        "topology x {\n    link a { 200 Gbit/s, 0.7 us }\n    link b { 1 GiB/s, 350 ns, nominal 2 GB/s, kind net }\n"
        "    gpu g[2]\n    g[0] <-> g[1] : a\n    g[0] -> g[1] : 3 b\n}\n"
    )
    a, b = topology_of(text).classes
    assert (a.bandwidth, a.latency, a.nominal, a.kind) == (25 * 10**9, Fraction(7, 10**7), None, "")
    assert (b.bandwidth, b.latency, b.nominal, b.kind) == (2**30, Fraction(35, 10**8), 2 * 10**9, "net")


def test_latency_defaults_to_zero() -> None:
    topology = topology_of("topology x {\n    link a { 1 GB/s }\n    gpu g[2]\n    g[0] <-> g[1] : a\n}\n")
    assert topology.classes[0].latency == 0


def test_replicas() -> None:
    topology = topology_of(POD, "pod")
    names = [node.name for node in topology.nodes]
    # GPUs first, in order of declaration, replica by replica; then the others.
    assert names == ["extra", "b[0].g[0]", "b[0].g[1]", "b[1].g[0]", "b[1].g[1]", "b[0].sw", "b[1].sw", "rail"]
    assert [node.position for node in topology.nodes[:5]] == [(), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert [node.kind for node in topology.nodes[5:]] == [NodeKind.SWITCH] * 3
    links = named_links(topology)
    # The box's pcie has another content than the pod's own: it takes the replica's name.
    assert links["b[0].g[0]", "b[0].g[1]", "b.pcie"] == 3
    assert links["b[1].g[0]", "b[1].g[1]", "b.pcie"] == 2
    assert links["b[0].g[1]", "extra", "nvlink"] == 1
    assert links["extra", "rail", "pcie"] == 1
    assert links["b[1].g[0]", "rail", "ib"] == 1
    rates = {cls.name: cls.bandwidth for cls in topology.classes}
    assert rates == {"nvlink": 300 * 10**9, "b.pcie": 24 * 10**9, "ib": 50 * 10**9, "pcie": 12 * 10**9}


def test_budgets_of_replicas() -> None:
    topology = topology_of(POD, "pod")
    assert [(b.name, b.capacity) for b in topology.budgets] == [
        ("b[0].root", 30 * 10**9),
        ("b[1].root", 30 * 10**9),
    ]
    names = [node.name for node in topology.nodes]
    for copy, budget in enumerate(topology.budgets):
        ends = {(names[topology.links[x].src], names[topology.links[x].dst]) for x in budget.links}
        assert ends == {(f"b[{copy}].g[{i}]", f"b[{copy}].sw") for i in range(2)}


def test_replicas_of_replicas_and_two_dimensions() -> None:
    text = (
        "topology chip { gpu g }\n"
        "topology board { chip c[2, 2]  link l { 1 GB/s }  c[0, 0].g <-> c[1, 1].g : l }\n"
        "topology rack {\n    board b[2]\n    b[0].c[0, 0..1].g <-> b[1].c[1, 0].g : b.l\n    b.c.g <-> hub : b.l\n}\n"
    )
    assert codes_of(text) == ["unused-node", "unknown-node"]
    topology = topology_of(text.replace("    b.c.g <-> hub : b.l\n", ""), "rack")
    links = named_links(topology)
    assert links["b[0].c[0, 1].g", "b[1].c[1, 0].g", "l"] == 1
    assert links["b[1].c[0, 0].g", "b[1].c[1, 1].g", "l"] == 1
    assert len(links) == 2 * (2 + 2)
    assert topology.nodes[7].name == "b[1].c[1, 1].g"
    assert topology.nodes[7].position == (1, 1, 1)


def test_classes_of_equal_name_and_content_are_one() -> None:
    text = (
        "topology one { link l { 1 GB/s }  gpu g[2]  g[0] <-> g[1] : l }\n"
        "topology two { link l { 1 GB/s }  one o  o.g[0] <-> o.g[1] : 2 l }\n"
    )
    topology = topology_of(text, "two")
    assert named_links(topology) == {("o.g[0]", "o.g[1]", "l"): 3, ("o.g[1]", "o.g[0]", "l"): 3}


def test_classes_of_three_contents_keep_apart() -> None:
    text = (
        "topology r(w = 1) { link l { 1 GB/s }  gpu g[2]  g[0] <-> g[1] : (w) l }\n"
        "topology s { link l { 2 GB/s }  gpu g[2]  g[0] <-> g[1] : l }\n"
        "topology t { link l { 3 GB/s }  gpu g[2]  g[0] <-> g[1] : l }\n"
        "topology x {\n    r a\n    s b\n    t c\n    a.g[0] <-> b.g[0] : a.l\n    b.g[0] <-> c.g[0] : c.l\n}\n"
    )
    links = named_links(topology_of(text, "x"))
    assert {name for _, _, name in links} == {"l", "b.l", "c.l"}
    assert ("a.g[0]", "b.g[0]", "l") in links
    assert ("b.g[0]", "c.g[0]", "c.l") in links


def test_loops_lets_and_arithmetic() -> None:
    text = """
topology x(n = 6, half = n / 2) {
    link l { 1 GB/s }
    gpu g[n]
    let last = n - 1
    for i in 0..<half, j in i + half..last {
        let lanes = (j - i) % 3 + 1
        g[i] -> g[j] : (lanes) l
    }
    g[last] -> g[0] : l
}
"""
    expected = {(f"g[{i}]", f"g[{j}]", "l"): (j - i) % 3 + 1 for i in range(3) for j in range(i + 3, 6)} | {
        ("g[5]", "g[0]", "l"): 1
    }
    assert named_links(topology_of(text)) == expected


def test_both_ends_of_lists_and_ranges() -> None:
    text = (
        "topology x {\n    link l { 1 GB/s }\n    gpu g[4]\n    switch s[2]\n"
        "    g[0..1], g[3] <-> s : l\n    g[2] -> g[0..<2] : 2 l\n}\n"
    )
    links = named_links(topology_of(text))
    both = {(f"g[{i}]", f"s[{j}]", "l"): 1 for i in (0, 1, 3) for j in range(2)}
    assert links == both | {(b, a, c): n for (a, b, c), n in both.items()} | {
        ("g[2]", "g[0]", "l"): 2,
        ("g[2]", "g[1]", "l"): 2,
    }


@pytest.mark.parametrize(
    ("call", "name", "ranks"),
    [
        ("pod", "pod", 5),
        ("pod(3)", "pod(3)", 7),
        ("pod(n = 1)", "pod(1)", 3),
        ("pod(2)", "pod(2)", 5),
    ],
)
def test_arguments(call: str, name: str, ranks: int) -> None:
    (problem,) = analyse_text(f"{POD}all_gather on {call}\n").problems
    assert problem.topology.name == name
    assert len(problem.topology.ranks) == ranks


def test_settings_replace_defaults_of_this_file_only() -> None:
    text = f"{POD}all_gather on pod\nall_gather on pod(2)\nall_gather on ring\n"
    names = [(p.topology.name, len(p.topology.ranks)) for p in analyse_text(text, settings={"n": 4}).problems]
    assert names == [("pod(4)", 9), ("pod(2)", 5), ("ring", 8)]


def test_settings_reach_aliases_and_parameters_without_default() -> None:
    text = "topology x(n) = ring(n)\nall_gather on x\n"
    (problem,) = analyse_text(text, settings={"n": 3}).problems
    assert (problem.topology.name, len(problem.topology.ranks)) == ("x(3)", 3)


def test_unknown_setting() -> None:
    with pytest.raises(DiagnosticError) as caught:
        analyse_text(POD, settings={"m": 4})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "unknown-setting"
    assert diagnostic.message == "no topology of this file has a parameter `m`"
    assert diagnostic.help == "there are n"
    assert diagnostic.labels == ()


def test_budget_per_direction() -> None:
    text = (
        "topology x {\n    link l { 1 GB/s }\n    gpu g[3]\n    host cpu\n"
        '    budget "memory" { 2 GB/s over cpu <-> * }\n    budget "all" { 5 GB/s both ways over cpu <-> * }\n'
        '    budget "one" { 1 GB/s over g[0..1] -> cpu, g[1] -> g[2] }\n'
        "    g <-> cpu : l\n    g[0] <-> g[1] : l\n    g[1] -> g[2] : l\n}\n"
    )
    topology = topology_of(text)
    names = [node.name for node in topology.nodes]

    def ends(index: int) -> set[tuple[str, str]]:
        links = [topology.links[x] for x in topology.budgets[index].links]
        return {(names[x.src], names[x.dst]) for x in links}

    out = {("cpu", f"g[{i}]") for i in range(3)}
    back = {(b, a) for a, b in out}
    assert [b.name for b in topology.budgets] == ["memory out", "memory in", "all", "one"]
    assert [ends(i) for i in range(4)] == [out, back, out | back, {("g[0]", "cpu"), ("g[1]", "cpu"), ("g[1]", "g[2]")}]
    assert [b.capacity for b in topology.budgets] == [2 * 10**9, 2 * 10**9, 5 * 10**9, 10**9]


def test_without_takes_both_directions_or_one_or_a_lane() -> None:
    whole = named_links(topology_named("dgx1"))
    for call, gone in [
        ("g[0] <-> g[4]", {("g[0]", "g[4]"): 2, ("g[4]", "g[0]"): 2}),
        ("g[0] -> g[4]", {("g[0]", "g[4]"): 2}),
        ("1 of g[0] <-> g[4]", {("g[0]", "g[4]"): 1, ("g[4]", "g[0]"): 1}),
        ("1 of g[0] -> g[4], 1 of g[0] -> g[4]", {("g[0]", "g[4]"): 2}),
        ("g[0] <-> *", {(a, b): n for (a, b, _), n in whole.items() if "g[0]" in (a, b)}),
        ("* -> g[0..1]", {(a, b): n for (a, b, _), n in whole.items() if b in ("g[0]", "g[1]")}),
        ("* <-> *", {(a, b): n for (a, b, _), n in whole.items()}),
    ]:
        expected = {key: n - gone.get(key[:2], 0) for key, n in whole.items()}
        topology = topology_named(f"dgx1 without {call}")
        assert named_links(topology) == {key: n for key, n in expected.items() if n}
        assert topology.name.startswith("dgx1 without ")
        assert [link.id for link in topology.links] == list(range(len(topology.links)))


def test_without_keeps_budgets_on_their_links() -> None:
    text = (
        "topology x {\n    link l { 1 GB/s }\n    gpu g[3]\n    g[0] <-> g[1] : l\n    g[1] <-> g[2] : l\n"
        '    budget "a" { 1 GB/s over g[0] -> g[1] }\n    budget "b" { 1 GB/s over g[1] -> g[2] }\n}\n'
        "topology y = x without g[0] <-> g[1]\n"
    )
    topology = topology_of(text, "y")
    (budget,) = topology.budgets
    assert budget.name == "b"
    assert [(topology.links[x].src, topology.links[x].dst) for x in budget.links] == [(1, 2)]


def test_lanes_of_two_classes_go_in_order_of_declaration() -> None:
    text = (
        "topology x {\n    link a { 1 GB/s }\n    link b { 2 GB/s }\n    gpu g[2]\n"
        "    g[0] <-> g[1] : 2 a\n    g[0] <-> g[1] : 2 b\n}\ntopology y = x without 3 of g[0] -> g[1]\n"
    )
    links = named_links(topology_of(text, "y"))
    assert links == {("g[0]", "g[1]", "b"): 1, ("g[1]", "g[0]", "a"): 2, ("g[1]", "g[0]", "b"): 2}


def test_without_of_the_command_line_reaches_every_collective() -> None:
    ref = parse_link_ref(Source("--without", "g[0] <-> g[1]"))
    problems = analyse_text("all_gather on dgx1\nall_reduce on ring(4)\n", without=[ref]).problems
    assert [p.topology.name for p in problems] == [
        "dgx1 without g[0] <-> g[1]",
        "ring(4) without g[0] <-> g[1]",
    ]
    assert all((0, 1) not in {(x.src, x.dst) for x in p.topology.links} for p in problems)
    with pytest.raises(DiagnosticError) as caught:
        analyse_text("all_gather on dgx1\n", without=[parse_link_ref(Source("--without", "g[0] -> g[7]"))])
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.labels[0].span.source.name) == ("unknown-link", "--without")


def test_alias_has_its_own_name_and_comment() -> None:
    text = "# Half a box.\ntopology half(n = 4) = ring(n)\ntopology other = half\n"
    topologies = {t.name: t for t in analyse_text(text).topologies}
    assert topologies["half"].doc == "Half a box."
    assert topologies["other"].doc == "Half a box."
    assert len(topologies["other"].ranks) == 4


def test_trailing_dimensions_of_length_one_may_be_left_out() -> None:
    text = (
        "topology x(c = 1) {\n    link l { 1 GB/s }\n    gpu g[2, 2, c]\n    g[0, 0] <-> g[1, 1, 0] : l\n"
        "    g[0, 1] <-> g[1, 0] : l\n}\n"
    )
    assert [node.name for node in topology_of(text).nodes] == ["g[0, 0]", "g[0, 1]", "g[1, 0]", "g[1, 1]"]
    assert codes_of(f"{text}all_gather on x(2)\n") == ["wrong-indices"] * 3
    assert codes_of("topology x { gpu g[1] }\nall_gather on x\n") == ["unused-node", "too-few-ranks"]


def test_a_declared_topology_is_checked_without_a_collective() -> None:
    text = "topology good {\n" + PAIR + "}\ntopology bad { gpu g[2]  g[0] <-> g[2] : l }\n"
    assert codes_of(text) == ["unknown-node", "unknown-link-class"]


def test_topologies_of_the_analysis() -> None:
    text = "topology x(n = 3) = ring(n)\ntopology unset(n) = ring(n)\nall_gather on dgx1\nall_reduce on x(4)\n"
    assert [t.name for t in analyse_text(text).topologies] == ["x", "dgx1", "x(4)"]


def test_places_are_kept() -> None:
    text = "topology x {\n" + PAIR + "}\n"
    topology = topology_of(text)
    assert topology.nodes[0].span is not None
    assert text[topology.nodes[0].span.start :].startswith("gpu g[2]")
    assert topology.links[0].span is not None
    assert text[topology.links[0].span.start :].startswith("g[0] <-> g[1]")


@pytest.mark.parametrize("call", ["dgx1 ring", "dgx1\nall_gather on dgx1", "", "dgx9", "ring(", "all_gather on dgx1"])
def test_topology_named_refuses_what_is_no_call(call: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        topology_named(call)
    sources = {label.span.source for d in caught.value.diagnostics for label in d.labels}
    assert sources <= {Source("<topology>", call)}
    assert "asked_for" not in str(caught.value)


def test_topology_named_points_into_the_call() -> None:
    with pytest.raises(DiagnosticError) as caught:
        topology_named("rings(4)")
    assert str(caught.value) == (
        "error[unknown-topology]: no topology is called `rings`\n"
        "  --> <topology>:1:1\n   |\n 1 | rings(4)\n   | ^^^^^\nhelp: did you mean `ring`?\n"
    )


def test_the_same_text_gives_the_same_problems() -> None:
    text = f"{POD}all_gather on pod\nall_to_all on pod(3)\n"
    assert analyse_text(text) == analyse_text(text)
