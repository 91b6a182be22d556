"""How long steps are searched for beside what was found already: in full, for a short time, or not at all.

A search for steps is the dearest part of a compilation. Beside a pipeline it is worth less: one that meets the
throughput bound leaves it only fewer steps to find, which on a machine of some size it hardly does. And with many
shards on many links the search would not even be set up in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from acclc.ir.problem import GoalKind, Problem
from acclc.ir.result import Bound
from acclc.ir.schedule import Schedule
from acclc.solve.protocol import Budget

if TYPE_CHECKING:
    from acclc.solve.pipelined import Pipeline

SHORT_WORK = 0.5
"""Work units of a search that can bring little."""
LARGE = 500_000
"""Shards times links of which no search for steps is made where there is a schedule: to set it up takes minutes."""
NO_STEPS = "schedules in steps were not searched for: to set the search up would take too long"
MANY = 50_000
"""Shards times links from which on a pipeline at the bound leaves little to find, whatever the goal."""
FEW = 1_000
"""Shards times links up to which steps are searched for beside schedules for given sizes."""
NO_NEED = "schedules in steps were not searched for: those for the sizes are there"


@dataclass(frozen=True, slots=True)
class StepSearch:
    """``work``: units at most; None as the budget grants. ``note``: why there is no search; empty if there is one."""

    work: float | None = None
    note: str = ""

    @property
    def wanted(self) -> bool:
        """Whether to search at all."""
        return not self.note

    def limited(self, budget: Budget) -> Budget:
        """The budget of the search."""
        return budget if self.work is None else replace(budget, work=min(budget.granted, self.work))


def step_search(
    problem: Problem,
    bound: Bound,
    pipelines: Sequence[Pipeline],
    timed: Sequence[Schedule] = (),
    least: Fraction | None = None,
) -> StepSearch:
    """Say how steps are to be searched for, once pipelines, and schedules for the goal's sizes, are known.

    ``least``: seconds a byte of shard that no schedule undercuts which keeps to the hints; None: the bound.
    """
    least = bound.throughput.time_per_byte if least is None else least
    made = [(p.schedule, p.time) for p in pipelines if p.schedule is not None]
    size = len(problem.shards) * len(problem.topology.links)
    if (made or timed) and size > LARGE:
        return StepSearch(note=NO_STEPS)
    if timed and size > FEW:
        return StepSearch(note=NO_NEED)
    at_bound = any(time == least for _, time in made)
    if at_bound and (problem.goal.kind is GoalKind.BANDWIDTH or size > MANY):
        return StepSearch(SHORT_WORK)
    return StepSearch()
