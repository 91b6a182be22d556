"""Demands, shards and goals, against the definitions written out once more."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sema_helpers import codes_of, problem_of

from acclc.ir.problem import Collective, GoalKind, InPlace, Op, Problem
from acclc.sema import EmitSettings, analyse_text
from acclc.simulate.sizes import size_factor

GROUP = (5, 0, 3)
AMONG = "among g[5], g[0], g[3]"


def layout(problem: Problem) -> list[tuple[str, set[tuple[int, int]], set[tuple[int, int]], bool]]:
    """Return (name, inputs as (rank, unit), outputs, reduced) of every shard."""
    return [
        (s.name, {(p.rank, p.unit) for p in s.inputs}, {(p.rank, p.unit) for p in s.outputs}, s.reduced)
        for s in problem.shards
    ]


def everyone(unit: int = 0) -> set[tuple[int, int]]:
    return {(rank, unit) for rank in GROUP}


EXPECTED = {
    "all_gather": [(f"g[{r}]", {(r, 0)}, everyone(i), False) for i, r in enumerate(GROUP)],
    "reduce_scatter": [(f"g[{r}]", everyone(i), {(r, 0)}, True) for i, r in enumerate(GROUP)],
    "all_reduce": [("all", everyone(), everyone(), True)],
    "broadcast": [("g[5]", {(5, 0)}, everyone(), False)],
    "reduce": [("all", everyone(), {(5, 0)}, True)],
    "gather": [(f"g[{r}]", {(r, 0)}, {(5, i)}, False) for i, r in enumerate(GROUP)],
    "scatter": [(f"g[{r}]", {(5, i)}, {(r, 0)}, False) for i, r in enumerate(GROUP)],
    "all_to_all": [
        (f"g[{a}] -> g[{b}]", {(a, j)}, {(b, i)}, False) for i, a in enumerate(GROUP) for j, b in enumerate(GROUP)
    ],
    "send_recv": [
        ("g[5] -> g[0]", {(5, 0)}, {(0, 0)}, False),
        ("g[0] -> g[3]", {(0, 0)}, {(3, 0)}, False),
        ("g[3] -> g[5]", {(3, 0)}, {(5, 0)}, False),
    ],
}
IN_PLACE = {
    "all_gather": InPlace.INPUT_IN_OUTPUT,
    "gather": InPlace.INPUT_IN_OUTPUT,
    "reduce_scatter": InPlace.OUTPUT_IN_INPUT,
    "scatter": InPlace.OUTPUT_IN_INPUT,
    "all_reduce": InPlace.SAME,
    "broadcast": InPlace.SAME,
    "reduce": InPlace.SAME,
    "all_to_all": InPlace.NONE,
    "send_recv": InPlace.NONE,
}


@pytest.mark.parametrize("collective", sorted(EXPECTED))
def test_shards_of_a_group(collective: str) -> None:
    problem = problem_of(f"{collective} on full(8) {AMONG}\n")
    assert layout(problem) == EXPECTED[collective]
    assert [s.id for s in problem.shards] == list(range(len(problem.shards)))
    assert all(s.demand == 0 for s in problem.shards)
    (demand,) = problem.demands
    assert problem.name == collective
    assert problem.collective == demand.collective == Collective(collective)
    assert demand.group == GROUP == problem.group
    assert demand.in_place is IN_PLACE[collective]
    rooted = collective in ("broadcast", "reduce", "gather", "scatter")
    assert demand.root == (5 if rooted else None)
    assert demand.op == (Op.SUM if problem.reduces else None)


@pytest.mark.parametrize("collective", sorted(EXPECTED))
def test_every_output_unit_is_written_once(collective: str) -> None:
    problem = problem_of(f"{collective} on torus(2, 3)\n")
    places = [(p.rank, p.unit) for s in problem.shards for p in s.outputs]
    assert len(places) == len(set(places))
    for rank in problem.group:
        units = sorted(unit for r, unit in places if r == rank)
        assert units == list(range(problem.output_units(rank)))
        read = {p.unit for s in problem.shards for p in s.inputs if p.rank == rank}
        assert read == set(range(problem.input_units(rank)))


def test_root_and_operator() -> None:
    problem = problem_of("reduce on dgx1 { root g[3], op max }\n")
    assert (problem.demands[0].root, problem.demands[0].op) == (3, Op.MAX)
    assert layout(problem)[0][2] == {(3, 0)}


def test_pairs_count_units_in_order() -> None:
    problem = problem_of("send_recv on dgx1 { pairs g[0] -> g[1], g[0..1] -> g[2..3], g[4] -> g[3], g[1] -> g[0] }\n")
    assert problem.demands[0].pairs == ((0, 1), (0, 2), (1, 3), (4, 3), (1, 0))
    assert [(s[1], s[2]) for s in layout(problem)] == [
        ({(0, 0)}, {(1, 0)}),
        ({(0, 1)}, {(2, 0)}),
        ({(1, 0)}, {(3, 0)}),
        ({(4, 0)}, {(3, 1)}),
        ({(1, 1)}, {(0, 0)}),
    ]


def test_custom() -> None:
    problem = problem_of("""
collective halo on torus(4, 4) {
    for x in 0..<4, y in 0..<4 {
        chunk east[x, y] at g[x, y]
        need  east[x, y] at g[(x + 1) % 4, y]
    }
    reduce total over g[0, 0], g[1, 0]
    need total at g[0, 0], g[3, 3]
    chunk twin at g[0, 0], g[2, 2]
    need twin at g[1, 1]
} with { op min, goal latency }
""")
    assert problem.name == "halo"
    assert problem.collective is Collective.CUSTOM
    assert problem.demands[0].group == tuple(range(16))
    assert problem.demands[0].op is Op.MIN
    assert problem.goal.kind is GoalKind.LATENCY
    shards = {s[0]: s[1:] for s in layout(problem)}
    assert shards["east[2, 3]"] == ({(11, 0)}, {(15, 0)}, False)
    assert shards["total"] == ({(0, 1), (4, 1)}, {(0, 1), (15, 1)}, True)
    assert shards["twin"] == ({(0, 2), (10, 1)}, {(5, 1)}, False)
    assert len(shards) == 18


def test_custom_units_of_outputs_follow_the_needs() -> None:
    problem = problem_of(
        "collective c on line(2) {\n    chunk a at g[0]\n    chunk b at g[0]\n"
        "    need b at g[1]\n    need a at g[1]\n}\n"
    )
    assert layout(problem) == [("a", {(0, 0)}, {(1, 1)}, False), ("b", {(0, 1)}, {(1, 0)}, False)]


def test_together() -> None:
    problem = problem_of(
        "together as tp {\n    all_reduce on dgx1 among g[0..3] { op max }\n    all_gather on dgx1 among g[4..7]\n}"
        " with { goal bandwidth, within 30 s }\n"
    )
    assert problem.name == "tp"
    assert problem.collective is Collective.TOGETHER
    assert [d.group for d in problem.demands] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [d.op for d in problem.demands] == [Op.MAX, None]
    assert [s.demand for s in problem.shards] == [0, 1, 1, 1, 1]
    assert [s.id for s in problem.shards] == list(range(5))
    assert (problem.goal.kind, problem.goal.deadline_s) == (GoalKind.BANDWIDTH, 30)


def test_together_with_weights() -> None:
    problem = problem_of(
        "together {\n    all_reduce on line(4) among g[0..1] { weight 2 }\n"
        "    all_gather on line(4) among g[2..3] { weight 3 }\n}\n"
    )
    assert [(d.weight, d.in_place) for d in problem.demands] == [(2, InPlace.SAME), (3, InPlace.NONE)]
    assert layout(problem) == [
        ("all part 0", {(0, 0), (1, 0)}, {(0, 0), (1, 0)}, True),
        ("all part 1", {(0, 1), (1, 1)}, {(0, 1), (1, 1)}, True),
        *((f"g[2] part {k}", {(2, k)}, {(2, k), (3, k)}, False) for k in range(3)),
        *((f"g[3] part {k}", {(3, k)}, {(2, 3 + k), (3, 3 + k)}, False) for k in range(3)),
    ]
    assert size_factor(problem) == 6


def test_weights_stand_inside_together() -> None:
    assert codes_of("all_reduce on ring(4) { weight 2 }\n") == ["misplaced-option"]
    assert codes_of("together { all_reduce on ring(4) { weight 0 } }\n") == ["bad-limit"]
    assert codes_of("together { all_reduce on ring(4) { weight 65 } }\n") == ["bad-limit"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"kind": GoalKind.PARETO, "channels": 1, "chunks": None}),
        ("{ goal latency }", {"kind": GoalKind.LATENCY}),
        ("{ goal bandwidth, chunks up to 6 }", {"kind": GoalKind.BANDWIDTH, "chunks": 6}),
        ("{ goal pareto, steps up to 4, rounds up to 9 }", {"kind": GoalKind.PARETO, "steps": 4, "rounds": 9}),
        ("{ goal size 1 KiB .. 1 GB }", {"kind": GoalKind.SIZES, "min_bytes": 1024, "max_bytes": 10**9}),
        ("{ goal chunks 2, steps 2, rounds 3 }", {"kind": GoalKind.POINT, "chunks": 2, "steps": 2, "rounds": 3}),
        ("{ goal steps 2 }", {"kind": GoalKind.POINT, "chunks": None, "steps": 2, "rounds": None}),
        ("{ channels 2, blocks up to 8 }", {"channels": 2, "blocks": 8}),
        ("{ goal size 1 B .. 1 B, within 1500 ms }", {"deadline_s": Fraction(3, 2)}),
    ],
)
def test_goals(options: str, expected: dict[str, object]) -> None:
    goal = problem_of(f"all_gather on dgx1 {options}\n").goal
    assert {key: getattr(goal, key) for key in expected} == expected


def test_hints() -> None:
    hints = problem_of("broadcast on line(4) { relays g[1..2], symmetry off }\n").goal.hints
    assert hints.relays == (1, 2)
    assert hints.symmetry is False
    assert problem_of("broadcast on line(4)\n").goal.hints.relays is None


def test_switches_pass_on_with_relays() -> None:
    assert codes_of("all_gather on star(4) { relays g[0] }\n") == []


TORCH = {
    ("all_reduce", None), ("all_gather", None), ("reduce_scatter", None), ("broadcast", 2), ("reduce", 2),
    ("gather", 2), ("scatter", 2), ("all_to_all", None), ("all_to_all_v", None),
}  # fmt: skip


def test_goal_torch_is_each_collective_said_by_itself() -> None:
    """The set is that of the same collectives said one by one, and differs in nothing but places."""
    said = "\n".join(
        f"{name} on full(4) {{ goal size 1 KiB .. 1 MiB, chunks up to 3, {'root g[2]' if root else ''} }}"
        for name, root in sorted(TORCH, key=str)
    )
    whole = analyse_text("goal torch on full(4) { root g[2], goal size 1 KiB .. 1 MiB, chunks up to 3 }").problems
    apart = analyse_text(said).problems
    by_name = {problem.name: problem.without_spans() for problem in whole}
    assert by_name == {problem.name: problem.without_spans() for problem in apart}
    assert {(name, p.demands[0].root) for name, p in by_name.items()} == TORCH


def test_goal_torch_beside_others() -> None:
    """What the file says itself comes first, has its name, and takes the place of its like: not of others."""
    found = analyse_text(
        "goal torch on full(4)\n"
        "all_reduce on full(4) { op max, goal latency }\n"  # instead of the set's
        "broadcast on full(4) { root g[1] }\n"  # another root
        "gather on full(4) { root g[0] } scatter on full(4) among g[1], g[0], g[2], g[3]\n"  # the same; another order
        "all_gather on full(4) without g[0] -> g[1]\n"  # another machine
    )
    assert [(p.name, p.demands[0].root, p.goal.kind) for p in found.problems] == [
        ("all_reduce", None, GoalKind.LATENCY),
        ("broadcast", 1, GoalKind.PARETO),
        ("gather", 0, GoalKind.PARETO),
        ("scatter", 1, GoalKind.PARETO),
        ("all_gather", None, GoalKind.PARETO),
        ("all_gather_2", None, GoalKind.PARETO),
        ("reduce_scatter", None, GoalKind.PARETO),
        ("broadcast_2", 0, GoalKind.PARETO),
        ("reduce", 0, GoalKind.PARETO),
        ("scatter_2", 0, GoalKind.PARETO),
        ("all_to_all", None, GoalKind.PARETO),
        ("all_to_all_v", None, GoalKind.PARETO),
    ]
    assert found.problems[4].topology != found.problems[5].topology
    assert found.warnings == ()
    twice = analyse_text("goal torch on full(4)\ngoal torch on full(2)\ngoal torch on full(4)\n")
    assert [w.code for w in twice.warnings] == ["nothing-added"]
    assert len(twice.problems) == 18


def test_names() -> None:
    text = (
        "all_reduce on dgx1\nall_reduce on ring\nall_reduce on line as all_reduce_3\nall_reduce on full\n"
        "together { all_reduce on dgx1 }\nall_gather on dgx1 as all_gather\nall_gather on ring\n"
    )
    assert [p.name for p in analyse_text(text).problems] == [
        "all_reduce",
        "all_reduce_2",
        "all_reduce_3",
        "all_reduce_4",
        "together",
        "all_gather",
        "all_gather_2",
    ]


@pytest.mark.parametrize("name", ["class", "None", "local", "join", "describe", "__init__", "all_gather", "together"])
def test_names_that_cannot_be(name: str) -> None:
    assert codes_of(f"all_reduce on dgx1 as {name}\n")[0] in ("bad-name", "reserved-word")


def test_the_own_name_may_be_said() -> None:
    assert codes_of("all_reduce on dgx1 as all_reduce\n") == []


def test_emit() -> None:
    emit = analyse_text(
        "emit {\n    types f32, bf16\n    ops sum, max\n    arch sm_90\n    channels 2\n}\nall_gather on dgx1\n"
    ).emit
    assert emit == EmitSettings(("f32", "bf16"), (Op.SUM, Op.MAX), ("sm_90",), ("simple",), 2)
    assert analyse_text("all_gather on dgx1\n").emit == EmitSettings()


def test_emitted_channels_are_the_default_of_every_goal() -> None:
    text = "emit { channels 3 }\nall_gather on dgx1\nall_reduce on dgx1 { channels 1 }\n"
    assert [p.goal.channels for p in analyse_text(text).problems] == [3, 1]


def test_one_direction_is_enough_where_data_flows_one_way() -> None:
    sink = "topology x {\n    link l { 1 GB/s }\n    gpu g[3]\n    g[0] -> g[1] : l\n    g[1] -> g[2] : l\n}\n"
    assert codes_of(f"{sink}broadcast on x\n") == []
    assert codes_of(f"{sink}reduce on x {{ root g[2] }}\n") == []
    assert codes_of(f"{sink}scatter on x\nall_gather on x\nreduce on x\n") == ["not-connected"] * 2
    # A chunk that lies at several places need only come from one of them; contributions come from all.
    assert codes_of(f"{sink}collective c on x {{ chunk a at g[0], g[2]  need a at g[1] }}\n") == []
    assert codes_of(f"{sink}collective c on x {{ reduce a over g[0], g[2]  need a at g[1] }}\n") == ["not-connected"]


def test_topology_only_is_fine() -> None:
    analysis = analyse_text("topology x = ring(3)\n")
    assert analysis.problems == ()
    assert analysis.warnings == ()


def test_a_broken_topology_hides_no_other_error() -> None:
    text = "topology x { gpu g[n] }\nall_gather on x { op summ }\nbroadcast on x among g[0..1], h { root k }\n"
    assert codes_of(text) == ["unknown-name", "misplaced-option", "unknown-node"]
