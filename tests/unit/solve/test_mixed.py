"""Trees of all kinds in one linear program: against all trees on small machines, known optima, limits, levels below."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import pytest
from ortools.linear_solver import pywraplp
from packing_cases import mi250, random_machine
from solve_cases import both, custom, dgx1, hypercube, machine, problem, ring, star, torus

from acclc.bounds import bound
from acclc.bounds.loads import value
from acclc.driver import Options, analyse
from acclc.ir.problem import Budget as Shared
from acclc.ir.problem import Goal, GoalKind, Hints, Rank
from acclc.ir.result import Result, Status, ThroughputBound, TreeDual
from acclc.ir.schedule import OWN
from acclc.lower import lower_kernel, lower_program
from acclc.solve.greedy import schedules_of
from acclc.solve.mixed import mixed_schedule
from acclc.solve.mixed.arborescence import Arc, arborescence
from acclc.solve.mixed.program import solve
from acclc.solve.mixed.task import bundles, relays_of
from acclc.solve.mixed.units import whole_units
from acclc.solve.packing.check import seconds_per_byte
from acclc.solve.packing.flows import Effort, TimeUp
from acclc.solve.pipelined import packings_of, tightened, with_packings
from acclc.solve.protocol import Budget, Deadline, silent
from acclc.source import Source
from acclc.verify import check_kernel, check_program, check_schedule
from acclc.verify.certificate import check_certificate
from acclc.view.proof import proof_drawing


def verified(task, schedule, lowered=False):
    """Return the verifier's facts; every level below is verified too."""
    report = check_schedule(task, schedule)
    assert report.ok, report.findings
    assert not report.findings
    assert schedule.strategy == "mixed"
    if lowered:
        program = lower_program(task, schedule)
        assert check_program(task, schedule, program).ok
        assert check_kernel(task, schedule, lower_kernel(task, program)).ok
    return report.facts


@pytest.mark.parametrize("seed", range(60))
def test_cheapest_trees_against_all(seed):
    """Every way to give each node a parent, those that are trees: no other is cheaper."""
    rng = random.Random(seed)
    n = rng.randint(2, 5)
    arcs = [Arc(u, v, rng.choice((0.0, 1.0, 2.0, 5.0))) for u in range(n) for v in range(n) if rng.random() < 0.7]
    into = {v: [a for a in arcs if a.dst == v and a.src != v] for v in range(1, n)}

    def is_tree(choice):
        parent = {a.dst: a.src for a in choice}
        for v in parent:
            seen = set()
            while v in parent and v not in seen:
                seen.add(v)
                v = parent[v]
            if v != 0:
                return False
        return True

    costs = [sum(a.cost for a in choice) for choice in product(*into.values()) if is_tree(choice)]
    found = arborescence(range(n), arcs, 0)
    if not costs:
        assert found is None
    else:
        assert found is not None
        assert is_tree(found)
        assert len(found) == n - 1
        assert sum(a.cost for a in found) == min(costs)


def all_trees(arcs, ranks, starts, ends):
    """Loads of all out-trees (sets of arcs) from the starts to the ends, of which no arc can be left out."""
    found = set()

    def grow(reached, used):
        if set(ends) <= reached:
            heads = {u for u, _ in used}
            if all(v in ends or v in heads for _, v in used):
                found.add(frozenset(used))
        for u, v in arcs:
            if u in reached and v not in reached:
                grow(reached | {v}, used | {(u, v)})

    grow(set(starts), frozenset())
    return found


def least_over_all_trees(task):
    """The linear program with every tree there is, for machines without switches."""
    topology = task.topology
    arcs = [(e.src, e.dst) for e in topology.links]
    back = [(v, u) for u, v in arcs]
    ranks = range(len(topology.ranks))
    solver = pywraplp.Solver.CreateSolver("GLOP")
    time = solver.NumVar(0, solver.infinity(), "")
    load = {a: [] for a in arcs}
    for shard in task.shards:
        sources, targets = set(shard.sources), set(shard.targets)
        if shard.reduced and len(sources) > 1:
            roots = ranks if len(targets) > 1 else targets
            ways = [
                ([(u, v) for v, u in up], down)
                for root in roots
                for up in all_trees(back, ranks, {root}, sources)
                for down in all_trees(arcs, ranks, {root}, targets)
            ]
        else:
            ways = [((), down) for down in all_trees(arcs, ranks, sources, targets)]
        amounts = []
        for up, down in {(frozenset(up), down) for up, down in ways}:
            amounts.append(solver.NumVar(0, 1, ""))
            for arc in (*up, *down):
                load[arc].append(amounts[-1])
        solver.Add(sum(amounts) == 1)
    for link in topology.links:
        solver.Add(sum(load[link.src, link.dst]) <= topology.lanes(link) * time)
    solver.Minimize(time)
    assert solver.Solve() == solver.OPTIMAL
    return time.solution_value()


def any_demand(rng, ranks, partly):
    shards = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("one", "all", "gather", "both", *(("some",) if partly else ())))
        root, other = rng.sample(range(ranks), 2)
        everyone = list(range(ranks))
        match kind:
            case "one":
                shards.append(([root], [other], False))
            case "all":
                shards.append(([root], everyone, False))
            case "gather":
                shards.append((everyone, [root], True))
            case "both":
                shards.append((everyone, everyone, True))
            case _:
                held = rng.sample(everyone, rng.randint(1, ranks - 1))
                needed = rng.sample(everyone, rng.randint(1, ranks))
                shards.append((held, needed, rng.random() < 0.5))
    return shards


@pytest.mark.parametrize("seed", range(24))
def test_the_program_against_all_trees(seed):
    """Paths and trees over all ranks: the same optimum; trees to some ranks: nearly (they are found by a heuristic)."""
    rng = random.Random(seed)
    partly = seed % 3 == 2
    topology = random_machine(seed, 4 if partly else rng.choice((3, 4)), 0, loops=2)
    task = custom(topology, any_demand(rng, len(topology.ranks), partly))
    parts = bundles(task)
    if not parts:
        return
    mixture = solve(task, parts, relays_of(task), 0.0, Effort())
    least = least_over_all_trees(task)
    assert mixture.settled
    assert mixture.time == pytest.approx(least, rel=1e-5) or (partly and least < mixture.time < 1.2 * least)


def any_prices(rng, topology):
    lengths = tuple((e.id, Fraction(rng.choice((0, 1, 1, 2, 3)))) for e in topology.links)
    return TreeDual(lengths, tuple(Fraction(rng.choice((0, 1))) for _ in topology.budgets))


@pytest.mark.parametrize("seed", range(30))
def test_no_prices_prove_more_than_all_trees_need(seed):
    rng = random.Random(seed)
    topology = random_machine(seed, rng.choice((3, 4)), 0, loops=2)
    task = custom(topology, any_demand(rng, len(topology.ranks), True))
    if not bundles(task):
        return
    least = least_over_all_trees(task)
    for _ in range(20):
        dual = any_prices(rng, topology)
        if any(y for _, y in dual.lengths):
            assert value(task, dual) * topology.unit <= least * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_the_verifier_finds_the_same_by_itself(seed):
    """With switches that pass on, or copy and reduce; with budgets; for any prices. A wrong claim is found."""
    rng = random.Random(seed)
    topology = random_machine(seed, rng.randint(2, 6), rng.randint(0, 2))
    able = rng.random() < 0.5
    nodes = tuple(replace(n, can_multicast=able, can_reduce=able) if n.kind == "switch" else n for n in topology.nodes)
    budgets = (Shared("b", tuple(e.id for e in topology.links[:2]), Fraction(10**9)),) if seed % 2 else ()
    topology = replace(topology, nodes=nodes, budgets=budgets)
    task = custom(topology, any_demand(rng, len(topology.ranks), True))
    dual = any_prices(rng, topology)
    if not any(y for _, y in dual.lengths):
        return
    proven, known = value(task, dual), bound(task)
    claimed = replace(known, throughput=ThroughputBound(proven, dual, ""), rounds_per_chunk=proven * topology.unit)
    assert check_certificate(task, claimed).ok
    more = proven + Fraction(1, 10**12)
    wrong = replace(claimed, throughput=ThroughputBound(more, dual, ""), rounds_per_chunk=more * topology.unit)
    assert not check_certificate(task, wrong).ok
    negative = TreeDual(((topology.links[0].id, Fraction(-1)), *dual.lengths[1:]))
    assert not check_certificate(task, replace(claimed, throughput=ThroughputBound(proven, negative, ""))).ok


@pytest.mark.parametrize("seed", range(40))
def test_random_mixtures_are_verified(seed):
    """With switches and budgets: sound at every level, never below the bound, at the time that is said."""
    rng = random.Random(100 + seed)
    gpus, switches = rng.randint(2, 6), rng.randint(0, 2)
    topology = random_machine(seed, gpus, switches)
    if seed % 3 == 0:
        links = [(e.src, e.dst, e.count) for e in topology.links]
        budgets = [(tuple(sorted(rng.sample(range(len(links)), min(3, len(links))))), rng.randint(2, 6))]
        topology = machine(gpus, links, switches=switches, budgets=budgets)
    task = custom(topology, any_demand(rng, gpus, True))
    found = mixed_schedule(task)
    if found.schedule is None:
        assert found.reason == "nothing moves"
        return
    facts = verified(task, found.schedule, lowered=seed % 4 == 0)
    assert facts.time_per_shard_byte == found.time == seconds_per_byte(task, found.schedule)
    assert found.time >= bound(task).throughput.time_per_byte
    assert found.certificate is None or found.time >= value(task, found.certificate)
    assert found.loss < Fraction(1, 50)
    assert found.time <= min(seconds_per_byte(task, s) for s in schedules_of(task)) * Fraction(101, 100)


def all_to_all_and_gather(topology):
    ranks = range(len(topology.ranks))
    return custom(
        topology, [([r], list(ranks), False) for r in ranks] + [([r], [s], False) for r in ranks for s in ranks]
    )


@pytest.mark.parametrize(
    ("task", "rounds"),
    [
        # what all_gather (7/6) and all_to_all (8/3) take is less than their sum: they leave each other's links free
        (all_to_all_and_gather(dgx1()), Fraction(10, 3)),
        (all_to_all_and_gather(star(4)), Fraction(6)),
        # a halo in two directions and a broadcast: 16 * 3 hops and a tree of 15 over 64 lanes, or the source's 25/16
        (
            custom(
                torus(4, 4),
                [([r], [(r + 4) % 16], False) for r in range(16)]
                + [([r], [(r + 4) % 16 // 4 * 4 + (r + 1) % 4], False) for r in range(16)]
                + [([0], list(range(16)), False)],
            ),
            Fraction(25, 16),
        ),
    ],
    ids=["dgx1", "star", "halo"],
)
def test_what_is_at_the_bound(task, rounds):
    least = bound(task).throughput.time_per_byte
    found = mixed_schedule(task, bound=least)
    facts = verified(task, found.schedule, lowered=True)
    assert facts.time_per_shard_byte == least == rounds / task.topology.unit
    assert not found.loss


def test_where_all_links_are_full():
    """A ring of 5: 5 trees of 4 links, 10 ways of 1 and 10 of 2 fill 10 links for 5 rounds. Prices prove it, no cut."""
    task = all_to_all_and_gather(ring(5))
    found, least = mixed_schedule(task), bound(task)
    assert verified(task, found.schedule, lowered=True).rounds_per_chunk == 5 > least.rounds_per_chunk
    proven = tightened(task, least, [found])
    assert proven.rounds_per_chunk == 5
    assert check_certificate(task, proven).ok
    assert "cheapest trees" in proven.throughput.words
    assert proof_drawing(task, found.certificate).links
    result = with_packings(task, Result(Status.UNKNOWN, (), proven), [found])
    assert result.solutions[0].schedule.optimal == ("throughput",)


def test_copies_are_made_on_the_way():
    """A line: what three need crosses each link once, not once for each of them."""
    task = custom(machine(4, both([(0, 1, 1), (1, 2, 1), (2, 3, 1)])), [([0], [1, 3], False), ([3], [0], False)])
    schedule = mixed_schedule(task).schedule
    facts = verified(task, schedule)
    assert facts.rounds_per_chunk == 1
    spread = [t for t in schedule.transfers if schedule.chunks[t.chunk].shard == 0]
    assert [(t.src, t.dst) for t in spread] == [(0, 1), (1, 2), (2, 3)]
    assert sum(t.operands == (OWN,) for t in spread) == 1


def test_of_several_holders_the_nearest_serve():
    task = custom(ring(6), [([0, 3], list(range(6)), False)])
    facts = verified(task, mixed_schedule(task).schedule)
    assert facts.time_per_shard_byte * task.topology.unit == Fraction(1, 2)


def test_limits_and_hints():
    shards = [([0], [2, 3], False), ([1], [4], False), (list(range(6)), [5], True)]
    for chunks in (1, 2, 3):
        task = custom(ring(6), shards, Goal(GoalKind.BANDWIDTH, chunks=chunks))
        assert verified(task, mixed_schedule(task).schedule).chunks <= chunks
    relays = (Rank(1), Rank(2), Rank(3))
    task = custom(ring(6), shards[:2], Goal(GoalKind.BANDWIDTH, hints=Hints(relays)))
    schedule = mixed_schedule(task).schedule
    verified(task, schedule)
    passed_on = {int(t.src) for t in schedule.transfers if t.operands != (OWN,)}
    assert passed_on == {1, 2, 3}
    task = custom(ring(6), shards[:2], Goal(GoalKind.BANDWIDTH, hints=Hints(())))
    assert "no way leads" in mixed_schedule(task).reason
    assert "limited" in mixed_schedule(custom(ring(6), shards, Goal(GoalKind.BANDWIDTH, steps=3))).reason
    assert mixed_schedule(custom(ring(6), [([0], [0], False)])).reason == "nothing moves"
    late = mixed_schedule(custom(ring(6), shards), Deadline.after(0.0))
    assert (late.schedule, late.cut) == (None, True)


def test_work_that_runs_out_anywhere():
    """There is a whole solution or none: never one with ways that came in after it."""
    task = all_to_all_and_gather(hypercube(3))
    parts = bundles(task)
    ended = []
    for work in range(2_000, 120_000, 9_000):
        try:
            mixture = solve(task, parts, relays_of(task), 0.0, Effort(work=work))
        except TimeUp:
            ended.append("nothing")
            continue
        ended.append("settled" if mixture.settled else "something")
        for number, bundle in enumerate(parts):
            amount = sum(c.amount for c in mixture.taken if c.bundle == number)
            assert amount == pytest.approx(len(bundle.shards))
    assert sorted(ended, key=["nothing", "something", "settled"].index) == ended
    assert {"nothing", "something"} <= set(ended)


def test_units_without_time_are_rounded():
    """When the clock ends the search for exact units, there are rounded ones: as many to each shard, all verified."""
    task = all_to_all_and_gather(hypercube(3))
    parts = bundles(task)
    mixture = solve(task, parts, relays_of(task), 0.0, Effort())
    late = Effort(Deadline.after(0.0))
    found = list(whole_units(mixture, parts, late, 2))
    assert late.clock_cut
    assert found[-1].k <= 2
    for units in found:
        for number, bundle in enumerate(parts):
            assert sum(n for c, n in units.columns if c.bundle == number) == units.k * len(bundle.shards)


def test_the_same_again():
    task = all_to_all_and_gather(hypercube(3))
    assert mixed_schedule(task) == mixed_schedule(task)


def test_the_portfolio_takes_it():
    """Groups at the same time, and a custom collective of all kinds: faster than what is known in steps."""
    text = """
together as groups {
    all_gather on torus(4, 4) among g[0..3, 0..1, 0]
    all_to_all on torus(4, 4) among g[0..3, 2..3, 0]
} with { goal bandwidth }
collective both on dgx1 {
    for r in 0..7 {
        chunk a[r] at g[r]
        need a[r] at g
    }
    for r in 0..7, s in 0..7 {
        chunk b[r, s] at g[r]
        need b[r, s] at g[s]
    }
    reduce total over g
    need total at g[0], g[5]
} with { goal bandwidth }
"""
    for task in analyse(Source("text", text), Options()).problems:
        least, known = bound(task), schedules_of(task)
        found = packings_of(task, least, known, Budget(), silent)
        empty = Result(Status.UNKNOWN, (), least)
        (solution,) = with_packings(task, empty, found).solutions
        assert solution.schedule.strategy == "mixed"
        time = seconds_per_byte(task, solution.schedule)
        assert least.throughput.time_per_byte <= time < min(seconds_per_byte(task, s) for s in known)


def test_sizes_of_schedules_stay_small():
    """One broadcast, 16 multicasts to four, and 16 messages, on 16 GCDs: some chunks a shard, not hundreds."""
    ranks = range(16)
    shards = [([r], [(r + n) % 16 for n in (1, 3, 7, 8)], False) for r in ranks]
    task = custom(mi250(), [*shards, *(([r], [(r + 5) % 16], False) for r in ranks), ([3], list(ranks), False)])
    found = mixed_schedule(task)
    assert verified(task, found.schedule).time_per_shard_byte == bound(task).throughput.time_per_byte
    assert found.schedule.chunks_per_shard <= 6
    assert all(a.step <= b.step for a, b in pairwise(found.schedule.transfers))


def test_families_are_left_to_packing():
    assert mixed_schedule(problem(ring(4), "all_gather")).time == Fraction(3, 2) / ring(4).unit
