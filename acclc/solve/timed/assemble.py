"""Timed moves become a schedule: in as few steps as their order on every link allows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from acclc.ir.problem import Problem, Rank
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks
from acclc.solve.timed.clock import Move
from acclc.solve.timed.machine import TimedMachine
from acclc.solve.timed.routes import Item, Tree

STRATEGY = "timed"


def schedule_of(
    problem: Problem,
    machine: TimedMachine,
    chunks: int,
    items: Sequence[Item],
    trees: Sequence[Tree],
    moves: Sequence[Move],
) -> Schedule:
    """Return the schedule; of a machine seen backward, the reduction that the copies are when read backward."""
    order = _in_time(machine, moves)
    steps = _steps(machine, moves, order)
    order.sort(key=lambda n: steps[n])
    ids = {n: TransferId(position) for position, n in enumerate(order)}
    position = {s.id: i for i, s in enumerate(problem.shards)}
    operands = _operands(machine, problem, items, moves, ids)
    transfers: list[Transfer] = []
    for n in order:
        item, edge = items[moves[n].item], trees[moves[n].item][moves[n].hop].way.edge
        chunk = ChunkId(position[item.shard] * chunks + item.index)
        transfers.append(Transfer(ids[n], chunk, edge.src, edge.dst, edge.path, steps[n], operands[n]))
    return Schedule(
        equal_chunks(tuple(s.id for s in problem.shards), chunks),
        tuple(transfers),
        _outputs(machine, problem, chunks, transfers),
        _rounds(machine, transfers),
        STRATEGY,
    )


def _in_time(machine: TimedMachine, moves: Sequence[Move]) -> list[int]:
    """The moves in order of their start; read backward, a move starts when its last byte arrived."""
    if not machine.reverse:
        return sorted(range(len(moves)), key=lambda n: (moves[n].start, n))
    return sorted(range(len(moves)), key=lambda n: (-moves[n].arrival, n))


def _needed(machine: TimedMachine, moves: Sequence[Move], n: int) -> Sequence[int]:
    """The moves whose arrival a move waits for."""
    if machine.reverse:
        return moves[n].after
    return (moves[n].before,) if moves[n].before >= 0 else ()


def _steps(machine: TimedMachine, moves: Sequence[Move], order: Sequence[int]) -> list[int]:
    """The first step of each move: behind what it waits for, and not before what its first link sends before it."""
    steps = [0] * len(moves)
    lanes: dict[int, int] = {}
    for n in order:
        lane = moves[n].first_link
        steps[n] = max([lanes.get(lane, 0), *(steps[k] + 1 for k in _needed(machine, moves, n))])
        lanes[lane] = steps[n]
    return steps


def _operands(
    machine: TimedMachine,
    problem: Problem,
    items: Sequence[Item],
    moves: Sequence[Move],
    ids: dict[int, TransferId],
) -> list[tuple[TransferId, ...]]:
    """What every move sends: what it waited for, and in a reduction the sender's own contribution first."""
    sources = {s.id: frozenset(s.sources) for s in problem.shards}
    found: list[tuple[TransferId, ...]] = []
    for n, move in enumerate(moves):
        arrived = tuple(sorted(ids[k] for k in _needed(machine, moves, n)))
        own = not arrived or (machine.reverse and move.src in sources[items[move.item].shard])
        found.append((OWN, *arrived) if own else arrived)
    return found


def _outputs(machine: TimedMachine, problem: Problem, chunks: int, transfers: Sequence[Transfer]) -> tuple[Output, ...]:
    arrived: dict[tuple[Rank, ChunkId], list[TransferId]] = {}
    for t in transfers:
        arrived.setdefault((t.dst, t.chunk), []).append(t.id)
    outputs: list[Output] = []
    for number, shard in enumerate(problem.shards):
        for rank in dict.fromkeys(shard.targets):
            for chunk in map(ChunkId, range(number * chunks, (number + 1) * chunks)):
                parts = arrived.get((rank, chunk), [])
                own = rank in shard.sources and (machine.reverse or not parts)
                outputs.append(Output(rank, chunk, (OWN, *parts) if own else tuple(parts)))
    return tuple(sorted(outputs, key=lambda o: (o.rank, o.chunk)))


def _rounds(machine: TimedMachine, transfers: Sequence[Transfer]) -> tuple[int, ...]:
    """The rounds of every step: what its fullest link or budget needs."""
    network = machine.network
    loads: list[dict[int, int]] = [{} for _ in range(transfers[-1].step + 1)] if transfers else []
    for t in transfers:
        load = loads[t.step]
        for row, times in network.by_path[t.path].rows:
            load[row] = load.get(row, 0) + times
    return tuple(max(ceil(n / network.capacity[row]) for row, n in load.items()) for load in loads)
