"""Runs an algorithm of MSCCL on numbers: blocks, messages and waits as the engines run them, in one order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acclc.ir.msccl import MscclAlgorithm, Reference
from acclc.verify.chunk_layout import Cell, Layout
from acclc.verify.findings import Collector
from acclc.verify.msccl.graph import Event, Graph, build

Array = NDArray[Any]
Operator = Callable[[Array, Array], Array]


def interpret(
    algorithm: MscclAlgorithm, inputs: Mapping[int, Array], root: int, in_place: bool, reduce: Operator = np.add
) -> dict[int, Array]:
    """Return each rank's output.

    ``inputs``: of each rank that has one, an array of (chunks, elements of a chunk). Outputs have the same form;
    ranks without an output have none.

    Raises:
        ValueError: it cannot run: messages that do not match, a deadlock, or a read of what nobody wrote. Check it
            first to be told where.
    """
    found = Collector()
    graph, layout = build(algorithm, found), Layout.of(algorithm, root)
    order = graph.order()
    if found.failed or layout is None or len(order) < len(graph.events):
        raise ValueError("the algorithm does not run to its end")
    memory: dict[Cell, Array] = {}
    for rank, chunks in inputs.items():
        for chunk in range(layout.input_chunks(rank)):
            memory[layout.cell(rank, "i", chunk, in_place)] = chunks[chunk].copy()
    messages: dict[int, Array] = {}
    for number in order:
        _run(graph, layout, in_place, memory, messages, number, reduce)
    outputs: dict[int, Array] = {}
    for rank in range(algorithm.ranks):
        cells = [layout.cell(rank, "o", c, in_place) for c in range(layout.output_chunks(rank))]
        if any(cell not in memory for cell in cells):
            raise ValueError(f"a chunk of the output of rank {rank} holds nothing")
        if cells:
            outputs[rank] = np.stack([memory[cell] for cell in cells])
    return outputs


def _run(
    graph: Graph,
    layout: Layout,
    in_place: bool,
    memory: dict[Cell, Array],
    messages: dict[int, Array],
    number: int,
    reduce: Operator,
) -> None:
    event = graph.events[number]
    kind = event.step.kind
    if kind.value == "nop":
        return

    def at(place: Reference) -> Cell:
        return layout.cell(event.rank, place.buffer, place.offset + event.unit, in_place)

    value: Array | None = messages[graph.sender[number]] if kind.receives else None
    if kind.reads:
        read = _held(memory, at(event.step.source), event)
        value = read if value is None else reduce(value, read)
    assert value is not None
    if kind.value == "re":
        value = reduce(_held(memory, at(event.step.target), event), value)
    if kind.writes:
        memory[at(event.step.target)] = value.copy()
    if kind.sends:
        messages[number] = value.copy()


def _held(memory: dict[Cell, Array], cell: Cell, event: Event) -> Array:
    if cell not in memory:
        raise ValueError(f"{event.name} reads what nobody wrote")
    return memory[cell]
