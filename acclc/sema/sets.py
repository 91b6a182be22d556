"""``goal torch on TOPOLOGY``: the collectives that a purpose needs, each as if the file had said it."""

from __future__ import annotations

from collections.abc import Sequence

from acclc.ir.problem import Collective, Problem
from acclc.sema.context import Context
from acclc.sema.options import GOAL_OPTIONS, read_options, sort_of
from acclc.sema.shards import ROOTED
from acclc.syntax import ast

_MEMBERS = {
    "torch": (
        Collective.ALL_REDUCE,  # gradients of DistributedDataParallel; barrier
        Collective.ALL_GATHER,  # parameters of sharded training
        Collective.REDUCE_SCATTER,  # its gradients
        Collective.BROADCAST,  # the model at the start, from rank 0
        Collective.REDUCE,  # figures of a step, checkpoints: to and from the rank that writes them
        Collective.GATHER,
        Collective.SCATTER,
        Collective.ALL_TO_ALL,  # experts
        Collective.ALL_TO_ALL_V,  # experts with parts of different sizes
    )
}
"""What each purpose needs."""
_POINT_HELP = "take latency, bandwidth, pareto or a range of sizes, and say a point for one collective on its own line"


def members(item: ast.SetUse, context: Context) -> list[ast.CollectiveUse]:
    """Return the uses that a set stands for, on all ranks; errors of its options are reported.

    Rooted ones have the root that the set says, else the first rank.
    """
    report = context.report
    where = f"`goal {item.purpose}`"
    read_options(item.options, GOAL_OPTIONS | {"root"}, where, context.default_goal, report)
    for option in item.options:
        if isinstance(option, ast.GoalOption) and option.kind == "point":
            report.error(
                "goal-of-set",
                f"a point is the goal of one collective, and {where} compiles several",
                option.span,
                help=_POINT_HELP,
            )
    return [
        ast.CollectiveUse(
            collective.value,
            item.topology,
            (),
            None,
            tuple(o for o in item.options if collective in ROOTED or sort_of(o) != "root"),
            span=item.span,
            collective_span=item.purpose_span,
        )
        for collective in _MEMBERS.get(item.purpose, ())
    ]


def without_known(
    item: ast.SetUse, found: Sequence[Problem], known: Sequence[Problem], context: Context
) -> list[Problem]:
    """Return the problems of a set that the file does not have already: what it says itself takes their place.

    Two are the same if collective, topology, ranks and root are; a warning says that a set adds nothing.
    """
    there = [_what(problem) for problem in known]
    added = [problem for problem in found if _what(problem) not in there]
    if found and not added:
        context.report.warning(
            "nothing-added",
            f"`goal {item.purpose}` adds nothing: this file has all its collectives on this topology",
            item.purpose_span,
            help="take it away, or one of the others",
        )
    return added


def _what(problem: Problem) -> tuple[object, ...]:
    roots = tuple(demand.root for demand in problem.demands)
    return problem.collective, problem.group, roots, problem.topology
