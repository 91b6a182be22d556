"""The program as written: a frozen tree, each node with its place. Nothing is checked or evaluated here.

``sema`` turns it into Problems. Spans do not take part in equality, so parse(format(tree)) == tree can be asked.
Comments are not part of the tree, except the doc comment of a topology; the formatter keeps the others by place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from acclc.source import Span


def _span() -> Span:
    span: Span = field(compare=False, repr=False)
    return span


# --- expressions: whole numbers -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """``42``."""

    value: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    """A parameter, a loop variable, or a ``let``."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    """``left op right`` with op one of ``+ - * / % **``; ``/`` divides whole numbers, rounding down."""

    op: str
    left: Expression
    right: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Negate:
    """``-operand``."""

    operand: Expression
    span: Span = _span()


Expression = Number | Name | Binary | Negate


@dataclass(frozen=True, slots=True)
class Range:
    """``first..last`` includes the last, ``first..<last`` does not."""

    first: Expression
    last: Expression
    inclusive: bool
    span: Span = _span()


# --- quantities ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit as written (``25 GB/s``, ``0.7 us``, ``1 KiB``). ``value`` is exact, before the unit."""

    value: Fraction
    unit: str
    span: Span = _span()


# --- nodes and links ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One dotted part of a reference: ``box[b]``, ``g[0..3, r]``; an index may be a range."""

    name: str
    indices: tuple[Expression | Range, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class NodeRef:
    """``box[b].g[r]``, ``cpu``, ``g`` (a whole array), or ``*`` (``parts`` is empty): any node."""

    parts: tuple[Part, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class LinkRef:
    """``2 of a <-> b`` or ``a -> b``: links that exist. ``count`` None: all lanes."""

    src: NodeRef
    dst: NodeRef
    both: bool
    count: Expression | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TopologyCall:
    """``dgx1``, ``torus(4, 4)``, ``pod(n = 4)``; ``without`` takes links away, in order."""

    name: str
    arguments: tuple[Argument, ...]
    without: tuple[LinkRef, ...]
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Argument:
    """``4`` or ``n = 4``."""

    name: str | None
    value: Expression
    span: Span = _span()


# --- statements of a topology -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkClassDecl:
    """``link nvlink { 25 GB/s, 0.7 us, nominal 25 GB/s, kind nvlink }``: rate first, the rest optional."""

    name: str
    bandwidth: Quantity
    latency: Quantity | None
    nominal: Quantity | None
    kind: str | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class NodesDecl:
    """``gpu g[4, 4]``, ``switch sw { multicast, reduce }``, ``host cpu``. ``dimensions`` empty: one node."""

    kind: str
    name: str
    dimensions: tuple[Expression, ...]
    abilities: tuple[str, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ReplicaDecl:
    """``hgx_h100 box[n]``: copies of a topology, joined by later links."""

    topology: TopologyCall
    name: str
    dimensions: tuple[Expression, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class LinkDecl:
    """``a, b <-> c : 2 nvlink``: every source to every target; ``->`` one direction."""

    sources: tuple[NodeRef, ...]
    targets: tuple[NodeRef, ...]
    both: bool
    count: Expression | None
    link_class: NodeRef
    """``nvlink``, or ``box.nvlink``: the class of a replica."""
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class BudgetDecl:
    """``budget "CPU memory" { 60 GB/s both ways over cpu <-> * }``."""

    name: str
    rate: Quantity
    both_ways: bool
    links: tuple[LinkRef, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Let:
    """``let half = n / 2``."""

    name: str
    value: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Loop:
    """``x in 0..<n``."""

    name: str
    range: Range
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class For:
    """``for x in 0..<4, y in 0..<4 { ... }``: the last loop runs fastest."""

    loops: tuple[Loop, ...]
    body: tuple[TopologyStatement | CustomStatement, ...]
    span: Span = _span()


TopologyStatement = LinkClassDecl | NodesDecl | ReplicaDecl | LinkDecl | BudgetDecl | Let | For


# --- items of a file ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """``n`` or ``n = 16``."""

    name: str
    default: Expression | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Import:
    """``import hgx_h100`` (the library; optional, for readers) or ``import "mine.accl"`` (beside this file)."""

    target: str
    is_path: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TopologyDecl:
    """``topology NAME(parameters) { ... }``. ``doc``: the comment lines directly above, without ``#``."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[TopologyStatement, ...]
    doc: str = field(compare=False, repr=False)
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class TopologyAlias:
    """``topology broken = workstation without g[2] <-> plx[1]``."""

    name: str
    parameters: tuple[Parameter, ...]
    value: TopologyCall
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class GoalOption:
    """``goal latency | bandwidth | pareto``, ``goal size A .. B``, ``goal chunks 3, steps 2, rounds 4``.

    ``kind`` is latency, bandwidth, pareto, size or point.
    """

    kind: str
    low: Quantity | None
    high: Quantity | None
    chunks: Expression | None
    steps: Expression | None
    rounds: Expression | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class LimitOption:
    """``chunks up to 6``, ``channels 2``, and so for steps, rounds and blocks: ``what`` is the first word."""

    what: str
    value: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class WeightOption:
    """``weight 3``, of a collective inside ``together``."""

    value: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class DeadlineOption:
    """``within 30 s``."""

    value: Quantity
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class RootOption:
    """``root g[0]``."""

    node: NodeRef
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class OpOption:
    """``op sum``."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class RelaysOption:
    """``relays g[0], g[4]``: only these may pass on data that is not their own."""

    nodes: tuple[NodeRef, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SymmetryOption:
    """``symmetry on`` (default) or ``symmetry off``."""

    on: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PairsOption:
    """``pairs g[0] -> g[1], g[1] -> g[0]``: what send_recv moves."""

    pairs: tuple[tuple[NodeRef, NodeRef], ...]
    span: Span = _span()


Option = (
    GoalOption
    | LimitOption
    | DeadlineOption
    | RootOption
    | OpOption
    | WeightOption
    | RelaysOption
    | SymmetryOption
    | PairsOption
)


@dataclass(frozen=True, slots=True)
class CollectiveUse:
    """``all_reduce on dgx1 among g[0..3] as tp { op sum, goal pareto }``. ``group`` empty: all ranks."""

    collective: str
    topology: TopologyCall
    group: tuple[NodeRef, ...]
    name: str | None
    options: tuple[Option, ...]
    span: Span = _span()
    collective_span: Span = _span()


@dataclass(frozen=True, slots=True)
class ChunkStatement:
    """``chunk east[x, y] at g[x, y]``: these nodes hold the chunk at the start (all the same data)."""

    name: str
    indices: tuple[Expression, ...]
    nodes: tuple[NodeRef, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ReduceStatement:
    """``reduce total over g[0..7]``: the chunk is the reduction of one contribution of each of these nodes."""

    name: str
    indices: tuple[Expression, ...]
    nodes: tuple[NodeRef, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class NeedStatement:
    """``need east[x, y] at g[(x + 1) % 4, y]``."""

    name: str
    indices: tuple[Expression, ...]
    nodes: tuple[NodeRef, ...]
    span: Span = _span()


CustomStatement = ChunkStatement | ReduceStatement | NeedStatement | Let | For


@dataclass(frozen=True, slots=True)
class CustomCollective:
    """``collective halo on torus(4, 4) { ... }``; options may stand among the statements' end, in ``with { }``."""

    name: str
    topology: TopologyCall
    body: tuple[CustomStatement, ...]
    options: tuple[Option, ...]
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Together:
    """``together as tp { all_reduce on dgx1 among g[0..3]  ... } with { goal bandwidth }``: all at the same time."""

    name: str | None
    uses: tuple[CollectiveUse, ...]
    options: tuple[Option, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SetUse:
    """``goal torch on full(4) { goal latency }``: every collective that ``purpose`` needs, each with the options."""

    purpose: str
    topology: TopologyCall
    options: tuple[Option, ...]
    span: Span = _span()
    purpose_span: Span = _span()
    """Of ``goal torch``."""


@dataclass(frozen=True, slots=True)
class EmitEntry:
    """``types f32, bf16``: ``what`` is types, ops, arch, protocols or channels; ``values`` as written."""

    what: str
    values: tuple[str, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Emit:
    """``emit { types f32, bf16  ops sum, max  arch sm_90  protocols simple  channels 2 }``, for the whole file."""

    entries: tuple[EmitEntry, ...]
    span: Span = _span()


Item = Import | TopologyDecl | TopologyAlias | CollectiveUse | CustomCollective | Together | SetUse | Emit


@dataclass(frozen=True, slots=True)
class File:
    """A whole file."""

    items: tuple[Item, ...]
    span: Span = _span()
