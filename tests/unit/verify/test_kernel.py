from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from helpers import cases
from plain_lowering import plain_kernel, plain_program

from acclc.ir.kernel_program import CounterKind, Instruction, InstructionKind, KernelProgram, Protocol
from acclc.ir.problem import Problem
from acclc.ir.program import Buffer
from acclc.ir.schedule import Schedule
from acclc.verify import check_kernel

AWAIT, POST, PUT = InstructionKind.AWAIT, InstructionKind.POST, InstructionKind.PUT
Case = tuple[Problem, Schedule, KernelProgram]


def codes(case: Case, kernel: KernelProgram | None = None) -> set[str]:
    return {f.code for f in check_kernel(case[0], case[1], kernel or case[2]).errors}


def made(name: str, depth: int = 2) -> Case:
    what, schedule = cases()[name]
    return what, schedule, plain_kernel(what, plain_program(what, schedule), depth)


def edit(kernel: KernelProgram, block: int, body: Callable[[list[Instruction]], list[Instruction]]) -> KernelProgram:
    blocks = list(kernel.blocks)
    blocks[block] = replace(blocks[block], body=tuple(body(list(blocks[block].body))))
    return replace(kernel, blocks=tuple(blocks))


def drop(kernel: KernelProgram, kind: InstructionKind, counter: CounterKind, block: int | None = None) -> KernelProgram:
    """Without the first await or post on a counter of this kind (in any block, or in one)."""
    for number, b in enumerate(kernel.blocks):
        for part in ("entry", "body"):
            items = getattr(b, part)
            for n, o in enumerate(items):
                if o.kind is kind and kernel.counters[o.counter].kind is counter and block in (None, number):
                    changed = replace(b, **{part: items[:n] + items[n + 1 :]})
                    return replace(kernel, blocks=(*kernel.blocks[:number], changed, *kernel.blocks[number + 1 :]))
    raise AssertionError("nothing to drop")


@pytest.fixture(scope="module")
def ring3() -> Case:
    return made("all_reduce_ring3")


@pytest.mark.parametrize("name", list(cases()))
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_plain_kernels_verify(name: str, depth: int) -> None:
    case = made(name, depth)
    report = check_kernel(*case)
    assert report.ok, str(report)
    assert report.facts is not None
    slices = [n for n, _ in report.facts.calls]
    assert max(slices) >= 2 * depth + 1
    assert {aliased for _, aliased in report.facts.calls} == {False, True}
    assert report.facts.blocks == {r.rank: sum(b.rank == r.rank for b in case[2].blocks) for r in case[2].ranks}


def test_residency_counts_channels(ring3: Case) -> None:
    report = check_kernel(ring3[0], ring3[1], replace(ring3[2], channels=3))
    assert report.facts is not None
    assert report.facts.blocks == {0: 6, 1: 6, 2: 6}


def test_missing_wait_for_an_arrival_is_a_race(ring3: Case) -> None:
    found = check_kernel(ring3[0], ring3[1], drop(ring3[2], AWAIT, CounterKind.ARRIVAL, block=1))
    races = [f for f in found.errors if f.code == "kernel.race"]
    assert races
    assert "rank 0 (g[0]) block 1" in races[0].where + races[0].message


def test_missing_credit_is_a_race_of_slots() -> None:
    """Rank 2 at the end of a chain may lag: without credits its slot is overwritten K slices later."""
    case = made("broadcast_ring3")
    kernel = drop(case[2], AWAIT, CounterKind.CREDIT, block=3)
    report = check_kernel(case[0], case[1], kernel)
    assert {f.code for f in report.errors} <= {"kernel.race", "kernel.stale"}
    assert "slot 0 of rank 2" in str(report)


def test_lag_must_fit_the_slots() -> None:
    case = made("broadcast_ring3", depth=2)
    assert codes(case, replace(case[2], slot_depth=1)) & {"kernel.race", "kernel.stale"}
    assert codes(case, replace(case[2], slot_depth=3)) == set()


def test_entry_is_awaited_before_the_first_write(ring3: Case) -> None:
    assert "kernel.entry" in codes(ring3, drop(ring3[2], AWAIT, CounterKind.ENTRY))
    assert "kernel.posts" in codes(ring3, drop(ring3[2], POST, CounterKind.ENTRY))


def test_a_rank_does_not_return_before_the_last_arrival() -> None:
    case = made("broadcast_ring2")
    kernel = drop(case[2], AWAIT, CounterKind.ARRIVAL, block=2)
    assert "kernel.return" in codes(case, kernel)


def test_deadlock_names_the_counter_and_the_writer(ring3: Case) -> None:
    """Every send block first waits for the end of its rank's own sends."""
    kernel = ring3[2]
    for number, block in enumerate(kernel.blocks):
        if block.index:
            arrivals = [c for c in kernel.counters if c.kind is CounterKind.ARRIVAL and c.home == block.rank]
            wait = Instruction(AWAIT, step=0, counter=arrivals[0].id, index=arrivals[0].events)
            kernel = edit(kernel, number, lambda body, wait=wait: [wait, *body])
    report = check_kernel(ring3[0], ring3[1], kernel)
    assert {f.code for f in report.errors} == {"kernel.deadlock"}
    text = str(report)
    assert "arrival g[2] -> g[0]" in text
    assert "rank 2 (g[2]) block 1 should post it" in text


def test_posts_grow_by_one(ring3: Case) -> None:
    kernel = ring3[2]
    block = next(n for n, b in enumerate(kernel.blocks) if b.index)
    posts = [n for n, o in enumerate(kernel.blocks[block].body) if o.kind is POST]

    def swapped(body: list[Instruction]) -> list[Instruction]:
        body[posts[0]], body[posts[1]] = body[posts[1]], body[posts[0]]
        return body

    assert codes(ring3, edit(kernel, block, swapped)) == {"kernel.posts"}
    assert codes(ring3, edit(kernel, block, lambda body: [*body, body[posts[0]]])) == {"kernel.posts"}


def test_one_writer_and_home(ring3: Case) -> None:
    kernel = ring3[2]
    local = next(c for c in kernel.counters if c.kind is CounterKind.LOCAL)
    for changes in ({"writer_block": 0}, {"home": 1}, {"events": 2}, {"id": 99}, {"src": 1}, {"writer_block": 9}):
        changed = tuple(replace(c, **changes) if c is local else c for c in kernel.counters)
        assert codes(ring3, replace(kernel, counters=changed)) & {
            "kernel.writer", "kernel.counter", "kernel.posts", "kernel.ids", "kernel.home", "kernel.form",
        }  # fmt: skip


def first_put(kernel: KernelProgram, block: int) -> int:
    return next(n for n, o in enumerate(kernel.blocks[block].body) if o.kind is PUT)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"target_rank": 2}, "kernel.transfers"),
        ({"target_rank": 9}, "kernel.form"),
        ({"target": {"unit": 17}}, "kernel.bounds"),
        ({"target": {"buffer": Buffer.INPUT, "unit": 0}}, "kernel.input"),
        ({"target": {"end": Fraction(2)}}, "kernel.bounds"),
        ({"target": {"end": Fraction(1, 2)}}, "kernel.extents"),
        ({"sources": ()}, "kernel.form"),
        ({"counter": 0}, "kernel.form"),
        ({"final": True}, "kernel.reduction"),
        ({"transfer": 5}, "kernel.transfers"),
    ],
)
def test_puts(ring3: Case, changes: dict[str, object], expected: str) -> None:
    kernel = ring3[2]
    block = next(n for n, b in enumerate(kernel.blocks) if b.index)
    position = first_put(kernel, block)
    put = kernel.blocks[block].body[position]
    assert put.target is not None
    if isinstance(changes.get("target"), dict):
        changes = {"target": replace(put.target, **changes["target"])}  # type: ignore[arg-type]

    def changed(body: list[Instruction]) -> list[Instruction]:
        body[position] = replace(put, **changes)  # type: ignore[arg-type]
        return body

    assert expected in codes(ring3, edit(kernel, block, changed))


def test_operand_order_on_one_rank(ring3: Case) -> None:
    kernel = ring3[2]

    def turned(body: list[Instruction]) -> list[Instruction]:
        n = next(n for n, o in enumerate(body) if len(o.sources) == 2)
        body[n] = replace(body[n], sources=body[n].sources[::-1])
        return body

    assert codes(ring3, edit(kernel, 0, turned)) == {"kernel.tree"}


def test_two_puts_of_a_block_need_a_barrier_between() -> None:
    """The threads of a block run side by side: a put may not read what the one before it wrote."""
    case = made("all_gather_ring2")
    kernel = case[2]
    n = first_put(kernel, 0)
    again = kernel.blocks[0].body[n]
    report = check_kernel(case[0], case[1], edit(kernel, 0, lambda body: [*body[: n + 1], again, *body[n + 1 :]]))
    assert {f.code for f in report.errors} == {"kernel.race"}
    assert "no barrier lies between" in report.errors[0].message
    post = next(n for n, o in enumerate(kernel.blocks[0].body) if o.kind is POST)
    assert codes(case, edit(kernel, 0, lambda body: [*body[: post + 1], again, *body[post + 1 :]])) == set()


def test_dropped_put_and_header(ring3: Case) -> None:
    kernel = ring3[2]
    assert codes(ring3, edit(kernel, 0, lambda body: [o for o in body if o.kind is not PUT])) == {"kernel.missing"}
    assert codes(ring3, edit(kernel, 1, lambda body: [o for o in body if o.kind is not PUT])) == {"kernel.transfers"}
    assert codes(ring3, replace(kernel, protocol=Protocol.LL)) == {"kernel.form"}
    assert codes(ring3, replace(kernel, slot_depth=10**9)) == {"kernel.form"}  # and no endless unrolling
    huge = replace(kernel.counters[-1], events=10**12)
    assert codes(ring3, replace(kernel, counters=(*kernel.counters[:-1], huge))) == {"kernel.posts"}
    assert codes(ring3, replace(kernel, in_place="none")) == {"kernel.in_place"}
    assert "kernel.blocks" in codes(ring3, replace(kernel, blocks=kernel.blocks[::-1]))
    blocks = tuple(replace(b, link=4) if b.index else b for b in kernel.blocks)
    assert codes(ring3, replace(kernel, blocks=blocks)) == {"kernel.link"}
