"""How view.json is made from a :class:`~acclc.view.model.ViewInput`, written and read back.

The format itself is in :mod:`acclc.view.view_format`.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import msgspec

from acclc.ir.problem import NodeId, Problem, Topology
from acclc.ir.result import Certificate
from acclc.simulate import size_bytes
from acclc.view.figures import (
    link_utilisation,
    nanoseconds,
    step_loads,
    step_seconds,
    time_per_byte,
    times_in_nanoseconds,
)
from acclc.view.kernel_lines import transfer_lines
from acclc.view.lanes import assign_lanes
from acclc.view.layout import lay_out
from acclc.view.model import ViewCollective, ViewInput, ViewTimes, ViewVariant
from acclc.view.packed import pack, pack_program
from acclc.view.proof import proof_drawing
from acclc.view.view_format import (
    VIEW_FORMAT,
    VIEW_VERSION,
    BoundData,
    BoxData,
    BudgetData,
    ChunkColumns,
    ClassData,
    CollectiveData,
    ExcludedData,
    HeadroomData,
    KernelData,
    LinkData,
    NodeData,
    OutputColumns,
    ProofData,
    ProofSetData,
    ShardData,
    StepData,
    TimesData,
    TopologyData,
    TransferColumns,
    VariantData,
    View,
)
from acclc.view.words import (
    algbw,
    asked_words,
    exclusion_words,
    gap,
    gap_words,
    limit_words,
    range_words,
    size_words,
    status_words,
)


def build_view(view: ViewInput) -> View:
    """Return the data of a page. Deterministic; equal topologies are kept once."""
    plain = [c.problem.without_spans().topology for c in view.collectives]
    topologies = list(dict.fromkeys(plain))
    return View(
        VIEW_FORMAT,
        VIEW_VERSION,
        view.name,
        tuple(_topology(t) for t in topologies),
        tuple(_collective(c, topologies.index(t)) for c, t in zip(view.collectives, plain, strict=True)),
    )


def encode_view(view: View) -> bytes:
    """Return view.json as compact UTF-8 JSON."""
    return msgspec.json.encode(view)


def decode_view(data: bytes) -> View:
    """Read view.json.

    Raises:
        msgspec.DecodeError: it is not JSON of this format.
    """
    return msgspec.json.decode(data, type=View)


def _topology(topology: Topology) -> TopologyData:
    layout = lay_out(topology)
    classes = topology.classes

    def bend(src: int, dst: int) -> float:
        value = layout.bends.get((NodeId(min(src, dst)), NodeId(max(src, dst))), 0.0)
        return value if src < dst else -value

    return TopologyData(
        topology.name,
        topology.doc,
        len(topology.ranks),
        tuple(NodeData(n.name, n.kind.value, x, y) for n, (x, y) in zip(topology.nodes, layout.points, strict=True)),
        tuple(
            LinkData(x.src, x.dst, x.count, classes.index(x.cls), _gbps(x.capacity), bend(x.src, x.dst))
            for x in topology.links
        ),
        tuple(
            ClassData(
                c.name,
                c.kind,
                _gbps(c.bandwidth),
                _gbps(c.nominal) if c.nominal is not None else None,
                float(c.latency * 10**6),
            )
            for c in classes
        ),
        tuple(BoxData(box.name, box.nodes) for box in layout.boxes),
        tuple(BudgetData(b.name, b.links, _gbps(b.capacity)) for b in topology.budgets),
    )


def _collective(collective: ViewCollective, topology: int) -> CollectiveData:
    problem = collective.problem
    return CollectiveData(
        name=problem.name,
        collective=problem.collective.value,
        topology=topology,
        asked=asked_words(problem),
        status=collective.status.value,
        status_words=status_words(collective.status),
        group=problem.group,
        reduces=problem.reduces,
        shards=tuple(ShardData(s.name, s.sources, s.targets, s.reduced) for s in problem.shards),
        bound=_bound(collective),
        excluded=tuple(ExcludedData(e.chunks, e.steps, e.rounds, exclusion_words(e)) for e in collective.excluded),
        notes=collective.notes,
        artefact=collective.artefact,
        headroom=tuple(
            HeadroomData(
                h.shard_bytes,
                nanoseconds(h.bound_seconds),
                tuple(name for name, _ in h.others),
                tuple(nanoseconds(seconds) for _, seconds in h.others),
            )
            for h in collective.headroom
        ),
        variants=tuple(_variant(collective, v) for v in collective.variants),
    )


def _bound(collective: ViewCollective) -> BoundData:
    problem, bound = collective.problem, collective.bound
    latency = bound.latency
    return BoundData(
        rounds_per_chunk=_fraction(bound.rounds_per_chunk),
        algbw_GBps=_gbps(algbw(problem, bound.throughput.time_per_byte)),
        words=bound.throughput.words,
        proof=_proof(problem, bound.throughput.certificate),
        steps=latency.steps,
        latency_us=float(latency.seconds * 10**6),
        latency_words=latency.words,
        latency_proof=_proof(problem, latency.steps_certificate) if latency.steps_certificate else None,
    )


def _proof(problem: Problem, certificate: Certificate) -> ProofData:
    drawn = proof_drawing(problem, certificate)
    return ProofData(
        drawn.kind,
        drawn.caption,
        tuple(ProofSetData(s.nodes, s.links, s.caption) for s in drawn.sets),
        drawn.links,
    )


def _variant(collective: ViewCollective, variant: ViewVariant) -> VariantData:
    problem, schedule = collective.problem, variant.schedule
    over = gap(problem, schedule, collective.bound)
    equal = len({c.weight for c in schedule.chunks}) == 1
    per_chunk = Fraction(schedule.total_rounds, schedule.chunks_per_shard or 1)
    if schedule.pipelined:
        equal, per_chunk = True, time_per_byte(problem, schedule) * (problem.topology.unit or 0)
    return VariantData(
        id=variant.name,
        strategy=schedule.strategy,
        chunks_per_shard=schedule.chunks_per_shard,
        steps=schedule.steps,
        rounds=schedule.total_rounds,
        rounds_per_chunk=_fraction(per_chunk) if equal and problem.topology.unit is not None else None,
        algbw_GBps=_gbps(algbw(problem, time_per_byte(problem, schedule))),
        gap=None if over is None else round(float(over), 6),
        gap_words=gap_words(problem, schedule, collective.bound),
        optimal=schedule.optimal,
        limit=limit_words(problem, schedule),
        sizes=range_words(variant),
        min_bytes=None if variant.by_name else variant.min_bytes or 0,
        max_bytes=variant.max_bytes,
        solve_seconds=variant.solve_seconds,
        chunks=_chunks(collective, variant),
        transfers=TransferColumns(
            chunk=tuple(t.chunk for t in schedule.transfers),
            src=tuple(t.src for t in schedule.transfers),
            dst=tuple(t.dst for t in schedule.transfers),
            path=tuple(t.path for t in schedule.transfers),
            step=tuple(t.step for t in schedule.transfers),
            operands=tuple(t.operands for t in schedule.transfers),
        ),
        outputs=OutputColumns(
            rank=tuple(o.rank for o in schedule.outputs),
            chunk=tuple(o.chunk for o in schedule.outputs),
            operands=tuple(o.operands for o in schedule.outputs),
        ),
        step=_steps(problem, variant),
        utilisation=tuple(round(float(b), 4) for b in link_utilisation(problem, schedule)),
        times=tuple(_times(problem, variant, t) for t in variant.times),
        kernel=_kernel(variant),
        program=pack_program(variant.program) if variant.program else None,
    )


def _chunks(collective: ViewCollective, variant: ViewVariant) -> ChunkColumns:
    """Colours: by the rank that has a chunk first; that needs it, if it is reduced; else by the chunk's number."""
    chunks = variant.schedule.chunks
    shards = collective.problem.shards
    ranks = len(collective.problem.topology.ranks)

    def origin(shard_id: int, chunk_index: int) -> int:
        shard = shards[shard_id]
        ends = shard.targets if shard.reduced else shard.sources
        return ends[0] if len(ends) == 1 and len(shards) > 1 else chunk_index % max(ranks, 1)

    return ChunkColumns(
        shard=tuple(c.shard for c in chunks),
        index=tuple(c.index for c in chunks),
        begin=tuple(str(c.begin) for c in chunks),
        end=tuple(str(c.end) for c in chunks),
        origin=tuple(origin(c.shard, c.index) for c in chunks),
    )


def _steps(problem: Problem, variant: ViewVariant) -> tuple[StepData, ...]:
    schedule = variant.schedule
    seconds = step_seconds(problem, schedule)
    total = sum(seconds, Fraction(0))
    count = Counter(t.step for t in schedule.transfers)
    steps = []
    for number, load in enumerate(step_loads(problem, schedule)):
        links = tuple(sorted(load))
        length = seconds[number]
        full = [load[x] / problem.topology.links[x].capacity / length if length else 0 for x in links]
        steps.append(
            StepData(
                rounds=0 if schedule.pipelined else schedule.rounds[number],
                share=round(float(length / total), 6) if total else 0.0,
                transfers=count[number],
                links=links,
                load=tuple(round(float(f), 4) for f in full),
            )
        )
    return tuple(steps)


def _times(problem: Problem, variant: ViewVariant, times: ViewTimes) -> TimesData:
    moments = times_in_nanoseconds(times)
    transfers = variant.schedule.transfers
    on_link: dict[int, list[tuple[int, int]]] = {}
    for number, transfer in enumerate(transfers):
        for position, link in enumerate(transfer.path):
            on_link.setdefault(link, []).append((number, position))
    lanes = [[0] * len(t.path) for t in transfers]
    for places in on_link.values():
        assigned = assign_lanes([moments[number][:2] for number, _ in places])
        for (number, position), lane in zip(places, assigned, strict=True):
            lanes[number][position] = lane
    total = max((m[2] for m in moments), default=0)
    size = size_bytes(problem, times.shard_bytes)
    return TimesData(
        shard_bytes=times.shard_bytes,
        size_bytes=size,
        size=size_words(size),
        measured=times.measured,
        total_ns=total,
        algbw_GBps=round(size / total, 4) if total else 0.0,
        start_ns=tuple(m[0] for m in moments),
        sent_ns=tuple(m[1] for m in moments),
        arrived_ns=tuple(m[2] for m in moments),
        lanes=tuple(tuple(x) for x in lanes) if any(any(x) for x in lanes) else (),
    )


def _kernel(variant: ViewVariant) -> KernelData | None:
    source = variant.kernel_source
    if not source:
        return None
    data = source.encode()
    lines = variant.kernel_lines or transfer_lines(source)
    return KernelData(
        lines=source.count("\n") + (not source.endswith("\n")),
        bytes=len(data),
        zlib=pack(data),
        line=tuple(line for line, _ in lines),
        transfer=tuple(transfer for _, transfer in lines),
    )


def _gbps(bytes_per_second: Fraction) -> float:
    return round(float(bytes_per_second / 10**9), 4)


def _fraction(value: Fraction | None) -> str | None:
    return None if value is None else str(value)
