"""Bounds against the known optima of the literature, as equal fractions."""

from fractions import Fraction

import pytest
from hand_built import dgx1, grid, hypercube, mi250, problem_of, ring, star, switched, topology

from acclc.bounds import bound
from acclc.ir.problem import Collective, Topology
from acclc.ir.result import Cut, Partition
from acclc.verify.certificate import check_certificate

C = Collective
TORUS = grid(4, 4, wrap=True)
TABLE = [
    (dgx1(), Fraction(7, 6), Fraction(8, 3), 2),
    (ring(8), Fraction(7, 2), Fraction(8), 4),
    (grid(3, 3), Fraction(4), Fraction(6), 4),
    (grid(4, 4), Fraction(15, 2), Fraction(16), 6),
    (TORUS, Fraction(15, 4), Fraction(8), 4),
    (hypercube(3), Fraction(7, 3), Fraction(4), 3),
    (hypercube(4), Fraction(15, 4), Fraction(8), 4),
    (mi250(), Fraction(7, 3), Fraction(32, 3), 5),
]


@pytest.mark.parametrize(("machine", "gather", "exchange", "diameter"), TABLE)
def test_table_of_optima(machine: Topology, gather: Fraction, exchange: Fraction, diameter: int) -> None:
    for collective, rounds in ((C.ALL_GATHER, gather), (C.REDUCE_SCATTER, gather), (C.ALL_TO_ALL, exchange)):
        problem = problem_of(machine, collective)
        found = bound(problem)
        assert found.rounds_per_chunk == rounds, collective
        assert found.latency.steps == diameter
        report = check_certificate(problem, found)
        assert report.ok, str(report)
        assert report.facts is not None
        assert report.facts.time_per_byte == found.throughput.time_per_byte == rounds / machine.unit


@pytest.mark.parametrize(
    ("machine", "gb_per_s"),
    [
        (switched(1, 300), Fraction(2400, 7)),
        (switched(2, 300), Fraction(16 * 65, 3)),
        (switched(4, 300), Fraction(32 * 25, 3)),
        (mi250(1), Fraction(2400, 7)),
        (mi250(2), Fraction(32 * 166, 15)),
        (dgx1(), Fraction(1200, 7)),
        (switched(1, 450), Fraction(3600, 7)),
    ],
)
def test_all_gather_rates(machine: Topology, gb_per_s: Fraction) -> None:
    """M / time: 342.857, 346.667, 266.667, 342.857, 354.133, 171.43, 514.29 GB/s."""
    time = bound(problem_of(machine, C.ALL_GATHER)).throughput.time_per_byte
    assert len(machine.ranks) / time == gb_per_s * 10**9


@pytest.mark.parametrize(
    ("machine", "time", "kind"),
    [
        (dgx1(rate=1), Fraction(14, 48), Partition),
        (mi250(), Fraction(14, 48 * 50), Partition),
        (mi250(2), Fraction(15, 2656), Partition),  # 16 packages: .00564759
        (switched(2, 300), Fraction(3, 520), Partition),  # singletons: .00576923
        (star([100] + [10] * 7), Fraction(1, 10), Cut),
        (star([40] + [10] * 7), Fraction(14, 110), Partition),
        (star([20, 20] + [10] * 6), Fraction(14, 100), Partition),
        (switched(1, 450), Fraction(7, 4) / 450, Partition),
    ],
)
def test_all_reduce(machine: Topology, time: Fraction, kind: type) -> None:
    problem = problem_of(machine, C.ALL_REDUCE)
    found = bound(problem).throughput
    assert found.time_per_byte == time / 10**9
    assert isinstance(found.certificate, kind)
    assert check_certificate(problem, bound(problem)).ok


def test_all_reduce_of_mixed_boxes_is_bound_by_the_slowest_box() -> None:
    wires = []
    for box, (port, net) in enumerate(((300, 50), (300, 25), (100, 12))):
        for rank in range(4 * box, 4 * box + 4):
            wires += [(rank, 12 + box, 1, port), (12 + box, rank, 1, port), (rank, 15, 1, net), (15, rank, 1, net)]
    found = bound(problem_of(topology(12, wires, 4), C.ALL_REDUCE)).throughput
    assert found.time_per_byte == Fraction(1, 48) / 10**9


def test_a_switch_that_reduces_lowers_the_all_reduce_bound() -> None:
    """HGX with in-network reduction and multicast: the vector must only enter and leave each rank once."""
    plain = bound(problem_of(switched(1, 450), C.ALL_REDUCE)).throughput.time_per_byte
    wires = [w for r in range(8) for w in ((r, 8, 1, 450), (8, r, 1, 450))]
    capable = topology(8, wires, 1, multicast=True, reduce=True)
    assert bound(problem_of(capable, C.ALL_REDUCE)).throughput.time_per_byte <= Fraction(8, 7) * plain * Fraction(9, 14)
    assert bound(problem_of(capable, C.ALL_REDUCE)).throughput.time_per_byte == Fraction(1, 450 * 10**9)


@pytest.mark.parametrize(
    ("collective", "rounds"),
    [
        (C.BROADCAST, Fraction(1, 6)),
        (C.REDUCE, Fraction(1, 6)),
        (C.SCATTER, Fraction(7, 6)),
        (C.GATHER, Fraction(7, 6)),
    ],
)
def test_rooted_on_dgx1(collective: Collective, rounds: Fraction) -> None:
    assert bound(problem_of(dgx1(), collective, root=3)).rounds_per_chunk == rounds


def test_words_name_the_smaller_side() -> None:
    words = bound(problem_of(mi250(), C.ALL_GATHER)).throughput.words
    assert words.startswith("14 ranks must send 14 shards into {g[0], g[1]} over 6 links of 50 GB/s (300 GB/s)")
    assert bound(problem_of(mi250(2), C.BROADCAST)).throughput.words.startswith(
        "1 shard must leave {g[0], g[1], g[2] and 13 more} over 16 links of 16 GB/s (256 GB/s)"
    )
    pairs = bound(problem_of(dgx1(), C.ALL_TO_ALL)).throughput.words
    assert "must send 16 shards" in pairs
    assert "over 6 links of 25 GB/s (150 GB/s)" in pairs
    assert "between 8 groups of ranks ({g[0], g[1]} is one) 14 messages" in (
        bound(problem_of(mi250(), C.ALL_REDUCE)).throughput.words
    )


def test_one_rank_needs_nothing() -> None:
    found = bound(problem_of(topology(1, []), C.ALL_GATHER))
    assert (found.throughput.time_per_byte, found.latency.steps, found.rounds_per_chunk) == (0, 0, None)
    assert found.throughput.words.startswith("no data has to move")
    assert check_certificate(problem_of(topology(1, []), C.ALL_GATHER), found).ok
