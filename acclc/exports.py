"""``acclc export``: variants of an artefact as files of other engines, each verified as what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from acclc.artefact import CompiledCollective, Variant
from acclc.driver import InternalError
from acclc.export import msccl, mscclpp
from acclc.export.errors import ExportError
from acclc.importers.msccl_xml import read_algorithm
from acclc.importers.mscclpp_json import read_plan
from acclc.ir.mscclpp import MAX_SIZE
from acclc.ir.problem import Collective, Problem
from acclc.ir.schedule import Schedule
from acclc.source import Source
from acclc.verify import Report
from acclc.verify.msccl import TARGETS, check_algorithm, check_limits, check_text
from acclc.verify.mscclpp import check_plan

FORMATS = {"msccl-xml": ".xml", "mscclpp": ".json"}
_SMALL = {Collective.GATHER, Collective.SCATTER}
"""Both engines count one rank's part of these, where S counts all."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How to export. ``min_bytes`` and ``max_bytes`` (included) are S; None: those of the variant."""

    format: str
    target: str = "executor"
    protocol: str = "Simple"
    in_place: bool = False
    blocks: int = mscclpp.BLOCKS
    min_bytes: int | None = None
    max_bytes: int | None = None


def export_text(
    problem: Problem, schedule: Schedule, name: str, sizes: tuple[int, int | None], options: ExportOptions
) -> str:
    """Return a schedule (known to be right) in a format, read back and verified. ``sizes``: S, None: no limit.

    Raises:
        ExportError: it does not fit; the limit is named.
        InternalError: what was written does not verify: our bug.
    """
    units = len(problem.group) if problem.collective in _SMALL else 1
    low, high = -(-sizes[0] // units), None if sizes[1] is None else max(1, sizes[1] // units)
    if options.format == "msccl-xml":
        made = msccl.MscclOptions(options.target, options.protocol, low, high or 0, msccl.safe_name(name))
        algorithm = msccl.export_msccl(problem, schedule, made)
        text = msccl.text_of(algorithm)
        if read_algorithm(Source(name, text)) != algorithm:
            raise InternalError(f"{name}: the algorithm that is read back is another than was written")
        _demand(name, check_text(text))
        _demand(name, check_limits(algorithm, TARGETS[options.target]))
        _demand(name, check_algorithm(algorithm))
        return text
    chosen = mscclpp.PlanOptions(name, options.in_place, options.blocks, low, MAX_SIZE if high is None else high)
    plan = mscclpp.export_plan(problem, schedule, chosen)
    text = mscclpp.text_of(plan)
    if read_plan(Source(name, text)) != plan:
        raise InternalError(f"{name}: the plan that is read back is another than was written")
    _demand(name, check_plan(plan))
    return text


def _demand(name: str, report: Report[Any]) -> None:
    if report.findings:  # warnings too: what we write has to be clean
        raise InternalError(f"the export of {name!r} does not verify:\n  {report.findings[0]}")


def export_variant(collective: CompiledCollective, variant: Variant, options: ExportOptions) -> str:
    """Return a variant in a format.

    Raises:
        ExportError: it does not fit; the limit is named, and which variants of the collective do.
    """
    try:
        return _export(collective, variant, options)
    except ExportError as refused:
        fitting = []
        for other in collective.schedules:
            if other is not variant:
                try:
                    _export(collective, other, options)
                    fitting.append(other.id)
                except ExportError:
                    continue
        which = f"; what fits: --only {collective.name}/{fitting[0]}" if fitting else "; no other variant fits either"
        more = f" (or {', '.join(fitting[1:])})" if fitting[1:] else ""
        raise ExportError(refused.limit, f"{collective.name}/{variant.id}: {refused}{which}{more}") from None


def _export(collective: CompiledCollective, variant: Variant, options: ExportOptions) -> str:
    low = options.min_bytes if options.min_bytes is not None else (variant.min_bytes or 0)
    last = None if variant.max_bytes is None else max(1, variant.max_bytes - 1)
    high = options.max_bytes if options.max_bytes is not None else last
    name = f"acclc_{collective.name}_{variant.id}"
    return export_text(collective.problem, variant.schedule, name, (low, high), options)


def root_note(collective: CompiledCollective) -> str | None:
    """What a user of a rooted collective has to know: engines do not compare the root."""
    demand = collective.problem.demands[0]
    if demand.root is None:
        return None
    root = demand.group.index(demand.root)
    return (
        f"{collective.name} is for root {root} only, and the engines do not compare the root of a call: use the file"
        f" where every {collective.problem.collective.value} of {len(demand.group)} ranks has that root"
    )
