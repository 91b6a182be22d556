"""The whole compiler on one screen: text -> Problem -> Schedule -> Program -> KernelProgram -> artefact.

Every level is verified by code that shares nothing with what made it; every level can be printed (``emit``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from acclc import __version__
from acclc.artefact import Artefact, CompiledCollective, Proof, Variant
from acclc.ir import text
from acclc.ir.problem import Problem
from acclc.ir.result import Result, Solution
from acclc.ir.schedule import Schedule
from acclc.simulate import baselines, best_within, shard_bytes
from acclc.source import Source

if TYPE_CHECKING:
    from acclc.forecast import Abilities, Headroom
    from acclc.realisations import Realised
    from acclc.sema import Analysis
    from acclc.solve.protocol import Progress
    from acclc.verify import Report


class NoScheduleError(Exception):
    """No schedule exists within the user's limits, or none was found in time. ``result`` says which, and why."""

    def __init__(self, problem: Problem, result: Result) -> None:
        super().__init__(problem.name)
        self.problem = problem
        self.result = result


class InternalError(Exception):
    """A verifier refused what a pass made: our bug, never the user's."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile. ``time_limit_s``: for each collective; None leaves it to the goal, then to the solver.

    ``work``: work units of a search without a time limit; None: the solver's default.
    """

    settings: Mapping[str, int] = field(default_factory=dict)
    without: Sequence[str] = ()
    degrade: Sequence[str] = ()
    time_limit_s: float | None = None
    seed: int = 0
    workers: int = 1
    work: float | None = None


class Observer(Protocol):
    """Is told how the compilation goes (a progress line, a log, a test)."""

    def stage(self, problem: Problem, name: str) -> None:
        """A stage of a collective begins."""

    def progress(self, problem: Problem, progress: Progress) -> None:
        """The solver has news: bound, best, gap."""


class Silent:
    """Tells nobody."""

    def stage(self, problem: Problem, name: str) -> None:
        """Say nothing."""

    def progress(self, problem: Problem, progress: Progress) -> None:
        """Say nothing."""


def read_source(path: Path) -> Source:
    """Read a file of the language. Raises DiagnosticError if that cannot be done."""
    from acclc import syntax

    return syntax.read_source(path)


def compile_file(path: str | Path, options: Options | None = None, observer: Observer | None = None) -> Artefact:
    """Compile a file of the language; the artefact is named after it.

    Raises:
        DiagnosticError: the file cannot be read or its text is wrong; all its errors.
        NoScheduleError: hard limits cannot be met.
    """
    return compile_source(read_source(Path(path)), Path(path).stem, options, observer)


def compile_text(
    text: str, name: str = "text", options: Options | None = None, observer: Observer | None = None
) -> Artefact:
    """Compile a text of the language. Raises as :func:`compile_file`."""
    return compile_source(Source(f"<{name}>", text), name, options, observer)


def compile_source(
    source: Source, name: str, options: Options | None = None, observer: Observer | None = None
) -> Artefact:
    """Compile a source; see :func:`compile_file`."""
    options = options or Options()
    analysis = analyse(source, options)
    collectives = tuple(compile_problem(p, options, observer or Silent()) for p in analysis.problems)
    types, ops, architectures = _narrowed(analysis)
    return Artefact(name, f"acclc {__version__}", collectives, types, ops, architectures)


def _narrowed(analysis: Analysis) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """What ``emit`` narrows of types, operators and architectures; empty for all, types that are only moved too."""
    from acclc.sema.emit import EmitSettings

    found, everything = analysis.emit, EmitSettings()
    return (
        () if found.types == everything.types else found.types,
        () if found.ops == everything.ops else tuple(op.value for op in found.ops),
        () if found.arch == everything.arch else found.arch,
    )


def compile_problem(
    problem: Problem, options: Options, observer: Observer, known: Sequence[Schedule] = ()
) -> CompiledCollective:
    """Compile one collective: the pipeline below the language. ``known``: schedules of it that are there already."""
    started = time.perf_counter()
    result = synthesize(problem, options, observer, known)
    solutions = _within_sizes(problem, result.solutions)
    variants = lower_all(problem, solutions, observer)
    proof = Proof(
        result.bound,
        result.status,
        result.excluded,
        result.complete,
        result.reproducible,
        result.notes,
        result.exclusions,
    )
    return CompiledCollective(problem.without_spans(), proof, variants, time.perf_counter() - started)


def _within_sizes(problem: Problem, solutions: Sequence[Solution]) -> tuple[Solution, ...]:
    """Of all schedules, what is the best somewhere in the goal's range of sizes; all without such a goal."""
    best = best_within(problem, [s.schedule for s in solutions])
    return tuple(s for s, wanted in zip(solutions, best, strict=True) if wanted)


def analyse(source: Source, options: Options) -> Analysis:
    """Text -> Problems. Raises DiagnosticError with every error of the text."""
    from acclc import sema
    from acclc.syntax import parse, parse_link_ref

    without = [parse_link_ref(Source("--without", link)) for link in options.without]
    degraded = [sema.parse_degraded(link) for link in options.degrade]
    return sema.analyse(parse(source), settings=options.settings, without=without, degraded=degraded)


def synthesize(problem: Problem, options: Options, observer: Observer, known: Sequence[Schedule] = ()) -> Result:
    """Problem -> Schedules with bounds and proofs, verified. Raises NoScheduleError if there is none."""
    from acclc.solve.portfolio import solve
    from acclc.solve.protocol import Deadline
    from acclc.verify import check_problem, check_schedule
    from acclc.verify.certificate import check_certificate

    demand_verified(problem, "problem", check_problem(problem))
    observer.stage(problem, "schedule")
    seconds = options.time_limit_s if options.time_limit_s is not None else problem.goal.deadline_s
    result = solve(
        problem,
        seed=options.seed,
        workers=options.workers,
        deadline=Deadline.after(seconds),
        work=options.work if seconds is None else None,
        report=lambda news: observer.progress(problem, news),
        known=known,
    )
    if not result.solutions:
        raise NoScheduleError(problem, result)
    observer.stage(problem, "verifying bound and schedules")
    demand_verified(problem, "bound", check_certificate(problem, result.bound))
    for solution in result.solutions:
        demand_verified(problem, "schedule", check_schedule(problem, solution.schedule))
    return result


def lower_all(problem: Problem, solutions: Sequence[Solution], observer: Observer | None = None) -> tuple[Variant, ...]:
    """Schedules -> Programs -> KernelPrograms -> sources, each verified, in each realisation that a schedule has."""
    from acclc.realisations import realise

    seconds = {s.schedule: s.solve_seconds for s in solutions}
    realised = realise(problem, list(seconds))
    return tuple(_variant(problem, r, seconds.get(r.schedule, 0.0), observer or Silent()) for r in realised)


def lower(
    problem: Problem, solution: Solution, sizes: tuple[int, int | None] | None, observer: Observer | None = None
) -> Variant:
    """One schedule, realised by puts, for ``sizes``."""
    from acclc.realisations import by_puts

    return _variant(problem, by_puts(problem, solution.schedule, sizes), solution.solve_seconds, observer or Silent())


def _variant(problem: Problem, realised: Realised, solve_seconds: float, observer: Observer) -> Variant:
    from acclc.codegen import generate
    from acclc.verify import check_kernel, check_program, check_schedule
    from acclc.verify.schedule import time_per_shard_byte

    schedule, program, kernel = realised.schedule, realised.program, realised.kernel
    low, high = realised.sizes or (None, None)
    variant = Variant(schedule, program, kernel, "", low, high, time_per_shard_byte(problem, schedule), solve_seconds)
    observer.stage(problem, f"program of {variant.id}")
    demand_verified(problem, "schedule", check_schedule(problem, schedule))
    demand_verified(problem, "program", check_program(problem, schedule, program))
    observer.stage(problem, f"kernel of {variant.id}")
    demand_verified(problem, "kernel program", check_kernel(problem, schedule, kernel))
    return replace(variant, source=generate(kernel))


def emit_levels(path: str | Path, level: str, options: Options, observer: Observer) -> Iterator[str]:
    """Yield one level of the compiler as text, collective by collective: what ``--emit`` prints.

    ``level``: problem, bound, schedule, program, kernel or source. Raises as :func:`compile_file`.
    """
    for problem in analyse(read_source(Path(path)), options).problems:
        if level == "problem":
            yield text.problem_text(problem)
            continue
        result = synthesize(problem, options, observer)
        if level == "bound":
            yield text.bound_text(problem, result.bound)
            continue
        for solution in result.solutions:
            if level == "schedule":
                yield text.schedule_text(problem, solution.schedule)
        for variant in lower_all(problem, result.solutions) if level != "schedule" else ():
            match level:
                case "program":
                    yield text.program_text(variant.program)
                case "kernel":
                    yield text.kernel_text(variant.kernel)
                case _:
                    yield variant.source


def headroom(
    path: str | Path, options: Options, size: int = 64 * 2**20, observer: Observer | None = None
) -> Iterator[Headroom]:
    """Yield each collective's bounds beside ring and tree at S = ``size`` bytes: is it worth compiling at all."""
    from acclc.bounds import bound
    from acclc.fabrics import parts
    from acclc.forecast import Headroom

    observer = observer or Silent()
    for problem in analyse(read_source(Path(path)), options).problems:
        observer.stage(problem, "bound")
        proven = bound(problem)
        observer.stage(problem, "ring and tree, simulated")
        shapes = baselines(problem, shard_bytes(problem, size))
        yield Headroom(problem, proven, size, shapes, parts(problem), _abilities(problem))


def _abilities(problem: Problem) -> Abilities | None:
    """What multicast and reduction in the switches of a machine are worth; None where there are none."""
    from acclc.bounds import bound
    from acclc.forecast import Abilities
    from acclc.solve.packing.through import through_switches, without_abilities

    able = tuple(n.name for n in problem.topology.nodes if n.can_multicast or n.can_reduce)
    if not able:
        return None
    without = bound(without_abilities(problem)).throughput.time_per_byte
    found = through_switches(problem)
    if found is None:
        return Abilities(able, without, None, 0)
    return Abilities(able, without, found.time_per_byte, found.trees)


def demand_verified(problem: Problem, level: str, report: Report[Any]) -> None:
    """Stop at a level that its verifier refuses."""
    if not report.ok:
        findings = "\n".join(f"  {finding}" for finding in report.findings[:5])
        raise InternalError(f"the {level} of {problem.name!r} does not verify:\n{findings}")
