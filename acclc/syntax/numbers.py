"""Numbers, quantities and expressions: the part of the tree builder that checks their limits."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from lark import Token

from acclc.source import Span
from acclc.syntax import ast, units
from acclc.syntax.branches import Branch, BranchReader, offset_of, tokens, trees
from acclc.syntax.quantities import unit_mistake

MAXIMUM_DIGITS = 18
"""Of a number, before and after the point: everything written fits in 64 bits."""
MAXIMUM_DEPTH = 100
"""Of an expression: operators that hang on each other. Readers of the tree may recurse."""


class NumberBuilder(BranchReader):
    """Builds numbers, quantities, ranges and expressions."""

    def _whole(self, token: Token) -> int:
        if not self._short(token):
            return 0
        if "." in token:
            self.error(
                "not-whole",
                self.span(token),
                f"`{token}` is not a whole number",
                help="only quantities with a unit (`0.7 us`) may have a decimal point",
            )
            return 0
        return int(token)

    def _short(self, token: Token) -> bool:
        if max(map(len, token.split("."))) <= MAXIMUM_DIGITS:
            return True
        self.error(
            "number-too-long",
            self.span(token),
            f"a number of {sum(map(len, token.split('.')))} digits",
            f"at most {MAXIMUM_DIGITS} digits before and {MAXIMUM_DIGITS} after the point",
        )
        return False

    def _quantity(self, tree: Branch, kind: str) -> ast.Quantity:
        number, unit = tokens(tree)
        value = Fraction(str(number)) if self._short(number) else Fraction(1)
        if unit in units.UNITS[kind]:
            return ast.Quantity(value, str(unit), span=self.span(tree))
        self.errors.append(unit_mistake(self.source, number, unit, kind))
        return ast.Quantity(value, next(iter(units.UNITS[kind])), span=self.span(tree))

    def _range(self, tree: Branch) -> ast.Range:
        first, last = self.all(tree)
        return ast.Range(first, last, tokens(tree)[0].type == "RANGE_INCLUSIVE", span=self.span(tree))

    def _expression(self, tree: Branch) -> ast.Expression:
        expression, _ = self._measured(tree)
        return expression

    _term = _factor = _parenthesised = _expression

    def _number(self, tree: Branch) -> ast.Number:
        return ast.Number(self._whole(tokens(tree)[0]), span=self.span(tree))

    def _name(self, tree: Branch) -> ast.Name:
        return ast.Name(str(tokens(tree)[0]), span=self.span(tree))

    # Expressions are built with their depth, so that a too deep one is never made.

    def _measured(self, tree: Branch) -> tuple[ast.Expression, int]:
        match str(tree.data):
            case "expression" | "term":
                return self._measured_left(tree)
            case "factor":
                return self._measured_right(tree)
            case "parenthesised":
                return self._measured(next(trees(tree)))
            case _:
                leaf: ast.Expression = self.build(tree)
                return leaf, 0

    def _measured_left(self, tree: Branch) -> tuple[ast.Expression, int]:
        """Build operands and operators of one precedence from the left."""
        children = iter(tree.children)
        expression, depth = self._measured(cast(Branch, next(children)))
        for operator in children:
            branch = cast(Branch, next(children))
            right, right_depth = self._measured(branch)
            span = Span(self.source, tree.meta.start_pos, branch.meta.end_pos)
            binary = ast.Binary(str(operator), expression, right, span=span)
            expression, depth = self._deeper(binary, max(depth, right_depth))
        return expression, depth

    def _measured_right(self, tree: Branch) -> tuple[ast.Expression, int]:
        """Build signs and powers from the right: ``-2 ** -x ** 2`` is ``-(2 ** (-(x ** 2)))``."""
        built: tuple[ast.Expression, int] | None = None
        for child in reversed(tree.children):
            if not isinstance(child, Token):
                expression, depth = self._measured(child)
                if built is not None:
                    right, right_depth = built
                    span = Span(self.source, child.meta.start_pos, tree.meta.end_pos)
                    power = ast.Binary("**", expression, right, span=span)
                    expression, depth = self._deeper(power, max(depth, right_depth))
                built = expression, depth
            elif child.type == "MINUS":
                operand, depth = cast(tuple[ast.Expression, int], built)
                span = Span(self.source, offset_of(child.start_pos), tree.meta.end_pos)
                built = self._deeper(ast.Negate(operand, span=span), depth)
        return cast(tuple[ast.Expression, int], built)

    def _deeper(self, expression: ast.Expression, depth: int) -> tuple[ast.Expression, int]:
        if depth < MAXIMUM_DEPTH:
            return expression, depth + 1
        if not any(error.code == "too-deep" for error in self.errors):
            self.error(
                "too-deep",
                expression.span,
                f"an expression of more than {MAXIMUM_DEPTH} operators that depend on each other",
                help="give a part of it a name with `let`",
            )
        return ast.Number(0, span=expression.span), 0
