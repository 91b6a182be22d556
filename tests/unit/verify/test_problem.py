from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from helpers import IN_PLACE, WIRE, problem, ring, star, topology

from acclc.ir.problem import (
    Budget,
    Collective,
    Demand,
    InPlace,
    LinkId,
    NodeId,
    Op,
    Place,
    Problem,
    Rank,
    Shard,
    ShardId,
)
from acclc.sema import analyse_text
from acclc.verify import check_problem


def codes(what: Problem) -> set[str]:
    return {f.code for f in check_problem(what).errors}


@pytest.mark.parametrize("collective", list(IN_PLACE))
@pytest.mark.parametrize("group", [None, (3, 1, 2), (2,)])
def test_named_collectives_are_what_the_definitions_say(collective: Collective, group: tuple[int, ...] | None) -> None:
    what = problem(ring(4), collective, group, root=2)
    report = check_problem(what)
    assert report.ok, str(report)
    assert report.facts is not None
    assert report.facts.group == len(group or range(4))


@pytest.mark.parametrize("collective", list(IN_PLACE))
def test_another_collective_under_the_name_is_found(collective: Collective) -> None:
    """Each shard moved to another unit, or given to another rank, is no longer what the name means."""
    what = problem(ring(4), collective, root=1)
    shard = what.shards[-1]
    less = replace(what, shards=(*what.shards[:-1], replace(shard, outputs=shard.outputs[1:])))
    assert codes(less) & {"problem.meaning", "problem.shards", "problem.places"}
    if len(what.shards) > 1:
        a, b = what.shards[0], what.shards[1]
        crossed = (replace(a, outputs=b.outputs), replace(b, outputs=a.outputs), *what.shards[2:])
        assert codes(replace(what, shards=crossed)) == {"problem.meaning"}
    flipped = tuple(replace(s, reduced=not s.reduced) for s in what.shards)
    assert codes(replace(what, shards=flipped)) & {"problem.meaning", "problem.shards"}


def test_send_recv_places_follow_the_order_of_the_pairs() -> None:
    pairs = ((Rank(0), Rank(1)), (Rank(0), Rank(2)), (Rank(2), Rank(1)))
    demand = Demand(Collective.SEND_RECV, tuple(map(Rank, range(3))), pairs=pairs)
    places = [
        (Place(Rank(0), 0), Place(Rank(1), 0)),
        (Place(Rank(0), 1), Place(Rank(2), 0)),
        (Place(Rank(2), 0), Place(Rank(1), 1)),
    ]
    shards = tuple(Shard(ShardId(i), f"p{i}", 0, (a,), (b,)) for i, (a, b) in enumerate(places))
    what = Problem("pairs", ring(3), Collective.SEND_RECV, (demand,), shards)
    assert check_problem(what).ok
    swapped = (replace(shards[0], outputs=shards[2].outputs), shards[1], replace(shards[2], outputs=shards[0].outputs))
    assert codes(replace(what, shards=swapped)) == {"problem.meaning"}


def test_all_to_all_v_lies_in_order_of_the_other_rank() -> None:
    matrix = {(0, 0): 1, (0, 1): 2, (1, 0): 3, (1, 1): 0}
    demand = Demand(Collective.ALL_TO_ALL_V, (Rank(0), Rank(1)))
    shards, sent, received = [], {0: 0, 1: 0}, {0: 0, 1: 0}
    for (a, b), n in matrix.items():
        for _ in range(n):
            inputs, outputs = (Place(Rank(a), sent[a]),), (Place(Rank(b), received[b]),)
            shards.append(Shard(ShardId(len(shards)), f"s{len(shards)}", 0, inputs, outputs))
            sent[a] += 1
            received[b] += 1
    what = Problem("v", ring(2), Collective.ALL_TO_ALL_V, (demand,), tuple(shards))
    assert check_problem(what).ok
    first, last = shards[0], shards[-1]
    crossed = (replace(first, outputs=last.outputs), *shards[1:-1], replace(last, outputs=first.outputs))
    assert "problem.meaning" in codes(replace(what, shards=crossed))


def test_topology_faults() -> None:
    what = problem(star(3), Collective.ALL_GATHER)
    graph = what.topology

    def with_graph(**changes: object) -> Problem:
        return replace(what, topology=replace(graph, **changes))

    assert codes(with_graph(nodes=(*graph.nodes[:-1], replace(graph.nodes[-1], name="g[0]")))) == {"problem.names"}
    assert codes(with_graph(nodes=(graph.nodes[-1], *graph.nodes[:-1]))) == {"problem.ids"}
    broken = replace(graph.links[0], dst=NodeId(9))
    assert codes(with_graph(links=(broken, *graph.links[1:]))) == {"problem.links"}
    free = replace(graph.links[0], cls=replace(WIRE, bandwidth=Fraction(0)))
    assert codes(with_graph(links=(free, *graph.links[1:]))) == {"problem.links"}
    assert codes(with_graph(budgets=(Budget("b", (LinkId(99),), Fraction(1)),))) == {"problem.budgets"}
    assert codes(with_graph(budgets=(Budget("b", (LinkId(1),), Fraction(-1)),))) == {"problem.budgets"}
    assert codes(with_graph(links=graph.links[:3])) == {"problem.reach"}


def test_reach_names_the_ranks() -> None:
    what = problem(topology("line", 3, [(0, 1), (1, 2)]), Collective.BROADCAST, root=1)
    report = check_problem(what)
    assert [f.message for f in report.errors] == ["no path leads from g[1] to g[0]"]
    assert check_problem(problem(topology("line", 3, [(0, 1), (1, 2)]), Collective.BROADCAST)).ok
    everyone = problem(topology("line", 3, [(0, 1), (1, 2)]), Collective.REDUCE, root=1)
    assert "g[2] to g[1]" in check_problem(everyone).errors[0].message


def test_demand_faults() -> None:
    what = problem(ring(4), Collective.BROADCAST)
    demand = what.demands[0]

    def with_demand(**changes: object) -> Problem:
        return replace(what, demands=(replace(demand, **changes),))

    assert "problem.demands" in codes(with_demand(root=None))
    assert "problem.demands" in codes(with_demand(op=Op.SUM))
    assert codes(with_demand(in_place=InPlace.NONE)) == {"problem.in_place"}
    assert "problem.groups" in codes(with_demand(group=(Rank(0), Rank(0))))
    assert "problem.groups" in codes(with_demand(group=(Rank(0), Rank(7))))
    assert "problem.demands" in codes(replace(what, collective=Collective.REDUCE))


def test_groups_that_run_together_are_disjoint() -> None:
    a, b = problem(ring(4), Collective.ALL_REDUCE, (0, 1)), problem(ring(4), Collective.ALL_REDUCE, (2, 3))
    c = problem(ring(4), Collective.ALL_REDUCE, (1, 2))

    def together(x: Problem, y: Problem) -> Problem:
        second = replace(y.shards[0], id=ShardId(1), demand=1)
        return replace(x, collective=Collective.TOGETHER, demands=(*x.demands, *y.demands), shards=(*x.shards, second))

    assert check_problem(together(a, b)).ok
    assert "problem.groups" in codes(together(a, c))


def test_weights_are_lengths_in_counts() -> None:
    text = (
        "together {\n    all_reduce on line(4) among g[0..1] { weight 2 }\n    all_gather on line(4) among g[2..3]\n}\n"
    )
    (task,) = analyse_text(text).problems
    assert check_problem(task).ok
    heavy, light = task.demands
    assert "problem.meaning" in codes(replace(task, demands=(replace(heavy, weight=1), light)))
    assert "problem.meaning" in codes(replace(task, demands=(heavy, replace(light, weight=2, in_place=InPlace.NONE))))
    assert "problem.demands" in codes(replace(task, demands=(replace(heavy, weight=0), light)))
    assert "problem.in_place" in codes(replace(task, demands=(heavy, replace(light, weight=2))))
    alone = problem(ring(4), Collective.ALL_REDUCE)
    assert "problem.demands" in codes(replace(alone, demands=(replace(alone.demands[0], weight=2),)))


def test_together_may_be_one_collective() -> None:
    (task,) = analyse_text("together { all_gather on ring(3) { weight 2 } }\n").problems
    assert check_problem(task).ok


def test_shards_do_not_share_places() -> None:
    what = problem(ring(3), Collective.ALL_GATHER)
    a, b, c = what.shards
    assert "problem.places" in codes(replace(what, shards=(a, replace(b, outputs=a.outputs), c)))
    assert "problem.names" in codes(replace(what, shards=(a, replace(b, name=a.name), c)))
    assert "problem.ids" in codes(replace(what, shards=(a, c, b)))
    assert "problem.places" in codes(
        problem(ring(3), Collective.ALL_GATHER, (0, 1)).__class__(
            what.name,
            what.topology,
            what.collective,
            (replace(what.demands[0], group=(Rank(0), Rank(1))),),
            what.shards,
        )
    )
