"""The cost model, case by case, in exact seconds."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hand_built import custom, shard, topology

from acclc.ir.problem import LinkId, Problem, Rank, Topology
from acclc.ir.schedule import OWN, ChunkId, Output, Schedule, Transfer, TransferId, equal_chunks
from acclc.simulate import StuckError, Timeline, simulate

GB = 10**9
US = Fraction(1, 10**6)


def schedule(
    problem: Problem, moves: Sequence[tuple[int, Sequence[int], int, Sequence[int]]], chunks: int = 1
) -> Schedule:
    """Moves as (chunk, path, step, operands)."""
    links = problem.topology.links
    transfers = tuple(
        Transfer(
            TransferId(i),
            ChunkId(chunk),
            Rank(links[path[0]].src),
            Rank(links[path[-1]].dst),
            tuple(LinkId(e) for e in path),
            step,
            tuple(TransferId(o) for o in operands),
        )
        for i, (chunk, path, step, operands) in enumerate(moves)
    )
    steps = max(t.step for t in transfers) + 1
    shards = tuple(s.id for s in problem.shards)
    return Schedule(equal_chunks(shards, chunks), transfers, (), (1,) * steps, "test")


def run(
    machine: Topology, moves: Sequence[tuple[int, Sequence[int], int, Sequence[int]]], size: int = GB, chunks: int = 1
) -> Timeline:
    count = max(m[0] for m in moves) // chunks + 1
    problem = custom(machine, [shard(i, [0], [1]) for i in range(count)])
    return simulate(problem, schedule(problem, moves, chunks), size)


def test_one_transfer_takes_latency_and_bytes_over_rate() -> None:
    machine = topology(2, [(0, 1, 1, 10)], latency_us=3)
    timeline = run(machine, [(0, [0], 0, [OWN])])
    (only,) = timeline.transfers
    assert (only.start, only.sent, only.arrived) == (0, Fraction(1, 10), Fraction(1, 10) + 3 * US)
    assert timeline.seconds == only.arrived
    assert timeline.links[0].bytes == GB
    assert timeline.links[0].busy == Fraction(1, 10) / only.arrived
    assert timeline.limiting.startswith("bandwidth: link g[0] -> g[1]")


def test_latencies_of_a_path_add_up_and_the_narrowest_link_sets_the_rate() -> None:
    machine = topology(2, [(0, 2, 1, 10), (2, 1, 1, 5)], 1, latency_us=2)
    assert run(machine, [(0, [0, 1], 0, [OWN])]).seconds == Fraction(1, 5) + 4 * US


def test_links_of_a_count_move_at_the_whole_capacity() -> None:
    assert run(topology(2, [(0, 1, 3, 10)]), [(0, [0], 0, [OWN])]).seconds == Fraction(1, 30)


def test_two_transfers_share_a_port() -> None:
    """Two ranks into one port of 10: half each, and the larger one has it alone at the end."""
    machine = topology(3, [(0, 3, 1, 10), (2, 3, 1, 10), (3, 1, 1, 10)], 1)
    timeline = run(machine, [(0, [0, 2], 0, [OWN]), (1, [1, 2], 0, [OWN])])
    assert [t.sent for t in timeline.transfers] == [Fraction(1, 5), Fraction(1, 5)]
    later = run(machine, [(0, [0, 2], 0, [OWN]), (1, [1, 2], 0, [OWN]), (2, [1, 2], 0, [OWN])])
    assert [t.sent for t in later.transfers] == [Fraction(1, 5), Fraction(1, 5), Fraction(3, 10)]


def test_a_slow_partner_leaves_the_rest_of_a_port_to_others() -> None:
    """A 450 GB/s port that feeds a 50 GB/s NIC keeps 400 for another."""
    machine = topology(4, [(0, 4, 1, 450), (2, 4, 1, 450), (4, 5, 1, 450), (5, 1, 1, 50), (5, 3, 1, 450)], 2)
    timeline = run(machine, [(0, [0, 2, 3], 0, [OWN]), (1, [1, 2, 4], 0, [OWN])])
    assert timeline.transfers[1].sent == Fraction(1, 400)
    assert timeline.transfers[0].sent == Fraction(1, 50)


def test_a_block_runs_its_transfers_in_order() -> None:
    machine = topology(2, [(0, 1, 1, 10)], latency_us=5)
    timeline = run(machine, [(0, [0], 0, [OWN]), (1, [0], 1, [OWN])])
    assert timeline.transfers[1].start == Fraction(1, 10)  # the link is free when the last byte is sent
    assert timeline.seconds == Fraction(2, 10) + 5 * US


def test_a_transfer_waits_for_its_operands_and_holds_up_its_block() -> None:
    machine = topology(3, [(0, 1, 1, 10), (1, 2, 1, 5)], latency_us=1)
    timeline = run(machine, [(0, [0], 0, [OWN]), (0, [1], 1, [0]), (1, [1], 1, [OWN])])
    first, second, third = timeline.transfers
    assert second.start == first.arrived == Fraction(1, 10) + US
    assert third.start == second.sent
    assert timeline.critical == (0, 1, 2)


def test_a_budget_is_shared() -> None:
    machine = topology(3, [(0, 1, 1, 10), (2, 1, 1, 10)], budgets=[((0, 1), 5)])
    timeline = run(machine, [(0, [0], 0, [OWN]), (1, [1], 0, [OWN])])
    assert timeline.seconds == Fraction(2, 5)


def test_changing_a_bandwidth_changes_the_time() -> None:
    fast, slow = (run(topology(2, [(0, 1, 1, rate)]), [(0, [0], 0, [OWN])]).seconds for rate in (20, 10))
    assert slow == 2 * fast


def test_overhead_is_paid_by_the_block() -> None:
    machine = topology(2, [(0, 1, 1, 10)])
    problem = custom(machine, [shard(0, [0], [1]), shard(1, [0], [1])])
    plan = schedule(problem, [(0, [0], 0, [OWN]), (1, [0], 0, [OWN])])
    assert simulate(problem, plan, GB, overhead=4 * US).seconds == Fraction(2, 10) + 8 * US


def test_nothing_to_send_still_has_latency() -> None:
    timeline = run(topology(2, [(0, 1, 1, 10)], latency_us=7), [(0, [0], 0, [OWN])], size=0)
    assert timeline.seconds == 7 * US
    assert timeline.limiting.startswith("latency: 100 %")


def test_transfers_that_wait_for_each_other_are_reported() -> None:
    machine = topology(2, [(0, 1, 1, 10), (1, 0, 1, 10)])
    with pytest.raises(StuckError, match="transfer 0 never starts"):
        run(machine, [(0, [0], 0, [1]), (0, [1], 0, [0])])


def test_an_empty_schedule_takes_no_time() -> None:
    problem = custom(topology(2, []), [shard(0, [0], [0])])
    empty = Schedule(equal_chunks((problem.shards[0].id,), 1), (), (Output(Rank(0), ChunkId(0), (OWN,)),), (), "test")
    timeline = simulate(problem, empty, GB)
    assert (timeline.seconds, timeline.limiting) == (0, "nothing moves")
