"""The checker of MSCCL's algorithms: right ones pass, and every damaged copy is found."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msccl_files import (
    relay_text,
    ring_text,
    sums_at_random,
    with_another_count,
    with_steps,
    without_a_step,
    without_a_wait,
)

from acclc.importers import source_of
from acclc.importers.msccl_xml import read_algorithm
from acclc.ir.msccl import MscclAlgorithm, Reference, StepKind
from acclc.source import Source
from acclc.verify.msccl import TARGETS, check_algorithm, check_limits, check_text, interpret


def algorithm(text: str) -> MscclAlgorithm:
    return read_algorithm(Source("x.xml", text))


def codes(a: MscclAlgorithm) -> set[str]:
    return {f.code for f in check_algorithm(a).errors}


def extra() -> list[Path]:
    folder = os.environ.get("ACCLC_EXTRA_INPUTS")
    return sorted(Path(folder).glob("msccl-*.xml")) if folder else []


TEXTS = [("ring", ring_text(4)), ("relay", relay_text())]
TEXTS += [(p.name, source_of(p.read_bytes(), p.name).text) for p in extra()]


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_right_files_are_right(name: str, text: str) -> None:
    report = check_algorithm(algorithm(text))
    assert not report.findings, str(report)


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_a_missing_step_is_found(name: str, text: str) -> None:
    a = algorithm(text)
    copies = [*without_a_step(a, renumber=True), *without_a_step(a, renumber=False)]
    chosen = copies if len(copies) < 80 else random.Random(0).sample(copies, 80)
    wrong = [not check_algorithm(copy).ok for copy in chosen]
    assert all(wrong), f"{wrong.count(False)} of {len(wrong)} pass"


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_a_missing_dependency_is_found_or_harmless(name: str, text: str) -> None:
    """Some only repeat what messages imply already; without them every interleaving is right."""
    copies = list(without_a_wait(algorithm(text)))
    chosen = copies if len(copies) < 16 else random.Random(0).sample(copies, 16)
    for number, copy in enumerate(chosen):
        if not {"msccl.race", "msccl.value"} & codes(copy):
            assert check_algorithm(copy).ok
            assert all(sums_at_random(copy, seed) for seed in (number, number + 99))
    found = [bool(codes(copy)) for copy in chosen]
    assert any(found) or not found


def test_running_at_random_shows_a_race() -> None:
    """What harmlessness is shown by can see harm."""
    a = algorithm(ring_text(3))
    (block,) = a.gpus[0].blocks
    kinds = {StepKind.RECEIVE_REDUCE_COPY_SEND: (StepKind.RECEIVE_REDUCE_COPY, StepKind.SEND)}
    flat = [replace(s, kind=kind) for s in block.steps for kind in kinds.get(s.kind, (s.kind,))]
    apart = [s for s in flat if s.kind.receives], [s for s in flat if s.kind.sends]
    blocks = tuple(
        replace(
            block,
            id=i,
            send=block.send if i else None,
            receive=None if i else block.receive,
            steps=tuple(replace(s, number=n) for n, s in enumerate(steps)),
        )
        for i, steps in enumerate(apart)
    )
    split = replace(a, gpus=(replace(a.gpus[0], blocks=blocks), *a.gpus[1:]))
    assert "msccl.race" in codes(split)
    assert not all(sums_at_random(split, seed) for seed in range(20))


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_another_count_is_found(name: str, text: str) -> None:
    copies = list(with_another_count(algorithm(text)))
    chosen = copies if len(copies) < 60 else random.Random(0).sample(copies, 60)
    assert all(codes(copy) for copy in chosen)


def test_two_steps_in_the_other_order_are_found() -> None:
    a = algorithm(ring_text(4))
    steps = a.gpus[1].blocks[0].steps
    swapped = (steps[0], replace(steps[2], number=1), replace(steps[1], number=2), *steps[3:])
    assert "msccl.result" in codes(with_steps(a, 1, 0, swapped))


def test_all_waiting_for_each_other_is_a_deadlock() -> None:
    """Everyone receives first."""
    a = algorithm(ring_text(3))
    for rank in range(3):
        steps = a.gpus[rank].blocks[0].steps
        swapped = (replace(steps[1], number=0), replace(steps[0], number=1), *steps[2:])
        a = with_steps(a, rank, 0, swapped)
    assert "msccl.deadlock" in codes(a)


def long_ring(chunks: int, protocol: str) -> MscclAlgorithm:
    """Everyone sends ``chunks`` chunks to the next, and then receives: an all_to_all's worth of a ring."""
    text = ring_text(2)
    a = replace(algorithm(text), protocol=protocol, chunks_per_loop=2 * chunks)
    gpus = []
    for gpu in a.gpus:
        (block,) = gpu.blocks
        steps = tuple(
            replace(
                s,
                count=chunks,
                source=Reference("i", s.source.offset * chunks),
                target=Reference("i", s.target.offset * chunks),
            )
            for s in block.steps
        )
        gpus.append(replace(gpu, input_chunks=2 * chunks, blocks=(replace(block, steps=steps),)))
    return replace(a, gpus=tuple(gpus))


FIFOS = [(1, "Simple", True), (2, "Simple", False), (7, "LL", True), (8, "LL", False)]


@pytest.mark.parametrize(("chunks", "protocol", "ends"), FIFOS)
def test_what_a_fifo_cannot_hold_is_a_deadlock(chunks: int, protocol: str, ends: bool) -> None:
    """At large sizes a step of c chunks is c messages; whoever then passes one on needs room behind them."""
    assert codes(long_ring(chunks, protocol)) == (set() if ends else {"msccl.deadlock"})


def test_a_contribution_that_is_added_twice_is_found() -> None:
    a = algorithm(ring_text(3))
    steps = a.gpus[0].blocks[0].steps
    again = tuple(replace(s, kind=StepKind.RECEIVE_REDUCE_COPY) if s.kind is StepKind.RECEIVE else s for s in steps)
    assert {"msccl.twice", "msccl.result"} <= codes(with_steps(a, 0, 0, again))


def test_the_root_is_found() -> None:
    facts = check_algorithm(algorithm(relay_text())).facts
    assert facts is not None
    assert facts.root == 0
    assert facts.modes == ("out of place",)


def test_numbers_come_out_as_the_collective_says() -> None:
    a = algorithm(ring_text(4))
    inputs = {r: np.random.default_rng(r).integers(0, 99, (4, 5)) for r in range(4)}
    outputs = interpret(a, inputs, -1, in_place=True)
    for rank in range(4):
        np.testing.assert_array_equal(outputs[rank], sum(inputs.values()))


def test_a_file_without_sizes_is_named_as_the_engines_ignore_it() -> None:
    a = algorithm(ring_text(3, ""))
    assert check_algorithm(a).ok
    for name in ("executor", "rccl"):
        assert {f.code for f in check_limits(a, TARGETS[name]).errors} == {"msccl.unused"}


def test_limits_of_each_engine() -> None:
    a = algorithm(ring_text(4))
    (block,) = a.gpus[0].blocks
    long = replace(block, steps=tuple(replace(block.steps[0], number=i) for i in range(70)))
    wide = replace(a, gpus=(replace(a.gpus[0], blocks=(long,)), *a.gpus[1:]))
    found = {n: {f.code for f in check_limits(wide, t).errors} for n, t in TARGETS.items()}
    assert found == {"executor": {"msccl.steps"}, "rccl": {"msccl.steps"}, "msccl": set()}
    many = replace(a.gpus[0], blocks=tuple(replace(block, id=i, channel=i % 3) for i in range(90)))
    assert {f.code for f in check_limits(replace(a, gpus=(many,)), TARGETS["rccl"]).errors} == {"msccl.blocks"}
    waits = replace(block.steps[0], wait=(130, 0))
    told = replace(a.gpus[0], blocks=(replace(block, steps=(waits,)),))
    assert {f.code for f in check_limits(replace(a, gpus=(told,)), TARGETS["executor"]).errors} == {"msccl.awaited"}
    far = replace(block.steps[0], source=Reference("i", 40000), count=72)
    beyond = replace(a.gpus[0], blocks=(replace(block, steps=(far,)),))
    found_codes = {f.code for f in check_limits(replace(a, gpus=(beyond,)), TARGETS["executor"]).errors}
    assert found_codes == {"msccl.offset", "msccl.count"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('srcbuf="i"', 'srcbuf="o"'),
        ('type="rrc"', 'type="nop"'),
        ('send="1"', 'send="0"'),
        ('chan="0"', 'chan="7"'),
        ('id="0" send', 'id="1" send'),
        ('ngpus="4"', 'ngpus="5"'),
        ('coll="allreduce"', 'coll="alltoallv"'),
        ('depid="-1"', 'depid="0"'),
        ('proto="LL128"', 'proto="LL256"'),
    ],
)
def test_an_attribute_that_is_wrong_is_found(old: str, new: str) -> None:
    text = ring_text(4)
    assert old in text
    assert codes(algorithm(text.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('s="1" type', 's="1"  type'),
        ('type="rrc"', "type='rrc'"),
        ('cnt="1" depid', 'cnt="1"\n depid'),
        ('hasdep="0"/>', 'hasdep="0" />'),
        ("</gpu>", ""),
        ('name="ring"', f'name="{"x" * 300}"'),
        ("<!-- a ring -->", '<?xml version="1.0"?>'),
    ],
)
def test_text_that_the_engines_misread(old: str, new: str) -> None:
    text = ring_text(4)
    assert check_text(text).ok
    assert old in text
    assert not check_text(text.replace(old, new, 1)).ok
