"""The exact model: do these items fit into S steps of given rounds? Asked of CP-SAT, answered with moves.

Legend (s counts steps; a *backward* tree grows from a reduction's root against the edges, in reversed time):
  x[e, s]     edge e carries the item in step s
  has[v, s]   rank v holds the item before step s;   has[v, s+1] = has[v, s] + sum of x[e, s] into v
  f[e, s]     how many of a source's interchangeable items edge e carries in step s (integer flow)
  inv[v, s]   how many of them wait at v before step s
  r[s]        rounds of step s; row l (a link or a budget) of capacity c carries at most c * r[s]
With a group of symmetries only one item of each orbit has variables, and only one row of each orbit a constraint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from acclc.ir.problem import Rank
from acclc.solve.cpsat import Answer, Tactics, run
from acclc.solve.items import Item, Kind, Moves
from acclc.solve.network import Edge, Network
from acclc.solve.protocol import Deadline
from acclc.solve.symmetry import Action

WORK_PER_VARIABLE = 6e-6
"""What building one variable with its constraints costs, in work units: so that large models are charged for it."""


@dataclass(frozen=True, slots=True)
class Question:
    """Do ``items`` fit into ``steps`` steps? ``rounds``: their total, or the rounds of each step.

    ``pooled``: a row of capacity c carries at most c * rounds in all steps together. Steps then are no moments, only
    hops from where an item starts: what is asked for is trees of that depth (a pipeline). ``tactics``: how to search;
    by default as the kind of question asks.
    """

    network: Network
    items: tuple[Item, ...]
    steps: int
    rounds: int | tuple[int, ...]
    action: Action | None = None
    pooled: bool = False
    tactics: Tactics | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer; with FOUND the moves of each item and the rounds of each step."""

    answer: Answer
    moves: tuple[Moves, ...] = ()
    rounds: tuple[int, ...] = ()
    work: float = 0.0
    clock_cut: bool = False


@dataclass(slots=True)
class _Tree:
    """Variables of one out-tree or (backward) in-tree. ``x[edge id, s]`` with s in real time."""

    backward: bool
    x: dict[tuple[int, int], Any]


@dataclass(slots=True)
class _Flow:
    """Variables of the items that leave one rank (backward: that go to one rank)."""

    items: list[Item]
    root: Rank
    backward: bool
    f: dict[tuple[int, int], Any]


@dataclass(frozen=True, slots=True)
class _Task:
    """One tree to build: from ``sources`` to ``targets`` in the direction of search, not before ``delay`` steps."""

    sources: tuple[Rank, ...]
    targets: tuple[Rank, ...]
    backward: bool
    delay: int = 0


_Variables = dict[tuple[Rank, int], list[Any]]
"""Variables by rank and step of search."""


class _Builder:
    """Builds the model of one question."""

    def __init__(self, question: Question) -> None:
        from ortools.sat.python import cp_model

        self.question = question
        self.network = question.network
        self.steps = question.steps
        self.model = cp_model.CpModel()
        self.possible = True
        self.variables = 0
        self.trees: dict[int, list[_Tree]] = {}
        self.flows: list[_Flow] = []
        self.load: dict[tuple[int, int], list[tuple[Any, int]]] = {}
        self.rounds = self._round_variables()

    def build(self) -> None:
        """Add everything, or find that a distance alone makes it impossible (``possible``)."""
        action = self.question.action
        chosen = [i for i in self.question.items if action is None or action.is_representative(i.id)]
        for item in chosen:
            if not item.is_path:
                self._add_item(item)
        for flow in flows_of([i for i in self.question.items if i.is_path]):
            if action is None or action.is_first_rank(flow.root):
                self.flows.append(flow)
                self._add_flow(flow)
            if not self.possible:
                return
        self._add_capacities()

    def _round_variables(self) -> list[Any]:
        rounds, steps = self.question.rounds, self.steps
        if isinstance(rounds, tuple):
            return list(rounds)
        if self.question.pooled:
            return [rounds]
        if rounds < steps:
            self.possible = False
            return [1] * steps
        if steps == 1:
            return [rounds]
        variables = [self.model.new_int_var(1, rounds - steps + 1, f"r{s}") for s in range(steps)]
        self.model.add(sum(variables) == rounds)
        return variables

    def _add_item(self, item: Item) -> None:
        if item.kind is Kind.COPY:
            self.trees[item.id] = [self._add_tree(_Task(item.sources, item.targets, False))]
            return
        assert item.root is not None
        if item.kind is Kind.REDUCE:
            self.trees[item.id] = [self._add_tree(_Task((item.root,), item.sources, True))]
            return
        into = self.network.hops((item.root,), backward=True)
        out = self.network.hops((item.root,))
        before = max(into.get(r, self.steps + 1) for r in item.sources)
        after = max(out.get(r, self.steps + 1) for r in item.targets)
        if before + after > self.steps:
            self.possible = False
            return
        inward = self._add_tree(_Task((item.root,), item.sources, True, delay=after))
        outward = self._add_tree(_Task((item.root,), item.targets, False, delay=before))
        self.trees[item.id] = [inward, outward]
        self._add_meeting(item.root, inward, outward)

    def _add_meeting(self, root: Rank, inward: _Tree, outward: _Tree) -> None:
        """All moves into the root come before all moves out of it: ``done[s]`` says that step s may send."""
        done = [self.model.new_bool_var("") for _ in range(self.steps)]
        for earlier, later in pairwise(done):
            self.model.add_implication(earlier, later)
        for (e, s), x in inward.x.items():
            if self.network.edges[e].dst == root:
                self.model.add_implication(x, ~done[s])
        for (e, s), x in outward.x.items():
            if self.network.edges[e].src == root:
                self.model.add_implication(x, done[s])

    def _charge(self, edge: Edge, step: int, variable: Any) -> None:
        """Count a variable on the rows its edge loads (on the orbits of rows, with a group)."""
        self.variables += 1
        action = self.question.action
        rows = edge.rows if action is None else action.loads(edge)
        period = 0 if self.question.pooled else step
        for row, times in rows:
            self.load.setdefault((row, period), []).append((variable, times))

    def _add_capacities(self) -> None:
        from ortools.sat.python import cp_model

        for (row, period), terms in sorted(self.load.items(), key=lambda kv: kv[0]):
            capacity = self.network.capacity[row]
            total = cp_model.LinearExpr.weighted_sum([v for v, _ in terms], [k for _, k in terms])
            self.model.add(total <= capacity * self.rounds[period])

    def _reach(self, task: _Task) -> tuple[dict[Rank, int], dict[Rank, int]]:
        """Earliest step before which each rank can hold it; steps from each rank to the nearest target."""
        since = {r: d + task.delay for r, d in self.network.hops(task.sources, backward=task.backward).items()}
        onward = self.network.hops(task.targets, backward=not task.backward)
        if any(since.get(t, self.steps + 1) > self.steps for t in task.targets if t not in task.sources):
            self.possible = False
        return since, onward

    def _usable(self, task: _Task) -> list[tuple[Edge, Rank, Rank, int]]:
        """The (edge, near rank, far rank, step of search) that can be of use."""
        since, onward = self._reach(task)
        result = []
        for edge in self.network.edges:
            near, far = (edge.dst, edge.src) if task.backward else (edge.src, edge.dst)
            if far in task.sources or near not in since or far not in onward:
                continue
            if near not in task.sources and near not in self.network.relays:
                continue
            if onward[far] > 0 and far not in self.network.relays:
                continue
            start = since[near]
            if near in task.sources:
                start = task.delay
            end = self.steps - onward[far]
            if self.question.pooled and near in task.sources:
                end = min(end, start + 1)
            result += [(edge, near, far, s) for s in range(start, end)]
        return result

    def _real(self, task: _Task, s: int) -> int:
        return self.steps - 1 - s if task.backward else s

    def _add_tree(self, task: _Task) -> _Tree:
        tree = _Tree(task.backward, {})
        usable = self._usable(task)
        if not self.possible:
            return tree
        model = self.model
        entering: _Variables = {}
        leaving: _Variables = {}
        for edge, near, far, s in usable:
            x = model.new_bool_var("")
            tree.x[edge.id, self._real(task, s)] = x
            self._charge(edge, self._real(task, s), x)
            entering.setdefault((far, s), []).append(x)
            if near not in task.sources:
                leaving.setdefault((near, s), []).append(x)
        for rank in self.network.ranks:
            if rank in task.sources:
                continue
            if self.question.pooled:
                self._pass_on(rank, rank in task.targets, entering, leaving)
            else:
                self._hold(rank, rank in task.targets, entering, leaving)
        return tree

    def _hold(self, rank: Rank, needed: bool, entering: _Variables, leaving: _Variables) -> None:
        """What arrives at a rank stays there; it may send it on in any later step."""
        model = self.model
        held: Any = 0
        for s in range(self.steps):
            for x in leaving.get((rank, s), ()):
                if isinstance(held, int):
                    model.add(x == 0)
                else:
                    model.add_implication(x, held)
            arrivals = entering.get((rank, s), [])
            if arrivals:
                later = model.new_bool_var("")
                model.add(sum(arrivals) + held == later)
                held = later
        if needed:
            if isinstance(held, int):
                self.possible = False
            else:
                model.add(held == 1)

    def _pass_on(self, rank: Rank, needed: bool, entering: _Variables, leaving: _Variables) -> None:
        """A rank is at one level of the tree, and sends on at the next one."""
        model = self.model
        levels: list[Any] = []
        for s in range(self.steps):
            arrivals, onward = entering.get((rank, s), []), leaving.get((rank, s + 1), [])
            if not arrivals:
                for x in onward:
                    model.add(x == 0)
                continue
            level = model.new_bool_var("")
            model.add(sum(arrivals) == level)
            for x in onward:
                model.add_implication(x, level)
            levels.append(level)
        if needed:
            model.add_exactly_one(levels)
        else:
            model.add_at_most_one(levels)

    def _add_flow(self, flow: _Flow) -> None:
        demand: dict[Rank, int] = {}
        for item in flow.items:
            goal = item.sources[0] if flow.backward else item.targets[0]
            demand[goal] = demand.get(goal, 0) + 1
        total = sum(n for r, n in demand.items() if r != flow.root)
        task = _Task((flow.root,), tuple(sorted(demand)), flow.backward)
        usable = self._usable(task)
        if not self.possible:
            return
        model = self.model
        entering: _Variables = {}
        leaving: _Variables = {}
        for edge, near, far, s in usable:
            f = model.new_int_var(0, total, "")
            flow.f[edge.id, self._real(task, s)] = f
            self._charge(edge, self._real(task, s), f)
            entering.setdefault((far, s), []).append(f)
            leaving.setdefault((near, s), []).append(f)
        for rank in self.network.ranks:
            if rank == flow.root:
                continue
            waiting: Any = 0
            for s in range(self.steps):
                out, arrivals = leaving.get((rank, s), []), entering.get((rank, s), [])
                if out:
                    model.add(sum(out) <= waiting)
                if out or arrivals:
                    after = model.new_int_var(0, total, "")
                    model.add(waiting + sum(arrivals) - sum(out) == after)
                    waiting = after
            if not isinstance(waiting, int):
                model.add(waiting == demand.get(rank, 0))
            elif demand.get(rank, 0):
                self.possible = False


def flows_of(items: Sequence[Item]) -> list[_Flow]:
    """Group copies from one rank to one other by their source, or by their target if that makes fewer groups."""
    backward = len({i.targets for i in items}) < len({i.sources for i in items})
    groups: dict[Rank, list[Item]] = {}
    for item in items:
        groups.setdefault(item.targets[0] if backward else item.sources[0], []).append(item)
    return [_Flow(group, root, backward, {}) for root, group in sorted(groups.items())]


def ask(question: Question, *, work: float, deadline: Deadline, seed: int = 0, workers: int = 1) -> Reply:
    """Answer a question. INFEASIBLE proves nothing when the question has a symmetry."""
    builder = _Builder(question)
    if builder.possible:
        builder.build()
    cost = builder.variables * WORK_PER_VARIABLE
    if not builder.possible:
        return Reply(Answer.INFEASIBLE, work=cost)
    tactics = _tactics(question)
    result = run(builder.model, work=work, deadline=deadline, seed=seed, workers=workers, tactics=tactics)
    cost += result.work
    if result.answer is not Answer.FOUND:
        return Reply(result.answer, work=cost, clock_cut=result.clock_cut)
    value = result.solver.value
    rounds = tuple(r if isinstance(r, int) else int(value(r)) for r in builder.rounds)
    moves: dict[int, Moves] = {}
    for item_id, trees in builder.trees.items():
        moves[item_id] = _tree_moves(question.network, trees, value)
    for flow in builder.flows:
        moves.update(_flow_moves(question.network, flow, question.steps, value))
    if question.action is not None:
        moves = question.action.spread(question.network, moves)
    return Reply(Answer.FOUND, tuple(moves[i.id] for i in question.items), rounds, cost)


def _tactics(question: Question) -> Tactics:
    if question.tactics is not None:
        return question.tactics
    if question.pooled:
        return Tactics.RELAXATIONS
    return Tactics.CLAUSES if isinstance(question.rounds, tuple) else Tactics.MIXED


def _tree_moves(network: Network, trees: Sequence[_Tree], value: Any) -> Moves:
    parts: dict[bool, tuple[tuple[Edge, int], ...]] = {}
    for tree in trees:
        parts[tree.backward] = tuple((network.edges[e], s) for (e, s), x in tree.x.items() if value(x))
    return Moves(parts.get(True, ()), parts.get(False, ()))


def _flow_moves(network: Network, flow: _Flow, steps: int, value: Any) -> Mapping[int, Moves]:
    """Take the flow apart into one walk an item: units wait at ranks and leave first come, first served."""
    pools: dict[Rank, list[list[tuple[Edge, int]]]] = {r: [] for r in network.ranks}
    pools[flow.root] = [[] for i in flow.items if i.sources != i.targets]
    by_step: dict[int, list[tuple[Edge, int]]] = {}
    for (e, s), f in sorted(flow.f.items(), key=lambda kv: kv[0]):
        if value(f):
            by_step.setdefault(s, []).append((network.edges[e], int(value(f))))
    for s in range(steps - 1, -1, -1) if flow.backward else range(steps):
        arrived: list[tuple[Rank, list[tuple[Edge, int]]]] = []
        for edge, amount in by_step.get(s, ()):
            near, far = (edge.dst, edge.src) if flow.backward else (edge.src, edge.dst)
            for _ in range(amount):
                arrived.append((far, [*pools[near].pop(0), (edge, s)]))
        for far, walk in arrived:
            pools[far].append(walk)
    result: dict[int, Moves] = {}
    for item in flow.items:
        if item.sources == item.targets:
            result[item.id] = Moves()
            continue
        goal = item.sources[0] if flow.backward else item.targets[0]
        walk = pools[goal].pop(0)
        if flow.backward:
            walk = walk[::-1]
        result[item.id] = Moves((), tuple(_without_loops(walk)))
    return result


def _without_loops(walk: list[tuple[Edge, int]]) -> list[tuple[Edge, int]]:
    """Cut what returns to a rank visited before: waiting there does as well."""
    kept: list[tuple[Edge, int]] = []
    for edge, step in walk:
        for k, (before, _) in enumerate(kept):
            if before.src == edge.src:
                del kept[k:]
                break
        kept.append((edge, step))
    for k, (edge, _) in enumerate(kept):  # the walk may end at a rank that it passed
        if edge.src == kept[-1][0].dst:
            return kept[:k]
    return kept
