"""Running ``for`` and ``let``, in topologies and in custom collectives alike."""

from __future__ import annotations

from collections.abc import Callable

from acclc.sema.arithmetic import evaluate, evaluate_range
from acclc.sema.limits import MAX_DEPTH, MAX_FAILURES, MAX_ITERATIONS
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.syntax import ast


class LoopRunner:
    """Runs ``for`` statements with a bound on all iterations together, and ``let``."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._iterations = 0
        self._depth = 0
        self._failures = 0
        self.stopped = False
        """True when nothing more is to be run, after an error."""

    def failed(self) -> None:
        """Count a statement with an error; after many, the rest is not run: it would only repeat them."""
        self._failures += 1
        self.stopped |= self._failures >= MAX_FAILURES

    def let(self, statement: ast.Let, scope: Scope) -> None:
        """Add the name of a ``let`` to the block."""
        value = evaluate(statement.value, scope, self._report)
        if self._is_free(statement.name, statement, scope):
            scope.names[statement.name] = value

    def loop(self, statement: ast.For, scope: Scope, body: Callable[[Scope], None]) -> None:
        """Run ``body`` for every combination, the last loop fastest; each run has a block of its own."""
        if self._depth + len(statement.loops) > MAX_DEPTH:
            self._report.error(
                "nested-too-deep",
                f"loops are nested more than {MAX_DEPTH} deep",
                statement.span,
                help="use fewer loops",
            )
            return
        self._depth += len(statement.loops)
        self._nest(statement, 0, scope, body)
        self._depth -= len(statement.loops)

    def _nest(self, statement: ast.For, position: int, scope: Scope, body: Callable[[Scope], None]) -> None:
        if position == len(statement.loops):
            body(Scope(scope))
            return
        loop = statement.loops[position]
        numbers = evaluate_range(loop.range, scope, self._report)
        if not self._is_free(loop.name, loop, scope):
            return
        if numbers is None:  # its errors are reported; the body is still checked for names, once
            numbers, poisoned = range(1), True
        else:
            poisoned = False
        self._iterations += len(numbers)
        if self._iterations > MAX_ITERATIONS:
            self.stopped = True
            self._report.error(
                "too-large",
                f"the loops run more than {MAX_ITERATIONS:,} times",
                statement.span,
                help="use smaller ranges",
            )
        for number in numbers:
            if self.stopped:
                return
            inner = Scope(scope, is_loop=True)
            inner.names[loop.name] = None if poisoned else number
            self._nest(statement, position + 1, inner, body)

    def _is_free(self, name: str, statement: ast.Let | ast.Loop, scope: Scope) -> bool:
        if not scope.holds(name):
            return True
        self._report.error(
            "duplicate-name",
            f"`{name}` has a value already",
            statement.span,
            help="give it another name: values never change",
        )
        return False
