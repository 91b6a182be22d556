"""What reports say of a pipelined schedule, a packing of trees or a flow: its size, loss, and where it is the best."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from acclc.artefact import CompiledCollective, Variant
from acclc.simulate import simulated
from acclc.simulate.sizes import size_words


@dataclass(frozen=True, slots=True)
class PackingFacts:
    """Facts of one pipelined variant, all read off its schedule and the bound."""

    kind: str
    """``packing`` (of trees) or ``flow``, whose trees are paths."""
    k: int
    """Units that a shard is cut into: every tree carries some of them."""
    trees: int
    """Those of shards that move."""
    depth: int
    """Levels of transfers; of a reduction that all need, up and down together."""
    loss: Fraction
    """How much longer than the bound it takes for large messages; nought is optimal."""
    min_bytes: int | None
    """The size from which on it is the best; None: nowhere."""
    instead_of: str | None
    """The variant that is the best for the smallest messages; None if it is this one or there is no other."""
    simulated: bool
    """Whether sizes were chosen by event simulation, or by the closed form."""

    def to_dict(self) -> dict[str, Any]:
        """The entry of ``--json``."""
        return {
            "kind": self.kind,
            "k": self.k,
            "trees": self.trees,
            "depth": self.depth,
            "loss": str(self.loss),
            "min_bytes": self.min_bytes,
            "instead_of": self.instead_of,
            "chosen_by": "simulation" if self.simulated else "closed form",
        }


def packing_facts(compiled: CompiledCollective, variant: Variant) -> PackingFacts | None:
    """Return the facts of a pipelined schedule; None for a schedule in steps."""
    schedule, least = variant.schedule, compiled.proof.bound.throughput.time_per_byte
    if not schedule.pipelined:
        return None
    first = next((v for v in compiled.schedules if v.min_bytes == 0), None)
    return PackingFacts(
        kind=schedule.strategy,
        k=lcm(*(c.end.denominator for c in schedule.chunks)),
        trees=len({t.chunk for t in schedule.transfers}),
        depth=schedule.steps,
        loss=variant.time_per_byte / least - 1 if least else Fraction(0),
        min_bytes=variant.min_bytes,
        instead_of=None if first is None or first.id == variant.id else first.id,
        simulated=simulated(compiled.problem, [v.schedule for v in compiled.schedules]),
    )


def packing_words(compiled: CompiledCollective) -> list[str]:
    """A sentence for each pipelined schedule of a collective."""
    found = ((v, packing_facts(compiled, v)) for v in compiled.schedules)
    return [_words(v, facts) for v, facts in found if facts is not None]


def _words(variant: Variant, facts: PackingFacts) -> str:
    what = "path" if facts.kind == "flow" else "tree"
    trees = f"{facts.trees} {what}{'' if facts.trees == 1 else 's'}"
    text = f"{variant.id}: pipelined {facts.kind} of {trees}, k = {facts.k}, depth {facts.depth}, "
    text += "at the bound" if facts.loss == 0 else f"{float(100 * facts.loss):.3g} % above the bound"
    how = "by simulation" if facts.simulated else "by the closed form (too large to simulate)"
    if facts.min_bytes is None:
        return f"{text}; the best for no size, {how}"
    if facts.instead_of is None:
        return text
    return f"{text}; the best from {size_words(facts.min_bytes)} on, for the smallest {facts.instead_of} is, {how}"
