"""The part of a machine that statements add to: nodes, raw links, classes by handle; and closing it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from acclc.diagnostics import Label
from acclc.ir.problem import LinkClass
from acclc.sema.limits import MAX_LINKS, MAX_NODES
from acclc.sema.machine import BuiltBudget, BuiltLink, BuiltNode, Entry, Machine, ReplicaArray, indexed, shown, unravel
from acclc.sema.report import Report
from acclc.source import Span


@dataclass(eq=False, slots=True)
class ClassHandle:
    """A link class before its final name is known. ``replica`` is empty for the topology's own classes."""

    cls: LinkClass
    replica: str


@dataclass(slots=True)
class RawLink:
    """One declaration's link between two nodes; equal ones are added up when the draft is closed."""

    src: int
    dst: int
    count: int
    handle: ClassHandle
    span: Span


class Draft:
    """What the statements of one topology have made so far."""

    def __init__(self, name: str, report: Report) -> None:
        self.name = name
        self.nodes: list[BuiltNode] = []
        self.links: list[RawLink] = []
        self.names: dict[str, Entry] = {}
        self.places: dict[str, Span] = {}
        self.handles: dict[tuple[str, ...], ClassHandle | None] = {}
        self.class_places: dict[str, Span] = {}
        self._report = report
        self._raw_of_replica: list[tuple[ReplicaArray, int, int]] = []

    def claim(self, name: str, span: Span) -> bool:
        """Reserve the name of a node or replica; False after an error. The name is poisoned until it is set."""
        if name in self.names:
            self._report.error(
                "duplicate-name",
                f"`{name}` is declared twice in topology `{self.name}`",
                span,
                others=(Label(self.places[name], "the first one"),) if self.places[name] != span else (),
                help="in a loop, declare an array once, outside: `gpu g[8]`"
                if self.places[name] == span
                else "give one of them another name",
            )
            return False
        self.names[name] = None
        self.places[name] = span
        return True

    def has_room(self, nodes: int, links: int, span: Span) -> bool:
        """Say whether so many more nodes and links stay within the limits; if not, report it."""
        if len(self.nodes) + nodes > MAX_NODES:
            self._report.error(
                "too-large",
                f"topology `{self.name}` has more than {MAX_NODES:,} nodes",
                span,
                f"{nodes:,} nodes" if nodes < 10**13 else "",
                help=f"the limit is {MAX_NODES:,} nodes",
            )
            return False
        if len(self.links) + links > MAX_LINKS:
            self._report.error(
                "too-large",
                f"topology `{self.name}` has more than {MAX_LINKS:,} links",
                span,
                help=f"the limit is {MAX_LINKS:,} links",
            )
            return False
        return True

    def add_replicas(self, array: ReplicaArray) -> None:
        """Add the nodes, links and classes of every copy; its room is checked."""
        machine = array.machine
        handles = {cls: ClassHandle(cls, array.name) for cls in dict.fromkeys(x.cls for x in machine.links)}
        for path, cls in machine.classes.items():
            if cls is not None and cls not in handles:
                handles[cls] = ClassHandle(cls, array.name)
            self.handles[(array.name, *path)] = None if cls is None else handles[cls]
        numbered = [(x.src, x.dst, x.count, handles[x.cls], x.span) for x in machine.links]
        for copy in range(array.size):
            indices = unravel(copy, array.dimensions)[: len(shown(array.dimensions))]
            prefix = indexed(array.name, indices)
            base = len(self.nodes)
            self._raw_of_replica.append((array, base, len(self.links)))
            self.nodes += [
                replace(node, name=f"{prefix}.{node.name}", indices=indices + node.indices) for node in machine.nodes
            ]
            self.links += [
                RawLink(base + src, base + dst, count, handle, span) for src, dst, count, handle, span in numbered
            ]
        self.names[array.name] = array

    def close(self, doc: str, *, broken: bool) -> Machine:
        """Name the classes, add up equal links, carry the replicas' budgets over, and freeze."""
        final = self._final_classes()
        numbers = {cls: number for number, cls in enumerate(dict.fromkeys(final.values()))}
        number_of = {handle: numbers[cls] for handle, cls in final.items()}  # a class is slow to hash
        merged: dict[tuple[int, int, int], int] = {}
        links: list[BuiltLink] = []
        position_of_raw: list[int] = []
        for raw in self.links:
            key = (raw.src, raw.dst, number_of[raw.handle])
            position = merged.setdefault(key, len(links))
            if position == len(links):
                links.append(BuiltLink(raw.src, raw.dst, raw.count, final[raw.handle], raw.span))
            else:
                links[position] = replace(links[position], count=links[position].count + raw.count)
            position_of_raw.append(position)
        budgets: list[BuiltBudget] = []
        for array, base, first in self._raw_of_replica:
            copy = (base - array.start) // max(1, len(array.machine.nodes))
            prefix = indexed(array.name, unravel(copy, array.dimensions)[: len(shown(array.dimensions))])
            budgets += [
                replace(
                    budget,
                    name=f"{prefix}.{budget.name}",
                    links=tuple(sorted({position_of_raw[first + x] for x in budget.links})),
                )
                for budget in array.machine.budgets
            ]
        return Machine(
            name=self.name,
            doc=doc,
            nodes=tuple(self.nodes),
            links=tuple(links),
            budgets=tuple(budgets),
            names=self.names,
            classes={path: None if handle is None else final[handle] for path, handle in self.handles.items()},
            broken=broken,
        )

    def _final_classes(self) -> dict[ClassHandle, LinkClass]:
        """Give each handle its class under a name that no different class has; own classes choose first."""
        taken: dict[str, LinkClass] = {}
        final: dict[ClassHandle, LinkClass] = {}
        handles = dict.fromkeys(handle for handle in self.handles.values() if handle is not None)
        handles |= dict.fromkeys(raw.handle for raw in self.links)
        for handle in sorted(handles, key=lambda h: h.replica != ""):
            cls, number = handle.cls, 1
            while taken.setdefault(cls.name, cls) != cls:
                suffix = "" if number == 1 else f"_{number}"
                cls = replace(handle.cls, name=f"{handle.replica}.{handle.cls.name}{suffix}")
                number += 1
            final[handle] = cls
        return final
