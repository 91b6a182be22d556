"""Links that are gone or have become slow: on a machine while it is built, and on a Topology that is built already."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.ir.problem import Budget, Link, LinkClass, LinkId, NodeId, Topology
from acclc.sema import quantities
from acclc.sema.machine import BuiltBudget, BuiltLink, BuiltNode, Entry, Machine, NodeArray, ReplicaArray
from acclc.sema.patterns import lanes_chosen, take_away
from acclc.sema.references import text_of
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.source import Source, Span
from acclc.syntax import ast, parse_link_ref
from acclc.syntax.units import BANDWIDTH_UNITS

_RATE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]+/s)\s*", re.ASCII)
_PART = re.compile(r"([A-Za-z_]\w*)(?:\[(\d{1,9}(?:, \d{1,9})*)\])?(?:\.|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Degraded:
    """Links that exist and now carry only ``rate`` (bytes/s, one link, one direction)."""

    ref: ast.LinkRef
    rate: Fraction


def parse_degraded(text: str) -> Degraded:
    """Return what ``g[0] <-> g[1] = 10 GB/s`` says; a count (``1 of ...``) chooses some of several links.

    Raises:
        DiagnosticError: the text is anything else.
    """
    left, equals, right = text.rpartition("=")
    match = _RATE.fullmatch(right)
    source = Source("--degrade", text)
    if not equals or match is None or match[2] not in BANDWIDTH_UNITS:
        place = Span(source, len(left) + 1 if equals else 0, len(text))
        raise DiagnosticError(
            Diagnostic(
                "bad-degrade",
                "a link and the rate that is left of it are needed",
                (Label(place, "" if equals else "there is no `=` in it"),),
                help="write it as in `g[0] <-> g[1] = 10 GB/s`",
            )
        )
    report = Report()
    span = Span(source, len(left) + 1, len(text))
    rate = quantities.rate(ast.Quantity(Fraction(match[1]), match[2], span), report)
    report.finish()
    assert rate is not None
    return Degraded(parse_link_ref(Source("--degrade", left)), rate)


def degrade(degraded: Degraded, machine: Machine, report: Report) -> Machine:
    """Return the machine with slower links; after an error, the same machine, broken.

    A link of which only some lanes are slow becomes two links between the same nodes.
    """
    before = report.attempts
    slow = lanes_chosen(degraded.ref, machine, Scope(), report)
    faster = next((x for x in slow if machine.links[x].cls.bandwidth <= degraded.rate), None)
    if faster is not None:
        link = machine.links[faster]
        names = f"{machine.nodes[link.src].name} -> {machine.nodes[link.dst].name}"
        report.error(
            "bad-degrade",
            f"`{names}` carries {rate_words(link.cls.bandwidth)}: {rate_words(degraded.rate)} is not less",
            degraded.ref.span,
            help="give the lower rate that one link has now",
        )
    if report.attempts > before:
        return replace(machine, broken=True)
    links: list[BuiltLink] = []
    pieces: dict[int, tuple[int, ...]] = {}
    for position, link in enumerate(machine.links):
        lanes = slow.get(position, 0)
        here = []
        for count, cls in ((link.count - lanes, link.cls), (lanes, slower(link.cls, degraded.rate))):
            if count:
                here.append(len(links))
                links.append(replace(link, count=count, cls=cls))
        pieces[position] = tuple(here)
    budgets = tuple(replace(b, links=tuple(n for x in b.links for n in pieces[x])) for b in machine.budgets)
    name = f"{machine.name} with {text_of(degraded.ref.span)} at {rate_words(degraded.rate)}"
    return replace(machine, name=name, links=tuple(links), budgets=budgets)


def slower(cls: LinkClass, rate: Fraction) -> LinkClass:
    """Return the class of links that were of ``cls``; the name tells the rate."""
    return replace(cls, name=f"{cls.name} at {rate_words(rate)}", bandwidth=rate)


def rate_words(rate: Fraction) -> str:
    """Return ``10 GB/s``."""
    return f"{float(rate / 10**9):.6g} GB/s"


@dataclass(frozen=True, slots=True)
class Damaged:
    """A topology after damage. ``moved``: old link -> the new one (of fewer lanes or less rate); None: it is gone."""

    topology: Topology
    moved: Mapping[LinkId, LinkId | None]


def damage(topology: Topology, harm: ast.LinkRef | Degraded) -> Damaged:
    """Take links away from a built topology, or make them slow.

    A link of which some lanes have become slow is two links afterwards, so as one it is gone.

    Raises:
        DiagnosticError: it has no such links.
    """
    report = Report()
    machine, ids = thaw(topology)
    if isinstance(harm, Degraded):
        harmed = degrade(harm, machine, report)
    else:
        harmed = take_away(harm, machine, Scope(), report)
    report.finish()
    links = tuple(
        Link(LinkId(n), ids[x.src], ids[x.dst], x.count, x.cls, topology.links[_origin(x)].span)
        for n, x in enumerate(harmed.links)
    )
    moved: dict[LinkId, LinkId | None] = {}
    for link in topology.links:
        now = [n for n, x in enumerate(harmed.links) if _origin(x) == link.id]
        moved[link.id] = LinkId(now[0]) if len(now) == 1 else None
    left = {b.name: b for b in harmed.budgets}
    budgets = tuple(
        Budget(old.name, tuple(LinkId(x) for x in left[str(n)].links), old.capacity, old.span)
        for n, old in enumerate(topology.budgets)
        if str(n) in left
    )
    return Damaged(replace(topology, name=harmed.name, links=links, budgets=budgets), moved)


def thaw(topology: Topology) -> tuple[Machine, Sequence[NodeId]]:
    """Return a built topology as a machine whose nodes can be named again, and the NodeId of each of its positions.

    The place of a link or node is its number in the topology; budgets are called by theirs. Arrays are read off the
    names; what does not fill a whole array cannot be named.
    """
    root: dict[str, dict[tuple[int, ...], _Tree]] = {}
    for node in topology.nodes:
        _plant(root, node.name, int(node.id))
    order: list[int] = []
    names = _arrays(root, topology, order)
    order += sorted(set(range(len(topology.nodes))) - set(order))
    place = {n: position for position, n in enumerate(order)}
    links = tuple(BuiltLink(place[x.src], place[x.dst], x.count, x.cls, _mark(x.id)) for x in topology.links)
    budgets = tuple(
        BuiltBudget(str(n), tuple(map(int, b.links)), b.capacity, _mark(n)) for n, b in enumerate(topology.budgets)
    )
    nodes = tuple(_node(topology, n) for n in order)
    machine = Machine(topology.name, topology.doc, nodes, links, budgets, names, {}, False)
    return machine, [NodeId(n) for n in order]


_Tree = int | dict[str, dict[tuple[int, ...], "_Tree"]]
"""A node's number, or a replica: its arrays by name, each by indices."""


def _plant(root: dict[str, dict[tuple[int, ...], _Tree]], name: str, number: int) -> None:
    parts = list(_PART.finditer(name))
    if not parts or "".join(p[0] for p in parts) != name:
        return
    for depth, part in enumerate(parts):
        indices = tuple(map(int, part[2].split(", "))) if part[2] else ()
        members = root.setdefault(part[1], {})
        if depth == len(parts) - 1:
            members[indices] = number
            return
        inner = members.setdefault(indices, {})
        if isinstance(inner, int):
            return
        root = inner


def _arrays(
    root: Mapping[str, Mapping[tuple[int, ...], _Tree]], topology: Topology, order: list[int]
) -> dict[str, Entry]:
    """Return what the names of one level stand for, and append the nodes below it to ``order``; starts are relative."""
    names: dict[str, Entry] = {}
    base = len(order)
    for name, members in root.items():
        dimensions = tuple(max(axis) + 1 for axis in zip(*members, strict=False))
        full = set(product(*map(range, dimensions))) == set(members)
        start, kinds = len(order) - base, []
        if not full or len({_shape(m) for m in members.values()}) > 1:
            continue
        for indices in sorted(members):
            member = members[indices]
            if isinstance(member, int):
                order.append(member)
                kinds.append(topology.nodes[member].kind)
            else:
                first = len(order)
                inner = _arrays(member, topology, order)
                nodes = tuple(_node(topology, n) for n in order[first:])
        if kinds:
            names[name] = NodeArray(name, kinds[0], start, dimensions, _mark(0))
        else:
            machine = Machine(name, "", nodes, (), (), inner, {}, False)
            names[name] = ReplicaArray(name, machine, start, dimensions, _mark(0))
    return names


def _shape(tree: _Tree) -> tuple[object, ...]:
    if isinstance(tree, int):
        return ()
    return tuple((n, tuple((i, _shape(t)) for i, t in sorted(members.items()))) for n, members in sorted(tree.items()))


def _node(topology: Topology, number: int) -> BuiltNode:
    node = topology.nodes[number]
    return BuiltNode(node.name, node.kind, node.can_multicast, node.can_reduce, node.position, _mark(number))


_NUMBERS = Source("<topology>", "")


def _mark(number: int) -> Span:
    return Span(_NUMBERS, number, number)


def _origin(link: BuiltLink) -> int:
    return link.span.start
