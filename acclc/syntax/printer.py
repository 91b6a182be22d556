"""Parts of the tree as text on one line: expressions, references, options, headers of blocks.

Every function returns text that the parser reads back as an equal node.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from acclc.syntax import ast

_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 6)
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "**": _POWER}


def expression(node: ast.Expression, level: int = _SUM) -> str:
    """Return an expression, in parentheses if it binds less tightly than ``level``."""
    match node:
        case ast.Number(value):
            return str(value)
        case ast.Name(name):
            return name
        case ast.Negate(operand):
            text, own = f"-{expression(operand, _POWER)}", _SIGN
        case ast.Binary("**", left, right):
            text, own = f"{expression(left, _ATOM)} ** {expression(right, _SIGN)}", _POWER
        case ast.Binary(op, left, right):
            own = _LEVELS[op]
            text = f"{expression(left, own)} {op} {expression(right, own + 1)}"
    return text if own >= level else f"({text})"


def quantity(node: ast.Quantity) -> str:
    """Return a quantity, its number as an exact decimal."""
    return f"{decimal(node.value)} {node.unit}"


def decimal(value: Fraction) -> str:
    """Return a number that is not negative as an exact decimal.

    Raises:
        ValueError: it has none (1/3).
    """
    digits = 0
    while value * 10**digits % 1:
        digits += 1
        if digits > 64:
            raise ValueError(f"{value} is no decimal number")
    text = str(int(value * 10**digits)).rjust(digits + 1, "0")
    return f"{text[:-digits]}.{text[-digits:]}" if digits else text


def index(node: ast.Expression | ast.Range) -> str:
    """Return an index of a reference."""
    if isinstance(node, ast.Range):
        return range_(node)
    return expression(node)


def range_(node: ast.Range) -> str:
    """Return a range."""
    return f"{expression(node.first)}{'..' if node.inclusive else '..<'}{expression(node.last)}"


def subscript(nodes: Iterable[ast.Expression | ast.Range]) -> str:
    """Return ``[a, b]``, or nothing for no index."""
    inner = ", ".join(index(node) for node in nodes)
    return f"[{inner}]" if inner else ""


def node_ref(node: ast.NodeRef) -> str:
    """Return a reference to nodes."""
    return ".".join(part.name + subscript(part.indices) for part in node.parts) or "*"


def node_refs(nodes: Iterable[ast.NodeRef]) -> str:
    """Return references with commas between."""
    return ", ".join(node_ref(node) for node in nodes)


def arrow(both: bool) -> str:
    """Return the sign of a link."""
    return "<->" if both else "->"


def link_ref(node: ast.LinkRef) -> str:
    """Return a reference to links."""
    count = f"{expression(node.count)} of " if node.count is not None else ""
    return f"{count}{node_ref(node.src)} {arrow(node.both)} {node_ref(node.dst)}"


def link_refs(nodes: Iterable[ast.LinkRef]) -> str:
    """Return references to links with commas between."""
    return ", ".join(link_ref(node) for node in nodes)


def topology_call(node: ast.TopologyCall) -> str:
    """Return the use of a topology."""
    arguments = ", ".join(
        f"{argument.name} = {expression(argument.value)}" if argument.name else expression(argument.value)
        for argument in node.arguments
    )
    call = f"{node.name}({arguments})" if arguments else node.name
    return f"{call} without {link_refs(node.without)}" if node.without else call


def parameters(nodes: Iterable[ast.Parameter]) -> str:
    """Return ``(n, m = 4)``, or nothing for no parameter."""
    inner = ", ".join(
        node.name if node.default is None else f"{node.name} = {expression(node.default)}" for node in nodes
    )
    return f"({inner})" if inner else ""


def loops(nodes: Iterable[ast.Loop]) -> str:
    """Return ``x in 0..<4, y in 0..<4``."""
    return ", ".join(f"{node.name} in {range_(node.range)}" for node in nodes)


def option(node: ast.Option) -> str:
    """Return an option."""
    match node:
        case ast.GoalOption():
            return goal(node)
        case ast.LimitOption(what, value):
            between = " " if what == "channels" else " up to "
            return what + between + expression(value)
        case ast.DeadlineOption(value):
            return f"within {quantity(value)}"
        case ast.RootOption(root):
            return f"root {node_ref(root)}"
        case ast.OpOption(name):
            return f"op {name}"
        case ast.WeightOption(value):
            return f"weight {expression(value)}"
        case ast.RelaysOption(nodes):
            return f"relays {node_refs(nodes)}"
        case ast.SymmetryOption(on):
            return f"symmetry {'on' if on else 'off'}"
        case ast.PairsOption(pairs):
            return "pairs " + ", ".join(f"{node_ref(a)} -> {node_ref(b)}" for a, b in pairs)


def goal(node: ast.GoalOption) -> str:
    """Return a goal."""
    if node.kind == "size" and node.low is not None and node.high is not None:
        return f"goal size {quantity(node.low)} .. {quantity(node.high)}"
    if node.kind != "point":
        return f"goal {node.kind}"
    coordinates = (("chunks", node.chunks), ("steps", node.steps), ("rounds", node.rounds))
    return "goal " + ", ".join(f"{word} {expression(value)}" for word, value in coordinates if value is not None)


def link_class_entries(node: ast.LinkClassDecl) -> list[str]:
    """Return bandwidth, latency, nominal rate and kind, as far as they are stated."""
    entries = [quantity(node.bandwidth)]
    if node.latency is not None:
        entries.append(quantity(node.latency))
    if node.nominal is not None:
        entries.append(f"nominal {quantity(node.nominal)}")
    if node.kind is not None:
        entries.append(f"kind {node.kind}")
    return entries


def emit_entry(node: ast.EmitEntry) -> str:
    """Return an entry of ``emit``."""
    return f"{node.what} {', '.join(node.values)}"


def header(
    node: ast.TopologyDecl | ast.For | ast.CustomCollective | ast.Together | ast.CollectiveUse | ast.SetUse,
) -> str:
    """Return what stands before the ``{`` of a block."""
    match node:
        case ast.TopologyDecl():
            return f"topology {node.name}{parameters(node.parameters)}"
        case ast.For():
            return f"for {loops(node.loops)}"
        case ast.CustomCollective():
            return f"collective {node.name} on {topology_call(node.topology)}"
        case ast.Together():
            return f"together as {node.name}" if node.name is not None else "together"
        case ast.CollectiveUse():
            group = f" among {node_refs(node.group)}" if node.group else ""
            name = f" as {node.name}" if node.name is not None else ""
            return f"{node.collective} on {topology_call(node.topology)}{group}{name}"
        case ast.SetUse():
            return f"goal {node.purpose} on {topology_call(node.topology)}"


Simple = (
    ast.Import
    | ast.TopologyAlias
    | ast.NodesDecl
    | ast.ReplicaDecl
    | ast.LinkDecl
    | ast.BudgetDecl
    | ast.Let
    | ast.ChunkStatement
    | ast.ReduceStatement
    | ast.NeedStatement
)


def simple(node: Simple) -> str:
    """Return a statement that always stands on one line."""
    match node:
        case ast.Import(target, is_path):
            return f'import "{target}"' if is_path else f"import {target}"
        case ast.TopologyAlias():
            return f"topology {node.name}{parameters(node.parameters)} = {topology_call(node.value)}"
        case ast.NodesDecl():
            abilities = f" {{ {', '.join(node.abilities)} }}" if node.abilities else ""
            return f"{node.kind} {node.name}{subscript(node.dimensions)}{abilities}"
        case ast.ReplicaDecl():
            return f"{topology_call(node.topology)} {node.name}{subscript(node.dimensions)}"
        case ast.LinkDecl():
            return link_decl(node)
        case ast.BudgetDecl():
            ways = " both ways" if node.both_ways else ""
            return f'budget "{node.name}" {{ {quantity(node.rate)}{ways} over {link_refs(node.links)} }}'
        case ast.Let(name, value):
            return f"let {name} = {expression(value)}"
        case ast.ChunkStatement():
            return f"chunk {node.name}{subscript(node.indices)} at {node_refs(node.nodes)}"
        case ast.ReduceStatement():
            return f"reduce {node.name}{subscript(node.indices)} over {node_refs(node.nodes)}"
        case ast.NeedStatement():
            return f"need {node.name}{subscript(node.indices)} at {node_refs(node.nodes)}"


def link_decl(node: ast.LinkDecl) -> str:
    """Return a link; a count that is not a number stands in parentheses."""
    count = ""
    if isinstance(node.count, ast.Number):
        count = f"{node.count.value} "
    elif node.count is not None:
        count = f"({expression(node.count)}) "
    ends = f"{node_refs(node.sources)} {arrow(node.both)} {node_refs(node.targets)}"
    return f"{ends} : {count}{node_ref(node.link_class)}"
