"""A schedule as text for the terminal: who sends what to whom in which step, where that fits on a screen.

Of a stepped schedule each row is a way (source, destination, and what lies between) and each column a step; of a
pipelined one each row is a chunk's tree or path and each column a level. Larger schedules are summed up by step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from textwrap import wrap

from acclc.ir.problem import LinkId, Problem
from acclc.ir.schedule import Chunk, Schedule, Transfer
from acclc.view.figures import step_loads, step_seconds
from acclc.view.words import limit_words, plural

MOST_ROWS = 64
"""Larger tables are summed up: nobody reads them."""
LEAST_CELL = 14
WIDTH = 100
_NUMBERED = re.compile(r"(\w+)\[(\d+)\]")


def step_table(problem: Problem, schedule: Schedule, *, width: int = WIDTH) -> list[str]:
    """Return the lines: the table, what its cells mean, how full the links are in each step, and what limits it.

    ``width`` is that of the terminal in characters; cells that are too long go on in the next line.
    """
    if not schedule.transfers:
        return ["nothing moves"]
    rows = _trees(problem, schedule) if schedule.pipelined else _ways(problem, schedule)
    word = "level" if schedule.pipelined else "step"
    lines = []
    if len(rows) <= MOST_ROWS:
        head = [f"{word} {n + 1}" for n in range(schedule.steps)]
        first = "chunk" if schedule.pipelined else "from -> to"
        lines += [*_grid([[first, *head], *rows], width), "", *_legend(problem, schedule), ""]
    else:
        what = "chunks, each with a tree or path" if schedule.pipelined else "ways"
        lines += [f"{len(rows)} {what}, {len(schedule.transfers)} transfers: too many to list; in sum", ""]
    lines += _fullness(problem, schedule, word)
    return [*lines, "", limit_words(problem, schedule)]


def _ways(problem: Problem, schedule: Schedule) -> list[list[str]]:
    """A row a way that is taken: what moves along it in each step."""
    name = _namer(problem)
    moved: dict[tuple[int, int, tuple[LinkId, ...]], list[list[Transfer]]] = {}
    for t in schedule.transfers:
        cells = moved.setdefault((t.src, t.dst, t.path), [[] for _ in range(schedule.steps)])
        cells[t.step].append(t)
    links = problem.topology.links
    rows = []
    for (src, _, path), cells in sorted(moved.items()):
        way = " -> ".join(name(n) for n in (src, *(links[x].dst for x in path)))
        rows.append([way, *(_chunks(problem, schedule, cell) for cell in cells)])
    return rows


def _trees(problem: Problem, schedule: Schedule) -> list[list[str]]:
    """A row a chunk: who sends it to whom on each level."""
    name = _namer(problem)
    moved: dict[int, list[list[str]]] = {}
    for t in schedule.transfers:
        cells = moved.setdefault(t.chunk, [[] for _ in range(schedule.steps)])
        sign = "+" if len(t.operands) > 1 else ""
        cells[t.step].append(f"{name(t.src)}>{sign}{name(t.dst)}")
    label = _labels(problem, schedule)
    return [
        [f"{label(schedule.chunks[chunk])}  {schedule.chunks[chunk].weight}", *(" ".join(cell) for cell in cells)]
        for chunk, cells in sorted(moved.items())
    ]


def _namer(problem: Problem) -> Callable[[int], str]:
    """How nodes are called: by number alone, where all that are GPUs have one name with one index."""
    nodes = problem.topology.nodes
    found = [_NUMBERED.fullmatch(nodes[rank].name) for rank in problem.topology.ranks]
    if len({m[1] for m in found if m}) != 1 or not all(found):
        return lambda node: nodes[node].name
    ranks = frozenset(problem.topology.ranks)
    return lambda node: nodes[node].name.partition("[")[2][:-1] if node in ranks else nodes[node].name


def _labels(problem: Problem, schedule: Schedule) -> Callable[[Chunk], str]:
    """How chunks are called: ``shard.number``, without the part that is the same for all."""
    shards = [_shard_label(s.name) for s in problem.shards]
    if len(set(shards)) < len(shards):
        shards = [str(n) for n in range(len(shards))]
    one = schedule.chunks_per_shard == 1
    if len(shards) == 1:
        return lambda chunk: str(chunk.index)
    return lambda chunk: shards[chunk.shard] if one else f"{shards[chunk.shard]}.{chunk.index}"


def _shard_label(name: str) -> str:
    return _NUMBERED.sub(r"\2", name).replace(" -> ", ">")


def _chunks(problem: Problem, schedule: Schedule, transfers: Sequence[Transfer]) -> str:
    """``3.0-2 5.1``: chunks by shard, runs of numbers drawn together; ``+`` where a sum is sent."""
    label = _labels(problem, schedule)
    pieces: list[str] = []
    ordered = sorted(transfers, key=lambda t: (len(t.operands) > 1, t.chunk))
    for run in _runs(ordered, schedule):
        first, last = (schedule.chunks[t.chunk] for t in (run[0], run[-1]))
        sign = "+" if len(run[0].operands) > 1 else ""
        pieces.append(f"{sign}{label(first)}" + (f"-{last.index}" if len(run) > 1 else ""))
    return " ".join(pieces)


def _runs(transfers: Iterable[Transfer], schedule: Schedule) -> Iterator[list[Transfer]]:
    """Chunks of one shard that follow each other."""
    run: list[Transfer] = []
    for t in transfers:
        if run:
            before, here = schedule.chunks[run[-1].chunk], schedule.chunks[t.chunk]
            alike = (len(run[-1].operands) > 1) == (len(t.operands) > 1)
            if not (alike and here.shard == before.shard and here.index == before.index + 1):
                yield run
                run = []
        run.append(t)
    if run:
        yield run


def _grid(rows: list[list[str]], width: int) -> list[str]:
    """Set cells in columns as wide as they need to be; the others share what the terminal leaves."""
    columns = len(rows[0]) - 1
    first = max(len(row[0]) for row in rows)
    room = max(LEAST_CELL, (width - first) // columns - 2)
    lines = []
    wide = [min(room, max(len(row[n + 1]) for row in rows)) for n in range(columns)]
    for row in rows:
        cells = [wrap(cell, wide[n], break_long_words=False) or ["."] for n, cell in enumerate(row[1:])]
        for line in range(max(len(c) for c in cells)):
            parts = [f"{row[0] if line == 0 else '':{first}}"]
            parts += [f"{c[line] if line < len(c) else '':{wide[n]}}" for n, c in enumerate(cells)]
            lines.append("  ".join(parts).rstrip())
    rule = "  ".join("-" * n for n in (first, *wide))
    return [lines[0], rule, *lines[1:]]


def _legend(problem: Problem, schedule: Schedule) -> list[str]:
    shards, label = problem.shards, _labels(problem, schedule)
    sums = any(len(t.operands) > 1 for t in schedule.transfers)
    last = next(c for c in reversed(schedule.chunks))
    part = f"{label(last)} is chunk {last.index}, {last.begin} to {last.end}, of the shard {shards[last.shard].name}"
    if len(shards) > 1 and _shard_label(shards[last.shard].name) not in label(last):
        part += f", number {last.shard}"
    if schedule.pipelined:
        return [f"{part}; a>b: a sends it to b" + (", a>+b: the sum with its own" if sums else "")]
    return [part + ("; + marks sums" if sums else "")]


def _fullness(problem: Problem, schedule: Schedule, word: str) -> list[str]:
    """How many links each step uses, and how full they are on average."""
    links = problem.topology.links
    lines = []
    seconds = step_seconds(problem, schedule)
    transfers = Counter(t.step for t in schedule.transfers)
    for number, (load, longest) in enumerate(zip(step_loads(problem, schedule), seconds, strict=True)):
        text = f"{word} {number + 1}: "
        if not schedule.pipelined:
            text += f"{plural(schedule.rounds[number], 'round')}, "
        text += f"{plural(transfers[number], 'transfer')} over {len(load)} of {plural(len(links), 'link direction')}"
        if load and longest and not schedule.pipelined:
            busy = sum((w / links[x].capacity for x, w in load.items()), Fraction(0)) / longest / len(load)
            text += f", these {float(100 * busy):.3g} % full"
        lines.append(text)
    return lines
