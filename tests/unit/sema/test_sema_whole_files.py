"""Whole files in the manner of users: clusters, workstations, failures, custom collectives."""

from __future__ import annotations

from fractions import Fraction

from sema_helpers import named_links

from acclc.ir.problem import Collective, GoalKind, NodeKind
from acclc.sema import analyse_text

CLUSTER = """
import hgx_h100                        # from the library

# A rail-optimised pod: NIC r of every box on rail r.
topology pod(n = 16) {
    link ib { 50 GB/s, 2.5 us }
    hgx_h100 box[n]
    switch rail[8]
    for b in 0..<n, r in 0..<8 { box[b].g[r] <-> rail[r] : ib }
}

all_to_all on pod(4) { goal bandwidth }
"""

WORKSTATION = """
topology workstation {
    link pcie4 { 24 GB/s, 1.2 us }
    gpu g[4]
    host cpu                           # memory: may stage, may not reduce
    switch plx[2]
    g[0], g[1] <-> plx[0] : pcie4
    g[2], g[3] <-> plx[1] : pcie4
    plx[0], plx[1] <-> cpu : pcie4     # the shared uplink is a link like any other
    budget "CPU memory" { 60 GB/s both ways over cpu <-> * }
}

topology broken = workstation without 1 of g[2] -> plx[1]
all_reduce on workstation
"""


def test_cluster() -> None:
    analysis = analyse_text(CLUSTER)
    (problem,) = analysis.problems
    topology = problem.topology
    assert analysis.warnings == ()
    assert [t.name for t in analysis.topologies] == ["pod", "pod(4)"]
    assert (topology.name, topology.doc) == ("pod(4)", "A rail-optimised pod: NIC r of every box on rail r.")
    assert len(topology.ranks) == 32
    assert len(topology.nodes) == 32 + 4 + 8
    assert len(problem.shards) == 32 * 32
    links = named_links(topology)
    assert len(links) == 2 * (32 + 32)
    assert links["box[3].g[5]", "rail[5]", "ib"] == 1
    assert links["box[3].nvswitch", "box[3].g[5]", "nvlink"] == 1
    assert [node.can_reduce for node in topology.nodes[32:]] == [True] * 4 + [False] * 8
    assert problem.goal.kind is GoalKind.BANDWIDTH


def test_workstation_and_what_if() -> None:
    analysis = analyse_text(WORKSTATION)
    whole, broken = analysis.topologies
    assert analysis.problems[0].topology == whole
    (budget,) = whole.budgets
    names = [node.name for node in whole.nodes]
    ends = {(names[whole.links[x].src], names[whole.links[x].dst]) for x in budget.links}
    assert ends == {("plx[0]", "cpu"), ("cpu", "plx[0]"), ("plx[1]", "cpu"), ("cpu", "plx[1]")}
    assert (budget.name, budget.capacity) == ("CPU memory", Fraction(60 * 10**9))
    assert [node.kind for node in whole.nodes[4:]] == [NodeKind.HOST, NodeKind.SWITCH, NodeKind.SWITCH]
    assert broken.name == "broken"
    assert named_links(whole).keys() - named_links(broken).keys() == {("g[2]", "plx[1]", "pcie4")}
    # The budget still names the same links, under their new numbers.
    (moved,) = broken.budgets
    names_of = {(names[broken.links[x].src], names[broken.links[x].dst]) for x in moved.links}
    assert names_of == ends


def test_many_collectives_in_one_file() -> None:
    text = """
all_gather on dgx1 { goal pareto, chunks up to 6 }
all_gather on dgx1 as small { goal chunks 2, steps 2, rounds 3 }
all_reduce on dgx1 as gradients { op sum, goal size 1 KiB .. 1 GiB, within 30 s }
together as tp {
    all_reduce on dgx1 among g[0..3]
    all_reduce on dgx1 among g[4..7]
}
broadcast on dgx1 without g[0] <-> g[1]
"""
    problems = analyse_text(text).problems
    assert [p.name for p in problems] == ["all_gather", "small", "gradients", "tp", "broadcast"]
    assert problems[0].topology is problems[1].topology
    assert problems[3].collective is Collective.TOGETHER
    assert [d.group for d in problems[3].demands] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert (problems[2].goal.min_bytes, problems[2].goal.max_bytes) == (1024, 2**30)
    assert problems[4].topology.name == "dgx1 without g[0] <-> g[1]"
