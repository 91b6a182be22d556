"""Building machines: calls of topologies, parameters, and replicas, down to nodes and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from acclc.diagnostics import Label, suggest
from acclc.sema.arithmetic import evaluate
from acclc.sema.body import run_body
from acclc.sema.files import Declared, FileScope, Loader
from acclc.sema.limits import MAX_DEPTH
from acclc.sema.machine import Machine
from acclc.sema.patterns import take_away
from acclc.sema.references import listed
from acclc.sema.report import Report
from acclc.sema.scope import Scope
from acclc.source import Span
from acclc.syntax import ast
from acclc.syntax.builder import doc_above


class Elaborator:
    """Builds the machine of a topology call; the same call is built once.

    ``settings`` replace the defaults of the parameters of topologies that ``main`` declares.
    """

    def __init__(self, loader: Loader, report: Report, main: FileScope, settings: Mapping[str, int]) -> None:
        self.report = report
        self._loader = loader
        self._main = main
        self._settings = settings
        self._built: dict[tuple[int, tuple[int, ...]], Machine] = {}
        self._active: list[ast.TopologyDecl | ast.TopologyAlias] = []

    def build(self, call: ast.TopologyCall, home: FileScope, scope: Scope) -> Machine | None:
        """Return the machine that ``call`` means in the file ``home``; None after an error in the call."""
        declared = self._loader.find(call.name, home)
        if declared is None:
            self._unknown(call, home)
            return None
        arguments = self._bind(declared, call, scope)
        if arguments is None or not self._may_enter(declared.item, call.name_span):
            return None
        machine = self._instance(declared, arguments, call)
        if machine is None:
            return None
        for ref in call.without:
            machine = take_away(ref, machine, scope, self.report)
        return machine

    def build_with_defaults(self, declared: Declared) -> Machine | None:
        """Return the machine of a declaration without arguments; None if a parameter has no value."""
        item = declared.item
        given = {p.name for p in item.parameters if p.default is not None or self._setting(p, declared) is not None}
        if len(given) < len({p.name for p in item.parameters}):
            return None
        call = ast.TopologyCall(item.name, (), (), item.name_span, item.name_span)
        return self.build(call, declared.home, Scope())

    def _instance(self, declared: Declared, arguments: dict[str, int], call: ast.TopologyCall) -> Machine | None:
        item, span = declared.item, call.name_span
        key = (id(item), tuple(arguments.values()))
        name = self._name(declared, arguments, call)
        if key in self._built:
            return replace(self._built[key], name=name)
        scope = Scope()
        scope.names.update(arguments)
        self._active.append(item)
        try:
            line, column = span.source.position(span.start)
            where = f"in topology `{name}`, used at {span.source.name}:{line}:{column}"
            machine: Machine | None
            if isinstance(item, ast.TopologyDecl):
                if span == item.name_span:
                    machine = run_body(item, name, scope, declared.home, self)
                else:
                    with self.report.within(where):
                        machine = run_body(item, name, scope, declared.home, self)
            else:
                machine = self.build(item.value, declared.home, scope)
                if machine is not None:  # the tree of an alias keeps no comment
                    own = doc_above(item.span.source, item.span.start)
                    machine = replace(machine, doc=own or machine.doc)
        finally:
            self._active.pop()
        if machine is None:
            return None
        self._built[key] = machine = replace(machine, name=name)
        return machine

    def _may_enter(self, item: ast.TopologyDecl | ast.TopologyAlias, span: Span) -> bool:
        if any(item is active for active in self._active):
            around = [active.name for active in self._active]
            path = " -> ".join([*around[around.index(item.name) :], item.name])
            self.report.error(
                "recursive-topology", f"a topology cannot contain itself: {path}", span, help="take one use away"
            )
            return False
        if len(self._active) >= MAX_DEPTH:
            self.report.error(
                "nested-too-deep",
                f"topologies are nested more than {MAX_DEPTH} deep",
                span,
                help="build it from fewer levels",
            )
            return False
        return True

    def _unknown(self, call: ast.TopologyCall, home: FileScope) -> None:
        if not home.is_complete:  # an import failed, and is reported: the name may be there
            self.report.attempts += 1
            return
        names = self._loader.all_names(home)
        near = suggest(call.name, names)
        self.report.error(
            "unknown-topology",
            f"no topology is called `{call.name}`",
            call.name_span,
            help=f"did you mean `{near}`?" if near else f"known: {listed(names, 24)}",
        )

    def _setting(self, parameter: ast.Parameter, declared: Declared) -> int | None:
        return self._settings.get(parameter.name) if declared.home is self._main else None

    def _bind(self, declared: Declared, call: ast.TopologyCall, scope: Scope) -> dict[str, int] | None:
        """Return the value of every parameter; None after an error."""
        item, report = declared.item, self.report
        before = report.attempts
        given: dict[str, int | None] = {}
        names = list(dict.fromkeys(p.name for p in item.parameters))
        for position, argument in enumerate(call.arguments):
            value = evaluate(argument.value, scope, report)
            name = argument.name if argument.name is not None else _positional(position, names)
            if name is None:
                takes = (
                    f"takes {len(names)} arguments: {listed(f'`{n}`' for n in names)}" if names else "takes no argument"
                )
                if len(names) == 1:
                    takes = f"takes 1 argument, `{names[0]}`"
                report.error(
                    "too-many-arguments",
                    f"topology `{item.name}` {takes}",
                    argument.span,
                    help="take it away",
                    others=(Label(item.name_span, "declared here"),),
                )
            elif name not in names:
                near = suggest(name, names)
                known = listed(f"`{n}`" for n in names)
                report.error(
                    "unknown-parameter",
                    f"topology `{item.name}` has no parameter `{name}`",
                    argument.span,
                    help=f"did you mean `{near}`?" if near else f"it has {known}" if names else "it has none",
                )
            elif name in given:
                report.error(
                    "duplicate-argument",
                    f"parameter `{name}` has two values here",
                    argument.span,
                    help="give it one; arguments without a name fill the parameters in order",
                )
            else:
                given[name] = value
        values = self._with_defaults(declared, call, given)
        return values if report.attempts == before else None

    def _with_defaults(
        self, declared: Declared, call: ast.TopologyCall, given: dict[str, int | None]
    ) -> dict[str, int]:
        """Add the defaults, which may use the parameters before them. Errors are reported."""
        scope = Scope()
        for parameter in declared.item.parameters:
            setting = self._setting(parameter, declared)
            value: int | None
            if parameter.name in given:
                value = given[parameter.name]
            elif setting is not None:
                value = setting
            elif parameter.default is not None:
                value = evaluate(parameter.default, scope, self.report)
            else:
                value = None
                self.report.error(
                    "missing-argument",
                    f"topology `{declared.item.name}` needs a value for `{parameter.name}`",
                    call.span,
                    others=(Label(parameter.span, "it has no default"),),
                    help=f"write `{declared.item.name}({parameter.name} = ...)`",
                )
            scope.names[parameter.name] = value
        return {name: value for name, value in scope.names.items() if value is not None}

    def _name(self, declared: Declared, arguments: dict[str, int], call: ast.TopologyCall) -> str:
        """Return ``torus(4, 4)``: the values up to the last one that is given or is not the default as declared."""
        scope, quiet = Scope(), Report()
        positions = {p.name: number for number, p in enumerate(declared.item.parameters, 1)}
        shown = max((positions[a.name] if a.name else i for i, a in enumerate(call.arguments, 1)), default=0)
        for number, parameter in enumerate(declared.item.parameters, 1):
            default = None if parameter.default is None else evaluate(parameter.default, scope, quiet)
            scope.names[parameter.name] = arguments[parameter.name]
            if default != arguments[parameter.name]:
                shown = max(shown, number)
        values = [str(v) for v in arguments.values()][:shown]
        return f"{declared.item.name}({', '.join(values)})" if values else declared.item.name


def _positional(position: int, names: Sequence[str]) -> str | None:
    return names[position] if position < len(names) else None
