"""Baselines are schedules like any other: they verify, and never beat the bound."""

from fractions import Fraction

import pytest
from hand_built import both, custom, dgx1, grid, problem_of, ring, shard, star, switched, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from acclc.bounds import bound
from acclc.ir.problem import Collective, Problem, Topology
from acclc.simulate import Baseline, baselines, shard_bytes
from acclc.simulate.baselines import TRANSFER_LIMIT, fewest_transfers, schedules
from acclc.simulate.rings import find_rings
from acclc.simulate.routes import Routes
from acclc.verify.certificate import check_certificate
from acclc.verify.schedule import check_schedule

C = Collective
RINGED = (C.ALL_GATHER, C.REDUCE_SCATTER, C.ALL_REDUCE, C.BROADCAST, C.REDUCE)
OTHERS = (C.ALL_TO_ALL, C.GATHER, C.SCATTER)


def check(problem: Problem, found: tuple[Baseline, ...], size: int) -> None:
    """Verified, and no faster than the bound."""
    least = bound(problem)
    for b in found:
        report = check_schedule(problem, b.schedule)
        assert report.ok, f"{b.name}: {report}"
        assert b.timeline.seconds >= least.throughput.time_per_byte * size
        assert b.timeline.seconds >= least.latency.seconds
        assert b.schedule.steps >= least.latency.steps
        for use in b.timeline.links:
            assert 0 <= use.busy <= 1


@pytest.mark.parametrize("collective", RINGED + OTHERS)
@pytest.mark.parametrize("machine", [dgx1(latency_us=1), grid(3, 3), switched(2, 300, per_box=3), star([20, 10, 10])])
def test_on_known_machines(machine: Topology, collective: Collective) -> None:
    problem = problem_of(machine, collective)
    found = baselines(problem, 1 << 20)
    assert [b.name for b in found] == (["ring", "tree"] if collective in RINGED else ["direct"])
    check(problem, found, 1 << 20)


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    ranks = draw(st.integers(2, 5))
    rate = st.integers(1, 4)
    wires = [(i, (i + 1) % ranks, 1, draw(rate)) for i in range(ranks)]
    switch = draw(st.booleans())
    if switch:
        wires += both((r, ranks, 1, draw(rate)) for r in draw(st.lists(st.integers(0, ranks - 1), unique=True)))
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    wires += [
        (a, b, draw(st.integers(1, 2)), draw(rate)) for a, b in draw(st.lists(st.sampled_from(pairs), max_size=5))
    ]
    budgets = []
    if draw(st.booleans()):
        members = draw(st.lists(st.integers(0, len(wires) - 1), min_size=1, max_size=3, unique=True))
        budgets.append((tuple(members), draw(rate)))
    return topology(ranks, wires, int(switch), latency_us=draw(st.integers(0, 3)), budgets=budgets)


@settings(max_examples=40, deadline=None)
@given(machines(), st.sampled_from(RINGED + OTHERS), st.integers(1, 3_000_000))
def test_simulated_time_never_beats_the_bound(machine: Topology, collective: Collective, size: int) -> None:
    problem = problem_of(machine, collective)
    found = baselines(problem, size)
    assert found
    check(problem, found, size)
    assert check_certificate(problem, bound(problem)).ok


@settings(max_examples=25, deadline=None)
@given(machines(), st.data())
def test_direct_sends_of_custom_collectives(machine: Topology, data: st.DataObject) -> None:
    some = st.lists(st.sampled_from(list(machine.ranks)), min_size=1, max_size=4, unique=True)
    shards = [
        shard(i, data.draw(some), data.draw(some), reduced, unit=(i, i))
        for i, reduced in enumerate(data.draw(st.lists(st.booleans(), min_size=1, max_size=4)))
    ]
    problem = custom(machine, shards)
    found = baselines(problem, 1000)
    assert [b.name for b in found] == ["direct"]
    check(problem, found, 1000)


def test_dgx1_has_the_six_rings_of_nccl() -> None:
    rings = find_rings(Routes(dgx1()), dgx1().ranks)
    assert len(rings) == 6
    used: dict[int, int] = {}
    for r in rings:
        assert sorted(r.ranks) == list(range(8))
        for route in r.routes:
            (hop,) = route
            used[hop.path[0]] = used.get(hop.path[0], 0) + 1
    assert used == {e.id: e.count for e in dgx1().links}


def test_rings_cross_boxes_at_every_nic() -> None:
    machine = switched(2, 300)
    rings = find_rings(Routes(machine), machine.ranks)
    crossings = [(h.src, h.dst) for r in rings for route in r.routes for h in route if h.src // 8 != h.dst // 8]
    assert len(rings) == 8
    assert len({a for a, _ in crossings}) == len({b for _, b in crossings}) == 16


def test_a_ring_is_optimal_on_a_ring() -> None:
    problem = problem_of(ring(6), C.ALL_GATHER)
    size = shard_bytes(problem, 6 << 20)
    found = {b.name: b.timeline.seconds for b in baselines(problem, size)}
    assert found["ring"] == bound(problem).throughput.time_per_byte * size


def test_no_hamiltonian_cycle_still_has_a_ring_over_relays() -> None:
    """A chain: back from its end the ring goes through all ranks."""
    machine = topology(4, both((i, i + 1, 1, 1) for i in range(3)))
    (only,) = find_rings(Routes(machine), machine.ranks)
    assert [len(route) for route in only.routes] == [1, 1, 1, 3]


def test_pipelines_have_more_slices_for_more_bytes() -> None:
    problem = problem_of(dgx1(latency_us=1), C.BROADCAST)
    small, large = (
        {b.name: b.schedule.chunks_per_shard for b in baselines(problem, size)} for size in (1 << 10, 1 << 26)
    )
    assert small == {"ring": 6, "tree": 1}
    assert large["ring"] > 6
    assert large["tree"] > 1


def test_a_faster_link_makes_a_faster_estimate() -> None:
    slow, fast = (
        {b.name: b.timeline.seconds for b in baselines(problem_of(dgx1(rate=rate), C.ALL_REDUCE), 1 << 20)}
        for rate in (25, 50)
    )
    assert all(fast[name] == slow[name] / 2 for name in slow)


def test_an_unreachable_rank_has_no_baseline() -> None:
    machine = topology(3, [(0, 1, 1, 1), (1, 0, 1, 1)])
    assert baselines(problem_of(machine, C.ALL_GATHER), 1000) == ()


def test_a_long_schedule_keeps_exact_times_short() -> None:
    """Awkward shares (3, 5, 7 GB/s) over many transfers: numbers stay small, and busy fractions sensible."""
    problem = problem_of(star([3, 5, 7, 11, 13]), C.ALL_TO_ALL)
    (direct,) = baselines(problem, 1_000_003)
    assert all(t.arrived.denominator < 10**40 for t in direct.timeline.transfers)
    assert max(u.busy for u in direct.timeline.links) > Fraction(1, 2)


@pytest.mark.parametrize("collective", list(Collective)[:8])
def test_no_baseline_has_fewer_transfers_than_are_counted_before(collective: Collective) -> None:
    """So what is left out unseen, for having too many, does have too many."""
    for machine in (dgx1(), switched(1, 10), ring(4)):
        problem = problem_of(machine, collective)
        found = list(schedules(problem, 1 << 20))
        assert found
        assert all(len(s.transfers) >= fewest_transfers(problem) for s in found)


def test_too_large_baselines_are_left_out_before_they_are_made() -> None:
    problem = problem_of(star([1] * 150), Collective.ALL_GATHER)
    assert fewest_transfers(problem) == 150 * 149 > TRANSFER_LIMIT
    assert baselines(problem, 1) == ()
