"""The step table says exactly what the schedule says: read back, it gives the same transfers."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hand_built import problem_of
from view_cases import ring_all_gather, ring_machine, ring_reduce, star_all_gather

from acclc import compile_text
from acclc.ir.problem import Collective, Problem
from acclc.ir.schedule import Schedule
from acclc.view.steps import MOST_ROWS, step_table

Moved = Counter[tuple[int, str, str, str, bool]]
"""(step, source, destination, chunk, whether it is a sum) -> how often."""

COMPILED = compile_text(
    "all_reduce on ring(3) as sums { op sum, goal bandwidth }\n"
    "reduce on ring(4) as collected { root g[0], op sum, goal bandwidth }\n"
    "broadcast on ring(4) as spread { root g[0], goal bandwidth }\n"
    "all_to_all on ring(3) as pairs { goal latency }\n",
    "t",
)
CASES = [
    *(ring_all_gather(4), ring_reduce(4), star_all_gather(4)),
    *((c.problem, v.schedule) for c in COMPILED.collectives for v in c.schedules),
]


def cells(lines: list[str]) -> list[list[str]]:
    """The rows of the table, wrapped lines joined again."""
    rule = lines[1]
    starts = [m.start() for m in re.finditer("-+", rule)]
    rows: list[list[str]] = []
    for line in lines[2 : lines.index("")]:
        parts = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        if parts[0]:
            rows.append(parts)
        else:
            rows[-1] = [f"{x} {y}".strip() for x, y in zip(rows[-1], parts, strict=True)]
    return rows


def single(text: str) -> list[tuple[str, bool]]:
    """``+3.0-2`` -> 3.0, 3.1, 3.2, all sums."""
    body = text.removeprefix("+")
    head, _, last = body.partition("-")
    if not last:
        return [(body, text != body)]
    stem, dot, first = head.rpartition(".")
    return [(f"{stem}{dot}{n}", text != body) for n in range(int(first), int(last) + 1)]


def read_back(lines: list[str], pipelined: bool) -> Moved:
    found: Moved = Counter()
    for head, *steps in cells(lines):
        for step, cell in enumerate(steps):
            for word in () if cell == "." else cell.split():
                if pipelined:
                    chunk = head.split()[0]
                    src, dst = word.split(">")
                    found[step, src, dst.removeprefix("+"), chunk, "+" in dst] += 1
                else:
                    way = head.split(" -> ")
                    for chunk, is_sum in single(word):
                        found[step, way[0], way[-1], chunk, is_sum] += 1
    return found


def said(problem: Problem, schedule: Schedule) -> Moved:
    number = [re.sub(r"\w+\[(\d+)\]", r"\1", s.name).replace(" -> ", ">") for s in problem.shards]
    found: Moved = Counter()
    for t in schedule.transfers:
        chunk = schedule.chunks[t.chunk]
        label = number[chunk.shard] if schedule.chunks_per_shard == 1 else f"{number[chunk.shard]}.{chunk.index}"
        label = str(chunk.index) if len(number) == 1 else label
        src, dst = (re.sub(r"\w+\[(\d+)\]", r"\1", problem.topology.nodes[n].name) for n in (t.src, t.dst))
        found[t.step, src, dst, label, len(t.operands) > 1] += 1
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [40, 100, 400])
def test_the_table_holds_every_transfer_once(case: tuple[Problem, Schedule], width: int) -> None:
    problem, schedule = case
    lines = step_table(problem, schedule, width=width)
    assert read_back(lines, schedule.pipelined) == said(problem, schedule)


def test_steps_and_pipelines_are_both_among_the_cases() -> None:
    assert {schedule.pipelined for _, schedule in CASES} == {True, False}
    assert any(len(t.operands) > 1 for _, s in CASES for t in s.transfers)


def test_a_large_schedule_is_summed_up_by_step() -> None:
    problem, schedule = ring_all_gather(MOST_ROWS + 1)
    lines = step_table(problem, schedule)
    assert lines[0] == f"{MOST_ROWS + 1} ways, {len(schedule.transfers)} transfers: too many to list; in sum"
    assert sum(line.startswith("step ") for line in lines) == schedule.steps
    assert len(lines) < schedule.steps + 10


def test_what_has_nothing_to_move_says_so() -> None:
    problem = problem_of(ring_machine(3), Collective.ALL_GATHER)
    assert step_table(problem, Schedule((), (), (), (), "none")) == ["nothing moves"]
