"""What an algorithm of MSCCL does: messages match, all ends, no race, and the result is the collective's."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from acclc.ir.msccl import MscclAlgorithm, Reference
from acclc.verify.chunk_layout import KNOWN, ROOTED, Cell, Layout, cell_name
from acclc.verify.clocks import Access, AccessHistory, Vector
from acclc.verify.findings import Collector, Report
from acclc.verify.msccl.graph import FIFO, Graph, build, progress
from acclc.verify.msccl.rules import check_form
from acclc.verify.sums import Contributions, Sums, Value


@dataclass(frozen=True, slots=True)
class AlgorithmFacts:
    """Recomputed. ``root`` is the rank that a rooted collective is for; the file does not say it."""

    messages: int
    events: int
    blocks: int
    """Of the rank that has most: all of them must be resident at once."""
    steps: int
    """Of the longest block."""
    root: int | None
    modes: tuple[str, ...]
    """``in place``, ``out of place``: those it is for."""


def check_algorithm(algorithm: MscclAlgorithm) -> Report[AlgorithmFacts]:
    """Check an algorithm by its meaning; the limits of engines are :func:`acclc.verify.msccl.check_limits`.

    Shows, for every size and every interleaving: messages match one to one; with the FIFO of its protocol nothing
    waits for ever; conflicting accesses are ordered; every output is the collective's, each contribution once.
    """
    found = Collector()
    check_form(algorithm, found)
    if found.failed:
        return found.report()
    graph = build(algorithm, found)
    if found.failed:
        return found.report()
    order = graph.order()
    if len(order) < len(graph.events):
        found.error("msccl.deadlock", "algorithm", graph.cycle(order))
        return found.report()
    for whole in (True, False):
        circle = progress(graph, FIFO[algorithm.protocol], whole)
        if circle is not None:
            size = "any size" if whole else "large sizes, at which messages of several chunks are cut"
            found.error("msccl.deadlock", f"{algorithm.protocol}, {size}", circle)
            return found.report()
    modes = [m for m, said in ((True, algorithm.in_place), (False, algorithm.out_of_place)) if said]
    if not modes:
        found.error("msccl.modes", "algorithm", "is for calls neither in place nor out of place: it is never used")
        return found.report()
    root = _execute(algorithm, graph, order, modes, found)
    return found.report(_facts(algorithm, graph, root, modes))


def _facts(algorithm: MscclAlgorithm, graph: Graph, root: int, modes: list[bool]) -> AlgorithmFacts:
    return AlgorithmFacts(
        messages=sum(map(len, graph.sends.values())),
        events=len(graph.events),
        blocks=max((len(g.blocks) for g in algorithm.gpus), default=0),
        steps=max((len(b.steps) for g in algorithm.gpus for b in g.blocks), default=0),
        root=root if algorithm.collective in ROOTED else None,
        modes=tuple("in place" if m else "out of place" for m in modes),
    )


def _execute(algorithm: MscclAlgorithm, graph: Graph, order: list[int], modes: list[bool], found: Collector) -> int:
    """Run it in each mode; of a rooted collective for the root with which least is wrong, which is returned."""
    if algorithm.collective not in KNOWN:
        found.error("msccl.collective", "algorithm", f"there is no definition of {algorithm.collective!r} to check by")
        return -1
    clocks = _clocks(graph, order)
    best: tuple[int, int] | None = None
    for root in range(algorithm.ranks) if algorithm.collective in ROOTED else (-1,):
        trial = Collector()
        _run_modes(algorithm, graph, order, clocks, root, modes, trial)
        wrong = sum(trial.counts[f.code] for f in {f.code: f for f in trial.findings}.values() if not f.warning)
        if best is None or wrong < best[0]:
            best = (wrong, root)
        if wrong == 0:
            break
    assert best is not None
    _run_modes(algorithm, graph, order, clocks, best[1], modes, found)
    return best[1]


def _run_modes(
    algorithm: MscclAlgorithm,
    graph: Graph,
    order: list[int],
    clocks: list[Vector],
    root: int,
    modes: list[bool],
    found: Collector,
) -> None:
    layout = Layout.of(algorithm, root)
    if layout is None:
        words = f"{algorithm.chunks_per_loop} chunks are no multiple of {algorithm.ranks} ranks"
        found.error("msccl.chunks", "nchunksperloop", words)
        return
    for in_place in modes:
        _Execution(algorithm, graph, clocks, layout, in_place, found).run(order)


def _clocks(graph: Graph, order: list[int]) -> list[Vector]:
    """Return of each event how many events of each block have ended when it ends."""
    clocks: list[Vector] = [np.zeros(0, dtype=np.int32)] * len(graph.events)
    count = [0] * graph.blocks
    for number in order:
        vector: Vector = np.zeros(graph.blocks, dtype=np.int32)
        for other in graph.before[number]:
            np.maximum(vector, clocks[other], out=vector)
        block = graph.events[number].block
        count[block] += 1
        vector[block] = count[block]
        clocks[number] = vector
    return clocks


@dataclass
class _Execution:
    """One run on symbols, in one order, checking that the order does not matter."""

    algorithm: MscclAlgorithm
    graph: Graph
    clocks: list[Vector]
    layout: Layout
    in_place: bool
    found: Collector
    values: Sums = field(default_factory=Sums)
    contributions: Contributions = field(default_factory=Contributions)
    held: dict[Cell, Value] = field(default_factory=dict)
    sent: dict[int, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.when = "in place" if self.in_place else "out of place"
        self.history = AccessHistory(strict=False)
        for rank in range(self.layout.ranks):
            for chunk in range(self.layout.input_chunks(rank)):
                bit = self.contributions.bit((rank, chunk))
                self.held[self.layout.cell(rank, "i", chunk, self.in_place)] = self.values.own(bit)

    def run(self, order: list[int]) -> None:
        for number in order:
            self._event(number)
        self._check_outputs()

    def _event(self, number: int) -> None:
        event, kind = self.graph.events[number], self.graph.events[number].step.kind
        step, value = event.step, -1
        if step.kind.value == "nop" or self._onto_itself(number):
            return
        now = Access(event.block, int(self.clocks[number][event.block]), event.name)
        if kind.receives:
            value = self.sent[self.graph.sender[number]]
        if kind.reads:
            value = self._plus(value if kind.receives else None, self._read(number, step.source, now), event.name)
        if kind.value == "re":
            value = self._plus(value, self._read(number, step.target, now), event.name)
        if kind.writes:
            self._write(number, step.target, value, now)
        if kind.sends:
            self.sent[number] = value

    def _onto_itself(self, number: int) -> bool:
        """Whether a copy in place leaves a chunk as it is: the same bytes are no conflict."""
        step = self.graph.events[number].step
        return step.kind.value == "cpy" and self._cell(number, step.source) == self._cell(number, step.target)

    def _plus(self, one: Value | None, other: Value, where: str) -> Value:
        if one is None or one < 0 or other < 0:
            return other if one is None else -1
        value = self.values.add(one, other)
        if self.values.twice[value] and not (self.values.twice[one] or self.values.twice[other]):
            self.found.error("msccl.twice", f"{where}, {self.when}", "reduces a contribution twice")
        return value

    def _cell(self, number: int, place: Reference) -> Cell:
        event = self.graph.events[number]
        return self.layout.cell(event.rank, place.buffer, place.offset + event.unit, self.in_place)

    def _read(self, number: int, place: Reference, now: Access) -> Value:
        cell = self._cell(number, place)
        self._race(self.history.read(cell, now, self.clocks[number]), now, cell)
        value = self.held.get(cell, -1)
        if value < 0:
            self.found.error("msccl.value", f"{now.label}, {self.when}", f"reads {cell_name(cell)}: no value is there")
        return value

    def _write(self, number: int, place: Reference, value: Value, now: Access) -> None:
        cell, event = self._cell(number, place), self.graph.events[number]
        self._race(self.history.write(cell, now, self.clocks[number]), now, cell)
        self.held[cell] = value
        where = f"{now.label}, {self.when}"
        offset = place.offset + event.unit
        if place.buffer == "i" and not self.in_place:
            self.found.warning("msccl.input", where, "overwrites the caller's input")
        if place.buffer == "o" and not self.in_place and offset >= self.layout.output_chunks(event.rank):
            self.found.error("msccl.output", where, f"writes {cell_name(cell)}, where the caller has no output")

    def _race(self, earlier: Access | None, now: Access, cell: Cell) -> None:
        if earlier is not None and earlier.label != now.label:
            self.found.error(
                "msccl.race",
                f"{now.label}, {self.when}",
                f"nothing orders it and {earlier.label}; both: {cell_name(cell)}",
            )

    def _check_outputs(self) -> None:
        trees: dict[tuple[tuple[int, int], ...], tuple[Value, Cell]] = {}
        for rank in range(self.layout.ranks):
            for chunk in range(self.layout.output_chunks(rank)):
                cell = self.layout.cell(rank, "o", chunk, self.in_place)
                origins = self.layout.origins(rank, chunk)
                value = self.held.get(cell, -1)
                objection = self.contributions.objection(self.values, value, origins)
                if objection:
                    where = f"chunk {chunk} of the output of rank {rank}, {self.when}"
                    self.found.error("msccl.result", where, objection)
                    continue
                first = trees.setdefault(tuple(origins), (value, cell))
                if first[0] != value:
                    words = f"is summed in another order than {cell_name(first[1])}: the last bits of floats may differ"
                    self.found.warning("msccl.tree", f"{cell_name(cell)}, {self.when}", words)
