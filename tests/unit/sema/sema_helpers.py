"""What the tests of semantic analysis share."""

from __future__ import annotations

import re

from acclc.diagnostics import DiagnosticError
from acclc.ir.problem import Problem, Topology
from acclc.sema import Analysis, analyse_text
from acclc.source import Source

PAIR = "    link l { 1 GB/s, 1 us }\n    gpu g[2]\n    g[0] <-> g[1] : l\n"


def topology_of(text: str, name: str = "", **options: object) -> Topology:
    """Return the topology of that name (default: the last) that a text declares or uses."""
    topologies = analyse_text(text, **options).topologies  # type: ignore[arg-type]
    return next((t for t in topologies if t.name == name), topologies[-1])


def problem_of(text: str) -> Problem:
    """Return the one problem of a text."""
    (problem,) = analyse_text(text).problems
    return problem


def codes_of(text: str, **options: object) -> list[str]:
    """Return the codes of all diagnostics of a text, in order; warnings too."""
    try:
        return [d.code for d in analyse_text(text, **options).warnings]  # type: ignore[arg-type]
    except DiagnosticError as error:
        return [d.code for d in error.diagnostics]


def named_links(topology: Topology) -> dict[tuple[str, str, str], int]:
    """Return the count of each link by (source, destination, class), by name."""
    names = [node.name for node in topology.nodes]
    return {(names[x.src], names[x.dst], x.cls.name): x.count for x in topology.links}


def files(**texts: str) -> object:
    """Return a reader of imports that knows ``NAME.accl`` for every keyword."""

    def read(target: str, importer: Source) -> Source:
        name = re.sub(r"\.accl$", "", target)
        if name not in texts:
            raise FileNotFoundError(2, "No such file or directory")
        return Source(target, texts[name])

    return read


__all__ = ["PAIR", "Analysis", "codes_of", "files", "named_links", "problem_of", "topology_of"]
