"""The format of view.json, version 2: what a page is drawn from.

Lists of like things (chunks, transfers, outputs, times) are columns: one array a field, indexed by id. Exact
numbers are strings of fractions, times are whole nanoseconds, rates are GB/s (1e9 bytes), sizes are bytes.
Texts are plain text: whoever shows them escapes them.
"""
# ruff: noqa: N815  (GBps is GB/s; in lower case it would read as gigabits)

from __future__ import annotations

from dataclasses import dataclass

VIEW_FORMAT = "acclc-view"
VIEW_VERSION = 2


@dataclass(frozen=True, slots=True)
class NodeData:
    """A node at (x, y); neighbours are about 1 apart, y grows downwards."""

    name: str
    kind: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class LinkData:
    """A link direction. ``cls`` indexes the classes; ``bend`` is how far its curve bends, to the right of its way."""

    src: int
    dst: int
    count: int
    cls: int
    capacity_GBps: float
    bend: float


@dataclass(frozen=True, slots=True)
class ClassData:
    """A link class; the rates are of one link in one direction."""

    name: str
    kind: str
    bandwidth_GBps: float
    nominal_GBps: float | None
    latency_us: float


@dataclass(frozen=True, slots=True)
class BoxData:
    """Nodes with a common outline."""

    name: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BudgetData:
    """A rate that links share."""

    name: str
    links: tuple[int, ...]
    capacity_GBps: float


@dataclass(frozen=True, slots=True)
class TopologyData:
    """A machine, laid out."""

    name: str
    doc: str
    ranks: int
    nodes: tuple[NodeData, ...]
    links: tuple[LinkData, ...]
    classes: tuple[ClassData, ...]
    boxes: tuple[BoxData, ...]
    budgets: tuple[BudgetData, ...]


@dataclass(frozen=True, slots=True)
class ShardData:
    """A shard: who has it (or a contribution to it) and who needs it."""

    name: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    reduced: bool


@dataclass(frozen=True, slots=True)
class ChunkColumns:
    """The chunks of a variant: the part [begin, end) of each one's shard, and the rank that gives its colour."""

    shard: tuple[int, ...]
    index: tuple[int, ...]
    begin: tuple[str, ...]
    end: tuple[str, ...]
    origin: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransferColumns:
    """The transfers of a variant. An operand is a transfer, or -1: the sender's own input."""

    chunk: tuple[int, ...]
    src: tuple[int, ...]
    dst: tuple[int, ...]
    path: tuple[tuple[int, ...], ...]
    step: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """What each rank ends up with."""

    rank: tuple[int, ...]
    chunk: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class TimesData:
    """Start, end on the links and arrival of each transfer, for one size.

    ``lanes`` is the lane on each link of the path (transfers on one link at the same time have different
    lanes); it is empty where all are 0.
    """

    shard_bytes: int
    size_bytes: int
    size: str
    measured: bool
    total_ns: int
    algbw_GBps: float
    start_ns: tuple[int, ...]
    sent_ns: tuple[int, ...]
    arrived_ns: tuple[int, ...]
    lanes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class StepData:
    """A step: its rounds, its part of the time, and how full its links are (columns over the used links)."""

    rounds: int
    share: float
    transfers: int
    links: tuple[int, ...]
    load: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class KernelData:
    """Generated source, packed (zlib, base64), with (line from 1, transfer) as two columns."""

    lines: int
    bytes: int
    zlib: str
    line: tuple[int, ...]
    transfer: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OperationColumns:
    """The operations of a block, in order. ``sources`` and ``target`` index ``ProgramText.extents`` (-1: none)."""

    id: tuple[int, ...]
    kind: tuple[str, ...]
    step: tuple[int, ...]
    transfer: tuple[int, ...]
    peer: tuple[int, ...]
    sources: tuple[tuple[int, ...], ...]
    target: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class BlockData:
    """A block: the link that it sends on, or -1."""

    link: int
    operations: OperationColumns


@dataclass(frozen=True, slots=True)
class RankData:
    """What one rank does."""

    rank: int
    slots: int
    blocks: tuple[BlockData, ...]


@dataclass(frozen=True, slots=True)
class ProgramText:
    """A Program as the page shows it; ``extents`` are in words."""

    ranks: tuple[RankData, ...]
    extents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProgramData:
    """A :class:`ProgramText` as JSON, packed (zlib, base64): it is read when somebody looks."""

    blocks: int
    operations: int
    zlib: str


@dataclass(frozen=True, slots=True)
class VariantData:
    """One schedule."""

    id: str
    strategy: str
    chunks_per_shard: int
    steps: int
    rounds: int
    rounds_per_chunk: str | None
    algbw_GBps: float
    gap: float | None
    gap_words: str
    optimal: tuple[str, ...]
    limit: str
    sizes: str
    min_bytes: int | None
    """It is chosen for S from here on; None: never."""
    max_bytes: int | None
    solve_seconds: float | None
    chunks: ChunkColumns
    transfers: TransferColumns
    outputs: OutputColumns
    step: tuple[StepData, ...]
    utilisation: tuple[float, ...]
    """For each link, the part of the time in which it is busy."""
    times: tuple[TimesData, ...]
    kernel: KernelData | None
    program: ProgramData | None


@dataclass(frozen=True, slots=True)
class ProofSetData:
    """A node set to outline with the links that cross its border."""

    nodes: tuple[int, ...]
    links: tuple[int, ...]
    caption: str


@dataclass(frozen=True, slots=True)
class ProofData:
    """What to draw of a certificate."""

    kind: str
    caption: str
    sets: tuple[ProofSetData, ...]
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoundData:
    """The lower bounds, in numbers, in words, and as drawings."""

    rounds_per_chunk: str | None
    algbw_GBps: float
    words: str
    proof: ProofData
    steps: int
    latency_us: float
    latency_words: str
    latency_proof: ProofData | None


@dataclass(frozen=True, slots=True)
class ExcludedData:
    """A point that was shown not to exist."""

    chunks: int
    steps: int
    rounds: int
    reason: str


@dataclass(frozen=True, slots=True)
class HeadroomData:
    """At one size: no schedule is faster than ``bound_ns``; ``names`` take ``ns``."""

    shard_bytes: int
    bound_ns: int
    names: tuple[str, ...]
    ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CollectiveData:
    """One collective with its variants."""

    name: str
    collective: str
    topology: int
    asked: str
    status: str
    status_words: str
    group: tuple[int, ...]
    reduces: bool
    shards: tuple[ShardData, ...]
    bound: BoundData
    excluded: tuple[ExcludedData, ...]
    notes: tuple[str, ...]
    artefact: str
    """Empty where the page shows one artefact."""
    headroom: tuple[HeadroomData, ...]
    variants: tuple[VariantData, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The whole of view.json."""

    format: str
    version: int
    name: str
    topologies: tuple[TopologyData, ...]
    collectives: tuple[CollectiveData, ...]
