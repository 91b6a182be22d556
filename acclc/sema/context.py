"""What the collectives of a file share: the machines, frozen once each, and the looking up of ranks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from acclc.diagnostics import Label
from acclc.ir.problem import Goal, NodeKind, Rank, Topology
from acclc.sema.damage import Degraded, degrade
from acclc.sema.elaborate import Elaborator
from acclc.sema.files import FileScope
from acclc.sema.freeze import freeze, gpu_first, induced
from acclc.sema.machine import Machine
from acclc.sema.patterns import take_away
from acclc.sema.references import resolve_nodes
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.source import Span
from acclc.syntax import ast


@dataclass(frozen=True, slots=True)
class Site:
    """A machine as a collective stands on it."""

    machine: Machine
    topology: Topology
    ids: Sequence[int]
    """Position in the machine -> NodeId."""
    group: frozenset[Rank] | None = None
    """Who takes part; None: every rank."""

    def within(self, group: Collection[Rank]) -> Site:
        """Return the same as the ranks of ``group`` see it, who alone take part."""
        return replace(self, topology=induced(self.topology, group), group=frozenset(group))

    def name(self, rank: Rank) -> str:
        """Return the name of a rank's node."""
        return self.topology.nodes[rank].name


@dataclass(slots=True)
class Context:
    """One analysis."""

    report: Report
    elaborator: Elaborator
    home: FileScope
    without: Sequence[ast.LinkRef]
    """Taken away from the topology of every collective."""
    default_goal: Goal
    degraded: Sequence[Degraded] = ()
    """Made slower in the topology of every collective."""
    sites: dict[str, Site] = field(default_factory=dict)

    def site(self, call: ast.TopologyCall) -> Site | None:
        """Return what a collective stands on; None after an error in the call."""
        machine = self.elaborator.build(call, self.home, Scope())
        if machine is None:
            return None
        for ref in self.without:
            machine = take_away(ref, machine, Scope(), self.report)
        for harm in self.degraded:
            machine = degrade(harm, machine, self.report)
        return self.frozen(machine)

    def frozen(self, machine: Machine) -> Site:
        """Return the machine with its Topology; machines of one name are one."""
        if machine.broken:
            return Site(machine, freeze(machine), gpu_first(machine))
        if machine.name not in self.sites:
            self.sites[machine.name] = Site(machine, freeze(machine), gpu_first(machine))
        return self.sites[machine.name]

    def ranks(self, refs: Sequence[ast.NodeRef], site: Site, scope: Scope) -> list[tuple[Rank, Span]] | None:
        """Return the ranks that ``refs`` name, each with its place; None after an error."""
        chosen: list[tuple[Rank, Span]] = []
        failed = False
        for ref in refs:
            nodes = resolve_nodes(ref, site.machine.names, site.machine.name, scope, self.report)
            if nodes is None:
                failed = True
                continue
            other = next((n for n in nodes if site.machine.nodes[n].kind is not NodeKind.GPU), None)
            if other is not None:
                node = site.machine.nodes[other]
                self.report.error(
                    "not-a-gpu",
                    f"`{node.name}` is a {node.kind}, and only GPUs hold data",
                    ref.span,
                    others=(Label(node.span, "declared here"),),
                    help="name GPUs",
                )
                failed = True
                continue
            chosen += [(Rank(site.ids[n]), ref.span) for n in nodes]
        return None if failed else chosen

    def distinct(self, chosen: Sequence[tuple[Rank, Span]], site: Site, what: str) -> bool:
        """Say whether no rank is named twice; if one is, report it."""
        seen: dict[Rank, Span] = {}
        for rank, span in chosen:
            if rank in seen:
                self.report.error(
                    "duplicate-rank",
                    f"`{site.name(rank)}` is twice in {what}",
                    span,
                    others=(Label(seen[rank], "the first time"),) if seen[rank] != span else (),
                    help="name each GPU once",
                )
                return False
            seen[rank] = span
        return True
