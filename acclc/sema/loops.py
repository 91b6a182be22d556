"""Running blocks of statements, with ``for`` and ``let``, in topologies and in custom collectives alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acclc.sema.arithmetic import evaluate, evaluate_range
from acclc.sema.limits import MAX_DEPTH, MAX_FAILURES, MAX_ITERATIONS, MAX_RUNS_AFTER_ERROR
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.syntax import ast

Statement = ast.TopologyStatement | ast.CustomStatement
Runner = Callable[[Statement, Scope], None]


class LoopRunner:
    """Runs blocks: ``for`` with a bound on all iterations together, ``let``, and by a runner whatever else there is."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._iterations = 0
        """Of all loops, counted before they run."""
        self._runs = 0
        """Of innermost bodies."""
        self._depth = 0
        self._failures = 0
        self._stopped = False
        """True when nothing more is to be run, after an error."""

    def block(self, statements: Sequence[Statement], scope: Scope, run: Runner) -> None:
        """Run statements in order; ``run`` gets those that are neither ``for`` nor ``let``.

        After many statements with an error the rest is not run: it would only repeat them.
        """
        for statement in statements:
            if self._stopped:
                return
            before = self._report.attempts
            match statement:
                case ast.Let():
                    self._let(statement, scope)
                case ast.For():
                    self._loop(statement, scope, run)
                case _:
                    run(statement, scope)
            if self._report.attempts > before:
                self._failures += 1
                self._stopped |= self._failures >= MAX_FAILURES

    def _let(self, statement: ast.Let, scope: Scope) -> None:
        """Add the name of a ``let`` to the block."""
        value = evaluate(statement.value, scope, self._report)
        if self._is_free(statement.name, statement, scope):
            scope.names[statement.name] = value

    def _loop(self, statement: ast.For, scope: Scope, run: Runner) -> None:
        """Run the body for every combination, the last loop fastest; each run has a block of its own."""
        if self._depth + len(statement.loops) > MAX_DEPTH:
            self._report.error(
                "nested-too-deep",
                f"loops are nested more than {MAX_DEPTH} deep",
                statement.span,
                help="use fewer loops",
            )
            return
        self._depth += len(statement.loops)
        self._nest(statement, 0, scope, run)
        self._depth -= len(statement.loops)

    def _nest(self, statement: ast.For, position: int, scope: Scope, run: Runner) -> None:
        if position == len(statement.loops):
            self._runs += 1
            self._stopped |= self._runs > MAX_RUNS_AFTER_ERROR and self._report.attempts > 0
            self.block(statement.body, Scope(scope), run)
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
            self._stopped = True
            self._report.error(
                "too-large",
                f"the loops run more than {MAX_ITERATIONS:,} times",
                statement.span,
                help="use smaller ranges",
            )
        for number in numbers:
            if self._stopped:
                return
            inner = Scope(scope, is_loop=True)
            inner.names[loop.name] = None if poisoned else number
            self._nest(statement, position + 1, inner, run)

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
