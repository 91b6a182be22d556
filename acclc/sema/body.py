"""Running the statements of a topology: what each adds to the draft of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from acclc.diagnostics import Label, suggest
from acclc.ir.problem import LinkClass, NodeKind
from acclc.sema import quantities
from acclc.sema.arithmetic import evaluate, names_in
from acclc.sema.draft import ClassHandle, Draft, RawLink
from acclc.sema.limits import MAX_NODES
from acclc.sema.loops import LoopRunner, Statement
from acclc.sema.machine import BuiltBudget, BuiltNode, Machine, NodeArray, ReplicaArray, indexed, shown, unravel
from acclc.sema.patterns import Side, match, resolve_sides
from acclc.sema.references import listed, resolve_class, resolve_nodes
from acclc.sema.scope import Scope
from acclc.syntax import ast

if TYPE_CHECKING:
    from acclc.sema.elaborate import Elaborator
    from acclc.sema.files import FileScope

LINK_KINDS = ("nvlink", "xgmi", "pcie", "net", "shm", "host")
ABILITIES = ("multicast", "reduce")


@dataclass(frozen=True, slots=True)
class _PendingBudget:
    """A budget whose links are chosen when the body has ended, so that the order of statements is free."""

    statement: ast.BudgetDecl
    capacity: Fraction
    sides: tuple[tuple[ast.LinkRef, tuple[Side, Side]], ...]


def run_body(item: ast.TopologyDecl, name: str, scope: Scope, home: FileScope, elaborator: Elaborator) -> Machine:
    """Return the machine of a declaration with its parameters in ``scope``."""
    before = elaborator.report.attempts
    body = _Body(name, home, elaborator)
    body.run(item.body, scope)
    return body.close(item.doc, before)


class _Body:
    def __init__(self, name: str, home: FileScope, elaborator: Elaborator) -> None:
        self._report = elaborator.report
        self._elaborator = elaborator
        self._home = home
        self._draft = Draft(name, elaborator.report)
        self._loops = LoopRunner(elaborator.report)
        self._budgets: list[_PendingBudget] = []
        self._inner_is_broken = False

    def run(self, statements: Sequence[Statement], scope: Scope) -> None:
        self._loops.block(statements, scope, self._run)

    def _run(self, statement: Statement, scope: Scope) -> None:
        match statement:
            case ast.LinkDecl():
                self._link(statement, scope)
            case ast.NodesDecl():
                self._nodes(statement, scope)
            case ast.ReplicaDecl():
                self._replicas(statement, scope)
            case ast.LinkClassDecl():
                self._link_class(statement)
            case ast.BudgetDecl():
                self._budget(statement, scope)
            case _:
                raise TypeError(f"{type(statement).__name__} is no statement of a topology")

    def close(self, doc: str, attempts_before: int) -> Machine:
        """Freeze the draft and choose the links of the budgets."""
        machine = self._draft.close(doc, broken=self._report.attempts > attempts_before or self._inner_is_broken)
        budgets = list(machine.budgets)
        for pending in self._budgets:
            budgets += self._choose(pending, machine)
        broken = machine.broken or self._report.attempts > attempts_before
        return replace(machine, budgets=tuple(budgets), broken=broken)

    # --- nodes and replicas ---------------------------------------------------------------------------------

    def _nodes(self, statement: ast.NodesDecl, scope: Scope) -> None:
        draft = self._draft
        is_free = draft.claim(statement.name, statement.span)
        self._check_abilities(statement)
        dimensions = self._dimensions(statement.dimensions, statement.name, scope)
        if dimensions is None or not is_free:
            return
        array = NodeArray(statement.name, NodeKind(statement.kind), len(draft.nodes), dimensions, statement.span)
        if not draft.has_room(array.size, 0, statement.span):
            return
        for position in range(array.size):
            indices = unravel(position, dimensions)[: len(shown(dimensions))]
            draft.nodes.append(
                BuiltNode(
                    indexed(statement.name, indices),
                    array.kind,
                    "multicast" in statement.abilities,
                    "reduce" in statement.abilities,
                    indices,
                    statement.span,
                )
            )
        draft.names[statement.name] = array

    def _check_abilities(self, statement: ast.NodesDecl) -> None:
        for ability in statement.abilities:
            if statement.kind != "switch":
                self._report.error(
                    "misplaced-ability",
                    f"a {statement.kind} has no abilities to declare",
                    statement.span,
                    help="only a switch may `multicast` or `reduce`; a GPU always can",
                )
            elif ability not in ABILITIES:
                near = suggest(ability, ABILITIES)
                self._report.error(
                    "unknown-ability",
                    f"a switch has no ability `{ability}`",
                    statement.span,
                    help=f"did you mean `{near}`?" if near else "there are `multicast` and `reduce`",
                )

    def _replicas(self, statement: ast.ReplicaDecl, scope: Scope) -> None:
        draft = self._draft
        is_free = draft.claim(statement.name, statement.span)
        dimensions = self._dimensions(statement.dimensions, statement.name, scope)
        machine = self._elaborator.build(statement.topology, self._home, scope)
        if machine is None or dimensions is None or not is_free:
            return
        self._inner_is_broken |= machine.broken
        array = ReplicaArray(statement.name, machine, len(draft.nodes), dimensions, statement.span)
        if draft.has_room(array.size * len(machine.nodes), array.size * len(machine.links), statement.span):
            draft.add_replicas(array)

    def _dimensions(self, expressions: Sequence[ast.Expression], name: str, scope: Scope) -> tuple[int, ...] | None:
        """Return the lengths of an array; None after an error. Their product is bounded here."""
        lengths: list[int] = []
        total = 1
        for expression in expressions:
            length = evaluate(expression, scope, self._report)
            if length is None:
                return None
            if length < 1:
                self._report.error(
                    "bad-dimension",
                    f"`{name}` cannot have {length} elements",
                    expression.span,
                    notes=scope.loop_note(),
                    help="an array has 1 element or more",
                )
                self._poison([expression], scope)
                return None
            lengths.append(length)
            total *= length
            if total > MAX_NODES:
                self._draft.has_room(total, 0, expression.span)
                self._poison(expressions, scope)
                return None
        return tuple(lengths)

    def _poison(self, expressions: Sequence[ast.Expression], scope: Scope) -> None:
        """Forget the values of the names in wrong lengths: what would follow from them is the same error."""
        for name in (name for expression in expressions for name in names_in(expression)):
            scope.poison(name)

    # --- link classes and links -----------------------------------------------------------------------------

    def _link_class(self, statement: ast.LinkClassDecl) -> None:
        draft, report = self._draft, self._report
        bandwidth = quantities.rate(statement.bandwidth, report)
        latency = Fraction(0) if statement.latency is None else quantities.duration(statement.latency, report)
        nominal = None if statement.nominal is None else quantities.rate(statement.nominal, report)
        kind = statement.kind or ""
        if kind and kind not in LINK_KINDS:
            near = suggest(kind, LINK_KINDS)
            report.error(
                "unknown-link-kind",
                f"`{kind}` is no kind of link",
                statement.span,
                help=f"did you mean `{near}`?" if near else f"there are {listed(LINK_KINDS)}",
            )
        if statement.name in draft.class_places:
            first = draft.class_places[statement.name]
            report.error(
                "duplicate-name",
                f"link class `{statement.name}` is declared twice in topology `{draft.name}`",
                statement.span,
                others=(Label(first, "the first one"),) if first != statement.span else (),
                help="give one of them another name" if first != statement.span else "declare it outside the loop",
            )
            return
        draft.class_places[statement.name] = statement.span
        handle = None
        if bandwidth is not None and latency is not None:
            handle = ClassHandle(LinkClass(statement.name, bandwidth, latency, nominal, kind), "")
        draft.handles[(statement.name,)] = handle

    def _link(self, statement: ast.LinkDecl, scope: Scope) -> None:
        draft, report = self._draft, self._report
        sources = self._resolve_all(statement.sources, scope)
        targets = self._resolve_all(statement.targets, scope)
        count = 1 if statement.count is None else evaluate(statement.count, scope, report)
        if count is not None and count < 1:
            assert statement.count is not None
            report.error(
                "bad-count",
                f"a link with count {count} is no link",
                statement.count.span,
                notes=scope.loop_note(),
                help="the count is 1 or more",
            )
            count = None
        path = resolve_class(statement.link_class, draft.handles, draft.names, draft.name, report)
        handle = None if path is None else draft.handles[path]
        if sources is None or targets is None or count is None or handle is None:
            return
        if not draft.has_room(0, len(sources) * len(targets) * (2 if statement.both else 1), statement.span):
            return
        for src in sources:
            for dst in targets:
                if src == dst:
                    self._self_link(statement, src, scope)
                    return
                draft.links.append(RawLink(src, dst, count, handle, statement.span))
                if statement.both:
                    draft.links.append(RawLink(dst, src, count, handle, statement.span))

    def _resolve_all(self, refs: Sequence[ast.NodeRef], scope: Scope) -> list[int] | None:
        chosen: list[int] = []
        failed = False
        for ref in refs:
            nodes = resolve_nodes(ref, self._draft.names, self._draft.name, scope, self._report)
            if nodes is None:
                failed = True
            else:
                chosen += nodes
        return None if failed else chosen

    def _self_link(self, statement: ast.LinkDecl, node: int, scope: Scope) -> None:
        if self._report.known("self-link", statement.span):
            return
        self._report.error(
            "self-link",
            f"a link from `{self._draft.nodes[node].name}` to itself",
            statement.span,
            notes=scope.loop_note(),
            help="both sides name this node; a link joins two different ones",
        )

    # --- budgets --------------------------------------------------------------------------------------------

    def _budget(self, statement: ast.BudgetDecl, scope: Scope) -> None:
        report = self._report
        before = report.attempts
        capacity = quantities.rate(statement.rate, report)
        sides: list[tuple[ast.LinkRef, tuple[Side, Side]]] = []
        names = self._draft.names
        for ref in statement.links:
            if ref.count is not None:
                report.error(
                    "misplaced-count",
                    "a budget is over all lanes of a link",
                    ref.count.span,
                    help="leave the number and `of` out",
                )
            found = resolve_sides(ref, names, self._draft.name, scope, report)
            if found is not None:
                sides.append((ref, found))
        if capacity is not None and report.attempts == before:
            self._budgets.append(_PendingBudget(statement, capacity, tuple(sides)))

    def _choose(self, pending: _PendingBudget, machine: Machine) -> list[BuiltBudget]:
        """Return the budgets: one, or one for each direction where the pattern has two and it is per direction."""
        statement, report = pending.statement, self._report
        forward: dict[int, None] = {}
        backward: dict[int, None] = {}
        for ref, sides in pending.sides:
            found = match(ref, sides, machine, report)
            if found is None:
                return []
            forward |= dict.fromkeys(found[0])
            backward |= dict.fromkeys(found[1])
        if statement.both_ways or not backward:
            links = tuple(sorted(forward | backward))
            return [BuiltBudget(statement.name, links, pending.capacity, statement.span)]
        if forward.keys() & backward.keys():
            report.error(
                "budget-without-direction",
                f'the links of budget "{statement.name}" have no common direction',
                statement.span,
                help="write `both ways` for one sum, or `->` for one direction",
                notes=("some link leads both from left to right and from right to left in the pattern",),
            )
            return []
        return [
            BuiltBudget(f"{statement.name} {way}", tuple(sorted(links)), pending.capacity, statement.span)
            for way, links in (("out", forward), ("in", backward))
            if links
        ]
