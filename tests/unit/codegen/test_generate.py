"""KernelPlan -> text: the golden file of a kernel on a page, the template's strictness, sizes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import jinja2
import pytest
from codegen_tools import DEVICE, exchange
from hand_built import dgx1, problem_of

from acclc.codegen import generate
from acclc.codegen.generate import PRELUDE, environment, prelude
from acclc.ir.problem import Collective, LinkId, Rank
from acclc.ir.schedule import OWN, Output, Schedule, Transfer, TransferId, equal_chunks
from acclc.lower import lower_kernel, lower_program

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "kernel_exchange.cu"


def test_the_generated_part_is_as_it_was() -> None:
    """After a wanted change: ACCLC_UPDATE_GOLDEN=1 writes the file anew; read the difference."""
    text = generate(exchange())
    found = text.replace(prelude(), "// (the prelude)\n")
    assert len(found) < len(text)
    if os.environ.get("ACCLC_UPDATE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_the_same_program_gives_the_same_text() -> None:
    assert generate(exchange()) == generate(exchange())


def test_the_prelude_is_whole_and_includes_nothing() -> None:
    text = generate(exchange())
    assert "#include" not in text
    assert "#pragma once" not in text
    for name in PRELUDE["simple"]:
        lines = (DEVICE / name).read_text().splitlines()
        kept = [x for x in lines if not re.match(r"#(pragma once|include)", x)]
        assert "\n".join(kept) in text
    assert sorted(p.name for p in DEVICE.iterdir()) == sorted(PRELUDE["ll"])


def rendered(folder: Path, template: str, **names: object) -> str:
    (folder / "t.j2").write_text(template)
    return environment(folder).get_template("t.j2").render(**names)


def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(jinja2.UndefinedError, match="'missing' is undefined"):
        rendered(tmp_path, "int x = @{missing};")
    with pytest.raises(jinja2.UndefinedError, match="has no attribute 'missing'"):
        rendered(tmp_path, "//% for s in plan\n@{s.missing}\n//% endfor\n", plan=[exchange()])


def test_braces_percent_signs_and_comments_of_cpp_survive(tmp_path: Path) -> None:
    code = 'struct S { int a[2] = {{1}, {2}}; };  // {{ x }} {% y %} {# z #} %% #\nasm("mov %0, %%r;" :: "r"(a % b));\n'
    assert rendered(tmp_path, code + "int v = @{value};\n", value=3) == code + "int v = 3;\n"


def dgx1_all_gather(chunks: int) -> Schedule:
    """Every GPU's shard to the four it has links to, and by these to the other three: many transfers, two steps."""
    problem = problem_of(dgx1(), Collective.ALL_GATHER)
    cut = equal_chunks(tuple(s.id for s in problem.shards), chunks)
    links = {(x.src, x.dst): x.id for x in problem.topology.links}
    moves: list[Transfer] = []
    outputs: list[Output] = []

    def move(chunk: int, src: int, dst: int, step: int, operand: TransferId) -> TransferId:
        path: tuple[LinkId, ...] = (links[src, dst],)  # type: ignore[index]
        id = TransferId(len(moves))
        moves.append(Transfer(id, cut[chunk].id, Rank(src), Rank(dst), path, step, (operand,)))
        outputs.append(Output(Rank(dst), cut[chunk].id, (id,)))
        return id

    first: dict[tuple[int, int], TransferId] = {}
    for chunk in cut:
        owner = int(chunk.shard)
        outputs.append(Output(Rank(owner), chunk.id, (OWN,)))
        for peer in range(8):
            if (owner, peer) in links:
                first[chunk.id, peer] = move(chunk.id, owner, peer, 0, OWN)
    for chunk in cut:
        owner = int(chunk.shard)
        for rank in range(8):
            if rank != owner and (chunk.id, rank) not in first:
                via = next(p for p in range(8) if (chunk.id, p) in first and (p, rank) in links)
                move(chunk.id, via, rank, 1, first[chunk.id, via])
    return Schedule(cut, tuple(moves), tuple(outputs), (chunks, chunks * 4), "hand")


def test_the_source_of_a_large_kernel_stays_small() -> None:
    """The bar for a DGX-1 variant is 200 KB; its largest all-gather of interest has six chunks, 336 transfers."""
    problem = problem_of(dgx1(), Collective.ALL_GATHER)
    schedule = dgx1_all_gather(6)
    assert len(schedule.transfers) == 336
    text = generate(lower_kernel(problem, lower_program(problem, schedule)))
    assert len(text.encode()) < 120_000
