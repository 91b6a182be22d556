"""Memory as the lower levels use it: places, in-place aliasing, cells, and the rules that every access obeys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from acclc.ir.problem import InPlace, Problem
from acclc.ir.program import Buffer, Extent
from acclc.verify.expressions import Expression, ExpressionTable
from acclc.verify.findings import Collector
from acclc.verify.intent import Intent, Part
from acclc.verify.names import rank_name, shard_name

Location = tuple[int, Buffer, int]
"""(rank, buffer, unit or slot). Under aliasing, an input that is part of the output is named as output."""


def offered_in_place(problem: Problem) -> str:
    """How all demands may run in place: only if they do it in the same way."""
    ways = {d.in_place for d in problem.demands}
    return ways.pop().value if len(ways) == 1 else InPlace.NONE.value


def common_contributors(problem: Problem) -> int:
    """By how many contributions avg divides: 1 if nothing is reduced, 0 if shards differ (avg is then refused)."""
    counts = {len(s.inputs) for s in problem.shards if s.reduced} or {1}
    return counts.pop() if len(counts) == 1 else 0


def check_header(
    problem: Problem,
    level: str,
    in_place: str,
    positions: tuple[int, ...],
    contributors: int,
    ranks: Sequence[int],
    found: Collector,
) -> None:
    """What a Program and a KernelProgram say about the whole: ranks, in place, divisor."""
    group = [int(r) for r in problem.group]
    if list(ranks) != group:  # the order is that of the manifest: by it the runtime passes each rank's memory
        found.error(f"{level}.ranks", "ranks", f"{list(ranks)} are not the problem's group in its order, {group}")
    if in_place != offered_in_place(problem):
        found.error(
            f"{level}.in_place", "in_place", f"says {in_place!r}; the problem says {offered_in_place(problem)!r}"
        )
    if contributors != common_contributors(problem):
        expected = common_contributors(problem)
        found.error(f"{level}.contributors", "contributors", f"says {contributors}; the problem has {expected}")
    if len(positions) != len(ranks):
        found.error(f"{level}.positions", "positions", f"{len(positions)} positions for {len(ranks)} ranks")
        return
    for rank, position in zip(ranks, positions, strict=True):
        for demand in problem.demands:
            group = [int(r) for r in demand.group]
            if rank in group and group.index(rank) != position:
                found.error(
                    f"{level}.positions",
                    rank_name(problem, rank),
                    f"has position {position}; its group rank is {group.index(rank)}",
                )


def shards_at(problem: Problem) -> dict[Location, int]:
    """Return the shard that lies in each unit of the inputs and the outputs."""
    found: dict[Location, int] = {}
    for shard in problem.shards:
        found |= {(int(p.rank), Buffer.INPUT, p.unit): int(shard.id) for p in shard.inputs}
        found |= {(int(p.rank), Buffer.OUTPUT, p.unit): int(shard.id) for p in shard.outputs}
    return found


def check_counts(
    problem: Problem,
    level: str,
    where: str,
    rank: int,
    extents: Iterable[Extent],
    lies: dict[Location, int],
    found: Collector,
) -> None:
    """Where counts vary, an extent's fractions are of the count of the shard that lies there; else of the one count.

    Units of a buffer lie one behind the other, each as long as its shard's count: so they are apart for any counts,
    and parts of equal shard and fractions are equally long. That is all that the other checks need of lengths.
    """
    for extent in extents:
        if not problem.varying:
            expected = -1
        elif extent.buffer is Buffer.SCRATCH:
            expected = extent.shard if 0 <= extent.shard < len(problem.shards) else -1
            if expected == -1:
                found.error(f"{level}.counts", where, f"slot {extent.unit} holds no shard's part: {extent.shard}")
                continue
        else:
            expected = lies.get((rank, extent.buffer, extent.unit), -1)
        if extent.shard != expected:
            place = f"unit {extent.unit} of {extent.buffer.value!r}"
            found.error(f"{level}.counts", where, f"{place} is counted by shard {extent.shard}, not by {expected}")


def check_extents(
    level: str, where: str, units: dict[Buffer, int], extents: Iterable[Extent], found: Collector
) -> None:
    """Extents lie within the buffers of their rank and within a unit."""
    for extent in extents:
        if not 0 <= extent.unit < units[extent.buffer]:
            found.error(
                f"{level}.bounds",
                where,
                f"unit {extent.unit} of {extent.buffer.value!r} is not within 0..{units[extent.buffer] - 1}",
            )
        if not 0 <= extent.begin < extent.end <= 1:
            found.error(f"{level}.bounds", where, f"[{extent.begin}, {extent.end}) is no part of a unit")


def check_parts(level: str, where: str, extents: Sequence[Extent], found: Collector) -> None:
    """All extents of one operation are the same part of their units: only then are they equally long, for any count."""
    parts = {(e.shard, e.begin, e.end) for e in extents}
    if len(parts) > 1:
        text = ", ".join(f"[{b}, {e})" + (f" of shard {s}" if s >= 0 else "") for s, b, e in sorted(parts))
        found.error(f"{level}.extents", where, f"its sources and target are different parts of a unit: {text}")


@dataclass(frozen=True)
class Memory:
    """Where extents lie. ``aliased``: the call is in place."""

    problem: Problem
    in_place: str
    aliased: bool
    position: dict[int, int]
    output_units: dict[int, int]

    @staticmethod
    def of(
        problem: Problem, in_place: str, aliased: bool, ranks: Sequence[tuple[int, int]], positions: Sequence[int]
    ) -> Memory:
        """``ranks``: (rank, output units), beside their ``positions``."""
        position = {rank: p for (rank, _), p in zip(ranks, positions, strict=True)}
        return Memory(problem, in_place, aliased, position, dict(ranks))

    def location(self, rank: int, extent: Extent) -> Location:
        """Name the memory of an extent, the same for both names of aliased memory."""
        unit = extent.unit
        if not self.aliased or extent.buffer is not Buffer.INPUT:
            return rank, extent.buffer, unit
        if self.in_place == InPlace.INPUT_IN_OUTPUT.value:
            unit += self.position[rank]
        elif self.in_place == InPlace.OUTPUT_IN_INPUT.value:
            unit -= self.position[rank]
        if 0 <= unit < self.output_units[rank]:
            return rank, Buffer.OUTPUT, unit
        return rank, Buffer.INPUT, extent.unit

    def initial(self, table: ExpressionTable) -> dict[Location, Expression]:
        """Return what lies in the inputs at the start of a call."""
        found: dict[Location, Expression] = {}
        for shard in self.problem.shards:
            for place in shard.inputs:
                value = table.own(shard.id, place.rank)
                assert value is not None
                at = self.location(place.rank, Extent(Buffer.INPUT, place.unit, Fraction(0), Fraction(1)))
                found[at] = value
        return found

    def is_no_op(self, rank: int, sources: Sequence[Extent], target_rank: int, target: Extent, final: bool) -> bool:
        """Whether a put copies a place onto itself (an in-place call's own part): nothing is accessed."""
        if len(sources) != 1 or final or rank != target_rank:
            return False
        return self.location(rank, sources[0]) == self.location(target_rank, target)


@dataclass(slots=True)
class Cells:
    """Numbers the (location, part) pairs that are accessed, and finds parts that overlap without being equal.

    Slices of two parts line up only if the parts are equal, so an overlap that one side writes is refused. A
    scratch slot is one cell whatever it holds.
    """

    level: str
    problem: Problem
    index: dict[tuple[Location, Part | None], int] = field(default_factory=dict)
    keys: list[tuple[Location, Part | None]] = field(default_factory=list)
    written: set[int] = field(default_factory=set)

    def cell(self, location: Location, extent: Extent, write: bool = False) -> int:
        """Return the number of the cell; equal for equal memory."""
        key = (location, None if location[1] is Buffer.SCRATCH else (extent.begin, extent.end))
        number = self.index.setdefault(key, len(self.keys))
        if number == len(self.keys):
            self.keys.append(key)
        if write:
            self.written.add(number)
        return number

    def check_overlaps(self, found: Collector) -> None:
        """Note each pair of unequal parts of one place that overlap, one of them written."""
        by_location: dict[Location, list[tuple[Part, bool]]] = {}
        for number, (location, part) in enumerate(self.keys):
            if part is not None:
                by_location.setdefault(location, []).append((part, number in self.written))
        for location, parts in by_location.items():
            if any(written for _, written in parts):
                self._check_location(location, sorted(parts), found)

    def _check_location(self, location: Location, parts: list[tuple[Part, bool]], found: Collector) -> None:
        for i, (part, written) in enumerate(parts):
            for other, also in parts[i + 1 :]:
                if other[0] >= part[1]:
                    break
                if written or also:
                    found.error(
                        f"{self.level}.overlap",
                        location_name(self.problem, location),
                        f"the parts [{part[0]}, {part[1]}) and [{other[0]}, {other[1]}) overlap without being equal",
                    )


def location_name(problem: Problem, location: Location) -> str:
    """Return e.g. ``unit 2 of the output of rank 1 (g[1])``."""
    rank, buffer, unit = location
    names = {Buffer.INPUT: "unit {} of the input", Buffer.OUTPUT: "unit {} of the output", Buffer.SCRATCH: "slot {}"}
    return f"{names[buffer].format(unit)} of {rank_name(problem, rank)}"


def check_effect(
    level: str,
    problem: Problem,
    table: ExpressionTable,
    intent: Intent,
    cells: Cells,
    values: dict[int, Expression | None],
    when: str,
    found: Collector,
) -> None:
    """Compare what the written output cells hold at the end with the definition and with the schedule.

    ``values``: for each cell of :class:`Cells` that was written, what it holds.
    """
    needed = {(int(p.rank), p.unit): int(s.id) for s in problem.shards for p in s.outputs}
    covered: dict[tuple[int, int], list[Part]] = {}
    trees: dict[tuple[int, Part], tuple[Expression, str]] = {}
    for cell in sorted(values):
        location, part = cells.keys[cell]
        rank, buffer, unit = location
        if buffer is not Buffer.OUTPUT or part is None:
            continue
        where = f"{location_name(problem, location)}{when}"
        shard = needed.get((rank, unit))
        if shard is None:
            found.error(f"{level}.spurious", where, "is written, but nothing is needed there")
            continue
        covered.setdefault((rank, unit), []).append(part)
        value = values[cell]
        objection = _value_objection(problem, table, shard, value)
        if objection is not None or value is None:
            found.error(f"{level}.effect", where, objection or "holds no value")
            continue
        first = trees.setdefault((shard, part), (value, where))
        if first[0] != value:
            found.error(f"{level}.tree", where, f"is reduced in another order than {first[1]}: bits would differ")
        if intent.outputs.get((rank, unit, part)) != table.plain(value):
            found.error(f"{level}.tree", where, f"[{part[0]}, {part[1]}) is not reduced as the schedule says")
    for (rank, unit), shard in needed.items():
        end = Fraction(0)
        for part in sorted(covered.get((rank, unit), [])):
            end = part[1] if part[0] == end else end
        if end != 1:
            place = location_name(problem, (rank, Buffer.OUTPUT, unit))
            name = shard_name(problem, shard)
            found.error(f"{level}.missing", f"{place}{when}", f"{name} is needed there but not written beyond {end}")


def _value_objection(problem: Problem, table: ExpressionTable, shard: int, value: Expression | None) -> str | None:
    if value is None:
        return "holds what nobody wrote"
    if table.shard(value) != shard:
        return f"holds {table.describe(value)} instead of {shard_name(problem, shard)}"
    if not table.complete(value):
        return f"lacks the contribution of {table.missing(value)}"
    record = problem.shards[shard]
    if record.reduced and len(record.inputs) > 1 and not table.finished(value):
        return "was never marked final: avg would not divide"
    return None
