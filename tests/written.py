"""Problems written in the language, and the collectives that most tests of levels below go through."""

from __future__ import annotations

from acclc.ir.problem import Problem
from acclc.sema import analyse_text

OF_ALL_RANKS = (
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
)
COLLECTIVES = (*OF_ALL_RANKS, "send_recv")


def problem(text: str) -> Problem:
    """Return the one problem of a text."""
    (only,) = analyse_text(text).problems
    return only
