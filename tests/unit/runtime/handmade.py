"""Artefacts made by hand, without the compiler: a Program a collective, written through the dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from acclc_runtime.manifest import (
    Manifest,
    ManifestCollective,
    ManifestShard,
    ManifestTopology,
    ManifestVariant,
    manifest_bytes,
    program_bytes,
)
from acclc_runtime.program import Buffer, Extent, Operation, OperationKind, Program, ProgramBlock, RankProgram

IN_PLACE = {
    "all_reduce": "same",
    "broadcast": "same",
    "reduce": "same",
    "all_gather": "input_in_output",
    "gather": "input_in_output",
    "reduce_scatter": "output_in_input",
    "scatter": "output_in_input",
}
"""As the definitions say; the others offer none."""


def shards_of(kind: str, ranks: Sequence[int], root: int) -> tuple[ManifestShard, ...]:
    """The shards of a named collective, written out as the tables of the field have them."""
    n = len(ranks)
    everyone = tuple((r, 0) for r in ranks)
    if kind == "all_reduce":
        return (ManifestShard(everyone, everyone, True),)
    if kind == "reduce":
        return (ManifestShard(everyone, ((root, 0),), True),)
    if kind == "broadcast":
        return (ManifestShard(((root, 0),), everyone, False),)
    if kind == "all_gather":
        return tuple(ManifestShard(((r, 0),), tuple((q, i) for q in ranks), False) for i, r in enumerate(ranks))
    if kind == "reduce_scatter":
        return tuple(ManifestShard(tuple((q, i) for q in ranks), ((r, 0),), True) for i, r in enumerate(ranks))
    if kind == "gather":
        return tuple(ManifestShard(((r, 0),), ((root, i),), False) for i, r in enumerate(ranks))
    if kind == "scatter":
        return tuple(ManifestShard(((root, i),), ((r, 0),), False) for i, r in enumerate(ranks))
    if kind == "all_to_all":
        return tuple(ManifestShard(((ranks[i], j),), ((ranks[j], i),), False) for i in range(n) for j in range(n))
    if kind == "send_recv":
        return tuple(ManifestShard(((r, 0),), ((ranks[(i + 1) % n], 0),), False) for i, r in enumerate(ranks))
    raise AssertionError(kind)


def collective(
    kind: str, ranks: Sequence[int] = (0, 1, 2), root: int | None = None, name: str = ""
) -> ManifestCollective:
    """A named collective without variants. ``root`` is a global rank (the first, where one is needed)."""
    rooted = kind in ("broadcast", "reduce", "gather", "scatter")
    top = ranks[0] if root is None else root
    made = custom(name or kind, shards_of(kind, ranks, top), ranks)
    return replace(made, collective=kind, root=top if rooted else None, in_place=IN_PLACE.get(kind, "none"))


def custom(name: str, shards: Sequence[ManifestShard], ranks: Sequence[int]) -> ManifestCollective:
    """A custom collective without variants."""
    reducing = [s for s in shards if s.reduced]
    contributors = {len(s.inputs) for s in reducing} or {1}
    return ManifestCollective(
        name=name,
        collective="custom",
        ranks=tuple(ranks),
        root=None,
        op=None,
        in_place="none",
        positions=tuple(range(len(ranks))),
        input_units=tuple(_units(shards, r, "inputs") for r in ranks),
        output_units=tuple(_units(shards, r, "outputs") for r in ranks),
        reduces=bool(reducing),
        contributors=contributors.pop() if len(contributors) == 1 else 0,
        shards=tuple(shards),
        bound="by hand",
        variants=(),
    )


def _units(shards: Sequence[ManifestShard], rank: int, side: str) -> int:
    return max((unit + 1 for s in shards for r, unit in getattr(s, side) if r == rank), default=0)


@dataclass
class Writer:
    """Collects one rank's operations, each in a block of its own kind."""

    rank: int
    local: list[Operation]
    sends: dict[int, list[Operation]]
    receives: dict[int, list[Operation]]
    slots: int = 0
    ids: int = 0

    def next_id(self) -> int:
        self.ids += 1
        return self.ids - 1

    def new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1


def direct_program(c: ManifestCollective, chunks: int = 1) -> Program:
    """Every source sends straight to every target; reductions at the targets, in the order of the inputs.

    In place, a rank's sends of its input come before whatever is stored over it.
    """
    writers = {r: Writer(r, [], {}, {}) for r in c.ranks}
    transfer = 0
    for shard in c.shards:
        for begin, end in ((Fraction(i, chunks), Fraction(i + 1, chunks)) for i in range(chunks)):
            landed: dict[tuple[int, int], list[tuple[Extent, int]]] = {p: [] for p in shard.outputs}
            sent: dict[int, list[int]] = {r: [] for r in c.ranks}
            for target, unit in shard.outputs:
                inputs = shard.inputs if shard.reduced else _source(shard, target)
                for source, at in inputs:
                    extent = Extent(Buffer.INPUT, at, begin, end)
                    if source == target:
                        landed[(target, unit)].append((extent, -1))
                        continue
                    slot = Extent(Buffer.SCRATCH, writers[target].new_slot(), begin, end)
                    sent[source].append(_send(writers[source], target, transfer, extent))
                    landed[(target, unit)].append((slot, _receive(writers[target], source, transfer, slot)))
                    transfer += 1
            for (target, unit), operands in landed.items():
                writer = writers[target]
                waits = [i for _, i in operands if i >= 0] + sent[target]
                writer.local.append(
                    Operation(
                        writer.next_id(),
                        OperationKind.COMPUTE,
                        1,
                        tuple(e for e, _ in operands),
                        Extent(Buffer.OUTPUT, unit, begin, end),
                        final=shard.reduced,
                        after=tuple(waits),
                    )
                )
    return _program(c, writers)


def _source(shard: ManifestShard, target: int) -> tuple[tuple[int, int], ...]:
    """Where a target takes data from that several may hold: from itself if it can."""
    own = tuple(p for p in shard.inputs if p[0] == target)
    return own[:1] or shard.inputs[:1]


def _send(writer: Writer, peer: int, transfer: int, source: Extent) -> int:
    block = writer.sends.setdefault(peer, [])
    number = writer.next_id()
    block.append(Operation(number, OperationKind.SEND, 0, (source,), None, transfer, peer, 0, fifo=len(block)))
    return number


def _receive(writer: Writer, peer: int, transfer: int, target: Extent) -> int:
    block = writer.receives.setdefault(peer, [])
    number = writer.next_id()
    block.append(Operation(number, OperationKind.RECEIVE, 0, (), target, transfer, peer, 0, fifo=len(block)))
    return number


def _program(c: ManifestCollective, writers: dict[int, Writer]) -> Program:
    ranks = []
    for i, rank in enumerate(c.ranks):
        w = writers[rank]
        blocks = [ProgramBlock(-1, tuple(w.local))]
        blocks += [ProgramBlock(peer, tuple(w.sends[peer])) for peer in sorted(w.sends)]
        blocks += [ProgramBlock(-1, tuple(w.receives[peer])) for peer in sorted(w.receives)]
        ranks.append(RankProgram(rank, c.input_units[i], c.output_units[i], w.slots, tuple(blocks)))
    return Program(c.name, c.in_place, c.positions, c.contributors, tuple(ranks))


def ring_all_reduce(c: ManifestCollective) -> Program:
    """The ring: n - 1 steps of reduce-scatter, n - 1 of all-gather; one block sends, one receives, one reduces.

    Chunk k is complete at rank k - 1, and every rank's result has the same expression tree.
    """
    n = len(c.ranks)
    ranks = []
    for me in range(n):
        after, before = c.ranks[(me + 1) % n], c.ranks[(me - 1) % n]
        sends, receives, local = [], [], []

        def part(buffer: Buffer, unit: int, k: int) -> Extent:
            return Extent(buffer, unit, Fraction(k % n, n), Fraction(k % n + 1, n))

        for step in range(2 * n - 2):
            k = (me - step) % n  # the chunk that this rank sends in this step
            waits = () if step == 0 else (100 + step - 1,)
            if step < n - 1:
                own = part(Buffer.INPUT, 0, k)
                sources = (own,) if step == 0 else (part(Buffer.SCRATCH, step - 1, k), own)
            elif step == n - 1:
                sources, waits = (part(Buffer.OUTPUT, 0, k),), (200,)
            else:
                sources = (part(Buffer.OUTPUT, 0, k),)
            sends.append(
                Operation(step, OperationKind.SEND, step, sources, None, step * n + me, after, 0, step, after=waits)
            )
            k = (me - 1 - step) % n
            target = part(Buffer.SCRATCH, step, k) if step < n - 1 else part(Buffer.OUTPUT, 0, k)
            # In place, the landing of step n - 1 + i overwrites an input that was sent in step i.
            waits = (step - n + 1, step - n + 2) if step >= n - 1 else ()
            receives.append(
                Operation(
                    100 + step,
                    OperationKind.RECEIVE,
                    step,
                    (),
                    target,
                    step * n + (me - 1) % n,
                    before,
                    0,
                    step,
                    after=waits,
                )
            )
        k = (me + 1) % n
        local.append(
            Operation(
                200,
                OperationKind.COMPUTE,
                n - 2,
                (part(Buffer.SCRATCH, n - 2, k), part(Buffer.INPUT, 0, k)),
                part(Buffer.OUTPUT, 0, k),
                final=True,
                after=(100 + n - 2,),
            )
        )
        blocks = (ProgramBlock(-1, tuple(local)), ProgramBlock(me, tuple(sends)), ProgramBlock(-1, tuple(receives)))
        ranks.append(RankProgram(c.ranks[me], 1, 1, n - 1, blocks))
    return Program(c.name, c.in_place, c.positions, c.contributors, tuple(ranks))


@dataclass(frozen=True)
class Made:
    """A variant to write: its name, program and size range."""

    id: str
    program: Program
    min_bytes: int | None = 0
    max_bytes: int | None = None


def with_variants(c: ManifestCollective, made: Sequence[Made]) -> ManifestCollective:
    """The collective with its variants entered."""
    return replace(
        c,
        variants=tuple(
            ManifestVariant(
                id=m.id,
                folder=f"{c.name}/{m.id}",
                strategy="by_hand",
                chunks=1,
                steps=1,
                rounds=1,
                min_bytes=m.min_bytes,
                max_bytes=m.max_bytes,
                longest_chunk=Fraction(1),
                slot_depth=2,
                channels=1,
                slots=tuple(r.slots for r in m.program.ranks),
                blocks=(),
                counters=(),
                kernel_sha256="",
                kernel_digest="",
            )
            for m in made
        ),
    )


def write_artefact(
    folder: Path,
    collectives: Sequence[tuple[ManifestCollective, Sequence[Made]]],
    types: tuple[str, ...] = (),
    ops: tuple[str, ...] = (),
) -> Path:
    """Write manifest.json and the programs."""
    entered = tuple(with_variants(c, made) for c, made in collectives)
    manifest = Manifest(
        name=folder.name,
        compiler="acclc 0.0.0",
        reproducible=True,
        topologies=tuple(
            ManifestTopology("full", tuple(f"g[{r}]" for r in c.ranks), ("gpu",) * len(c.ranks), ()) for c in entered
        ),
        collectives=entered,
        types=types,
        ops=ops,
    )
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(manifest_bytes(manifest))
    for c, made in collectives:
        for m in made:
            place = folder / c.name / m.id
            place.mkdir(parents=True)
            (place / "program.json").write_bytes(program_bytes(m.program))
    return folder


def direct_artefact(folder: Path, *collectives: ManifestCollective) -> Path:
    """An artefact with one direct variant a collective, in two chunks."""
    return write_artefact(folder, [(c, [Made("direct", direct_program(c, 2))]) for c in collectives])
