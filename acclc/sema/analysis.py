"""The whole of semantic analysis: a syntax tree in, problems out, or every error there is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from acclc import library
from acclc.diagnostics import Diagnostic, DiagnosticError, Label, suggest
from acclc.ir.problem import Goal, Problem, Topology
from acclc.sema.collectives import analyse_together, analyse_use
from acclc.sema.context import Context
from acclc.sema.custom import analyse_custom
from acclc.sema.damage import Degraded
from acclc.sema.elaborate import Elaborator
from acclc.sema.emit import EmitSettings, read_emit
from acclc.sema.files import FileScope, Loader, ReadImport, read_beside
from acclc.sema.limits import MAX_NUMBER
from acclc.sema.names import CollectiveItem, problem_names
from acclc.sema.references import listed
from acclc.sema.report import Report
from acclc.sema.sets import members, without_known
from acclc.sema.unused import names_used, warn_unlinked, warn_unused
from acclc.source import Source, Span
from acclc.syntax import ast
from acclc.syntax.parser import parse


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a file means."""

    problems: tuple[Problem, ...]
    emit: EmitSettings
    topologies: tuple[Topology, ...]
    """Those the file declares and whose parameters all have a value, in order; then those its collectives use."""
    warnings: tuple[Diagnostic, ...]


def analyse(
    file: ast.File,
    *,
    settings: Mapping[str, int] | None = None,
    without: Sequence[ast.LinkRef] = (),
    degraded: Sequence[Degraded] = (),
    read_import: ReadImport = read_beside,
) -> Analysis:
    """Return the problems of a file.

    ``settings`` replace the defaults of the parameters of that name of the topologies that the file declares;
    ``without`` takes links away from the topology of every collective, and ``degraded`` makes links of it slower.

    Raises:
        DiagnosticError: with every error of the file, and the warnings, in order of place.
    """
    report = Report()
    report.meet(file.span.source)
    loader = Loader(report, read_import)
    home = loader.load(file, (os.path.normpath(file.span.source.name),))
    _check_settings(settings or {}, home, report)
    elaborator = Elaborator(loader, report, home, settings or {})
    emit = read_emit([item for item in file.items if isinstance(item, ast.Emit)], report)
    context = Context(report, elaborator, home, without, Goal(channels=emit.channels or 1), degraded)
    _declared(file, home, context)
    problems = _problems(file, context)
    _check_not_empty(file, report)
    if not report.attempts:  # what is unused may be meant for a line with an error
        warn_unused(file, report)
    return Analysis(tuple(problems), emit, tuple(site.topology for site in context.sites.values()), report.finish())


def analyse_text(
    text: str,
    name: str = "<text>",
    *,
    settings: Mapping[str, int] | None = None,
    without: Sequence[ast.LinkRef] = (),
    read_import: ReadImport = read_beside,
) -> Analysis:
    """Parse and analyse a text; ``name`` is what messages print, and where imports are looked for.

    Raises:
        DiagnosticError: as ``analyse`` and the parser.
    """
    return analyse(parse(Source(name, text)), settings=settings, without=without, read_import=read_import)


def topology_named(call: str) -> Topology:
    """Return a topology of the library by a call as in the language: ``dgx1``, ``torus(4, 4)``.

    Raises:
        DiagnosticError: the text is no call of a library topology.
    """
    try:
        return _topology_called(call)
    except DiagnosticError as error:
        raise DiagnosticError(_without_prefix(d, call) for d in error.diagnostics) from None


_PREFIX = "topology asked_for = "
"""Makes a call the text of a file; messages are printed without it."""


def _topology_called(call: str) -> Topology:
    file = parse(Source("<topology>", _PREFIX + call))
    report = Report()
    report.meet(file.span.source)
    item = file.items[0]
    if len(file.items) != 1 or not isinstance(item, ast.TopologyAlias):
        rest = file.items[-1].span
        report.error("unknown-topology", f"`{call}` is no topology", rest, help="write it as in `torus(4, 4)`")
        report.finish()
        raise AssertionError("an error was reported")
    home = FileScope()
    context = Context(report, Elaborator(Loader(report, read_beside), report, home, {}), home, (), Goal())
    site = context.site(item.value)
    report.finish()
    if site is None:
        raise AssertionError("an error was reported")
    return site.topology


def _without_prefix(diagnostic: Diagnostic, call: str) -> Diagnostic:
    source = Source("<topology>", call)

    def moved(label: Label) -> Label:
        span = label.span
        if span.source.name != source.name:
            return label
        start, end = (max(0, place - len(_PREFIX)) for place in (span.start, span.end))
        return Label(Span(source, start, end), label.text)

    return replace(diagnostic, labels=tuple(moved(label) for label in diagnostic.labels))


def library_names() -> tuple[str, ...]:
    """Return the names of the built-in topologies, sorted."""
    return library.names()


def _check_settings(settings: Mapping[str, int], home: FileScope, report: Report) -> None:
    known = {p.name for declared in home.own.values() for p in declared.item.parameters}
    for name, value in settings.items():
        if name not in known:
            near = suggest(name, known)
            report.error(
                "unknown-setting",
                f"no topology of this file has a parameter `{name}`",
                None,
                help=f"did you mean `{near}`?"
                if near
                else f"there are {listed(sorted(known))}"
                if known
                else "its topologies have no parameters",
            )
        elif abs(value) > MAX_NUMBER:
            report.error("number-too-large", f"the setting {name} is larger than 10^12", None)


def _declared(file: ast.File, home: FileScope, context: Context) -> None:
    """Build every topology of the file that needs no arguments, used or not, so that its errors are seen."""
    used = names_used(file)
    for declared in home.own.values():
        before = context.report.attempts
        machine = context.elaborator.build_with_defaults(declared)
        if machine is not None:
            context.frozen(machine)
            warn_unlinked(machine, context.report)
        elif context.report.attempts == before and declared.item.name not in used:
            item = declared.item
            needs = [f"`{p.name}`" for p in item.parameters if p.default is None]
            context.report.warning(
                "unchecked-topology",
                f"topology `{item.name}` is only checked where it is used: it has no default for {listed(needs)}",
                item.name_span,
                help="give every parameter a default",
            )


def _problems(file: ast.File, context: Context) -> list[Problem]:
    items = [i for i in file.items if isinstance(i, ast.CollectiveUse | ast.CustomCollective | ast.Together)]
    sets = [(one, members(one, context)) for one in file.items if isinstance(one, ast.SetUse)]
    uses = [use for _, uses in sets for use in uses]
    names = problem_names([*items, *uses], context.report)
    problems = _problems_of(items, names, context)
    own = len(items)
    for one, uses in sets:
        found = _problems_of(uses, names[own:], context)
        own += len(uses)
        problems += without_known(one, found, problems, context)
    return problems


def _problems_of(items: Sequence[CollectiveItem], names: Sequence[str], context: Context) -> list[Problem]:
    """Return the problems of items without errors; ``names``: of the items, and more behind them."""
    problems: list[Problem] = []
    for item, name in zip(items, names, strict=False):
        problem: Problem | None
        match item:
            case ast.CollectiveUse():
                problem = analyse_use(item, name, context)
            case ast.CustomCollective():
                problem = analyse_custom(item, name, context)
            case ast.Together():
                problem = analyse_together(item, name, context)
        if problem is not None:
            problems.append(problem)
    return problems


def _check_not_empty(file: ast.File, report: Report) -> None:
    """A file of nothing but comments or imports: most likely not what its writer meant."""
    if any(not isinstance(item, ast.Import | ast.Emit) for item in file.items):
        return
    report.error(
        "nothing-to-do",
        "this file has neither a topology nor a collective",
        file.span,
        help="for example: `all_gather on dgx1`",
    )
