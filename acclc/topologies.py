"""Topologies for the command line: loaded, imported, joined, shown."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acclc import recognise
from acclc.facts import drawing, facts_of
from acclc.importers import Imported, import_machine, source_of, text_of, topology_name
from acclc.ir.problem import NodeKind, Topology
from acclc.source import Source


@dataclass(frozen=True, slots=True)
class Import:
    """How to import: ``--set`` options, the format, the name of the topology."""

    settings: tuple[str, ...] = ()
    format: str = "auto"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """An import and its text."""

    imported: Imported
    name: str
    text: str

    def summary(self) -> dict[str, Any]:
        """What ``--json`` prints of it."""
        nodes = self.imported.nodes
        return {
            "format": self.imported.format,
            "name": self.name,
            "ranks": sum(n.kind is NodeKind.GPU for n in nodes),
            "switches": sum(n.kind is NodeKind.SWITCH for n in nodes),
            "hosts": sum(n.kind is NodeKind.HOST for n in nodes),
            "nics": sum(n.kind is NodeKind.NIC for n in nodes),
            "links": sum(link.count for link in self.imported.links),
            "notes": [{"evidence": n.evidence.value, "text": n.text} for n in self.imported.notes],
            "diagnostics": [d.to_dict() for d in self.imported.warnings],
        }

    def in_words(self) -> str:
        """``8 GPUs, 4 network cards, ... (the output of nvidia-smi topo -m)``."""
        counts = self.summary()
        names = {
            "ranks": ("GPU", "GPUs"),
            "switches": ("switch", "switches"),
            "nics": ("network card", "network cards"),
        }
        words = [f"{counts[k]} {w[counts[k] != 1]}" for k, w in names.items() if counts[k]]
        return f"{', '.join(words)} ({self.imported.format})"


def import_file(file: Path, with_: Path | None, how: Import) -> Done:
    """Import a file (``-`` is standard input). Raises DiagnosticError, OSError."""
    from acclc import library

    stdin = str(file) == "-"
    data = sys.stdin.buffer.read() if stdin else file.read_bytes()
    source = source_of(data, "<stdin>" if stdin else str(file))
    beside = None if with_ is None else source_of(with_.read_bytes(), str(with_))
    imported = import_machine(source, how.settings, how.format, beside)
    name = topology_name(how.name or ("machine" if stdin else file.stem), library.names())
    return Done(imported, name, text_of(imported, name, "standard input" if stdin else file.name))


def discover_here(settings: tuple[str, ...], name: str, cores: bool = False, root: Path = Path("/")) -> Done:
    """Look at this machine: its GPUs, or without any (or with ``cores``) its CPU cores. Raises DiagnosticError."""
    from acclc import library
    from acclc.machines.discover import discover
    from acclc_runtime.devices import import_pynvml, read_inventory
    from acclc_runtime.errors import BackendUnavailableError

    inventory = None
    if not cores:
        try:
            inventory = read_inventory(import_pynvml())
        except BackendUnavailableError:
            inventory = None
    found = discover(root, inventory, settings)
    chosen = topology_name(name, library.names())
    return Done(found, chosen, text_of(found, chosen, f"the machine {platform.node() or 'here'}"))


@dataclass(frozen=True, slots=True)
class Probe:
    """How to measure: ``engine`` cpu, mpi or cupy; ``ranks`` of the CPU (None: a core each); bytes, repetitions."""

    engine: str = "cpu"
    ranks: int | None = None
    size: int = 4 << 20
    repeats: int = 12


def probe_here(how: Probe, name: str) -> tuple[Done, list[str]] | None:
    """Measure this machine; None on the ranks of MPI that only serve. With the outliers, in words.

    Raises:
        ProbeError: it cannot be measured; says why.
    """
    from acclc import library
    from acclc.machines import probe

    def done(engine: probe.Engine) -> tuple[Done, list[str]]:
        sizes = tuple(sorted({8, *(how.size >> shift for shift in (6, 4, 2, 0) if how.size >> shift > 8)}))
        measured = probe.measure(engine, sizes, how.repeats)
        found = probe.machine(engine, measured)
        chosen = topology_name(name, library.names())
        text = text_of(found, chosen, f"a measurement of {platform.node() or 'this machine'}")
        return Done(found, chosen, text), probe.outliers(measured)

    match how.engine:
        case "mpi":
            from acclc.machines.engine_mpi import MpiEngine, serve, world

            comm = world()
            if comm.Get_rank() != 0:
                serve(comm)
                return None
            with MpiEngine(comm) as mpi:
                return done(mpi)
        case "cupy":
            from acclc.machines.engine_cupy import CupyEngine, import_cupy

            with CupyEngine(import_cupy(), how.size) as cupy:
                return done(cupy)
        case _:
            from acclc.machines.engine_cpu import CpuEngine

            cores = _cores(how.ranks)
            with CpuEngine(cores, how.size) as cpu:
                return done(cpu)


def _cores(ranks: int | None) -> list[int]:
    """One logical CPU of each core; more ranks than cores go round."""
    import os

    from acclc.machines import sysfs

    found = sysfs.cpus(Path("/"), os.sched_getaffinity(0))
    cores = list({(c.socket, c.numa, c.core): c.number for c in reversed(found)}.values())[::-1]
    return cores if ranks is None else [cores[n % len(cores)] for n in range(ranks)]


def join_file(box: Path, target: str, hosts: int, fabric: str, wanted: str | None, settings: tuple[str, ...]) -> str:
    """Return the text of a cluster of the topology of a file. Raises DiagnosticError, OSError."""
    from acclc.importers.join import choose, join_text
    from acclc.sema import analyse
    from acclc.syntax import ast, parse, read_source

    tree = parse(read_source(box))
    own = [i.name for i in tree.items if isinstance(i, ast.TopologyDecl | ast.TopologyAlias)]
    chosen = choose(analyse(tree).topologies, wanted, own)
    return join_text(chosen, target, hosts, fabric, settings)


def load(what: str) -> tuple[Topology, ...]:
    """Return the topologies of a file of the language or of a foreign format, or one of the library.

    Raises:
        DiagnosticError: with what is wrong.
    """
    from acclc.sema import topology_named
    from acclc.syntax import read_source

    path = Path(what)
    if path.suffix == ".accl":
        return _of_language(read_source(path))
    if not path.is_file():
        return (topology_named(what),)
    done = import_file(path, None, Import())
    return _of_language(Source(f"<{path.name}>", done.text))


def _of_language(source: Source) -> tuple[Topology, ...]:
    from acclc.sema import analyse
    from acclc.syntax import ast, parse

    tree = parse(source)
    names = {i.name for i in tree.items if isinstance(i, ast.TopologyDecl | ast.TopologyAlias)}
    found = analyse(tree).topologies
    return tuple(t for t in found if t.name in names) or found


def words(topology: Topology) -> str:
    """Return what ``acclc topo show`` prints of one topology."""
    from acclc.ir.text import topology_text

    found = facts_of(topology)
    lines = [f"  {fact}" for fact in found.facts] + [f"  warning: {text}" for text in found.warnings]
    lines += [f"  {text}" for text in _matches(topology)]
    picture = drawing(topology)
    return f"{topology_text(topology)}\n{picture}\nfacts\n" + "".join(f"{line}\n" for line in lines)


def picture(topology: Topology) -> str:
    """Return a picture of a topology as SVG."""
    from acclc.view.picture import topology_svg

    return topology_svg(topology)


def _matches(topology: Topology) -> list[str]:
    matches = recognise.recognise(topology)
    if not matches:
        return ["no topology of the library is like it"]
    best = matches[0]
    lines = [f"{_what(best)} the library's {best.name}{'' if best.same_rates else ', at other rates'}"]
    names = [topology.nodes[r].name for r in best.ranks]
    if list(best.ranks) == list(range(len(best.ranks))):
        lines.append(f"  rank i of {best.name} is its rank i: the same numbering")
    else:
        lines.append(f"  ranks 0 to {len(names) - 1} of {best.name} are {', '.join(names)}")
    if matches[1:]:
        lines.append(f"  wired like it: {', '.join(m.name for m in matches[1:])}")
    return lines


def _what(match: recognise.Match) -> str:
    return f"its {match.kinds[0]} links are" if match.kinds else "it is"


def to_dict(topology: Topology) -> dict[str, Any]:
    """What ``acclc topo show --json`` prints of one topology."""
    found = facts_of(topology)
    return {
        "name": topology.name,
        "ranks": len(topology.ranks),
        "nodes": [{"name": n.name, "kind": n.kind.value} for n in topology.nodes],
        "links": [
            {
                "from": topology.nodes[e.src].name,
                "to": topology.nodes[e.dst].name,
                "count": e.count,
                "class": e.cls.name,
                "GBps": float(e.cls.bandwidth) / 1e9,
                "us": float(e.cls.latency) * 1e6,
            }
            for e in topology.links
        ],
        "facts": list(found.facts),
        "warnings": list(found.warnings),
        "library": [
            {"name": m.name, "ranks": list(m.ranks), "kinds": list(m.kinds), "same_rates": m.same_rates}
            for m in recognise.recognise(topology)
        ],
    }
