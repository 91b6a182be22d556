"""The constructive fallback: a schedule for every problem whose targets can be reached, at once.

Each item gets a tree that grows along the cheapest edges, where links that carry much already cost more; then
its moves are list-scheduled, longest remaining chain first, one round a step; then steps that do not depend on
each other are merged. Reductions grow the tree of the reversed graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, lcm

from acclc.ir.problem import Problem, Rank
from acclc.ir.result import Result, Solution, Status
from acclc.ir.schedule import Schedule
from acclc.solve import network as networks
from acclc.solve.frontier import Unreachable, bound_of, non_dominated
from acclc.solve.items import Item, Kind, Moves, Shared, assemble, formulate, needs_meeting
from acclc.solve.network import Edge, Network
from acclc.solve.protocol import Budget, Progress, Report

EFFORT = 1_000_000
"""What all variants together may cost, in moves x edges looked at: keeps 16 ranks under a second."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to be greedy. ``hop`` is what a step costs beside load; ``levels`` puts each move at its depth."""

    chunks: int
    hop: float
    shared: Shared = Shared.MEET
    levels: bool = False


@dataclass(slots=True)
class _Task:
    """A move to be scheduled. ``after`` are the tasks it waits for."""

    item: int
    edge: Edge
    inward: bool
    after: list[int]
    before: list[int]
    chain: int = 0


class Greedy:
    """The solver of the registry."""

    name = "greedy"

    def solve(self, problem: Problem, budget: Budget, report: Report) -> Result:
        """Return the non-dominated of a few greedy schedules."""
        schedules = schedules_of(problem)
        bound = bound_of(problem)
        found = tuple(Solution(s) for s in non_dominated(schedules))
        report(Progress(f"greedy: {len(found)} schedules"))
        return Result(Status.FALLBACK, found, bound, complete=False)


def schedules_of(problem: Problem) -> list[Schedule]:
    """Return greedy schedules, a few variants. Raises Unreachable where a target cannot be reached."""
    network = networks.of_problem(problem)
    result: list[Schedule] = []
    spent = 0.0
    distances = [d for r in network.ranks for d in network.hops((r,)).values() if d]
    cost = (len(network.edges) + 50) * sum(distances) / max(1, len(distances))
    for variant in _variants(problem):
        effort = _moves(problem, variant) * cost
        if result and spent + effort > EFFORT:
            continue
        spent += effort
        result.append(schedule(problem, network, variant))
    return result


def _variants(problem: Problem) -> list[Variant]:
    """Variants within the limits on chunks, the safest first."""
    goal = problem.goal
    several = any(needs_meeting(s) for s in problem.shards)
    pieces = 1
    if several:
        pieces = lcm(*(len(set(s.targets)) for s in problem.shards if needs_meeting(s)))
        if pieces > 64:
            pieces = len(problem.topology.ranks)
    most = goal.chunks if goal.chunks is not None else 4 * pieces
    counts = [c for c in dict.fromkeys((1, pieces, 2 * pieces, 4 * pieces)) if c <= most]
    if goal.kind.value == "point" and goal.chunks is not None:
        counts = [goal.chunks]
    variants = [Variant(c, hop) for c in counts for hop in (1.0, 1000.0)]
    variants += [Variant(c, 1000.0, levels=True) for c in counts]
    if several:
        gathered = [Variant(counts[0], 1000.0, Shared.GATHER, levels) for levels in (True, False)]
        at_hub = [Variant(c, hop, Shared.HUB) for c in counts for hop in (1.0, 1000.0)]
        variants = [*variants[:2], *gathered, *variants[2:], *at_hub]
    return variants


def _moves(problem: Problem, variant: Variant) -> int:
    """About how many moves a variant has to place."""
    total = 0
    for s in problem.shards:
        if needs_meeting(s) and variant.shared is Shared.GATHER:
            total += len(s.sources) * len(s.targets)
        else:
            total += len(s.targets) + (len(s.sources) if s.reduced else 0)
    return total * variant.chunks


def schedule(problem: Problem, network: Network, variant: Variant) -> Schedule:
    """Return the schedule of one variant. Raises Unreachable."""
    items = formulate(problem, network, variant.chunks, variant.shared)
    load = [0.0] * len(network.capacity)
    tasks: list[_Task] = []
    for item in items:
        _route(network, item, load, variant.hop, tasks)
    _chains(tasks)
    step, rounds = _by_level(network, tasks) if variant.levels else _list_schedule(network, tasks)
    moves = [Moves() for _ in items]
    inward: list[list[tuple[Edge, int]]] = [[] for _ in items]
    outward: list[list[tuple[Edge, int]]] = [[] for _ in items]
    for n, task in enumerate(tasks):
        (inward if task.inward else outward)[task.item].append((task.edge, step[n]))
    moves = [Moves(tuple(a), tuple(b)) for a, b in zip(inward, outward, strict=True)]
    return assemble(problem, variant.chunks, items, moves, rounds, "greedy")


def _route(network: Network, item: Item, load: list[float], hop: float, tasks: list[_Task]) -> None:
    """Give an item its trees and add their moves to ``tasks``, with what each waits for."""
    last_in: list[int] = []
    if item.root is not None:
        tree = _grow(network, item, (item.root,), item.sources, load, hop, backward=True)
        sender: dict[Rank, int] = {}
        for edge in tree:
            sender[edge.src] = len(tasks)
            tasks.append(_Task(item.id, edge, True, [], []))
        for edge in tree:
            if edge.dst == item.root:
                last_in.append(sender[edge.src])
            else:
                _link(tasks, sender[edge.src], sender[edge.dst])
    if item.kind is Kind.REDUCE:
        return
    start = item.sources if item.root is None else (item.root,)
    entry: dict[Rank, int] = {}
    for edge in _grow(network, item, start, item.targets, load, hop, backward=False):
        entry[edge.dst] = len(tasks)
        tasks.append(_Task(item.id, edge, False, [], []))
        for first in [entry[edge.src]] if edge.src in entry else last_in:
            _link(tasks, first, entry[edge.dst])


def _link(tasks: list[_Task], first: int, second: int) -> None:
    tasks[first].before.append(second)
    tasks[second].after.append(first)


def _grow(
    network: Network,
    item: Item,
    start: Sequence[Rank],
    goals: Sequence[Rank],
    load: list[float],
    hop: float,
    *,
    backward: bool,
) -> list[Edge]:
    """Grow a tree from ``start`` until it holds all ``goals``: again and again the cheapest path to the next goal.

    Returns edges in the order they were added (a parent before its children) and adds them to ``load``.
    """
    depth: dict[Rank, int] = dict.fromkeys(start, 0)
    missing = set(goals) - set(depth)
    tree: list[Edge] = []
    own = set(start)
    while missing:
        path = _cheapest(network, depth, own, missing, load, hop, backward)
        if path is None:
            raise Unreachable(item.shard, tuple(sorted(start)), tuple(sorted(missing)), backward)
        for edge in path:
            near, far = (edge.dst, edge.src) if backward else (edge.src, edge.dst)
            depth[far] = depth[near] + 1
            missing.discard(far)
            tree.append(edge)
            for row, times in edge.rows:
                load[row] += times / network.capacity[row]
    return tree


def _cheapest(
    network: Network,
    depth: dict[Rank, int],
    own: set[Rank],
    goals: set[Rank],
    load: list[float],
    hop: float,
    backward: bool,
) -> list[Edge] | None:
    """Dijkstra from a tree to the nearest of ``goals``. An edge costs its hop and the heaviest load it meets."""
    edges_of = network.incoming if backward else network.outgoing
    best: dict[Rank, float] = {r: hop * d for r, d in depth.items()}
    via: dict[Rank, Edge] = {}
    heap = [(cost, int(rank)) for rank, cost in sorted(best.items())]
    heapq.heapify(heap)
    done: set[Rank] = set()
    nearest = float("inf")  # what the best way to a goal seen so far costs
    while heap:
        cost, node = heapq.heappop(heap)
        u = Rank(node)
        if u in done:
            continue
        done.add(u)
        if u in goals:
            path: list[Edge] = []
            while u not in depth:
                path.append(via[u])
                u = via[u].dst if backward else via[u].src
            return path[::-1]
        if (u not in own and u not in network.relays) or cost + hop >= nearest:
            continue
        for edge in edges_of[u]:
            v = edge.src if backward else edge.dst
            if v in done or v in depth:
                continue
            new = cost + hop + max(load[row] + times / network.capacity[row] for row, times in edge.rows)
            if new < best.get(v, nearest):
                if v in goals:
                    nearest = min(nearest, new)
                best[v] = new
                via[v] = edge
                heapq.heappush(heap, (new, int(v)))
    return None


def _chains(tasks: list[_Task]) -> list[int]:
    """Set each task's longest chain of tasks that wait for it; return the tasks in an order of dependence."""
    waiting = [len(t.after) for t in tasks]
    order = [n for n, w in enumerate(waiting) if w == 0]
    for n in order:
        for later in tasks[n].before:
            waiting[later] -= 1
            if waiting[later] == 0:
                order.append(later)
    for n in reversed(order):
        tasks[n].chain = 1 + max((tasks[k].chain for k in tasks[n].before), default=0)
    return order


def _by_level(network: Network, tasks: list[_Task]) -> tuple[list[int], tuple[int, ...]]:
    """Put each move at its depth: the fewest steps these trees allow; rounds as the heaviest row needs."""
    step = [0] * len(tasks)
    for n in _chains(tasks):
        step[n] = 1 + max((step[k] for k in tasks[n].after), default=-1)
    count = max(step, default=-1) + 1
    used = [[0] * len(network.capacity) for _ in range(count)]
    for n, task in enumerate(tasks):
        for row, times in task.edge.rows:
            used[step[n]][row] += times
    rounds = tuple(max(ceil(u / c) for u, c in zip(rows, network.capacity, strict=True) if u) for rows in used)
    return step, rounds


def _list_schedule(network: Network, tasks: list[_Task]) -> tuple[list[int], tuple[int, ...]]:
    """Place moves round by round, longest chain first, then merge rounds that do not depend on each other."""
    waiting = [len(t.after) for t in tasks]
    ready = [(-t.chain, n) for n, t in enumerate(tasks) if waiting[n] == 0]
    at = [0] * len(tasks)
    sizes: list[int] = []
    while ready:
        ready.sort()
        size = 1
        placed: list[int] = []
        while not placed:  # a path that crosses one budget twice may need a wider step
            room = [c * size for c in network.capacity]
            left: list[tuple[int, int]] = []
            for chain, n in ready:
                rows = tasks[n].edge.rows
                if all(room[row] >= times for row, times in rows):
                    for row, times in rows:
                        room[row] -= times
                    placed.append(n)
                else:
                    left.append((chain, n))
            size += not placed
        ready = left
        for n in placed:
            at[n] = len(sizes)
            for later in tasks[n].before:
                waiting[later] -= 1
                if waiting[later] == 0:
                    ready.append((-tasks[later].chain, later))
        sizes.append(size)
    return _merge(tasks, at, sizes)


def _merge(tasks: list[_Task], at: list[int], sizes: list[int]) -> tuple[list[int], tuple[int, ...]]:
    """Join consecutive rounds into steps as long as nothing in a step waits for another move of it."""
    earliest = [-1] * len(sizes)  # the latest round that some move of this round waits for
    for n, task in enumerate(tasks):
        for k in task.after:
            earliest[at[n]] = max(earliest[at[n]], at[k])
    step_of_round: list[int] = []
    rounds: list[int] = []
    begin = 0
    for k, size in enumerate(sizes):
        if rounds and earliest[k] < begin:
            rounds[-1] += size
        else:
            rounds.append(size)
            begin = k
        step_of_round.append(len(rounds) - 1)
    return [step_of_round[k] for k in at], tuple(rounds)
