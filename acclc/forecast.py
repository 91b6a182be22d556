"""What to expect: simulated times of variants beside the bound, ring and tree; and the same for the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from acclc.artefact import CompiledCollective, Variant
from acclc.fabrics import Part
from acclc.ir.problem import Problem
from acclc.ir.result import Bound
from acclc.packings import packing_words
from acclc.simulate import Baseline, baselines, shard_bytes, simulate
from acclc.view.model import ViewCollective, ViewHeadroom, ViewInput, ViewTimes, ViewVariant
from acclc_runtime.slicing import SLICE_BYTES


@dataclass(frozen=True, slots=True)
class Abilities:
    """What multicast and reduction in switches are worth; seconds a byte of shard.

    ``without``: the bound if no switch had them. ``through``: what trees through the switches reach, if known.
    """

    switches: tuple[str, ...]
    without: Fraction
    through: Fraction | None
    trees: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """A problem's bound beside what NCCL's shapes reach on the same graph, at ``size`` bytes; and beside the bounds on
    parts of the machine, where it has links of several kinds."""

    problem: Problem
    bound: Bound
    size: int
    baselines: tuple[Baseline, ...]
    parts: tuple[Part, ...] = ()
    abilities: Abilities | None = None
    """None where no switch can do more than pass on."""

    def gain(self, part: Part) -> Fraction | None:
        """How many times as fast as a part the whole machine may be, by the bounds; None: the part is not connected."""
        least = self.bound.throughput.time_per_byte
        return None if part.time_per_byte is None or least == 0 else part.time_per_byte / least

    @property
    def best_single(self) -> Part | None:
        """The fastest fabric that connects all by itself."""
        alone = [p for p in self.parts if p.single and p.time_per_byte is not None]
        return min(alone, key=lambda p: p.time_per_byte or 0, default=None)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One line of ``acclc simulate``: who, at which S (bytes), how many seconds, and what limits it."""

    collective: str
    variant: str
    size: int
    seconds: Fraction
    bound_seconds: Fraction
    limiting: str

    def to_dict(self) -> dict[str, Any]:
        """The entry of ``--json``."""
        return {
            "collective": self.collective,
            "variant": self.variant,
            "size": self.size,
            "time_us": float(self.seconds * 10**6),
            "bound_us": float(self.bound_seconds * 10**6),
            "algbw_GBps": float(self.size / self.seconds / 10**9) if self.seconds else None,
            "limiting": self.limiting,
        }


def bound_seconds(problem: Problem, bound: Bound, size: int) -> Fraction:
    """No schedule is faster at S = ``size`` bytes: the larger of the two bounds."""
    return max(bound.throughput.time_per_byte * shard_bytes(problem, size), bound.latency.seconds)


def forecast(
    collective: CompiledCollective, variants: Iterable[Variant], sizes: Sequence[int], slice_bytes: int = SLICE_BYTES
) -> Iterator[Forecast]:
    """Simulate variants (pipelined ones in slices of at most so many bytes), ring and tree at each size."""
    problem, bound = collective.problem, collective.proof.bound
    for size in sizes:
        least = bound_seconds(problem, bound, size)
        shard = shard_bytes(problem, size)
        for variant in variants:
            timeline = simulate(problem, variant.schedule, shard, slice_bytes=slice_bytes)
            yield Forecast(collective.name, variant.id, size, timeline.seconds, least, timeline.limiting)
        for baseline in baselines(problem, shard):
            timeline = baseline.timeline
            yield Forecast(collective.name, baseline.name, size, timeline.seconds, least, timeline.limiting)


Chosen = Sequence[tuple[CompiledCollective, tuple[Variant, ...]]]
"""Collectives with those of their variants that are shown."""


def view_input(name: str, chosen: Chosen, sizes: Sequence[int], *, headroom: bool = False) -> ViewInput:
    """Gather what the page and the trace show, with times simulated at each S of ``sizes`` (bytes).

    ``headroom``: ring, tree and the bound at each size too, for the page to compare with.
    """
    return ViewInput(name, tuple(_view_collective(c, variants, sizes, headroom) for c, variants in chosen))


def side_by_side(views: Sequence[ViewInput]) -> ViewInput:
    """Return what one page shows of several artefacts to compare (of one: itself); their names tell them apart."""
    if len(views) == 1:
        return views[0]
    collectives = (replace(c, artefact=view.name) for view in views for c in view.collectives)
    return ViewInput(" and ".join(view.name for view in views), tuple(collectives))


def _view_collective(
    collective: CompiledCollective, variants: Iterable[Variant], sizes: Sequence[int], headroom: bool
) -> ViewCollective:
    problem, proof = collective.problem, collective.proof
    return ViewCollective(
        problem=problem,
        bound=proof.bound,
        status=proof.status,
        variants=tuple(_view_variant(problem, v, sizes) for v in variants),
        excluded=proof.excluded,
        notes=(*packing_words(collective), *proof.notes),
        headroom=tuple(_view_headroom(problem, proof.bound, size) for size in sizes) if headroom else (),
    )


def _view_headroom(problem: Problem, bound: Bound, size: int) -> ViewHeadroom:
    shard = shard_bytes(problem, size)
    others = tuple((b.name, b.timeline.seconds) for b in baselines(problem, shard))
    return ViewHeadroom(shard, bound_seconds(problem, bound, size), others)


def _view_variant(problem: Problem, variant: Variant, sizes: Sequence[int]) -> ViewVariant:
    return ViewVariant(
        schedule=variant.schedule,
        times=tuple(_view_times(problem, variant, size) for size in sizes),
        kernel_source=variant.source,
        min_bytes=variant.min_bytes,
        max_bytes=variant.max_bytes,
        by_name=variant.min_bytes is None and variant.max_bytes is None,
        program=variant.program,
        solve_seconds=variant.solve_seconds or None,
    )


def _view_times(problem: Problem, variant: Variant, size: int) -> ViewTimes:
    timeline = simulate(problem, variant.schedule, shard_bytes(problem, size))
    times = timeline.transfers
    return ViewTimes(
        timeline.shard_bytes,
        tuple(t.start for t in times),
        tuple(t.sent for t in times),
        tuple(t.arrived for t in times),
    )
