"""The names of problems: unique in the file, and names of Python functions."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from acclc.diagnostics import Label
from acclc.ir.problem import Collective
from acclc.sema.report import Report
from acclc.source import Span
from acclc.syntax import ast

CollectiveItem = ast.CollectiveUse | ast.CustomCollective | ast.Together

_TAKEN = frozenset({"describe", "join", "load", "local"})
"""Functions that every generated module has."""
_COLLECTIVES = frozenset(c.value for c in Collective)


def problem_names(items: Sequence[CollectiveItem], report: Report) -> list[str]:
    """Return a name for each item: the one that is said, else the collective's, with a number if it is taken."""
    said: dict[str, Span] = {}
    names: list[str | None] = []
    for item in items:
        name, span = said_name(item)
        names.append(name)
        if name is None:
            continue
        _check(name, item, span, report)
        if name in said:
            report.error(
                "duplicate-name",
                f"two collectives are called `{name}`",
                span,
                others=(Label(said[name], "the first one"),),
                help="give one of them another name",
            )
        said.setdefault(name, span)
    taken = set(said)
    for position, item in enumerate(items):
        if names[position] is not None:
            continue
        base = item.collective if isinstance(item, ast.CollectiveUse) else "together"
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names[position] = name
    return [name for name in names if name is not None]


def said_name(item: CollectiveItem) -> tuple[str | None, Span]:
    """Return the name that the file gives a collective, and its place; None, and the whole, without one."""
    if isinstance(item, ast.CustomCollective):
        return item.name, item.name_span
    if item.name is None:
        return None, item.span
    span = item.span  # the tree has no place for the name behind `as`
    found = re.compile(rf"\bas\s+({re.escape(item.name)})\b").search(span.source.text, span.start, span.end)
    return item.name, Span(span.source, *found.span(1)) if found else span


def _check(name: str, item: CollectiveItem, span: Span, report: Report) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        why = "is a word of Python's"
    elif name in _TAKEN:
        why = "is a function of every compiled module"
    elif name.startswith("__"):
        why = "begins with two underscores, which Python keeps for itself"
    elif name in _COLLECTIVES and not (isinstance(item, ast.CollectiveUse) and item.collective == name):
        why = "is the name of a collective that this is not"
    else:
        return
    report.error(
        "bad-name",
        f"`{name}` cannot be the name of this collective: it {why}",
        span,
        help=f"the name becomes a Python function; `{name.strip('_') or 'c'}_1` would do",
    )
