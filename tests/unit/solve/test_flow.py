"""The parts of the flow solver: commodities, symmetries, the linear program against all paths, ways, rounding."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packing_cases import random_machine
from solve_cases import both, custom, dgx1, full, hypercube, line, machine, problem, ring, star, torus

from acclc.bounds import bound
from acclc.bounds.loads import value
from acclc.ir.problem import Goal, Hints, LinkId, Rank
from acclc.solve.flow import flow_schedule
from acclc.solve.flow.machine import FlowMachine
from acclc.solve.flow.paths import shares, ways
from acclc.solve.flow.program import solve
from acclc.solve.flow.rounding import rounded
from acclc.solve.flow.task import destination, flow_task, hindrance, point_to_point
from acclc.solve.flow.units import whole_units
from acclc.solve.network import of_problem
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.protocol import Deadline


def rate_machine(task, symmetry=False):
    return FlowMachine(flow_task(task), symmetry)


def solved(task, symmetry=False):
    """The program's least time in rounds, and its flows."""
    flows = rate_machine(task, symmetry)
    found = solve(flows, bound(task).throughput.time_per_byte, Effort())
    assert found is not None
    return flows, found.time, found.rates


def least_over_all_paths(task):
    """The least rounds by a program of another form: a variable for every simple path of every shard."""
    from ortools.linear_solver import pywraplp

    network, topology = of_problem(task), task.topology
    solver = pywraplp.Solver.CreateSolver("GLOP")
    time = solver.NumVar(0, solver.infinity(), "")
    rows = [solver.Constraint(-solver.infinity(), 0) for _ in network.capacity]
    for row, lanes in zip(rows, network.capacity, strict=True):
        row.SetCoefficient(time, -lanes)
    for shard in task.shards:
        if destination(shard) is None:
            continue
        whole = solver.Constraint(1, 1)
        for path in simple_paths(network, set(shard.sources), destination(shard)):
            x = solver.NumVar(0, 1, "")
            whole.SetCoefficient(x, 1)
            use = {}
            for edge in path:
                for row, times in edge.rows:
                    use[row] = use.get(row, 0) + times
            for row, times in use.items():
                rows[row].SetCoefficient(x, times)
    solver.Minimize(time)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    assert topology.unit is not None
    return time.solution_value()


def simple_paths(network, sources, end, so_far=()):
    """All simple paths over logical edges; a rank that may not relay starts or ends one."""
    if not so_far:
        for edge in network.edges:
            if edge.src in sources and edge.dst not in sources:
                yield from simple_paths(network, sources, end, (edge,))
        return
    last = so_far[-1].dst
    if last == end:
        yield so_far
        return
    if last not in network.relays:
        return
    seen = {e.src for e in so_far} | {last} | sources
    for edge in network.outgoing[last]:
        if edge.dst not in seen:
            yield from simple_paths(network, sources, end, (*so_far, edge))


def test_where_a_shard_goes():
    shards = custom(
        ring(4),
        [
            ([0], [2], False),
            ([0, 1], [1, 3], False),
            ([0], [1, 2], False),
            ([0, 1], [1], False),
            ([2], [1], True),
            ([2, 3], [1], True),
            ([0], [], False),
        ],
    ).shards
    assert [destination(s) for s in shards] == [2, 3, None, None, 1, None, None]


@pytest.mark.parametrize(
    ("shards", "words"),
    [
        ([([0], [1, 2], False)], "several ranks"),
        ([([0], [1], False), ([0, 1], [1], True)], "reduced"),
        ([([0], [0], False), ([1, 2], [2], False)], "nothing moves"),
        ([([0], [2], False), ([1, 2], [2], False)], ""),
    ],
)
def test_what_is_no_flow_is_refused(shards, words):
    task = custom(ring(4), shards)
    assert (words in hindrance(task)) if words else not hindrance(task)
    assert point_to_point(task) == (words in ("", "nothing moves"))


def test_limits_on_steps_are_refused():
    assert "steps" in hindrance(problem(ring(4), "all_to_all", goal=Goal(steps=2)))
    assert "steps" in hindrance(problem(ring(4), "all_to_all", goal=Goal(rounds=2)))


def test_fewer_commodities_are_taken():
    scatter, gather = (flow_task(problem(dgx1(), c, root=3)) for c in ("scatter", "gather"))
    for task, reverse in ((scatter, False), (gather, True)):
        (commodity,) = task.commodities
        assert task.reverse is reverse
        assert commodity.origins == (3,)
        assert commodity.demand == {r: 1 for r in range(8) if r != 3}
    assert len(flow_task(problem(dgx1(), "all_to_all")).commodities) == 8
    # a shard that two ranks hold starts at either, so it is never turned round
    assert not flow_task(custom(ring(4), [([0, 1], [3], False), ([2], [3], False), ([1], [3], False)])).reverse


@pytest.mark.parametrize(
    ("topology", "order"),
    [(ring(8), 8), (torus(4, 4), 16), (hypercube(4), 16), (full(5), 5), (dgx1(), 4), (line(4), 2), (star(6), 6)],
)
def test_symmetries_move_every_commodity(topology, order):
    task = flow_task(problem(topology, "all_to_all"))
    flows = FlowMachine(task, True)
    assert len(flows.group) == order
    assert len(flows.representatives) * order == len(topology.ranks)
    images = [tuple(sorted(a.nodes[r] for r in c.origins)) for c in flows.representatives for a in flows.group]
    assert sorted(images) == [c.origins for c in task.commodities]
    for a in flows.group:
        for e in topology.links:
            image = topology.links[a.links[e.id]]
            assert (image.src, image.dst, image.capacity) == (a.nodes[e.src], a.nodes[e.dst], e.capacity)


def test_symmetries_keep_the_demand_and_the_relays():
    pairs = [(0, 1), (2, 3)]
    assert len(rate_machine(problem(ring(4), "send_recv", pairs=pairs), True).group) == 2
    assert len(rate_machine(problem(ring(4), "send_recv", pairs=[(0, 1), (2, 1)]), True).group) == 1
    hinted = replace(problem(ring(4), "all_to_all"), goal=Goal(hints=Hints(relays=(Rank(0), Rank(2)))))
    assert len(rate_machine(hinted, True).group) == 2


@pytest.mark.parametrize("topology", [ring(6), torus(3, 3), hypercube(3), dgx1(), star(4), full(4)])
def test_symmetries_lose_nothing(topology):
    task = problem(topology, "all_to_all")
    least = bound(task).rounds_per_chunk
    for symmetry in (True, False):
        assert solved(task, symmetry)[1] == pytest.approx(float(least), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 4), st.integers(0, 2), st.sampled_from(("all_to_all", "gather", "scatter"))
)
def test_the_program_against_all_paths(seed, gpus, switches, collective):
    task = problem(random_machine(seed, gpus, switches), collective)
    assert solved(task)[1] == pytest.approx(least_over_all_paths(task), rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 2))
def test_relays_are_kept_to(seed, relay):
    """Rank 3 has direct links to all, so there is a way whoever relays; the bound does not know of the hint."""
    base = random_machine(seed, 4, 1)
    links = [(e.src, e.dst, e.count) for e in base.links] + both([(0, 1, 1), (0, 2, 1), (1, 2, 1)])
    links += both([(3, r, 1) for r in range(3)])
    goal = Goal(hints=Hints(relays=(Rank(relay),)))
    task = problem(machine(4, links, switches=1), "all_to_all", goal=goal)
    flows, least, rates = solved(task)
    assert least == pytest.approx(least_over_all_paths(task), rel=1e-6)
    for commodity, flow in zip(flows.representatives, rates, strict=True):
        for link in flow:
            src = flows.links[link].src
            assert src in commodity.origins or src == relay or src >= 4


def test_who_cannot_be_reached_without_relays():
    task = problem(line(3), "all_to_all", goal=Goal(hints=Hints(relays=())))
    assert solve(rate_machine(task), bound(task).throughput.time_per_byte, Effort()) is None


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(0, 2), st.booleans())
def test_lengths_prove_the_optimum(seed, gpus, switches, symmetry):
    """From no bound at all: what the dual's lengths are worth is for the bounds to say."""
    task = problem(random_machine(seed, gpus, switches), "all_to_all")
    flow = flow_schedule(task, bound=Fraction(0), symmetry=symmetry)
    assert flow.certificate is not None
    proven = bound(task).throughput.time_per_byte
    assert value(task, flow.certificate) == flow.time == flow.optimum == proven
    assert flow_schedule(task, bound=proven).certificate is None


def test_short_ways_come_first():
    """Three shards fill all ways from 0 to 1; what has room to spare takes the shortest all the same."""
    task = custom(full(4), [([0], [1], False)] * 3 + [([2], [3], False)])
    _, least, rates = solved(task)
    assert least == 1
    assert [sum(flow.values()) for flow in rates] == pytest.approx([5, 1])
    task = problem(full(4), "all_to_all")
    _, _, rates = solved(task)
    assert all(sum(flow.values()) == pytest.approx(3) for flow in rates)


def test_ways_drop_circles_and_pass_no_node_twice():
    task = custom(full(4), [([0], [3], False)])
    flows = rate_machine(task)
    at = {(e.src, e.dst): e.id for e in task.topology.links}
    amounts = {at[0, 1]: 2, at[1, 3]: 2, at[0, 3]: 1, at[1, 2]: 5, at[2, 1]: 5}
    found = ways(flows, 0, 3, amounts)
    assert [(w.units, w.path) for w in found] == [(2, (at[0, 1], at[1, 3])), (1, (at[0, 3],))]
    assert flows.carries(3, [amounts])
    assert not flows.carries(2, [amounts])
    assert not flows.carries(3, [{**amounts, at[1, 2]: 4}])


def test_a_flow_in_floats_is_taken_apart():
    task = custom(full(4), [([0], [3], False), ([0], [2], False)])
    flows = rate_machine(task)
    at = {(e.src, e.dst): e.id for e in task.topology.links}
    third = 1 / 3
    amounts = {at[0, 3]: 1 - third, at[0, 2]: 1 + third, at[2, 3]: third + 1e-12}
    found = shares(flows, 0, amounts)
    assert {end: sum(n for _, n in parts) for end, parts in found.items()} == {2: pytest.approx(1), 3: pytest.approx(1)}


def test_time_is_of_the_fullest_link_or_budget():
    topology = machine(3, both([(0, 1, 2), (1, 2, 1)]), budgets=[((0, 2), 1)])
    task = custom(topology, [([0], [2], False), ([0], [1], False)])
    flows = rate_machine(task)
    unit = topology.unit
    assert flows.time(1, [{LinkId(0): 2, LinkId(2): 1}]) == Fraction(3) / unit
    assert flows.time(2, [{LinkId(0): 4}]) == Fraction(2) / unit


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 6))
def test_rounding_loses_little(seed, gpus):
    """Not with the solution itself but with its paths rounded; and never with more paths than are allowed."""
    task = problem(random_machine(seed, gpus, 1), "all_to_all")
    flows, least, rates = solved(task)
    for most in (64, 1):
        found = rounded(flows, rates, Effort(), most)
        assert found is not None
        k, of = found
        load = [{} for _ in of]
        for amounts, each in zip(load, of, strict=True):
            for way in each:
                for link in way.path:
                    amounts[link] = amounts.get(link, 0) + way.units
        assert flows.carries(k, load)
        time = float(flows.time(k, load) * flows.unit)
        assert time >= least * (1 - 1e-6)
        if most == 64:
            assert time <= least * 1.02
        else:
            assert all(len({w.path for w in each if w.end == end}) == 1 for each in of for end in {w.end for w in each})


def test_few_chunks_against_brute_force():
    """One path a shard: of all choices of paths none takes less time."""
    for seed in range(6):
        task = problem(random_machine(seed, 3, 1, loops=2), "all_to_all")
        network = of_problem(task)
        moved = [s for s in task.shards if destination(s) is not None]
        paths = [list(simple_paths(network, set(s.sources), destination(s))) for s in moved]
        if len(list(product(*map(range, map(len, paths))))) > 20_000:
            continue
        best = min(
            max(
                Fraction(sum(dict(edge.rows).get(r, 0) for path in chosen for edge in path), lanes)
                for r, lanes in enumerate(network.capacity)
            )
            for chosen in product(*paths)
        )
        flows, least, rates = solved(task)
        found = min(
            u.time
            for u in whole_units(flows, least, bound(task).throughput.time_per_byte, rates, Effort(), 1)
            if u.k == 1
        )
        assert found * flows.unit == best


def test_the_deadline_and_the_work_end_it():
    task = problem(dgx1(), "all_to_all")
    effort = Effort(Deadline.after(0))
    with pytest.raises(TimeUp):
        solve(rate_machine(task), bound(task).throughput.time_per_byte, effort)
    assert effort.clock_cut
    with pytest.raises(TimeUp):
        solve(rate_machine(task), bound(task).throughput.time_per_byte, Effort(work=10))
