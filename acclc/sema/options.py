"""The options of a collective: goal, limits, deadline, hints, root, operator, pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from acclc.diagnostics import Label, suggest
from acclc.ir.problem import Goal, GoalKind, Op
from acclc.sema import quantities
from acclc.sema.arithmetic import evaluate
from acclc.sema.limits import MAX_CHANNELS, MAX_LIMIT, MAX_WEIGHT, MIN_BLOCKS
from acclc.sema.references import listed
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.source import Span
from acclc.syntax import ast

GOAL_OPTIONS = frozenset({"goal", "chunks", "steps", "rounds", "channels", "blocks", "within", "relays", "symmetry"})
_PLAIN_GOALS = {
    "latency": GoalKind.LATENCY,
    "bandwidth": GoalKind.BANDWIDTH,
    "pareto": GoalKind.PARETO,
}


@dataclass(slots=True)
class Choices:
    """What the options say, before nodes are looked up. ``spans``: the first option of each sort."""

    goal: Goal
    op: Op | None = None
    weight: int = 1
    root: ast.NodeRef | None = None
    pairs: ast.PairsOption | None = None
    relays: ast.RelaysOption | None = None
    spans: dict[str, Span] = field(default_factory=dict)


def read_options(
    options: Sequence[ast.Option], allowed: Collection[str], place: str, default: Goal, report: Report
) -> Choices:
    """Return what ``options`` say beyond the ``default`` goal; errors are reported. ``place`` is for messages."""
    choices = Choices(default)
    for option in options:
        sort = sort_of(option)
        if sort in choices.spans:
            report.error(
                "duplicate-option",
                f"`{sort}` is said twice",
                option.span,
                others=(Label(choices.spans[sort], "the first one"),),
                help="take one of them away",
            )
            continue
        choices.spans[sort] = option.span
        if sort not in allowed:
            report.error(
                "misplaced-option",
                f"`{sort}` has no meaning for {place}",
                option.span,
                help=f"it takes {listed(sorted(f'`{a}`' for a in allowed), 16)}",
            )
            continue
        _read(option, choices, report)
    _check_point(choices, report)
    return choices


def sort_of(option: ast.Option) -> str:
    """Return the word that the option begins with."""
    match option:
        case ast.GoalOption():
            return "goal"
        case ast.LimitOption():
            return option.what
        case ast.DeadlineOption():
            return "within"
        case ast.RootOption():
            return "root"
        case ast.OpOption():
            return "op"
        case ast.WeightOption():
            return "weight"
        case ast.RelaysOption():
            return "relays"
        case ast.SymmetryOption():
            return "symmetry"
        case ast.PairsOption():
            return "pairs"


def _read(option: ast.Option, choices: Choices, report: Report) -> None:
    match option:
        case ast.GoalOption():
            choices.goal = _goal(option, choices.goal, report)
        case ast.LimitOption():
            value = _limit(option.value, option.what, report)
            if value is not None:
                choices.goal = _with_limit(choices.goal, option.what, value)
        case ast.DeadlineOption():
            seconds = quantities.duration(option.value, report, may_be_zero=False)
            choices.goal = replace(choices.goal, deadline_s=seconds)
        case ast.RootOption():
            choices.root = option.node
        case ast.OpOption():
            choices.op = _op(option, report)
        case ast.WeightOption():
            choices.weight = _limit(option.value, "weight", report) or 1
        case ast.RelaysOption():
            choices.relays = option
        case ast.SymmetryOption():
            choices.goal = replace(choices.goal, hints=replace(choices.goal.hints, symmetry=option.on))
        case ast.PairsOption():
            choices.pairs = option


def _op(option: ast.OpOption, report: Report) -> Op | None:
    known = [op.value for op in Op]
    if option.name in known:
        return Op(option.name)
    near = suggest(option.name, known)
    report.error(
        "unknown-operator",
        f"no operator is called `{option.name}`",
        option.span,
        help=f"did you mean `{near}`?" if near else f"there are {listed(f'`{o}`' for o in known)}",
    )
    return None


def _goal(option: ast.GoalOption, goal: Goal, report: Report) -> Goal:
    """Return ``goal`` with the kind of ``option``, and its sizes or its point."""
    if option.kind in _PLAIN_GOALS:
        return replace(goal, kind=_PLAIN_GOALS[option.kind])
    if option.kind == "size" and option.low is not None and option.high is not None:
        low, high = quantities.size(option.low, report), quantities.size(option.high, report)
        if low is not None and high is not None and low > high:
            report.error(
                "reversed-sizes",
                "the smaller size comes first",
                option.span,
                help=f"write `goal size {quantities.written(option.high)} .. {quantities.written(option.low)}`",
            )
        return replace(goal, kind=GoalKind.SIZES, min_bytes=low, max_bytes=high)
    if option.kind == "point":
        for what, expression in (("chunks", option.chunks), ("steps", option.steps), ("rounds", option.rounds)):
            value = None if expression is None else _limit(expression, what, report)
            if value is not None:
                goal = _with_limit(goal, what, value)
        return replace(goal, kind=GoalKind.POINT)
    return goal  # a word that is no goal: the parser has reported it


def _limit(expression: ast.Expression, what: str, report: Report) -> int | None:
    value = evaluate(expression, Scope(), report)
    least = MIN_BLOCKS if what == "blocks" else 1
    most = {"channels": MAX_CHANNELS, "weight": MAX_WEIGHT}.get(what, MAX_LIMIT)
    if value is not None and not least <= value <= most:
        report.error(
            "bad-limit",
            f"`{what}` cannot be {value}",
            expression.span,
            help=f"it is a whole number from {least} to {most:,}",
        )
        return None
    return value


def _with_limit(goal: Goal, what: str, value: int) -> Goal:
    match what:
        case "chunks":
            return replace(goal, chunks=value)
        case "steps":
            return replace(goal, steps=value)
        case "rounds":
            return replace(goal, rounds=value)
        case "channels":
            return replace(goal, channels=value)
        case "blocks":
            return replace(goal, blocks=value)
    raise ValueError(f"no limit is called {what!r}")


def _check_point(choices: Choices, report: Report) -> None:
    """A point says chunks, steps and rounds exactly: limits on them beside it would be a second word."""
    if choices.goal.kind is not GoalKind.POINT:
        return
    for what in ("chunks", "steps", "rounds"):
        if what in choices.spans:
            report.error(
                "goal-and-limit",
                f"a goal that is a point and a limit on `{what}` at the same time",
                choices.spans[what],
                others=(Label(choices.spans["goal"], "the point"),),
                help="say it in the goal (`goal chunks 2, steps 2, rounds 3`), or take another goal",
            )
