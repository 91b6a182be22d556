"""How an artefact shows itself in a notebook: still pictures and figures, no script, no network."""

from __future__ import annotations

from html import escape

from acclc.artefact import Artefact, CompiledCollective
from acclc.summary import algbw_GBps, gap, gap_words, goal_words, latency_us, range_words, rounds_words
from acclc.view.picture import MOST_NODES, html_table, topology_svg


def artefact_html(artefact: Artefact) -> str:
    """The machines, and of each collective its variants and what proves how good they are."""
    machines = dict.fromkeys(c.problem.topology for c in artefact.collectives)
    pictures = "".join(topology_svg(t) for t in machines if len(t.nodes) <= MOST_NODES)
    return f"<div><h3>{escape(artefact.name)}</h3>{pictures}{''.join(map(_collective, artefact.collectives))}</div>"


def _collective(compiled: CompiledCollective) -> str:
    problem, bound = compiled.problem, compiled.proof.bound
    rows = [
        (
            v.id,
            str(v.schedule.chunks_per_shard),
            str(v.schedule.steps),
            f"{algbw_GBps(problem, v.time_per_byte):.2f}",
            gap_words(gap(problem, bound, v)),
            f"{latency_us(problem, v):.2f}",
            range_words(v),
        )
        for v in compiled.variants
    ]
    head = (
        f"<b>{escape(compiled.name)}</b>: {problem.collective.value} on {escape(problem.topology.name)}, "
        f"{len(problem.group)} ranks; {escape(goal_words(problem.goal))}: {compiled.proof.status.value}"
    )
    rate = algbw_GBps(problem, bound.throughput.time_per_byte)
    proof = escape(f"bound {rounds_words(bound)}{rate:.2f} GB/s: {bound.throughput.words}")
    table = html_table(("variant", "chunks", "steps", "GB/s", "gap", "us", "best for"), rows)
    return f"<p>{head}</p>{table}<p>{proof}</p>"
