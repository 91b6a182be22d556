"""Asks for single points (C, S, R) of one problem, remembers the answers, and knows what follows from them.

What follows, at the same S: no schedule at (C, R) means none with more chunks or fewer rounds; and a schedule
at (C, R) makes one at (kC, kR), so none at (kC, kR) means none at (C, R).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from acclc.bounds.loads import computes
from acclc.bounds.step_bound import last_step, step_certificate
from acclc.ir.problem import Problem
from acclc.ir.result import Bound, StepDual
from acclc.ir.schedule import Schedule
from acclc.solve import network as networks
from acclc.solve.cpsat import Answer, Tactics
from acclc.solve.items import Item, Shared, assemble, formulate, needs_meeting
from acclc.solve.model import Question, Reply, ask
from acclc.solve.protocol import Budget, Progress, Report
from acclc.solve.symmetry import Action, Symmetries

VARIABLE_LIMIT = 150_000
"""A larger model is not built: building it alone would take seconds."""
LANE_LIMIT = 64
"""Where a link has more lanes, rounds are too short to say anything: rates without a common unit of a useful size."""
HARD_MODEL = 4_000
"""From so many variables on, what symmetry could not find is not asked for again without it."""
VECTOR_SHARES = (0.25, 0.15, 0.1, 0.1)
"""The parts of a question's work that rounds-per-step vectors get when the total alone gave no answer."""
LARGE_MODEL = 2_000
"""From so many variables on (with the symmetry) the rounds of each step are given first: free, they seldom end."""
WORK_PER_VARIABLE = 1e-4
"""What each of those vectors gets in the first turn, by the variables of the model; in later turns GROWTH as much."""
GROWTH = 3
VECTORS_SHARE = 0.8
"""The part of a question's work for those vectors; the rounds being free gets the rest."""


Point = tuple[int, int, int]
"""(C, S, R)."""


@dataclass(slots=True)
class Ledger:
    """What one search may still spend, and how it ended. Shared by all probers of the search."""

    budget: Budget
    report: Report
    remaining: float
    clock_cut: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to spend."""
        if self.budget.deadline.expired:
            self.clock_cut = True
        return self.clock_cut or self.remaining <= 0.0

    @contextmanager
    def slice(self, part: float) -> Iterator[Ledger]:
        """Lend a part of what is left; what was spent of it is paid here."""
        lent = self.remaining * part
        inner = replace(self, remaining=lent)
        try:
            yield inner
        finally:
            self.remaining -= lent - inner.remaining
            self.clock_cut |= inner.clock_cut

    def ask(self, question: Question, work: float) -> Reply:
        """Answer a question within ``work`` and what is left, and pay for it."""
        if self.exhausted:
            return Reply(Answer.UNKNOWN)
        reply = ask(
            question,
            work=max(0.001, min(work, self.remaining)),
            deadline=self.budget.deadline,
            seed=self.budget.seed,
            workers=self.budget.workers,
        )
        self.remaining -= reply.work
        self.clock_cut |= reply.clock_cut
        return reply


@dataclass
class Prober:
    """One problem's points. ``bound`` is the bound of this problem (a part of a larger one may have its own)."""

    problem: Problem
    bound: Bound
    ledger: Ledger
    strategy: str = "exact"
    shared: Shared = Shared.MEET
    answers: dict[Point, Answer] = field(default_factory=dict)
    schedules: dict[Point, Schedule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.network = networks.of_problem(self.problem)
        self._symmetries: Symmetries | None = None
        self._step_bounds: dict[int, Fraction] = {}
        self.step_duals: dict[int, StepDual] = {}
        self.last_step = last_step(self.problem)
        hint = self.problem.goal.hints.relays
        # switches that multicast or reduce can do more than the model lets them
        gpus = self.problem.topology.ranks
        able = any(computes(self.problem, n.id) for n in self.problem.topology.nodes[len(gpus) :])
        met = any(map(needs_meeting, self.problem.shards))
        self.proves = not (self.network.truncated or able or met) and hint is None
        """Whether an infeasible model means that there is no schedule."""

    @property
    def sensible(self) -> bool:
        """Whether rounds mean anything here, and the smallest question is small enough to ask."""
        return bool(self.network.edges) and max(self.network.capacity, default=0) <= LANE_LIMIT

    def least_steps(self) -> int | None:
        """The fewest steps in which distances let every item arrive, hints on relays kept; None: some never do."""
        most = 0
        for item in formulate(self.problem, self.network, 1, self.shared):
            reached = 0
            if item.root is not None:
                into = self.network.hops((item.root,), backward=True)
                if any(r not in into for r in item.sources):
                    return None
                reached = max(into[r] for r in item.sources)
            out = self.network.hops(item.sources if item.root is None else (item.root,))
            if any(r not in out for r in item.targets):
                return None
            most = max(most, reached + max((out[r] for r in item.targets), default=0))
        return most

    # -- bounds ---------------------------------------------------------------------------------------------------

    @property
    def rate(self) -> Fraction:
        """The throughput bound: least R/C of any schedule."""
        return self.bound.rounds_per_chunk or Fraction(0)

    def rate_in(self, steps: int) -> Fraction:
        """The least R/C of a schedule of at most so many steps, as far as a bound says."""
        if steps not in self._step_bounds:
            found = step_certificate(self.problem, steps)
            self._step_bounds[steps] = self.rate if found is None else max(self.rate, found[0])
            if found is not None and found[0] > self.rate:
                self.step_duals[steps] = found[1]
        return self._step_bounds[steps]

    def least_rounds(self, chunks: int, steps: int, *, cheap: bool = False) -> int:
        """The least R at (C, S), as far as bounds say. ``cheap``: without the bound for these steps."""
        rate = self.rate if cheap else self.rate_in(steps)
        return max(steps, ceil(rate * chunks), self.last_step.rounds(chunks))

    def excluded_by(self, chunks: int, steps: int, rounds: int) -> str | None:
        """Return why there is no schedule at a point: ``bound``, ``infeasible``, or None if that is not known."""
        if rounds < self.least_rounds(chunks, steps, cheap=True):
            return "bound"
        for (c, s, r), answer in self.answers.items():
            if answer is not Answer.INFEASIBLE or s != steps or not self.proves:
                continue
            if any(k * chunks >= c and k * rounds <= r for k in range(1, r // rounds + 1)):
                return "infeasible"
        return "bound" if rounds < self.least_rounds(chunks, steps) else None

    # -- questions ------------------------------------------------------------------------------------------------

    def probe(
        self, chunks: int, steps: int, rounds: int, work: float, *, quick: bool = False, alone: bool = False
    ) -> Answer:
        """Ask for a point; a schedule found is kept in ``schedules``.

        ``quick``: only with symmetry, if any. ``alone``: it is the only point asked for, and worth much work.
        """
        point = (chunks, steps, rounds)
        if self.answers.get(point, Answer.UNKNOWN) is not Answer.UNKNOWN:
            return self.answers[point]
        if rounds < steps or (self.excluded_by(*point) == "infeasible"):
            return Answer.INFEASIBLE
        items = formulate(self.problem, self.network, chunks, self.shared)
        answer = self._attempts(point, items, work, quick, alone)
        self.answers[point] = answer
        best = min((Fraction(r, c) for c, _, r in self.schedules), default=None)
        self.ledger.report(
            Progress(f"{self.strategy} (C, S, R) = ({chunks}, {steps}, {rounds}): {answer.value}", best, self.rate)
        )
        return answer

    def _attempts(self, point: Point, items: tuple[Item, ...], work: float, quick: bool, alone: bool) -> Answer:
        """With symmetry first (finds), the rounds of each step free, then given; then without (finds or excludes)."""
        actions = self._actions(items)
        chunks, steps, rounds = point
        size = self._variables(items, steps)
        if alone and actions and size > LARGE_MODEL * actions[0].order:
            return self._given_first(point, items, actions[0], work)
        for action in actions:
            answer = self._attempt(point, items, rounds, action, work * 0.2)
            if answer is Answer.UNKNOWN:
                vectors = [v for v in round_vectors(steps, rounds) if self.last_step.allows(chunks, v)]
                for vector, share in zip(vectors, VECTOR_SHARES, strict=False):
                    answer = self._attempt(point, items, vector, action, work * share)
                    if answer is Answer.FOUND:
                        return answer
                if size > HARD_MODEL:
                    return Answer.UNKNOWN
                break  # a smaller group makes a larger model
            if answer is Answer.FOUND:
                return answer
        if quick and actions:
            return Answer.UNKNOWN
        answer = self._attempt(point, items, rounds, None, work * (0.3 if actions else 1.0))
        return answer if self.proves or answer is Answer.FOUND else Answer.UNKNOWN

    def _given_first(self, point: Point, items: tuple[Item, ...], action: Action, work: float) -> Answer:
        """Of a large model: every vector of rounds in turn, ever longer, then the rounds free. It excludes nothing.

        In the second turn and later feasibility jump takes part: it is slow to start, and finds what clauses do not.
        """
        chunks, steps, rounds = point
        end = self.ledger.remaining - work * VECTORS_SHARE
        vectors = [v for v in likely_vectors(steps, rounds) if self.last_step.allows(chunks, v)]
        part = self._variables(items, steps) / action.order * WORK_PER_VARIABLE
        tactics = Tactics.CLAUSES
        while vectors and not self.ledger.exhausted and end < self.ledger.remaining and part < work * GROWTH:
            unknown = []
            for vector in vectors:
                left = self.ledger.remaining - end
                answer = self._attempt(point, items, vector, action, min(part, left), tactics)
                if answer is Answer.FOUND:
                    return answer
                if answer is Answer.UNKNOWN:
                    unknown.append(vector)
            vectors, part, tactics = unknown, part * GROWTH, Tactics.JUMPS
        left = self.ledger.remaining - end + work * (1 - VECTORS_SHARE)
        answer = self._attempt(point, items, rounds, action, left)
        return answer if answer is Answer.FOUND else Answer.UNKNOWN

    def _actions(self, items: tuple[Item, ...]) -> list[Action]:
        if not self.problem.goal.hints.symmetry:
            return []
        if self._symmetries is None:
            self._symmetries = Symmetries(self.network, items)
        return self._symmetries.actions(items)

    def _attempt(
        self,
        point: Point,
        items: tuple[Item, ...],
        rounds: int | tuple[int, ...],
        action: Action | None,
        work: float,
        tactics: Tactics | None = None,
    ) -> Answer:
        chunks, steps, _ = point
        order = 1 if action is None else action.order
        if self._variables(items, steps) > VARIABLE_LIMIT * order:
            return Answer.UNKNOWN
        reply = self.ledger.ask(Question(self.network, items, steps, rounds, action, tactics=tactics), work)
        if reply.answer is Answer.FOUND:
            self.schedules[point] = assemble(self.problem, chunks, items, reply.moves, reply.rounds, self.strategy)
        return reply.answer

    def _variables(self, items: tuple[Item, ...], steps: int) -> int:
        """About how many variables a model has without symmetry."""
        trees = sum(1 if i.root is None or len(i.targets) <= 1 else 2 for i in items if not i.is_path)
        paths = [i for i in items if i.is_path]
        flows = min(len({i.sources for i in paths}), len({i.targets for i in paths}))
        return (trees + flows) * len(self.network.edges) * steps


def round_vectors(steps: int, rounds: int) -> list[tuple[int, ...]]:
    """Return some ways to deal rounds to steps, each as even as possible: mirrored, spaced, falling, rising.

    Giving the solver the rounds of each step turns products into constants; that made hard points easy.
    """
    if rounds < steps or steps == 1:
        return []
    low, extra = divmod(rounds, steps)
    spaced = [low + 1 if (s * extra) % steps < extra else low for s in range(steps)]
    falling = [low + 1] * extra + [low] * (steps - extra)
    chosen = [tuple(spaced), tuple(falling), tuple(falling[::-1])]
    if steps % 2 == 1 or extra % 2 == 0:
        wide = [low + 1] * (extra // 2) + [low] * (steps // 2 - extra // 2)
        middle = [low + extra % 2] if steps % 2 == 1 else []
        chosen.insert(0, tuple(wide + middle + wide[::-1]))
    return list(dict.fromkeys(chosen))


def likely_vectors(steps: int, rounds: int) -> list[tuple[int, ...]]:
    """Return ways to deal rounds to steps, the likeliest first: tapered, then even, then tapered the other way.

    Towards the end of a copy little is left that several ranks need; reductions begin with that.
    """
    if rounds < steps or steps == 1:
        return []
    # a straight line down to one round in the last step, rounded by largest remainders
    parts = [divmod(2 * (rounds - steps) * (steps - 1 - s), steps * (steps - 1)) for s in range(steps)]
    vector = [1 + whole for whole, _ in parts]
    order = sorted(range(steps), key=lambda s: -parts[s][1])
    for s in order[: rounds - sum(vector)]:
        vector[s] += 1
    return list(dict.fromkeys((tuple(vector), *round_vectors(steps, rounds), tuple(vector[::-1]))))
