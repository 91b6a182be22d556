"""Problem: *what* is wanted. A topology, what each rank has and needs, and the goal.

A collective is a set of *shards*. A shard is one count-long vector: some ranks hold it at the start
(or, if it is reduced, hold one contribution each), some ranks need it at the end. Solvers cut shards
into chunks; nothing after ``sema`` knows a collective by its name, except to print it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from math import gcd, lcm
from typing import NewType

from acclc.source import Span

NodeId = NewType("NodeId", int)
"""Index into ``Topology.nodes``."""
LinkId = NewType("LinkId", int)
"""Index into ``Topology.links``."""
Rank = NewType("Rank", int)
"""Global rank: position among the GPUs of the topology. GPUs come first, so it is their NodeId too."""
ShardId = NewType("ShardId", int)
"""Index into ``Problem.shards``."""


class NodeKind(StrEnum):
    """What a node can do: a GPU holds and reduces data, the others pass it on (a host may stage)."""

    GPU = "gpu"
    SWITCH = "switch"
    HOST = "host"
    NIC = "nic"


@dataclass(frozen=True, slots=True)
class Node:
    """A node. ``name`` is as written (``g[3]``, ``box[1].g[0]``); ``position`` is a hint for drawing."""

    id: NodeId
    name: str
    kind: NodeKind
    can_multicast: bool = False
    can_reduce: bool = False
    position: tuple[int, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LinkClass:
    """A kind of link. ``bandwidth`` (bytes/s, one link, one direction) is the effective rate that is optimised for."""

    name: str
    bandwidth: Fraction
    latency: Fraction
    """Seconds."""
    nominal: Fraction | None = None
    kind: str = ""
    """nvlink, xgmi, pcie, net, shm, host, or empty."""


@dataclass(frozen=True, slots=True)
class Link:
    """``count`` equal links side by side, from ``src`` to ``dst``."""

    id: LinkId
    src: NodeId
    dst: NodeId
    count: int
    cls: LinkClass
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def capacity(self) -> Fraction:
        """Bytes per second."""
        return self.count * self.cls.bandwidth


@dataclass(frozen=True, slots=True)
class Budget:
    """A rate (bytes/s) that several links share. A two-way budget lists both directions' links."""

    name: str
    links: tuple[LinkId, ...]
    capacity: Fraction
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Topology:
    """The machine. Nodes: all GPUs first (so Rank = NodeId), then switches, hosts and NICs."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    budgets: tuple[Budget, ...] = ()
    doc: str = ""
    """The comment that stands above the declaration: source of the facts, nominal or effective."""

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """All ranks, in order."""
        return tuple(Rank(n.id) for n in self.nodes if n.kind is NodeKind.GPU)

    @property
    def classes(self) -> tuple[LinkClass, ...]:
        """The link classes in use, in order of first use."""
        return tuple(dict.fromkeys(link.cls for link in self.links))

    @property
    def unit(self) -> Fraction | None:
        """The largest rate of which every link capacity and budget is a whole multiple (bytes/s).

        It is the rate at which a *round* moves one chunk. None without links.
        """
        kinds = {(link.count, id(link.cls)): link for link in self.links}
        rates = [link.capacity for link in kinds.values()] + [b.capacity for b in self.budgets]
        if not rates:
            return None
        denominator = lcm(*(r.denominator for r in rates))
        return Fraction(gcd(*(int(r * denominator) for r in rates)), denominator)

    def lanes(self, link: Link) -> int:
        """The capacity of a link in units: chunks it carries in one round."""
        unit = self.unit
        assert unit is not None
        return int(link.capacity / unit)


class Op(StrEnum):
    """Reduction operators. Integers wrap; avg of integers rounds toward zero after the sum."""

    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    AVG = "avg"


class Collective(StrEnum):
    """The collectives by name. ``CUSTOM``: by pre- and postcondition; ``TOGETHER``: several at the same time."""

    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    ALL_TO_ALL = "all_to_all"
    ALL_TO_ALL_V = "all_to_all_v"
    SEND_RECV = "send_recv"
    CUSTOM = "custom"
    TOGETHER = "together"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shard lies in a rank's buffer: elements [unit * count, (unit + 1) * count)."""

    rank: Rank
    unit: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One count-long vector. Without ``reduced`` all ``inputs`` hold the same data; with it, one contribution each.

    The count is the call's, the same for all shards but where ``Problem.varying`` says otherwise.
    """

    id: ShardId
    name: str
    demand: int
    """Index into ``Problem.demands``."""
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    reduced: bool = False

    @property
    def sources(self) -> tuple[Rank, ...]:
        """The ranks that hold it, or a contribution to it, at the start."""
        return tuple(p.rank for p in self.inputs)

    @property
    def targets(self) -> tuple[Rank, ...]:
        """The ranks that need it at the end."""
        return tuple(p.rank for p in self.outputs)


class InPlace(StrEnum):
    """How input and output may be one buffer (definitions: in place means an offset, not equal pointers)."""

    NONE = "none"
    SAME = "same"
    INPUT_IN_OUTPUT = "input_in_output"
    """A rank's input is ``output[position * count :]`` (all_gather; gather at the root)."""
    OUTPUT_IN_INPUT = "output_in_input"
    """A rank's output is ``input[position * count :]`` (reduce_scatter; scatter at the root)."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One collective on one group. The order of ``group`` gives group ranks; ``root`` is a global rank."""

    collective: Collective
    group: tuple[Rank, ...]
    root: Rank | None = None
    op: Op | None = None
    """The operator that was asked for; kernels are instantiated for any. None where nothing is reduced."""
    in_place: InPlace = InPlace.NONE
    pairs: tuple[tuple[Rank, Rank], ...] = ()
    """send_recv only: (source, destination)."""
    weight: int = 1
    """Of several at the same time: every vector of this one is so many counts long."""


class GoalKind(StrEnum):
    """What is optimised."""

    LATENCY = "latency"
    BANDWIDTH = "bandwidth"
    PARETO = "pareto"
    SIZES = "sizes"
    POINT = "point"


@dataclass(frozen=True, slots=True)
class Hints:
    """In the manner of TACCL's sketches; each optional. They narrow the search, never the proof."""

    relays: tuple[Rank, ...] | None = None
    """Ranks that may pass on data that is not their own; None: all."""
    symmetry: bool = True


@dataclass(frozen=True, slots=True)
class Goal:
    """What to optimise, and within which limits (None: no limit of the user's)."""

    kind: GoalKind = GoalKind.PARETO
    min_bytes: int | None = None
    max_bytes: int | None = None
    chunks: int | None = None
    """POINT: exactly; else: at most."""
    steps: int | None = None
    rounds: int | None = None
    channels: int = 1
    blocks: int | None = None
    """At most so many blocks a rank."""
    deadline_s: Fraction | None = None
    hints: Hints = Hints()


@dataclass(frozen=True, slots=True)
class Problem:
    """A topology, the demands on it (several: all at the same time), their shards, and the goal."""

    name: str
    topology: Topology
    collective: Collective
    demands: tuple[Demand, ...]
    shards: tuple[Shard, ...]
    goal: Goal = Goal()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def group(self) -> tuple[Rank, ...]:
        """All ranks that take part, in the order of the demands."""
        return tuple(dict.fromkeys(r for d in self.demands for r in d.group))

    @property
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return any(s.reduced for s in self.shards)

    @property
    def varying(self) -> bool:
        """Whether each shard has a count of its own, told with the call (all_to_all_v): see ``Extent.shard``."""
        return any(d.collective is Collective.ALL_TO_ALL_V for d in self.demands)

    def without_spans(self) -> Problem:
        """Return the same problem without source places: what is written to files."""
        topology = replace(
            self.topology,
            nodes=tuple(replace(n, span=None) for n in self.topology.nodes),
            links=tuple(replace(x, span=None) for x in self.topology.links),
            budgets=tuple(replace(b, span=None) for b in self.topology.budgets),
        )
        return replace(self, topology=topology, span=None)

    def input_units(self, rank: Rank) -> int:
        """Length of a rank's input buffer, in counts."""
        return max((p.unit + 1 for s in self.shards for p in s.inputs if p.rank == rank), default=0)

    def output_units(self, rank: Rank) -> int:
        """Length of a rank's output buffer, in counts."""
        return max((p.unit + 1 for s in self.shards for p in s.outputs if p.rank == rank), default=0)
