"""The solvers by name. Each is loaded when asked for: CP-SAT alone takes a second to import."""

from __future__ import annotations

from collections.abc import Callable

from acclc.solve.protocol import Solver


def _exact() -> Solver:
    from acclc.solve.exact import Exact

    return Exact()


def _greedy() -> Solver:
    from acclc.solve.greedy import Greedy

    return Greedy()


def _portfolio() -> Solver:
    from acclc.solve.portfolio import Portfolio

    return Portfolio()


SOLVERS: dict[str, Callable[[], Solver]] = {"exact": _exact, "greedy": _greedy, "portfolio": _portfolio}
"""Every solver, by the name that the command line knows."""


def solver(name: str) -> Solver:
    """Return a solver by name. Raises KeyError with the names there are."""
    if name not in SOLVERS:
        raise KeyError(f"no solver {name!r}; there are {', '.join(sorted(SOLVERS))}")
    return SOLVERS[name]()
