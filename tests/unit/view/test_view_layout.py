"""The layout shows the machine: rings are round, boxes apart, switches in the middle, links do not cross nodes."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from math import hypot, isclose

import pytest
from hand_built import both, dgx1, grid, hypercube, mi250, ring, star, switched, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.ir.problem import NodeKind, Topology
from acclc.view.layout import NEAR, lay_out
from acclc.view.shapes import Point


def distance(a: Point, b: Point) -> float:
    return hypot(a[0] - b[0], a[1] - b[1])


def middle(points: tuple[Point, ...]) -> Point:
    return (sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points))


def with_positions(machine: Topology, *sides: int) -> Topology:
    places = [()]
    for side in sides:
        places = [(*p, i) for p in places for i in range(side)]
    return replace(machine, nodes=tuple(replace(n, position=p) for n, p in zip(machine.nodes, places, strict=True)))


def relabelled(machine: Topology, seed: int) -> Topology:
    order = list(range(len(machine.nodes)))
    random.Random(seed).shuffle(order)
    links = tuple(replace(x, src=order[x.src], dst=order[x.dst]) for x in machine.links)
    return replace(machine, links=links)


@pytest.mark.parametrize("n", [3, 4, 5, 8, 16])
def test_a_ring_is_a_circle_in_the_order_of_its_links_however_it_is_labelled(n: int) -> None:
    for machine in (ring(n), relabelled(ring(n), n)):
        points = lay_out(machine).points
        centre = middle(points)
        radius = distance(points[0], centre)
        assert all(isclose(distance(p, centre), radius, abs_tol=0.01) for p in points)
        nearest = min(distance(a, b) for a, b in combinations(points, 2))
        assert all(isclose(distance(points[x.src], points[x.dst]), nearest, abs_tol=0.01) for x in machine.links)


def test_a_line_is_a_line() -> None:
    points = lay_out(grid(6)).points
    assert len({y for _, y in points}) == 1
    assert [x for x, _ in points] == sorted(x for x, _ in points)


@pytest.mark.parametrize("machine", [star([10] * 6), topology(7, both((0, i, 1, 1) for i in range(1, 7)))])
def test_the_hub_of_a_star_is_in_its_middle(machine: Topology) -> None:
    points = lay_out(machine).points
    hub = len(points) - 1 if machine.nodes[-1].kind is NodeKind.SWITCH else 0
    rest = tuple(p for i, p in enumerate(points) if i != hub)
    assert distance(points[hub], middle(rest)) < 0.01
    assert len({round(distance(points[hub], p), 2) for p in rest}) == 1


def test_a_dgx1_is_two_squares_side_by_side_and_its_links_are_straight() -> None:
    layout = lay_out(dgx1())
    left, right = layout.points[:4], layout.points[4:]
    assert max(x for x, _ in left) + 1 < min(x for x, _ in right)
    for square in (left, right):
        lengths = sorted(round(distance(a, b), 3) for a, b in combinations(square, 2))
        assert lengths[0] == lengths[3] < lengths[4] == lengths[5]
    assert set(layout.bends.values()) == {0.0}
    for a, b in ((0, 4), (1, 5), (2, 6), (3, 7)):
        assert right[b - 4][0] - left[a][0] == pytest.approx(right[0][0] - left[0][0])


def test_a_complete_graph_is_one_circle_not_two_squares() -> None:
    points = lay_out(topology(8, both((i, j, 1, 1) for i, j in combinations(range(8), 2)))).points
    assert len({round(distance(p, middle(points)), 2) for p in points}) == 1


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("d", [3, 4])
def test_a_hypercube_is_recognised_however_it_is_labelled(d: int, seed: int) -> None:
    plain, other = lay_out(hypercube(d)).points, lay_out(relabelled(hypercube(d), seed)).points
    assert set(plain) == set(other)
    machine = hypercube(d)
    ways = {
        (round(plain[x.dst][0] - plain[x.src][0], 2), round(plain[x.dst][1] - plain[x.src][1], 2))
        for x in machine.links
    }
    assert len(ways) == 2 * d  # all links of a dimension are parallel


def test_a_torus_keeps_its_grid_and_bends_its_wrap_links_outwards() -> None:
    layout = lay_out(with_positions(grid(4, 4, wrap=True), 4, 4))
    assert len({x for x, _ in layout.points}) == len({y for _, y in layout.points}) == 4
    assert layout.bends[0, 1] == 0
    assert layout.bends[0, 3] < 0  # along the top: to the left of the way, so upwards
    assert layout.bends[12, 15] > 0


def test_three_dimensions_do_not_cover_each_other() -> None:
    points = lay_out(with_positions(grid(3, 4, 3, wrap=True), 3, 4, 3)).points
    assert min(distance(a, b) for a, b in combinations(points, 2)) > 0.6


def test_several_switches_stand_in_a_row_between_the_gpus() -> None:
    points = lay_out(topology(8, both((g, 8 + s, 1, 25) for g in range(8) for s in range(6)), 6)).points
    rows = sorted({y for _, y in points})
    assert [sum(y == row for _, y in points) for row in rows] == [4, 6, 4]
    assert all(points[8 + s][1] == rows[1] for s in range(6))


def test_a_tree_of_switches_stands_above_the_gpus_and_the_widest_on_top() -> None:
    machine = topology(4, both([(0, 4, 1, 1), (1, 4, 1, 1), (2, 5, 1, 1), (3, 5, 1, 1), (4, 6, 1, 1), (5, 6, 1, 1)]), 3)
    points = lay_out(machine).points
    assert points[0][1] > points[4][1] == points[5][1] > points[6][1]
    assert points[6][0] == pytest.approx((points[4][0] + points[5][0]) / 2)
    flat = lay_out(switched(2, 300)).points  # the network switch is linked to the GPUs too
    assert flat[18][1] < flat[16][1] == flat[17][1] < flat[0][1]


@pytest.mark.parametrize("boxes", [2, 3, 4, 8, 16])
def test_boxes_hold_their_nodes_and_lie_apart(boxes: int) -> None:
    machine = switched(boxes, 300, per_box=4)
    names = [f"box[{i // 4}].g[{i % 4}]" for i in range(4 * boxes)] + [f"box[{i}].nvs" for i in range(boxes)] + ["net"]
    layout = lay_out(
        replace(machine, nodes=tuple(replace(n, name=x) for n, x in zip(machine.nodes, names, strict=True)))
    )
    assert [b.name for b in layout.boxes] == [f"box[{i}]" for i in range(boxes)]
    assert all(len(b.nodes) == 5 for b in layout.boxes)
    frames = []
    for box in layout.boxes:
        xs, ys = zip(*(layout.points[n] for n in box.nodes), strict=True)
        frames.append((min(xs) - 0.4, max(xs) + 0.4, min(ys) - 0.4, max(ys) + 0.4))
    for a, b in combinations(frames, 2):
        assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]
    x, y = layout.points[-1]
    assert not any(f[0] <= x <= f[1] and f[2] <= y <= f[3] for f in frames)


def test_one_box_alone_is_drawn_as_the_machine_itself() -> None:
    machine = dgx1()
    named = replace(machine, nodes=tuple(replace(n, name=f"box.{n.name}") for n in machine.nodes))
    assert lay_out(named).boxes == ()
    assert lay_out(named).points == lay_out(machine).points


@given(st.integers(2, 9), st.integers(0, 3), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_any_machine_gets_distinct_places_the_same_each_time(ranks: int, passing: int, dice: random.Random) -> None:
    nodes = ranks + passing
    wires = [(a, b, dice.randint(1, 3), 5) for a, b in combinations(range(nodes), 2) if dice.random() < 0.5]
    machine = topology(ranks, both(wires), passing)
    layout = lay_out(machine)
    assert lay_out(machine) == layout
    assert len(layout.points) == nodes
    assert all(distance(a, b) > 0.3 for a, b in combinations(layout.points, 2))
    assert set(layout.bends) == {(min(a, b), max(a, b)) for a, b, _, _ in wires}


def test_a_link_between_gpus_keeps_away_from_others_where_that_is_possible() -> None:
    machine = topology(4, both([(0, 1, 1, 1), (1, 2, 1, 1), (2, 3, 1, 1), (0, 2, 1, 1)]))
    layout = lay_out(with_positions(machine, 1, 4))
    a, b, bend = layout.points[0], layout.points[2], layout.bends[0, 2]
    highest = ((a[0] + b[0]) / 2 - (b[1] - a[1]) * bend, (a[1] + b[1]) / 2 + (b[0] - a[0]) * bend)
    assert distance(highest, layout.points[1]) >= NEAR - 0.1
    assert layout.bends[0, 1] == 0


def test_a_machine_with_an_odd_wiring_still_gets_a_place_for_all() -> None:
    assert len(set(lay_out(mi250()).points)) == 16
    assert len(set(lay_out(grid(5, 6)).points)) == 30
