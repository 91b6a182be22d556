"""Evaluating expressions and ranges over whole numbers."""

from __future__ import annotations

from acclc.diagnostics import suggest
from acclc.sema.limits import MAX_NUMBER
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.source import Span
from acclc.syntax import ast


def evaluate(expression: ast.Expression, scope: Scope, report: Report) -> int | None:
    """Return the value of ``expression``, or None if it has an error (reported, or reported before).

    ``/`` and ``%`` are floor division and its remainder, as in Python. Every intermediate result is at most
    10^12 in size. The parser bounds the depth of the tree, so this may recurse.
    """
    if isinstance(expression, ast.Name):
        return _look_up(expression, scope, report)
    if isinstance(expression, ast.Number):
        return _bounded(expression.value, expression.span, report)
    if isinstance(expression, ast.Negate):
        operand = evaluate(expression.operand, scope, report)
        return None if operand is None else -operand
    left = evaluate(expression.left, scope, report)
    right = evaluate(expression.right, scope, report)
    if left is None or right is None:
        return None
    return _apply(expression, left, right, scope, report)


def evaluate_range(node: ast.Range, scope: Scope, report: Report) -> range | None:
    """Return the numbers of a range; None if it has an error. ``a..<a`` is empty; a reversed one is an error."""
    first = evaluate(node.first, scope, report)
    last = evaluate(node.last, scope, report)
    if first is None or last is None:
        return None
    stop = last + 1 if node.inclusive else last
    if stop < first:
        dots = ".." if node.inclusive else "..<"
        report.error(
            "reversed-range",
            f"the range {first}{dots}{last} runs backwards",
            node.span,
            help="the smaller end comes first; a range may be empty (`0..<0`), but not less",
            notes=scope.loop_note(),
        )
        return None
    return range(first, stop)


def _look_up(node: ast.Name, scope: Scope, report: Report) -> int | None:
    try:
        return scope.get(node.name)
    except KeyError:
        pass
    if not report.known("unknown-name", node.span):
        near = suggest(node.name, scope.all_names())
        known = ", ".join(f"`{n}`" for n in dict.fromkeys(scope.all_names()))
        report.error(
            "unknown-name",
            f"no parameter, `let` or loop variable is called `{node.name}`",
            node.span,
            help=f"did you mean `{near}`?"
            if near
            else f"known here: {known}"
            if known
            else "nothing has a value here: declare a parameter (`topology x(n = 8)`) or a `let`",
        )
    return None


def _apply(node: ast.Binary, left: int, right: int, scope: Scope, report: Report) -> int | None:
    match node.op:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "*":
            value = left * right
        case "**":
            return _power(node, left, right, scope, report)
        case _:
            if right == 0:
                report.error(
                    "division-by-zero",
                    f"{left} {node.op} 0 has no value",
                    node.span,
                    notes=scope.loop_note(),
                    help="the right side must not become 0",
                )
                return None
            value = left // right if node.op == "/" else left % right
    return _bounded(value, node.span, report)


def _power(node: ast.Binary, base: int, exponent: int, scope: Scope, report: Report) -> int | None:
    if exponent < 0:
        report.error(
            "negative-exponent",
            f"{base} ** {exponent} is no whole number",
            node.span,
            notes=scope.loop_note(),
            help="an exponent is 0 or more",
        )
        return None
    if abs(base) > 1 and exponent > MAX_NUMBER.bit_length():  # decided before the power is formed
        return _bounded(MAX_NUMBER + 1, node.span, report)
    if abs(base) <= 1:
        exponent = min(exponent, 2 + exponent % 2)
    return _bounded(base**exponent, node.span, report)


def _bounded(value: int, span: Span, report: Report) -> int | None:
    if -MAX_NUMBER <= value <= MAX_NUMBER:
        return value
    report.error("number-too-large", "this number is larger than 10^12", span, help="use smaller numbers")
    return None


def names_in(expression: ast.Expression) -> list[str]:
    """Return the names that an expression uses, in order."""
    match expression:
        case ast.Name():
            return [expression.name]
        case ast.Negate():
            return names_in(expression.operand)
        case ast.Binary():
            return names_in(expression.left) + names_in(expression.right)
        case _:
            return []
