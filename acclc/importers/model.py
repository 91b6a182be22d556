"""What every importer gives: nodes, links, classes, and where each value came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from acclc.diagnostics import Diagnostic, DiagnosticError, Label
from acclc.ir.problem import NodeKind
from acclc.source import Source, Span

MAX_NODES = 65_536
MAX_LINKS = 400_000
MAX_RATE, MAX_LATENCY = 10**18, 10**6
"""Bytes a second, seconds: the limits of the language."""
"""More than these are not written down one by one."""


class Evidence(StrEnum):
    """How sure a note is."""

    READ = "read"
    CONCLUDED = "concluded"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was read, concluded or assumed, in words."""

    evidence: Evidence
    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node: member ``index`` of an array of the language; ``label`` is what the file calls it."""

    kind: NodeKind
    array: str
    index: int
    label: str = ""
    abilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkClass:
    """A class of links. ``rate`` (effective) and ``nominal`` are bytes/s a link and direction, ``latency`` seconds."""

    name: str
    rate: Fraction
    latency: Fraction
    nominal: Fraction | None
    kind: str
    origin: str
    """Where the rate comes from, in words."""


@dataclass(frozen=True, slots=True)
class Link:
    """``count`` links between nodes ``a`` and ``b`` (in both directions, or from a to b). ``origin``: in words."""

    a: int
    b: int
    count: int
    cls: str
    origin: str = ""
    both: bool = True


@dataclass(frozen=True, slots=True)
class Budget:
    """A rate (bytes/s) that the links of some (source, destination) pairs share, each in that direction only."""

    name: str
    rate: Fraction
    pairs: tuple[tuple[int, int], ...]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """A machine as a foreign file describes it. ``format`` in words; ``warnings`` never hold an error."""

    format: str
    nodes: tuple[Node, ...]
    classes: tuple[LinkClass, ...]
    links: tuple[Link, ...]
    budgets: tuple[Budget, ...] = ()
    notes: tuple[Note, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    def of(self, kind: NodeKind) -> tuple[int, ...]:
        """Return the nodes of a kind."""
        return tuple(i for i, node in enumerate(self.nodes) if node.kind is kind)

    def kind_of(self, link: Link) -> str:
        """Return the kind of a link: nvlink, xgmi, pcie, ..."""
        return next(c.kind for c in self.classes if c.name == link.cls)


@dataclass(slots=True)
class Draft:
    """An import under way. Errors are gathered; :meth:`finish` raises them together."""

    source: Source
    nodes: list[Node] = field(default_factory=list)
    classes: dict[str, LinkClass] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)
    _sizes: dict[str, int] = field(default_factory=dict)

    def node(self, kind: NodeKind, array: str, label: str = "", abilities: tuple[str, ...] = ()) -> int:
        """Add a node to an array; return its number."""
        if len(self.nodes) >= MAX_NODES:
            self.fail("import-too-large", f"the file describes more than {MAX_NODES} nodes")
        index = self._sizes.get(array, 0)
        self._sizes[array] = index + 1
        self.nodes.append(Node(kind, array, index, label, abilities))
        return len(self.nodes) - 1

    def link_class(self, cls: LinkClass) -> str:
        """Add a class unless there is one of that name; return its name."""
        self.classes.setdefault(cls.name, cls)
        return cls.name

    def link(self, a: int, b: int, count: int, cls: str, origin: str = "", *, both: bool = True) -> None:
        """Add links."""
        if len(self.links) >= MAX_LINKS:
            self.fail("import-too-large", f"the file describes more than {MAX_LINKS} links")
        self.links.append(Link(a, b, count, cls, origin, both))

    def read(self, text: str) -> None:
        """Note what the file says."""
        self.notes.append(Note(Evidence.READ, text))

    def conclude(self, text: str) -> None:
        """Note what follows from the file."""
        self.notes.append(Note(Evidence.CONCLUDED, text))

    def assume(self, text: str) -> None:
        """Note what the file leaves open, and what was taken."""
        note = Note(Evidence.ASSUMED, text)
        if note not in self.notes:
            self.notes.append(note)

    def error(
        self, code: str, message: str, *places: Label | Span | None, notes: Iterable[str] = (), help: str | None = None
    ) -> None:
        """Report an error and go on."""
        self.found.append(Diagnostic(code, message, _labels(places), tuple(notes), help))

    def warn(
        self, code: str, message: str, *places: Label | Span | None, notes: Iterable[str] = (), help: str | None = None
    ) -> None:
        """Report a warning."""
        self.found.append(Diagnostic(code, message, _labels(places), tuple(notes), help, "warning"))

    def fail(
        self, code: str, message: str, *places: Label | Span | None, notes: Iterable[str] = (), help: str | None = None
    ) -> None:
        """Report an error after which there is nothing to go on with. Raises DiagnosticError."""
        self.error(code, message, *places, notes=notes, help=help)
        self.check()

    def check(self) -> None:
        """Raise DiagnosticError if there was an error."""
        if any(d.severity == "error" for d in self.found):
            raise DiagnosticError(sorted(self.found, key=_start))

    def finish(self, format: str) -> Imported:
        """Return the machine. Raises DiagnosticError if there was an error, or if there is no GPU."""
        self.check()
        if not any(node.kind is NodeKind.GPU for node in self.nodes):
            self.fail("import-missing", "no GPU was found in this file", Span(self.source, 0, 0))
        used = {link.cls for link in self.links}
        self._refuse_impossible_figures(used)
        return Imported(
            format,
            tuple(self.nodes),
            tuple(c for c in self.classes.values() if c.name in used),
            tuple(self.links),
            tuple(self.budgets),
            tuple(self.notes),
            tuple(self.found),
        )

    def _refuse_impossible_figures(self, used: set[str]) -> None:
        """Whatever file a figure came from: what no link has is said here, not by the language of the text."""
        top = Span(self.source, 0, 0)
        classes = [c for c in self.classes.values() if c.name in used]
        rates = [(f"link class `{c.name}`", c.rate) for c in classes]
        rates += [(f"link class `{c.name}`, nominally", c.nominal) for c in classes if c.nominal is not None]
        rates += [(f"budget `{b.name}`", b.rate) for b in self.budgets]
        for name, rate in rates:
            if not 0 < rate <= MAX_RATE:
                self.error("import-impossible", f"{name}: {float(rate):g} bytes/s; no link has such a rate", top)
        for cls in classes:
            if not 0 <= cls.latency <= MAX_LATENCY:
                message = f"link class `{cls.name}`: a latency of {float(cls.latency):g} s; no link has it"
                self.error("import-impossible", message, top, help="perhaps the file's unit is another one")
        self.check()


def _labels(places: Iterable[Label | Span | None]) -> tuple[Label, ...]:
    return tuple(p if isinstance(p, Label) else Label(p) for p in places if p is not None)


def _start(diagnostic: Diagnostic) -> int:
    return diagnostic.labels[0].span.start if diagnostic.labels else 0
