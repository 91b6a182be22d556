"""Choosing links that exist: for ``without`` and for budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from acclc.sema.arithmetic import evaluate
from acclc.sema.machine import Entry, Machine
from acclc.sema.references import listed, resolve_nodes, text_of
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.syntax import ast

Side = list[int] | None
"""Node positions, or None for ``*``: any node."""


def resolve_sides(
    ref: ast.LinkRef, names: Mapping[str, Entry], owner: str, scope: Scope, report: Report
) -> tuple[Side, Side] | None:
    """Return the nodes that the two sides of ``ref`` stand for; None after an error."""
    sides: list[Side] = []
    failed = False
    for node in (ref.src, ref.dst):
        if not node.parts:
            sides.append(None)
            continue
        chosen = resolve_nodes(node, names, owner, scope, report)
        failed |= chosen is None
        sides.append(chosen)
    return None if failed else (sides[0], sides[1])


def links_between(machine: Machine, src: Side, dst: Side) -> list[int]:
    """Return the positions of the links from a node of ``src`` to a node of ``dst``, in order."""
    if src is None and dst is None:
        return list(range(len(machine.links)))
    if src is None:
        assert dst is not None
        return sorted({x for node in dst for x in machine.incoming.get(node, ())})
    wanted = None if dst is None else set(dst)
    return sorted(
        {x for node in src for x in machine.outgoing.get(node, ()) if wanted is None or machine.links[x].dst in wanted}
    )


def match(
    ref: ast.LinkRef, sides: tuple[Side, Side], machine: Machine, report: Report
) -> tuple[list[int], list[int]] | None:
    """Return the links that ``ref`` chooses: forward, and backward (empty for ``->``); None after an error.

    Every node that a side names must have a link of the pattern: one that has none is most likely a slip.
    """
    src, dst = sides
    forward = links_between(machine, src, dst)
    backward = links_between(machine, dst, src) if ref.both else []
    found = [machine.links[x] for x in forward] + [machine.links[x] for x in backward]
    touched = {x.src for x in found} | {x.dst for x in found}
    named = [node for side in sides if side is not None for node in side]
    lonely = next((node for node in named if node not in touched), None)
    if found and lonely is None:
        return forward, backward
    if not machine.broken and not report.known("unknown-link", ref.span):
        _no_such_link(ref, sides, lonely, machine, report)
    return None


def _no_such_link(
    ref: ast.LinkRef, sides: tuple[Side, Side], lonely: int | None, machine: Machine, report: Report
) -> None:
    arrow = "<->" if ref.both else "->"
    node = lonely if lonely is not None else 0
    message = f"no link `{text_of(ref.src.span)} {arrow} {text_of(ref.dst.span)}` in topology `{machine.name}`"
    if lonely is None:
        report.error("unknown-link", message, ref.span, help="the topology has no links at all")
        return
    name = machine.nodes[node].name
    leaving = [machine.nodes[machine.links[x].dst].name for x in machine.outgoing.get(node, ())]
    entering = [machine.nodes[machine.links[x].src].name for x in machine.incoming.get(node, ())]
    if not ref.both and sides[0] is not None and node in sides[0]:
        entering = []
    elif not ref.both:
        leaving = []
    parts = [f"to {listed(dict.fromkeys(leaving))}"] if leaving else []
    if entering and set(entering) != set(leaving):
        parts.append(f"from {listed(dict.fromkeys(entering))}")
    report.error(
        "unknown-link",
        message,
        ref.span,
        help=f"`{name}` has links {' and '.join(parts)}" if parts else f"`{name}` has no such links",
    )


def take_away(ref: ast.LinkRef, machine: Machine, scope: Scope, report: Report) -> Machine:
    """Return the machine without the links of ``ref``; after an error, the same machine, broken."""
    before = report.attempts
    remove = lanes_chosen(ref, machine, scope, report)
    if report.attempts > before:
        return replace(machine, broken=True)
    kept = [x for x in range(len(machine.links)) if remove.get(x, 0) < machine.links[x].count]
    renumbered = {old: new for new, old in enumerate(kept)}
    links = tuple(
        replace(machine.links[x], count=machine.links[x].count - remove[x]) if x in remove else machine.links[x]
        for x in kept
    )
    budgets = tuple(
        replace(budget, links=remaining)
        for budget in machine.budgets
        if (remaining := tuple(renumbered[x] for x in budget.links if x in renumbered))
    )
    name = f"{machine.name} without {text_of(ref.span)}"
    return replace(machine, name=name, links=links, budgets=budgets)


def lanes_chosen(ref: ast.LinkRef, machine: Machine, scope: Scope, report: Report) -> dict[int, int]:
    """Return how many lanes of each link ``ref`` chooses: all, or ``n of`` them in each direction of each pair."""
    sides = resolve_sides(ref, machine.names, machine.name, scope, report)
    if ref.count is None:
        lanes = None
    else:
        lanes = evaluate(ref.count, scope, report)
        if lanes is not None and lanes < 1:
            report.error(
                "bad-count",
                f"`{lanes} of` takes nothing away",
                ref.count.span,
                help="the number of links to take away is 1 or more; without it, all are taken",
            )
        if lanes is None:
            return {}
    found = None if sides is None else match(ref, sides, machine, report)
    if found is None:
        return {}
    chosen = dict.fromkeys(found[0] + found[1])
    if lanes is None:
        return {x: machine.links[x].count for x in chosen}
    return _take_lanes(ref, list(chosen), lanes, machine, report)


def _take_lanes(ref: ast.LinkRef, chosen: list[int], lanes: int, machine: Machine, report: Report) -> dict[int, int]:
    """Take ``lanes`` of each ordered pair of nodes, from its link classes in order of declaration."""
    by_pair: dict[tuple[int, int], list[int]] = {}
    for x in chosen:
        by_pair.setdefault((machine.links[x].src, machine.links[x].dst), []).append(x)
    remove: dict[int, int] = {}
    for (src, dst), positions in by_pair.items():
        there = sum(machine.links[x].count for x in positions)
        if there < lanes:
            names = f"`{machine.nodes[src].name} -> {machine.nodes[dst].name}`"
            report.error(
                "too-many-lanes",
                f"{lanes} of {names} are to be taken away, but there {'is' if there == 1 else 'are'} {there}",
                ref.span,
                help=f"take {there} away, or leave `{lanes} of` out to take all",
            )
            return {}
        left = lanes
        for x in positions:
            remove[x] = min(left, machine.links[x].count)
            left -= remove[x]
    return {x: n for x, n in remove.items() if n}
