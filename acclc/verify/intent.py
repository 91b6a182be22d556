"""What a schedule means for the levels below it: what each transfer carries and what each place ends up with."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from acclc.ir.problem import Problem
from acclc.ir.schedule import Schedule
from acclc.verify.expressions import Expression, ExpressionTable
from acclc.verify.findings import Collector
from acclc.verify.schedule import output_values, transfer_values

Part = tuple[Fraction, Fraction]
"""[begin, end) of a unit, as fractions of the count."""


@dataclass(frozen=True, slots=True)
class Move:
    """A transfer as the levels below see it. ``value`` has no ``final`` marks."""

    src: int
    dst: int
    step: int
    link: int
    """The first of its path."""
    part: Part
    value: Expression
    shard: int


@dataclass(frozen=True, slots=True)
class Intent:
    """All transfers by id, and the value (without ``final`` marks) of each (rank, output unit, part)."""

    moves: dict[int, Move] = field(default_factory=dict)
    outputs: dict[tuple[int, int, Part], Expression] = field(default_factory=dict)


def intent_of(problem: Problem, schedule: Schedule, table: ExpressionTable) -> Intent | None:
    """Return the intent of a schedule, or None where its values are not sound (check it first)."""
    found = Collector()
    values = transfer_values(problem, schedule, table, found)
    results = output_values(problem, schedule, table, values, found)
    if found.failed:
        return None
    intent = Intent()
    for t, value in zip(schedule.transfers, values, strict=True):
        chunk = schedule.chunks[t.chunk]
        assert value is not None
        intent.moves[t.id] = Move(t.src, t.dst, t.step, t.path[0], (chunk.begin, chunk.end), value, chunk.shard)
    for output, value in zip(schedule.outputs, results, strict=True):
        chunk = schedule.chunks[output.chunk]
        assert value is not None
        for place in problem.shards[chunk.shard].outputs:
            if place.rank == output.rank:
                intent.outputs[(place.rank, place.unit, (chunk.begin, chunk.end))] = value
    return intent
