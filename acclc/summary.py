"""What a compilation is summed up by: the object of ``--json``, and the table that people read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from acclc.artefact import Artefact, CompiledCollective, Variant
from acclc.forecast import Headroom, bound_seconds
from acclc.ir.problem import NodeKind, Problem
from acclc.ir.result import Bound, Result, Status
from acclc.simulate import size_bytes, step_time


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
    """Time of an empty message by the step model, in microseconds."""
    return float(step_time(problem, variant.schedule)[0] * 10**6)


def artefact_json(artefact: Artefact, folder: str | None, seconds: float) -> dict[str, Any]:
    """The object that ``acclc compile --json`` prints."""
    topology = artefact.collectives[0].problem.topology
    switches = sum(n.kind is NodeKind.SWITCH for n in topology.nodes)
    return {
        "name": artefact.name,
        "artefact": folder,
        "topology": {
            "name": topology.name,
            "ranks": len(topology.ranks),
            "switches": switches,
            "links": sum(link.count for link in topology.links),
        },
        "seconds": seconds,
        "verified": True,  # the driver stops at the first level that does not verify
        "reproducible": artefact.reproducible,
        "collectives": [collective_json(c) for c in artefact.collectives],
    }


def collective_json(compiled: CompiledCollective) -> dict[str, Any]:
    """One entry of ``collectives``."""
    problem, proof = compiled.problem, compiled.proof
    return {
        "name": compiled.name,
        "collective": problem.collective.value,
        "topology": problem.topology.name,
        "ranks": len(problem.group),
        "status": proof.status.value,
        "complete": proof.complete,
        "bound": bound_json(problem, proof.bound),
        "verified": True,
        "seconds": compiled.seconds,
        "excluded": [
            {"chunks": e.chunks, "steps": e.steps, "rounds": e.rounds, "reason": e.reason, "detail": e.detail}
            for e in proof.excluded
        ],
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
    schedule = variant.schedule
    distance = gap(compiled.problem, compiled.proof.bound, variant)
    return {
        "id": variant.id,
        "strategy": schedule.strategy,
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
        "solve_seconds": variant.solve_seconds,
    }


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def size_words(size: int) -> str:
    """A size as people write it: ``512 B``, ``64 KiB``, ``1.5 MiB``."""
    amount, unit = Fraction(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{float(amount):.3g} {unit}"


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


def no_schedule_json(problem: Problem, result: Result) -> dict[str, Any]:
    """What ``--json`` prints when there is no schedule (exit 3)."""
    return {
        "name": problem.name,
        "status": result.status.value,
        "bound": bound_json(problem, result.bound),
        "excluded": [
            {"chunks": e.chunks, "steps": e.steps, "rounds": e.rounds, "reason": e.reason, "detail": e.detail}
            for e in result.excluded
        ],
        "notes": list(result.notes),
        "verified": False,
    }


def no_schedule_words(problem: Problem, result: Result) -> str:
    """Why there is no schedule, for people."""
    if result.status is Status.INFEASIBLE:
        head = f"infeasible: no schedule of {problem.name!r} meets the goal's limits"
    else:
        head = f"unknown: no schedule of {problem.name!r} within the goal's limits was found in time"
    lines = [head, f"  bound: {result.bound.throughput.words}", f"         {result.bound.latency.words}"]
    for e in result.excluded:
        lines.append(
            f"  excluded: chunks {e.chunks}, steps {e.steps}, rounds {e.rounds}: {e.reason} {e.detail}".rstrip()
        )
    lines += [f"  {note}" for note in result.notes]
    if result.status is Status.INFEASIBLE:
        lines.append("help: raise the limits, or leave one out to let acclc choose it")
    else:
        lines.append("help: give it more time with --time-limit, more --workers, or looser limits")
    return "\n".join(lines)


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
    }


def headroom_words(headroom: Headroom) -> str:
    """The bounds and the headroom of a collective, for people."""
    problem, bound = headroom.problem, headroom.bound
    least = bound_seconds(problem, bound, headroom.size)
    rate = algbw_GBps(problem, bound.throughput.time_per_byte)
    lines = [f"{problem.name} on {problem.topology.name}, {len(problem.group)} ranks"]
    rounds = "" if bound.rounds_per_chunk is None else f"{bound.rounds_per_chunk} rounds a chunk, "
    lines.append(f"  throughput  {rounds}at most {rate:.3f} GB/s: {bound.throughput.words}")
    lines.append(f"  latency     {bound.latency.words}")
    lines.append(f"  headroom    at {size_words(headroom.size)} the bound is {float(least * 10**6):.1f} us")
    for baseline in headroom.baselines:
        seconds = baseline.timeline.seconds
        times = f"{float(seconds / least):.2f} x the bound" if least else ""
        lines.append(f"    {baseline.name:24} {float(seconds * 10**6):10.1f} us  {times}")
    return "\n".join(lines)
