"""Repair: an artefact for the machine as it is now, with links gone or slower. What still holds is kept.

A schedule holds where each link that it uses is still there. It may be slower than it was; its rounds are counted anew.
A collective whose schedules all hold at their old speed is as good as before, as less of a machine never allows more.
Of any other one the search is made again, and starts from the schedules that hold.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from acclc.artefact import Artefact, CompiledCollective, Proof, Variant
from acclc.diagnostics import Diagnostic, DiagnosticError
from acclc.driver import Observer, Options, Silent, compile_problem, lower_all
from acclc.ir.problem import LinkId, Problem, Topology
from acclc.ir.result import Exclusion, Solution, StepDual
from acclc.ir.schedule import Schedule

if TYPE_CHECKING:
    from acclc.sema import Damaged
    from acclc.syntax.ast import LinkRef

WORK = 0.6
"""Work units of each search: a broken machine should run again within seconds. A time limit grants more."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a variant: it holds where nothing of it is lost. Times are seconds a byte of shard."""

    id: str
    before: Fraction
    now: Fraction | None
    """None: it does not hold."""
    lost: tuple[str, ...] = ()
    """The links that it used and that are gone, in words."""
    stays: bool = False
    """Whether it holds and is still among the best, so that it is in the new artefact."""

    @property
    def word(self) -> str:
        """Kept, slower, or lost."""
        if self.now is None:
            return "lost"
        return "kept" if self.now == self.before else "slower"


@dataclass(frozen=True, slots=True)
class Repaired:
    """One collective before and after. ``searched``: whether the search was made again."""

    before: CompiledCollective
    after: CompiledCollective
    fates: tuple[Fate, ...]
    searched: bool
    kept: tuple[str, ...]
    """The variants of ``after``, by puts, whose schedule was there before."""
    same_kernels: tuple[str, ...]
    """Those of them whose kernel is the same to the byte."""
    seconds: float

    @property
    def touched(self) -> bool:
        """Whether the damage is to this collective's machine."""
        return self.before.problem.topology != self.after.problem.topology


@dataclass(frozen=True, slots=True)
class Repair:
    """The new artefact, and what was done for each of its collectives."""

    artefact: Artefact
    collectives: tuple[Repaired, ...]


def repair(artefact: Artefact, options: Options, observer: Observer | None = None) -> Repair:
    """Return the artefact for its machine without the links of ``options.without``, ``options.degrade`` of them slower.

    Raises:
        DiagnosticError: no collective's machine has such a link, or what is left is not connected.
        NoScheduleError: the goal's limits cannot be met any more.
    """
    options = replace(options, work=WORK if options.work is None else options.work)
    machines = _damaged([c.problem.topology for c in artefact.collectives], options)
    done = tuple(
        _repaired(compiled, machines[compiled.problem.topology], options, observer or Silent())
        for compiled in artefact.collectives
    )
    return Repair(replace(artefact, collectives=tuple(d.after for d in done)), done)


def _damaged(topologies: Sequence[Topology], options: Options) -> dict[Topology, Damaged]:
    """Return what becomes of each machine. A harm must hit one machine at least; a group may have no such link."""
    from acclc import sema
    from acclc.source import Source
    from acclc.syntax import parse_link_ref

    whole = {t: sema.Damaged(t, {link.id: link.id for link in t.links}) for t in topologies}
    harms: list[LinkRef | sema.Degraded] = [parse_link_ref(Source("--without", link)) for link in options.without]
    harms += [sema.parse_degraded(link) for link in options.degrade]
    for harm in harms:
        refused: DiagnosticError | None = None
        hit = False
        for topology, damaged in whole.items():
            try:
                further = sema.damage(damaged.topology, harm)
            except DiagnosticError as error:
                refused = refused or error
                continue
            moved = {old: None if now is None else further.moved[now] for old, now in damaged.moved.items()}
            whole[topology], hit = sema.Damaged(further.topology, moved), True
        if refused is not None and not hit:
            raise refused
    return whole


def _repaired(compiled: CompiledCollective, damaged: Damaged, options: Options, observer: Observer) -> Repaired:
    started = time.perf_counter()
    problem = replace(compiled.problem, topology=damaged.topology)
    if damaged.topology == compiled.problem.topology:
        fates = tuple(Fate(v.id, v.time_per_byte, v.time_per_byte, stays=True) for v in compiled.schedules)
        names = tuple(v.id for v in compiled.schedules)
        return Repaired(compiled, compiled, fates, False, names, names, 0.0)
    _check_connected(problem)
    fates, held = _held(compiled, problem, damaged)
    after = None
    if len(held) == len(fates) and all(f.word == "kept" for f in fates):
        after = _carried(compiled, problem, damaged, held, observer)
    searched = after is None
    if after is None:
        unproven = [replace(schedule, optimal=()) for schedule in held]  # what was proven was so of another machine
        after = compile_problem(problem, options, observer, unproven)
    holding = [v for v, fate in zip(compiled.schedules, fates, strict=True) if fate.now is not None]
    there = {_body(schedule): variant for schedule, variant in zip(held, holding, strict=True)}
    kept = [(v, there[_body(v.schedule)]) for v in after.schedules if _body(v.schedule) in there]
    stay = {old.id for _, old in kept}
    fates = tuple(replace(fate, stays=fate.id in stay) for fate in fates)
    same = tuple(new.id for new, old in kept if new.source == old.source)
    seconds = time.perf_counter() - started
    return Repaired(compiled, after, fates, searched, tuple(v.id for v, _ in kept), same, seconds)


def _check_connected(problem: Problem) -> None:
    from acclc.sema.checks import Reachability, explain

    relays = problem.goal.hints.relays
    reachability = Reachability(problem.topology, relays)
    lost = reachability.missing(problem.shards)
    if lost is None:
        return
    source, target = lost
    names = [n.name for n in problem.topology.nodes]
    message = (
        f"data of `{names[source]}` cannot reach `{names[target]}` in topology `{problem.topology.name}`, "
        f"so {problem.name!r} cannot be repaired"
    )
    notes = explain(problem.topology, reachability.from_rank(source), source, target)
    help = "compile the collective anew for a group that is connected, by `among` in its source"
    raise DiagnosticError(Diagnostic("not-connected", message, (), notes, help))


def _held(compiled: CompiledCollective, problem: Problem, damaged: Damaged) -> tuple[tuple[Fate, ...], list[Schedule]]:
    """Return what becomes of each variant, and the schedules that hold, as schedules of the new problem."""
    from acclc.verify import check_schedule

    fates: list[Fate] = []
    held: list[Schedule] = []
    for variant in compiled.schedules:
        lost = _lost_links(compiled.problem, variant, damaged)
        schedule = None if lost else _moved(variant.schedule, problem, damaged)
        report = None if schedule is None else check_schedule(problem, schedule)
        if schedule is None or report is None or not report.ok or report.facts is None:
            fates.append(Fate(variant.id, variant.time_per_byte, None, lost))
            continue
        fates.append(Fate(variant.id, variant.time_per_byte, report.facts.time_per_shard_byte))
        held.append(schedule)
    return tuple(fates), held


def _lost_links(problem: Problem, variant: Variant, damaged: Damaged) -> tuple[str, ...]:
    links, names = problem.topology.links, [n.name for n in problem.topology.nodes]
    used = sorted({e for t in variant.schedule.transfers for e in t.path if damaged.moved[e] is None})
    return tuple(dict.fromkeys(f"{names[links[e].src]} -> {names[links[e].dst]}" for e in used))


def _moved(schedule: Schedule, problem: Problem, damaged: Damaged) -> Schedule:
    """Return the schedule over the new numbers of its links, each step in as few rounds as they allow."""

    def now(link: LinkId) -> LinkId:
        found = damaged.moved[link]
        assert found is not None, "only schedules that lost no link are moved"
        return found

    transfers = tuple(replace(t, path=tuple(map(now, t.path))) for t in schedule.transfers)
    moved = replace(schedule, transfers=transfers)
    return moved if not schedule.rounds else replace(moved, rounds=_rounds(problem, moved))


def _rounds(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """Return the fewest rounds of each step: chunks of its fullest link or budget over what that carries in one."""
    topology, chunks = problem.topology, schedule.chunks_per_shard
    unit = topology.unit
    assert unit is not None, "a schedule that moves something has links"
    loads: list[dict[LinkId, Fraction]] = [{} for _ in schedule.rounds]
    for t in schedule.transfers:
        for e in t.path:
            loads[t.step][e] = loads[t.step].get(e, Fraction(0)) + schedule.chunks[t.chunk].weight * chunks
    rounds = []
    for load in loads:
        needs = [n * unit / topology.links[e].capacity for e, n in load.items()]
        needs += [
            sum((load.get(e, Fraction(0)) for e in b.links), Fraction(0)) * unit / b.capacity for b in topology.budgets
        ]
        rounds.append(ceil(max(needs, default=Fraction(0))))
    return tuple(rounds)


def _body(schedule: Schedule) -> Schedule:
    """A schedule without what is said of it."""
    return replace(schedule, strategy="", optimal=())


def _carried(
    compiled: CompiledCollective, problem: Problem, damaged: Damaged, held: Sequence[Schedule], observer: Observer
) -> CompiledCollective | None:
    """Return the collective with its old proof on the damaged machine; None where that does not verify there.

    The machine can do less than before, so what was excluded stays so; the bound is computed anew.
    """
    from acclc.bounds import bound

    started = time.perf_counter()
    old = compiled.proof
    same_unit = problem.topology.unit == compiled.problem.topology.unit
    if not same_unit or any(new.rounds != v.schedule.rounds for new, v in zip(held, compiled.schedules, strict=True)):
        return None
    observer.stage(problem, "bound")
    exclusions = tuple(x for x in (_moved_exclusion(x, damaged) for x in old.exclusions) if x is not None)
    proof = Proof(bound(problem), old.status, old.excluded, old.complete, old.reproducible, old.notes, exclusions)
    if not _proves(problem, proof, held):
        return None
    variants = lower_all(problem, [Solution(s) for s in held], observer)
    return CompiledCollective(problem.without_spans(), proof, variants, time.perf_counter() - started)


def _moved_exclusion(exclusion: Exclusion, damaged: Damaged) -> Exclusion | None:
    if not isinstance(exclusion, StepDual):
        return exclusion
    if exclusion.budget_prices:  # budgets may have been renumbered
        return None
    lengths = []
    for shard, end, link, step, length in exclusion.lengths:
        now = damaged.moved[link]
        if now is not None:
            lengths.append((shard, end, now, step, length))
    return StepDual(exclusion.steps, tuple(lengths), exclusion.potentials)


def _proves(problem: Problem, proof: Proof, schedules: Sequence[Schedule]) -> bool:
    """Whether the verifiers take the proof for these schedules."""
    from acclc.verify import check_schedule
    from acclc.verify.certificate import check_certificate
    from acclc.verify.exclusions import certain, check_excluded
    from acclc.verify.optimality import Claimed, check_optimality

    facts = check_certificate(problem, proof.bound).facts
    if facts is None:
        return False
    known = certain(problem, facts.steps, facts.time_per_byte, proof.exclusions)
    if known.facts is None or not known.ok or not check_excluded(known.facts, proof.excluded).ok:
        return False
    reports = [(s, check_schedule(problem, s).facts) for s in schedules]
    checked = [(s, f) for s, f in reports if f is not None]
    claimed = Claimed(proof.status, proof.complete, proof.excluded)
    return check_optimality(problem, known.facts, facts.time_per_byte, checked, claimed).ok
