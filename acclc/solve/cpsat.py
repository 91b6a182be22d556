"""Runs one CP-SAT model so that an interrupt ends the search, not the program, and the answer can be reproduced."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from acclc.solve.protocol import Deadline


class Answer(StrEnum):
    """What a search said."""

    FOUND = "found"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Tactics(StrEnum):
    """How one worker searches; several workers share the solver's own mixture."""

    MIXED = "mixed"
    """Many strategies in turn: slower on easy models, seldom stuck."""
    CLAUSES = "clauses"
    """No linear relaxations, which say little of steps with given rounds: two to five times faster without."""
    JUMPS = "jumps"
    """The same, in turn with feasibility jump: it finds what is nearly full, where clauses get lost."""
    RELAXATIONS = "relaxations"
    """All linear relaxations: for rows that have to be filled to the brim."""


SAMPLERS = ("fs_random", "fs_random_no_lp", "fs_random_quick_restart", "fs_random_quick_restart_no_lp")
"""Random restarts of the solver, left out where feasibility jump is to have its time."""


@dataclass(frozen=True, slots=True)
class Run:
    """An answer, the solver that can read variables (when found), and the deterministic time it took."""

    answer: Answer
    solver: Any
    work: float
    clock_cut: bool
    """The wall clock, not the counted work, ended it."""


def run(model: Any, *, work: float, deadline: Deadline, seed: int, workers: int, tactics: Tactics) -> Run:
    """Solve a model within ``work`` deterministic units and the deadline.

    The search runs in a thread of its own: the caller's thread then receives KeyboardInterrupt at once, stops the
    search, and raises it again.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = workers
    parameters.random_seed = seed
    parameters.max_deterministic_time = work
    parameters.catch_sigint_signal = False
    _choose(parameters, tactics, workers)
    remaining = deadline.remaining()
    if remaining is not None:
        if remaining == 0.0:
            return Run(Answer.UNKNOWN, None, 0.0, True)
        parameters.max_time_in_seconds = remaining
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def search() -> None:
        try:
            outcome.append(solver.solve(model))
        except BaseException as e:  # handed to the caller's thread
            failure.append(e)

    thread = threading.Thread(target=search, name="acclc-cp-sat", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        solver.stop_search()
        thread.join()
        raise
    if failure:
        raise failure[0]
    status = outcome[0]
    spent = float(solver.response_proto.deterministic_time)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Run(Answer.FOUND, solver, spent, False)
    if status == cp_model.INFEASIBLE:
        return Run(Answer.INFEASIBLE, solver, spent, False)
    if status == cp_model.MODEL_INVALID:
        raise AssertionError(f"invalid CP-SAT model: {model.validate()}")
    return Run(Answer.UNKNOWN, solver, spent, deadline.expired)


def _choose(parameters: Any, tactics: Tactics, workers: int) -> None:
    if tactics is Tactics.RELAXATIONS:
        parameters.linearization_level = 2
    elif tactics is Tactics.CLAUSES or workers > 1:
        parameters.linearization_level = 0
    else:
        parameters.interleave_search = True
        if tactics is Tactics.JUMPS:
            parameters.subsolvers.append("no_lp")
            parameters.ignore_subsolvers.extend(SAMPLERS)
