"""Arithmetic against Python's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.sema.arithmetic import evaluate, evaluate_range, names_in
from acclc.sema.limits import MAX_NUMBER
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.source import Source, Span
from acclc.syntax import ast

SPAN = Span(Source("<test>", "x"), 0, 1)
VALUES: Mapping[str, int] = {"a": 7, "b": -3, "zero": 0, "big": 10**6}


def number(value: int) -> ast.Expression:
    return ast.Number(value, span=SPAN) if value >= 0 else ast.Negate(ast.Number(-value, span=SPAN), span=SPAN)


expressions: st.SearchStrategy[ast.Expression] = st.recursive(
    st.one_of(
        st.integers(0, 40).map(number),
        st.sampled_from(sorted(VALUES)).map(lambda name: ast.Name(name, span=SPAN)),
    ),
    lambda inner: st.one_of(
        inner.map(lambda operand: ast.Negate(operand, span=SPAN)),
        st.tuples(st.sampled_from(["+", "-", "*", "/", "%", "**"]), inner, inner).map(
            lambda parts: ast.Binary(parts[0], parts[1], parts[2], span=SPAN)
        ),
    ),
    max_leaves=10,
)


def expected(expression: ast.Expression) -> int | str:
    """Return the value by Python's own arithmetic, or the code of the error that comes first."""
    match expression:
        case ast.Number():
            return expression.value
        case ast.Name():
            return VALUES[expression.name]
        case ast.Negate():
            operand = expected(expression.operand)
            return operand if isinstance(operand, str) else -operand
    left, right = expected(expression.left), expected(expression.right)
    if isinstance(left, str):
        return left
    if isinstance(right, str):
        return right
    match expression.op:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "*":
            value = left * right
        case "/" | "%" if right == 0:
            return "division-by-zero"
        case "/":
            value = left // right
        case "%":
            value = left % right
        case _:
            if right < 0:
                return "negative-exponent"
            if abs(left) > 1 and right > 40:
                return "number-too-large"
            value = left ** (right if abs(left) > 1 else min(right, 10**4 + right % 2))
    return value if abs(value) <= MAX_NUMBER else "number-too-large"


def scope() -> Scope:
    made = Scope()
    made.names.update(VALUES)
    return made


@given(expressions)
@settings(max_examples=300, deadline=None)
def test_like_python(expression: ast.Expression) -> None:
    # One place for all nodes: the report keeps one error a code, the first of all codes decides.
    report = Report()
    value = evaluate(expression, scope(), report)
    wanted = expected(expression)
    if isinstance(wanted, int):
        assert value == wanted
        assert report.finish() == ()
    else:
        assert value is None
        assert report.known(wanted, SPAN)


@given(st.integers(-20, 20), st.integers(-20, 20), st.booleans())
@settings(max_examples=100, deadline=None)
def test_ranges(first: int, last: int, inclusive: bool) -> None:
    report = Report()
    node = ast.Range(number(first), number(last), inclusive, span=SPAN)
    found = evaluate_range(node, Scope(), report)
    if last < first - inclusive:
        assert found is None
        assert report.known("reversed-range", SPAN)
    else:
        assert found is not None
        assert list(found) == [i for i in range(-25, 25) if first <= i and (i <= last if inclusive else i < last)]


@pytest.mark.parametrize("base", [2, -2, 10, 999_999])
def test_huge_powers_are_refused_without_forming_them(base: int) -> None:
    report = Report()
    power = ast.Binary("**", number(base), ast.Number(10**12, span=SPAN), span=SPAN)
    assert evaluate(power, Scope(), report) is None
    assert report.known("number-too-large", SPAN)


@pytest.mark.parametrize(("base", "value"), [(0, 0), (1, 1), (-1, 1)])
def test_powers_of_small_numbers_have_no_limit(base: int, value: int) -> None:
    power = ast.Binary("**", number(base), ast.Number(10**12, span=SPAN), span=SPAN)
    assert evaluate(power, Scope(), Report()) == value
    odd = ast.Binary("**", number(base), ast.Number(10**12 - 1, span=SPAN), span=SPAN)
    assert evaluate(odd, Scope(), Report()) == base
    assert evaluate(ast.Binary("**", number(base), number(0), span=SPAN), Scope(), Report()) == 1


def test_inner_blocks_see_outer_ones_until_they_end() -> None:
    outer = Scope()
    outer.names["n"] = 4
    inner = Scope(outer, is_loop=True)
    inner.names["i"] = 2
    assert (inner.get("n"), inner.get("i"), outer.holds("i")) == (4, 2, False)
    assert inner.loop_note() == ("here i = 2",)
    assert outer.loop_note() == ()
    inner.poison("n")
    assert outer.get("n") is None
    with pytest.raises(KeyError):
        outer.get("i")


def test_names_in() -> None:
    node = ast.Binary("+", ast.Name("a", span=SPAN), ast.Negate(ast.Name("b", span=SPAN), span=SPAN), span=SPAN)
    assert names_in(node) == ["a", "b"]
