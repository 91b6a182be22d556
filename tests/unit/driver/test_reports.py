"""What the summary says of packings, and what `acclc bound` says of several kinds of links."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner
from hand_built import both, problem_of, topology

from acclc import compile_text
from acclc.artefact import CompiledCollective
from acclc.cli import main_group
from acclc.driver import Options, headroom
from acclc.fabrics import fabrics, parts, restrict
from acclc.forecast import view_input
from acclc.ir.problem import Collective, Topology
from acclc.packings import packing_facts, packing_words
from acclc.summary import collective_json, headroom_json, headroom_words, latency_us

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture(scope="module")
def chain() -> CompiledCollective:
    """Steps for small messages, a pipeline for large ones."""
    return compile_text("broadcast on ring(8) { chunks up to 2 }", "chain").collectives[0]


def test_a_packing_says_its_size_and_where_it_takes_over(chain: CompiledCollective) -> None:
    *_, packed = chain.variants
    facts = packing_facts(chain, packed)
    assert facts is not None
    assert (facts.k, facts.trees, facts.depth, facts.loss) == (2, 2, 7, 0)
    assert facts.min_bytes == packed.min_bytes
    assert facts.instead_of == chain.variants[0].id
    assert facts.simulated
    assert packing_facts(chain, chain.variants[0]) is None
    *_, words = packing_words(chain)
    assert words.startswith("p2d7: pipelined packing of 2 trees, k = 2, depth 7, at the bound; the best from ")
    assert words.endswith(f"for the smallest {chain.variants[0].id} is, by simulation")
    assert collective_json(chain)["variants"][-1]["packing"] == facts.to_dict()
    assert collective_json(chain)["variants"][0]["packing"] is None
    assert words in view_input("x", [(chain, chain.variants)], ()).collectives[0].notes


def test_a_packing_with_a_loss_and_one_that_is_never_the_best(chain: CompiledCollective) -> None:
    *others, packed = chain.variants
    slower = replace(packed, time_per_byte=packed.time_per_byte * Fraction(21, 20), min_bytes=None)
    *_, words = packing_words(replace(chain, variants=(*others, slower)))
    assert "5 % above the bound; the best for no size" in words


def test_a_flow_says_its_paths() -> None:
    """Of 64 shards 8 stay where they are, and four are cut in two."""
    (flow,) = compile_text("all_to_all on dgx1 { goal bandwidth, chunks up to 2 }", "flow").collectives
    facts = packing_facts(flow, flow.variants[0])
    assert facts is not None
    assert (facts.kind, facts.k, facts.trees, facts.depth, facts.loss) == ("flow", 3, 60, 2, 0)
    (words,) = packing_words(flow)
    assert words.endswith("pipelined flow of 60 paths, k = 3, depth 2, at the bound")


def test_an_empty_message_does_not_fill_a_pipeline(chain: CompiledCollective) -> None:
    assert latency_us(chain.problem, chain.variants[-1]) == pytest.approx(7.0)


def test_explain_tells_of_an_artefact(tmp_path: Path) -> None:
    folder = compile_text("broadcast on ring(4) { goal bandwidth, chunks up to 2 }", "told").save(tmp_path / "told")
    done = CliRunner().invoke(main_group, ["explain", str(folder)], standalone_mode=False)
    assert done.exception is None
    assert "bound 1/2 rounds a chunk" in done.output
    assert "pipelined packing of 2 trees" in done.output


ODD = """
topology odd {
    link a { %s GB/s, 1 us }
    link b { %s GB/s, 1 us }
    link c { %s GB/s, 1 us }
    gpu g[8]
    for i in 0..7 { g[i] <-> g[(i + 1) %% 8] : a }
    for i in 0..7 { g[i] <-> g[(i + 3) %% 8] : b }
    for i in 0..3 { g[i] <-> g[i + 4] : c }
    g[0] <-> g[2] : c
}
all_gather on odd { goal bandwidth, chunks up to 3 }
"""


@pytest.mark.parametrize(
    ("rates", "exact"),
    [
        (("7.001", "13.37", "3.1459"), "k = 62697 units a shard"),
        (("7.00100000000001", "13.3700000000003", "3.14590000000007"), "k = 4388790000000069 units a shard"),
    ],
)
def test_an_enormous_k_is_stated_with_what_it_costs_not_to_take_it(rates: tuple[str, ...], exact: str) -> None:
    """The second is so large that its flows would not fit 64 bits."""
    (compiled,) = compile_text(ODD % rates).collectives
    (note,) = (n for n in compiled.proof.notes if n.startswith("packing: "))
    assert exact in note
    (variant,) = compiled.variants
    facts = packing_facts(compiled, variant)
    assert facts is not None
    assert facts.k <= 3
    assert note.endswith(f"k = {facts.k} was taken, which costs {float(100 * facts.loss):.3g} %")


# -- kinds of links


def kinds_of(machine: Topology, kinds: list[str]) -> Topology:
    links = tuple(replace(e, cls=replace(e.cls, kind=k)) for e, k in zip(machine.links, kinds, strict=True))
    return replace(machine, links=links)


def test_the_gain_over_the_best_single_fabric() -> None:
    """A ring of nvlink at 10, and pcie at 5 through a switch: 3/20 alone, 3/5 alone, 3/25 together."""
    wires = both([(i, (i + 1) % 4, 1, 10) for i in range(4)]) + both([(i, 4, 1, 5) for i in range(4)])
    machine = kinds_of(topology(4, wires, 1), ["nvlink"] * 8 + ["pcie"] * 8)
    found = parts(problem_of(machine, Collective.ALL_GATHER))
    assert [p.kinds for p in found] == [("nvlink",), ("pcie",)]
    assert [p.time_per_byte for p in found] == [Fraction(3, 20 * 10**9), Fraction(3, 5 * 10**9)]


def test_what_goes_over_the_host_is_one_fabric() -> None:
    wires = both([(0, 2, 1, 5), (1, 3, 1, 5), (2, 3, 1, 5), (0, 1, 1, 1)])
    machine = kinds_of(topology(2, wires, 2), ["pcie"] * 4 + ["host"] * 2 + [""] * 2)
    assert fabrics(machine) == (("pcie", "host"), ("other",))
    assert [p.time_per_byte is not None for p in parts(problem_of(machine, Collective.ALL_GATHER))] == [True, True]


def test_one_kind_has_no_parts() -> None:
    machine = topology(3, both([(0, 1, 1, 1), (1, 2, 1, 1)]))
    assert parts(problem_of(machine, Collective.ALL_GATHER)) == ()


def test_budgets_stay_over_the_links_that_are_left() -> None:
    wires = both([(0, 1, 1, 10), (0, 1, 1, 4)])
    machine = kinds_of(topology(2, wires, budgets=[((0, 2), 6), ((1, 3), 12)]), ["a", "a", "b", "b"])
    left = restrict(machine, ("b",))
    assert [e.id for e in left.links] == [0, 1]
    assert [b.links for b in left.budgets] == [(0,), (1,)]
    assert restrict(machine, ("c",)).budgets == ()


def test_the_examples_print_their_gain() -> None:
    box, _ = headroom(EXAMPLES / "hetero_box.accl", Options(), size=2**16)
    best = box.best_single
    assert best is not None
    assert best.kinds == ("nvlink",)
    # alone: 4 shards over two links of 20 between the quads; all: 7 shards into g[1] over 4 x 20 + 12
    assert box.gain(best) == Fraction(4, 40) / Fraction(7, 92)
    assert "all kinds of links together: 1.31 x nvlink, the best single one" in headroom_words(box)
    entry = headroom_json(box)["fabrics"]
    assert (entry["best_single"], entry["gain_over_best_single"]) == ("nvlink", "46/35")
    assert {tuple(p["kinds"]): p["connected"] for p in entry["parts"]}["net",] is False
    cluster, _ = headroom(EXAMPLES / "hetero_cluster.accl", Options(), size=2**16)
    assert cluster.best_single is None
    assert "no single kind of link connects all ranks" in headroom_words(cluster)
    assert json.dumps(headroom_json(cluster))


def test_a_kind_may_be_called_host() -> None:
    text = "topology t { link upi { 10 GB/s, 1 us, kind host } gpu g[2] g[0] <-> g[1] : upi } all_gather on t"
    (compiled,) = compile_text(text).collectives
    assert {c.kind for c in compiled.problem.topology.classes} == {"host"}
