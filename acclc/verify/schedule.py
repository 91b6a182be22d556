"""Schedule against Problem: everything a schedule claims is recomputed from its transfers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from acclc.ir.problem import Collective, NodeKind, Problem
from acclc.ir.schedule import OWN, Output, Schedule, Transfer
from acclc.verify.expressions import Expression, ExpressionTable
from acclc.verify.findings import Collector, Report
from acclc.verify.names import chunk_name, link_name, node_name, rank_name, shard_name, transfer_name


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """What the transfers themselves say; nothing is taken from the schedule's claims."""

    chunks: int
    """C: chunks a shard."""
    steps: int
    """S."""
    rounds: int
    """R: sum of the steps' rounds; nought if pipelined."""
    rounds_per_chunk: Fraction
    """R / C; if pipelined, the time in rounds that one chunk of a whole shard would take."""
    time_per_shard_byte: Fraction
    """Seconds a byte of shard: sum over steps of the largest link (or budget) load / capacity; if pipelined, the
    largest of the loads in all."""
    algbw: Fraction | None
    """Bytes/s of S as the definitions count it; None where nothing moves."""
    latency: Fraction
    """Seconds: sum over steps of the largest path latency of the step; if pipelined, of the longest chain."""
    steps_used: tuple[int, ...]
    """Steps in which something moves."""
    link_loads: tuple[Fraction, ...]
    """For each link: shards (sum of weights) that pass it in all."""
    unused: tuple[int, ...]
    """Transfers that reach no output."""


def check_schedule(problem: Problem, schedule: Schedule) -> Report[ScheduleFacts]:
    """Check a schedule against its problem and recompute its figures.

    Facts are given when ids, paths and steps are sound, even where other findings remain.
    """
    found = Collector()
    _check_chunks(problem, schedule, found)
    _check_references(problem, schedule, found)
    if found.failed:
        return found.report()
    _check_paths(problem, schedule, found)
    if found.failed:
        return found.report()
    table = ExpressionTable(problem)
    values = transfer_values(problem, schedule, table, found)
    _check_outputs(problem, schedule, table, values, found)
    _check_capacity(problem, schedule, found)
    facts = _facts(problem, schedule)
    _check_limits(problem, facts, found)
    for t in facts.unused:
        name = transfer_name(problem, schedule, schedule.transfers[t])
        found.warning("schedule.unused", name, "reaches no output: it could be left out")
    return found.report(facts)


def _check_chunks(problem: Problem, schedule: Schedule, found: Collector) -> None:
    """The chunks of every shard tile [0, 1) in order, and all shards have as many."""
    parts: dict[int, list[int]] = {s.id: [] for s in problem.shards}
    for position, chunk in enumerate(schedule.chunks):
        if chunk.id != position:
            found.error("schedule.ids", f"chunk {chunk.id}", f"stands at position {position}")
        if chunk.shard not in parts:
            found.error("schedule.ids", f"chunk {chunk.id}", f"belongs to shard {chunk.shard}, which does not exist")
            continue
        parts[chunk.shard].append(position)
    for shard, positions in parts.items():
        name, end = shard_name(problem, shard), Fraction(0)
        for index, position in enumerate(positions):
            chunk = schedule.chunks[position]
            if chunk.index != index or chunk.begin != end or chunk.end <= chunk.begin:
                found.error(
                    "schedule.tiling",
                    name,
                    f"chunk {position} (index {chunk.index}) is [{chunk.begin}, {chunk.end}); "
                    f"expected index {index} and a part that starts at {end}",
                )
            end = chunk.end
        if end != 1:
            found.error("schedule.tiling", name, f"its chunks end at {end}, not at 1")
    if not schedule.pipelined and len({len(p) for p in parts.values()}) > 1:
        found.error("schedule.tiling", "chunks", "shards have different numbers of chunks")


def _check_references(problem: Problem, schedule: Schedule, found: Collector) -> None:
    """Ids are positions and name things that exist; steps are in range and in order."""
    ranks, group = len(problem.topology.ranks), set(problem.group)
    if any(r < 0 for r in schedule.rounds):
        found.error("schedule.rounds", "rounds", f"a step has a negative number of rounds: {schedule.rounds}")
    if schedule.pipelined and schedule.steps > len(schedule.transfers):
        found.error("schedule.steps", "levels", f"{schedule.steps} levels of {len(schedule.transfers)} transfers")
        return
    previous = 0
    for position, t in enumerate(schedule.transfers):
        where = f"transfer {t.id} at position {position}"
        if t.id != position:
            found.error("schedule.ids", where, "id and position differ")
        if not 0 <= t.chunk < len(schedule.chunks):
            found.error("schedule.ids", where, f"chunk {t.chunk} does not exist")
        for rank in (t.src, t.dst):
            if not 0 <= rank < ranks:
                found.error("schedule.ids", where, f"rank {rank} does not exist")
            elif rank not in group:
                message = f"{rank_name(problem, rank)} is in no group: it runs nothing"
                found.error("schedule.group", where, message)
        if not 0 <= t.step < schedule.steps:
            found.error("schedule.steps", where, f"step {t.step} is not within 0..{schedule.steps - 1}")
        if t.step < previous:
            found.error("schedule.steps", where, f"step {t.step} comes after a transfer of step {previous}")
        previous = max(previous, t.step)
        _check_operand_ids(schedule, t.operands, where, found)
        for link in t.path:
            if not 0 <= link < len(problem.topology.links):
                found.error("schedule.ids", where, f"link {link} does not exist")
    for position, output in enumerate(schedule.outputs):
        where = f"output {position}"
        if not 0 <= output.rank < ranks:
            found.error("schedule.ids", where, f"rank {output.rank} does not exist")
        if not 0 <= output.chunk < len(schedule.chunks):
            found.error("schedule.ids", where, f"chunk {output.chunk} does not exist")
        _check_operand_ids(schedule, output.operands, where, found)


def _check_operand_ids(schedule: Schedule, operands: tuple[int, ...], where: str, found: Collector) -> None:
    if not operands:
        found.error("schedule.operands", where, "has no operands")
    for operand in operands:
        if operand != OWN and not 0 <= operand < len(schedule.transfers):
            found.error("schedule.ids", where, f"operand {operand} is no transfer")


def _check_paths(problem: Problem, schedule: Schedule, found: Collector) -> None:
    """Each path is a chain of links from src to dst whose inner nodes are no GPUs, none visited twice."""
    topology = problem.topology
    for t in schedule.transfers:
        where = transfer_name(problem, schedule, t)
        at: int = t.src
        seen = {at}
        for position, link_id in enumerate(t.path):
            link = topology.links[link_id]
            if link.src != at:
                found.error(
                    "schedule.path", where, f"{link_name(problem, link_id)} does not start at {node_name(problem, at)}"
                )
                break
            at = link.dst
            if at in seen:
                found.error("schedule.path", where, f"passes {node_name(problem, at)} twice")
                break
            seen.add(at)
            inner = position < len(t.path) - 1
            if inner and topology.nodes[at].kind is NodeKind.GPU:
                found.error(
                    "schedule.path",
                    where,
                    f"passes through the GPU {node_name(problem, at)}; that takes two transfers in two steps",
                )
        else:
            if at != t.dst or not t.path:
                found.error(
                    "schedule.path",
                    where,
                    f"its path ends at {node_name(problem, at)}, not {node_name(problem, t.dst)}",
                )


def transfer_values(
    problem: Problem, schedule: Schedule, table: ExpressionTable, found: Collector
) -> list[Expression | None]:
    """Return what each transfer carries, in expressions without ``final`` marks; None where it has no value."""
    values: list[Expression | None] = []
    for t in schedule.transfers:
        where = transfer_name(problem, schedule, t)
        values.append(_value(problem, schedule, t, where, table, values, found))
    return values


def output_values(
    problem: Problem,
    schedule: Schedule,
    table: ExpressionTable,
    values: list[Expression | None],
    found: Collector,
) -> list[Expression | None]:
    """Return what each output holds, as :func:`transfer_values`."""
    return [
        _value(problem, schedule, o, _output_name(problem, schedule, o), table, values, found) for o in schedule.outputs
    ]


def _output_name(problem: Problem, schedule: Schedule, output: Output) -> str:
    return f"output of {chunk_name(problem, schedule.chunks[output.chunk])} at {rank_name(problem, output.rank)}"


def _value(
    problem: Problem,
    schedule: Schedule,
    user: Transfer | Output,
    where: str,
    table: ExpressionTable,
    values: list[Expression | None],
    found: Collector,
) -> Expression | None:
    """Resolve the operands of a transfer (at its src, before its step) or an output (at the end)."""
    rank, step = (user.src, user.step) if isinstance(user, Transfer) else (user.rank, schedule.steps)
    parts: list[Expression] = []
    for operand in user.operands:
        value: Expression | None
        if operand == OWN:
            value = table.own(schedule.chunks[user.chunk].shard, rank)
            if value is None:
                found.error("schedule.holder", where, f"{rank_name(problem, rank)} has no such input of its own")
        else:
            other = schedule.transfers[operand]
            value = values[operand] if operand < len(values) else None
            if other.chunk != user.chunk or other.dst != rank:
                name = transfer_name(problem, schedule, other)
                found.error("schedule.operands", where, f"operand {name} brings another chunk or goes elsewhere")
                return None
            if other.step >= step:
                found.error(
                    "schedule.order", where, f"operand {operand} arrives in step {other.step}, not before {step}"
                )
                return None
        if value is None:
            return None
        parts.append(value)
    objection = _operand_objection(problem, table, parts)
    if objection is not None:
        found.error("schedule.reduction", where, objection)
        return None
    return table.reduce(tuple(parts))


def _operand_objection(problem: Problem, table: ExpressionTable, parts: list[Expression]) -> str | None:
    record = problem.shards[table.shard(parts[0])]
    if len(parts) > 1 and not record.reduced:
        return f"reduces {len(parts)} operands of {shard_name(problem, record.id)}, which is not reduced"
    for i, part in enumerate(parts):
        for other in parts[:i]:
            if table.overlap(part, other):
                return f"reduces a contribution twice: {table.describe(other)} and {table.describe(part)}"
    return None


def _check_outputs(
    problem: Problem,
    schedule: Schedule,
    table: ExpressionTable,
    values: list[Expression | None],
    found: Collector,
) -> None:
    """One complete output for each place that needs it, none besides, and one tree a chunk."""
    needed: dict[tuple[int, int], int] = {}
    for chunk in schedule.chunks:
        for place in problem.shards[chunk.shard].outputs:
            key = (int(place.rank), int(chunk.id))
            needed[key] = needed.get(key, 0) + 1
    trees: dict[int, tuple[Expression, str]] = {}
    for output, value in zip(schedule.outputs, output_values(problem, schedule, table, values, found), strict=True):
        where = _output_name(problem, schedule, output)
        key = (int(output.rank), int(output.chunk))
        left = needed.get(key, 0) - 1
        if left < 0:
            found.error("schedule.spurious", where, "is not needed (again)")
        needed[key] = left
        if value is None:
            continue
        if not table.complete(value):
            found.error("schedule.incomplete", where, f"lacks the contribution of {table.missing(value)}")
        first = trees.setdefault(output.chunk, (value, where))
        if first[0] != value:
            found.error("schedule.tree", where, f"is reduced in another order than the {first[1]}: bits would differ")
    for (rank, position), left in needed.items():
        if left > 0:
            name = chunk_name(problem, schedule.chunks[position])
            found.error("schedule.missing", name, f"{rank_name(problem, rank)} needs it; there is no output")


def _check_limits(problem: Problem, facts: ScheduleFacts, found: Collector) -> None:
    """Warn where the goal's limits are exceeded: a fallback may do so, and whoever shows it must say so."""
    goal = problem.goal
    for name, value, limit in (
        ("chunks", facts.chunks, goal.chunks),
        ("steps", facts.steps, goal.steps),
        ("rounds", facts.rounds, goal.rounds),
    ):
        if limit is not None and value > limit:
            found.warning("schedule.limit", problem.name, f"{value} {name}; the goal allows {limit}")


Loads = list[dict[int, Fraction]]


def _loads(problem: Problem, schedule: Schedule) -> tuple[Loads, Loads]:
    """Return, for each step, the load (sum of weights) of each link and of each budget."""
    shared: dict[int, list[int]] = {}
    for number, budget in enumerate(problem.topology.budgets):
        for link in dict.fromkeys(budget.links):
            shared.setdefault(link, []).append(number)
    links: Loads = [{} for _ in range(schedule.steps)]
    budgets: Loads = [{} for _ in range(schedule.steps)]
    for t in schedule.transfers:
        weight = schedule.chunks[t.chunk].weight
        for link in t.path:
            links[t.step][link] = links[t.step].get(link, Fraction(0)) + weight
            for number in shared.get(link, ()):
                budgets[t.step][number] = budgets[t.step].get(number, Fraction(0)) + weight
    return links, budgets


def _check_capacity(problem: Problem, schedule: Schedule, found: Collector) -> None:
    """In step s a link of c units carries at most c * rounds[s] chunks, a chunk being 1/C of a shard.

    What is pipelined promises no rounds: its loads are its time.
    """
    unit = problem.topology.unit
    if unit is None:
        return
    links, budgets = _loads(problem, schedule)
    per_shard = schedule.chunks_per_shard
    for step, rounds in enumerate(schedule.rounds):
        rows = [
            (link_name(problem, k), load, problem.topology.links[k].capacity) for k, load in sorted(links[step].items())
        ]
        rows += [
            (f"budget {problem.topology.budgets[k].name!r}", load, problem.topology.budgets[k].capacity)
            for k, load in sorted(budgets[step].items())
        ]
        for name, load, capacity in rows:
            chunks, allowed = load * per_shard, capacity / unit * rounds
            if chunks > allowed:
                found.error(
                    "schedule.capacity",
                    f"{name}, step {step}",
                    f"carries {chunks} chunks; {capacity / unit} lanes in {rounds} rounds carry {allowed}",
                )


def _facts(problem: Problem, schedule: Schedule) -> ScheduleFacts:
    links, budgets = _loads(problem, schedule)
    topology = problem.topology
    if schedule.pipelined:
        seconds = _longest(problem, _summed(links), _summed(budgets))
        latency = _chain_latency(problem, schedule)
    else:
        seconds = sum(map(partial(_longest, problem), links, budgets), Fraction(0))
        latency = _step_latency(problem, schedule)
    chunks, rounds = schedule.chunks_per_shard, sum(schedule.rounds)
    per_chunk = Fraction(rounds, chunks) if chunks else Fraction(0)
    if schedule.pipelined:
        per_chunk = seconds * (topology.unit or 0)
    return ScheduleFacts(
        chunks=chunks,
        steps=schedule.steps,
        rounds=rounds,
        rounds_per_chunk=per_chunk,
        time_per_shard_byte=seconds,
        algbw=size_in_shards(problem) / seconds if seconds else None,
        latency=latency,
        steps_used=tuple(s for s in range(schedule.steps) if links[s]),
        link_loads=tuple(
            sum((step.get(link.id, Fraction(0)) for step in links), Fraction(0)) for link in topology.links
        ),
        unused=_unused(schedule),
    )


def _summed(loads: Loads) -> dict[int, Fraction]:
    total: dict[int, Fraction] = {}
    for step in loads:
        for key, load in step.items():
            total[key] = total.get(key, Fraction(0)) + load
    return total


def _longest(problem: Problem, links: dict[int, Fraction], budgets: dict[int, Fraction]) -> Fraction:
    """Seconds a byte of shard that the fullest of these links and budgets takes."""
    topology = problem.topology
    times = [load / topology.links[k].capacity for k, load in links.items()]
    times += [load / topology.budgets[k].capacity for k, load in budgets.items()]
    return max(times, default=Fraction(0))


def _path_latency(problem: Problem, transfer: Transfer) -> Fraction:
    return sum((problem.topology.links[k].cls.latency for k in transfer.path), Fraction(0))


def _step_latency(problem: Problem, schedule: Schedule) -> Fraction:
    """The slowest path of each step, summed."""
    slowest = [Fraction(0)] * schedule.steps
    for t in schedule.transfers:
        slowest[t.step] = max(slowest[t.step], _path_latency(problem, t))
    return sum(slowest, Fraction(0))


def _chain_latency(problem: Problem, schedule: Schedule) -> Fraction:
    """The slowest chain of transfers of which each waits for the one before it."""
    arrival: list[Fraction] = []
    for t in schedule.transfers:
        ready = max((arrival[o] for o in t.operands if 0 <= o < len(arrival)), default=Fraction(0))
        arrival.append(ready + _path_latency(problem, t))
    return max(arrival, default=Fraction(0))


def size_in_shards(problem: Problem) -> Fraction:
    """Return S, the size that algbw counts, in shards: the larger buffer, but one pair's for send_recv."""
    if all(d.collective is Collective.SEND_RECV for d in problem.demands):
        return Fraction(1)
    ranks = problem.topology.ranks
    return Fraction(max((max(problem.input_units(r), problem.output_units(r)) for r in ranks), default=0))


def _unused(schedule: Schedule) -> tuple[int, ...]:
    used = [False] * len(schedule.transfers)
    for output in schedule.outputs:
        for operand in output.operands:
            if operand != OWN:
                used[operand] = True
    for t in reversed(schedule.transfers):
        if used[t.id]:
            for operand in t.operands:
                if operand != OWN:
                    used[operand] = True
    return tuple(i for i, flag in enumerate(used) if not flag)


def time_per_shard_byte(problem: Problem, schedule: Schedule) -> Fraction:
    """Return seconds a byte of shard, recomputed from the transfers of a schedule that verifies."""
    return _facts(problem, schedule).time_per_shard_byte
