"""What a compilation is summed up by: the object of ``--json``, and the table that people read."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from acclc.artefact import Artefact, CompiledCollective, Variant
from acclc.forecast import Headroom, bound_seconds
from acclc.ir.problem import Goal, GoalKind, NodeKind, Problem, Topology
from acclc.ir.result import Bound, Excluded, Result, Status
from acclc.packings import packing_facts
from acclc.simulate import chain_latency, size_bytes, step_time
from acclc.simulate.baselines import RINGED
from acclc.simulate.sizes import size_words

if TYPE_CHECKING:
    from acclc.driver import Options
    from acclc.repair import Repair, Repaired


def algbw_GBps(problem: Problem, time_per_byte: Fraction) -> float:  # noqa: N802  GBps is the unit
    """S / time for large messages, in GB/s, of a schedule or a bound that takes so many seconds a byte of shard."""
    if time_per_byte == 0:
        return float("inf")
    return float(size_bytes(problem, 1) / time_per_byte / 10**9)


def gap(problem: Problem, bound: Bound, variant: Variant) -> Fraction | None:
    """How much longer than the bound it takes for large messages: 0 is optimal. None where the bound is 0."""
    least = bound.throughput.time_per_byte
    return None if least == 0 else variant.time_per_byte / least - 1


def latency_us(problem: Problem, variant: Variant) -> float:
    """Time of an empty message, in microseconds: by the step model, or the latencies of a pipeline's longest chain."""
    schedule = variant.schedule
    seconds = chain_latency(problem, schedule) if schedule.pipelined else step_time(problem, schedule)[0]
    return float(seconds * 10**6)


def artefact_json(artefact: Artefact, folder: str | None, seconds: float) -> dict[str, Any]:
    """The object that ``acclc compile --json`` prints."""
    return {
        "name": artefact.name,
        "artefact": folder,
        "topology": topology_json(artefact.collectives[0].problem.topology),
        "seconds": seconds,
        "verified": True,  # the driver stops at the first level that does not verify
        "reproducible": artefact.reproducible,
        "collectives": [collective_json(c) for c in artefact.collectives],
    }


def topology_json(topology: Topology) -> dict[str, Any]:
    """A topology in figures; ``links`` counts every lane and direction."""
    return {
        "name": topology.name,
        "ranks": len(topology.ranks),
        "switches": sum(n.kind is NodeKind.SWITCH for n in topology.nodes),
        "links": sum(link.count for link in topology.links),
    }


def _problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "collective": problem.collective.value,
        "topology": problem.topology.name,
        "ranks": len(problem.group),
        "goal": goal_words(problem.goal).removeprefix("goal "),
    }


def _excluded_json(excluded: Iterable[Excluded]) -> list[dict[str, Any]]:
    return [
        {"chunks": e.chunks, "steps": e.steps, "rounds": e.rounds, "reason": e.reason, "detail": e.detail}
        for e in excluded
    ]


def collective_json(compiled: CompiledCollective) -> dict[str, Any]:
    """One entry of ``collectives``."""
    problem, proof = compiled.problem, compiled.proof
    return {
        **_problem_json(problem),
        "status": proof.status.value,
        "complete": proof.complete,
        "bound": bound_json(problem, proof.bound),
        "verified": True,
        "seconds": compiled.seconds,
        "excluded": _excluded_json(proof.excluded),
        "notes": list(proof.notes),
        "variants": [_variant_json(compiled, v) for v in compiled.variants],
    }


def bound_json(problem: Problem, bound: Bound) -> dict[str, Any]:
    """The bounds, with what proves them."""
    return {
        "rounds_per_chunk": _text(bound.rounds_per_chunk),
        "seconds_per_byte": str(bound.throughput.time_per_byte),
        "algbw_GBps": algbw_GBps(problem, bound.throughput.time_per_byte),
        "latency_us": float(bound.latency.seconds * 10**6),
        "steps": bound.latency.steps,
        "certificate": bound.throughput.certificate.__struct_config__.tag,
        "words": bound.throughput.words,
    }


def _variant_json(compiled: CompiledCollective, variant: Variant) -> dict[str, Any]:
    schedule, packing = variant.schedule, packing_facts(compiled, variant)
    distance = gap(compiled.problem, compiled.proof.bound, variant)
    return {
        "id": variant.id,
        "strategy": schedule.strategy,
        "realisation": variant.kernel.realisation.value,
        "chunks": schedule.chunks_per_shard,
        "steps": schedule.steps,
        "rounds": None if schedule.pipelined else schedule.total_rounds,
        "pipelined": schedule.pipelined,
        "algbw_GBps": algbw_GBps(compiled.problem, variant.time_per_byte),
        "latency_us": latency_us(compiled.problem, variant),
        "gap": _text(distance),
        "optimal": list(schedule.optimal),
        "min_bytes": variant.min_bytes,
        "max_bytes": variant.max_bytes,
        "packing": None if packing is None else packing.to_dict(),
        "solve_seconds": variant.solve_seconds,
    }


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def range_words(variant: Variant) -> str:
    """The sizes a variant is the best for, in words."""
    if variant.min_bytes is None:
        return "by name only"
    if variant.max_bytes is None:
        return "all sizes" if variant.min_bytes == 0 else f"from {size_words(variant.min_bytes)}"
    return f"{size_words(variant.min_bytes)} to {size_words(variant.max_bytes)}"


def gap_words(distance: Fraction | None) -> str:
    """A gap in words: ``optimal`` or a percentage above the bound."""
    if distance is None:
        return "-"
    return "at the bound" if distance == 0 else f"+{float(distance) * 100:.1f} %"


def goal_words(goal: Goal) -> str:
    """A goal as the language says it."""
    match goal.kind:
        case GoalKind.POINT:
            figures = (("chunks", goal.chunks), ("steps", goal.steps), ("rounds", goal.rounds))
            return "goal " + ", ".join(f"{word} {value}" for word, value in figures if value is not None)
        case GoalKind.SIZES:
            sizes = (s for s in (goal.min_bytes, goal.max_bytes) if s is not None)
            return "goal size " + " .. ".join(map(size_words, sizes))
        case _:
            return f"goal {goal.kind.value}"


def rounds_words(bound: Bound) -> str:
    """``7/6 rounds a chunk, ``; nothing where there is no common unit of rate."""
    rate = bound.rounds_per_chunk
    return "" if rate is None else f"{rate} round{'' if rate == 1 else 's'} a chunk, "


def no_schedule_json(name: str, problem: Problem, result: Result, seconds: float) -> dict[str, Any]:
    """What ``compile --json`` prints when a collective has no schedule (exit 3): as otherwise, but no artefact."""
    return {
        "name": name,
        "artefact": None,
        "topology": topology_json(problem.topology),
        "seconds": seconds,
        "verified": False,
        "reproducible": result.reproducible,
        "status": result.status.value,
        "collectives": [
            {
                **_problem_json(problem),
                "status": result.status.value,
                "complete": result.complete,
                "bound": bound_json(problem, result.bound),
                "verified": False,
                "seconds": seconds,
                "excluded": _excluded_json(result.excluded),
                "notes": list(result.notes),
                "variants": [],
            }
        ],
    }


def repair_json(repair: Repair, source: str, folder: str, options: Options, seconds: float) -> dict[str, Any]:
    """The object that ``acclc repair --json`` prints: that of ``compile``, and what became of what was there."""
    found = artefact_json(repair.artefact, folder, seconds)
    for entry, repaired in zip(found["collectives"], repair.collectives, strict=True):
        entry["before"] = _before_json(repaired)
        entry["searched"] = repaired.searched
        for variant in entry["variants"]:
            variant["kept"] = variant["id"] in repaired.kept
            variant["same_kernel"] = variant["id"] in repaired.same_kernels
    return {**found, "repaired": source, "without": list(options.without), "degrade": list(options.degrade)}


def _before_json(repaired: Repaired) -> dict[str, Any]:
    old, problem = repaired.before, repaired.before.problem
    return {
        "topology": problem.topology.name,
        "bound": bound_json(problem, old.proof.bound),
        "algbw_GBps": best_GBps(old),
        "variants": [
            {
                "id": fate.id,
                "fate": fate.word,
                "stays": fate.stays,
                "lost_links": list(fate.lost),
                "algbw_GBps": algbw_GBps(problem, fate.before),
                "algbw_GBps_now": None if fate.now is None else algbw_GBps(problem, fate.now),
            }
            for fate in repaired.fates
        ],
    }


def best_GBps(compiled: CompiledCollective) -> float:  # noqa: N802  GBps is the unit
    """S / time for large messages of a collective's fastest variant, in GB/s."""
    return max(algbw_GBps(compiled.problem, v.time_per_byte) for v in compiled.variants)


def no_schedule_words(problem: Problem, result: Result) -> str:
    """Why there is no schedule, for people."""
    if result.status is Status.INFEASIBLE:
        head = f"infeasible: no schedule of {problem.name!r} meets the goal's limits"
    else:
        head = f"unknown: no schedule of {problem.name!r} within the goal's limits was found in time"
    lines = [head, f"  bound: {result.bound.throughput.words}", f"         {result.bound.latency.words}"]
    lines += [f"  excluded: {_excluded_words(e)}" for e in result.excluded]
    lines += [f"  {note}" for note in result.notes]
    if result.status is Status.INFEASIBLE:
        lines.append("help: raise the limits, or leave one out to let acclc choose it")
    else:
        lines.append("help: give it more time with --time-limit, more --workers, or looser limits")
    return "\n".join(lines)


def _excluded_words(excluded: Excluded) -> str:
    figures = [("chunks", excluded.chunks), ("steps", excluded.steps)]
    if excluded.rounds > 0:  # a bound may exclude every number of rounds
        figures.append(("rounds", excluded.rounds))
    by = {
        "bound": "by a bound",
        "step_bound": "by a bound for these steps",
        "infeasible": "the solver proved that there is none",
    }.get(excluded.reason, excluded.reason)
    detail = f": {excluded.detail}" if excluded.detail else ""
    return ", ".join(f"{word} {value}" for word, value in figures) + f", {by}{detail}"


def headroom_json(headroom: Headroom) -> dict[str, Any]:
    """One entry of ``acclc bound --json``."""
    problem = headroom.problem
    least = bound_seconds(problem, headroom.bound, headroom.size)
    return {
        "name": problem.name,
        "collective": problem.collective.value,
        "topology": problem.topology.name,
        "bound": bound_json(problem, headroom.bound),
        "size": headroom.size,
        "bound_us": float(least * 10**6),
        "headroom": [
            {
                "name": b.name,
                "time_us": float(b.timeline.seconds * 10**6),
                "times_the_bound": float(b.timeline.seconds / least) if least else None,
            }
            for b in headroom.baselines
        ],
        "fabrics": _fabrics_json(headroom),
        "switches": _abilities_json(headroom),
    }


def _abilities_json(headroom: Headroom) -> dict[str, Any] | None:
    """The bound without multicast and reduction in switches, and what trees through them reach."""
    able, unit = headroom.abilities, headroom.problem.topology.unit
    if able is None or unit is None:
        return None
    return {
        "names": list(able.switches),
        "rounds_per_chunk_without": str(able.without * unit),
        "rounds_per_chunk_through": None if able.through is None else str(able.through * unit),
        "trees": able.trees,
    }


def _abilities_words(headroom: Headroom) -> list[str]:
    able, unit = headroom.abilities, headroom.problem.topology.unit
    if able is None or unit is None:
        return []
    names = able.switches[0] if len(able.switches) == 1 else f"{len(able.switches)} switches"
    reached = ""
    if able.through is not None:
        trees = "1 tree" if able.trees == 1 else f"{able.trees} trees"
        reached = f"; {trees} through it reach {able.through * unit}"
    return [
        f"  switches    without multicast and reduction in {names} the bound is {able.without * unit} rounds a chunk"
        f"{reached} (kernels do not use them yet)"
    ]


def _fabrics_json(headroom: Headroom) -> dict[str, Any] | None:
    """What the kinds of links do alone and together; None where there is only one kind."""
    if not headroom.parts:
        return None
    best = headroom.best_single
    return {
        "best_single": None if best is None else best.name,
        "gain_over_best_single": None if best is None else _text(headroom.gain(best)),
        "parts": [
            {
                "kinds": list(p.kinds),
                "connected": p.time_per_byte is not None,
                "algbw_GBps": None if p.time_per_byte is None else algbw_GBps(headroom.problem, p.time_per_byte),
                "gain_of_all": _text(headroom.gain(p)),
            }
            for p in headroom.parts
        ],
    }


def _fabrics_words(headroom: Headroom) -> list[str]:
    """The gain of all fabrics together over the best single one, and over each part."""
    if not headroom.parts:
        return []
    best = headroom.best_single
    gain = None if best is None else headroom.gain(best)
    if best is None or gain is None:
        head = "no single kind of link connects all ranks, it takes several"
    else:
        head = f"all kinds of links together: {float(gain):.2f} x {best.name}, the best single one, by the bounds"
    lines = [f"  fabrics     {head}"]
    for part in headroom.parts:
        if part.time_per_byte is None:
            lines.append(f"    {part.name:24} does not connect all ranks")
            continue
        gain = headroom.gain(part)
        times = "" if gain is None else f"  all together {float(gain):.2f} x"
        lines.append(f"    {part.name:24} {algbw_GBps(headroom.problem, part.time_per_byte):10.3f} GB/s at most{times}")
    return lines


def headroom_words(headroom: Headroom) -> str:
    """The bounds and the headroom of a collective, for people."""
    problem, bound = headroom.problem, headroom.bound
    least = bound_seconds(problem, bound, headroom.size)
    rate = algbw_GBps(problem, bound.throughput.time_per_byte)
    lines = [f"{problem.name} on {problem.topology.name}, {len(problem.group)} ranks"]
    rounds = rounds_words(bound)
    lines.append(f"  throughput  {rounds}at most {rate:.3f} GB/s: {bound.throughput.words}")
    lines.append(f"  latency     {bound.latency.words}")
    lines.append(f"  headroom    at {size_words(headroom.size)} the bound is {float(least * 10**6):.1f} us")
    for baseline in headroom.baselines:
        seconds = baseline.timeline.seconds
        times = f"{float(seconds / least):.2f} x the bound" if least else ""
        lines.append(f"    {baseline.name:24} {float(seconds * 10**6):10.1f} us  {times}".rstrip())
    shapes = ("ring", "tree") if problem.collective in RINGED else ("direct",)
    for shape in sorted(set(shapes) - {b.name for b in headroom.baselines}):
        lines.append(f"    {shape:24} left out: this graph has none, or it takes too many transfers to simulate")
    lines += _fabrics_words(headroom)
    lines += _abilities_words(headroom)
    return "\n".join(lines)
