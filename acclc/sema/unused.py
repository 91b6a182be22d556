"""Warnings: what a file declares and nobody uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from acclc.ir.problem import NodeKind
from acclc.sema.machine import Machine, NodeArray
from acclc.sema.report import Report
from acclc.syntax import ast


def warn_unused(file: ast.File, report: Report) -> None:
    """Warn of parameters and link classes of the file's topologies that are not used."""
    class_names = {node.link_class.parts[-1].name for node in _walk(file) if isinstance(node, ast.LinkDecl)}
    for item in file.items:
        if not isinstance(item, ast.TopologyDecl | ast.TopologyAlias):
            continue
        used = {node.name for node in _walk(item) if isinstance(node, ast.Name)}
        for parameter in item.parameters:
            if parameter.name not in used:
                report.warning(
                    "unused-parameter",
                    f"parameter `{parameter.name}` of topology `{item.name}` is not used",
                    parameter.span,
                    help="take it away",
                )
        for node in _walk(item):
            if isinstance(node, ast.LinkClassDecl) and node.name not in class_names:
                report.warning(
                    "unused-link-class",
                    f"no link has the class `{node.name}`",
                    node.span,
                    help="take it away, or write the class behind a link: `a <-> b : " + node.name + "`",
                )


def names_used(file: ast.File) -> set[str]:
    """Return the names of all topologies that the file uses somewhere."""
    return {node.name for node in _walk(file) if isinstance(node, ast.TopologyCall)}


def warn_unlinked(machine: Machine, report: Report) -> None:
    """Warn of the topology's own nodes that no link touches: one warning for an array."""
    if machine.broken:
        return
    touched = {x.src for x in machine.links} | {x.dst for x in machine.links}
    for entry in machine.names.values():
        if not isinstance(entry, NodeArray):
            continue
        lonely = [n for n in range(entry.start, entry.start + entry.size) if n not in touched]
        if lonely:
            what = "GPU" if entry.kind is NodeKind.GPU else str(entry.kind)
            more = f" (nor {len(lonely) - 1} more of `{entry.name}`)" if len(lonely) > 1 else ""
            report.warning(
                "unused-node",
                f"no link touches the {what} `{machine.nodes[lonely[0]].name}`{more}",
                entry.span,
                help="join it with a link, or take it away",
            )


def _walk(node: object) -> Iterator[object]:
    """Yield every node of a syntax tree, with a stack of its own."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(reversed(current))
        elif is_dataclass(current) and type(current).__module__ == ast.__name__:
            yield current
            stack.extend(getattr(current, f.name) for f in reversed(fields(current)) if "span" not in f.name)
