"""Texts with a few words changed: problems or diagnostics come out, never another exception."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from test_sema_whole_files import CLUSTER, WORKSTATION

from acclc.diagnostics import DiagnosticError, render
from acclc.sema import analyse_text

CUSTOM = """
collective halo on torus(3, 2) {
    for x in 0..<3, y in 0..<2 {
        let next = (x + 1) % 3
        chunk east[x, y] at g[x, y]
        need east[x, y] at g[next, y]
    }
    reduce total over g[0..1, 0]
    need total at g
} with { op max, goal bandwidth, relays g[0, 0], g[1, 0] }
together as tp { all_reduce on dgx1 among g[0..3] { op sum }  broadcast on dgx1 among g[4..7] { root g[5], weight 2 } }
send_recv on ring(4) { pairs g[0] -> g[1] }
emit { types f32 ops sum channels 2 }
"""
SMALL = CLUSTER.replace("n = 16", "n = 2").replace("pod(4)", "pod")
WORDS = [re.findall(r'"[^"]*"|\w+|\.\.<|\.\.|<->|->|\*\*|\S|\n', text) for text in (SMALL, WORKSTATION, CUSTOM)]
ALL_WORDS = sorted({word for words in WORDS for word in words} | {"0", "7", "**", "99999999", "without", "g", "n"})


@st.composite
def changed_texts(draw: st.DrawFn) -> str:
    words = list(draw(st.sampled_from(WORDS)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(words) - 1))
        words[place : place + draw(st.integers(0, 1))] = draw(st.sampled_from([[], [draw(st.sampled_from(ALL_WORDS))]]))
    return " ".join(words)


@given(changed_texts())
@settings(max_examples=150, deadline=None)
def test_problems_or_diagnostics(text: str) -> None:
    try:
        analysis = analyse_text(text)
    except DiagnosticError as error:
        found = error.diagnostics  # at least one error, or DiagnosticError itself would have refused
        analysis = None
    else:
        found = analysis.warnings
    assert all(d.severity == "warning" or analysis is None for d in found)
    assert len(re.findall(r"^(?:error|warning)\[", render(found), re.MULTILINE)) == len(found)
    if analysis is None:
        return
    for problem in analysis.problems:
        ranks = set(problem.topology.ranks)
        assert all(shard.inputs and shard.outputs for shard in problem.shards)
        assert all({*shard.sources, *shard.targets} <= ranks for shard in problem.shards)
