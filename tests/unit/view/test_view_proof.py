"""What is drawn of each kind of certificate."""

from __future__ import annotations

from fractions import Fraction

from hand_built import dgx1, problem_of

from acclc.ir.problem import Collective, LinkId, NodeId, Rank
from acclc.ir.result import Cut, CutSum, FlowDual, LongestPath, Partition
from acclc.view.proof import SET_LIMIT, proof_drawing

PROBLEM = problem_of(dgx1(), Collective.ALL_GATHER)
LINKS = PROBLEM.topology.links


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(n) for n in numbers)


def test_a_cut_is_drawn_on_its_smaller_side_with_the_links_that_limit() -> None:
    proof = proof_drawing(PROBLEM, Cut(nodes(1, 2, 3, 4, 5, 6, 7), Fraction(7)))
    (drawn,) = proof.sets
    assert drawn.nodes == (0,)
    assert set(proof.links) == {x.id for x in LINKS if x.dst == 0}
    assert proof.caption == "7 shards must enter g[0] over 6 links (150 GB/s)."


def test_a_cut_whose_own_side_is_the_smaller_leaves_it() -> None:
    proof = proof_drawing(PROBLEM, Cut(nodes(0, 1), Fraction(2)))
    assert proof.sets[0].nodes == (0, 1)
    assert set(proof.links) == {x.id for x in LINKS if x.src in (0, 1) and x.dst not in (0, 1)}
    assert proof.caption.startswith("2 shards must leave {g[0], g[1]} over ")


def test_of_many_cuts_the_heaviest_are_drawn() -> None:
    cuts = tuple(
        (Fraction(i, 100), Cut(nodes(*(n for n in range(8) if n != i % 8)), Fraction(7))) for i in range(1, 12)
    )
    proof = proof_drawing(PROBLEM, CutSum(cuts))
    assert proof.kind == "cuts"
    assert len(proof.sets) == SET_LIMIT
    assert proof.sets[0].nodes == (11 % 8,)
    assert "11 cuts, the 8 heaviest drawn" in proof.caption


def test_a_partition_shows_its_parts_and_the_links_between() -> None:
    halves = proof_drawing(PROBLEM, Partition((nodes(0, 1, 2, 3), nodes(4, 5, 6, 7))))
    assert [s.nodes for s in halves.sets] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert set(halves.links) == {x.id for x in LINKS if (x.src < 4) != (x.dst < 4)}
    assert "at least 2 messages between these 2 parts" in halves.caption
    alone = proof_drawing(PROBLEM, Partition(tuple(nodes(i) for i in range(8))))
    assert alone.links == ()
    assert "at least 14 messages" in alone.caption


def test_lengths_and_paths_mark_their_links() -> None:
    dual = FlowDual(((LinkId(0), Fraction(1)), (LinkId(3), Fraction(0)), (LinkId(5), Fraction(1, 2))))
    assert proof_drawing(PROBLEM, dual).links == (0, 5)
    path = proof_drawing(PROBLEM, LongestPath(Rank(0), Rank(5), (LinkId(3), LinkId(9))))
    assert path.links == (3, 9)
    assert path.caption.startswith("g[0] and g[5] are the farthest apart")
