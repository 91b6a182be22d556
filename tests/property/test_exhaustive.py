"""The exploration itself: it finds what depends on an order, and does not branch over what does not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "unit" / "verify")]

from exhaustive import Memory, Model, Step, UnexploredError, WrongError, explore_kernel, explore_program, run_schedule  # noqa: E402
from helpers import cases  # noqa: E402
from plain_lowering import plain_kernel, plain_program  # noqa: E402

from acclc.ir.kernel_program import CounterKind, InstructionKind, KernelProgram  # noqa: E402


def write(cell: str, value: int) -> Step:
    def act(memory: Memory) -> None:
        memory[cell] = value

    return Step("memory", changes=frozenset([cell]), act=act)


def expect(cell: str, value: int) -> Step:
    def act(memory: Memory) -> None:
        if memory.get(cell) != value:
            raise WrongError(f"{cell} is {memory.get(cell)}")

    return Step("memory", touches=frozenset([cell]), act=act)


def test_every_order_of_conflicting_writes_is_seen() -> None:
    ends = set()

    def look(memory: Memory) -> None:
        ends.add(memory["x"])

    last = [Step("wait", n, 1) for n in range(3)] + [Step("memory", touches=frozenset(["x"]), act=look)]
    threads = [[write("x", n), Step("post", n, 1)] for n in range(3)]
    Model([*threads, last]).explore()
    assert ends == {0, 1, 2}


def test_independent_steps_are_not_branched_over() -> None:
    assert Model([[write(f"x{n}", k) for k in range(50)] for n in range(6)]).explore() == 0


def test_a_wait_orders() -> None:
    ordered = Model([[write("x", 1), Step("post", "c", 1)], [Step("wait", "c", 1), expect("x", 1)]])
    assert ordered.explore() == 0
    unordered = Model([[Step("post", "c", 1), write("x", 1)], [Step("wait", "c", 1), expect("x", 1)]])
    with pytest.raises(WrongError, match="x is None"):
        unordered.explore()


def test_deadlock_and_limit() -> None:
    with pytest.raises(WrongError, match="deadlock"):
        Model([[Step("wait", "a", 1), Step("post", "b", 1)], [Step("wait", "b", 1), Step("post", "a", 1)]]).explore()
    many = [[write("x", 10 * n + k) for k in range(5)] for n in range(4)]
    with pytest.raises(UnexploredError):
        Model(many).explore(limit=10)


@pytest.mark.parametrize("name", ["all_reduce_ring3", "all_gather_star3", "broadcast_ring3"])
def test_sound_cases_run_right_in_every_interleaving(name: str) -> None:
    problem, schedule = cases()[name]
    run_schedule(problem, schedule)
    program = plain_program(problem, schedule)
    for aliased in (False, True):
        explore_program(problem, schedule, program, aliased)
    explore_kernel(problem, schedule, plain_kernel(problem, program), [(5, False), (1, True), (3, True)])


def without(kernel: KernelProgram, kind: InstructionKind, counter: CounterKind) -> KernelProgram:
    def keep(items: tuple) -> tuple:
        return tuple(o for o in items if o.kind is not kind or kernel.counters[o.counter].kind is not counter)

    return replace(kernel, blocks=tuple(replace(b, entry=keep(b.entry), body=keep(b.body)) for b in kernel.blocks))


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("broadcast_ring3", CounterKind.CREDIT),
        ("all_reduce_ring3", CounterKind.ARRIVAL),
        ("all_reduce_ring2", CounterKind.LOCAL),
    ],
)
def test_kernels_without_their_waits_go_wrong(name: str, counter: CounterKind) -> None:
    problem, schedule = cases()[name]
    kernel = without(plain_kernel(problem, plain_program(problem, schedule)), InstructionKind.AWAIT, counter)
    with pytest.raises(WrongError):
        explore_kernel(problem, schedule, kernel, [(5, True), (2, True)])


def test_writes_before_a_rank_entered_go_wrong() -> None:
    """Straight into the user's output, which the user still reads or fills."""
    from acclc.lower import lower_kernel, lower_program

    problem, schedule = cases()["all_gather_ring2"]
    kernel = lower_kernel(problem, lower_program(problem, schedule))
    explore_kernel(problem, schedule, kernel, [(1, False), (1, False)])
    with pytest.raises(WrongError):
        explore_kernel(
            problem, schedule, without(kernel, InstructionKind.AWAIT, CounterKind.ENTRY), [(1, False), (1, False)]
        )
