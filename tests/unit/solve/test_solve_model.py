"""The model against exhaustive search on tiny machines: for each (C, S) the least R is the same."""

from collections import Counter
from functools import cache
from itertools import combinations, product

import pytest
from solve_cases import both, hypercube, line, machine, problem, ring, simulate, star

from acclc.solve import network
from acclc.solve.cpsat import Answer, Tactics
from acclc.solve.items import Kind, assemble, formulate
from acclc.solve.model import Question, ask
from acclc.solve.protocol import Deadline

TRIANGLE = machine(3, both([(0, 1, 1), (1, 2, 1), (0, 2, 1)]))
ONE_WAY = machine(3, [(0, 1, 2), (1, 2, 1), (2, 0, 1)])
DIAMOND = machine(4, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1), (3, 0, 1), (3, 2, 1), (1, 0, 1)])
SHARED = machine(3, both([(0, 1, 1), (1, 2, 1), (0, 2, 1)]), budgets=[((0, 1, 2, 3), 2)])


def solve(p, chunks, steps, rounds):
    net = network.of_problem(p)
    items = formulate(p, net, chunks)
    reply = ask(Question(net, items, steps, rounds), work=20.0, deadline=Deadline())
    if reply.answer is Answer.FOUND:
        schedule = assemble(p, chunks, items, reply.moves, reply.rounds, "exact")
        assert simulate(p, schedule) == (chunks, steps, sum(schedule.rounds))
    return reply.answer


def splits(total, parts):
    """All ways to deal ``total`` rounds to steps, at least one each."""
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in splits(total - first, parts - 1):
            yield (first, *rest)


def copies_reach(p, chunks, rounds):
    """Whether copies within these rounds a step can satisfy the problem: every state that can come about is tried."""
    links = p.topology.links
    lanes = [p.topology.lanes(x) for x in links]
    start = tuple(
        frozenset((s.id, i) for s in p.shards if r in s.sources for i in range(chunks)) for r in p.topology.ranks
    )
    goal = [frozenset((s.id, i) for s in p.shards if r in s.targets for i in range(chunks)) for r in p.topology.ranks]

    def choices(held, n, width):
        news = sorted(held[links[n].src] - held[links[n].dst])
        return list(combinations(news, min(width, len(news))))

    @cache
    def search(held, step):
        if all(g <= h for g, h in zip(goal, held, strict=True)):
            return True
        if step == len(rounds):
            return False
        states = set()
        for sent in product(*(choices(held, n, lanes[n] * rounds[step]) for n in range(len(links)))):
            after = [set(h) for h in held]
            for n, what in enumerate(sent):
                after[links[n].dst] |= set(what)
            states.add(tuple(map(frozenset, after)))
        return any(search(state, step + 1) for state in sorted(states, key=lambda s: -sum(map(len, s))))

    return search(start, 0)


@pytest.mark.parametrize(
    ("topology", "collective", "chunks", "steps"),
    [
        (TRIANGLE, "all_gather", 1, 1),
        (TRIANGLE, "all_gather", 1, 2),
        (TRIANGLE, "all_gather", 2, 1),
        (TRIANGLE, "broadcast", 2, 2),
        (TRIANGLE, "broadcast", 3, 2),
        (ONE_WAY, "all_gather", 1, 2),
        (ONE_WAY, "all_gather", 2, 2),
        (ONE_WAY, "all_to_all", 1, 2),
        (ONE_WAY, "gather", 2, 2),
        (DIAMOND, "broadcast", 2, 2),
        (DIAMOND, "broadcast", 3, 3),
        (DIAMOND, "scatter", 2, 2),
        (DIAMOND, "gather", 1, 2),
        (line(3), "all_gather", 2, 2),
        (line(4), "broadcast", 2, 4),
        (line(3), "all_to_all", 1, 2),
    ],
)
def test_the_least_rounds_are_those_of_exhaustive_search(topology, collective, chunks, steps):
    p = problem(topology, collective)
    least = next(r for r in range(steps, 40) if any(copies_reach(p, chunks, v) for v in splits(r, steps)))
    assert solve(p, chunks, steps, least) is Answer.FOUND
    assert solve(p, chunks, steps, least - 1) is Answer.INFEASIBLE


@cache
def reductions_reach(topology, root, steps):
    """Whether a vector can be reduced at ``root``, each link carrying one sum of disjoint parts a step."""
    links, ranks = topology.links, topology.ranks
    full = frozenset(ranks)

    def sums(values):
        made = {frozenset()}
        for v in values:
            made |= {m | v for m in made if not m & v}
        return made - {frozenset()}

    def search(held, step):
        if full in sums(held[root]):
            return True
        if step == steps:
            return False
        options = [[None, *sorted(sums(held[x.src]), key=sorted)] for x in links]
        seen = set()
        for sent in product(*options):
            after = [set(h) for h in held]
            for x, what in zip(links, sent, strict=True):
                if what is not None:
                    after[x.dst].add(what)
            state = tuple(map(frozenset, after))
            if state not in seen:
                seen.add(state)
                if search(state, step + 1):
                    return True
        return False

    return search(tuple(frozenset((frozenset((r,)),)) for r in ranks), 0)


CYCLE = machine(3, [(0, 1, 1), (1, 2, 1), (2, 0, 1)])
CYCLE_AND_BACK = machine(3, [(0, 1, 1), (1, 2, 1), (2, 0, 1), (1, 0, 1)])


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("topology", [CYCLE, CYCLE_AND_BACK, line(3)], ids=["cycle", "and back", "line"])
def test_reductions_need_the_steps_of_exhaustive_search(topology, steps):
    for root in topology.ranks:
        found = reductions_reach(topology, root, steps)
        answer = solve(problem(topology, "reduce", root=root), 1, steps, steps)
        assert answer is (Answer.FOUND if found else Answer.INFEASIBLE)


@pytest.mark.parametrize("topology", [DIAMOND, ONE_WAY, ring(5), star(4)], ids=lambda t: len(t.nodes))
def test_a_reduce_scatter_is_an_all_gather_on_the_reversed_machine(topology):
    links = [(x.dst, x.src, x.count) for x in topology.links]
    gpus = len(topology.ranks)
    reversed_machine = machine(gpus, links, switches=len(topology.nodes) - gpus)
    for chunks, steps, rounds in [(1, 2, 2), (1, 2, 3), (2, 2, 4), (1, 3, 3), (2, 3, 5), (1, 1, 3)]:
        forward = solve(problem(topology, "reduce_scatter"), chunks, steps, rounds)
        assert forward is solve(problem(reversed_machine, "all_gather"), chunks, steps, rounds)
        assert forward is not Answer.UNKNOWN


def test_a_budget_limits_what_links_carry_together():
    # 0 sends to 1 and 2 over links that share two lanes a round with the way back
    p = problem(SHARED, "all_gather")
    assert solve(p, 1, 1, 1) is Answer.INFEASIBLE
    assert solve(p, 1, 1, 2) is Answer.FOUND
    assert solve(p, 2, 1, 3) is Answer.INFEASIBLE
    assert solve(p, 2, 1, 4) is Answer.FOUND


def test_rounds_of_each_step_can_be_given():
    p = problem(ring(4), "all_gather")
    assert solve(p, 2, 2, 3) is Answer.FOUND
    found = {v: solve(p, 2, 2, v) for v in [(2, 1), (1, 2)]}
    assert Answer.FOUND in found.values()
    assert solve(p, 2, 2, (1, 1)) is Answer.INFEASIBLE


def test_fewer_rounds_than_steps_cannot_be():
    assert solve(problem(ring(4), "all_gather"), 1, 3, 2) is Answer.INFEASIBLE


def test_direct_all_reduce_goes_up_and_down_within_shared_steps():
    p = problem(line(3), "all_reduce")
    items = formulate(p, network.of_problem(p), 3)
    assert {i.kind for i in items} == {Kind.MEET}
    assert {i.root for i in items} == {0, 1, 2}
    assert solve(p, 3, 4, 7) is Answer.FOUND
    assert solve(p, 3, 3, 30) is Answer.INFEASIBLE  # an end of the line is two steps from the other, both ways


def test_a_flow_with_waiting_and_relays():
    assert solve(problem(hypercube(3), "all_to_all"), 1, 3, 4) is Answer.FOUND
    assert solve(problem(hypercube(3), "all_to_all"), 1, 3, 3) is Answer.INFEASIBLE


@pytest.mark.parametrize(
    ("chunks", "steps", "answer"), [(1, 1, "found"), (2, 1, "infeasible"), (4, 2, "found"), (5, 2, "infeasible")]
)
def test_pooled_capacities_leave_steps_to_be_levels(chunks, steps, answer):
    """From 0 to 1 three units may go in all, to 2 one; between 1 and 2 three."""
    p = problem(machine(3, both([(0, 1, 3), (0, 2, 1), (1, 2, 3)])), "broadcast")
    net = network.of_problem(p)
    items = formulate(p, net, chunks)
    reply = ask(Question(net, items, steps, 1, pooled=True), work=20.0, deadline=Deadline())
    assert reply.answer.value == answer
    if reply.answer is Answer.FOUND:
        load = Counter(row for m in reply.moves for edge, _ in m.outward for row, _ in edge.rows)
        assert all(n <= net.capacity[row] for row, n in load.items())
        for item, moves in zip(items, reply.moves, strict=True):
            level = {item.sources[0]: 0}
            for edge, step in sorted(moves.outward, key=lambda m: m[1]):
                assert level[edge.src] == step
                assert edge.dst not in level
                level[edge.dst] = step + 1
            assert len(level) == 3
            assert max(level.values()) <= steps


@pytest.mark.parametrize("tactics", Tactics)
def test_every_tactics_gives_the_same_answers(tactics):
    p = problem(ring(5), "all_gather")
    net = network.of_problem(p)
    items = formulate(p, net, 2)
    for rounds, answer in [((2, 2), Answer.FOUND), ((2, 1), Answer.INFEASIBLE), (4, Answer.FOUND)]:
        reply = ask(Question(net, items, 2, rounds, tactics=tactics), work=5.0, deadline=Deadline())
        assert reply.answer is answer
