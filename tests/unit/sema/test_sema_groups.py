"""A group is on its own: GPUs outside it run nothing, so they pass nothing on."""

from __future__ import annotations

import pytest

from acclc.diagnostics import DiagnosticError
from acclc.sema import analyse_text


def test_links_of_gpus_outside_the_group_are_not_there() -> None:
    (problem,) = analyse_text("all_gather on dgx1 among g[0..3]").problems
    assert problem.group == (0, 1, 2, 3)
    assert len(problem.topology.ranks) == 8
    assert {n for link in problem.topology.links for n in (link.src, link.dst)} == {0, 1, 2, 3}
    assert [link.id for link in problem.topology.links] == list(range(len(problem.topology.links)))


def test_switches_stay_and_so_do_the_budgets_of_what_is_left() -> None:
    text = """
    topology t {
        link l { 1 GB/s }
        gpu g[3]
        switch s
        g <-> s : l
        budget "one" { 1 GB/s both ways over g[0] <-> s }
        budget "two" { 1 GB/s both ways over s <-> * }
    }
    all_gather on t among g[1..2]
    """
    (problem,) = analyse_text(text).problems
    assert [(b.name, b.links) for b in problem.topology.budgets] == [("two", (0, 1, 2, 3))]
    assert problem.topology.links[0].src == 1


def test_several_groups_at_once_share_their_links() -> None:
    text = "together { all_reduce on ring(6) among g[0..1]  all_reduce on ring(6) among g[2..3] }"
    (problem,) = analyse_text(text).problems
    pairs = {(link.src, link.dst) for link in problem.topology.links}
    assert pairs == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}


def test_a_group_that_needs_others_to_pass_data_on_is_refused() -> None:
    with pytest.raises(DiagnosticError) as error:
        analyse_text("all_gather on ring(4) among g[0], g[2]")
    (found,) = error.value.diagnostics
    assert found.code == "not-connected"
    assert "g[0]" in found.message
    assert "g[2]" in found.message
