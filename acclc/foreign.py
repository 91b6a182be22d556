"""Other engines' files of schedules: checked as they are, and brought into the compiler's own levels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from acclc import __version__
from acclc.artefact import Artefact, CompiledCollective, Proof
from acclc.audit import Row
from acclc.diagnostics import Diagnostic, DiagnosticError
from acclc.importers import source_of
from acclc.importers.msccl_schedule import connections, schedule_of
from acclc.importers.msccl_xml import read_algorithm
from acclc.importers.mscclpp_json import read_plan
from acclc.ir.msccl import MscclAlgorithm
from acclc.ir.mscclpp import Plan
from acclc.ir.problem import (
    Collective,
    Demand,
    Link,
    LinkClass,
    LinkId,
    Node,
    NodeId,
    NodeKind,
    Op,
    Problem,
    Rank,
    Topology,
)
from acclc.ir.result import Solution, Status
from acclc.source import Source
from acclc.verify import Finding
from acclc.verify.msccl import TARGETS, AlgorithmFacts, check_algorithm, check_limits, check_text
from acclc.verify.mscclpp import check_plan

COLLECTIVES = {
    "allgather": Collective.ALL_GATHER,
    "reducescatter": Collective.REDUCE_SCATTER,
    "allreduce": Collective.ALL_REDUCE,
    "broadcast": Collective.BROADCAST,
    "reduce": Collective.REDUCE,
    "gather": Collective.GATHER,
    "scatter": Collective.SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
}


def is_foreign(path: Path) -> bool:
    """Whether a path is a file, and so no artefact of ours, which is a folder."""
    return path.is_file()


def read_source(path: Path) -> Source:
    """Read a file. Raises DiagnosticError or OSError."""
    return source_of(path.read_bytes(), str(path))


def _first(source: Source) -> str:
    return source.text.lstrip("\ufeff \t\r\n")[:1]


def _algorithm(source: Source) -> MscclAlgorithm:
    if _first(source) != "<":
        words = f"{source.name} is neither an artefact (a folder) nor an algorithm of MSCCL (XML)"
        help = "`acclc compile` makes an artefact of a file of the language"
        raise DiagnosticError(Diagnostic("import-unknown-format", words, help=help))
    return read_algorithm(source)


def audit_file(path: Path, target: str | None) -> list[Row]:
    """Check an algorithm of MSCCL (XML) or a plan of MSCCL++ (JSON) by its meaning and by what engines demand.

    What an engine refuses is an error where that engine is the ``target``, else a warning.

    Raises:
        DiagnosticError: the file is neither.
    """
    source = read_source(path)
    if _first(source) == "{":
        return [_plan_row(read_plan(source))]
    algorithm = _algorithm(source)
    report = check_algorithm(algorithm)
    rows = [Row(f"{algorithm.collective} on {algorithm.ranks} ranks", report.findings, _words(report.facts))]
    strict = target is not None
    rows.append(Row("text as the engines read it", _judged(check_text(source.text).findings, strict)))
    for name, engine in TARGETS.items():
        findings = _judged(check_limits(algorithm, engine).findings, name == target)
        rows.append(Row(f"limits of {engine.name}", findings, "" if findings else "within all"))
    return rows


def _judged(findings: Iterable[Finding], strict: bool) -> tuple[Finding, ...]:
    return tuple(Finding(f.code, f.message, f.where, f.warning or not strict) for f in findings)


def _words(facts: AlgorithmFacts | None) -> str:
    if facts is None:
        return ""
    root = "" if facts.root is None else f", root {facts.root}"
    return (
        f"right {' and '.join(facts.modes)}{root}; {facts.messages} messages, at most {facts.blocks} blocks a rank"
        f" of {facts.steps} steps"
    )


def _plan_row(plan: Plan) -> Row:
    report = check_plan(plan)
    facts, figure = report.facts, ""
    if facts is not None:
        root = "" if facts.root is None else f", root {facts.root}"
        mode = "in place" if plan.inplace else "out of place"
        figure = (
            f"{mode}{root}; {facts.signals} signals, at most {facts.blocks} blocks a rank of {facts.operations} ops"
        )
    return Row(f"{plan.collective} on {len(plan.gpus)} ranks", report.findings, figure)


def read_imported(path: Path) -> MscclAlgorithm:
    """Read an algorithm that is to be run. Raises DiagnosticError where the file is none."""
    source = read_source(path)
    if _first(source) == "{":
        words = (
            f"{path}: only algorithms of MSCCL (XML) are run, shown and simulated; a plan of MSCCL++ can be verified"
        )
        raise DiagnosticError(Diagnostic("import-unknown-format", words))
    return _algorithm(source)


def artefact_of(path: Path, topology: Topology | None) -> Artefact:
    """Bring an algorithm of MSCCL onto a topology and through all levels of the compiler.

    Without a ``topology`` its own connections are taken for links, all alike.

    Raises:
        DiagnosticError: the file is no algorithm, is not right, or does not fit the topology.
    """
    from acclc.bounds import bound
    from acclc.driver import demand_verified, lower
    from acclc.simulate import size_ranges
    from acclc.verify import check_problem, check_schedule

    algorithm = read_imported(path)
    report = check_algorithm(algorithm)
    if not report.ok or report.facts is None:
        words = f"`acclc verify` finds the algorithm wrong: {report.errors[0]}"
        raise DiagnosticError(Diagnostic("import-contradiction", words))
    machine = topology if topology is not None else _machine(algorithm)
    problem = problem_of(algorithm, machine, report.facts.root, _python_name(algorithm.name))
    demand_verified(problem, "problem", check_problem(problem))
    schedule = schedule_of(algorithm, problem, _paths(algorithm, machine))
    demand_verified(problem, "schedule", check_schedule(problem, schedule))
    (sizes,) = size_ranges(problem, [schedule])
    variant = lower(problem, Solution(schedule), sizes)
    notes: tuple[str, ...] = ("imported: nothing was searched",)
    if topology is None:
        notes += ("the topology is made of the algorithm's connections, 25 GB/s a channel: times mean nothing",)
    proof = Proof(bound(problem), Status.FEASIBLE, (), complete=False, reproducible=True, notes=notes)
    collective = CompiledCollective(problem.without_spans(), proof, (variant,))
    return Artefact(_python_name(path.stem), f"acclc {__version__}", (collective,))


def problem_of(algorithm: MscclAlgorithm, machine: Topology, root: int | None, name: str) -> Problem:
    """Return what an algorithm is for. Raises DiagnosticError where the topology has other ranks."""
    from acclc.sema.shards import IN_PLACE, REDUCING, number_shards, sketch

    if len(machine.ranks) != algorithm.ranks:
        words = f"the algorithm is for {algorithm.ranks} ranks, `{machine.name}` has {len(machine.ranks)}"
        raise DiagnosticError(Diagnostic("import-contradiction", words))
    collective = COLLECTIVES[algorithm.collective]
    op = Op.SUM if collective in REDUCING else None
    in_place = IN_PLACE.get(collective)
    demand = Demand(collective, machine.ranks, None if root is None else Rank(root), op)
    if in_place is not None:
        demand = Demand(collective, machine.ranks, demand.root, op, in_place)
    shards = number_shards([(0, s) for s in sketch(demand, lambda r: machine.nodes[r].name)])
    return Problem(name, machine, collective, (demand,), shards)


def _machine(algorithm: MscclAlgorithm) -> Topology:
    """The connections as links, one lane for each channel."""
    cls = LinkClass("connection", Fraction(25 * 10**9), Fraction(7, 10**7))
    nodes = tuple(Node(NodeId(i), f"g[{i}]", NodeKind.GPU) for i in range(algorithm.ranks))
    links = tuple(
        Link(LinkId(i), NodeId(a), NodeId(b), count, cls)
        for i, ((a, b), count) in enumerate(connections(algorithm).items())
    )
    return Topology("connections", nodes, links)


def _paths(algorithm: MscclAlgorithm, machine: Topology) -> dict[tuple[Rank, Rank], tuple[LinkId, ...]]:
    """Return the shortest way over no other GPU for each connection."""
    leaving: dict[int, list[Link]] = {}
    for link in machine.links:
        leaving.setdefault(link.src, []).append(link)
    paths: dict[tuple[Rank, Rank], tuple[LinkId, ...]] = {}
    for src in sorted({a for a, _ in connections(algorithm)}):
        ways: dict[int, tuple[LinkId, ...]] = {src: ()}
        queue = deque([src])
        while queue:
            node = queue.popleft()
            if node != src and machine.nodes[node].kind is NodeKind.GPU:
                continue
            for link in leaving.get(node, []):
                if link.dst not in ways:
                    ways[link.dst] = (*ways[node], link.id)
                    queue.append(link.dst)
        for a, b in connections(algorithm):
            if a == src and b not in ways:
                words = (
                    f"the algorithm sends from rank {a} to rank {b}; `{machine.name}` joins them by no link or switch"
                )
                raise DiagnosticError(Diagnostic("import-contradiction", words))
            if a == src:
                paths[(Rank(a), Rank(b))] = ways[b]
    return paths


def _python_name(name: str) -> str:
    cleaned = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return cleaned if cleaned[:1].isalpha() else f"a_{cleaned}"
