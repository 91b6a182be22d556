"""What is wrong with a quantity."""

from __future__ import annotations

from lark import Token

from acclc.diagnostics import Diagnostic, Label
from acclc.source import Source, Span
from acclc.syntax import units
from acclc.syntax.branches import offset_of


def unit_mistake(source: Source, number: Token, unit: Token, kind: str) -> Diagnostic:
    """Return what is wrong with a unit that is none of its kind: missing, of another kind, or unknown."""
    example = next(iter(units.UNITS[kind]))
    near = units.suggest_unit(unit, kind)
    number_start, number_end = offset_of(number.start_pos), offset_of(number.end_pos)
    unit_start, unit_end = offset_of(unit.start_pos), offset_of(unit.end_pos)
    if "\n" in source.text[number_end:unit_start]:
        label = Label(Span(source, number_start, number_end))
        message = f"`{number}` needs a unit of {kind}"
        return Diagnostic("missing-unit", message, (label,), help=f"for example `{number} {example}`")
    if (other := units.kind_of(unit)) is not None:
        label = Label(Span(source, number_start, unit_end))
        message = f"a {kind} is needed here, `{number} {unit}` is a {other}"
        help = f"did you mean `{number} {near}`?" if near else f"for example `{number} {example}`"
        return Diagnostic("wrong-unit", message, (label,), help=help)
    known = ", ".join(units.UNITS[kind])
    if near is not None:
        help = f"did you mean `{number} {near}`?"
    elif unit[0] in "eE" and unit[1:].isdigit():
        help = f"numbers are written without an exponent; units of {kind} are {known}"
    else:
        help = f"units of {kind} are {known}"
    label = Label(Span(source, unit_start, unit_end))
    return Diagnostic("unknown-unit", f"there is no unit `{unit}` of {kind}", (label,), help=help)
