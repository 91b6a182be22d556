"""Throughput: what packings of trees reach beside the proven optimum, how deep they are, and how fast they are found.

    python benchmarks/throughput.py [--quick] [--json FILE]

Three tables. Packings: as they are, with the ranks renumbered, and with a link lost. all_reduce: collecting and
spreading at the same time beside one after the other, the linear program's optimum, and the bounds by a cut and by a
partition. Machines with several fabrics: all of them at the same time beside the best one alone.

Optimum and achieved are in rounds a chunk, as exact fractions: the first from the certified bound, the second from
what the verifier counts in the transfers. Seconds are of the packing alone (switches, shares of links, trees, its own
check), by the wall clock on one core; the bound is known before, and OR-Tools imported.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from acclc import sema
from acclc.bounds import UnreachableError, bound
from acclc.bounds.compute import candidates
from acclc.bounds.families import Family
from acclc.bounds.loads import value
from acclc.bounds.rates import rate
from acclc.driver import Options, analyse, read_source
from acclc.fabrics import parts
from acclc.ir.problem import Collective, LinkId, Problem
from acclc.ir.result import Certificate, Cut, Partition
from acclc.solve.packing import packed_schedule
from acclc.source import Source
from acclc.syntax import parse
from acclc.verify import check_schedule

PEER_NOTE = (
    "Peer: ForestColl's published Python, exact trees, measured by this project's founders on two cores of another day "
    "(within a factor of two; it is in no package index). '-': no figure."
)
A100 = """
topology box {{
    link nv {{ 300 GB/s, 0.35 us }}
    gpu g[8]
    switch sw
    g <-> sw : nv
}}
topology cluster {{
    link ib {{ 25 GB/s, 2.5 us }}
    box box[{boxes}]
    switch rail[8]
    for b in 0..<{boxes}, r in 0..<8 {{ box[b].g[r] <-> rail[r] : ib }}
}}
{collective} on cluster
"""
MI250 = """
topology cluster {{
    link ib {{ 16 GB/s, 2.5 us }}
    mi250 box[{boxes}]
    switch fabric
    for b in 0..<{boxes}, r in 0..<16 {{ box[b].g[r] <-> fabric : ib }}
}}
{collective} on cluster
"""


def star(*capacities: int) -> str:
    """GPUs at one switch, each with a capacity of its own, in GB/s."""
    links = "".join(f"    link l{n} {{ {c} GB/s, 1 us }}\n    g[{n}] <-> sw : l{n}\n" for n, c in enumerate(capacities))
    return f"topology s {{\n    gpu g[{len(capacities)}]\n    switch sw\n{links}}}\nall_reduce on s\n"


def boxes(*ports: tuple[int, int]) -> str:
    """Four GPUs a box, at a switch of its own and at a common one, with capacities in GB/s."""
    lines = [f"    gpu g[{4 * len(ports)}]", f"    switch sw[{len(ports)}]", "    switch ib"]
    for n, (inner, outer) in enumerate(ports):
        lines.append(f"    link n{n} {{ {inner} GB/s, 1 us }}\n    link i{n} {{ {outer} GB/s, 2 us }}")
        lines += [f"    g[{g}] <-> sw[{n}] : n{n}\n    g[{g}] <-> ib : i{n}" for g in range(4 * n, 4 * n + 4)]
    return "topology b {\n" + "\n".join(lines) + "\n}\nall_reduce on b\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A problem in the language; the bar and the peer's figure in seconds. ``copies``: also renumbered, and damaged."""

    name: str
    text: str
    bar_s: float | None = None
    peer_s: str = "-"
    quick: bool = True
    copies: bool = False


def a100(boxes: int, collective: str = "all_gather") -> str:
    """A cluster of DGX A100."""
    return A100.format(boxes=boxes, collective=collective)


def mi250(boxes: int, collective: str = "all_gather") -> str:
    """A cluster of MI250 boxes."""
    return MI250.format(boxes=boxes, collective=collective)


PACKINGS = (
    Case("dgx1 all_gather", "all_gather on dgx1", 0.5, "0.2", copies=True),
    Case("dgx1 reduce_scatter", "reduce_scatter on dgx1"),
    Case("dgx1 all_reduce", "all_reduce on dgx1", copies=True),
    Case("dgx1 broadcast", "broadcast on dgx1 { root g[0] }"),
    Case("dgx1 reduce", "reduce on dgx1 { root g[0] }"),
    Case("ring of 8 all_gather", "all_gather on ring(n = 8)", copies=True),
    Case("torus 4 x 4 all_gather", "all_gather on torus(a = 4, b = 4)", 1.0, "1.0", copies=True),
    Case("hypercube 16 all_gather", "all_gather on hypercube(d = 4)", copies=True),
    Case("dgx_a100 all_gather", "all_gather on dgx_a100"),
    Case("mi250 all_gather", "all_gather on mi250", 30.0, "3.7", copies=True),
    Case("dgx_a100 x2 all_gather", a100(2), 0.5, "25.8", copies=True),
    Case("dgx_a100 x2 all_reduce", a100(2, "all_reduce"), 1.0),
    Case("dgx_a100 x4 all_gather", a100(4), 2.0, copies=True),
    Case("mi250 x2 all_gather", mi250(2), 2.0, "278", copies=True),
    Case("dgx_a100 x8 all_gather", a100(8), 5.0, quick=False, copies=True),
    Case("mi250 x4 all_gather", mi250(4), 5.0, quick=False, copies=True),
    Case("dgx_a100 x16 all_gather", a100(16), 20.0, quick=False, copies=True),
    Case("mi250 x8 all_gather", mi250(8), 20.0, quick=False),
    Case("dgx_a100 x32 all_gather", a100(32), 60.0, quick=False),
    Case("mi250 x16 all_gather", mi250(16), 60.0, quick=False),
)
REDUCTIONS = (
    Case("dgx1", "all_reduce on dgx1", 10.0),
    Case("mi250", "all_reduce on mi250", 10.0),
    Case("dgx_a100 x2", a100(2, "all_reduce"), 10.0),
    Case("mi250 x2", mi250(2, "all_reduce"), 60.0),
    Case("star 100, 7 x 10", star(100, *[10] * 7)),
    Case("star 40, 7 x 10", star(40, *[10] * 7)),
    Case("star 2 x 20, 6 x 10", star(20, 20, *[10] * 6)),
    Case("boxes at 50, 25, 12", boxes((300, 50), (300, 25), (100, 12))),
)
EXAMPLES = Path(__file__).parent.parent / "examples"
FABRICS = ("hetero_box", "hetero_cluster")
"""Examples: machines with several fabrics."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What a packing of a problem came to. ``optimum``, ``achieved``: rounds a chunk."""

    case: str
    ranks: int
    optimum: str
    achieved: str
    right: bool
    """Verified, and at the optimum."""
    k: int
    trees: int
    depth: int
    seconds: float
    bar_s: float | None = None
    peer_s: str = "-"


@dataclass(frozen=True, slots=True)
class Reduction:
    """An all_reduce: times a byte of the vector, in units of 1 ns."""

    case: str
    in_turn: float
    program: float
    cut: float
    partition: float
    achieved: float
    gain: float
    """How much faster than halves in turn."""
    right: bool
    bound_seconds: float
    """Of the linear program and all bounds."""
    seconds: float
    bar_s: float | None = None


@dataclass(frozen=True, slots=True)
class Fabrics:
    """A machine with several kinds of links: what all of them reach, and the best kind alone; GB/s of one shard."""

    case: str
    ranks: int
    bound: float
    achieved: float
    right: bool
    best_alone: str
    alone: float
    gain: float
    busy: str
    """The greatest use of a link of each kind, as a part of its capacity."""
    seconds: float


def main() -> int:
    """Print the tables and write them; exit code 1 if anything does not verify or misses its optimum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only what takes a few seconds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    packed_schedule(problem(PACKINGS[0].text))  # loads OR-Tools
    tables: dict[str, list[Any]] = {
        "packings": table(_packings(arguments.quick)),
        "all_reduce": table(map(reduction, REDUCTIONS)),
        "fabrics": table(row for name in FABRICS for row in fabrics(name)),
    }
    print(PEER_NOTE)
    if arguments.json:
        machine = {"machine": platform.platform(), "python": platform.python_version(), "note": PEER_NOTE}
        rows = {name: [asdict(row) for row in found] for name, found in tables.items()}
        arguments.json.write_text(json.dumps({**machine, **rows}, indent=1) + "\n")
    every = [row for found in tables.values() for row in found]
    wrong = sum(not row.right for row in every)
    print(f"{len(every)} rows, {wrong} not verified or not at the optimum")
    return 1 if wrong else 0


def table(rows: Iterator[Any]) -> list[Any]:
    """Print rows as they come, under their fields' names; return them."""
    found: list[Any] = []
    for row in rows:
        cells = {name: _cell(value) for name, value in asdict(row).items()}
        if not found:
            print("\n" + _line({name: name for name in cells}))
        print(_line(cells), flush=True)
        found.append(row)
    return found


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


WIDE = {"case": 36, "busy": 48, "best_alone": 17}


def _line(cells: dict[str, str]) -> str:
    widths = {name: WIDE.get(name, max(len(name), 8)) for name in cells}
    return " ".join(f"{cell:{'<' if name in WIDE else '>'}{widths[name]}}" for name, cell in cells.items()).rstrip()


def problem(text: str) -> Problem:
    """Return the only problem of a text."""
    (found,) = sema.analyse(parse(Source("<benchmark>", text))).problems
    return found


def _packings(quick: bool) -> Iterator[Packed]:
    for case in PACKINGS:
        if quick and not case.quick:
            continue
        whole = problem(case.text)
        yield packing(case.name, whole, case.bar_s, case.peer_s)
        if case.copies:
            yield packing(f"  renumbered, seed {SEED}", renumbered(whole, SEED), case.bar_s)
            damaged, lost = without_a_link(whole, SEED)
            yield packing(f"  without {lost}", damaged, case.bar_s)


SEED = 1


def renumbered(whole: Problem, seed: int) -> Problem:
    """The same machine with its GPUs in another order."""
    topology, rng = whole.topology, random.Random(seed)
    gpus = len(topology.ranks)
    new = [*rng.sample(range(gpus), gpus), *range(gpus, len(topology.nodes))]
    links = (replace(e, src=topology.nodes[new[e.src]].id, dst=topology.nodes[new[e.dst]].id) for e in topology.links)
    return replace(whole, topology=replace(topology, links=tuple(links)))


def without_a_link(whole: Problem, seed: int) -> tuple[Problem, str]:
    """The same machine without one link, both ways, that is not the only way to somewhere."""
    topology, rng = whole.topology, random.Random(seed)
    for lost in rng.sample(topology.links, len(topology.links)):
        kept = [e for e in topology.links if {e.src, e.dst} != {lost.src, lost.dst}]
        links = tuple(replace(e, id=LinkId(n)) for n, e in enumerate(kept))
        damaged = replace(whole, topology=replace(topology, links=links))
        try:
            bound(damaged)
        except UnreachableError:
            continue
        return damaged, f"{topology.nodes[lost.src].name} - {topology.nodes[lost.dst].name}"
    raise ValueError(f"every link of {topology.name} is the only way to somewhere")


def packing(name: str, task: Problem, bar_s: float | None, peer_s: str = "-") -> Packed:
    """Pack by the clock; bound and verification are outside it."""
    least = bound(task)
    started = time.perf_counter()
    packed = packed_schedule(task, bound=least.throughput.time_per_byte)
    seconds = time.perf_counter() - started
    if packed.schedule is None:
        sys.exit(f"{name}: {packed.reason}")
    report = check_schedule(task, packed.schedule)
    achieved = None if report.facts is None else report.facts.rounds_per_chunk
    return Packed(
        case=name,
        ranks=len(task.topology.ranks),
        optimum=str(least.rounds_per_chunk),
        achieved=str(achieved),
        right=report.ok and achieved == least.rounds_per_chunk,
        k=max(p.k for p in packed.packings),
        trees=max(len(p.trees) for p in packed.packings),
        depth=packed.schedule.steps,
        seconds=round(seconds, 4),
        bar_s=bar_s,
        peer_s=peer_s,
    )


def reduction(case: Case) -> Reduction:
    """Collecting and spreading at the same time, and one after the other."""
    task = problem(case.text)
    ranks = len(task.topology.ranks)
    halves = [replace_collective(case.text, c) for c in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)]
    in_turn = sum(bound(half).throughput.time_per_byte for half in halves) / ranks
    started = time.perf_counter()
    program = 1 / rate(task, Family.BOTH)
    proven: dict[type[Certificate], Fraction] = {}
    for certificate in candidates(task):
        kind = type(certificate)
        proven[kind] = max(proven.get(kind, Fraction(0)), value(task, certificate))
    bounds_took = time.perf_counter() - started
    started = time.perf_counter()
    packed = packed_schedule(task, bound=max(proven.values()))
    seconds = time.perf_counter() - started
    assert packed.schedule is not None, packed.reason
    report = check_schedule(task, packed.schedule)
    achieved = Fraction(0) if report.facts is None else report.facts.time_per_shard_byte
    nano = 10**9
    return Reduction(
        case=case.name,
        in_turn=float(in_turn * nano),
        program=program * nano,
        cut=float(proven.get(Cut, Fraction(0)) * nano),
        partition=float(proven.get(Partition, Fraction(0)) * nano),
        achieved=float(achieved * nano),
        gain=float(in_turn / achieved) if achieved else 0.0,
        right=report.ok and achieved == max(proven.values()) and abs(float(achieved) / program - 1) < 1e-6,
        bound_seconds=bounds_took,
        seconds=seconds,
        bar_s=case.bar_s,
    )


def replace_collective(text: str, collective: Collective) -> Problem:
    """The same machine with another collective."""
    return problem(text.replace("all_reduce on", f"{collective.value} on"))


def fabrics(name: str) -> Iterator[Fabrics]:
    """All fabrics of a machine, and the best of them alone."""
    for task in analyse(read_source(EXAMPLES / f"{name}.accl"), Options()).problems:
        least = bound(task).throughput.time_per_byte
        started = time.perf_counter()
        packed = packed_schedule(task, bound=least)
        seconds = time.perf_counter() - started
        assert packed.schedule is not None, packed.reason
        report = check_schedule(task, packed.schedule)
        achieved = Fraction(0) if report.facts is None else report.facts.time_per_shard_byte
        able = [p for p in parts(task) if p.time_per_byte is not None]
        fewest = min((len(p.kinds) for p in able if p.single), default=0)
        best = min((p for p in able if p.single or not fewest), key=lambda p: p.time_per_byte or 0)
        kind, alone = best.name, best.time_per_byte
        load = [Fraction(0)] * len(task.topology.links)
        for t in packed.schedule.transfers:
            for e in t.path:
                load[e] += packed.schedule.chunks[t.chunk].weight
        use: dict[str, Fraction] = {}
        for e in task.topology.links:
            use[e.cls.kind] = max(use.get(e.cls.kind, Fraction(0)), load[e.id] / e.capacity / achieved)
        yield Fabrics(
            case=f"{name}: {task.collective}",
            ranks=len(task.topology.ranks),
            bound=float(1 / least / 10**9),
            achieved=float(1 / achieved / 10**9),
            right=report.ok and achieved == least,
            best_alone=kind,
            alone=float(1 / alone / 10**9) if alone else 0.0,
            gain=float(alone / achieved) if alone else float("inf"),
            busy=", ".join(f"{kind} {float(part):.0%}" for kind, part in sorted(use.items())),
            seconds=seconds,
        )


if __name__ == "__main__":
    sys.exit(main())
